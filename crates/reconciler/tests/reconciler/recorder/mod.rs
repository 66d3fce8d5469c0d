//! Events on their way to a server: what arrives, and what is merged.

mod lifetime;
mod trouble;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ObjectReference};
use k8s_openapi::api::events::v1::Event;
use kube::Resource as _;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use tokio::time::Instant;
use tracing::Level;
use windlass_reconciler::{Occurrence, Recorder, RecorderStatus};
use windlass_testserver::apiserver::{ApiServer, Fault, FaultId, FaultRule};
use windlass_testserver::{Log, TestServer, on_each_server};

/// An embedded server, and a recorder that draws the same every time.
struct Stage {
    cluster: TestServer,
    recorder: Recorder,
    events: Api<Event>,
}

impl Stage {
    fn new() -> Self {
        let cluster = TestServer::embedded();
        let client = cluster.client().expect("a client");
        let start = Instant::now();
        let recorder = Recorder::builder(client.clone(), "tester")
            .instance("here")
            .clock(move || moment() + start.elapsed())
            .seed(7)
            .build();
        Self { cluster, recorder, events: Api::namespaced(client, "default") }
    }

    fn server(&self) -> &ApiServer {
        self.cluster.server().expect("it is embedded")
    }

    /// Requests about events fail like this.
    fn fail(&self, fault: Fault, change: impl FnOnce(FaultRule) -> FaultRule) -> FaultId {
        self.server().faults().add(change(FaultRule::new(fault).resource("events")))
    }

    async fn list(&self) -> Vec<Event> {
        self.events.list(&ListParams::default()).await.expect("events").items
    }

    fn status(&self) -> RecorderStatus {
        self.recorder.status()
    }
}

fn moment() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a time")
}

fn about(name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some("default".to_owned()),
        name: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}

const fn fail(code: u16) -> Fault {
    Fault::Fail { code, retry_after: None }
}

on_each_server!(event_arrives_and_its_repeats_are_a_series);
async fn event_arrives_and_its_repeats_are_a_series(cluster: TestServer) {
    let client = cluster.client().expect("a client");
    let namespace = cluster.namespace("recorder").await.expect("a namespace");
    let objects: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let mut object = ConfigMap::default();
    object.metadata.name = Some("settings".to_owned());
    let object = objects.create(&PostParams::default(), &object).await.expect("created");

    let recorder = Recorder::builder(client.clone(), "example.com/tester").instance("me").build();
    let occurrence = Occurrence::warning(object.object_ref(&()), "Odd", "the object is odd")
        .action("Check")
        .related(about("other"));
    for _ in 0..3 {
        recorder.record(occurrence.clone());
        recorder.flush().await;
    }
    let events: Api<Event> = Api::namespaced(client, &namespace);
    let events = events.list(&ListParams::default()).await.expect("events").items;
    let [event] = events.as_slice() else { panic!("one event, not {}", events.len()) };
    assert!(event.metadata.name.as_deref().is_some_and(|name| name.starts_with("settings.")));
    let told = (event.type_.as_deref(), event.reason.as_deref(), event.note.as_deref());
    assert_eq!(told, (Some("Warning"), Some("Odd"), Some("the object is odd")));
    assert_eq!(event.action.as_deref(), Some("Check"));
    assert_eq!(event.reporting_controller.as_deref(), Some("example.com/tester"));
    assert_eq!(event.reporting_instance.as_deref(), Some("me"));
    assert_eq!(event.regarding, Some(object.object_ref(&())));
    assert_eq!(event.related, Some(about("other")));
    let series = event.series.as_ref().expect("a series");
    assert_eq!(series.count, 3);
    let first = event.event_time.as_ref().expect("a time");
    assert!(series.last_observed_time >= *first);
    let status = recorder.status();
    assert_eq!((status.recorded, status.merged, status.written), (3, 2, 3));
    assert_eq!((status.dropped, status.failed, status.queued), (0, 0, 0));
}

