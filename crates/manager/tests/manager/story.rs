//! `/debug/windlass/story`: who woke whom, over two controllers, through the router.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;
use windlass_informer::ClientStack;
use windlass_manager::{Manager, ManagerError, Options};
use windlass_reconciler::{Action, Controller, Error, Reconcile, RunContext, Watch};
use windlass_testserver::apiserver::ApiServer;

/// Makes a Secret for each `ConfigMap`.
struct Publisher;

impl Reconcile<ConfigMap> for Publisher {
    async fn reconcile(&self, object: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": object.metadata.name},
            "stringData": object.data,
        });
        let secrets: Api<Secret> = Api::default_namespaced(cx.client().clone());
        let patch = PatchParams::apply("publisher").force();
        let name = object.metadata.name.as_deref().unwrap_or_default();
        secrets.patch(name, &patch, &Patch::Apply(&secret)).await?;
        Ok(Action::done())
    }
}

/// Tells that a Secret is there.
struct Reader {
    runs: mpsc::Sender<String>,
}

impl Reconcile<Secret> for Reader {
    async fn reconcile(&self, _: Arc<Secret>, cx: &RunContext) -> Result<Action, Error> {
        self.runs.try_send(cx.key().name().to_owned())?;
        Ok(Action::done())
    }
}

/// A manager with both controllers at work.
struct Running {
    server: ApiServer,
    page: Router,
    runs: mpsc::Receiver<String>,
    stop: CancellationToken,
    ended: JoinHandle<Result<(), ManagerError>>,
}

impl Running {
    fn start() -> Self {
        Self::start_with(|manager, reader| {
            manager.controller(Controller::named("reader", Watch::<Secret>::new()), reader)
        })
    }

    /// The publisher alone, and what is added to it.
    fn start_with(add: impl FnOnce(Manager, Reader) -> Manager) -> Self {
        let (server, (sender, runs)) = (ApiServer::new(), mpsc::channel(1_024));
        let connected = server.clone();
        let manager = Manager::new(Options::default().without_http())
            .without_logs()
            .connect(move |stack| Ok(stack.around(connected.service(), "default")))
            .controller(Controller::named("publisher", Watch::<ConfigMap>::new()), Publisher);
        let manager = add(manager, Reader { runs: sender });
        let (page, stop) = (manager.debug(), CancellationToken::new());
        let ended = TaskTracker::new().spawn(manager.run_until(stop.clone()));
        Self { server, page, runs, stop, ended }
    }

    async fn create(&self, name: &str) {
        let client = ClientStack::new().around(self.server.service(), "default");
        let mut object = ConfigMap::default();
        object.metadata.name = Some(name.to_owned());
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        maps.create(&PostParams::default(), &object).await.expect("created");
    }

    /// Asks for a story until both controllers are in it. No time passes meanwhile.
    async fn story(&self, query: &str) -> Value {
        for _ in 0..10_000 {
            let (status, text) = self.get(query).await;
            let story: Value = serde_json::from_str(&text).unwrap_or_default();
            if status == StatusCode::OK && story["runs"].as_array().is_some_and(|all| all.len() > 1)
            {
                return story;
            }
        }
        panic!("never told: {}", self.get(query).await.1);
    }

    async fn get(&self, query: &str) -> (StatusCode, String) {
        let request = Request::get(format!("/debug/windlass/story{query}")).body(Body::empty());
        let request = request.expect("a request");
        let answer = self.page.clone().oneshot(request).await.expect("infallible");
        let status = answer.status();
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        (status, String::from_utf8(body.to_vec()).expect("a text"))
    }

    async fn stop(self) {
        self.stop.cancel();
        self.ended.await.expect("no panic").expect("no failure");
    }
}

#[tokio::test(start_paused = true)]
async fn run_is_linked_to_the_run_of_another_controller_that_its_write_woke() {
    let mut running = Running::start();
    running.create("a").await;
    running.create("other").await;
    for _ in 0..2 {
        running.runs.recv().await.expect("the reader lives");
    }

    // From either end, and without the objects that have nothing to do with it.
    for query in ["?key=default/a&kind=configmap", "?key=default/a&kind=secrets"] {
        let story = running.story(query).await;
        let runs = story["runs"].as_array().expect("runs");
        let names: Vec<_> = runs.iter().map(|run| (&run["controller"], &run["key"])).collect();
        let (publisher, reader) = (json!("publisher"), json!("reader"));
        let key = json!("default/a");
        assert_eq!(names, [(&publisher, &key), (&reader, &key)], "{story:#}");
        assert_eq!((&runs[0]["kind"], &runs[1]["kind"]), (&json!("ConfigMap"), &json!("Secret")));
        let [link] = story["links"].as_array().expect("links").as_slice() else {
            panic!("one link: {story:#}")
        };
        assert_eq!((&link["from"], &link["to"]), (&runs[0]["id"], &runs[1]["id"]));
        assert_eq!(link["write"], runs[0]["writes"][0]);
        assert_eq!(link["cause"], runs[1]["causes"][0]);
        // Both runs are about the Secret: one wrote it, the other reconciled it.
        let distance = i32::from(query.ends_with("configmap"));
        assert_eq!((&runs[0]["distance"], &runs[1]["distance"]), (&json!(0), &json!(distance)));
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn object_that_nobody_watches_has_the_runs_that_wrote_it() {
    let running = Running::start_with(|manager, _| manager);
    running.create("one").await;
    for kind in ["secrets", "Secret"] {
        let query = format!("?kind={kind}&key=default/one");
        let mut told = running.get(&query).await;
        for _ in 0..10_000 {
            if told.0 == StatusCode::OK {
                break;
            }
            told = running.get(&query).await;
        }
        assert!(told.1.contains("patch secrets default/one"), "{}", told.1);
    }
    let (status, text) = running.get("?kind=secrets&key=default/other").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(text.contains("no controller reconciles or watches \"secrets\""), "{text}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn story_has_as_many_runs_as_asked_for_the_nearest_ones() {
    let mut running = Running::start();
    running.create("a").await;
    running.runs.recv().await.expect("the reader lives");
    running.story("?key=default/a").await;
    let (_, text) = running.get("?key=default/a&kind=ConfigMap&limit=1").await;
    let story: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        (&story["runs"][0]["controller"], &story["omittedRuns"]),
        (&json!("publisher"), &json!(1))
    );
    assert_eq!(story["links"], json!([]), "both ends of a link are shown");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn story_of_nobody_says_what_to_ask_for() {
    let mut running = Running::start();
    running.create("a").await;
    running.runs.recv().await.expect("the reader lives");
    let (status, text) = running.get("").await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{text}");
    assert!(text.contains("?key=NAMESPACE/NAME"), "{text}");
    let (status, text) = running.get("?key=default/nobody").await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{text}");
    let (status, text) = running.get("?key=a/b/c").await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{text}");
    let (status, text) = running.get("?kind=Pod&key=default/a").await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{text}");
    assert!(text.contains("there are: ConfigMap, Secret"), "{text}");
    running.stop().await;
}
