//! The status of a replica set, from the pods that belong to it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt as _;

use crate::deployment::template::labels;
use crate::objects::{Pod, ReplicaSet, ReplicaSetStatus};
use crate::pod::{available_in, is_active, is_ready, is_terminating};

/// Returns the status, and when to recompute it: as soon as a ready pod becomes available.
pub(super) fn of(
    set: &ReplicaSet,
    pods: &[Arc<Pod>],
    now: Timestamp,
) -> (ReplicaSetStatus, Option<Duration>) {
    let min_ready = set.spec.min_ready_seconds.unwrap_or(0);
    let labels = labels(&set.spec.template);
    let active: Vec<&Arc<Pod>> = pods.iter().filter(|pod| is_active(pod)).collect();
    let is_fully_labelled =
        |pod: &Pod| labels.iter().all(|(key, value)| pod.labels().get(key) == Some(value));
    let waits: Vec<Duration> =
        active.iter().filter_map(|pod| available_in(pod, min_ready, now)).collect();
    let later = waits.iter().copied().filter(|wait| !wait.is_zero()).min();

    let status = ReplicaSetStatus {
        replicas: count(active.len()),
        fully_labeled_replicas: non_zero(
            active.iter().filter(|pod| is_fully_labelled(pod)).count(),
        ),
        ready_replicas: non_zero(active.iter().filter(|pod| is_ready(pod)).count()),
        available_replicas: non_zero(waits.iter().filter(|wait| wait.is_zero()).count()),
        terminating_replicas: Some(count(pods.iter().filter(|pod| is_terminating(pod)).count())),
        observed_generation: set.metadata.generation.max(set.status.observed_generation),
    };
    (status, later)
}

/// Returns `None` for zero: the server omits zeros. A written zero would differ from what is read
/// back, and be written again and again.
fn non_zero(pods: usize) -> Option<i32> {
    (pods > 0).then(|| count(pods))
}

fn count(pods: usize) -> i32 {
    i32::try_from(pods).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set() -> ReplicaSet {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "generation": 3},
            "spec": {"minReadySeconds": 10, "selector": {}, "template": {
                "metadata": {"labels": {"app": "web"}},
            }},
            "status": {"replicas": 7, "observedGeneration": 2},
        }))
        .expect("a replica set")
    }

    fn pod(value: Value) -> Arc<Pod> {
        Arc::new(serde_json::from_value(value).expect("a pod"))
    }

    fn ready(since: &str) -> Value {
        json!({"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": since},
        ]})
    }

    #[test]
    fn pods_are_counted_by_state() {
        let labels = json!({"labels": {"app": "web", "more": "yes"}});
        let pods = [
            pod(json!({"metadata": labels, "status": ready("2026-01-01T00:00:00Z")})),
            pod(json!({"metadata": labels, "status": ready("2026-01-01T00:00:07Z")})),
            pod(json!({"metadata": {}, "status": {"phase": "Pending"}})),
            pod(json!({"metadata": {}, "status": {"phase": "Failed"}})),
            pod(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
        ];
        let now = "2026-01-01T00:00:10Z".parse().expect("a time");
        let (status, later) = of(&set(), &pods, now);
        assert_eq!(status.replicas, 3);
        assert_eq!(status.fully_labeled_replicas, Some(2));
        assert_eq!(status.ready_replicas, Some(2));
        assert_eq!(status.available_replicas, Some(1));
        assert_eq!(status.terminating_replicas, Some(1));
        assert_eq!(status.observed_generation, Some(3));
        assert_eq!(later, Some(Duration::from_secs(7)));
    }

    #[test]
    fn nothing_to_wait_for_without_pods() {
        let now = "2026-01-01T00:00:10Z".parse().expect("a time");
        let (status, later) = of(&set(), &[], now);
        assert_eq!((status.replicas, status.ready_replicas, later), (0, None, None));
    }
}
