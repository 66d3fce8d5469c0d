//! `/debug/windlass`: what an engineer on call sees of a manager, through the router.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;
use windlass_indexer::ByOwner;
use windlass_informer::{ClientStack, InformerOptions};
use windlass_manager::{Manager, ManagerError, Options};
use windlass_reconciler::{
    Action, Controller, Error, PAUSED_ANNOTATION, Reconcile, RunContext, Watch,
};
use windlass_testserver::apiserver::{ApiServer, Fault, FaultRule};

/// What no page may show, as it was written and as it is in the cache.
const SECRET: &str = "hunter2";
const SECRET_IN_CACHE: &str = "aHVudGVyMg==";

/// A reconciler of secrets that does what the name of its object says, and tells that it was
/// called.
struct Actor {
    runs: mpsc::Sender<String>,
}

impl Reconcile<Secret> for Actor {
    async fn reconcile(&self, object: Arc<Secret>, cx: &RunContext) -> Result<Action, Error> {
        assert_eq!(object.data.as_ref().map(|data| &*data["password"].0), Some(SECRET.as_bytes()));
        self.runs.try_send(cx.key().name().to_owned())?;
        match cx.key().name() {
            "fails" => Err(Error::msg("the database is away")),
            "hangs" => pending().await,
            "panics" => panic!("a bug"),
            _ => {
                let mut copy = ConfigMap::default();
                copy.metadata.name = object.metadata.name.clone();
                copy.data = Some(BTreeMap::from([("password".to_owned(), SECRET.to_owned())]));
                let maps: Api<ConfigMap> = Api::default_namespaced(cx.client().clone());
                maps.create(&PostParams::default(), &copy).await?;
                Ok(Action::done())
            }
        }
    }
}

/// A manager that runs, and its page.
struct Running {
    server: ApiServer,
    page: Router,
    runs: mpsc::Receiver<String>,
    stop: CancellationToken,
    ended: JoinHandle<Result<(), ManagerError>>,
}

impl Running {
    /// Starts a manager for these secrets.
    async fn start(server: ApiServer, names: &[&str]) -> Self {
        let secrets = secrets(&server);
        for name in names {
            let secret = json!({"metadata": {"name": name}, "stringData": {"password": SECRET}});
            let secret: Secret = serde_json::from_value(secret).expect("a secret");
            secrets.create(&PostParams::default(), &secret).await.expect("created");
        }
        let (sender, runs) = mpsc::channel(1_024);
        let mut options = Options::default();
        "0".clone_into(&mut options.health_probe_bind_address);
        "0".clone_into(&mut options.metrics_bind_address);
        let connected = server.clone();
        let manager = Manager::new(options)
            .without_logs()
            .connect(move |stack| Ok(stack.around(connected.service(), "default")))
            .leader_election("operator")
            .informer_defaults(InformerOptions::new().index(ByOwner))
            .controller(
                Controller::named("secrets", Watch::<Secret>::new()).pausable().workers(4),
                Actor { runs: sender },
            );
        let (page, stop) = (manager.debug(), CancellationToken::new());
        let ended = TaskTracker::new().spawn(manager.run_until(stop.clone()));
        Self { server, page, runs, stop, ended }
    }

    /// Waits until the reconciler was called for an object so many times.
    async fn wait_for_runs(&mut self, name: &str, count: usize) {
        let mut seen = 0;
        while seen < count {
            let run = self.runs.recv().await.expect("the reconciler lives");
            seen += usize::from(run == name);
        }
    }

    async fn get(&self, query: &str) -> (StatusCode, String) {
        get(&self.page, query).await
    }

    async fn report(&self, query: &str) -> Value {
        report(&self.page, query).await
    }

    /// Asks until the report is as expected. No time passes meanwhile.
    async fn wait_for(&self, is_expected: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..10_000 {
            let report = self.report("").await;
            if is_expected(&report) {
                return report;
            }
        }
        panic!("never as expected: {:#}", self.report("").await);
    }

