//! A controller that fails makes the test fail, with its cause.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use windlass::prelude::*;
use windlass_testing::TestCluster;

use crate::operator::{Publisher, failure, page, pages, with_pages};

const NO_CACHE: &str = "the controller \"page\" failed: the cache of pages.v1.example.com is not \
     complete after 5 s: ";

/// Returns a controller that has given up, because its definition is missing.
async fn broken() -> (TestCluster, windlass_testing::Running) {
    let cluster = TestCluster::embedded();
    let running = cluster.run(pages().sync_timeout(Duration::from_secs(5)), Publisher);
    tokio::time::sleep(Duration::from_secs(10)).await;
    (cluster, running)
}

#[tokio::test(start_paused = true)]
async fn failure_is_told_by_whatever_waits() {
    let (cluster, running) = broken().await;
    let by_quiet = failure(running.wait_until_quiet()).await;
    let by_eventually = failure(cluster.eventually::<ConfigMap>("hello", json!({}))).await;
    let by_never = failure(cluster.never::<ConfigMap>("hello", json!({}))).await;
    let by_stop = failure(running.stop()).await;
    for message in [by_quiet, by_eventually, by_never, by_stop] {
        assert!(message.starts_with(NO_CACHE), "{message}");
        assert!(message.contains("is its CustomResourceDefinition installed?"), "{message}");
        let place = "in the test at crates/testenv/testing/tests/testing/failures.rs:";
        assert!(message.contains(place), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_handle_tells_it_too() {
    let (_cluster, running) = broken().await;
    let message = failure(async { drop(running) }).await;
    assert!(message.starts_with(NO_CACHE), "{message}");
}

#[tokio::test(start_paused = true)]
async fn test_that_fails_already_keeps_its_own_message() {
    let (_cluster, running) = broken().await;
    let message = failure(async {
        let _running = running;
        panic!("another reason");
    });
    assert_eq!(message.await, "another reason");
}

#[tokio::test(start_paused = true)]
async fn failed_manager_is_told_with_its_cause() {
    let cluster = with_pages(TestCluster::embedded()).await;
    let manager = Manager::new(Options::default())
        .controller(pages(), Publisher)
        .task("printer", async |_: TaskContext| Err(std::io::Error::other("out of paper")));
    let running = cluster.run_manager(manager);
    let message = failure(cluster.eventually::<ConfigMap>("hello", json!({}))).await;
    assert!(message.starts_with("the manager failed: "), "{message}");
    assert!(message.contains("printer") && message.contains("out of paper"), "{message}");
    let message = failure(running.stop()).await;
    assert!(message.contains("out of paper"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn controller_that_cannot_be_built_fails_the_test() {
    let cluster = with_pages(TestCluster::embedded()).await;
    let message = failure(async { cluster.run(pages().workers(0), Publisher) }).await;
    assert!(message.contains("controller \"page\" has no workers"), "{message}");
    assert!(message.contains("tests/testing/failures.rs:"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn hot_loop_is_told_with_what_wakes_it() {
    let cluster = with_pages(TestCluster::embedded()).await.timeout(Duration::from_secs(10));
    let running = cluster.run(pages(), Publisher);
    cluster.create(&page("hot", "always new")).await;
    let message = failure(running.wait_until_quiet()).await;
    let why = "because of ConfigMap default/hot updated at ";
    assert!(message.contains("default/hot ") && message.contains(why), "{message}");
    assert!(message.contains("wrote: patch configmaps default/hot at "), "{message}");
    drop(running);
}
