//! The order in which a manager starts and stops, and what it does about failures.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use futures::FutureExt as _;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, ApiResource, PostParams};
use kube::client::Body;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::layer::layer_fn;
use tower::{BoxError, Service, ServiceExt as _};
use windlass_informer::client::{HttpService, ResponseBody};
use windlass_informer::{ClientStack, InformerOptions, Transform};
use windlass_manager::{Manager, ManagerError, OnLostLeadership, Options, TaskContext};
use windlass_reconciler::{
    Action, Controller, ControllerBuilder, Error, Reconcile, RunContext, RunError, Watch,
};
use windlass_testserver::apiserver::ApiServer;

const LEASE: &str = "operator";
const GRACE: Duration = Duration::from_secs(30);

/// What happened, in order.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn note(&self, entry: impl Into<String>) {
        self.0.lock().expect("not poisoned").push(entry.into());
    }

    fn entries(&self) -> Vec<String> {
        self.0.lock().expect("not poisoned").clone()
    }
}

/// A reconciler that reports each object that it gets, and takes a while.
struct Reporter {
    runs: mpsc::Sender<String>,
    takes: Duration,
}

impl<K: kube::Resource + Send + Sync + 'static> Reconcile<K> for Reporter {
    async fn reconcile(&self, _: Arc<K>, cx: &RunContext) -> Result<Action, Error> {
        self.runs.send(format!("{} {}", cx.controller(), cx.key())).await?;
        tokio::time::sleep(self.takes).await;
        Ok(Action::done())
    }
}

fn reporter(takes: Duration) -> (Reporter, mpsc::Receiver<String>) {
    let (runs, reports) = mpsc::channel(100);
    (Reporter { runs, takes }, reports)
}

fn maps() -> ControllerBuilder<ConfigMap> {
    Controller::named("configmap", Watch::<ConfigMap>::new())
}

/// A server with one `ConfigMap`, `one`.
async fn server() -> ApiServer {
    let server = ApiServer::new();
    create_map(&server, "one").await;
    server
}

fn client(server: &ApiServer) -> kube::Client {
    ClientStack::new().around(server.service(), "default")
}

async fn create_map(server: &ApiServer, name: &str) {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    let maps = Api::<ConfigMap>::default_namespaced(client(server));
    maps.create(&PostParams::default(), &map).await.expect("created");
}

/// A manager of a server, without sockets.
fn manager(server: &ApiServer) -> Manager {
    let server = server.clone();
    Manager::new(Options::default().without_http())
        .without_logs()
        .connect(move |stack| Ok(stack.around(server.service(), "default")))
}

/// A manager that runs.
struct Running {
    probes: Router,
    stop: CancellationToken,
    task: JoinHandle<Result<(), ManagerError>>,
}

fn start(manager: Manager) -> Running {
    let (probes, stop) = (manager.probes(), CancellationToken::new());
    let task = TaskTracker::new().spawn(manager.run_until(stop.clone()));
    Running { probes, stop, task }
}

impl Running {
    async fn end(self) -> Result<(), ManagerError> {
        self.stop.cancel();
        self.task.await.expect("it does not panic")
    }

    async fn failed(self) -> ManagerError {
        self.task.await.expect("it does not panic").expect_err("it fails")
    }

    /// The status and the text of an endpoint.
    async fn get(&self, path: &str) -> (u16, String) {
        let request = Request::builder().uri(path).body(axum::body::Body::empty());
        let answer = self.probes.clone().oneshot(request.expect("a request")).await;
        let answer = answer.expect("infallible");
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        (status, String::from_utf8(body.to_vec()).expect("text"))
    }

