//! Stateful sets.

use serde_json::{Value, json};

use super::super::watcher::{Watcher, is_available};
use super::super::{CLAIMS, PODS, REVISIONS, STATEFUL_SETS, Stage};
use super::{image, uids};

/// A stateful set `db` with one container of this image and additional spec fields.
fn stateful_set(replicas: i64, image: &str, more: &Value) -> Value {
    let mut spec = json!({
        "replicas": replicas,
        "serviceName": "dbs",
        "selector": {"matchLabels": {"app": "db"}},
        "template": {
            "metadata": {"labels": {"app": "db"}, "annotations": {"note": "<a> & \"b\""}},
            "spec": {"containers": [{"name": "web", "image": image}]},
        },
    });
    let more = more.as_object().cloned().unwrap_or_default();
    spec.as_object_mut().expect("an object").extend(more);
    let metadata = json!({"name": "db", "annotations": {"team": "data"}});
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec})
}

fn names(objects: &[Value]) -> Vec<&str> {
    let mut names: Vec<_> =
        objects.iter().filter_map(|object| object["metadata"]["name"].as_str()).collect();
    names.sort_unstable();
    names
}

fn images(pods: &[Value]) -> Vec<(&str, &str)> {
    let mut images: Vec<_> = pods
        .iter()
        .filter_map(|pod| {
            let image = pod["spec"]["containers"][0]["image"].as_str()?;
            Some((pod["metadata"]["name"].as_str()?, image))
        })
        .collect();
    images.sort_unstable();
    images
}

/// Adds a scheduling gate that is never lifted, so the pods never run.
fn gated(mut set: Value) -> Value {
    set["spec"]["template"]["spec"]["schedulingGates"] = json!([{"name": "example.com/never"}]);
    set
}

pub(crate) async fn stateful_pods_come_in_order(stage: &Stage) {
    let watcher = Watcher::begin(stage, PODS, |pods| {
        let is_ready = |name: &str| pods.get(name).is_some_and(is_available);
        let is_early = |first: &str, next: &str| pods.contains_key(next) && !is_ready(first);
        (is_early("db-0", "db-1") || is_early("db-1", "db-2")).then(|| format!("{:?}", pods.keys()))
    })
    .await;
    stage.create(STATEFUL_SETS, stateful_set(3, "db:1", &json!({}))).await;
    stage.until_updated("db").await;
    watcher.end();
    assert_eq!(names(&stage.list(PODS).await), ["db-0", "db-1", "db-2"]);
}

pub(crate) async fn stateful_pods_come_at_once_in_parallel(stage: &Stage) {
    let set = stateful_set(3, "db:1", &json!({"podManagementPolicy": "Parallel"}));
    stage.create(STATEFUL_SETS, gated(set)).await;
    stage.until(PODS, "three pods", |pods| pods.len() == 3).await;
    stage.patch(STATEFUL_SETS, "db", json!({"spec": {"replicas": 1}})).await;
    stage.until(PODS, "one pod", |pods| names(pods) == ["db-0"]).await;
    let is_counted = |sets: &[Value]| sets[0]["status"]["replicas"] == 1;
    stage.until(STATEFUL_SETS, "counted", is_counted).await;
}

pub(crate) async fn stateful_set_waits_for_a_pod_that_is_not_ready(stage: &Stage) {
    stage.create(STATEFUL_SETS, gated(stateful_set(3, "db:1", &json!({})))).await;
    let is_counted = |sets: &[Value]| sets[0]["status"]["replicas"] == 1;
    stage.until(STATEFUL_SETS, "counted", is_counted).await;
    assert_eq!(names(&stage.list(PODS).await), ["db-0"]);
}

pub(crate) async fn stateful_set_scales_from_any_ordinal(stage: &Stage) {
    let more = json!({"ordinals": {"start": 5}});
    stage.create(STATEFUL_SETS, stateful_set(1, "db:1", &more)).await;
    stage.until_updated("db").await;
    let first = uids(&stage.list(PODS).await);
    stage.patch(STATEFUL_SETS, "db", json!({"spec": {"replicas": 4}})).await;
    stage.until_updated("db").await;
    assert_eq!(names(&stage.list(PODS).await), ["db-5", "db-6", "db-7", "db-8"]);
    stage.patch(STATEFUL_SETS, "db", json!({"spec": {"replicas": 2}})).await;
    stage.until(PODS, "two pods", |pods| names(pods) == ["db-5", "db-6"]).await;
    stage.until_updated("db").await;
    assert!(uids(&stage.list(PODS).await).is_superset(&first));
    // The pods move with the ordinals.
    let moved = json!({"spec": {"ordinals": {"start": 6}}});
    stage.patch(STATEFUL_SETS, "db", moved).await;
    stage.until(PODS, "moved", |pods| names(pods) == ["db-6", "db-7"]).await;
    stage.until_updated("db").await;
}

