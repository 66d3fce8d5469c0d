//! What is there, without what differs from one cluster to the next: uids, versions, times,
//! generated names, hashes.
//!
//! What hashes and uids stand for is checked on the way: that they are the same where they have to
//! be.

use serde_json::{Map, Value, json};

use super::{DEPLOYMENTS, PODS, REPLICA_SETS, Stage};

const HASH: &str = "pod-template-hash";
const NOTES: &str = "deployment.kubernetes.io/";

impl Stage {
    /// Everything that there is, in words that are the same for every cluster.
    pub(crate) async fn picture(&self) -> Value {
        let deployments = self.list(DEPLOYMENTS).await;
        let sets = self.list(REPLICA_SETS).await;
        let pods = self.list(PODS).await;
        let mut pictures: Vec<Value> = pods.iter().map(|pod| pod_picture(pod, &sets)).collect();
        pictures.sort_by_key(Value::to_string);
        let mut set_pictures: Vec<Value> =
            sets.iter().map(|set| set_picture(set, &deployments)).collect();
        set_pictures.sort_by_key(Value::to_string);
        json!({
            "deployments": deployments.iter().map(deployment_picture).collect::<Vec<_>>(),
            "replicaSets": set_pictures,
            "pods": pictures,
        })
    }
}

fn deployment_picture(deployment: &Value) -> Value {
    let (metadata, status) = (&deployment["metadata"], &deployment["status"]);
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut conditions: Vec<String> = conditions
        .map(|condition| {
            let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
            assert!(!text("lastTransitionTime").is_empty(), "{condition}");
            format!("{}={} {}", text("type"), text("status"), text("reason"))
        })
        .collect();
    conditions.sort();
    json!({
        "name": metadata["name"],
        "notes": notes(metadata),
        "isObserved": status["observedGeneration"] == metadata["generation"],
        "counts": counts(status),
        "conditions": conditions,
    })
}

fn set_picture(set: &Value, deployments: &[Value]) -> Value {
    let (metadata, spec, status) = (&set["metadata"], &set["spec"], &set["status"]);
    let owner = owner(metadata, deployments);
    let hash = &metadata["labels"][HASH];
    assert_eq!(hash, &spec["template"]["metadata"]["labels"][HASH]);
    assert_eq!(hash, &spec["selector"]["matchLabels"][HASH]);
    if let Some(hash) = hash.as_str() {
        let deployment = owner.as_str().and_then(|owner| owner.split(' ').nth(1));
        let name = format!("{}-{hash}", deployment.expect("a hash comes from a deployment"));
        assert_eq!(metadata["name"], name);
    }
    json!({
        "labels": plain_labels(metadata),
        "notes": notes(metadata),
        "owner": owner,
        "replicas": spec["replicas"],
        "minReadySeconds": spec["minReadySeconds"],
        "image": spec["template"]["spec"]["containers"][0]["image"],
        "isObserved": status["observedGeneration"] == metadata["generation"],
        "counts": counts(status),
    })
}

fn pod_picture(pod: &Value, sets: &[Value]) -> Value {
    let metadata = &pod["metadata"];
    let owner = owner(metadata, sets);
    let set = sets.iter().find(|set| owner == reference("ReplicaSet", set));
    let name = metadata["name"].as_str().unwrap_or_default();
    if let (Some(set), Some(prefix)) = (set, metadata["generateName"].as_str()) {
        assert_eq!(prefix, format!("{}-", set["metadata"]["name"].as_str().unwrap_or_default()));
        assert!(name.starts_with(prefix), "{name}");
        assert_eq!(metadata["labels"][HASH], set["metadata"]["labels"][HASH]);
    }
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
    json!({
        "hasGeneratedName": metadata["generateName"].is_string(),
        "labels": plain_labels(metadata),
        "ownerRevision": set.map(|set| set["metadata"]["annotations"][format!("{NOTES}revision")].clone()),
        "isOwned": !owner.is_null(),
        "image": pod["spec"]["containers"][0]["image"],
        "phase": pod["status"]["phase"],
        "isReady": ready.any(|condition| condition["status"] == "True"),
        "isOnNode": pod["spec"]["nodeName"].is_string(),
        "isDeleted": metadata["deletionTimestamp"].is_string(),
    })
}

/// The controller of an object, which must be one of `owners`, by uid.
fn owner(metadata: &Value, owners: &[Value]) -> Value {
    let references = metadata["ownerReferences"].as_array().into_iter().flatten();
    let mut controllers = references.filter(|reference| reference["controller"] == true);
    let Some(controller) = controllers.next() else { return Value::Null };
    assert_eq!(controller["blockOwnerDeletion"], true, "{controller}");
    let owner = owners.iter().find(|owner| owner["metadata"]["uid"] == controller["uid"]);
    match owner {
        Some(owner) => reference(controller["kind"].as_str().unwrap_or_default(), owner),
        None => json!("gone"),
    }
}

fn reference(kind: &str, owner: &Value) -> Value {
    format!("{kind} {}", owner["metadata"]["name"].as_str().unwrap_or_default()).into()
}

fn plain_labels(metadata: &Value) -> Value {
    let mut labels = metadata["labels"].as_object().cloned().unwrap_or_default();
    labels.remove(HASH);
    labels.into()
}

/// What deployments write down in annotations.
fn notes(metadata: &Value) -> Value {
    let annotations = metadata["annotations"].as_object().cloned().unwrap_or_default();
    annotations
        .into_iter()
        .filter_map(|(key, value)| Some((key.strip_prefix(NOTES)?.to_owned(), value)))
        .collect::<Map<_, _>>()
        .into()
}

/// The numbers of a status.
fn counts(status: &Value) -> Value {
    let fields = status.as_object().cloned().unwrap_or_default();
    let counts = fields.into_iter().filter(|(key, _)| key.ends_with("eplicas"));
    counts.collect::<Map<_, _>>().into()
}