    async fn stop(self) {
        self.stop.cancel();
        self.ended.await.expect("no panic").expect("no failure");
    }
}

fn secrets(server: &ApiServer) -> Api<Secret> {
    Api::default_namespaced(ClientStack::new().around(server.service(), "default"))
}

async fn get(page: &Router, query: &str) -> (StatusCode, String) {
    let request = Request::get(format!("/debug/windlass{query}")).body(Body::empty());
    let answer = page.clone().oneshot(request.expect("a request")).await.expect("infallible");
    let status = answer.status();
    let body = answer.into_body().collect().await.expect("a body").to_bytes();
    (status, String::from_utf8(body.to_vec()).expect("a text"))
}

async fn report(page: &Router, query: &str) -> Value {
    let (status, text) = get(page, query).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    assert!(!text.contains(SECRET) && !text.contains(SECRET_IN_CACHE), "{text}");
    serde_json::from_str(&text).expect("JSON")
}

/// The key of the only controller; `Null` if it is not in the queue.
fn key(report: &Value, name: &str) -> Value {
    let keys = report["controllers"][0]["queue"]["keys"].as_array();
    let found = keys.into_iter().flatten().find(|key| key["key"] == format!("default/{name}"));
    found.cloned().unwrap_or_default()
}

fn last_run(report: &Value, name: &str) -> Value {
    let runs = report["controllers"][0]["lastRuns"].as_array();
    let found = runs.into_iter().flatten().find(|run| run["key"] == format!("default/{name}"));
    found.cloned().unwrap_or_default()
}

fn time(value: &Value) -> Timestamp {
    let text = value.as_str().unwrap_or_else(|| panic!("a time: {value}"));
    text.parse().unwrap_or_else(|_| panic!("a time by RFC 3339: {text}"))
}

