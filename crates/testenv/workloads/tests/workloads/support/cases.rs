//! The cases for both clusters: each runs in a namespace of its own, and ends when nothing changes
//! any more.

mod disruptions;
mod jobs;
mod services;
mod stateful_sets;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::watcher::{Watcher, is_active, is_available};
use super::{DEPLOYMENTS, PODS, REPLICA_SETS, Stage};
pub(crate) use disruptions::*;
pub(crate) use jobs::*;
pub(crate) use services::*;
pub(crate) use stateful_sets::*;

/// A deployment `web` with one container of this image and additional spec fields.
fn deployment(replicas: i64, image: &str, more: &Value) -> Value {
    let mut spec = json!({
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web", "tier": "front"}},
            "spec": {"containers": [{"name": "web", "image": image}]},
        },
    });
    let more = more.as_object().cloned().unwrap_or_default();
    spec.as_object_mut().expect("an object").extend(more);
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": image}]}}}})
}

fn limits(surge: impl Into<Value>, unavailable: impl Into<Value>) -> Value {
    let (surge, unavailable) = (surge.into(), unavailable.into());
    json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {
        "maxSurge": surge, "maxUnavailable": unavailable,
    }}})
}

fn uids(objects: &[Value]) -> BTreeSet<String> {
    objects.iter().map(|object| object["metadata"]["uid"].to_string()).collect()
}

fn has_condition(deployment: &Value, kind: &str, reason: &str) -> bool {
    let mut conditions = deployment["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == kind && condition["reason"] == reason)
}

pub(crate) async fn created_becomes_ready(stage: &Stage) {
    stage.create(DEPLOYMENTS, deployment(3, "web:1", &json!({}))).await;
    stage.until_complete("web").await;
    assert_eq!(stage.list(PODS).await.len(), 3);
    assert_eq!(stage.list(REPLICA_SETS).await.len(), 1);
}

pub(crate) async fn scaled_up_and_down(stage: &Stage) {
    stage.create(DEPLOYMENTS, deployment(2, "web:1", &json!({}))).await;
    stage.until_complete("web").await;
    let first = uids(&stage.list(PODS).await);
    stage.patch(DEPLOYMENTS, "web", json!({"spec": {"replicas": 5}})).await;
    stage.until_complete("web").await;
    assert!(uids(&stage.list(PODS).await).is_superset(&first));
    stage.patch(DEPLOYMENTS, "web", json!({"spec": {"replicas": 0}})).await;
    stage.until(PODS, "empty", <[Value]>::is_empty).await;
    stage.patch(DEPLOYMENTS, "web", json!({"spec": {"replicas": 1}})).await;
    stage.until_complete("web").await;
    assert_eq!(stage.list(REPLICA_SETS).await.len(), 1);
}

/// Rolls from one image to the next, and checks the limits at every event.
async fn roll(stage: &Stage, replicas: i64, limits: &Value, available_min: usize, total_max: i64) {
    stage.create(DEPLOYMENTS, deployment(replicas, "web:1", limits)).await;
    stage.until_complete("web").await;
    // kube-controller-manager respects the surge in the sizes that it writes, but not always in the
    // number of pods.
    let pods_max =
        if stage.is_embedded { usize::try_from(total_max).expect("positive") } else { usize::MAX };
    let pods = Watcher::begin(stage, PODS, move |pods| {
        let available = pods.values().filter(|pod| is_available(pod)).count();
        let active = pods.values().filter(|pod| is_active(pod)).count();
        let is_wrong = available < available_min || active > pods_max;
        is_wrong.then(|| format!("{available} available, {active} active"))
    })
    .await;
    let sets = Watcher::begin(stage, REPLICA_SETS, move |sets| {
        let total: i64 = sets.values().filter_map(|set| set["spec"]["replicas"].as_i64()).sum();
        (total > total_max).then(|| format!("{total} asked for"))
    })
    .await;
    stage.patch(DEPLOYMENTS, "web", image("web:2")).await;
    stage.until_complete("web").await;
    pods.end();
    sets.end();
}

pub(crate) async fn rolled_by_percent(stage: &Stage) {
    roll(stage, 5, &limits("25%", "25%"), 4, 7).await;
}

pub(crate) async fn rolled_with_surge_only(stage: &Stage) {
    roll(stage, 3, &limits(1, 0), 3, 4).await;
}

pub(crate) async fn rolled_without_surge(stage: &Stage) {
    roll(stage, 3, &limits(0, 1), 2, 3).await;
}

pub(crate) async fn recreated(stage: &Stage) {
    let spec = deployment(3, "web:1", &json!({"strategy": {"type": "Recreate"}}));
    stage.create(DEPLOYMENTS, spec).await;
    stage.until_complete("web").await;
    let watcher = Watcher::begin(stage, PODS, |pods| {
        let images = pods.values().map(|pod| pod["spec"]["containers"][0]["image"].to_string());
        let images: BTreeSet<String> = images.collect();
        (images.len() > 1).then(|| format!("{images:?} at the same time"))
    })
    .await;
    stage.patch(DEPLOYMENTS, "web", image("web:2")).await;
    stage.until_complete("web").await;
    watcher.end();
}

pub(crate) async fn rolled_back(stage: &Stage) {
    stage.create(DEPLOYMENTS, deployment(2, "web:1", &json!({}))).await;
    stage.until_complete("web").await;
    let first = uids(&stage.list(REPLICA_SETS).await);
    stage.patch(DEPLOYMENTS, "web", image("web:2")).await;
    stage.until_complete("web").await;
    stage.patch(DEPLOYMENTS, "web", image("web:1")).await;
    stage.until_complete("web").await;
    // The first template's replica set is used again, not a new one with the same template.
    let sets = stage.list(REPLICA_SETS).await;
    assert_eq!(sets.len(), 2);
    let in_use = sets.into_iter().filter(|set| set["spec"]["replicas"] == 2).collect::<Vec<_>>();
    assert_eq!(uids(&in_use), first);
}

pub(crate) async fn history_is_bounded(stage: &Stage) {
    stage.create(DEPLOYMENTS, deployment(1, "web:1", &json!({"revisionHistoryLimit": 1}))).await;
    stage.until_complete("web").await;
    for next in ["web:2", "web:3"] {
        stage.patch(DEPLOYMENTS, "web", image(next)).await;
        stage.until_complete("web").await;
    }
    stage.until(REPLICA_SETS, "two replica sets", |sets| sets.len() == 2).await;
}

pub(crate) async fn deletion_cascades(stage: &Stage) {
    stage.create(DEPLOYMENTS, deployment(2, "web:1", &json!({}))).await;
    stage.until_complete("web").await;
    stage.delete(DEPLOYMENTS, "web").await;
    for kind in [DEPLOYMENTS, REPLICA_SETS, PODS] {
        stage.until(kind, "gone", <[Value]>::is_empty).await;
    }
}

pub(crate) async fn deleted_pod_is_replaced(stage: &Stage) {
    stage.create(DEPLOYMENTS, deployment(2, "web:1", &json!({}))).await;
    stage.until_complete("web").await;
    let pods = stage.list(PODS).await;
    let name = pods[0]["metadata"]["name"].as_str().expect("a name").to_owned();
    stage.delete(PODS, &name).await;
    stage
        .until(PODS, "replaced", |now| {
            now.iter().filter(|pod| is_available(pod)).count() == 2
                && !now.iter().any(|pod| pod["metadata"]["name"] == *name)
        })
        .await;
    stage.until_complete("web").await;
}

fn replica_set(replicas: i64) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}, "spec": {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web:1"}]},
        },
    }})
}

