//! Events on their way to a server: what arrives, what is merged, and what becomes of it when the
//! server has trouble.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ObjectReference};
use k8s_openapi::api::events::v1::Event;
use kube::Resource as _;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use tokio::time::Instant;
use windlass_reconciler::{Occurrence, Recorder, RecorderStatus};
use windlass_testkit::apiserver::{ApiServer, Fault, FaultId, FaultRule};
use windlass_testkit::{TestCluster, on_each_cluster};

/// What the log says while this is there, on this thread.
struct Log {
    lines: Arc<Mutex<Vec<u8>>>,
    _subscriber: tracing::subscriber::DefaultGuard,
}

impl Log {
    fn new() -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let writer = Writer(Arc::clone(&lines));
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::WARN)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        Self { lines, _subscriber: tracing::subscriber::set_default(subscriber) }
    }

    fn lines(&self) -> Vec<String> {
        let bytes = self.lines.lock().expect("not poisoned").clone();
        let text = String::from_utf8(bytes).expect("text");
        text.lines().map(str::to_owned).collect()
    }
}

#[derive(Clone)]
struct Writer(Arc<Mutex<Vec<u8>>>);

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An embedded server, and a recorder that draws the same every time.
struct Stage {
    cluster: TestCluster,
    recorder: Recorder,
    events: Api<Event>,
}