#[tokio::test(start_paused = true)]
async fn every_key_is_shown_with_its_state_and_why() {
    let mut running = Running::start(ApiServer::new(), &["fails", "hangs", "works"]).await;
    running.wait_for_runs("fails", 3).await;
    let report = running.wait_for(|report| key(report, "fails")["failures"] == 3).await;

    assert_eq!(report["phase"], "running");
    assert!(time(&report["started"]) <= time(&report["time"]));
    let leadership = &report["leadership"];
    assert_eq!(leadership["lease"], "default/operator");
    assert_eq!(leadership["state"], "leading");
    assert_eq!(leadership["leader"], leadership["identity"]);

    let controller = &report["controllers"][0];
    assert_eq!(controller["name"], "secrets");
    assert_eq!(controller["needsLeadership"], true);
    assert_eq!((&controller["workers"], &controller["running"]), (&json!(4), &json!(1)));
    assert_eq!(controller["counts"]["done"], 1);
    assert_eq!(controller["counts"]["failed"], json!({"other": 3}));
    assert_eq!(controller["queue"]["waiting"], 1);
    assert_eq!(controller["sources"], json!(["secrets.v1"]));

    let fails = key(&report, "fails");
    assert_eq!((&fails["state"], &fails["attempt"]), (&json!("waiting"), &json!(4)), "{fails}");
    assert!(time(&fails["nextRun"]) > time(&report["time"]), "{fails}");
    let cause = fails["causes"][0].as_str().unwrap_or_default();
    assert!(cause.starts_with("Secret default/fails was there at "), "{cause}");
    let run = last_run(&report, "fails");
    assert_eq!((&run["outcome"], &run["attempt"]), (&json!("failed"), &json!(3)), "{run}");
    assert_eq!((&run["class"], &run["message"]), (&json!("other"), &json!("the database is away")));
    // Each is rounded down to a millisecond.
    let apart = time(&run["nextRun"]).duration_since(time(&fails["nextRun"])).abs();
    assert!(apart.as_millis() <= 1, "{run} {fails}");

    let hangs = key(&report, "hangs");
    assert_eq!((&hangs["state"], &hangs["attempt"]), (&json!("running"), &json!(1)), "{hangs}");
    assert!(time(&hangs["since"]) < time(&report["time"]), "{hangs}");
    assert_eq!((&hangs["nextRun"], &hangs["again"]), (&Value::Null, &Value::Null));
    assert_eq!(last_run(&report, "hangs"), Value::Null, "it has not ended");

    assert_eq!(key(&report, "works"), Value::Null, "it has nothing more to do");
    let run = last_run(&report, "works");
    assert_eq!((&run["outcome"], &run["message"]), (&json!("done"), &Value::Null), "{run}");
    let write = run["writes"][0].as_str().unwrap_or_default();
    assert!(write.starts_with("create configmaps default/works at "), "{write}");

    let informer = &report["informers"][0];
    assert_eq!(
        (&informer["resource"], &informer["state"]),
        (&json!("secrets.v1"), &json!("synced"))
    );
    assert_eq!(informer["memory"]["objects"], 3);
    assert_eq!(informer["feeds"][0]["activity"], "watching");
    assert_eq!(report["missing"], json!([]));
    // The hanging run is cancelled after the grace period.
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn change_during_a_run_is_the_run_after_it() {
    let mut running = Running::start(ApiServer::new(), &["hangs"]).await;
    running.wait_for_runs("hangs", 1).await;
    let patch = Patch::Merge(json!({"metadata": {"labels": {"edited": "yes"}}}));
    let secrets = secrets(&running.server);
    secrets.patch("hangs", &PatchParams::default(), &patch).await.expect("patched");
    let report = running.wait_for(|report| !key(report, "hangs")["again"].is_null()).await;
    let hangs = key(&report, "hangs");
    assert_eq!(hangs["state"], "running");
    assert_eq!(hangs["again"]["state"], "ready");
    assert_eq!(hangs["again"]["priority"], "normal");
    let cause = hangs["again"]["causes"][0].as_str().unwrap_or_default();
    assert!(cause.starts_with("Secret default/hangs updated at "), "{cause}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn panic_of_a_reconciler_is_shown_as_it_is_logged() {
    let mut running = Running::start(ApiServer::new(), &["panics"]).await;
    running.wait_for_runs("panics", 1).await;
    let report = running.wait_for(|report| !last_run(report, "panics").is_null()).await;
    let run = last_run(&report, "panics");
    assert_eq!((&run["outcome"], &run["message"]), (&json!("panicked"), &json!("a bug")));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn standby_shows_who_leads() {
    let server = ApiServer::new();
    let client = ClientStack::new().around(server.service(), "default");
    let now = "2026-01-01T00:00:00.000000Z";
    let lease = json!({
        "metadata": {"name": "operator"},
        "spec": {"holderIdentity": "another", "leaseDurationSeconds": 3_600, "renewTime": now},
    });
    let lease: Lease = serde_json::from_value(lease).expect("a Lease");
    let leases: Api<Lease> = Api::default_namespaced(client);
    leases.create(&PostParams::default(), &lease).await.expect("created");

    let running = Running::start(server, &["works"]).await;
    let report = running.wait_for(|report| !report["leadership"]["leader"].is_null()).await;
    assert_eq!(report["leadership"]["state"], "standby");
    assert_eq!(report["leadership"]["leader"], "another");
    assert_eq!(report["controllers"][0]["counts"]["runs"], 0);
    assert_eq!(key(&report, "works")["state"], "ready", "it waits for the leadership");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn query_selects_a_controller_and_a_key() {
    let mut running = Running::start(ApiServer::new(), &["fails", "hangs", "works"]).await;
    running.wait_for_runs("fails", 2).await;
    running.wait_for(|report| key(report, "fails")["failures"] == 2).await;

    let report = running.report("?controller=secrets&key=default/fails").await;
    let controller = &report["controllers"][0];
    assert_eq!(controller["queue"]["keys"].as_array().map(Vec::len), Some(1));
    assert_eq!(controller["queue"]["keys"][0]["key"], "default/fails");
    let attempts: Vec<_> = controller["lastRuns"].as_array().into_iter().flatten().collect();
    let attempts: Vec<_> = attempts.iter().map(|run| &run["attempt"]).collect();
    assert_eq!(attempts, [2, 1], "the newest first");
    let report = running.report("?key=default/works").await;
    assert_eq!(report["controllers"][0]["queue"]["keys"], json!([]));
    assert_eq!(report["controllers"][0]["lastRuns"][0]["key"], "default/works");

    let (status, text) = running.get("?controller=websites").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(text, "there is no controller \"websites\"; there are: secrets\n");
    for unknown in ["default/gone", "/"] {
        let (status, text) = running.get(&format!("?key={unknown}")).await;
        assert_eq!(status, StatusCode::NOT_FOUND);
        let expected = format!(
            "{unknown:?} is neither in a queue nor among the last runs; some keys that are: \
             default/fails, default/hangs, default/works\n"
        );
        assert_eq!(text, expected);
    }
    assert_eq!(running.get("?limit=many").await.0, StatusCode::BAD_REQUEST);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn limit_says_how_much_it_leaves_out() {
    let mut running = Running::start(ApiServer::new(), &["fails", "hangs", "works"]).await;
    running.wait_for_runs("fails", 2).await;
    running.wait_for(|report| key(report, "fails")["failures"] == 2).await;
    let report = running.report("?limit=1").await;
    let controller = &report["controllers"][0];
    assert_eq!(controller["queue"]["keys"][0]["key"], "default/hangs", "running ones come first");
    assert_eq!(controller["queue"]["keys"].as_array().map(Vec::len), Some(1));
    assert_eq!(controller["queue"]["omittedKeys"], 1);
    assert_eq!(controller["lastRuns"].as_array().map(Vec::len), Some(1));
    assert_eq!(controller["omittedRuns"], 2);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn manager_that_has_not_started_has_a_page() {
    let report = report(&Manager::new(Options::default()).debug(), "").await;
    assert_eq!((&report["phase"], &report["started"]), (&json!("starting"), &Value::Null));
    assert_eq!((&report["controllers"], &report["informers"]), (&json!([]), &json!([])));
}

/// The names that people's scripts have. A name that is removed or changed breaks them: add one.
#[tokio::test(start_paused = true)]
async fn field_names_are_stable() {
    let server = ApiServer::new();
    // An error of the informer, which begins with a watch that streams the list.
    let fault = Fault::Fail { code: 503, retry_after: None };
    server.faults().add(FaultRule::new(fault).verb("watch").times(1));
    let mut running = Running::start(server, &["fails", "hangs", "works"]).await;
    running.wait_for_runs("fails", 1).await;
    let patch = Patch::Merge(json!({"metadata": {"labels": {"edited": "yes"}}}));
    let secrets = secrets(&running.server);
    secrets.patch("hangs", &PatchParams::default(), &patch).await.expect("patched");
    running.wait_for(|report| !last_run(report, "works").is_null()).await;
    let patch = Patch::Merge(json!({"metadata": {"annotations": {PAUSED_ANNOTATION: "true"}}}));
    secrets.patch("works", &PatchParams::default(), &patch).await.expect("patched");
    let report = running.wait_for(|report| {
        let inactive = &report["controllers"][0]["inactive"][0];
        let is_paused = inactive["key"] == "default/works" && inactive["why"] == "paused";
        is_paused && !key(report, "hangs")["again"].is_null()
    });
    let report = report.await;
    let mut names = BTreeSet::new();
    collect_names(&report, "", &mut names);
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    assert_eq!(names.join("\n"), include_str!("debug_report_fields.txt").trim_end());
    running.stop().await;
}

/// The paths of all values that are neither objects nor lists, as in `controllers[].queue.ready`.
fn collect_names(value: &Value, path: &str, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                collect_names(value, &format!("{path}{dot}{name}"), names);
            }
        }
        Value::Array(items) => {
            names.insert(format!("{path}[]"));
            for item in items {
                collect_names(item, &format!("{path}[]"), names);
            }
        }
        _ => {
            names.insert(path.to_owned());
        }
    }
}
