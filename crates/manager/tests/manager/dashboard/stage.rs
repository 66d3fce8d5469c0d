//! A manager that runs on the embedded API server, and its dashboard.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;
use windlass_informer::ClientStack;
use windlass_manager::dashboard::Access;
use windlass_manager::{Manager, ManagerError, Options};
use windlass_reconciler::{Action, Controller, Error, Reconcile, RunContext, Watch};
use windlass_testserver::apiserver::ApiServer;

/// The name of the controller.
pub(crate) const CONTROLLER: &str = "maps";

/// A reconciler that does what the name of its object says, and tells that it was called.
struct Actor {
    runs: mpsc::Sender<String>,
}

impl Reconcile<ConfigMap> for Actor {
    async fn reconcile(&self, map: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
        self.runs.try_send(cx.key().name().to_owned())?;
        match cx.key().name().split('-').next().unwrap_or_default() {
            "fails" => Err(Error::msg("the database is away").retry_after(HOUR)),
            "breaks" => Err(Error::msg("the plan is wrong").terminal()),
            "panics" => panic!("the plan is missing"),
            "hangs" => pending().await,
            "waits" => Ok(Action::requeue_after(HOUR)),
            "tells" => {
                cx.event(&map).warning("Odd", "there is nothing in it");
                Ok(Action::done())
            }
            _ => Ok(Action::done()),
        }
    }
}

const HOUR: Duration = Duration::from_hours(1);

/// A manager that runs, and its dashboard.
pub(crate) struct Running {
    pub(crate) server: ApiServer,
    pub(crate) page: Router,
    pub(crate) token: String,
    pub(crate) runs: mpsc::Receiver<String>,
    stop: CancellationToken,
    ended: JoinHandle<Result<(), ManagerError>>,
}

/// An answer: status, headers, text.
pub(crate) type Answer = (StatusCode, HeaderMap, String);

impl Running {
    /// Starts a manager for these objects, given as `namespace/name`.
    pub(crate) async fn start(keys: &[&str]) -> Self {
        let server = ApiServer::new();
        for key in keys {
            create(&server, key).await;
        }
        Self::start_with(server, &Access::local(), |manager| manager)
    }

    /// Starts a manager with more than the controller.
    pub(crate) fn start_with(
        server: ApiServer,
        access: &Access,
        change: impl FnOnce(Manager) -> Manager,
    ) -> Self {
        let (sender, runs) = mpsc::channel(10_240);
        let connected = server.clone();
        let manager = Manager::new(Options::default().without_http())
            .without_logs()
            .connect(move |stack| Ok(stack.around(connected.service(), "default")))
            .controller(
                Controller::named(CONTROLLER, Watch::<ConfigMap>::new()).pausable().workers(4),
                Actor { runs: sender },
            );
        let (manager, stop) = (change(manager), CancellationToken::new());
        let token = token_of(access);
        let page = manager.dashboard(access);
        let ended = TaskTracker::new().spawn(manager.run_until(stop.clone()));
        Self { server, page, token, runs, stop, ended }
    }

    /// Waits until the reconciler was called for these objects, in any order.
    pub(crate) async fn wait_for_runs(&mut self, names: &[&str]) {
        let mut left: Vec<_> = names.to_vec();
        while !left.is_empty() {
            let run = self.runs.recv().await.expect("the reconciler lives");
            if let Some(place) = left.iter().position(|name| *name == run) {
                left.remove(place);
            }
        }
    }

    /// Sends a request as the page does it.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "localhost:9090")
            .header(AUTHORIZATION, format!("Bearer {}", self.token));
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        answer(&self.page, request.body(body).expect("a request")).await
    }

    /// What the API answers, as JSON.
    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, _, text) = self.send(Method::GET, path, None).await;
        assert_eq!(status, StatusCode::OK, "{path}: {text}");
        serde_json::from_str(&text).expect("JSON")
    }

    /// The status and the text of an answer that is no JSON.
    pub(crate) async fn refusal(&self, path: &str) -> (u16, String) {
        let (status, headers, text) = self.send(Method::GET, path, None).await;
        assert_one_line(&headers, &text);
        (status.as_u16(), text)
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> (u16, String) {
        let (status, headers, text) = self.send(Method::POST, path, Some(&body)).await;
        assert_one_line(&headers, &text);
        (status.as_u16(), text)
    }

    /// Asks once a second, as the page does, until the answer is as expected.
    pub(crate) async fn wait_for(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..1_000 {
            let (status, _, text) = self.send(Method::GET, path, None).await;
            let answer = serde_json::from_str(&text).unwrap_or_default();
            if status == StatusCode::OK && is_so(&answer) {
                return answer;
            }
            sleep(Duration::from_secs(1)).await;
        }
        panic!("never as expected: {}", self.send(Method::GET, path, None).await.2);
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.ended.await.expect("no panic").expect("no failure");
    }
}

fn assert_one_line(headers: &HeaderMap, text: &str) {
    assert_eq!(headers[CONTENT_TYPE], "text/plain; charset=utf-8", "{text}");
    assert!(text.lines().count() == 1 && !text.trim().is_empty(), "{text:?}");
}

/// The token in the URL that a manager logs; empty if there is none.
pub(crate) fn token_of(access: &Access) -> String {
    let url = access.url(SocketAddr::from(([127, 0, 0, 1], 9_090)));
    let token = url.strip_prefix("http://127.0.0.1:9090/#token=");
    token.unwrap_or_default().to_owned()
}

pub(crate) async fn answer(page: &Router, request: Request<Body>) -> Answer {
    let answer = page.clone().oneshot(request).await.expect("infallible");
    let (head, body) = answer.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    (head.status, head.headers, String::from_utf8(body.to_vec()).expect("a text"))
}

pub(crate) fn maps(server: &ApiServer, namespace: &str) -> Api<ConfigMap> {
    Api::namespaced(ClientStack::new().around(server.service(), "default"), namespace)
}

/// Creates an object, given as `namespace/name`, in a namespace that may not exist yet.
pub(crate) async fn create(server: &ApiServer, key: &str) {
    use k8s_openapi::api::core::v1::Namespace;
    let (namespace, name) = key.split_once('/').expect("a key");
    let client = ClientStack::new().around(server.service(), "default");
    let new: Namespace =
        serde_json::from_value(json!({"metadata": {"name": namespace}})).expect("a namespace");
    // It may be there already.
    let _ = Api::<Namespace>::all(client).create(&PostParams::default(), &new).await;
    let object: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": name}})).expect("an object");
    let created = maps(server, namespace).create(&PostParams::default(), &object).await;
    created.expect("created");
}

/// The keys of a page, each with its state.
pub(crate) fn rows(page: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{page:#}")).to_owned();
    let keys = page["keys"].as_array().expect("keys");
    keys.iter().map(|row| (text(&row["key"]), text(&row["state"]))).collect()
}