on_each_server!(server_takes_what_is_cut_and_mended);
async fn server_takes_what_is_cut_and_mended(cluster: TestServer) {
    let client = cluster.client().expect("a client");
    let namespace = cluster.namespace("recorder").await.expect("a namespace");
    let recorder = Recorder::new(client.clone(), "not / a name at all!");
    let object = |name: &str| ObjectReference { namespace: Some(namespace.clone()), ..about(name) };
    recorder.record(Occurrence::normal(
        object(&"n".repeat(253)),
        "R".repeat(500),
        "ä".repeat(5000),
    ));
    recorder.record(Occurrence::normal(object("system:node"), "", ""));
    recorder.flush().await;
    let status = recorder.status();
    assert_eq!((status.written, status.failed), (2, 0));
    let events: Api<Event> = Api::namespaced(client, &namespace);
    let events = events.list(&ListParams::default()).await.expect("events").items;
    let notes: Vec<_> =
        events.iter().map(|event| event.note.as_deref().unwrap_or_default().len()).collect();
    assert_eq!(notes.iter().sum::<usize>(), 1024);
}

on_each_server!(event_about_an_object_in_no_namespace_is_in_default);
async fn event_about_an_object_in_no_namespace_is_in_default(cluster: TestServer) {
    let client = cluster.client().expect("a client");
    let recorder = Recorder::new(client.clone(), "tester");
    let node = ObjectReference {
        kind: Some("Node".to_owned()),
        namespace: None,
        ..about("a-node-of-this-test")
    };
    recorder.record(Occurrence::normal(node.clone(), "Ready", "the node is ready"));
    recorder.flush().await;
    let events: Api<Event> = Api::namespaced(client, "default");
    let selector = ListParams::default().fields("regarding.name=a-node-of-this-test");
    let events = events.list(&selector).await.expect("events").items;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].regarding.as_ref(), Some(&node));
}

on_each_server!(event_in_a_namespace_that_is_not_there_is_given_up_at_once);
async fn event_in_a_namespace_that_is_not_there_is_given_up_at_once(cluster: TestServer) {
    let log = Log::start_at(Level::WARN);
    let client = cluster.client().expect("a client");
    let recorder = Recorder::new(client.clone(), "tester");
    let lost = || ObjectReference { namespace: Some("nowhere".to_owned()), ..about("web") };
    recorder.record(Occurrence::normal(lost(), "Started", "one"));
    recorder.record(Occurrence::normal(lost(), "Started", "two"));
    recorder.flush().await;
    let status = recorder.status();
    assert_eq!((status.written, status.failed), (0, 2));
    let lines = log.lines();
    let [line] = lines.as_slice() else { panic!("one line: {lines:?}") };
    assert!(line.contains("their namespace does not exist"), "{line}");
    assert!(line.contains("namespace=\"nowhere\""), "{line}");

    // Nor does one take events that is being deleted.
    let namespace = cluster.namespace("recorder").await.expect("a namespace");
    let namespaces: Api<Namespace> = Api::all(client);
    namespaces.delete(&namespace, &DeleteParams::default()).await.expect("deleted");
    let object = ObjectReference { namespace: Some(namespace), ..about("web") };
    recorder.record(Occurrence::normal(object, "Started", ""));
    recorder.flush().await;
    assert_eq!(recorder.status().failed, 3);
    assert!(log.lines()[1].contains("is being deleted"), "{:?}", log.lines());
}

#[tokio::test(start_paused = true)]
async fn recorders_of_one_name_at_one_moment_do_not_take_each_others_events() {
    let cluster = TestServer::embedded();
    let client = cluster.client().expect("a client");
    for _ in 0..3 {
        let recorder = Recorder::builder(client.clone(), "tester").clock(moment).seed(1).build();
        recorder.record(Occurrence::normal(about("web"), "Started", ""));
        recorder.flush().await;
        assert_eq!((recorder.status().written, recorder.status().failed), (1, 0));
    }
    let events: Api<Event> = Api::namespaced(client, "default");
    assert_eq!(events.list(&ListParams::default()).await.expect("events").items.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn same_seed_and_clock_give_the_same_events() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let stage = Stage::new();
        for note in ["a", "b", "a"] {
            stage.recorder.record(Occurrence::normal(about("web"), "Started", note));
        }
        stage.recorder.flush().await;
        let mut events = stage.list().await;
        for event in &mut events {
            event.metadata.creation_timestamp = None;
        }
        runs.push(events);
    }
    assert_eq!(runs[0].len(), 2);
    assert_eq!(runs[0], runs[1]);
}
