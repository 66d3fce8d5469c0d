//! The status of a pod whose simulated containers run.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::clock::stored;
use crate::condition;
use crate::objects::{Address, Condition, Pod, PodStatus};
use crate::pod::RUNNING;

/// The conditions that a kubelet sets, in its order; the last is the scheduler's.
const CONDITIONS: [&str; 4] = ["Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// Returns the status of a pod that runs on the node with the address `host` and is ready since
/// `now`. Everything else in the status is kept, such as the conditions of other controllers.
pub(super) fn status(
    pod: &Pod,
    host: Ipv4Addr,
    address: Option<Ipv4Addr>,
    now: Timestamp,
) -> PodStatus {
    let known = pod.status.clone();
    let containers = pod.spec["containers"].as_array().into_iter().flatten();
    let text = |address: Ipv4Addr| address.to_string();
    let list = |address: Option<Ipv4Addr>| {
        address.into_iter().map(|address| Address { ip: text(address) }).collect()
    };
    PodStatus {
        phase: Some(RUNNING.to_owned()),
        start_time: known.start_time.or_else(|| Some(stored(now))),
        conditions: all_true(known.conditions, now),
        container_statuses: containers.map(|container| running(container, now)).collect(),
        host_ip: Some(text(host)),
        host_ips: list(Some(host)),
        pod_ip: address.map(text),
        pod_ips: list(address),
    }
}

/// Returns the pod's status after its containers were restarted.
pub(super) fn restarted(pod: &Pod, now: Timestamp) -> PodStatus {
    let mut status = pod.status.clone();
    status.conditions = all_true(status.conditions, now);
    for container in &mut status.container_statuses {
        container["ready"] = true.into();
        container["started"] = true.into();
        container["restartCount"] = (container["restartCount"].as_u64().unwrap_or(0) + 1).into();
        container["state"] = json!({"running": {"startedAt": stored(now)}});
    }
    status
}

fn all_true(mut conditions: Vec<Condition>, now: Timestamp) -> Vec<Condition> {
    for kind in CONDITIONS {
        condition::set(&mut conditions, condition(kind, "True", None), now);
    }
    conditions
}

/// A condition of a pod.
pub(super) fn condition(kind: &str, status: &str, reason: Option<&str>) -> Condition {
    Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.map(str::to_owned),
        ..Condition::default()
    }
}

fn running(container: &Value, now: Timestamp) -> Value {
    json!({
        "name": container["name"],
        "image": container["image"].as_str().unwrap_or_default(),
        "imageID": "",
        "ready": true,
        "started": true,
        "restartCount": 0,
        "state": {"running": {"startedAt": stored(now)}},
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::is_ready;

    #[test]
    fn running_pod_is_ready_and_keeps_foreign_conditions() {
        let mut pod: Pod = serde_json::from_value(json!({
            "metadata": {}, "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            "status": {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "example.com/gate", "status": "False"},
                {"type": "Ready", "status": "False", "reason": "ContainersNotReady"},
            ]},
        }))
        .expect("a pod");
        let now = "2026-01-01T00:01:00Z".parse().expect("a time");
        let (host, address) = ([172, 16, 0, 1].into(), [10, 128, 0, 1].into());
        let status = status(&pod, host, Some(address), now);
        let conditions = &status.conditions;
        assert_eq!(conditions.len(), 5);
        assert_ne!(conditions[0].last_transition_time, Some(stored(now)));
        assert_eq!(conditions[1].status, "False");
        assert_eq!(conditions[2].last_transition_time, Some(stored(now)));
        assert_eq!(status.container_statuses.len(), 1);
        assert_eq!(status.host_ip.as_deref(), Some("172.16.0.1"));
        assert_eq!(status.pod_ips, [Address { ip: "10.128.0.1".to_owned() }]);
        pod.status = status;
        assert!(is_ready(&pod));
        let again = restarted(&pod, now);
        assert_eq!(again.container_statuses[0]["restartCount"], 1);
    }
}
