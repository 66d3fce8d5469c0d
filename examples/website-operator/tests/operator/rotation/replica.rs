//! A replica of the operator, in a task of its own, with ports of its own.

use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use website_operator::run::manager;
use windlass::manager::{ManagerError, Options};
use windlass_testing::testserver::{TestServer, free_port};

use crate::rotation::balancer::Backend;

/// How long certificates are valid.
const LIFETIME: Duration = Duration::from_secs(30);

/// What all replicas have in common.
pub(crate) struct Deployed<'a> {
    pub(crate) cluster: &'a TestServer,
    pub(crate) namespace: &'a str,
    /// Where the API server calls the webhooks.
    pub(crate) url: &'a str,
}

/// A replica that runs.
pub(crate) struct Replica {
    stop: CancellationToken,
    task: JoinHandle<Result<(), ManagerError>>,
}

/// Addresses at which nobody listens.
pub(crate) fn free_backend() -> Backend {
    let free_address = || (Ipv4Addr::LOCALHOST, free_port().expect("a free port")).into();
    Backend { webhooks: free_address(), probes: free_address() }
}

impl Deployed<'_> {
    pub(crate) fn start(&self, backend: Backend) -> Replica {
        let real = self.cluster.control_plane().expect("a real cluster");
        let config = real.config();
        let manager = manager(self.options(backend), self.namespace)
            .without_logs()
            .connect(move |stack| Ok(stack.connect(config.clone()).expect("a client")));
        let stop = CancellationToken::new();
        let task = TaskTracker::new().spawn(manager.run_until(stop.clone()));
        Replica { stop, task }
    }

    fn options(&self, backend: Backend) -> Options {
        let mut options = Options::default().without_http();
        options.health_probe_bind_address = backend.probes.to_string();
        options.webhook_bind_address = backend.webhooks.to_string();
        options.webhook_url = Some(self.url.to_owned());
        options.webhook_namespace = Some(self.namespace.to_owned());
        options.webhook_cert_lifetime = Some(LIFETIME);
        options.leader_election_namespace = Some(self.namespace.to_owned());
        options
    }
}

impl Replica {
    /// Does what a signal does.
    pub(crate) fn begin_to_stop(&self) {
        self.stop.cancel();
    }

    pub(crate) async fn wait_until_stopped(&mut self) {
        let ended = (&mut self.task).await.expect("it must not panic");
        ended.expect("it must stop without an error");
    }
}
