//! The writer of a recorder: when it starts and ends, and what a flush waits for.

use std::time::Duration;

use kube::api::ListParams;
use tokio::time::Instant;
use windlass_reconciler::{Occurrence, RecorderStatus};
use windlass_testserver::apiserver::Fault;

use crate::recorder::{Stage, about, fail};

#[tokio::test(start_paused = true)]
async fn last_handle_that_goes_leaves_what_waits_to_be_written() {
    let stage = Stage::new();
    let id = stage.fail(fail(503), |rule| rule.times(2));
    let other = stage.recorder.clone();
    other.record(Occurrence::normal(about("web"), "Started", "one"));
    drop(other);
    while stage.server().faults().times_applied(id) < 2 {
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
    while stage.server().faults().times_applied(id) == 0 {
        tokio::task::yield_now().await;
    }
    let Stage { recorder, cluster, .. } = stage;
    drop(recorder);
    let faults = cluster.server().expect("it is embedded").faults();
    while faults.times_applied(id) < 1 + 5 {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(faults.times_applied(id), 1 + 5, "each was tried once more, and that was all");
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
        while stage.server().faults().times_applied(id) == 0 {
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
        while stage.server().faults().times_applied(id) == 0 {
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