    async fn wait_until_ready(&self) {
        while self.get("/readyz").await.0 != 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn holder(server: &ApiServer) -> Option<String> {
    let leases = Api::<Lease>::default_namespaced(client(server));
    let lease = leases.get_opt(LEASE).await.expect("an answer")?;
    lease.spec?.holder_identity.filter(|holder| !holder.is_empty())
}

#[tokio::test(start_paused = true)]
async fn controllers_run_until_it_is_stopped() {
    let server = server().await;
    let (reconciler, mut reports) = reporter(Duration::ZERO);
    let running = start(manager(&server).controller(maps(), reconciler));
    assert_eq!(reports.recv().await.as_deref(), Some("configmap default/one"));
    running.wait_until_ready().await;
    let (status, text) = running.get("/readyz?verbose").await;
    assert_eq!(status, 200);
    assert_eq!(text, "[+]manager ok\n[+]controller/configmap ok\nreadyz check passed\n");
    assert_eq!(running.get("/livez").await, (200, "ok".to_owned()));
    running.end().await.expect("it stops");
    assert_eq!(reports.recv().await, None, "nothing holds the reconciler any more");
}

#[tokio::test(start_paused = true)]
async fn names_are_unique() {
    let server = server().await;
    let both = [reporter(Duration::ZERO).0, reporter(Duration::ZERO).0];
    let twice = both.into_iter().fold(manager(&server), |m, r| m.controller(maps(), r));
    let error = start(twice).failed().await.to_string();
    assert_eq!(error, "two controllers are called \"configmap\": give one of them another name");

    let nothing = |_: TaskContext| async { Ok::<(), io::Error>(()) };
    let twice = manager(&server).task("a", nothing).leader_task("a", nothing);
    let error = start(twice).failed().await.to_string();
    assert_eq!(error, "two tasks are called \"a\": give one of them another name");

    for name in ["manager", "leader-election", "controller/configmap"] {
        let (reconciler, _reports) = reporter(Duration::ZERO);
        let twice = manager(&server).check(name, || async { Ok::<(), io::Error>(()) });
        let error = start(twice.controller(maps(), reconciler)).failed().await.to_string();
        let expected = format!("two checks are called {name:?}: give one of them another name");
        assert_eq!(error, expected);
    }

    let (reconciler, _reports) = reporter(Duration::ZERO);
    let name = "controller/configmap";
    let twice = manager(&server).live_check(name, || async { Ok::<(), io::Error>(()) });
    let error = start(twice.controller(maps(), reconciler)).failed().await.to_string();
    let expected =
        format!("two liveness checks are called {name:?}: give one of them another name");
    assert_eq!(error, expected);
}

#[tokio::test(start_paused = true)]
async fn run_under_way_ends_within_the_grace_period_and_the_lease_is_released_after_it() {
    let server = server().await;
    let (reconciler, mut reports) = reporter(Duration::from_secs(20));
    let running = start(manager(&server).leader_election(LEASE).controller(maps(), reconciler));
    reports.recv().await.expect("it runs");
    assert!(holder(&server).await.is_some());
    let begun = Instant::now();
    running.stop.cancel();
    tokio::time::sleep(Duration::from_secs(19)).await;
    let (status, text) = running.get("/readyz").await;
    assert_eq!(status, 500);
    assert!(text.starts_with("[-]manager failed: stopping\n"), "{text}");
    assert!(holder(&server).await.is_some(), "the run may still write");
    running.end().await.expect("it stops");
    assert_eq!(begun.elapsed(), Duration::from_secs(20));
    assert_eq!(holder(&server).await, None);
}

#[tokio::test(start_paused = true)]
async fn run_that_does_not_end_is_cancelled_after_the_grace_period() {
    let server = server().await;
    let (reconciler, mut reports) = reporter(Duration::from_hours(1));
    let running = start(manager(&server).controller(maps(), reconciler));
    reports.recv().await.expect("it runs");
    let begun = Instant::now();
    running.end().await.expect("it stops");
    assert_eq!(begun.elapsed(), GRACE);
}

#[tokio::test(start_paused = true)]
async fn task_that_fails_stops_the_rest_and_is_named() {
    let server = server().await;
    let diary = Diary::default();
    let (reconciler, mut reports) = reporter(Duration::from_secs(5));
    let notes = diary.clone();
    let running = start(
        manager(&server)
            .controller(maps(), reconciler)
            .task("fails", |_| async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Err(io::Error::other("the disk is full"))
            })
            .task("waits", move |cx: TaskContext| {
                let notes = notes.clone();
                async move {
                    cx.shutdown.token().cancelled().await;
                    notes.note("stopping");
                    Err(io::Error::other("cannot save"))
                }
            }),
    );
    reports.recv().await.expect("it runs");
    let begun = Instant::now();
    let error = running.failed().await;
    assert_eq!(
        error.to_string(),
        "task \"fails\": the disk is full; while stopping: task \"waits\": cannot save"
    );
    assert_eq!(begun.elapsed(), Duration::from_secs(5), "the run under way was waited for");
    assert_eq!(diary.entries(), ["stopping"]);
}

#[tokio::test(start_paused = true)]
async fn task_that_panics_stops_the_rest_and_is_named() {
    let server = server().await;
    let broken = |_: TaskContext| async {
        tokio::task::yield_now().await;
        assert!(std::env::var_os("WINDLASS_NO_SUCH_VARIABLE").is_some(), "it is broken");
        Ok::<(), io::Error>(())
    };
    let error = start(manager(&server).task("broken", broken)).failed().await;
    let text = error.to_string();
    assert_eq!(text, "task \"broken\" panicked, which is a bug in it: it is broken");
}

/// Panics. Its worker catches that, and panics itself when it drops the message.
struct BreaksItsWorker;

struct PanicsAgain;

impl Drop for PanicsAgain {
    fn drop(&mut self) {
        panic!("a message that does not like to be dropped");
    }
}

impl Reconcile<ConfigMap> for BreaksItsWorker {
    async fn reconcile(&self, _: Arc<ConfigMap>, _: &RunContext) -> Result<Action, Error> {
        std::panic::panic_any(PanicsAgain)
    }
}

#[tokio::test(start_paused = true)]
async fn worker_that_panics_stops_the_rest_and_its_controller_is_named() {
    let server = server().await;
    let broken = manager(&server).controller(maps().workers(3), BreaksItsWorker);
    let failed = tokio::time::timeout(Duration::from_hours(1), start(broken).failed());
    let text = failed.await.expect("it is noticed").to_string();
    assert!(text.starts_with("controller \"configmap\" panicked, which is a bug in it"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn closure_of_a_task_that_panics_is_named_and_the_lease_is_released() {
    let server = server().await;
    let broken =
        |_: TaskContext| -> std::future::Ready<Result<(), io::Error>> { panic!("no variable URL") };
    let manager = manager(&server).leader_election(LEASE).leader_task("broken", broken);
    let text = start(manager).failed().await.to_string();
    assert_eq!(text, "task \"broken\" panicked, which is a bug in it: no variable URL");
    assert_eq!(holder(&server).await, None);
}

#[tokio::test(start_paused = true)]
async fn leader_that_is_cut_off_while_it_stops_does_not_use_its_grace_period() {
    let server = server().await;
    let (reconciler, mut reports) = reporter(Duration::from_hours(1));
    let (manager, is_cut) = cut_off_manager(&server);
    let running = start(manager.leader_election(LEASE).controller(maps(), reconciler));
    reports.recv().await.expect("it runs");
    let begun = Instant::now();
    running.stop.cancel();
    is_cut.store(true, Ordering::Relaxed);
    running.end().await.expect("it stops");
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn task_that_ends_is_not_missed_and_one_that_hangs_is_cancelled() {
    let server = server().await;
    let diary = Diary::default();
    let notes = diary.clone();
    let running = start(
        manager(&server)
            .task("ends", move |_| {
                let notes = notes.clone();
                async move {
                    notes.note("ended");
                    Ok::<(), io::Error>(())
                }
            })
            .task("hangs", |_| std::future::pending::<Result<(), io::Error>>()),
    );
    running.wait_until_ready().await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(diary.entries(), ["ended"]);
    let begun = Instant::now();
    running.end().await.expect("it stops");
    assert_eq!(begun.elapsed(), GRACE);
}

#[tokio::test(start_paused = true)]
async fn standby_is_ready_with_warm_caches_and_takes_over() {
    let server = server().await;
    let (reconciler, mut first_reports) = reporter(Duration::ZERO);
    let first = start(manager(&server).leader_election(LEASE).controller(maps(), reconciler));
    assert_eq!(first_reports.recv().await.as_deref(), Some("configmap default/one"));

    let (reconciler, mut second_reports) = reporter(Duration::ZERO);
    let (every, mut every_reports) = reporter(Duration::ZERO);
    let second = start(
        manager(&server)
            .leader_election(LEASE)
            .controller(maps(), reconciler)
            .controller_on_every_replica(
                Controller::named("everywhere", Watch::<ConfigMap>::new()),
                every,
            ),
    );
    second.wait_until_ready().await;
    assert_eq!(every_reports.recv().await.as_deref(), Some("everywhere default/one"));
    let leader = holder(&server).await.expect("a leader");
    let (_, text) = second.get("/readyz?verbose").await;
    let line = format!("[+]leader-election ok: standby, {leader} leads\n");
    assert!(text.contains(&line), "{text}");
    assert!(second_reports.try_recv().is_err(), "only the leader runs it");

    // It does not wait until the Lease has expired.
    first.end().await.expect("it stops");
    let begun = Instant::now();
    assert_eq!(second_reports.recv().await.as_deref(), Some("configmap default/one"));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    second.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn standby_that_stops_takes_no_lease_while_its_tasks_end_and_starts_nothing_of_the_leader() {
    let server = server().await;
    let (reconciler, mut reports) = reporter(Duration::ZERO);
    let first = start(manager(&server).leader_election(LEASE).controller(maps(), reconciler));
    reports.recv().await.expect("it runs");
    let (reconciler, mut reports) = reporter(Duration::ZERO);
    let drains = async |cx: TaskContext| {
        cx.shutdown.token().cancelled().await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        Ok::<(), io::Error>(())
    };
    let second = manager(&server).leader_election(LEASE).controller(maps(), reconciler);
    let second = start(second.task("drains", drains));
    second.wait_until_ready().await;
    second.stop.cancel();
    first.end().await.expect("it stops");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(holder(&server).await, None, "a standby tries each two seconds");
    second.end().await.expect("it stops");
    assert_eq!(reports.recv().await, None);
}

#[tokio::test(start_paused = true)]
async fn informer_that_breaks_while_its_cache_is_filled_is_the_error() {
    let server = server().await;
    let (reconciler, _reports) = reporter(Duration::ZERO);
    let transform = Transform::new("panics", |_| panic!("a transform that panics"));
    let broken = manager(&server).informer_defaults(InformerOptions::new().transform(transform));
    let error = start(broken.controller(maps(), reconciler)).failed().await.to_string();
    assert!(error.contains("the informer of configmaps.v1 broke: a task of"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn leader_election_can_be_turned_off_by_an_option() {
    let server = server().await;
    let (reconciler, mut reports) = reporter(Duration::ZERO);
    let mut off = manager(&server).leader_election(LEASE).controller(maps(), reconciler);
    off = off.change_options(|options| options.leader_elect = false);
    let running = start(off);
    reports.recv().await.expect("it runs");
    assert_eq!(holder(&server).await, None);
    running.end().await.expect("it stops");
}

/// The way to the server, which can be cut.
struct Line {
    is_cut: Arc<AtomicBool>,
    inner: HttpService,
}

impl Service<Request<Body>> for Line {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = futures::future::BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if self.is_cut.load(Ordering::Relaxed) {
            return std::future::ready(Err("no route to the server".into())).boxed();
        }
        self.inner.call(request).boxed()
    }
}

/// A manager of a server that can be cut off from it.
fn cut_off_manager(server: &ApiServer) -> (Manager, Arc<AtomicBool>) {
    let (server, is_cut) = (server.clone(), Arc::new(AtomicBool::new(false)));
    let state = Arc::clone(&is_cut);
    let connect = move |stack: ClientStack| -> Result<kube::Client, BoxError> {
        let state = Arc::clone(&state);
        let stack = stack.layer(layer_fn(move |inner| Line { is_cut: Arc::clone(&state), inner }));
        Ok(stack.around(server.service(), "default"))
    };
    let manager = Manager::new(Options::default().without_http()).without_logs();
    (manager.connect(connect), is_cut)
}

#[tokio::test(start_paused = true)]
async fn leader_that_is_cut_off_ends_without_a_grace_period() {
    let server = server().await;
    let (reconciler, mut reports) = reporter(Duration::from_hours(1));
    let (manager, is_cut) = cut_off_manager(&server);
    let running = start(manager.leader_election(LEASE).controller(maps(), reconciler));
    reports.recv().await.expect("it runs");
    is_cut.store(true, Ordering::Relaxed);
    let begun = Instant::now();
    let error = running.failed().await;
    assert!(matches!(error, ManagerError::LostLeadership), "{error}");
    // Before the Lease has expired, but for the time to give up its events.
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn replica_may_go_back_to_standby_and_lead_again() {
    let server = server().await;
    let (reconciler, mut reports) = reporter(Duration::ZERO);
    let (manager, is_cut) = cut_off_manager(&server);
    let manager = manager.leader_election(LEASE).on_lost_leadership(OnLostLeadership::Standby);
    let diary = Diary::default();
    let notes = diary.clone();
    let running = start(manager.controller(maps(), reconciler).leader_task("t", move |_| {
        notes.note("leads");
        std::future::pending::<Result<(), io::Error>>()
    }));
    assert_eq!(reports.recv().await.as_deref(), Some("configmap default/one"));
    is_cut.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(running.get("/readyz").await.0, 500, "it cannot contend");
    create_map(&server, "two").await;
    is_cut.store(false, Ordering::Relaxed);
    // What has changed meanwhile runs, and nothing else does.
    assert_eq!(reports.recv().await.as_deref(), Some("configmap default/two"));
    assert_eq!(diary.entries(), ["leads", "leads"]);
    running.wait_until_ready().await;
    running.end().await.expect("it stops");
    assert_eq!(holder(&server).await, None);
}

#[tokio::test(start_paused = true)]
async fn late_write_of_a_former_leader_is_refused_with_a_class_of_its_own() {
    let server = server().await;
    let (clients, mut reports) = mpsc::channel(100);
    let (manager, is_cut) = cut_off_manager(&server);
    let running = start(manager.leader_election(LEASE).leader_task("t", move |cx: TaskContext| {
        let clients = clients.clone();
        async move {
            clients.send(cx.client).await?;
            std::future::pending::<Result<(), BoxError>>().await
        }
    }));
    let maps = Api::<ConfigMap>::default_namespaced(reports.recv().await.expect("it leads"));
    let mut map = maps.get("one").await.expect("it is there");
    map.metadata.labels.get_or_insert_default().insert("late".into(), "yes".into());
    map = maps.replace("one", &PostParams::default(), &map).await.expect("it leads");
    is_cut.store(true, Ordering::Relaxed);
    assert!(matches!(running.failed().await, ManagerError::LostLeadership));
    is_cut.store(false, Ordering::Relaxed);
    let error = maps.replace("one", &PostParams::default(), &map).await.expect_err("it is late");
    let error = Error::from(error);
    assert_eq!(error.class(), windlass_reconciler::Class::NotLeader, "{error}");
    assert!(error.delay().is_some(), "it is not retried at once");
}

#[tokio::test(start_paused = true)]
async fn missing_definition_is_named_by_the_check_and_by_the_error() {
    let server = server().await;
    let kind = kube::core::GroupVersionKind::gvk("example.com", "v1", "Page");
    let resource = windlass_informer::Resource::new(&ApiResource::from_gvk(&kind), true);
    let watch = Watch::<kube::core::DynamicObject>::of(resource);
    let (reconciler, _reports) = reporter(Duration::ZERO);
    let running =
        start(manager(&server).controller(Controller::named("page", watch), Ignore(reconciler)));
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (status, text) = running.get("/readyz?verbose").await;
    assert_eq!(status, 500);
    assert!(text.contains("[-]controller/page failed"), "{text}");
    assert!(text.contains("is its CustomResourceDefinition installed?"), "{text}");
    let error = running.failed().await;
    let is_named = matches!(
        &error,
        ManagerError::Controller { name, error: RunError::NotSynced { .. } } if name == "page"
    );
    assert!(is_named, "{error}");
}

/// A reconciler of anything.
struct Ignore(#[expect(dead_code, reason = "it keeps the channel open")] Reporter);

impl Reconcile<kube::core::DynamicObject> for Ignore {
    async fn reconcile(
        &self,
        _: Arc<kube::core::DynamicObject>,
        _: &RunContext,
    ) -> Result<Action, Error> {
        Ok(Action::done())
    }
}

#[tokio::test(start_paused = true)]
async fn controller_whose_workers_are_all_stuck_is_not_alive() {
    let server = server().await;
    create_map(&server, "two").await;
    let (reconciler, mut reports) = reporter(Duration::from_hours(1));
    let builder = maps().workers(2);
    let running = start(manager(&server).controller(builder, reconciler));
    reports.recv().await.expect("one");
    reports.recv().await.expect("two");
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(running.get("/healthz").await.0, 200);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (status, text) = running.get("/healthz").await;
    assert_eq!(status, 500);
    assert!(text.contains("[-]controller/configmap failed: all workers"), "{text}");
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn check_of_the_user_decides_about_readiness_and_its_reason_is_not_shown() {
    let server = server().await;
    let is_up = Arc::new(AtomicBool::new(false));
    let state = Arc::clone(&is_up);
    let running = start(manager(&server).check("database", move || {
        let is_up = state.load(Ordering::Relaxed);
        async move { if is_up { Ok(()) } else { Err("no route to db://admin:hunter2@db") } }
    }));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (status, text) = running.get("/readyz").await;
    assert_eq!(status, 500);
    assert!(text.contains("[-]database failed: reason withheld"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    assert_eq!(running.get("/readyz?exclude=database").await.0, 200);
    assert_eq!(running.get("/readyz/manager").await, (200, "ok".to_owned()));
    assert_eq!(running.get("/readyz/nothing").await.0, 404);
    is_up.store(true, Ordering::Relaxed);
    assert_eq!(running.get("/readyz").await, (200, "ok".to_owned()));
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn option_of_namespaces_holds_for_all_informers() {
    let server = server().await;
    let kube_system = Api::<ConfigMap>::namespaced(client(&server), "kube-system");
    let mut map = ConfigMap::default();
    map.metadata.name = Some("elsewhere".to_owned());
    kube_system.create(&PostParams::default(), &map).await.expect("created");
    let (reconciler, mut reports) = reporter(Duration::ZERO);
    let (other, _other) = reporter(Duration::ZERO);
    let both = manager(&server)
        .change_options(|options| options.namespaces = vec!["kube-system".to_owned()])
        .controller(maps(), reconciler)
        .controller(Controller::named("secret", Watch::<Secret>::new()), other);
    let running = start(both);
    assert_eq!(reports.recv().await.as_deref(), Some("configmap kube-system/elsewhere"));
    running.end().await.expect("it stops");
    assert_eq!(reports.recv().await, None);
}