fn pod(name: &str, app: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": app}}, "spec": {
        "containers": [{"name": "web", "image": "web:1"}],
    }})
}

async fn until_ready(stage: &Stage, replicas: i64) {
    let is_ready = |sets: &[Value]| {
        sets.iter().all(|set| {
            let counts = ["replicas", "readyReplicas", "availableReplicas"];
            counts.iter().all(|count| set["status"][*count] == replicas)
                && set["status"]["terminatingReplicas"] == 0
        })
    };
    stage.until(REPLICA_SETS, "ready", is_ready).await;
}

pub(crate) async fn orphan_is_adopted(stage: &Stage) {
    stage.create(PODS, pod("stray", "web")).await;
    stage.create(PODS, pod("foreign", "api")).await;
    stage.create(REPLICA_SETS, replica_set(2)).await;
    until_ready(stage, 2).await;
    // Any further pod would be one too many.
    let pods = stage.list(PODS).await;
    let is_owned = |pod: &&Value| pod["metadata"]["ownerReferences"].is_array();
    let owned: Vec<_> = pods.iter().filter(is_owned).map(|pod| &pod["metadata"]["name"]).collect();
    assert!(owned.len() == 2 && owned.contains(&&json!("stray")), "{owned:?}");
}

pub(crate) async fn pod_that_does_not_match_any_more_is_released(stage: &Stage) {
    stage.create(REPLICA_SETS, replica_set(2)).await;
    until_ready(stage, 2).await;
    let pods = stage.list(PODS).await;
    let name = pods[0]["metadata"]["name"].as_str().expect("a name").to_owned();
    stage.patch(PODS, &name, json!({"metadata": {"labels": {"app": "quarantined"}}})).await;
    stage
        .until(PODS, "three pods, one of them free", |pods| {
            let free = pods.iter().filter(|pod| pod["metadata"]["ownerReferences"].is_null());
            let free: Vec<_> = free.map(|pod| &pod["metadata"]["name"]).collect();
            pods.iter().filter(|pod| is_available(pod)).count() == 3 && free == [&json!(name)]
        })
        .await;
    until_ready(stage, 2).await;
}

