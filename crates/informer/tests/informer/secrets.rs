//! Data of a Secret shows nowhere: not in a log line of any level, an error, a status or an event's
//! text, whatever is wrong with the Secret and wherever it comes.

use std::fmt::{Debug, Display, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::by_hand::{self, Server};
use crate::support::{Running, idle, pass};
use http::Response;
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::api::core::v1::Secret;
use serde::Deserialize;
use serde_json::json;
use tracing::Level;
use windlass_indexer::{Head, Index};
use windlass_informer::client::ResponseBody;
use windlass_informer::observe::{Observation, Observer};
use windlass_informer::{ClientStack, Event, InformerOptions, Resource, SharedInformer, Transform};
use windlass_testserver::Log;

/// What must show nowhere, as it is and in base64.
const SECRET: &str = "hunter2";
const ENCODED: &str = "aHVudGVyMg";

/// Secrets with something wrong in each, as the server would send them.
const BROKEN: [&str; 19] = [
    // No head can be read.
    r#"{"metadata":{"name":"s","labels":{"app":["hunter2"]}},"data":{"p":"aHVudGVyMg=="}}"#,
    r#"{"metadata":{"name":"s","labels":"hunter2"},"data":{"p":"aHVudGVyMg=="}}"#,
    r#"{"metadata":{"name":"s","annotations":{"applied":["hunter2"]}},"data":{"p":"aHVudGVyMg=="}}"#,
    r#"{"metadata":{"name":"s","uid":["hunter2"]},"data":{"p":"aHVudGVyMg=="}}"#,
    r#"{"metadata":{"name":"s","resourceVersion":{"hunter2":1}},"data":{"p":"aHVudGVyMg=="}}"#,
    r#"{"metadata":{"name":"s","creationTimestamp":"hunter2"},"data":{"p":"aHVudGVyMg=="}}"#,
    r#"{"metadata":{"name":"s","ownerReferences":[{"uid":"u","name":{"hunter2":1}}]},"data":{"p":"aHVudGVyMg=="}}"#,
    r#"{"metadata":{"name":["hunter2"]},"data":{"p":"aHVudGVyMg=="}}"#,
    r#"{"metadata":{"namespace":"default"},"data":{"p":"aHVudGVyMg=="},"stringData":{"p":"hunter2"}}"#,
    r#"{"metadata":"hunter2","data":{"p":"aHVudGVyMg=="}}"#,
    r#"{"data":{"p":"aHVudGVyMg=="}}"#,
    r#"{"kind":{"hunter2":1},"metadata":{"name":"s"},"data":{"p":"aHVudGVyMg=="}}"#,
    // The head is fine, and the body is no Secret.
    r#"{"metadata":{"name":"s","uid":"u","resourceVersion":"9"},"data":"hunter2"}"#,
    r#"{"metadata":{"name":"s","uid":"u","resourceVersion":"9"},"data":{"p":["hunter2"]}}"#,
    r#"{"metadata":{"name":"s","uid":"u","resourceVersion":"9"},"data":{"p":"hunter2!"}}"#,
    r#"{"metadata":{"name":"s","uid":"u","resourceVersion":"9"},"immutable":"hunter2"}"#,
    r#"{"metadata":{"name":"s","uid":"u","resourceVersion":"9"},"type":{"hunter2":1}}"#,
    r#"{"metadata":{"name":"s","uid":"u","resourceVersion":"9","generation":"hunter2"}}"#,
    // Nothing is wrong with it.
    r#"{"metadata":{"name":"s","uid":"u","resourceVersion":"9","labels":{"a":"b"}},"data":{"p":"aHVudGVyMg=="}}"#,
];

/// Bodies that are wrong as a whole, or break in the middle of a Secret. Each is sent as a list and
/// as a watch.
const BROKEN_BODIES: [&str; 14] = [
    r#"{"kind":"Secret","metadata":{"name":"s"},"data":{"p":"aHVudGVyMg=="},"stringData":{"p":"hunter2"}}"#,
    r#"[{"kind":"Secret","data":{"p":"hunter2"}}]"#,
    r#""hunter2""#,
    "data:\n  p: hunter2\n",
    "apiVersion: v1\nkind: Secret\nstringData: {p: hunter2}\n",
    r#"{"type":"ADDED","object":{"metadata":{"name":"s"},"data":{"p":"hunter2"#,
    r#"{"type":"ADDED","object":{"metadata":{"name":"s"},"data":{"p":"hunter2}}}"#,
    r#"{"type":"ADDED","object":["hunter2"]}"#,
    r#"{"type":["hunter2"],"object":{"stringData":{"p":"hunter2"}}}"#,
    r#"{"type":"ERROR","object":{"kind":"Secret","stringData":{"p":"hunter2"}}}"#,
    r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":["hunter2"]}}}"#,
    r#"{"kind":"SecretList","metadata":{},"items":[{"metadata":{"name":"s"},"data":{"p":"hunter2"#,
    r#"{"kind":"SecretList","metadata":{"resourceVersion":["hunter2"]},"items":{"hunter2":1}}"#,
    r#"{"kind":"SecretList","items":[{"metadata":{"name":"s"}},"hunter2",{"p":"hunter2"},]}"#,
];

/// An index whose view no broken Secret decodes as.
#[derive(Clone, PartialEq)]
struct ByData;

#[derive(Deserialize)]
struct Numbers {
    data: std::collections::BTreeMap<String, u32>,
}

impl Index for ByData {
    type View = Numbers;
    type Value = u32;

    fn values(&self, _: &Head, view: Numbers) -> impl IntoIterator<Item = u32> {
        view.data.into_values()
    }
}

/// All that was shown to anybody.
#[derive(Clone, Default)]
struct Shown(Arc<Mutex<String>>);

impl Shown {
    fn add(&self, what: impl Debug + Display) {
        let mut shown = self.0.lock().expect("no panic");
        let _ = writeln!(shown, "{what}\n{what:?}\n{what:#?}");
    }

    fn add_debug(&self, what: impl Debug) {
        let mut shown = self.0.lock().expect("no panic");
        let _ = writeln!(shown, "{what:?}\n{what:#?}");
    }

    fn add_log(&self, log: &Log) {
        self.0.lock().expect("no panic").push_str(&log.text());
    }

    /// Returns what was shown, without the Secret.
    fn has_no_secret(&self, what: &str) -> String {
        let shown = self.0.lock().expect("no panic").clone();
        assert!(!shown.contains(SECRET) && !shown.contains(ENCODED), "{what}:\n{shown}");
        shown
    }
}

impl Observer for Shown {
    fn observe(&self, resource: &Resource, observation: &Observation<'_>) {
        self.add(resource);
        self.add_debug(observation);
        if let Observation::Failed { error, .. } = observation {
            self.add(error);
        }
    }
}

/// An informer of Secrets whose users show whatever they are given.
fn informer(options: InformerOptions, shown: &Shown) -> (Running<Secret>, Server) {
    let (source, server) = by_hand::source();
    let told = shown.clone();
    let options = options
        .seed(1)
        .index(ByData)
        .observer(Arc::new(shown.clone()))
        .on_error(move |_, error| told.add(error));
    let informer = SharedInformer::<Secret>::with_source(source, Resource::of::<Secret>(), options);
    let informer = informer.expect("an informer");
    let told = shown.clone();
    let handler = move |event: Event<Secret>| {
        told.add_debug(&event);
        told.add_debug(event.object());
        if let Err(error) = event.object().get() {
            told.add(error);
        }
    };
    shown.add_debug(informer.add_handler(handler).expect("not stopped"));
    (Running::start(informer), server)
}

/// Shows all that can be asked of an informer.
fn show(informer: &SharedInformer<Secret>, shown: &Shown) {
    if let Err(error) = informer.lister().get("default/s").and(informer.lister().get("s")) {
        shown.add(error);
    }
    for object in &informer.lister().list() {
        shown.add_debug(&object);
        shown.add_debug(object.object());
        if let Err(error) = object.get() {
            shown.add(error);
        }
    }
    shown.add_debug(informer);
    shown.add_debug(informer.lister());
    shown.add_debug(informer.status());
    for error in informer.status().quarantined {
        shown.add(error);
    }
    for (error, _) in informer.status().feeds.into_iter().filter_map(|feed| feed.last_error) {
        shown.add(error);
    }
}

/// Compact, resident, and with a transform that parses everything.
fn layouts() -> [InformerOptions; 3] {
    let untouched = Transform::new("untouched", |_| {});
    [
        InformerOptions::new(),
        InformerOptions::new().resident::<Secret>(),
        InformerOptions::new().transform(untouched),
    ]
}

#[tokio::test(start_paused = true)]
async fn undecodable_secret_in_a_watch_shows_nothing() {
    let mut quarantined = 0;
    for (secret, options) in BROKEN.iter().flat_map(|json| layouts().map(|layout| (json, layout))) {
        let shown = Shown::default();
        let log = Log::with_spans(Level::TRACE);
        let (informer, mut server) = informer(options, &shown);
        let wire = server.asked().await.streams();
        wire.sends(&format!(r#"{{"type":"ADDED","object":{secret}}}"#));
        wire.ends_list("5");
        for change in ["ADDED", "MODIFIED", "DELETED"] {
            wire.sends(&format!(r#"{{"type":"{change}","object":{secret}}}"#));
            idle().await;
            show(&informer, &shown);
        }
        quarantined += informer.status().quarantined_total;
        informer.end().await;
        shown.add_log(&log);
        let shown = shown.has_no_secret(secret);
        assert!(shown.contains("InformerPhase") || shown.contains("Synced"), "something is shown");
    }
    assert!(quarantined > 50, "{quarantined}");
}

#[tokio::test(start_paused = true)]
async fn undecodable_secret_in_a_list_shows_nothing() {
    for (secret, options) in BROKEN.iter().flat_map(|json| layouts().map(|layout| (json, layout))) {
        let shown = Shown::default();
        let log = Log::with_spans(Level::TRACE);
        let (informer, mut server) = informer(options, &shown);
        server.asked().await.fails(by_hand::refusal(422, "Invalid"));
        let list = format!(
            r#"{{"kind":"SecretList","apiVersion":"v1","metadata":{{"resourceVersion":"7"}},"items":[{secret}]}}"#
        );
        server.asked().await.opens().sends(&list);
        informer.wait_for_sync().await.expect("one that is broken holds nobody up");
        idle().await;
        show(&informer, &shown);
        informer.end().await;
        shown.add_log(&log);
        shown.has_no_secret(secret);
    }
}

#[tokio::test(start_paused = true)]
async fn body_that_breaks_in_a_secret_shows_nothing() {
    for body in BROKEN_BODIES {
        for paged in [false, true] {
            let shown = Shown::default();
            let log = Log::with_spans(Level::TRACE);
            let (informer, mut server) = informer(InformerOptions::new(), &shown);
            if paged {
                server.asked().await.fails(by_hand::refusal(422, "Invalid"));
            }
            server.asked().await.opens().sends(body);
            pass(Duration::from_mins(1)).await;
            show(&informer, &shown);
            informer.end().await;
            shown.add_log(&log);
            let shown = shown.has_no_secret(body);
            assert!(shown.contains("failed") || shown.contains("was quarantined"), "{body}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn secret_that_is_too_large_shows_nothing() {
    let shown = Shown::default();
    let log = Log::with_spans(Level::TRACE);
    let (informer, mut server) = informer(InformerOptions::new().object_bytes_max(1_000), &shown);
    let wire = server.asked().await.streams();
    let object = json!({"metadata": {"name": "s"}, "stringData": {"p": SECRET.repeat(1_000)}});
    wire.event("ADDED", &object);
    idle().await;
    show(&informer, &shown);
    informer.end().await;
    shown.add_log(&log);
    let shown = shown.has_no_secret("a large one");
    assert!(shown.contains("more than 1000 bytes in one object"), "{shown}");
}

/// Through a client, so that what it and its layers log is looked at as well.
#[tokio::test(start_paused = true)]
async fn secret_in_the_answer_to_a_failed_request_shows_nothing() {
    for code in [200, 400, 404, 410, 422, 429, 500, 503] {
        for body in BROKEN.iter().chain(&BROKEN_BODIES) {
            let shown = Shown::default();
            let log = Log::with_spans(Level::TRACE);
            let answer = move |_: http::Request<kube::client::Body>| async move {
                let whole = Full::new(bytes::Bytes::from_static(body.as_bytes()));
                let whole: ResponseBody = whole.map_err(|never| match never {}).boxed_unsync();
                let response = Response::builder().status(code).body(whole).expect("an answer");
                Ok::<_, std::convert::Infallible>(response)
            };
            let client = ClientStack::new().around(tower::service_fn(answer), "default");
            let informer = SharedInformer::<Secret>::new(client, InformerOptions::new().seed(1));
            let informer = Running::start(informer.expect("an informer"));
            pass(Duration::from_mins(2)).await;
            show(&informer, &shown);
            informer.end().await;
            shown.add_log(&log);
            let shown = shown.has_no_secret(body);
            assert!(shown.contains("a list or watch failed"), "{code} {body}: logged");
        }
    }
}
