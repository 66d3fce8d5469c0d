//! The status of a pod whose simulated containers have ended: for good, or until they are
//! restarted.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::life::is_restarted;
use super::running::condition;
use crate::clock::stored;
use crate::condition;
use crate::objects::{Pod, PodStatus};
use crate::pod::{FAILED, SUCCEEDED, is_deleted};

/// The exit code of a container that could not be started.
const CANNOT_RUN: i32 = 128;

/// Returns the pod's status after its containers ended with this exit code, or could not be started
/// for this reason.
pub(super) fn status(pod: &Pod, ending: &Result<i32, String>, now: Timestamp) -> PodStatus {
    let mut status = pod.status.clone();
    let code = *ending.as_ref().unwrap_or(&CANNOT_RUN);
    let goes_on = is_restarted(pod, code) && !is_deleted(pod);
    let (phase, reason) = match (goes_on, code) {
        (true, _) => (status.phase.clone(), "ContainersNotReady"),
        (false, 0) => (Some(SUCCEEDED.to_owned()), "PodCompleted"),
        (false, _) => (Some(FAILED.to_owned()), "PodFailed"),
    };
    status.phase = phase;
    for kind in ["Ready", "ContainersReady"] {
        condition::set(&mut status.conditions, condition(kind, "False", Some(reason)), now);
    }
    for container in &mut status.container_statuses {
        let ended = terminated(container, code, ending.as_ref().err(), now);
        container["ready"] = false.into();
        container["started"] = false.into();
        if goes_on {
            container["lastState"] = ended;
            container["state"] = json!({"waiting": {
                "reason": "CrashLoopBackOff",
                "message": "back-off restarting failed container",
            }});
        } else {
            container["state"] = ended;
        }
    }
    status
}

fn terminated(container: &Value, code: i32, message: Option<&String>, now: Timestamp) -> Value {
    let reason = match (code, message) {
        (0, _) => "Completed",
        (_, Some(_)) => "ContainerCannotRun",
        (_, None) => "Error",
    };
    let mut state = json!({
        "exitCode": code,
        "reason": reason,
        "startedAt": container["state"]["running"]["startedAt"],
        "finishedAt": stored(now),
    });
    if let Some(message) = message {
        state["message"] = message.as_str().into();
    }
    json!({"terminated": state})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::{RUNNING, is_ready};

    fn pod(policy: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {},
            "spec": {"restartPolicy": policy},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{
                    "name": "a", "ready": true, "restartCount": 1,
                    "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                }],
            },
        }))
        .expect("a pod")
    }

    fn ended(policy: &str, ending: &Result<i32, String>) -> Pod {
        let now = "2026-01-01T00:00:05Z".parse().expect("a time");
        let pod = pod(policy);
        Pod { status: status(&pod, ending, now), ..pod }
    }

    #[test]
    fn pod_succeeds_or_fails_by_its_code() {
        let good = ended("Never", &Ok(0));
        assert_eq!((good.status.phase.as_deref(), is_ready(&good)), (Some(SUCCEEDED), false));
        let state = &good.status.container_statuses[0]["state"]["terminated"];
        assert_eq!((&state["exitCode"], &state["reason"]), (&json!(0), &json!("Completed")));
        assert_eq!(state["startedAt"], "2026-01-01T00:00:00Z");
        assert_eq!(state["finishedAt"], "2026-01-01T00:00:05Z");
        let bad = ended("Never", &Ok(3));
        assert_eq!(bad.status.phase.as_deref(), Some(FAILED));
        let wrong = ended("Never", &Err("no number".to_owned()));
        assert_eq!(wrong.status.phase.as_deref(), Some(FAILED));
        let state = &wrong.status.container_statuses[0]["state"]["terminated"];
        assert_eq!(state["message"], "no number");
    }

    #[test]
    fn container_that_is_started_again_waits() {
        let crashed = ended("OnFailure", &Ok(1));
        assert_eq!((crashed.status.phase.as_deref(), is_ready(&crashed)), (Some(RUNNING), false));
        let status = &crashed.status.container_statuses[0];
        assert_eq!(status["state"]["waiting"]["reason"], "CrashLoopBackOff");
        assert_eq!(status["lastState"]["terminated"]["exitCode"], 1);
        assert_eq!(status["restartCount"], 1);
    }
}