pub(crate) async fn paused_deployment_scales_but_does_not_roll(stage: &Stage) {
    stage.create(DEPLOYMENTS, deployment(2, "web:1", &json!({}))).await;
    stage.until_complete("web").await;
    stage.patch(DEPLOYMENTS, "web", json!({"spec": {"paused": true}})).await;
    let is_paused = |all: &[Value]| has_condition(&all[0], "Progressing", "DeploymentPaused");
    stage.until(DEPLOYMENTS, "paused", is_paused).await;
    let mut change = image("web:2");
    change["spec"]["replicas"] = 3.into();
    stage.patch(DEPLOYMENTS, "web", change).await;
    stage
        .until(PODS, "scaled", |pods| pods.iter().filter(|pod| is_available(pod)).count() == 3)
        .await;
    assert_eq!(stage.list(REPLICA_SETS).await.len(), 1);
    stage.patch(DEPLOYMENTS, "web", json!({"spec": {"paused": false}})).await;
    stage.until_complete("web").await;
    assert_eq!(stage.list(REPLICA_SETS).await.len(), 2);
}

pub(crate) async fn rollout_that_hangs_exceeds_its_deadline(stage: &Stage) {
    let more = json!({"progressDeadlineSeconds": 2});
    stage.create(DEPLOYMENTS, deployment(2, "web:1", &more)).await;
    stage.until_complete("web").await;
    let mut change = image("web:2");
    // The gate is never lifted, so the pods never run.
    change["spec"]["template"]["spec"]["schedulingGates"] = json!([{"name": "example.com/never"}]);
    stage.patch(DEPLOYMENTS, "web", change).await;
    let is_late = |all: &[Value]| has_condition(&all[0], "Progressing", "ProgressDeadlineExceeded");
    stage.until(DEPLOYMENTS, "late", is_late).await;
}

pub(crate) async fn pods_are_available_after_their_minimum(stage: &Stage) {
    stage.create(DEPLOYMENTS, deployment(2, "web:1", &json!({"minReadySeconds": 2}))).await;
    stage
        .until(DEPLOYMENTS, "ready", |all| {
            all.iter().any(|one| one["status"]["readyReplicas"] == 2)
        })
        .await;
    stage.until_complete("web").await;
}

pub(crate) async fn scaled_in_the_middle_of_a_rollout(stage: &Stage) {
    stage.create(DEPLOYMENTS, deployment(4, "web:1", &limits(2, 0))).await;
    stage.until_complete("web").await;
    let mut change = image("web:2");
    change["spec"]["template"]["spec"]["schedulingGates"] = json!([{"name": "example.com/never"}]);
    stage.patch(DEPLOYMENTS, "web", change).await;
    let sizes = |sets: &[Value], wanted: [i64; 2]| {
        let mut sizes: Vec<_> =
            sets.iter().filter_map(|set| set["spec"]["replicas"].as_i64()).collect();
        sizes.sort_unstable();
        sizes == wanted
    };
    stage.until(REPLICA_SETS, "stuck", |sets| sizes(sets, [2, 4])).await;
    stage.patch(DEPLOYMENTS, "web", json!({"spec": {"replicas": 8}})).await;
    // Six became ten; a third of them are new.
    stage.until(REPLICA_SETS, "scaled in proportion", |sets| sizes(sets, [3, 7])).await;
    stage
        .until(DEPLOYMENTS, "counted", |all| {
            all[0]["status"]["replicas"] == 10 && all[0]["status"]["availableReplicas"] == 7
        })
        .await;
}

pub(crate) async fn taken_name_leads_to_another(stage: &Stage) {
    stage.create(DEPLOYMENTS, deployment(1, "web:1", &json!({}))).await;
    stage.until_complete("web").await;
    let name = stage.list(REPLICA_SETS).await[0]["metadata"]["name"].clone();
    stage.delete(DEPLOYMENTS, "web").await;
    for kind in [REPLICA_SETS, PODS] {
        stage.until(kind, "gone", <[Value]>::is_empty).await;
    }
    // The name of the next replica set is taken.
    let mut foreign = replica_set(0);
    foreign["metadata"]["name"] = name.clone();
    foreign["spec"]["selector"]["matchLabels"]["app"] = "foreign".into();
    foreign["spec"]["template"]["metadata"]["labels"]["app"] = "foreign".into();
    stage.create(REPLICA_SETS, foreign).await;
    stage.create(DEPLOYMENTS, deployment(1, "web:1", &json!({}))).await;
    stage.until_complete("web").await;
    assert_eq!(stage.get(DEPLOYMENTS, "web").await["status"]["collisionCount"], 1);
    let sets = stage.list(REPLICA_SETS).await;
    assert!(sets.len() == 2 && sets[0]["metadata"]["name"] != sets[1]["metadata"]["name"]);
}
