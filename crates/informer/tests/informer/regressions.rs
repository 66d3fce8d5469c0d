//! What a review of the informers found, each as a test of what should hold.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass_informer::observe::{Observation, Observer};
use windlass_informer::source::{Answer, ListWatch, Request};
use windlass_informer::{
    Event, HandlerOptions, InformerOptions, Resource, SharedInformer, SharedInformerFactory,
    SourceError, Status, Transform, filtered,
};
use windlass_testserver::TestServer;

/// What a source answers.
enum Reply {
    /// A refusal with this code.
    Refuse(u16),
    /// Chunks, and then the end of the body.
    Close(Vec<String>),
    /// Chunks, and then neither more nor an end.
    Hang(Vec<String>),
}

/// Answers each request with the next reply, and hangs when there is none.
#[derive(Clone, Default)]
struct Script {
    replies: Arc<Mutex<VecDeque<Reply>>>,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Script {
    fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let replies = Arc::new(Mutex::new(replies.into_iter().collect()));
        Self { replies, requests: Arc::default() }
    }

    fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("no panic").clone()
    }
}

impl ListWatch for Script {
    fn request<'a>(&'a self, request: &'a Request) -> Answer<'a> {
        self.requests.lock().expect("no panic").push(request.clone());
        let reply = self.replies.lock().expect("no panic").pop_front();
        Box::pin(async move {
            let (chunks, hangs) = match reply {
                Some(Reply::Refuse(code)) => {
                    let mut status = Status::default();
                    status.code = code;
                    return Err(SourceError::from(status));
                }
                Some(Reply::Close(chunks)) => (chunks, false),
                Some(Reply::Hang(chunks)) => (chunks, true),
                None => (Vec::new(), true),
            };
            let chunks = futures::stream::iter(chunks.into_iter().map(|c| Ok(Bytes::from(c))));
            let body: windlass_informer::source::Body = if hangs {
                Box::pin(chunks.chain(futures::stream::pending()))
            } else {
                Box::pin(chunks)
            };
            Ok(body)
        })
    }
}

fn object(name: &str, version: &str) -> Value {
    json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "a", "uid": name, "resourceVersion": version},
        "data": {"version": version},
    })
}

fn event(kind: &str, object: &Value) -> String {
    json!({"type": kind, "object": object}).to_string() + "\n"
}

fn listed(version: &str) -> String {
    event(
        "BOOKMARK",
        &json!({
            "kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {
                "resourceVersion": version, "annotations": {"k8s.io/initial-events-end": "true"},
            },
        }),
    )
}

fn gone() -> String {
    event("ERROR", &json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "old"}))
}

fn list(metadata: &Value, items: &[Value]) -> String {
    json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": items})
        .to_string()
}

fn informer(script: &Script, options: InformerOptions) -> SharedInformer<DynamicObject> {
    let resource = Resource::of::<ConfigMap>();
    SharedInformer::with_source(script.clone(), resource, options.seed(1)).expect("an informer")
}

/// Runs an informer while `test` does, with a paused clock that makes an hour of waiting short.
async fn while_running<T>(
    informer: &SharedInformer<DynamicObject>,
    test: impl Future<Output = T>,
) -> T {
    let stop = CancellationToken::new();
    tokio::select! {
        ran = informer.run(stop) => panic!("the informer ended: {ran:?}"),
        result = test => result,
    }
}

async fn hour() {
    tokio::time::sleep(Duration::from_hours(1)).await;
}

fn version_of(informer: &SharedInformer<DynamicObject>, name: &str) -> Option<String> {
    let all = informer.lister().list();
    all.heads()
        .find(|head| head.key().name() == name)
        .map(|head| head.resource_version().to_string())
}

#[tokio::test(start_paused = true)]
async fn list_whose_body_does_not_end_is_followed_by_a_watch() {
    let script = Script::new([
        Reply::Refuse(422),
        Reply::Hang(vec![list(&json!({"resourceVersion": "5"}), &[object("x", "4")])]),
    ]);
    let informer = informer(&script, InformerOptions::new());
    while_running(&informer, hour()).await;
    let requests = script.requests();
    assert!(requests.len() > 2, "an hour after the list nothing is watched: {requests:?}");
}

