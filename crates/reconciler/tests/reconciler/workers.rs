//! How keys are spread over workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::{Instant, timeout};
use windlass_reconciler::{Action, Error, RunContext};
use windlass_testserver::TestServer;

use crate::stage::{create, does, run_with};

/// Each of the first two runs keeps its thread until the other has begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn runs_that_keep_their_threads_overlap_if_there_is_a_line() {
    let cluster = TestServer::embedded();
    let client = cluster.client().expect("a client");
    for number in 0..20 {
        create(&client, &format!("object-{number}")).await;
    }
    let begun = Arc::new(AtomicU32::new(0));
    let met = Arc::new(AtomicBool::new(true));
    let has_met = Arc::clone(&met);
    let reconciler = does(move |_: Arc<ConfigMap>, _: &RunContext| {
        let (begun, met) = (Arc::clone(&begun), Arc::clone(&met));
        Box::pin(async move {
            begun.fetch_add(1, Ordering::Relaxed);
            let since = Instant::now();
            while begun.load(Ordering::Relaxed) < 2 && met.load(Ordering::Relaxed) {
                met.store(since.elapsed() < Duration::from_mins(1), Ordering::Relaxed);
                std::thread::yield_now();
            }
            Ok(Action::done())
        })
    });
    let running = run_with(client, |builder| builder.workers(2), reconciler);
    let all = async {
        while running.controller.status().counts.runs() < 20 {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_mins(3), all).await.expect("all have run");
    running.end().await.expect("it stops");
    assert!(has_met.load(Ordering::Relaxed), "one run waited for the other to end");
}

/// Every run fails with a long message: together they would take more than they may.
#[tokio::test(start_paused = true)]
async fn record_of_runs_keeps_to_the_room_that_it_has() {
    let client = TestServer::embedded().client().expect("a client");
    for number in 0..100 {
        create(&client, &format!("map-{number}")).await;
    }
    let fails = does(|_: Arc<ConfigMap>, _: &RunContext| {
        Box::pin(async move { Err(Error::msg("x".repeat(4_096)).terminal()) })
    });
    let running = run_with(client, |builder| builder.journal_bytes(64 << 10), fails);
    while running.controller.status().counts.runs() < 100 {
        tokio::task::yield_now().await;
    }
    let journal = running.controller.status().journal;
    running.end().await.expect("it stops");
    assert_eq!(journal.bytes_max, 64 << 10);
    assert!(journal.bytes <= journal.bytes_max && journal.bytes > 32 << 10, "{journal:?}");
    assert!(journal.keys < 100 && journal.shortened_keys > 0, "{journal:?}");
}
