//! Jobs.

use serde_json::{Value, json};

use super::super::watcher::{Watcher, is_active};
use super::super::{JOBS, PODS, Stage};

const EXIT_CODE: &str = "workloads.windlass.rs/exit-code";
const RUN_SECONDS: &str = "workloads.windlass.rs/run-seconds";

/// A job `sum` with these pod annotations and additional spec fields.
fn job(annotations: &Value, more: &Value) -> Value {
    let mut spec = json!({
        "template": {
            "metadata": {"labels": {"app": "sum"}, "annotations": annotations},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "sum", "image": "sum:1", "env": [{"name": "A", "value": "b"}]}],
            },
        },
    });
    let more = more.as_object().cloned().unwrap_or_default();
    spec.as_object_mut().expect("an object").extend(more);
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum"}, "spec": spec})
}

fn failing() -> Value {
    json!({EXIT_CODE: "3"})
}

fn forever() -> Value {
    json!({RUN_SECONDS: "forever"})
}

/// Watches that at most `max` pods are active.
async fn at_most(stage: &Stage, max: usize) -> Watcher {
    Watcher::begin(stage, PODS, move |pods| {
        let active = pods.values().filter(|pod| is_active(pod)).count();
        (active > max).then(|| format!("{active} active"))
    })
    .await
}

pub(crate) async fn job_completes(stage: &Stage) {
    let watcher = at_most(stage, 2).await;
    stage.create(JOBS, job(&json!({}), &json!({"completions": 5, "parallelism": 2}))).await;
    stage.until_job("sum", "Complete").await;
    watcher.end();
    assert_eq!(stage.list(PODS).await.len(), 5);
}

pub(crate) async fn job_without_completions_ends_with_the_first_success(stage: &Stage) {
    stage.create(JOBS, job(&json!({}), &json!({"parallelism": 3}))).await;
    stage.until_job("sum", "Complete").await;
    assert_eq!(stage.list(PODS).await.len(), 3);
}

pub(crate) async fn indexed_job_completes(stage: &Stage) {
    let watcher = at_most(stage, 3).await;
    let more = json!({"completionMode": "Indexed", "completions": 4, "parallelism": 3});
    stage.create(JOBS, job(&json!({}), &more)).await;
    stage.until_job("sum", "Complete").await;
    watcher.end();
    assert_eq!(stage.get(JOBS, "sum").await["status"]["completedIndexes"], "0-3");
}

pub(crate) async fn job_fails_at_once(stage: &Stage) {
    stage.create(JOBS, job(&failing(), &json!({"backoffLimit": 0}))).await;
    stage.until_job("sum", "Failed").await;
    assert_eq!(stage.list(PODS).await.len(), 1);
}

pub(crate) async fn job_tries_again_and_fails(stage: &Stage) {
    stage.create(JOBS, job(&failing(), &json!({"backoffLimit": 1}))).await;
    stage.until_job("sum", "Failed").await;
    assert_eq!(stage.list(PODS).await.len(), 2);
}

pub(crate) async fn indexed_job_fails(stage: &Stage) {
    let more = json!({
        "completionMode": "Indexed", "completions": 3, "parallelism": 3, "backoffLimit": 0,
    });
    stage.create(JOBS, job(&forever(), &more)).await;
    stage.until_counts("sum", &[("active", 3), ("ready", 3)]).await;
    // One pod succeeds, one fails, and the third is killed.
    for (index, code) in [("0", "0"), ("1", "3")] {
        let pods = stage.list(PODS).await;
        let label = "batch.kubernetes.io/job-completion-index";
        let pod = pods.iter().find(|pod| pod["metadata"]["labels"][label] == index);
        let name = pod.and_then(|pod| pod["metadata"]["name"].as_str()).expect("a pod");
        let annotations = json!({EXIT_CODE: code, RUN_SECONDS: null});
        stage.patch(PODS, name, json!({"metadata": {"annotations": annotations}})).await;
        let active = if index == "0" { 2 } else { 0 };
        stage.until_counts("sum", &[("active", active), ("succeeded", 1)]).await;
    }
    stage.until_job("sum", "Failed").await;
}

