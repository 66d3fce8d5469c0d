//! The client stack: what it adds to a request, and what it does when the server does not answer as
//! hoped.

use std::convert::Infallible;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::join_all;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderValue, USER_AGENT};
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams};
use kube::client::Body;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tower::layer::layer_fn;
use tower::{BoxError, Service};
use tracing::Level;
use windlass_informer::client::{HttpService, RequestInfo, RequestTimedOut, ResponseBody, explain};
use windlass_informer::observe::{FinishedRequest, RequestObserver, RequestOutcome};
use windlass_informer::source::{KubeListWatch, ListRequest, ListWatch as _, WatchRequest};
use windlass_informer::{ClientStack, RequestError, Resource, ServerClock, SourceError};
use windlass_testserver::apiserver::{ApiServer, Fault, FaultRule};
use windlass_testserver::{Log, TestServer, on_each_server};

use crate::server::{client_of, client_of_fn, client_with_answer, list, stalled, whole};

const CONFIGS: &str = "/api/v1/namespaces/default/configmaps";
const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=1";

fn get(uri: &str) -> Request<Body> {
    Request::get(uri).body(Body::empty()).expect("a request")
}

fn post(uri: &str, body: &str) -> Request<Body> {
    let request = Request::post(uri).header("content-type", "application/json");
    request.body(Body::from(body.as_bytes().to_vec())).expect("a request")
}

fn count(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).expect("not zero")
}

fn configs(client: kube::Client) -> KubeListWatch {
    KubeListWatch::new(client, Resource::of::<k8s_openapi::api::core::v1::ConfigMap>())
}

#[derive(Default)]
struct Seen {
    finished: Mutex<Vec<FinishedRequest>>,
    delays: Mutex<Vec<u128>>,
}

impl RequestObserver for Seen {
    fn finished(&self, request: &FinishedRequest) {
        self.finished.lock().expect("no panic").push(request.clone());
    }

    fn held_back(&self, _method: &Method, _host: &Arc<str>, delay: Duration) {
        self.delays.lock().expect("no panic").push(delay.as_millis());
    }
}

impl Seen {
    fn outcomes(&self) -> Vec<(&'static str, RequestOutcome)> {
        let finished = self.finished.lock().expect("no panic");
        finished.iter().map(|request| (request.verb, request.outcome)).collect()
    }
}