#[tokio::test(start_paused = true)]
async fn filtered_handler_hears_of_a_deletion_though_it_merged_with_the_update_before() {
    let mut before = object("x", "4");
    before["metadata"]["labels"] = json!({"app": "web"});
    let changes = event("MODIFIED", &object("x", "6")) + &event("DELETED", &object("x", "7"));
    let script = Script::new([
        Reply::Close(vec![event("ADDED", &before), listed("5"), gone()]),
        Reply::Hang(vec![event("ADDED", &before), listed("5"), changes]),
    ]);
    // As if a thousand others waited.
    let informer = informer(&script, InformerOptions::new().merge_above(0));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let handler = filtered(
        |object: &windlass_indexer::Cached<DynamicObject>| {
            object.head().labels().get("app") == Some("web")
        },
        move |event: Event<DynamicObject>| {
            told.lock().expect("no panic").push(format!("{event:?}"));
        },
    );
    informer.add_handler(handler).expect("it runs");
    while_running(&informer, hour()).await;
    let seen = seen.lock().expect("no panic");
    assert!(seen.last().is_some_and(|last| last.starts_with("Deleted")), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn change_within_a_doubtful_list_is_not_undone_at_its_end() {
    let script = Script::new([
        Reply::Close(vec![event("ADDED", &object("x", "90")), listed("100"), gone()]),
        Reply::Close(vec![event("ADDED", &object("x", "40")), listed("120")]),
        Reply::Hang(vec![
            event("ADDED", &object("x", "40")),
            event("MODIFIED", &object("x", "110")),
            listed("121"),
        ]),
    ]);
    let informer = informer(&script, InformerOptions::new());
    while_running(&informer, hour()).await;
    assert_eq!(version_of(&informer, "x").as_deref(), Some("110"));
}

#[tokio::test(start_paused = true)]
async fn deletion_within_the_list_that_begins_an_epoch_leaves_no_ghost() {
    let script = Script::new([
        Reply::Close(vec![event("ADDED", &object("x", "90")), listed("100"), gone()]),
        Reply::Close(vec![event("ADDED", &object("x", "40")), listed("60")]),
        Reply::Hang(vec![
            event("ADDED", &object("x", "40")),
            event("DELETED", &object("x", "62")),
            listed("63"),
        ]),
    ]);
    let informer = informer(&script, InformerOptions::new());
    while_running(&informer, hour()).await;
    let restored = informer.status().feeds[0].counts.restored;
    assert_eq!((restored, version_of(&informer, "x")), (1, None));
}

#[tokio::test(start_paused = true)]
async fn objects_without_versions_are_updated_by_lists() {
    let item = |usage: u32| json!({"metadata": {"name": "x", "namespace": "a"}, "usage": usage});
    let script = Script::new([
        Reply::Refuse(405),
        Reply::Close(vec![list(&json!({}), &[item(1)])]),
        Reply::Refuse(405),
        Reply::Close(vec![list(&json!({}), &[item(2)])]),
    ]);
    let informer = informer(&script, InformerOptions::new());
    while_running(&informer, hour()).await;
    let held = informer.lister().get("a/x").expect("it decodes").expect("it is there");
    assert_eq!(held.data["usage"], 2);
}

#[tokio::test(start_paused = true)]
async fn objects_without_versions_are_updated_by_watches() {
    let item = |usage: u32| json!({"metadata": {"name": "x", "namespace": "a"}, "usage": usage});
    let script = Script::new([
        Reply::Refuse(422),
        Reply::Close(vec![list(&json!({}), &[item(1)])]),
        Reply::Hang(vec![event("ADDED", &item(1)), event("MODIFIED", &item(2))]),
    ]);
    let informer = informer(&script, InformerOptions::new());
    while_running(&informer, tokio::time::sleep(Duration::from_mins(1))).await;
    let held = informer.lister().get("a/x").expect("it decodes").expect("it is there");
    assert_eq!(held.data["usage"], 2);
}

/// `x` is deleted between the list and the watch, so that neither tells of it.
#[tokio::test(start_paused = true)]
async fn deletion_between_a_list_without_a_version_and_its_watch_leaves_no_ghost() {
    let bookmark = |version: &str| json!({"metadata": {"resourceVersion": version}});
    let script = Script::new([
        Reply::Refuse(422),
        Reply::Close(vec![list(&json!({}), &[object("x", "3"), object("y", "4")])]),
        Reply::Close(vec![event("ADDED", &object("y", "4")), event("BOOKMARK", &bookmark("12"))]),
        Reply::Close(vec![list(&json!({}), &[object("y", "4")])]),
    ]);
    let informer = informer(&script, InformerOptions::new());
    while_running(&informer, hour()).await;
    assert_eq!(version_of(&informer, "x"), None, "a ghost");
    assert_eq!(version_of(&informer, "y").as_deref(), Some("4"));
    let watches = script.requests().into_iter().filter_map(|request| match request {
        Request::Watch(watch) => watch.from,
        Request::List(_) => None,
    });
    // It neither resumes from a bookmark nor lists without a pause.
    let watches: Vec<_> = watches.collect();
    assert!(watches.iter().all(String::is_empty), "{watches:?}");
    assert!(watches.len() <= 3, "{watches:?}");
}

#[tokio::test(start_paused = true)]
async fn deletion_whose_head_cannot_be_read_still_deletes() {
    let mut broken = object("x", "6");
    broken["metadata"]["labels"] = json!("none");
    let script = Script::new([Reply::Hang(vec![
        event("ADDED", &object("x", "4")),
        listed("5"),
        event("MODIFIED", &broken),
        event("DELETED", &broken),
    ])]);
    let informer = informer(&script, InformerOptions::new());
    while_running(&informer, tokio::time::sleep(Duration::from_mins(1))).await;
    assert_eq!(informer.status().quarantined_total, 1, "a deletion needs no head");
    assert_eq!(version_of(&informer, "x"), None, "a ghost");
}

#[tokio::test(start_paused = true)]
async fn quarantine_forgets_what_is_gone_from_a_list() {
    let mut broken = object("x", "4");
    broken["metadata"]["labels"] = json!("none");
    let script = Script::new([
        Reply::Close(vec![event("ADDED", &broken), listed("5"), gone()]),
        Reply::Hang(vec![listed("9")]),
    ]);
    let informer = informer(&script, InformerOptions::new());
    while_running(&informer, hour()).await;
    let status = informer.status();
    assert!(status.quarantined.is_empty(), "{:?}", status.quarantined);
}

#[tokio::test(start_paused = true)]
async fn transform_is_never_passed_by() {
    // A number that serde_json's value does not take, and that the server may well send as it is
    // text to it.
    let secret = r#"{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"a","uid":"x","resourceVersion":"4"},"odd":1e999,"data":{"password":"hunter2"}}}"#;
    let script = Script::new([Reply::Hang(vec![secret.to_owned() + "\n", listed("5")])]);
    let redact = Transform::new("redact", |object| {
        object.as_object_mut().map(|object| object.remove("data"));
    });
    let informer = informer(&script, InformerOptions::new().transform(redact));
    while_running(&informer, tokio::time::sleep(Duration::from_mins(1))).await;
    for held in &informer.lister().list() {
        let bytes = held.object().bytes().unwrap_or_default();
        assert!(!String::from_utf8_lossy(bytes).contains("hunter2"), "held untransformed");
    }
}

#[tokio::test(start_paused = true)]
async fn source_of_an_informer_with_namespaces_leaves_no_ghosts() {
    let mut other = object("y", "4");
    other["metadata"]["namespace"] = json!("b");
    let script = Script::new([
        Reply::Close(vec![event("ADDED", &other), listed("5"), gone()]),
        Reply::Hang(vec![listed("9")]),
    ]);
    let informer = informer(&script, InformerOptions::new().namespace("a"));
    while_running(&informer, hour()).await;
    assert_eq!(version_of(&informer, "y"), None, "a ghost");
}

#[tokio::test(start_paused = true)]
async fn subscription_is_synced_when_everything_was_taken() {
    let script = Script::new([Reply::Hang(vec![event("ADDED", &object("x", "4")), listed("5")])]);
    let informer = informer(&script, InformerOptions::new());
    let mut events = informer.subscribe().expect("it runs");
    while_running(&informer, async {
        informer.wait_for_sync().await.expect("synced");
        assert!(events.next().await.is_some());
        let taken = async {
            while !events.has_synced() {
                events.next().await;
            }
        };
        let done = tokio::time::timeout(Duration::from_hours(1), taken).await;
        assert!(done.is_ok(), "all was taken, and it is not synced");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn resync_may_be_as_rare_as_one_likes() {
    let script = Script::default();
    let informer = informer(&script, InformerOptions::new());
    let options = HandlerOptions::new().resync(Duration::MAX);
    informer.add_handler_with(options, |_: Event<DynamicObject>| {}).expect("it is added");
}

fn factory() -> SharedInformerFactory {
    SharedInformerFactory::new(TestServer::embedded().client().expect("a client"))
}

#[tokio::test(start_paused = true)]
async fn factory_does_not_wait_for_an_informer_that_nobody_holds() {
    let factory = factory();
    let _pods = factory.informer::<ConfigMap>().expect("an informer");
    factory.start();
    drop(factory.metadata::<k8s_openapi::api::core::v1::Secret>().expect("an informer"));
    let synced = tokio::time::timeout(Duration::from_hours(1), factory.wait_for_sync()).await;
    assert!(synced.is_ok(), "it waits for ever for an informer that was dropped");
}

#[tokio::test(start_paused = true)]
async fn stop_token_of_a_factory_ends_those_who_wait_for_an_informer_that_never_ran() {
    let stop = CancellationToken::new();
    let client = TestServer::embedded().client().expect("a client");
    let factory = SharedInformerFactory::builder(client).stop_on(&stop).build();
    let maps = factory.informer::<ConfigMap>().expect("an informer");
    let handler = maps.add_handler(|_: Event<ConfigMap>| {}).expect("a handler");
    let mut events = maps.subscribe().expect("a subscription");
    stop.cancel();
    factory.start();
    let waits = async {
        maps.wait_for_sync().await.expect_err("it never ran");
        assert!(!handler.wait_for_sync().await, "it never ran");
        assert!(events.next().await.is_none(), "it never ran");
    };
    let ended = tokio::time::timeout(Duration::from_hours(1), waits).await;
    assert!(ended.is_ok(), "the factory was stopped, and somebody waits for ever");
}

#[tokio::test(start_paused = true)]
async fn dropped_factory_leaves_no_informer_behind() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let factory = factory();
    let lister = factory.lister::<ConfigMap>().expect("a lister");
    factory.start();
    factory.wait_for_sync().await.expect("synced");
    drop((lister, factory));
    hour().await;
    assert_eq!(tasks(), before, "an informer that nobody can reach or stop");
}

#[tokio::test(start_paused = true)]
async fn lister_that_outlives_its_informer_is_not_silently_empty() {
    let client = TestServer::embedded().client().expect("a client");
    let maps = kube::Api::<ConfigMap>::namespaced(client.clone(), "default");
    let map = serde_json::from_value(json!({"metadata": {"name": "x"}})).expect("a config map");
    maps.create(&kube::api::PostParams::default(), &map).await.expect("created");
    let factory = SharedInformerFactory::new(client);
    let lister = factory.informer::<ConfigMap>().expect("an informer").lister().clone();
    factory.start();
    factory.wait_for_sync().await.expect("synced");
    assert_eq!(lister.reader().len(), 1, "all is synced, it says, and nothing is there");
}

/// A server that sends events for ever, and knows neither initial events nor bookmarks.
struct Endless;

impl ListWatch for Endless {
    fn request<'a>(&'a self, request: &'a Request) -> Answer<'a> {
        let is_watch = matches!(request, Request::Watch(_));
        Box::pin(async move {
            if !is_watch {
                let chunk = list(&json!({"resourceVersion": "5"}), &[object("x", "4")]);
                let body: windlass_informer::source::Body =
                    Box::pin(futures::stream::iter([Ok(Bytes::from(chunk))]));
                return Ok(body);
            }
            let body: windlass_informer::source::Body =
                Box::pin(futures::stream::unfold(6, async |next| {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    let chunk = event("MODIFIED", &object("x", &u32::to_string(&next)));
                    Some((Ok(Bytes::from(chunk)), next + 1))
                }));
            Ok(body)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn busy_server_that_ignores_initial_events_is_found_out() {
    let resource = Resource::of::<ConfigMap>();
    let informer = SharedInformer::with_source(Endless, resource, InformerOptions::new())
        .expect("an informer");
    let synced = while_running(&informer, async {
        tokio::time::timeout(Duration::from_hours(1), informer.wait_for_sync()).await
    });
    assert!(synced.await.is_ok(), "an hour of changes, and no list");
}

#[tokio::test(start_paused = true)]
async fn handler_that_was_removed_before_the_start_is_no_user() {
    let factory = factory();
    let registration = {
        let maps = factory.informer::<ConfigMap>().expect("an informer");
        maps.add_handler(|_: Event<ConfigMap>| {}).expect("it is added")
    };
    registration.remove();
    factory.start();
    assert!(factory.status().is_empty(), "an informer that nobody uses is started");
}

struct Adds(Mutex<Option<SharedInformer<DynamicObject>>>, Mutex<mpsc::Sender<()>>);

impl Observer for Adds {
    fn observe(&self, _: &Resource, observation: &Observation<'_>) {
        if !matches!(observation, Observation::Synced) {
            return;
        }
        let informer = self.0.lock().expect("no panic").clone().expect("it is set");
        let added = informer.add_handler(|_: Event<DynamicObject>| {});
        drop(added);
        let _ = self.1.lock().expect("no panic").send(());
    }
}

#[test]
fn observer_may_use_the_informer() {
    let (sender, receiver) = mpsc::channel();
    let observer = Arc::new(Adds(Mutex::new(None), Mutex::new(sender)));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let script = Script::new([Reply::Hang(vec![listed("5")])]);
    let informer = informer(&script, InformerOptions::new().observer(observer.clone()));
    *observer.0.lock().expect("no panic") = Some(informer.clone());
    runtime.spawn(async move { informer.run(CancellationToken::new()).await });
    let returned = receiver.recv_timeout(Duration::from_secs(20));
    runtime.shutdown_background();
    assert!(returned.is_ok(), "the observer waits for a lock that its caller holds");
}

#[test]
fn handler_that_is_added_while_the_informer_stops_does_not_keep_it() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let mut stuck = None;
    for round in 0..300 {
        let script = Script::new([Reply::Hang(vec![listed("5")])]);
        let informer = informer(&script, InformerOptions::new());
        let run = informer.clone();
        let (sender, receiver) = mpsc::channel();
        runtime.spawn(async move {
            let _ = run.run(CancellationToken::new()).await;
            let _ = sender.send(());
        });
        let adders: Vec<_> = (0..2)
            .map(|_| {
                let informer = informer.clone();
                std::thread::spawn(move || {
                    while let Ok(registration) = informer.add_handler(|_: Event<DynamicObject>| {})
                    {
                        registration.remove();
                    }
                })
            })
            .collect();
        std::thread::yield_now();
        informer.stop();
        for adder in adders {
            adder.join().expect("no panic");
        }
        if receiver.recv_timeout(Duration::from_secs(10)).is_err() {
            stuck = Some(round);
            break;
        }
    }
    runtime.shutdown_background();
    assert_eq!(stuck, None, "run never returned in this round");
}
