//! Replicas of an election in one process: each can be cut off from the server, and paused.

#![allow(dead_code, reason = "not every test uses all of it")]

pub(crate) mod tls;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use kube::client::Body;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::layer::layer_fn;
use tower::{BoxError, Service};
use windlass_informer::ClientStack;
use windlass_informer::client::{HttpService, ResponseBody};
use windlass_manager::{ElectionEnd, Elector, ElectorBuilder, Fence, Leadership, Timing};
use windlass_testserver::TestServer;
use windlass_testserver::apiserver::ApiServer;

/// The Lease.
pub(crate) const NAME: &str = "operator";

/// Short, for servers whose clock cannot be paused.
pub(crate) const QUICK: Timing = Timing {
    lease_duration: Duration::from_secs(3),
    renew_deadline: Duration::from_secs(2),
    retry_period: Duration::from_millis(300),
};

/// For cases in which a leader must be able to renew: a machine that is busy must not look like a
/// fault.
pub(crate) const REAL: Timing = Timing {
    lease_duration: Duration::from_secs(6),
    renew_deadline: Duration::from_secs(4),
    retry_period: Duration::from_millis(500),
};

/// One replica: an elector that runs, and the way to the server.
pub(crate) struct Replica {
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) fence: Fence,
    pub(crate) run: JoinHandle<ElectionEnd>,
    line: Arc<AtomicU8>,
    is_paused: watch::Sender<bool>,
    stop: CancellationToken,
}

/// What the way to the server does with requests.
pub(crate) const WORKS: u8 = 0;
pub(crate) const FAILS: u8 = 1;
pub(crate) const HANGS: u8 = 2;
/// Every request takes [`SLOWNESS`] longer.
pub(crate) const IS_SLOW: u8 = 3;

/// Less than half of the renew deadline of [`REAL`], which is the most that a request may take.
pub(crate) const SLOWNESS: Duration = Duration::from_millis(500);

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
            IS_SLOW => {
                let answer = self.inner.call(request);
                Box::pin(async {
                    sleep(SLOWNESS).await;
                    answer.await
                })
            }
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
        let connect = |stack: ClientStack| stack.around(server.service(), "default");
        Self::connected(tasks, connect, "default", |builder| change(builder.identity(identity)))
    }

    /// On either cluster, in this namespace, with the timing [`REAL`].
    pub(crate) fn on(
        tasks: &TaskTracker,
        cluster: &TestServer,
        namespace: &str,
        change: impl FnOnce(ElectorBuilder) -> ElectorBuilder,
    ) -> Self {
        let connect = |stack: ClientStack| match (cluster.server(), cluster.control_plane()) {
            (Some(server), _) => stack.around(server.service(), namespace),
            (None, Some(real)) => stack.connect(real.config()).expect("a client"),
            (None, None) => unreachable!("a cluster is one of the two"),
        };
        Self::connected(tasks, connect, namespace, |builder| change(builder.timing(REAL)))
    }

    /// Runs an elector whose way to the server can be [cut](Self::set_line).
    fn connected(
        tasks: &TaskTracker,
        connect: impl FnOnce(ClientStack) -> kube::Client,
        namespace: &str,
        change: impl FnOnce(ElectorBuilder) -> ElectorBuilder,
    ) -> Self {
        let line = Arc::new(AtomicU8::new(WORKS));
        let state = Arc::clone(&line);
        let layer = layer_fn(move |inner| Line { state: Arc::clone(&state), inner });
        let client = connect(ClientStack::new().layer(layer));
        let builder = change(Elector::builder(client, namespace, NAME));
        Self { line, ..Self::run(tasks, builder) }
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

    pub(crate) async fn stop(self) -> ElectionEnd {
        self.stop.cancel();
        self.run.await.expect("the elector must not panic")
    }
}

/// Lets time pass, and checks all the while that at most one replica may write.
pub(crate) async fn let_pass(fences: &[&Fence], time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        let open = fences.iter().filter(|fence| fence.is_open()).count();
        assert!(open <= 1, "{open} replicas may write");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Whether a replica has led without a break since its leadership was last marked unchanged.
pub(crate) fn led_on(replica: &mut Replica) -> bool {
    let changed = replica.leadership.changed().now_or_never();
    replica.leadership.mark_unchanged();
    changed.is_none() && replica.leadership.borrow().is_leading()
}

pub(crate) async fn patch(leases: &Api<Lease>, patch: Value) {
    let patch = Patch::Merge(patch);
    leases.patch(NAME, &PatchParams::default(), &patch).await.expect("it is patched");
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
