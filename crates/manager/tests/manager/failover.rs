//! A failover to a replica whose caches lag: what its first runs see, and how long they wait.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::layer::layer_fn;
use tower::{BoxError, Service};
use windlass_informer::ClientStack;
use windlass_informer::client::{HttpService, ResponseBody};
use windlass_manager::{Manager, ManagerError, Options};
use windlass_reconciler::{Action, Controller, Error, Reconcile, RunContext, Watch};
use windlass_testserver::apiserver::ApiServer;

const LEASE: &str = "operator";

/// How long a new leader waits for its caches.
const WAIT: Duration = Duration::from_secs(5);

/// Long enough for everything that nobody holds back.
const SETTLED: Duration = Duration::from_secs(1);

/// The requests of a replica, a gate that holds back the events of its watches of Secrets, and one
/// that holds back all that it reads of `ConfigMaps`.
#[derive(Clone)]
struct Line {
    is_open: watch::Sender<bool>,
    has_maps: watch::Sender<bool>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Line {
    fn new() -> Self {
        let (is_open, has_maps) = (watch::Sender::new(true), watch::Sender::new(true));
        Self { is_open, has_maps, requests: Arc::default() }
    }

    fn open(&self) {
        self.is_open.send_replace(true);
    }

    fn shut(&self) {
        self.is_open.send_replace(false);
    }

    /// The metadata lists so far.
    fn metadata_lists(&self) -> Vec<String> {
        self.requests.lock().expect("not poisoned").clone()
    }
}

/// The way of a replica to the server.
struct Gated {
    line: Line,
    inner: HttpService,
}

impl Service<Request<Body>> for Gated {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let accept = request.headers().get("accept").and_then(|accept| accept.to_str().ok());
        if accept.is_some_and(|accept| accept.contains("as=PartialObjectMetadataList")) {
            let mut requests = self.line.requests.lock().expect("not poisoned");
            requests.push(request.uri().path().to_owned());
        }
        let query = request.uri().query().unwrap_or_default();
        let is_held = request.uri().path().ends_with("/secrets") && query.contains("watch=true");
        let is_map = request.uri().path().ends_with("/configmaps");
        let (answer, is_open) = (self.inner.call(request), self.line.is_open.subscribe());
        let mut has_maps = self.line.has_maps.subscribe();
        async move {
            if is_map {
                has_maps.wait_for(|has_maps| *has_maps).await?;
            }
            let answer = answer.await?;
            Ok(if is_held { answer.map(|body| held(body, is_open)) } else { answer })
        }
        .boxed()
    }
}

/// A body whose chunks wait until the gate is open.
fn held(body: ResponseBody, is_open: watch::Receiver<bool>) -> ResponseBody {
    let chunks =
        stream::unfold((body.into_data_stream(), is_open), |(mut body, mut is_open)| async {
            let chunk: Result<Bytes, BoxError> = body.next().await?;
            is_open.wait_for(|is_open| *is_open).await.ok()?;
            Some((chunk.map(Frame::data), (body, is_open)))
        });
    StreamBody::new(chunks).boxed_unsync()
}

/// What a run saw: the Secrets in the cache, and whether it was told that the cache may lag.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    secrets: Vec<String>,
    is_behind: bool,
}

/// Makes a Secret if the cache shows none, each time by a name of its own: so nothing but the cache
/// keeps it from making a second one.
struct Maker {
    name: &'static str,
    runs: mpsc::Sender<Seen>,
}

impl Reconcile<ConfigMap> for Maker {
    async fn reconcile(&self, _: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
        let secrets = cx.list::<Secret>()?;
        let secrets: Vec<_> = secrets.iter().map(|secret| secret.key().name().to_owned()).collect();
        if secrets.is_empty() && !cx.cache_behind() {
            cx.live().create(&secret(self.name)).await?;
        }
        self.runs.send(Seen { secrets, is_behind: cx.cache_behind() }).await?;
        Ok(Action::done())
    }
}

fn secret(name: &str) -> Secret {
    let object = json!({"metadata": {"name": name, "namespace": "default"}});
    serde_json::from_value(object).expect("a Secret")
}

/// A manager that runs.
struct Replica {
    line: Line,
    runs: mpsc::Receiver<Seen>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), ManagerError>>,
}

impl Replica {
    fn start(server: &ApiServer, name: &'static str) -> Self {
        Self::start_on(Line::new(), server, name)
    }

    fn start_on(line: Line, server: &ApiServer, name: &'static str) -> Self {
        let server = server.clone();
        let layers = line.clone();
        let connect = move |stack: ClientStack| -> Result<kube::Client, BoxError> {
            let line = layers.clone();
            let stack = stack.layer(layer_fn(move |inner| Gated { line: line.clone(), inner }));
            Ok(stack.around(server.service(), "default"))
        };
        let (said, runs) = mpsc::channel(100);
        let (stop, maps) =
            (CancellationToken::new(), Controller::named("configmap", Watch::<ConfigMap>::new()));
        let manager = Manager::new(Options::default().without_http())
            .without_logs()
            .connect(connect)
            .leader_election(LEASE)
            .controller(maps.reads(Watch::<Secret>::new()), Maker { name, runs: said });
        let task = TaskTracker::new().spawn(manager.run_until(stop.clone()));
        Self { line, runs, stop, task }
    }

    /// What the next run saw.
    async fn seen(&mut self) -> Seen {
        self.runs.recv().await.expect("it runs")
    }

    /// Ends it as a crash does: the Lease stays.
    async fn crash(self) {
        self.task.abort();
        self.task.await.expect_err("it was aborted");
    }

    async fn end(self) {
        self.stop.cancel();
        self.task.await.expect("no panic").expect("it stops");
    }
}