/// kube's own client repeats a request until it is answered otherwise. Ours must not, over the very
/// same transport.
#[tokio::test]
async fn a_refusal_reaches_the_caller_at_once_and_nothing_is_sent_twice() {
    let server = ApiServer::new();
    let listening = server.listen(([127, 0, 0, 1], 0).into()).await.expect("a port");
    let config = kube::Config::new(listening.url().parse().expect("a URL"));
    let refuse = |code| {
        let fault = Fault::Fail { code, retry_after: None };
        server.faults().add(FaultRule::new(fault).times(2))
    };

    let id = refuse(503);
    let theirs = kube::Client::try_from(config.clone()).expect("a client");
    let answer = theirs.send(get(CONFIGS)).await.expect("an answer");
    assert_eq!(answer.status(), 200, "kube's default has changed: this test proves nothing");
    assert_eq!(server.faults().remove(id), Some(2));

    let ours = ClientStack::new().connect(config).expect("a client");
    for code in [429, 503, 504] {
        let object = r#"{"metadata":{"name":"a"}}"#;
        for request in [get(CONFIGS), get(WATCH), post(CONFIGS, object)] {
            let id = refuse(code);
            let answer = ours.send(request).await.expect("an answer");
            assert_eq!((answer.status().as_u16(), server.faults().remove(id)), (code, Some(1)));
        }
    }
    assert!(server.size().0 < 10, "no refused write may have been made");
    listening.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_given_up() {
    let cluster = TestServer::embedded();
    let faults = cluster.server().expect("embedded").faults();
    faults.add(FaultRule::new(Fault::Hang));
    let seen = Arc::new(Seen::default());
    let timeout = Duration::from_secs(7);
    let stack = ClientStack::new().request_timeout(timeout).observer(seen.clone());
    let client = client_of(&cluster, stack);

    let began = Instant::now();
    let error = client.send(get(CONFIGS)).await.expect_err("no answer");
    assert_eq!(began.elapsed(), timeout);
    let kube::Error::Service(cause) = error else { panic!("{error}") };
    let request: &RequestError = cause.downcast_ref().expect("it says which request it was");
    assert_eq!(request.source.downcast_ref(), Some(&RequestTimedOut { timeout }));
    let expected = "list configmaps in default: the server sent nothing for 7 seconds";
    assert_eq!(request.to_string(), expected);

    let watch = WatchRequest { from: Some("1".to_owned()), timeout: Duration::from_mins(5) };
    let watch = windlass_informer::source::Request::Watch(watch);
    let error = configs(client).request(&watch).await.map(drop).expect_err("no answer");
    assert!(matches!(error, SourceError::Silent(after) if after == timeout), "{error}");
    assert_eq!(
        seen.outcomes(),
        [("list", RequestOutcome::TimedOut), ("watch", RequestOutcome::TimedOut)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_may_not_pause_for_long_unless_it_is_a_watch() {
    let client = client_of_fn(ClientStack::new(), |_| async {
        Ok::<_, Infallible>(Response::new(stalled("{\"items\":[")))
    });
    let source = configs(client);
    let error = list(&source, ListRequest::default()).await.expect_err("it stalls");
    let silent = |error: &SourceError| matches!(error, SourceError::Silent(d) if d.as_secs() == 30);
    assert!(silent(&error), "{error}");

    let request = WatchRequest { from: Some("1".to_owned()), timeout: Duration::from_mins(5) };
    let request = windlass_informer::source::Request::Watch(request);
    let mut body = source.request(&request).await.expect("a body");
    assert!(body.next().await.expect("a start").is_ok());
    tokio::time::timeout(Duration::from_hours(1), body.next()).await.expect_err("still quiet");
}

#[tokio::test(start_paused = true)]
async fn a_rate_spaces_requests_in_their_order() {
    let began = Instant::now();
    let arrived = Arc::new(Mutex::new(Vec::new()));
    let arrivals = arrived.clone();
    let seen = Arc::new(Seen::default());
    let stack = ClientStack::new().rate(count(10), count(2)).observer(seen.clone());
    let client = client_of_fn(stack, move |request| {
        let path = request.uri().path().to_owned();
        arrivals.lock().expect("no panic").push((path, began.elapsed().as_millis()));
        async { Ok(Response::new(whole("{}"))) }
    });
    let requests = (0..5).map(|n| client.send(get(&format!("/{n}"))));
    for answer in join_all(requests).await {
        assert_eq!(answer.expect("an answer").status(), 200);
    }
    let wanted = [("/0", 0), ("/1", 0), ("/2", 100), ("/3", 200), ("/4", 300)];
    let wanted = wanted.map(|(path, at)| (path.to_owned(), at));
    assert_eq!(*arrived.lock().expect("no panic"), wanted);
    assert_eq!(*seen.delays.lock().expect("no panic"), [0, 0, 100, 100, 100]);
    for request in &*seen.finished.lock().expect("no panic") {
        assert_eq!(request.duration, Duration::ZERO, "waiting is not the server's time");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_not_polled_does_not_hold_up_the_others() {
    let cluster = TestServer::embedded();
    let client = client_of(&cluster, ClientStack::new().rate(count(1), count(1)));
    client.send(get(CONFIGS)).await.expect("an answer");
    let mut first = std::pin::pin!(client.send(get(CONFIGS)));
    for _ in 0..10 {
        // The client has a task of its own, which must have taken the request.
        assert!(futures::poll!(first.as_mut()).is_pending(), "it waits for the rate");
        tokio::task::yield_now().await;
    }
    let second = tokio::time::timeout(Duration::from_mins(1), client.send(get(CONFIGS)));
    second.await.expect("it does not wait for the first").expect("an answer");
    first.await.expect("an answer");
}

#[tokio::test(start_paused = true)]
async fn the_body_of_an_answer_can_be_polled_after_its_end() {
    let client = client_of_fn(ClientStack::new(), |_| async { Ok(Response::new(whole("{}"))) });
    let mut body = client.send(get(CONFIGS)).await.expect("an answer").into_body();
    while body.frame().await.is_some() {}
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_nobody_waits_for_takes_no_slot() {
    let cluster = TestServer::embedded();
    let client = client_of(&cluster, ClientStack::new().rate(count(1), count(1)));
    let began = Instant::now();
    client.send(get(CONFIGS)).await.expect("an answer");
    {
        let impatient = client.send(get(CONFIGS));
        tokio::time::timeout(Duration::from_millis(500), impatient).await.expect_err("held back");
    }
    client.send(get(CONFIGS)).await.expect("an answer");
    assert_eq!(began.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn every_request_is_observed_once() {
    let cluster = TestServer::embedded();
    let faults = cluster.server().expect("embedded").faults();
    let seen = Arc::new(Seen::default());
    let client = client_of(&cluster, ClientStack::new().observer(seen.clone()));
    let object = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
    for request in [
        get(CONFIGS),
        post(CONFIGS, object),
        post(CONFIGS, object),
        get(&format!("{CONFIGS}/a")),
        get(WATCH),
    ] {
        client.send(request).await.expect("an answer");
    }
    let id = faults.add(FaultRule::new(Fault::Refuse));
    client.send(get(CONFIGS)).await.expect_err("the connection breaks");
    faults.remove(id);
    faults.add(FaultRule::new(Fault::Hang));
    let impatient = tokio::time::timeout(Duration::from_secs(1), client.send(get(CONFIGS)));
    impatient.await.expect_err("no answer yet");

    let answered = |verb, code| (verb, RequestOutcome::Answered(code));
    assert_eq!(
        seen.outcomes(),
        [
            answered("list", StatusCode::OK),
            answered("create", StatusCode::CREATED),
            answered("create", StatusCode::CONFLICT),
            answered("get", StatusCode::OK),
            answered("watch", StatusCode::OK),
            ("list", RequestOutcome::Failed),
            ("list", RequestOutcome::Dropped),
        ]
    );
}

#[tokio::test]
async fn the_stack_introduces_itself_and_wants_nothing_compressed() {
    let headers = async |stack: ClientStack, request| {
        let (sender, seen) = std::sync::mpsc::channel();
        let client = client_of_fn(stack, move |request| {
            sender.send(request.headers().clone()).expect("someone listens");
            async { Ok(Response::new(whole("{}"))) }
        });
        client.send(request).await.expect("an answer");
        seen.recv().expect("headers")
    };
    let list = headers(ClientStack::new(), get(CONFIGS)).await;
    assert_eq!(list[USER_AGENT], concat!("windlass/", env!("CARGO_PKG_VERSION")));
    assert_eq!(list[ACCEPT_ENCODING], "identity");
    let own = ClientStack::new().user_agent(HeaderValue::from_static("shop/1.0"));
    let watch = headers(own.clone(), get(WATCH)).await;
    assert_eq!(watch[USER_AGENT], "shop/1.0");
    assert_eq!(watch[ACCEPT_ENCODING], "identity");
    let mut request = get(CONFIGS);
    request.headers_mut().insert(USER_AGENT, HeaderValue::from_static("mine/2"));
    let list = headers(own, request).await;
    assert_eq!(list.get_all(USER_AGENT).iter().collect::<Vec<_>>(), ["mine/2"]);
}

/// Answers one request on a socket, and tells what came.
async fn answer_once(listener: &TcpListener, answer: &str) -> String {
    let (mut stream, _) = listener.accept().await.expect("a connection");
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).await.expect("a byte");
        request.extend_from_slice(&byte);
    }
    let length = answer.len();
    let answer =
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{answer}");
    stream.write_all(answer.as_bytes()).await.expect("it is read");
    String::from_utf8(request).expect("ASCII")
}

#[tokio::test]
async fn a_configuration_keeps_its_own_user_agent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let mut config = kube::Config::new(url.parse().expect("a URL"));
    config.headers.push((USER_AGENT, HeaderValue::from_static("operator/3")));
    let client = ClientStack::new().connect(config).expect("a client");
    let (request, answer) =
        tokio::join!(answer_once(&listener, "{}"), client.send(get("/version")));
    answer.expect("an answer");
    let lines = request.to_lowercase();
    let agents: Vec<_> = lines.lines().filter(|line| line.starts_with("user-agent")).collect();
    assert_eq!(agents, ["user-agent: operator/3"]);
}

/// A layer of a caller's: it notes that it was passed, and may refuse.
struct Gate {
    inner: HttpService,
    name: &'static str,
    passed: Arc<Mutex<Vec<&'static str>>>,
    is_open: bool,
}

impl Service<Request<Body>> for Gate {
    type Response = <HttpService as Service<Request<Body>>>::Response;
    type Error = BoxError;
    type Future = futures::future::BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.passed.lock().expect("no panic").push(self.name);
        if !self.is_open {
            return Box::pin(async { Err("the gate is closed".into()) });
        }
        self.inner.call(request)
    }
}

#[tokio::test]
async fn layers_of_a_caller_stand_outside_of_the_others() {
    let cluster = TestServer::embedded();
    let passed = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::new(Seen::default());
    let gate = |name, is_open| {
        let passed = passed.clone();
        layer_fn(move |inner| Gate { inner, name, passed: passed.clone(), is_open })
    };
    let stack = ClientStack::new().layer(gate("first", true)).layer(gate("second", false));
    let client = client_of(&cluster, stack.observer(seen.clone()));
    let error = client.send(get(CONFIGS)).await.expect_err("closed");
    assert_eq!(error.to_string(), "ServiceError: the gate is closed");
    assert_eq!(*passed.lock().expect("no panic"), ["first", "second"]);
    assert_eq!(seen.outcomes(), [], "nothing was sent");
}

on_each_server!(the_stack_works);
async fn the_stack_works(cluster: TestServer) {
    let client = client_of(&cluster, ClientStack::new().rate(count(100), count(100)));
    let namespaces =
        KubeListWatch::new(client, Resource::of::<k8s_openapi::api::core::v1::Namespace>());
    let (items, _) = list(&namespaces, ListRequest::default()).await.expect("a list");
    assert!(items.iter().any(|item| crate::server::name(item) == "default"));
}

on_each_server!(clock_of_the_server_is_known_from_its_answers);
async fn clock_of_the_server_is_known_from_its_answers(cluster: TestServer) {
    const HOUR: SignedDuration = SignedDuration::from_hours(1);
    let log = Log::start();
    let clock = ServerClock::new(|| Timestamp::now() - HOUR);
    let client = client_of(&cluster, ClientStack::new().server_clock(clock.clone()));
    // An error has the time, too.
    for uri in [CONFIGS, "/api/v1/namespaces/default/configmaps/missing"] {
        client.send(get(uri)).await.expect("an answer");
        let skew = clock.skew().expect("the server has told the time");
        assert!((skew + HOUR).abs() < SignedDuration::from_secs(30), "{skew}");
    }
    let lines = log.lines_with("behind the API server's");
    assert_eq!(lines.len(), 1, "{lines:?}");
}

/// What an overloaded kube-apiserver answers: text, and the time to wait in a header.
fn overloaded() -> Response<ResponseBody> {
    let body = whole("Too many requests, please try again later.\n");
    let response = Response::builder().status(429).header("retry-after", "7");
    response.header("content-type", "text/plain; charset=utf-8").body(body).expect("an answer")
}

#[tokio::test]
async fn error_says_which_request_it_was_and_when_to_retry_for_every_verb() {
    let (client, _) = client_with_answer(overloaded);
    let api: Api<ConfigMap> = Api::namespaced(client, "shop");
    let post = PostParams::default();
    let patch = PatchParams::apply("me");
    let delete = DeleteParams::default();
    let list = ListParams::default();
    let mut object = ConfigMap::default();
    object.metadata.name = Some("web".to_owned());
    object.metadata.resource_version = Some("1".to_owned());
    let apply = Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap"}));
    let errors = [
        ("get configmaps shop/web", api.get("web").await.map(drop)),
        ("list configmaps in shop", api.list(&list).await.map(drop)),
        ("create configmaps in shop", api.create(&post, &object).await.map(drop)),
        ("update configmaps shop/web", api.replace("web", &post, &object).await.map(drop)),
        ("patch configmaps shop/web", api.patch("web", &patch, &apply).await.map(drop)),
        (
            "patch configmaps/status shop/web",
            api.patch_status("web", &patch, &apply).await.map(drop),
        ),
        ("delete configmaps shop/web", api.delete("web", &delete).await.map(drop)),
        (
            "deletecollection configmaps in shop",
            api.delete_collection(&delete, &list).await.map(drop),
        ),
        ("watch configmaps in shop", api.watch(&WatchParams::default(), "0").await.map(drop)),
    ];
    for (request, result) in errors {
        let Err(kube::Error::Api(status)) = result else { panic!("{request}: {result:?}") };
        assert_eq!((status.code, status.reason.as_str()), (429, "TooManyRequests"), "{request}");
        let details = status.details.as_ref().expect("details");
        assert_eq!(details.retry_after_seconds, 7, "{request}");
        assert!(status.message.contains("please try again later"), "{}", status.message);
        assert!(status.message.ends_with(&format!(" ({request})")), "{}", status.message);
    }
}

/// A gateway may send a large page, or never end.
#[tokio::test(start_paused = true)]
async fn flood_of_an_error_is_read_in_part() {
    let sent = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&sent);
    let frames = (0..10_000).map(move |_| {
        *counted.lock().expect("no panic") += 1;
        Ok::<_, BoxError>(Frame::data(Bytes::from_static(&[b'x'; 1024])))
    });
    let body = StreamBody::new(futures::stream::iter(frames));
    let answer = Response::builder().status(503).body(body).expect("an answer");
    let explained = explain(&RequestInfo::of(&get("/api/v1/pods")), answer).await;
    let explained = explained.into_body().collect().await.expect("a body").to_bytes();
    assert_eq!(*sent.lock().expect("no panic"), 64);
    assert!(explained.len() < 1024, "{explained:?}");
}

#[tokio::test]
async fn status_of_the_server_keeps_its_words_and_gets_the_time_to_wait() {
    let answer = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 409,
        "message": "it has been modified", "reason": "Conflict", "details": {"name": "web", "kind": "configmaps"},
    });
    let (client, _) = client_with_answer(move || {
        let response = Response::builder().status(409).header("retry-after", "3");
        response.body(whole(answer.to_string())).expect("an answer")
    });
    let api: Api<ConfigMap> = Api::namespaced(client, "shop");
    let error = api.get("web").await.expect_err("a conflict");
    let kube::Error::Api(status) = &error else { panic!("{error}") };
    assert_eq!(status.message, "it has been modified (get configmaps shop/web)");
    let details = status.details.as_ref().expect("details");
    assert_eq!((details.name.as_str(), details.retry_after_seconds), ("web", 3));
    let expected = "it has been modified (get configmaps shop/web) (409)";
    assert_eq!(windlass_informer::client::safe_message(&error), expected);
}

const TOKEN: &str = "hunter2-is-a-secret";

fn assert_private(what: impl std::fmt::Debug + std::fmt::Display) {
    let text = format!("{what} {what:?} {what:#?}");
    assert!(!text.contains("hunter2"), "{text}");
}

#[tokio::test]
async fn credentials_are_sent_and_never_shown() {
    let log = Log::start_at(Level::TRACE);

    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let mut config = kube::Config::new(url.parse().expect("a URL"));
    config.auth_info.token = Some(TOKEN.to_owned().into());
    let client = ClientStack::new().connect(config.clone()).expect("a client");
    let (request, answer) =
        tokio::join!(answer_once(&listener, "{}"), client.send(get("/version")));
    assert!(request.contains(TOKEN), "it must be sent: {AUTHORIZATION}");
    drop(answer.expect("an answer"));

    drop(listener);
    let error = client.send(get("/version")).await.expect_err("nobody listens");
    assert_private(&error);
    let error = list(&configs(client), ListRequest::default()).await.expect_err("nobody listens");
    assert!(error.to_string().contains("onnection refused"), "{error}");
    assert_private(&error);
    assert!(!log.text().is_empty() && !log.text().contains("hunter2"), "{}", log.text());

    config.proxy_url = Some("ftp://user:hunter2@proxy:21".parse().expect("a URL"));
    let error = ClientStack::new().connect(config).map(drop).expect_err("an unknown protocol");
    assert_private(&error);
}

/// Over TLS, which is only spoken with a real server.
#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn credentials_of_a_watch_are_never_shown() {
    let cluster = TestServer::real().await.expect("a real cluster");
    let real = cluster.control_plane().expect("it is real");
    let log = Log::start_at(Level::TRACE);
    let client = ClientStack::new().connect(real.config()).expect("a client");
    let answer = client.send(get(WATCH)).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::OK);
    drop(answer);
    assert!(!log.text().is_empty() && !log.text().contains(real.admin_token()), "{}", log.text());
}

