//! When a controller is quiet, and the message when it is not.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use serde_json::json;
use tokio::time::Instant;
use windlass::informer::Event;
use windlass::prelude::Watch;
use windlass_testing::testserver::apiserver::{Fault, FaultRule};
use windlass_testing::{Clock, Quiet, TestCluster, on_each_cluster};

use crate::operator::{Page, Publisher, failure, page, pages, with_pages};

/// Returns the cluster with a short limit, for tests that run into it.
fn short(cluster: &TestCluster) -> TestCluster {
    cluster.timeout(Clock::current().pick(Duration::from_mins(5), Duration::from_secs(3)))
}

on_each_cluster!(quiet_is_after_what_the_test_has_just_written, start_paused = true);
async fn quiet_is_after_what_the_test_has_just_written(cluster: TestCluster) {
    let cluster = with_pages(cluster).await;
    let running = cluster.run(pages(), Publisher);
    cluster.create(&page("hello", "0")).await;
    for text in ["1", "2", "3", "4", "5"] {
        cluster.patch::<Page>("hello", json!({"spec": {"text": text}})).await;
        running.wait_until_quiet().await;
        let expected = json!({"data": {"index.html": format!("<p>{text}</p>")}});
        cluster.expect::<ConfigMap>("hello", expected).await;
        // A deletion by somebody else is an event on its way, too.
        cluster.delete::<ConfigMap>("hello").await;
        running.wait_until_quiet().await;
        cluster.get::<ConfigMap>("hello").await;
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn late_watch_is_waited_for() {
    let cluster = with_pages(TestCluster::embedded()).await;
    let running = cluster.run(pages(), Publisher);
    running.wait_until_quiet().await;
    let server = cluster.test_server().and_then(|cluster| cluster.server()).expect("embedded");
    let late = Fault::DelayEvent(Duration::from_secs(20));
    server.faults().add(FaultRule::new(late).resource("pages").times(1));
    cluster.create(&page("hello", "Hi")).await;
    running.wait_until_quiet().await;
    cluster.get::<ConfigMap>("hello").await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn mapper_that_waits_is_waited_for() {
    let cluster = with_pages(TestCluster::embedded()).await;
    let builder = pages().watches_changes(Watch::<Secret>::new(), async |event: Event<Secret>| {
        tokio::time::sleep(Duration::from_secs(20)).await;
        Ok([event.key().clone()])
    });
    let running = cluster.run(builder, Publisher);
    cluster.create(&page("hello", "Hi")).await;
    running.wait_until_quiet().await;
    let before = running.runs("hello").len();
    let mut secret = Secret::default();
    secret.metadata.name = Some("hello".to_owned());
    cluster.create(&secret).await;
    running.wait_until_quiet().await;
    assert_eq!(running.runs("hello").len(), before + 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn faults_of_the_server_do_not_hit_the_test_itself() {
    let cluster = with_pages(TestCluster::embedded()).await;
    let server = cluster.test_server().and_then(|cluster| cluster.server()).expect("embedded");
    let refusal = FaultRule::new(Fault::Fail { code: 503, retry_after: None });
    let id = server.faults().add(refusal.resource("configmaps").verb("patch"));
    cluster.create(&page("hello", "Hi")).await;
    let running = cluster.run(pages(), Publisher);
    running.wait_until(Quiet::new().ignore_retries()).await;
    let mut map = ConfigMap::default();
    map.metadata.name = Some("mine".to_owned());
    cluster.create(&map).await;
    cluster.patch::<ConfigMap>("mine", json!({"data": {"a": "b"}})).await;
    assert!(cluster.get_opt::<ConfigMap>("hello").await.is_none());

    server.faults().remove(id);
    running.wait_until_quiet().await;
    cluster.get::<ConfigMap>("hello").await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn timer_does_not_count_unless_it_is_asked_for() {
    let cluster = with_pages(TestCluster::embedded()).await;
    let running = cluster.run(pages(), Publisher);
    cluster.create(&page("clock", "again in a minute")).await;
    let began = Instant::now();
    running.wait_until_quiet().await;
    assert_eq!(running.runs("clock").len(), 1);
    assert!(began.elapsed() < Duration::from_secs(1));

    // A timer that is always due within the time keeps it busy forever.
    let message = failure(async {
        running.wait_until(Quiet::new().timers_within(Duration::from_mins(2))).await;
    });
    let message = message.await;
    assert!(message.contains("not quiet after 5 min on the paused clock"), "{message}");
    assert!(message.contains("/clock is due in "), "{message}");
    assert!(message.contains("asked to run after 60 s because of timer"), "{message}");
    running.stop().await;
}

on_each_cluster!(retry_counts_unless_it_is_ignored, start_paused = true);
async fn retry_counts_unless_it_is_ignored(cluster: TestCluster) {
    let cluster = with_pages(short(&cluster)).await;
    let running = cluster.run(pages(), Publisher);
    cluster.create(&page("broken", "fails")).await;
    let message = failure(running.wait_until_quiet()).await;
    let key = format!("{}/broken", cluster.namespace());
    for part in [
        "not quiet after ",
        &format!(" on {}: ", Clock::current().pick("the paused clock", "the wall clock")),
        "the controller \"page\":",
        &format!("{key} waits because of Page {key} "),
        &format!("{key} failed (the printer is on fire) because of Page {key} "),
        ", and is retried after ",
        "in the test at crates/testenv/testing/tests/testing/quiet.rs:",
    ] {
        assert!(message.contains(part), "{part:?} is not in:\n{message}");
    }

    running.wait_until(Quiet::new().ignore_retries()).await;
    cluster.patch::<Page>("broken", json!({"spec": {"text": "works"}})).await;
    running.wait_until_quiet().await;
    cluster.get::<ConfigMap>("broken").await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failure_for_good_is_quiet() {
    let cluster = with_pages(TestCluster::embedded()).await;
    cluster.create(&page("broken", "fails for good")).await;
    assert_eq!(cluster.run_until_quiet(pages(), Publisher).await, [""; 0]);
}

on_each_cluster!(workloads_come_to_rest_together_with_a_controller, start_paused = true);
async fn workloads_come_to_rest_together_with_a_controller(cluster: TestCluster) {
    let cluster = with_pages(cluster).await;
    let running = cluster.run(pages(), Publisher);
    let workloads = cluster.run_workloads(|workloads| workloads);
    let labels = json!({"app": "web"});
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "web"}]},
            },
        },
    }))
    .expect("a Deployment");
    cluster.create(&deployment).await;
    cluster.create(&page("hello", "Hi")).await;
    cluster.wait_until_quiet().await;
    cluster.expect::<Deployment>("web", json!({"status": {"availableReplicas": 3}})).await;
    assert_eq!(cluster.list::<Pod>().await.len(), 3);
    cluster.get::<ConfigMap>("hello").await;
    workloads.stop().await;
    running.stop().await;
}
