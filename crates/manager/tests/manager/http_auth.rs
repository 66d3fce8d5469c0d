//! Who may read an endpoint: through the router, with an API server that is played, on the paused
//! clock; and with a real one.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::routing::get;
use futures::future::{join, join_all};
use http::header::{ALLOW, AUTHORIZATION, WWW_AUTHENTICATE};
use http::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::{Instant, advance};
use tower::ServiceExt as _;
use tracing::Level;
use windlass_manager::http::Authorizer;
use windlass_testserver::Log;

/// Tokens that the API server knows, and some that it does not.
const PROMETHEUS: &str = "token-of-prometheus";
const GUEST: &str = "token-of-guest";
const UNKNOWN: &str = "token-of-nobody";

/// How the API server behaves.
const WORKS: u8 = 0;
const FORBIDS_TOKENS: u8 = 1;
const FORBIDS_ACCESS: u8 = 2;
const FAILS: u8 = 3;
const HANGS: u8 = 4;
const TALKS_NONSENSE: u8 = 5;
const HAS_NAMELESS_USERS: u8 = 6;

/// An API server that has reviews and nothing else.
#[derive(Default)]
struct Server {
    behaviour: AtomicU8,
    token_reviews: AtomicUsize,
    access_reviews: AtomicUsize,
    /// The last question about access.
    asked: Mutex<Value>,
}

impl Server {
    fn set(&self, behaviour: u8) {
        self.behaviour.store(behaviour, Ordering::Relaxed);
    }

    /// How many reviews of tokens and of access there were.
    fn counts(&self) -> (usize, usize) {
        let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        (count(&self.token_reviews), count(&self.access_reviews))
    }

    async fn answer(&self, path: &str, mut review: Value) -> (u16, Value) {
        let is_token = path == "/apis/authentication.k8s.io/v1/tokenreviews";
        assert!(is_token || path == "/apis/authorization.k8s.io/v1/subjectaccessreviews", "{path}");
        let count = if is_token { &self.token_reviews } else { &self.access_reviews };
        count.fetch_add(1, Ordering::Relaxed);
        // Others get a turn, as they do while a real request is on its way.
        tokio::time::sleep(Duration::from_millis(10)).await;
        match self.behaviour.load(Ordering::Relaxed) {
            FORBIDS_TOKENS if is_token => return forbidden("tokenreviews"),
            FORBIDS_ACCESS if !is_token => return forbidden("subjectaccessreviews"),
            // It repeats the question, as a proxy might do it.
            FAILS => return (500, status(500, "InternalError", &format!("no: {review}"))),
            HANGS => std::future::pending().await,
            // It repeats the token, as the API server does.
            TALKS_NONSENSE => return (200, json!({"spec": review["spec"], "status": 7})),
            _ => {}
        }
        if is_token {
            review["status"] = match review["spec"]["token"].as_str().expect("a token") {
                PROMETHEUS => json!({"authenticated": true, "user": {
                    "username": "system:serviceaccount:monitoring:prometheus",
                    "uid": "17",
                    "groups": ["system:serviceaccounts", "system:authenticated"],
                    "extra": {"pod": ["prometheus-0"]},
                }}),
                GUEST => json!({"authenticated": true, "user": {"username": "guest"}}),
                _ => json!({"authenticated": false, "error": "invalid bearer token"}),
            };
            if self.behaviour.load(Ordering::Relaxed) == HAS_NAMELESS_USERS {
                review["status"] = json!({"authenticated": true, "user": {"username": ""}});
            }
        } else {
            let spec = &review["spec"];
            *self.asked.lock().expect("not poisoned") = spec.clone();
            let allowed = spec["user"] != "guest"
                && spec["nonResourceAttributes"] == json!({"path": "/metrics", "verb": "get"});
            review["status"] = json!({"allowed": allowed});
        }
        (201, review)
    }

    fn client(self: &Arc<Self>) -> kube::Client {
        let server = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let server = Arc::clone(&server);
            async move {
                let path = request.uri().path().to_owned();
                let body = to_bytes(Body::new(request.into_body()), usize::MAX).await?;
                let (status, answer) = server.answer(&path, serde_json::from_slice(&body)?).await;
                let answer = Response::builder()
                    .status(status)
                    .body(kube::client::Body::from(answer.to_string().into_bytes()))?;
                Ok::<_, tower::BoxError>(answer)
            }
        });
        kube::Client::new(service, "default")
    }

    /// A router with metrics, protected by this server.
    fn router(self: &Arc<Self>) -> Router {
        protected(self.client())
    }
}