#[tokio::test]
async fn the_output_of_a_credential_command_is_never_shown() {
    let kubeconfig = format!(
        r#"{{"clusters":[{{"name":"c","cluster":{{"server":"http://127.0.0.1:1"}}}}],
            "contexts":[{{"name":"c","context":{{"cluster":"c","user":"u"}}}}],"current-context":"c",
            "users":[{{"name":"u","user":{{"exec":{{"apiVersion":"client.authentication.k8s.io/v1",
            "command":"sh","args":["-c","echo {TOKEN}; echo {TOKEN} >&2; exit 3"],
            "interactiveMode":"Never"}}}}}}]}}"#
    );
    let kubeconfig = kube::config::Kubeconfig::from_yaml(&kubeconfig).expect("a kubeconfig");
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let config = config.expect("a configuration");
    let error = ClientStack::new().connect(config).map(drop).expect_err("the command fails");
    assert_private(&error);
    assert!(error.to_string().contains("exit status: 3"), "{error}");
}

#[test]
fn the_debug_output_of_a_stack_shows_settings_only() {
    assert!(format!("{:?}", ClientStack::new()).contains("request_timeout: 30s"));
}

/// Panics if a request to `/panics` is sent through it, and refuses to be ready after one to
/// `/refuses`.
struct Faulty {
    inner: HttpService,
    refuses: bool,
}

impl Service<Request<Body>> for Faulty {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = <HttpService as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        if std::mem::take(&mut self.refuses) {
            return Poll::Ready(Err("it is not ready".into()));
        }
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        assert_ne!(request.uri().path(), "/panics", "a layer that does not like it");
        self.refuses = request.uri().path() == "/refuses";
        self.inner.call(request)
    }
}

/// A background task dies. One task calls the layers for all clones of a client.
#[tokio::test(start_paused = true)]
async fn layer_that_panics_or_is_not_ready_fails_one_request() {
    let cluster = TestServer::embedded();
    let layer = layer_fn(|inner| Faulty { inner, refuses: false });
    let client = client_of(&cluster, ClientStack::new().layer(layer));
    let error = client.send(get("/panics")).await.expect_err("it panics").to_string();
    assert!(error.contains("a layer of the client panicked"), "{error}");
    client.clone().send(get(CONFIGS)).await.expect("the client lives");
    client.send(get("/refuses")).await.expect("an answer");
    let error = client.send(get(CONFIGS)).await.expect_err("it is not ready").to_string();
    assert!(error.contains("it is not ready"), "{error}");
    client.send(get(CONFIGS)).await.expect("the client lives");
}
