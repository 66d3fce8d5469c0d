//! What a collector gets: the spans of runs, and the links between them. The collector is an HTTP
//! server in the test that decodes OTLP. This is a program of its own, because it installs the
//! subscriber of its process.
#![cfg(feature = "otel")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, PostParams};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::{Span, status::StatusCode};
use prost::Message as _;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::service_fn;
use windlass_informer::SharedInformerFactory;
use windlass_manager::{LogFormat, Logging};
use windlass_reconciler::{Action, Controller, Error, Reconcile, RunContext, Watch};
use windlass_serve::{Limits, RequestBody, serve};
use windlass_testserver::TestServer;

/// The spans that a collector has received.
#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<Span>>>);

impl Received {
    /// Serves a collector until the tasks are dropped.
    async fn serve(&self, tasks: &mut JoinSet<()>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let received = self.clone();
        let service = service_fn(move |request| received.clone().take(request));
        tasks.spawn(async move {
            serve(listener, service, None, Limits::TRUSTED, &CancellationToken::new()).await;
        });
        address
    }

    async fn take(self, request: Request<RequestBody>) -> Result<Response<String>, Infallible> {
        assert_eq!(request.uri().path(), "/v1/traces");
        let body = request.into_body().collect().await.expect("a body").to_bytes();
        let decoded = ExportTraceServiceRequest::decode(body).expect("OTLP");
        let scopes = decoded.resource_spans.into_iter().flat_map(|spans| spans.scope_spans);
        self.0.lock().expect("not poisoned").extend(scopes.flat_map(|scope| scope.spans));
        Ok(Response::new(String::new()))
    }

    /// The spans of the runs of a controller, the oldest first.
    fn runs(&self, controller: &str) -> Vec<Span> {
        let spans = self.0.lock().expect("not poisoned").clone();
        let is_of = |span: &Span| text(span, "controller").as_deref() == Some(controller);
        let mut runs: Vec<_> = spans.into_iter().filter(is_of).collect();
        runs.sort_by_key(|span| span.start_time_unix_nano);
        runs
    }
}

/// An attribute of a span that is a text.
fn text(span: &Span, name: &str) -> Option<String> {
    let attribute = span.attributes.iter().find(|attribute| attribute.key == name)?;
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        _ => None,
    }
}

fn is_linked(span: &Span, to: &Span) -> bool {
    span.links.iter().any(|link| link.trace_id == to.trace_id && link.span_id == to.span_id)
}

/// Creates a Secret for each `ConfigMap`, and marks it with an annotation.
struct Writer {
    has_created: Arc<Notify>,
}

impl Reconcile<ConfigMap> for Writer {
    async fn reconcile(&self, map: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
        if map.metadata.annotations.is_none() {
            let secret: Secret = serde_json::from_value(json!({
                "metadata": {"name": cx.key().name(), "namespace": "default"},
            }))?;
            Api::<Secret>::namespaced(cx.client().clone(), "default")
                .create(&PostParams::default(), &secret)
                .await?;
            self.has_created.notify_one();
            let mut marked = ConfigMap::clone(&map);
            marked.metadata.annotations.get_or_insert_default().insert("seen".into(), "1".into());
            cx.live().update(&*map, &marked).await?;
        }
        Ok(Action::done())
    }
}

/// Says that it ran, and fails.
struct Reader {
    has_created: Arc<Notify>,
    ran: mpsc::Sender<String>,
}

impl Reconcile<Secret> for Reader {
    async fn reconcile(&self, _: Arc<Secret>, cx: &RunContext) -> Result<Action, Error> {
        // The event may arrive before the answer to the write that led to it.
        self.has_created.notified().await;
        self.ran.send(cx.run_id().to_string()).await?;
        Err(Error::msg("not now").terminal())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_is_linked_to_the_run_whose_write_woke_it_in_its_own_and_other_controllers() {
    let (received, mut collector) = (Received::default(), JoinSet::new());
    let address = received.serve(&mut collector).await;
    let guard = Logging::new(LogFormat::Json, "warn")
        .traces_to(format!("http://{address}/v1/traces"))
        .init()
        .expect("a log");
    assert!(guard.is_installed());
    let again = Logging::new(LogFormat::Text, "info").init().expect("not an error");
    assert!(!again.is_installed(), "the first subscriber stays");

    let cluster = TestServer::embedded();
    let factory = SharedInformerFactory::new(cluster.client().expect("a client"));
    let (ran, mut reader_runs) = mpsc::channel(10);
    let has_created = Arc::new(Notify::new());
    let creates = Writer { has_created: Arc::clone(&has_created) };
    let watch = Watch::<ConfigMap>::new().options(|options| options.namespace("default"));
    let writer = Controller::named("writer", watch).build(&factory, creates).expect("a controller");
    let watch = Watch::<Secret>::new().options(|options| options.namespace("default"));
    let reader = Controller::named("reader", watch)
        .build(&factory, Reader { has_created, ran })
        .expect("a controller");
    let (writer, reader) = (Arc::new(writer), Arc::new(reader));
    let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
    let (runner, token) = (Arc::clone(&writer), stop.clone());
    running.spawn(async move { runner.run(token).await });
    let (runner, token) = (Arc::clone(&reader), stop.clone());
    running.spawn(async move { runner.run(token).await });

    let map = serde_json::from_value(json!({"metadata": {"name": "one"}})).expect("an object");
    Api::<ConfigMap>::namespaced(cluster.client().expect("a client"), "default")
        .create(&PostParams::default(), &map)
        .await
        .expect("created");
    let id = reader_runs.recv().await.expect("a run of the reader");
    while writer.status().counts.runs() < 2 || reader.status().counts.runs() < 1 {
        tokio::task::yield_now().await;
    }
    stop.cancel();
    while let Some(ended) = running.join_next().await {
        ended.expect("no panic").expect("it stops");
    }
    factory.shut_down().await;
    drop(guard);

    let (first, second) = (received.runs("writer"), received.runs("reader"));
    let [writing, woken] = &*first else { panic!("two runs: {first:#?}") };
    let [other] = &*second else { panic!("one run: {second:#?}") };
    assert_eq!(writing.name, "reconcile");
    assert_eq!(text(writing, "key").as_deref(), Some("default/one"));
    assert_eq!(writing.links, [], "nobody of this process created the object");
    assert!(is_linked(woken, writing), "the annotation woke the key again: {woken:#?}");
    assert!(is_linked(other, writing), "the Secret woke the other controller: {other:#?}");
    assert_eq!(text(other, "reconcile_id"), Some(id));
    let status = other.status.as_ref().expect("a status");
    assert_eq!((status.code(), &*status.message), (StatusCode::Error, "not now"));
}