impl Stage {
    fn new() -> Self {
        let cluster = TestCluster::embedded();
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

#[tokio::test]
async fn event_arrives_and_its_repeats_are_a_series() {
    on_each_cluster(async |cluster: TestCluster| {
        let client = cluster.client().expect("a client");
        let namespace = cluster.namespace("recorder").await.expect("a namespace");
        let objects: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
        let mut object = ConfigMap::default();
        object.metadata.name = Some("settings".to_owned());
        let object = objects.create(&PostParams::default(), &object).await.expect("created");

        let recorder =
            Recorder::builder(client.clone(), "example.com/tester").instance("me").build();
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
    })
    .await;
}

#[tokio::test]
async fn server_takes_what_is_cut_and_mended() {
    on_each_cluster(async |cluster: TestCluster| {
        let client = cluster.client().expect("a client");
        let namespace = cluster.namespace("recorder").await.expect("a namespace");
        let recorder = Recorder::new(client.clone(), "not / a name at all!");
        let object =
            |name: &str| ObjectReference { namespace: Some(namespace.clone()), ..about(name) };
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
    })
    .await;
}

#[tokio::test]
async fn event_about_an_object_in_no_namespace_is_in_default() {
    on_each_cluster(async |cluster: TestCluster| {
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
    })
    .await;
}

#[tokio::test]
async fn event_in_a_namespace_that_is_not_there_is_given_up_at_once() {
    on_each_cluster(async |cluster: TestCluster| {
        let log = Log::new();
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
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn missing_rights_are_said_in_one_line_that_names_them() {
    let stage = Stage::new();
    let log = Log::new();
    let id = stage.fail(fail(403), |rule| rule);
    for note in ["one", "two", "three"] {
        stage.recorder.record(Occurrence::normal(about("web"), "Started", note));
    }
    stage.recorder.flush().await;
    assert_eq!(stage.server().faults().struck(id), 3, "none was tried again");
    assert_eq!(stage.status().failed, 3);
    let lines = log.lines();
    let [line] = lines.as_slice() else { panic!("one line: {lines:?}") };
    assert!(line.contains("controller=\"tester\""), "{line}");
    assert!(
        line.contains("the verbs create and patch on events in the API group events.k8s.io"),
        "{line}"
    );
    stage.server().faults().clear();
    stage.recorder.record(Occurrence::normal(about("web"), "Started", "one"));
    stage.recorder.flush().await;
    assert_eq!(stage.list().await.len(), 1, "rights that are given later are used");
}

#[tokio::test(start_paused = true)]
async fn trouble_that_passes_is_waited_for() {
    for fault in [fail(503), fail(429), fail(401), Fault::Refuse, Fault::Hang] {
        let stage = Stage::new();
        let log = Log::new();
        let id = stage.fail(fault.clone(), |rule| rule.times(4));
        stage.recorder.record(Occurrence::normal(about("web"), "Started", ""));
        stage.recorder.flush().await;
        assert_eq!(stage.server().faults().struck(id), 4, "{fault:?}");
        assert_eq!((stage.status().written, stage.list().await.len()), (1, 1), "{fault:?}");
        assert_eq!(log.lines(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn server_that_stays_away_costs_one_event_all_tries_and_the_others_one() {
    let stage = Stage::new();
    let log = Log::new();
    let id = stage.fail(Fault::Refuse, |rule| rule);
    for note in 0..10 {
        stage.recorder.record(Occurrence::normal(about("web"), "Started", note.to_string()));
    }
    stage.recorder.flush().await;
    assert_eq!(stage.server().faults().struck(id), 12 + 9);
    let status = stage.status();
    assert_eq!((status.written, status.failed, status.queued), (0, 10, 0));
    let lines = log.lines();
    let [line] = lines.as_slice() else { panic!("one line: {lines:?}") };
    assert!(line.contains("an event could not be written and is lost"), "{line}");

    stage.server().faults().clear();
    stage.recorder.record(Occurrence::normal(about("web"), "Started", "after"));
    stage.recorder.flush().await;
    assert_eq!(stage.list().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn event_whose_answer_is_lost_is_not_doubled() {
    let stage = Stage::new();
    stage.fail(Fault::LoseAnswer, |rule| rule.verb("create").times(1));
    stage.recorder.record(Occurrence::normal(about("web"), "Started", ""));
    stage.recorder.flush().await;
    assert_eq!((stage.status().written, stage.list().await.len()), (1, 1));
    stage.fail(Fault::LoseAnswer, |rule| rule.verb("patch").times(1));
    stage.recorder.record(Occurrence::normal(about("web"), "Started", ""));
    stage.recorder.flush().await;
    let events = stage.list().await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].series.as_ref().map(|series| series.count), Some(2));
}

#[tokio::test(start_paused = true)]
async fn series_whose_event_is_gone_is_made_again() {
    let stage = Stage::new();
    for _ in 0..2 {
        stage.recorder.record(Occurrence::normal(about("web"), "Started", ""));
        stage.recorder.flush().await;
    }
    let name = stage.list().await[0].metadata.name.clone().expect("a name");
    stage.events.delete(&name, &DeleteParams::default()).await.expect("deleted");
    stage.recorder.record(Occurrence::normal(about("web"), "Started", ""));
    stage.recorder.flush().await;
    let events = stage.list().await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].series.as_ref().map(|series| series.count), Some(3));
    assert_eq!(stage.status().failed, 0);
}

#[tokio::test(start_paused = true)]
async fn object_that_floods_is_limited_and_what_is_dropped_is_counted() {
    let stage = Stage::new();
    for note in 0..40 {
        stage.recorder.record(Occurrence::warning(about("web"), "Failed", note.to_string()));
    }
    stage.recorder.flush().await;
    assert_eq!(stage.list().await.len(), 25);
    let status = stage.status();
    assert_eq!((status.recorded, status.written, status.dropped), (40, 25, 15));
    tokio::time::advance(Duration::from_mins(10)).await;
    for note in 40..50 {
        stage.recorder.record(Occurrence::warning(about("web"), "Failed", note.to_string()));
    }
    stage.recorder.flush().await;
    assert_eq!(stage.list().await.len(), 25 + 2);
}

#[tokio::test(start_paused = true)]
async fn first_event_of_an_object_that_is_dropped_is_told_with_what_to_do() {
    let log = Log::new();
    let stage = Stage::new();
    for object in ["web", "db"] {
        for note in 0..40 {
            stage.recorder.record(Occurrence::warning(about(object), "Failed", note.to_string()));
        }
    }
    stage.recorder.flush().await;
    let lines = log.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    for (line, object) in lines.iter().zip(["Pod default/web", "Pod default/db"]) {
        for part in ["WARN", "tester", object, "dropped", "25", "5 minutes", "the same note"] {
            assert!(line.contains(part), "{part:?} is missing in {line:?}");
        }
    }
    assert_eq!(stage.status().dropped, 2 * 15);
}

#[tokio::test(start_paused = true)]
async fn events_that_find_no_room_are_told_once() {
    let log = Log::new();
    let stage = Stage::new();
    // Nothing is written while this does not wait.
    for object in 0..1_100 {
        stage.recorder.record(Occurrence::warning(about(&object.to_string()), "Failed", ""));
    }
    let lines = log.lines();
    let [line] = &lines[..] else { panic!("one line, not {lines:?}") };
    for part in ["WARN", "tester", "Pod default/1000", "dropped", "1000", "API server"] {
        assert!(line.contains(part), "{part:?} is missing in {line:?}");
    }
    assert_eq!(stage.status().dropped, 100);
}

#[tokio::test(start_paused = true)]
async fn recorders_of_one_name_at_one_moment_do_not_take_each_others_events() {
    let cluster = TestCluster::embedded();
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

#[tokio::test(start_paused = true)]
async fn last_handle_that_goes_leaves_what_waits_to_be_written() {
    let stage = Stage::new();
    let id = stage.fail(fail(503), |rule| rule.times(2));
    let other = stage.recorder.clone();
    other.record(Occurrence::normal(about("web"), "Started", "one"));
    drop(other);
    while stage.server().faults().struck(id) < 2 {
        tokio::task::yield_now().await;
        tokio::time::advance(Duration::from_millis(10)).await;
    }
    stage.recorder.record(Occurrence::normal(about("web"), "Started", "two"));
    let before = Instant::now();
    let Stage { recorder, events, cluster } = stage;
    drop(recorder);
    while events.list(&ListParams::default()).await.expect("events").items.len() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(Instant::now(), before, "nobody waits for a backoff any more");
    drop(cluster);
}

#[tokio::test(start_paused = true)]
async fn writer_ends_when_the_last_handle_goes_and_the_server_stays_away() {
    let stage = Stage::new();
    let id = stage.fail(Fault::Refuse, |rule| rule);
    for note in 0..5 {
        stage.recorder.record(Occurrence::normal(about("web"), "Started", note.to_string()));
    }
    while stage.server().faults().struck(id) == 0 {
        tokio::task::yield_now().await;
    }
    let Stage { recorder, cluster, .. } = stage;
    drop(recorder);
    let faults = cluster.server().expect("it is embedded").faults();
    while faults.struck(id) < 1 + 5 {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(faults.struck(id), 1 + 5, "each was tried once more, and that was all");
}

#[tokio::test]
async fn what_is_recorded_outside_of_a_runtime_waits_for_one() {
    let stage = Stage::new();
    let recorder = stage.recorder.clone();
    let outside = std::thread::spawn(move || {
        recorder.record(Occurrence::normal(about("web"), "Started", ""));
    });
    outside.join().expect("it ended");
    assert_eq!((stage.status().recorded, stage.status().queued), (1, 1));
    stage.recorder.flush().await;
    assert_eq!(stage.list().await.len(), 1);
}

#[test]
fn runtime_that_ends_takes_its_writer_but_not_the_recorder() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let first = runtime();
    let stage = first.block_on(async {
        let stage = Stage::new();
        let id = stage.fail(Fault::Hang, |rule| rule.times(1));
        stage.recorder.record(Occurrence::normal(about("web"), "Started", ""));
        while stage.server().faults().struck(id) == 0 {
            tokio::task::yield_now().await;
        }
        stage
    });
    drop(first);
    // What was under way is lost; the client of that runtime is gone, too.
    runtime().block_on(stage.recorder.flush());
    assert_eq!(stage.status().queued, 0);
}

#[test]
fn flush_goes_on_when_the_runtime_of_the_writer_ends() {
    // The client lives in one runtime, the writer in another.
    let lasting =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let passing = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (lasting, passing) = (lasting.expect("a runtime"), passing.expect("a runtime"));
    let stage = lasting.block_on(async { Stage::new() });
    passing.block_on(async {
        let id = stage.fail(Fault::Hang, |rule| rule.times(1));
        stage.recorder.record(Occurrence::normal(about("web"), "Started", "lost"));
        stage.recorder.record(Occurrence::normal(about("web"), "Started", "kept"));
        while stage.server().faults().struck(id) == 0 {
            tokio::task::yield_now().await;
        }
    });
    let recorder = stage.recorder.clone();
    let flushed = lasting.spawn(async move { recorder.flush().await });
    drop(passing);
    lasting.block_on(flushed).expect("flushed");
    let status = stage.status();
    assert_eq!((status.written, status.failed, status.queued), (1, 1, 0));
}

#[tokio::test]
async fn flush_of_nothing_is_over_at_once() {
    let stage = Stage::new();
    stage.recorder.flush().await;
    assert_eq!(stage.status(), RecorderStatus::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_who_record_at_once_lose_nothing() {
    let stage = Stage::new();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let recorder = stage.recorder.clone();
        tasks.spawn(async move {
            for number in 0..400 {
                recorder.record(Occurrence::normal(
                    about(&format!("web-{}", number % 40)),
                    "Started",
                    "",
                ));
                if number % 50 == 0 {
                    recorder.flush().await;
                }
            }
        });
    }
    tasks.join_all().await;
    stage.recorder.flush().await;
    let status = stage.status();
    assert_eq!((status.recorded, status.dropped, status.failed), (3200, 0, 0));
    assert_eq!(status.merged, 3200 - 40);
    assert_eq!(status.queued, 0);
    assert_eq!(stage.list().await.len(), 40);
}