fn seen(secrets: &[&str], is_behind: bool) -> Seen {
    Seen { secrets: secrets.iter().map(|&name| name.to_owned()).collect(), is_behind }
}

async fn create_map(client: &kube::Client) {
    let object = json!({"metadata": {"name": "one", "namespace": "default"}});
    let map = serde_json::from_value(object).expect("an object");
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    maps.create(&PostParams::default(), &map).await.expect("created");
}

async fn touch_map(client: &kube::Client) {
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let patch = Patch::Merge(json!({"data": {"is": "changed"}}));
    maps.patch("one", &PatchParams::default(), &patch).await.expect("patched");
}

async fn holder(client: &kube::Client) -> Option<String> {
    let leases = Api::<Lease>::default_namespaced(client.clone());
    leases.get(LEASE).await.expect("the Lease").spec?.holder_identity
}

async fn secrets(client: &kube::Client) -> Vec<String> {
    let secrets = Api::<Secret>::default_namespaced(client.clone());
    let all = secrets.list(&ListParams::default()).await.expect("a list");
    all.items.into_iter().filter_map(|secret| secret.metadata.name).collect()
}

/// A replica that has just become the leader, because the one before it has crashed, right after it
/// made a Secret. The watch of Secrets of the new leader has not delivered that one.
async fn failed_over(client: &kube::Client, server: &ApiServer) -> Replica {
    let mut first = Replica::start(server, "first");
    sleep(SETTLED).await;
    let second = Replica::start(server, "second");
    sleep(SETTLED).await;
    second.line.shut();
    create_map(client).await;
    assert_eq!(first.seen().await, seen(&[], false));
    assert_eq!(secrets(client).await, ["first"]);
    let before = holder(client).await;
    first.crash().await;
    while holder(client).await == before {
        sleep(Duration::from_millis(10)).await;
    }
    second
}

#[tokio::test(start_paused = true)]
async fn first_run_of_a_new_leader_waits_until_its_cache_shows_what_the_last_one_made() {
    let server = ApiServer::new();
    let client = kube::Client::new(server.service(), "default");
    let mut second = failed_over(&client, &server).await;
    assert!(timeout(WAIT / 2, second.runs.recv()).await.is_err(), "it waits");
    second.line.open();
    assert_eq!(second.seen().await, seen(&["first"], false));
    assert_eq!(secrets(&client).await, ["first"]);
    second.end().await;
}

#[tokio::test(start_paused = true)]
async fn run_of_a_new_leader_says_that_its_cache_is_behind_until_it_is_not() {
    let server = ApiServer::new();
    let client = kube::Client::new(server.service(), "default");
    let mut second = failed_over(&client, &server).await;
    let led = Instant::now();
    assert_eq!(second.seen().await, seen(&[], true));
    let waited = led.elapsed();
    assert!(waited.abs_diff(WAIT) <= SETTLED, "{waited:?}");
    second.line.open();
    sleep(SETTLED).await;
    touch_map(&client).await;
    assert_eq!(second.seen().await, seen(&["first"], false));
    assert_eq!(secrets(&client).await, ["first"]);
    second.end().await;
}

#[tokio::test(start_paused = true)]
async fn new_leader_whose_caches_are_current_does_not_wait() {
    let server = ApiServer::new();
    let client = kube::Client::new(server.service(), "default");
    let mut first = Replica::start(&server, "first");
    create_map(&client).await;
    first.seen().await;
    let mut second = Replica::start(&server, "second");
    sleep(SETTLED).await;
    let before = holder(&client).await;
    first.crash().await;
    while holder(&client).await == before {
        sleep(Duration::from_millis(10)).await;
    }
    let led = Instant::now();
    assert_eq!(second.seen().await, seen(&["first"], false));
    assert!(led.elapsed() < SETTLED, "{:?}", led.elapsed());
    let mut lists = second.line.metadata_lists();
    lists.sort();
    assert_eq!(lists, ["/api/v1/configmaps", "/api/v1/secrets"]);
    second.end().await;
}

/// In a rolling update, the last leader still writes while the next one fills its caches one after
/// the other. Then it releases the Lease, so the next one leads without having waited for it.
#[tokio::test(start_paused = true)]
async fn replica_that_leads_after_a_release_waits_for_what_the_last_leader_made() {
    let server = ApiServer::new();
    let client = kube::Client::new(server.service(), "default");
    let mut first = Replica::start(&server, "first");
    sleep(SETTLED).await;
    let line = Line::new();
    line.has_maps.send_replace(false);
    let mut second = Replica::start_on(line, &server, "second");
    sleep(SETTLED).await;
    second.line.shut();
    create_map(&client).await;
    assert_eq!(first.seen().await, seen(&[], false));
    first.end().await;
    second.line.has_maps.send_replace(true);
    assert!(timeout(WAIT / 2, second.runs.recv()).await.is_err(), "it waits");
    second.line.open();
    assert_eq!(second.seen().await, seen(&["first"], false));
    assert_eq!(secrets(&client).await, ["first"]);
    second.end().await;
}

#[tokio::test(start_paused = true)]
async fn only_the_replica_that_creates_the_lease_asks_for_nothing_more() {
    let server = ApiServer::new();
    let client = kube::Client::new(server.service(), "default");
    create_map(&client).await;
    let checks: [(_, &[&str]); 2] =
        [("first", &[]), ("second", &["/api/v1/configmaps", "/api/v1/secrets"])];
    for (name, expected) in checks {
        let mut replica = Replica::start(&server, name);
        replica.seen().await;
        let mut lists = replica.line.metadata_lists();
        lists.sort();
        assert_eq!(lists, expected, "{name}");
        // It releases the Lease.
        replica.end().await;
    }
}
