//! What a pod's status says, interpreted as upstream does; and pods from templates.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use kube::api::ObjectMeta;
use serde_json::Value;
use windlass_reconciler::{Error, owner_reference};

use crate::clock::until;
use crate::objects::{Condition, Managed, Pod, PodStatus};

pub(crate) const PENDING: &str = "Pending";
pub(crate) const RUNNING: &str = "Running";
pub(crate) const SUCCEEDED: &str = "Succeeded";
pub(crate) const FAILED: &str = "Failed";

/// Returns the phase; a pod without one is pending.
pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.phase.as_deref().unwrap_or(PENDING)
}

/// Returns whether its containers have ended for good.
pub(crate) fn is_finished(pod: &Pod) -> bool {
    [SUCCEEDED, FAILED].contains(&phase(pod))
}

pub(crate) fn is_deleted(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Returns whether it counts as a replica.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !is_deleted(pod)
}

/// Returns whether it is being deleted but has not ended.
pub(crate) fn is_terminating(pod: &Pod) -> bool {
    !is_finished(pod) && is_deleted(pod)
}

/// Returns the node that it is assigned to.
pub(crate) fn node(pod: &Pod) -> Option<&str> {
    pod.spec["nodeName"].as_str().filter(|node| !node.is_empty())
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    ready_condition(pod).is_some()
}

/// Returns since when it is ready.
pub(crate) fn ready_since(pod: &Pod) -> Option<&Time> {
    ready_condition(pod)?.last_transition_time.as_ref()
}

/// Returns how long until it counts as available, provided it stays ready; `None` if it is not
/// ready.
pub(crate) fn available_in(pod: &Pod, min_ready: i32, now: Timestamp) -> Option<Duration> {
    let condition = ready_condition(pod)?;
    if min_ready <= 0 {
        return Some(Duration::ZERO);
    }
    condition.last_transition_time.as_ref().map(|since| until(now, since, min_ready))
}

/// Returns a pod from a template, owned by `owner` and without a name of its own.
///
/// # Errors
/// If the metadata of the template cannot be read, or the owner was not read from a server.
pub(crate) fn from_template<O: Managed>(template: &Value, owner: &O) -> Result<Pod, Error> {
    let metadata: ObjectMeta = match &template["metadata"] {
        Value::Null => ObjectMeta::default(),
        metadata => serde_json::from_value(metadata.clone())?,
    };
    Ok(Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", owner.name_any())),
            namespace: owner.namespace(),
            labels: metadata.labels,
            annotations: metadata.annotations,
            finalizers: metadata.finalizers,
            owner_references: Some(vec![owner_reference(owner)?]),
            ..ObjectMeta::default()
        },
        spec: template["spec"].clone(),
        status: PodStatus::default(),
    })
}

fn ready_condition(pod: &Pod) -> Option<&Condition> {
    let mut conditions = pod.status.conditions.iter();
    conditions.find(|condition| condition.kind == "Ready" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(value: serde_json::Value) -> Pod {
        serde_json::from_value(value).expect("a pod")
    }

    #[test]
    fn ready_pod_is_available_after_its_minimum() {
        let since = "2026-01-01T00:00:00Z";
        let ready = pod(json!({"metadata": {}, "status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": since},
        ]}}));
        let now = "2026-01-01T00:00:04Z".parse().expect("a time");
        assert_eq!(available_in(&ready, 0, now), Some(Duration::ZERO));
        assert_eq!(available_in(&ready, 10, now), Some(Duration::from_secs(6)));
        assert_eq!(available_in(&ready, 4, now), Some(Duration::ZERO));
        assert_eq!(available_in(&pod(json!({"metadata": {}})), 0, now), None);
    }

    #[test]
    fn pods_that_end_or_are_deleted_are_not_active() {
        let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert!(is_active(&pod(json!({"metadata": {}}))));
        assert!(!is_active(&pod(json!({"metadata": {}, "status": {"phase": "Failed"}}))));
        assert!(is_terminating(&pod(json!({"metadata": deleted}))));
        assert!(!is_terminating(&pod(json!({"metadata": deleted, "status": {"phase": "Failed"}}))));
    }
}
