//! The status of a pod whose containers are said to run.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::clock::stored;
use crate::objects::{Condition, Pod, PodStatus};
use crate::pod::RUNNING;

/// The conditions that a kubelet sets, in its order; the scheduler's is the last.
const CONDITIONS: [&str; 4] = ["Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// The pod's status when it runs and is ready since `now`. What it says otherwise stays, such as
/// conditions of others.
pub(super) fn status(pod: &Pod, now: Timestamp) -> PodStatus {
    let known = pod.status.clone();
    let containers = pod.spec["containers"].as_array().into_iter().flatten();
    let mut conditions = known.conditions;
    for kind in CONDITIONS {
        make_true(&mut conditions, kind, now);
    }
    PodStatus {
        phase: Some(RUNNING.to_owned()),
        start_time: known.start_time.or_else(|| Some(stored(now))),
        conditions,
        container_statuses: containers.map(|container| running(container, now)).collect(),
    }
}

/// A condition that is true already keeps its time.
fn make_true(conditions: &mut Vec<Condition>, kind: &str, now: Timestamp) {
    let held = conditions.iter().position(|condition| condition.kind == kind);
    if held.is_some_and(|at| conditions[at].status == "True") {
        return;
    }
    let condition = Condition {
        kind: kind.to_owned(),
        status: "True".to_owned(),
        last_transition_time: Some(stored(now)),
        ..Condition::default()
    };
    match held {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
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
    fn running_pod_is_ready_and_keeps_what_others_said() {
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
        let status = status(&pod, now);
        let conditions = &status.conditions;
        assert_eq!(conditions.len(), 5);
        assert_ne!(conditions[0].last_transition_time, Some(stored(now)));
        assert_eq!(conditions[1].status, "False");
        assert_eq!(conditions[2].last_transition_time, Some(stored(now)));
        assert_eq!(status.container_statuses.len(), 1);
        pod.status = status;
        assert!(is_ready(&pod));
    }
}