fn protected(client: kube::Client) -> Router {
    let metrics = get(|| async { "reconciles 1\n" }).post(|| async { "written" });
    Authorizer::new(client).protect(Router::new().route("/metrics", metrics))
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": message})
}

fn forbidden(resource: &str) -> (u16, Value) {
    let message = format!("{resource} is forbidden: User \"operator\" cannot create {resource}");
    (403, status(403, "Forbidden", &message))
}

/// An answer: its code and its text.
type Answer = (StatusCode, String);

async fn send(router: &Router, request: Request<Body>) -> Answer {
    let response = router.clone().oneshot(request).await.expect("a router never fails");
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await.expect("a body");
    (status, String::from_utf8(body.to_vec()).expect("text"))
}

fn request(method: Method, path: &str, authorization: Option<&str>) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(authorization) = authorization {
        request = request.header(AUTHORIZATION, authorization);
    }
    request.body(Body::empty()).expect("a request")
}

/// Reads the metrics with a token.
async fn scrape(router: &Router, token: &str) -> Answer {
    send(router, request(Method::GET, "/metrics", Some(&format!("Bearer {token}")))).await
}

#[tokio::test(start_paused = true)]
async fn user_with_the_right_reads_the_metrics() {
    let server = Arc::new(Server::default());
    let answer = scrape(&server.router(), PROMETHEUS).await;
    assert_eq!(answer, (StatusCode::OK, "reconciles 1\n".to_owned()));
    // What was said of the user is what access is asked for.
    assert_eq!(
        *server.asked.lock().expect("not poisoned"),
        json!({
            "user": "system:serviceaccount:monitoring:prometheus",
            "uid": "17",
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "extra": {"pod": ["prometheus-0"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        })
    );
}

#[tokio::test(start_paused = true)]
async fn request_without_a_token_is_unauthorized_and_asks_nobody() {
    let server = Arc::new(Server::default());
    let router = server.router();
    for authorization in
        [None, Some("Bearer"), Some("Bearer  "), Some("Basic dXNlcjpwYXNz"), Some("Bearer \u{e9}")]
    {
        let request = request(Method::GET, "/metrics", authorization);
        let response = router.clone().oneshot(request).await.expect("an answer");
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{authorization:?}");
        assert_eq!(response.headers()[WWW_AUTHENTICATE], "Bearer");
    }
    assert_eq!(server.counts(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn scheme_is_read_in_any_case() {
    let router = Arc::new(Server::default()).router();
    let authorization = format!("bearer {PROMETHEUS}");
    let request = request(Method::GET, "/metrics", Some(&authorization));
    assert_eq!(send(&router, request).await.0, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn unknown_token_is_unauthorized() {
    let server = Arc::new(Server::default());
    let (status, text) = scrape(&server.router(), UNKNOWN).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert!(text.contains("does not accept the token"), "{text}");
    assert_eq!(server.counts(), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn user_without_a_name_is_unauthorized() {
    let server = Arc::new(Server::default());
    server.set(HAS_NAMELESS_USERS);
    assert_eq!(scrape(&server.router(), PROMETHEUS).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(server.counts(), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn user_without_the_right_is_named_with_the_rule_that_is_missing() {
    let (status, text) = scrape(&Arc::new(Server::default()).router(), GUEST).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(
        text,
        "Forbidden: user \"guest\" may not get /metrics. Bind a ClusterRole with the rule \
         {nonResourceURLs: [\"/metrics\"], verbs: [\"get\"]} to it.\n"
    );
}

#[tokio::test(start_paused = true)]
async fn right_to_one_path_is_not_a_right_to_another() {
    let router = Arc::new(Server::default()).router();
    assert_eq!(scrape(&router, PROMETHEUS).await.0, StatusCode::OK);
    let authorization = format!("Bearer {PROMETHEUS}");
    // One that the router does not know is protected, too.
    for (method, path) in [(Method::GET, "/debug"), (Method::HEAD, "/metrics")] {
        let (status, _) = send(&router, request(method, path, Some(&authorization))).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn other_methods_are_refused_and_ask_nobody() {
    let server = Arc::new(Server::default());
    let authorization = format!("Bearer {PROMETHEUS}");
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let request = request(method, "/metrics", Some(&authorization));
        let response = server.router().oneshot(request).await.expect("an answer");
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(response.headers()[ALLOW], "GET, HEAD");
    }
    assert_eq!(server.counts(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn yes_is_kept_for_a_minute_and_no_for_ten_seconds() {
    for (token, code, reviews, seconds) in [
        (PROMETHEUS, StatusCode::OK, (1, 1), 60),
        // The token is known for a minute; only the access is asked again.
        (GUEST, StatusCode::FORBIDDEN, (1, 1), 10),
        (UNKNOWN, StatusCode::UNAUTHORIZED, (1, 0), 10),
    ] {
        let server = Arc::new(Server::default());
        let router = server.router();
        for _ in 0..3 {
            assert_eq!(scrape(&router, token).await.0, code);
        }
        assert_eq!(server.counts(), reviews, "{token}");
        advance(Duration::from_secs(seconds - 1)).await;
        assert_eq!(scrape(&router, token).await.0, code);
        assert_eq!(server.counts(), reviews, "{token}");
        advance(Duration::from_secs(1)).await;
        assert_eq!(scrape(&router, token).await.0, code);
        let again = match token {
            PROMETHEUS => (2, 2),
            GUEST => (1, 2),
            _ => (2, 0),
        };
        assert_eq!(server.counts(), again, "{token}");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_at_the_same_time_share_one_review() {
    let server = Arc::new(Server::default());
    let router = server.router();
    let answers = join_all((0..20).map(|_| scrape(&router, PROMETHEUS))).await;
    assert!(answers.iter().all(|(status, _)| *status == StatusCode::OK));
    assert_eq!(server.counts(), (1, 1));
    // Other tokens do not wait for it.
    join(scrape(&router, GUEST), scrape(&router, UNKNOWN)).await;
    assert_eq!(server.counts(), (3, 2));
}

#[tokio::test(start_paused = true)]
async fn client_that_goes_away_does_not_take_the_review_from_the_others() {
    let server = Arc::new(Server::default());
    let router = server.router();
    let leaves = tokio::time::timeout(Duration::from_millis(5), scrape(&router, PROMETHEUS));
    let (left, (status, _)) = join(leaves, scrape(&router, PROMETHEUS)).await;
    left.expect_err("the first client must be gone");
    assert_eq!(status, StatusCode::OK);
    assert_eq!(server.counts(), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn review_that_is_refused_names_the_rules_in_one_log_line() {
    for (behaviour, resource) in
        [(FORBIDS_TOKENS, "tokenreviews"), (FORBIDS_ACCESS, "subjectaccessreviews")]
    {
        let (server, log) = (Arc::new(Server::default()), Log::start_at(Level::TRACE));
        server.set(behaviour);
        let router = server.router();
        for _ in 0..3 {
            let (status, text) = scrape(&router, PROMETHEUS).await;
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
            assert!(text.contains("log of this program says why"), "{text}");
            advance(Duration::from_secs(30)).await;
        }
        let errors = log.lines_with("ERROR");
        assert_eq!(errors.len(), 1, "{errors:#?}");
        let error = &errors[0];
        assert!(error.contains(&format!("does not let this program create {resource}")), "{error}");
        assert!(error.contains("system:auth-delegator"), "{error}");
        assert!(error.contains("resources: [tokenreviews], verbs: [create]"), "{error}");
        assert!(error.contains("resources: [subjectaccessreviews], verbs: [create]"), "{error}");
        server.set(WORKS);
        assert_eq!(scrape(&router, PROMETHEUS).await.0, StatusCode::OK);
    }
}

#[tokio::test(start_paused = true)]
async fn server_that_does_not_answer_is_unavailable_after_ten_seconds() {
    let (server, log) = (Arc::new(Server::default()), Log::start_at(Level::TRACE));
    server.set(HANGS);
    let router = server.router();
    let start = Instant::now();
    // All that wait together fail together, and not one after the other.
    let answers = join_all((0..20).map(|_| scrape(&router, PROMETHEUS))).await;
    assert!(answers.iter().all(|(status, _)| *status == StatusCode::SERVICE_UNAVAILABLE));
    assert_eq!(start.elapsed().as_secs(), 10);
    assert_eq!(server.counts(), (1, 0));
    let errors = log.lines_with("ERROR");
    assert_eq!(errors.len(), 1, "{errors:#?}");
    assert!(errors[0].contains("did not answer within 10 s"), "{errors:#?}");
}

#[tokio::test(start_paused = true)]
async fn failure_is_forgotten_after_a_second() {
    let server = Arc::new(Server::default());
    server.set(FAILS);
    let router = server.router();
    assert_eq!(scrape(&router, PROMETHEUS).await.0, StatusCode::SERVICE_UNAVAILABLE);
    server.set(WORKS);
    advance(Duration::from_secs(1)).await;
    assert_eq!(scrape(&router, PROMETHEUS).await.0, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn token_is_shown_nowhere() {
    for behaviour in WORKS..=HAS_NAMELESS_USERS {
        let (server, log) = (Arc::new(Server::default()), Log::start_at(Level::TRACE));
        server.set(behaviour);
        let authorizer = Authorizer::new(server.client());
        let shown = format!("{authorizer:?}");
        let router = authorizer.protect(Router::new());
        let mut shown = vec![shown];
        for token in [PROMETHEUS, GUEST, UNKNOWN] {
            shown.push(scrape(&router, token).await.1);
        }
        shown.push(log.text());
        for text in shown {
            assert!(!text.contains("token-of"), "{behaviour}: {text}");
        }
    }
}

mod real {
    //! With the tokens and the rights of a real API server.

    use k8s_openapi::api::authentication::v1::TokenRequest;
    use k8s_openapi::api::core::v1::ServiceAccount;
    use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
    use kube::api::{Api, PostParams};
    use windlass_testserver::TestServer;

    use super::*;

    async fn account(client: &kube::Client, namespace: &str, name: &str) -> String {
        let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
        let account = json!({"metadata": {"name": name}});
        let account = serde_json::from_value(account).expect("an account");
        accounts.create(&PostParams::default(), &account).await.expect("created");
        token(client, namespace, name, &[]).await
    }

    async fn token(client: &kube::Client, namespace: &str, name: &str, for_: &[&str]) -> String {
        let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
        let request = json!({"spec": {"audiences": for_}});
        let request: TokenRequest = serde_json::from_value(request).expect("a request");
        let token = accounts.create_token_request(name, &PostParams::default(), &request).await;
        token.expect("a token").status.and_then(|status| status.token).expect("a status")
    }

    async fn bind(client: &kube::Client, role: &str, namespace: &str, account: &str) {
        let binding: ClusterRoleBinding = serde_json::from_value(json!({
            "metadata": {"name": format!("{namespace}-{account}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                "name": role},
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": account}],
        }))
        .expect("a binding");
        let bindings = Api::<ClusterRoleBinding>::all(client.clone());
        bindings.create(&PostParams::default(), &binding).await.expect("created");
    }

    /// Scrapes until the API server knows a binding that was just made. Each time with a new
    /// router, which keeps no answers.
    async fn scrape_until(client: &kube::Client, token: &str, code: StatusCode) -> Answer {
        loop {
            let answer = scrape(&protected(client.clone()), token).await;
            if answer.0 == code {
                return answer;
            }
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    #[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
    async fn service_account_reads_the_metrics_once_it_has_the_role() {
        let log = Log::start_at(Level::TRACE);
        let cluster = TestServer::real().await.expect("a real cluster");
        let admin = cluster.client().expect("a client");
        let namespace = cluster.namespace("metrics").await.expect("a namespace");
        let prometheus = account(&admin, &namespace, "prometheus").await;
        let operator = account(&admin, &namespace, "operator").await;
        let control_plane = cluster.control_plane().expect("a real cluster");
        let operator = control_plane.client_as(&operator).expect("a client");

        let answer = scrape(&protected(operator.clone()), &prometheus).await;
        assert_eq!(answer.0, StatusCode::SERVICE_UNAVAILABLE, "{answer:?}");
        // kube's client logs errors of its own.
        let mut errors = log.lines_with("ERROR");
        errors.retain(|line| line.contains("windlass_manager"));
        assert_eq!(errors.len(), 1, "{errors:#?}");
        assert!(errors[0].contains("does not let this program create tokenreviews"));

        bind(&admin, "system:auth-delegator", &namespace, "operator").await;
        let (_, text) = scrape_until(&operator, &prometheus, StatusCode::FORBIDDEN).await;
        let user = format!("system:serviceaccount:{namespace}:prometheus");
        assert!(text.contains(&format!("user \"{user}\" may not get /metrics")), "{text}");

        let role: ClusterRole = serde_json::from_value(json!({
            "metadata": {"name": namespace},
            "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
        }))
        .expect("a role");
        let roles = Api::<ClusterRole>::all(admin.clone());
        roles.create(&PostParams::default(), &role).await.expect("created");
        bind(&admin, &namespace, &namespace, "prometheus").await;
        let (_, text) = scrape_until(&operator, &prometheus, StatusCode::OK).await;
        assert_eq!(text, "reconciles 1\n");

        // Tokens that the API server does not take, either.
        let elsewhere = token(&admin, &namespace, "prometheus", &["https://elsewhere"]).await;
        let forged = format!("{prometheus}x");
        for token in [elsewhere.as_str(), forged.as_str(), "nonsense"] {
            let answer = scrape(&protected(operator.clone()), token).await;
            assert_eq!(answer.0, StatusCode::UNAUTHORIZED, "{answer:?}");
            assert!(!log.text().contains(token), "a token must not be logged");
        }
        assert!(!log.text().contains(&prometheus), "a token must not be logged");
    }
}
