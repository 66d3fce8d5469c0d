//! What becomes of events when the server has trouble, or an object has too many.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::api::DeleteParams;
use tokio::time::timeout;
use tower::ServiceExt as _;
use tower::layer::layer_fn;
use tracing::Level;
use windlass_informer::ClientStack;
use windlass_informer::client::HttpService;
use windlass_reconciler::{Occurrence, Recorder};
use windlass_testserver::apiserver::Fault;
use windlass_testserver::{Log, TestServer};

use crate::recorder::{Stage, about, fail};

#[tokio::test(start_paused = true)]
async fn missing_rights_are_said_in_one_line_that_names_them() {
    let stage = Stage::new();
    let log = Log::start_at(Level::WARN);
    let id = stage.fail(fail(403), |rule| rule);
    for note in ["one", "two", "three"] {
        stage.recorder.record(Occurrence::normal(about("web"), "Started", note));
    }
    stage.recorder.flush().await;
    assert_eq!(stage.server().faults().times_applied(id), 3, "none was tried again");
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
        let log = Log::start_at(Level::WARN);
        let id = stage.fail(fault.clone(), |rule| rule.times(4));
        stage.recorder.record(Occurrence::normal(about("web"), "Started", ""));
        stage.recorder.flush().await;
        assert_eq!(stage.server().faults().times_applied(id), 4, "{fault:?}");
        assert_eq!((stage.status().written, stage.list().await.len()), (1, 1), "{fault:?}");
        assert_eq!(log.lines(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn server_that_stays_away_costs_one_event_all_tries_and_the_others_one() {
    let stage = Stage::new();
    let log = Log::start_at(Level::WARN);
    let id = stage.fail(Fault::Refuse, |rule| rule);
    for note in 0..10 {
        stage.recorder.record(Occurrence::normal(about("web"), "Started", note.to_string()));
    }
    stage.recorder.flush().await;
    assert_eq!(stage.server().faults().times_applied(id), 12 + 9);
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
    let log = Log::start_at(Level::WARN);
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
    let log = Log::start_at(Level::WARN);
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

/// A background task dies: the writer polls the future that the layer returns.
#[tokio::test(start_paused = true)]
async fn writer_that_panics_loses_one_event_and_the_next_one_is_written() {
    let cluster = TestServer::embedded();
    let server = cluster.server().expect("it is embedded").service();
    let panics = Arc::new(AtomicBool::new(true));
    let layer = layer_fn(move |inner: HttpService| {
        let panics = Arc::clone(&panics);
        inner.then(move |answer| {
            let panics = panics.swap(false, Ordering::Relaxed);
            async move {
                assert!(!panics, "a layer that does not like it");
                answer
            }
        })
    });
    let client = ClientStack::new().layer(layer).around(server, "default");
    let recorder = Recorder::builder(client.clone(), "tester").seed(7).build();
    recorder.record(Occurrence::normal(about("web"), "Started", "one"));
    timeout(Duration::from_hours(1), recorder.flush()).await.expect("nobody waits for it");
    let status = recorder.status();
    assert_eq!((status.written, status.failed + status.dropped), (0, 1), "{status:?}");
    recorder.record(Occurrence::normal(about("web"), "Started", "two"));
    timeout(Duration::from_hours(1), recorder.flush()).await.expect("nobody waits for it");
    assert_eq!(recorder.status().written, 1);
}

#[tokio::test(start_paused = true)]
async fn events_behind_one_whose_write_panics_are_written_by_themselves() {
    let log = Log::start_at(Level::WARN);
    let stage = Stage::new();
    let server = stage.cluster.client().expect("a client");
    let panics = Arc::new(AtomicBool::new(true));
    // Without the client stack, which catches it.
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (server, panics) = (server.clone(), Arc::clone(&panics));
        async move {
            assert!(!panics.swap(false, Ordering::Relaxed), "a service that does not like it");
            server.send(request).await
        }
    });
    let client = kube::Client::new(service, "default");
    let recorder = Recorder::builder(client, "tester").seed(7).build();
    for name in ["one", "two", "three"] {
        recorder.record(Occurrence::normal(about(name), "Started", "it runs"));
    }
    tokio::time::sleep(Duration::from_hours(1)).await;
    let status = recorder.status();
    assert_eq!((status.written, status.failed, status.queued), (2, 1, 0), "{status:?}");
    assert_eq!(log.lines_with("panicked").len(), 1);
}
