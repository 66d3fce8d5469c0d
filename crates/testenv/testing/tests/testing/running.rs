//! Controllers start, work, and stop.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::CustomResourceExt as _;
use serde_json::json;
use windlass::prelude::*;
use windlass::reconciler::WriteEffect;
use windlass_testing::{TestCluster, on_each_cluster};

use crate::operator::{Page, Publisher, page, pages, with_pages};

on_each_cluster!(controller_does_its_work, start_paused = true);
async fn controller_does_its_work(cluster: TestCluster) {
    let cluster = with_pages(cluster).await;
    let running = cluster.run(pages(), Publisher);
    cluster.create(&page("hello", "Hi")).await;
    running.wait_until_quiet().await;
    let expected = json!({"data": {"index.html": "<p>Hi</p>"}});
    cluster.expect::<ConfigMap>("hello", expected).await;
    let written = format!("patch configmaps {}/hello", cluster.namespace());
    assert_eq!(running.take_writes(), [&*written]);
    assert_eq!(running.take_writes(), [""; 0]);
    let runs = running.runs("hello");
    assert!(runs.len() >= 2, "{runs:?}");
    let events = cluster.events::<Page>("hello").await;
    assert_eq!(events, ["Normal Published: the page is a ConfigMap"]);
    running.stop().await;
}

on_each_cluster!(
    one_call_runs_a_controller_and_returns_what_it_wrote_in_order,
    start_paused = true
);
async fn one_call_runs_a_controller_and_returns_what_it_wrote_in_order(cluster: TestCluster) {
    let cluster = with_pages(cluster).await;
    for name in ["a", "b"] {
        cluster.create(&page(name, "Hi")).await;
    }
    let writes = cluster.run_until_quiet(pages(), Publisher).await;
    let first = writes.iter().filter(|write| write.effect == WriteEffect::Changed);
    let first: Vec<String> = first.map(ToString::to_string).collect();
    let namespace = cluster.namespace();
    let expected = ["a", "b"].map(|name| format!("patch configmaps {namespace}/{name}"));
    assert_eq!(first, expected);
    assert!(writes.iter().all(|write| write.by == write.key), "{writes:?}");
    // It runs no longer.
    cluster.delete::<ConfigMap>("a").await;
    cluster.never::<ConfigMap>("a", json!({})).await;
}

on_each_cluster!(manager_is_run_with_its_controllers_and_its_leader_election, start_paused = true);
async fn manager_is_run_with_its_controllers_and_its_leader_election(cluster: TestCluster) {
    let cluster = with_pages(cluster).await;
    let manager = Manager::new(Options::default())
        .leader_election("pages")
        .install(Page::crd())
        .controller(pages(), Publisher);
    let running = cluster.run_manager(manager);
    cluster.create(&page("hello", "Hi")).await;
    running.wait_until_quiet().await;
    cluster.expect::<ConfigMap>("hello", json!({"data": {"index.html": "<p>Hi</p>"}})).await;
    let written = format!("patch configmaps {}/hello", cluster.namespace());
    assert_eq!(running.take_writes(), [&*written]);
    running.stop().await;
}

on_each_cluster!(dropped_controller_stops, start_paused = true);
async fn dropped_controller_stops(cluster: TestCluster) {
    let cluster = with_pages(cluster).await;
    let running = cluster.run(pages(), Publisher);
    running.wait_until_quiet().await;
    drop(running);
    // A dropped handle does not count.
    cluster.wait_until_quiet().await;
    cluster.create(&page("late", "Hi")).await;
    cluster.never::<ConfigMap>("late", json!({})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quiet_holds_on_many_threads() {
    let cluster = with_pages(TestCluster::embedded()).await;
    let running = cluster.run(pages().workers(4), Publisher);
    for round in 0..20 {
        for name in ["a", "b", "c", "d"] {
            if round == 0 {
                cluster.create(&page(name, "0")).await;
            } else {
                let patch = json!({"spec": {"text": round.to_string()}});
                cluster.patch::<Page>(name, patch).await;
            }
        }
        running.wait_until_quiet().await;
        for name in ["a", "b", "c", "d"] {
            let expected = json!({"data": {"index.html": format!("<p>{round}</p>")}});
            cluster.expect::<ConfigMap>(name, expected).await;
        }
    }
    running.stop().await;
}