pub(crate) async fn stateful_set_rolls_from_the_last_to_the_first(stage: &Stage) {
    stage.create(STATEFUL_SETS, stateful_set(3, "db:1", &json!({}))).await;
    stage.until_updated("db").await;
    let watcher = Watcher::begin(stage, PODS, |pods| {
        let image = |name: &str| pods.get(name).map(|pod| &pod["spec"]["containers"][0]["image"]);
        let is_early = |pair: [&str; 2]| {
            let [lower, higher] = pair.map(image);
            lower.is_some_and(|image| image == "db:2") && higher.is_none_or(|image| image == "db:1")
        };
        let available = pods.values().filter(|pod| is_available(pod)).count();
        (available < 2 || is_early(["db-0", "db-1"]) || is_early(["db-1", "db-2"]))
            .then(|| format!("{available} available"))
    })
    .await;
    stage.patch(STATEFUL_SETS, "db", image("db:2")).await;
    stage.until_updated("db").await;
    watcher.end();
    let pods = stage.list(PODS).await;
    assert_eq!(images(&pods), [("db-0", "db:2"), ("db-1", "db:2"), ("db-2", "db:2")]);
    assert_eq!(stage.list(REVISIONS).await.len(), 2);
}

pub(crate) async fn stateful_set_rolls_up_to_its_partition(stage: &Stage) {
    let strategy = |partition: i64| {
        json!({"updateStrategy": {
            "type": "RollingUpdate", "rollingUpdate": {"partition": partition},
        }})
    };
    stage.create(STATEFUL_SETS, stateful_set(3, "db:1", &strategy(2))).await;
    stage.until_updated("db").await;
    stage.patch(STATEFUL_SETS, "db", image("db:2")).await;
    let is_halfway = |sets: &[Value]| {
        sets[0]["status"]["updatedReplicas"] == 1 && sets[0]["status"]["readyReplicas"] == 3
    };
    stage.until(STATEFUL_SETS, "updated in part", is_halfway).await;
    // A pod below the partition is created again with the old revision.
    delete_and_await(stage, "db-0").await;
    stage.until(STATEFUL_SETS, "updated in part", is_halfway).await;
    stage.until_set_ready("db").await;
    let pods = stage.list(PODS).await;
    assert_eq!(images(&pods), [("db-0", "db:1"), ("db-1", "db:1"), ("db-2", "db:2")]);
    stage.patch(STATEFUL_SETS, "db", json!({"spec": strategy(1)})).await;
    let is_further = |sets: &[Value]| {
        sets[0]["status"]["updatedReplicas"] == 2 && sets[0]["status"]["readyReplicas"] == 3
    };
    stage.until(STATEFUL_SETS, "updated further", is_further).await;
    stage.until_set_ready("db").await;
}

pub(crate) async fn stateful_set_is_updated_on_delete(stage: &Stage) {
    let more = json!({"updateStrategy": {"type": "OnDelete"}});
    stage.create(STATEFUL_SETS, stateful_set(2, "db:1", &more)).await;
    stage.until_set_ready("db").await;
    stage.patch(STATEFUL_SETS, "db", image("db:2")).await;
    stage.until(REVISIONS, "a second revision", |revisions| revisions.len() == 2).await;
    stage.delete(PODS, "db-0").await;
    let is_updated = |sets: &[Value]| {
        sets[0]["status"]["updatedReplicas"] == 1 && sets[0]["status"]["readyReplicas"] == 2
    };
    stage.until(STATEFUL_SETS, "updated in part", is_updated).await;
    stage.until_set_ready("db").await;
    let pods = stage.list(PODS).await;
    assert_eq!(images(&pods), [("db-0", "db:2"), ("db-1", "db:1")]);
}

pub(crate) async fn stateful_history_is_bounded_and_templates_come_back(stage: &Stage) {
    let more = json!({"revisionHistoryLimit": 1});
    stage.create(STATEFUL_SETS, stateful_set(1, "db:1", &more)).await;
    stage.until_updated("db").await;
    for next in ["db:2", "db:3", "db:2"] {
        stage.patch(STATEFUL_SETS, "db", image(next)).await;
        stage.until_updated("db").await;
    }
    stage.until(REVISIONS, "two revisions", |revisions| revisions.len() == 2).await;
    let revisions = stage.list(REVISIONS).await;
    let mut numbers: Vec<_> = revisions.iter().map(|one| one["revision"].as_i64()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [Some(3), Some(4)]);
}

