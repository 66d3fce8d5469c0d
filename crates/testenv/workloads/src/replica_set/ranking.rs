//! Which pods are deleted first when there are too many, in upstream's order.
//!
//! The least useful go first: not on a node before on one, pending before running, not ready before
//! ready, with lower deletion cost, on a node with more pods of the set, ready for a shorter time,
//! restarted more often, younger.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt as _;

use crate::objects::Pod;
use crate::pod::{PENDING, RUNNING, is_ready, node, phase, ready_since};

/// The cost of deleting the pod, set by the user.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Returns the first `excess` pods to delete.
pub(crate) fn to_delete(mut pods: Vec<Arc<Pod>>, excess: usize) -> Vec<Arc<Pod>> {
    let mut on_node: BTreeMap<String, usize> = BTreeMap::new();
    for node in pods.iter().filter_map(|pod| node(pod)) {
        *on_node.entry(node.to_owned()).or_default() += 1;
    }
    pods.sort_by_cached_key(|pod| Rank::of(pod, &on_node));
    pods.truncate(excess);
    pods
}

/// The lowest rank goes first. The fields are ordered by weight.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    is_on_node: bool,
    phase: u8,
    is_ready: bool,
    deletion_cost: i32,
    siblings_on_node: Reverse<usize>,
    /// Among ready pods, one without a time goes first.
    ready_since: Reverse<TimeOrLatest>,
    restarts: Reverse<i64>,
    created: Reverse<TimeOrLatest>,
    /// Makes the order independent of that of the cache.
    name: String,
}

/// A time; a missing one is later than all others.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TimeOrLatest(Timestamp);

impl TimeOrLatest {
    fn of(time: Option<Timestamp>) -> Self {
        Self(time.unwrap_or(Timestamp::MAX))
    }
}

impl Rank {
    fn of(pod: &Pod, on_node: &BTreeMap<String, usize>) -> Self {
        let ready = is_ready(pod);
        let siblings = node(pod).and_then(|node| on_node.get(node)).copied().unwrap_or(0);
        let ready_since = ready.then(|| ready_since(pod).map(|since| since.0)).flatten();
        Self {
            is_on_node: node(pod).is_some(),
            phase: match phase(pod) {
                PENDING => 0,
                RUNNING => 2,
                _ => 1,
            },
            is_ready: ready,
            deletion_cost: deletion_cost(pod),
            siblings_on_node: Reverse(siblings),
            ready_since: Reverse(TimeOrLatest::of(ready_since)),
            restarts: Reverse(restarts(pod)),
            created: Reverse(TimeOrLatest::of(
                pod.metadata.creation_timestamp.as_ref().map(|time| time.0),
            )),
            name: pod.name_any(),
        }
    }
}

/// An invalid number counts as zero.
fn deletion_cost(pod: &Pod) -> i32 {
    pod.annotations().get(DELETION_COST).and_then(|cost| cost.parse().ok()).unwrap_or(0)
}

/// Returns the restarts of the container that was restarted most often.
fn restarts(pod: &Pod) -> i64 {
    let statuses = pod.status.container_statuses.iter();
    statuses.filter_map(|status| status["restartCount"].as_i64()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, value: &Value) -> Arc<Pod> {
        let mut pod: Pod = serde_json::from_value(value.clone()).expect("a pod");
        pod.metadata.name = Some(name.to_owned());
        Arc::new(pod)
    }

    /// A pod that runs on a node and is ready since this second.
    fn ready(node: &str, second: u32) -> Value {
        json!({
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": [], "nodeName": node},
            "status": {"phase": "Running", "conditions": [{
                "type": "Ready", "status": "True", "lastTransitionTime": format!("2026-01-01T00:00:{second:02}Z"),
            }]},
        })
    }

    fn order(pods: Vec<Arc<Pod>>) -> Vec<String> {
        let all = pods.len();
        to_delete(pods, all).iter().map(|pod| pod.name_any()).collect()
    }

    #[test]
    fn less_useful_pods_are_deleted_first() {
        let pending = json!({"metadata": {}, "spec": {"containers": [], "nodeName": "a"}, "status": {"phase": "Pending"}});
        let running = json!({"metadata": {}, "spec": {"containers": [], "nodeName": "a"}, "status": {"phase": "Running"}});
        let unknown = json!({"metadata": {}, "spec": {"containers": [], "nodeName": "a"}, "status": {"phase": "Unknown"}});
        let pods = vec![
            pod("ready", &ready("a", 1)),
            pod("running", &running),
            pod("unknown", &unknown),
            pod("pending", &pending),
            pod("unassigned", &json!({"metadata": {}})),
        ];
        assert_eq!(order(pods), ["unassigned", "pending", "unknown", "running", "ready"]);
    }

    #[test]
    fn younger_pods_go_first() {
        let pods = vec![
            pod("old", &ready("a", 1)),
            pod("young", &ready("a", 9)),
            pod("middle", &ready("a", 5)),
        ];
        assert_eq!(order(pods), ["young", "middle", "old"]);
        let created = |second: u32| json!({"metadata": {"creationTimestamp": format!("2026-01-01T00:00:{second:02}Z")}});
        assert_eq!(order(vec![pod("old", &created(1)), pod("new", &created(2))]), ["new", "old"]);
    }

    #[test]
    fn deletion_cost_wins_over_age_and_node() {
        let mut dear = ready("a", 9);
        dear["metadata"]["annotations"] = json!({DELETION_COST: "10"});
        let mut cheap = ready("b", 1);
        cheap["metadata"]["annotations"] = json!({DELETION_COST: "-10"});
        let pods = vec![pod("dear", &dear), pod("plain", &ready("a", 5)), pod("cheap", &cheap)];
        assert_eq!(order(pods), ["cheap", "plain", "dear"]);
    }

    #[test]
    fn pods_on_nodes_with_more_siblings_are_deleted_first() {
        let pods = vec![
            pod("alone", &ready("b", 9)),
            pod("doubled-old", &ready("a", 1)),
            pod("doubled-young", &ready("a", 5)),
        ];
        assert_eq!(order(pods), ["doubled-young", "doubled-old", "alone"]);
    }

    #[test]
    fn restarted_more_often_goes_first() {
        let restarted = |times: i32| {
            let mut pod = ready("a", 1);
            pod["status"]["containerStatuses"] = json!([{
                "name": "c", "image": "", "imageID": "", "ready": true, "restartCount": times,
            }]);
            pod
        };
        let pods = vec![pod("steady", &restarted(0)), pod("shaky", &restarted(3))];
        assert_eq!(order(pods), ["shaky", "steady"]);
    }
}
