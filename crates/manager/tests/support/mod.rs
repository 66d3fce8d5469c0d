//! Replicas of an election in one process: each can be cut off from the server, and paused.

#![allow(dead_code, reason = "not every test uses all of it")]

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use kube::client::Body;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::layer::layer_fn;
use tower::{BoxError, Service};
use windlass_informer::{ClientStack, HttpService, ResponseBody};
use windlass_manager::{Elector, ElectorBuilder, Ended, Fence, Leadership, Timing};
use windlass_testkit::apiserver::ApiServer;

/// The Lease.
pub(crate) const NAME: &str = "operator";

/// Short, for servers whose clock cannot be paused.
pub(crate) const QUICK: Timing = Timing {
    lease_duration: Duration::from_secs(3),
    renew_deadline: Duration::from_secs(2),
    retry_period: Duration::from_millis(300),
};

/// One replica: an elector that runs, and the way to the server.
pub(crate) struct Replica {
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) fence: Fence,
    pub(crate) run: JoinHandle<Ended>,
    line: Arc<AtomicU8>,
    is_paused: watch::Sender<bool>,
    stop: CancellationToken,
}

/// What the way to the server does with requests.
pub(crate) const WORKS: u8 = 0;
pub(crate) const FAILS: u8 = 1;
pub(crate) const HANGS: u8 = 2;

/// The way to the server.
struct Line {
    state: Arc<AtomicU8>,
    inner: HttpService,
}

impl Service<Request<Body>> for Line {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match self.state.load(Ordering::Relaxed) {
            WORKS => Box::pin(self.inner.call(request)),
            FAILS => Box::pin(async { Err("no route to the server".into()) }),
            _ => Box::pin(std::future::pending()),
        }
    }
}

impl Replica {
    pub(crate) fn start(tasks: &TaskTracker, server: &ApiServer, identity: &str) -> Self {
        Self::start_with(tasks, server, identity, |builder| builder)
    }

    pub(crate) fn start_with(
        tasks: &TaskTracker,
        server: &ApiServer,
        identity: &str,
        change: impl FnOnce(ElectorBuilder) -> ElectorBuilder,
    ) -> Self {
        let line = Arc::new(AtomicU8::new(WORKS));
        let state = Arc::clone(&line);
        let layer = layer_fn(move |inner| Line { state: Arc::clone(&state), inner });
        let client = ClientStack::new().layer(layer).around(server.service(), "default");
        let builder = Elector::builder(client, "default", NAME).identity(identity);
        Self { line, ..Self::run(tasks, change(builder)) }
    }

    /// Runs an elector whose way to the server always works.
    pub(crate) fn run(tasks: &TaskTracker, builder: ElectorBuilder) -> Self {
        let elector = builder.build().expect("the settings are valid");
        let (leadership, fence) = (elector.leadership(), elector.fence().clone());
        let (stop, is_paused) = (CancellationToken::new(), watch::Sender::new(false));
        let run = pausable(is_paused.subscribe(), elector.run(stop.clone()));
        let run = tasks.spawn(run);
        Self { leadership, fence, run, line: Arc::default(), is_paused, stop }
    }

    pub(crate) async fn wait_until_leading(&mut self) {
        self.leadership.wait_for(Leadership::is_leading).await.expect("the elector lives");
    }

    pub(crate) async fn wait_for_leader(&mut self, identity: &str) {
        let standby = Leadership::Standby { leader: Some(identity.to_owned()) };
        self.leadership.wait_for(|state| *state == standby).await.expect("the elector lives");
    }

    pub(crate) fn set_line(&self, state: u8) {
        self.line.store(state, Ordering::Relaxed);
    }

    /// Makes its process stand still, as SIGSTOP does, or lets it go on.
    pub(crate) fn set_paused(&self, is_paused: bool) {
        self.is_paused.send_replace(is_paused);
    }

    /// `ConfigMaps` through a client whose writes only the leader may send.
    pub(crate) fn fenced(&self, server: &ApiServer) -> Api<ConfigMap> {
        let stack = ClientStack::new().layer(self.fence.clone());
        Api::default_namespaced(stack.around(server.service(), "default"))
    }

    pub(crate) async fn stop(self) -> Ended {
        self.stop.cancel();
        self.run.await.expect("the elector must not panic")
    }
}

/// Polls a future, except while it is paused.
async fn pausable<F: Future>(mut is_paused: watch::Receiver<bool>, future: F) -> F::Output {
    let mut future = pin!(future);
    let mut other = is_paused.clone();
    loop {
        // The sender lives as long as the replica. Without it, nobody can pause the future.
        let goes_on = is_paused.wait_for(|is_paused| !is_paused).await.is_ok();
        let paused = async {
            if !goes_on || other.wait_for(|is_paused| *is_paused).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = paused => {}
            output = &mut future => return output,
        }
    }
}

pub(crate) fn leases(server: &ApiServer) -> Api<Lease> {
    Api::default_namespaced(kube::Client::new(server.service(), "default"))
}

pub(crate) async fn holder(leases: &Api<Lease>) -> String {
    let lease = leases.get(NAME).await.expect("the Lease must be there");
    lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default()
}