pub(crate) async fn stateful_pod_comes_back_with_its_name(stage: &Stage) {
    stage.create(STATEFUL_SETS, stateful_set(2, "db:1", &json!({}))).await;
    stage.until_updated("db").await;
    delete_and_await(stage, "db-0").await;
    stage.until_updated("db").await;
}

/// Deletes a pod, and waits until its replacement is available.
async fn delete_and_await(stage: &Stage, name: &str) {
    let before = stage.get(PODS, name).await["metadata"]["uid"].clone();
    stage.delete(PODS, name).await;
    stage
        .until(PODS, "back", |pods| {
            let back = pods.iter().find(|pod| pod["metadata"]["name"] == name);
            back.is_some_and(|pod| is_available(pod) && pod["metadata"]["uid"] != before)
        })
        .await;
}

pub(crate) async fn stateful_orphan_is_adopted_by_name(stage: &Stage) {
    let pod = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": "db"}},
            "spec": {"containers": [{"name": "web", "image": "db:1"}]},
        })
    };
    // The pod has no revision, and is not replaced because of that.
    let more = json!({"updateStrategy": {"type": "OnDelete"}});
    for name in ["db-0", "other-1"] {
        stage.create(PODS, pod(name)).await;
    }
    stage.until(PODS, "ready", |pods| pods.iter().all(is_available)).await;
    stage.create(STATEFUL_SETS, stateful_set(2, "db:1", &more)).await;
    stage.until_set_ready("db").await;
    stage
        .until(PODS, "labelled", |pods| {
            let adopted = pods.iter().find(|pod| pod["metadata"]["name"] == "db-0");
            adopted.is_some_and(|pod| {
                pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "db-0"
            })
        })
        .await;
    assert_eq!(names(&stage.list(PODS).await), ["db-0", "db-1", "other-1"]);
}

fn claiming(when_deleted: &str, when_scaled: &str) -> Value {
    json!({
        "volumeClaimTemplates": [{
            "metadata": {"name": "data", "labels": {"kind": "disk"}},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }],
        "persistentVolumeClaimRetentionPolicy": {
            "whenDeleted": when_deleted, "whenScaled": when_scaled,
        },
    })
}

pub(crate) async fn stateful_claims_stay(stage: &Stage) {
    stage.create(STATEFUL_SETS, stateful_set(2, "db:1", &claiming("Retain", "Retain"))).await;
    stage.until_updated("db").await;
    let first = uids(&stage.list(CLAIMS).await);
    stage.patch(STATEFUL_SETS, "db", json!({"spec": {"replicas": 0}})).await;
    stage.until(PODS, "no pods", <[Value]>::is_empty).await;
    stage.patch(STATEFUL_SETS, "db", json!({"spec": {"replicas": 1}})).await;
    stage.until_updated("db").await;
    assert_eq!(uids(&stage.list(CLAIMS).await), first);
    stage.delete(STATEFUL_SETS, "db").await;
    stage.until(PODS, "no pods", <[Value]>::is_empty).await;
    assert_eq!(names(&stage.list(CLAIMS).await), ["data-db-0", "data-db-1"]);
}

pub(crate) async fn stateful_claims_go_when_scaled_down(stage: &Stage) {
    stage.create(STATEFUL_SETS, stateful_set(3, "db:1", &claiming("Retain", "Delete"))).await;
    stage.until_updated("db").await;
    stage.patch(STATEFUL_SETS, "db", json!({"spec": {"replicas": 1}})).await;
    stage.until(CLAIMS, "one claim", |claims| names(claims) == ["data-db-0"]).await;
    stage.until_updated("db").await;
    // New claims, for pods with the old names.
    stage.patch(STATEFUL_SETS, "db", json!({"spec": {"replicas": 2}})).await;
    stage.until_updated("db").await;
    assert_eq!(names(&stage.list(CLAIMS).await), ["data-db-0", "data-db-1"]);
}

pub(crate) async fn stateful_claims_go_with_the_set(stage: &Stage) {
    stage.create(STATEFUL_SETS, stateful_set(2, "db:1", &claiming("Delete", "Retain"))).await;
    stage.until_updated("db").await;
    stage.patch(STATEFUL_SETS, "db", json!({"spec": {"replicas": 1}})).await;
    stage.until(PODS, "one pod", |pods| names(pods) == ["db-0"]).await;
    stage.until_updated("db").await;
    assert_eq!(stage.list(CLAIMS).await.len(), 2);
    stage.delete(STATEFUL_SETS, "db").await;
    for kind in [STATEFUL_SETS, PODS, REVISIONS, CLAIMS] {
        stage.until(kind, "gone", <[Value]>::is_empty).await;
    }
}
