//! All of the workloads on the embedded server, on the paused clock.

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use support::{PODS, REPLICA_SETS, Stage, cases};
use windlass_testkit::TestCluster;
use windlass_testkit::apiserver::{Fault, FaultRule};

/// One test for each case.
macro_rules! embedded {
    ($($case:ident),* $(,)?) => {$(
        #[tokio::test(start_paused = true)]
        async fn $case() {
            let stage = Stage::embedded().await;
            cases::$case(&stage).await;
            stage.end().await;
        }
    )*};
}

embedded! {
    created_becomes_ready,
    scaled_up_and_down,
    rolled_by_percent,
    rolled_with_surge_only,
    rolled_without_surge,
    recreated,
    rolled_back,
    history_is_bounded,
    deletion_cascades,
    deleted_pod_is_replaced,
    orphan_is_adopted,
    pod_that_does_not_match_any_more_is_released,
    paused_deployment_scales_but_does_not_roll,
    rollout_that_hangs_exceeds_its_deadline,
    pods_are_available_after_their_minimum,
    scaled_in_the_middle_of_a_rollout,
}

/// Three replicas of something, and all pods that were ever made for it.
async fn pods_made(cluster: &TestCluster) -> usize {
    let stage = Stage::on(cluster).await;
    let (sender, made) = std::sync::mpsc::channel();
    let watcher = Watcher::begin(&stage, PODS, move |pods| {
        for name in pods.keys() {
            sender.send(name.clone()).expect("the test listens");
        }
        None
    })
    .await;
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web"}]},
        },
    }});
    stage.create(DEPLOYMENTS, deployment).await;
    stage.until_complete("web").await;
    watcher.end();
    stage.end().await;
    made.try_iter().collect::<BTreeSet<String>>().len()
}

#[tokio::test(start_paused = true)]
async fn cache_that_is_behind_leads_to_no_pod_too_many() {
    // Events of pods are late, by more than a run waits for them. Those of replica sets are not, and each is a run.
    let cluster = TestCluster::embedded();
    let late = Fault::DelayEvent(Duration::from_secs(10));
    let server = cluster.server().expect("embedded");
    server.faults().add(FaultRule::new(late).resource("pods"));
    assert_eq!(pods_made(&cluster).await, 3);
}

#[tokio::test(start_paused = true)]
async fn lost_answers_lead_to_no_second_replica_set() {
    let cluster = TestCluster::embedded();
    let server = cluster.server().expect("embedded");
    server
        .faults()
        .add(FaultRule::new(Fault::LoseAnswer).resource("replicasets").verb("create").times(1));
    let stage = Stage::on(&cluster).await;
    cases::created_becomes_ready(&stage).await;
    stage.end().await;
}
