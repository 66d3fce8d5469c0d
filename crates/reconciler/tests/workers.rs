//! How keys are spread over workers.

mod stage;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::{Instant, timeout};
use windlass_reconciler::{Action, RunContext};
use windlass_testkit::TestCluster;

use stage::{create, does, run_with};

/// Each of the first two runs keeps its thread until the other has begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn runs_that_keep_their_threads_overlap_if_there_is_a_line() {
    let cluster = TestCluster::embedded();
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
            Ok(Action::Done)
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
