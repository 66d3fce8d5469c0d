//! A snapshot of all objects without what differs between clusters: uids, versions, times,
//! generated names, hashes.
//!
//! On the way, checks that hashes and uids are equal where they have to be.

mod budget;
mod job;
mod slice;
mod stateful_set;

use serde_json::{Map, Value, json};

use super::{
    BUDGETS, CLAIMS, DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, REVISIONS, SERVICES, SLICES,
    STATEFUL_SETS, Stage,
};
use budget::budget_picture;
use job::job_picture;
use slice::slice_picture;
use stateful_set::{claim_picture, revision_picture, set_picture as stateful_picture};

const HASH: &str = "pod-template-hash";
const NOTES: &str = "deployment.kubernetes.io/";

impl Stage {
    /// Returns all objects, in a form that is the same on every cluster.
    pub(crate) async fn picture(&self) -> Value {
        let deployments = self.list(DEPLOYMENTS).await;
        let sets = self.list(REPLICA_SETS).await;
        let stateful = self.list(STATEFUL_SETS).await;
        let jobs = self.list(JOBS).await;
        let pods = self.list(PODS).await;
        let services = self.list(SERVICES).await;
        let (revisions, claims) = (self.list(REVISIONS).await, self.list(CLAIMS).await);
        let (slices, budgets) = (self.list(SLICES).await, self.list(BUDGETS).await);
        let owners = [&sets[..], &stateful[..], &jobs[..]].concat();
        let claim_owners = [&stateful[..], &pods[..]].concat();
        json!({
            "deployments": sorted(&deployments, deployment_picture),
            "replicaSets": sorted(&sets, |set| set_picture(set, &deployments)),
            "statefulSets": sorted(&stateful, stateful_picture),
            "revisions": sorted(&revisions, |one| revision_picture(one, &stateful)),
            "claims": sorted(&claims, |claim| claim_picture(claim, &claim_owners)),
            "jobs": sorted(&jobs, job_picture),
            "budgets": sorted(&budgets, budget_picture),
            "slices": sorted(&slices, |slice| slice_picture(slice, &services, &pods)),
            "pods": sorted(&pods, |pod| pod_picture(pod, &owners)),
        })
    }
}

/// Returns the pictures of all objects of a kind, in an order independent of generated names.
fn sorted(objects: &[Value], picture: impl Fn(&Value) -> Value) -> Vec<Value> {
    let mut pictures: Vec<Value> = objects.iter().map(picture).collect();
    pictures.sort_by_key(Value::to_string);
    pictures
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

fn pod_picture(pod: &Value, owners: &[Value]) -> Value {
    let (metadata, spec) = (&pod["metadata"], &pod["spec"]);
    let found = owner_object(metadata, owners);
    let owner = owner(metadata, owners);
    let name = metadata["name"].as_str().unwrap_or_default();
    let is_stateful = owner.as_str().is_some_and(|owner| owner.starts_with("StatefulSet "));
    if let (Some(set), Some(prefix)) = (found, metadata["generateName"].as_str()) {
        let start = format!("{}-", set["metadata"]["name"].as_str().unwrap_or_default());
        assert!(prefix.starts_with(&start) && name.starts_with(prefix), "{name}");
        assert_eq!(metadata["labels"][HASH], set["metadata"]["labels"][HASH]);
    }
    let revision = |set: &Value| set["metadata"]["annotations"][format!("{NOTES}revision")].clone();
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
    let variables = spec["containers"][0]["env"].as_array().into_iter().flatten();
    let variables: Vec<&Value> = variables.collect();
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let claims: Vec<&Value> =
        volumes.map(|one| &one["persistentVolumeClaim"]["claimName"]).collect();
    json!({
        "name": if is_stateful { metadata["name"].clone() } else { Value::Null },
        "hasGeneratedName": metadata["generateName"].is_string(),
        "labels": pod_labels(metadata, found),
        "index": metadata["annotations"]["batch.kubernetes.io/job-completion-index"],
        "finalizers": metadata["finalizers"],
        "ownerRevision": found.map(revision),
        "owner": owner.as_str().and_then(|owner| owner.split(' ').next()),
        "image": spec["containers"][0]["image"],
        "variables": variables,
        // A service account's token is mounted only where there are service accounts.
        "claims": claims.into_iter().filter(|claim| claim.is_string()).collect::<Vec<_>>(),
        "hostname": spec["hostname"],
        "subdomain": spec["subdomain"],
        "phase": pod["status"]["phase"],
        "isReady": ready.any(|condition| condition["status"] == "True"),
        "isOnNode": spec["nodeName"].is_string(),
        "isDeleted": metadata["deletionTimestamp"].is_string(),
    })
}

/// Labels without a hash and without a job's uid, which must be that of its owner.
fn pod_labels(metadata: &Value, owner: Option<&Value>) -> Value {
    let mut labels = plain_labels(metadata);
    for label in ["controller-uid", "batch.kubernetes.io/controller-uid"] {
        let Some(uid) = labels.as_object_mut().and_then(|labels| labels.remove(label)) else {
            continue;
        };
        assert_eq!(Some(&uid), owner.map(|owner| &owner["metadata"]["uid"]), "{metadata}");
    }
    labels
}

/// The controller of an object, by uid, if it is one of `owners`.
fn owner_object<'a>(metadata: &Value, owners: &'a [Value]) -> Option<&'a Value> {
    let mut references = metadata["ownerReferences"].as_array().into_iter().flatten();
    let controller = references.find(|reference| reference["controller"] == true)?;
    owners.iter().find(|owner| owner["metadata"]["uid"] == controller["uid"])
}

/// All owners of an object, by uid; they must be among `owners`.
fn references(metadata: &Value, owners: &[Value]) -> Value {
    let references = metadata["ownerReferences"].as_array().into_iter().flatten();
    let told = references.map(|reference| {
        let owner = owners.iter().find(|owner| owner["metadata"]["uid"] == reference["uid"]);
        let name = owner.map_or(&Value::Null, |owner| &owner["metadata"]["name"]);
        let (kind, version) = (&reference["kind"], &reference["apiVersion"]);
        format!("{version} {kind} {name} {}", reference["controller"])
    });
    told.collect::<Vec<_>>().into()
}

/// The controller of an object, by uid; it must be one of `owners`.
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

/// The annotations that deployments write.
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