pub(crate) async fn job_counts_restarts(stage: &Stage) {
    let mut sum = job(&failing(), &json!({"backoffLimit": 1}));
    sum["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure".into();
    stage.create(JOBS, sum).await;
    stage.until_job("sum", "Failed").await;
    stage.until(PODS, "no pods", <[Value]>::is_empty).await;
}

pub(crate) async fn job_is_suspended_and_resumed(stage: &Stage) {
    let more = json!({"completions": 2, "parallelism": 2, "suspend": true});
    stage.create(JOBS, job(&forever(), &more)).await;
    stage.until_job("sum", "Suspended").await;
    assert!(stage.list(PODS).await.is_empty());
    stage.patch(JOBS, "sum", json!({"spec": {"suspend": false}})).await;
    stage.until_counts("sum", &[("active", 2), ("ready", 2)]).await;
    stage.patch(JOBS, "sum", json!({"spec": {"suspend": true}})).await;
    stage.until(PODS, "no pods", <[Value]>::is_empty).await;
    stage.until_counts("sum", &[("active", 0), ("ready", 0), ("terminating", 0)]).await;
    assert!(stage.get(JOBS, "sum").await["status"]["startTime"].is_null());
    stage.patch(JOBS, "sum", json!({"spec": {"suspend": false}})).await;
    stage.until_counts("sum", &[("active", 2), ("ready", 2)]).await;
    for pod in stage.list(PODS).await {
        let name = pod["metadata"]["name"].as_str().expect("a name");
        let annotations = json!({RUN_SECONDS: null});
        stage.patch(PODS, name, json!({"metadata": {"annotations": annotations}})).await;
    }
    stage.until_job("sum", "Complete").await;
}

pub(crate) async fn job_exceeds_its_deadline(stage: &Stage) {
    let more = json!({"activeDeadlineSeconds": 2, "parallelism": 2, "completions": 2});
    stage.create(JOBS, job(&forever(), &more)).await;
    stage.until_job("sum", "Failed").await;
    stage.until(PODS, "no pods", <[Value]>::is_empty).await;
}

pub(crate) async fn job_goes_after_its_time(stage: &Stage) {
    stage.create(JOBS, job(&json!({}), &json!({"ttlSecondsAfterFinished": 2}))).await;
    stage.until_job("sum", "Complete").await;
    for kind in [JOBS, PODS] {
        stage.until(kind, "gone", <[Value]>::is_empty).await;
    }
}

pub(crate) async fn job_has_fewer_pods_when_told_to(stage: &Stage) {
    let more = json!({"completions": 5, "parallelism": 3});
    stage.create(JOBS, job(&forever(), &more)).await;
    stage.until_counts("sum", &[("active", 3), ("ready", 3)]).await;
    stage.patch(JOBS, "sum", json!({"spec": {"parallelism": 1}})).await;
    stage.until_counts("sum", &[("active", 1), ("ready", 1), ("terminating", 0)]).await;
    stage.until(PODS, "one pod", |pods| pods.len() == 1).await;
    assert!(stage.get(JOBS, "sum").await["status"]["failed"].is_null());
}

pub(crate) async fn deleted_pod_of_a_job_is_replaced(stage: &Stage) {
    replace_deleted(stage, &json!({})).await;
}

pub(crate) async fn pod_of_a_job_is_replaced_once_it_has_failed(stage: &Stage) {
    replace_deleted(stage, &json!({"podReplacementPolicy": "Failed"})).await;
}

async fn replace_deleted(stage: &Stage, more: &Value) {
    stage.create(JOBS, job(&forever(), more)).await;
    stage.until_counts("sum", &[("active", 1), ("ready", 1)]).await;
    let pods = stage.list(PODS).await;
    stage.delete(PODS, pods[0]["metadata"]["name"].as_str().expect("a name")).await;
    let counts = [("active", 1), ("ready", 1), ("failed", 1), ("terminating", 0)];
    stage.until_counts("sum", &counts).await;
    stage.until(PODS, "one pod", |pods| pods.len() == 1).await;
}

pub(crate) async fn deleted_job_leaves_nothing(stage: &Stage) {
    let more = json!({"completions": 3, "parallelism": 3});
    stage.create(JOBS, job(&forever(), &more)).await;
    stage.until_counts("sum", &[("active", 3), ("ready", 3)]).await;
    stage.delete(JOBS, "sum").await;
    for kind in [JOBS, PODS] {
        stage.until(kind, "gone", <[Value]>::is_empty).await;
    }
}
