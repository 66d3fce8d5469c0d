//! The next change in the life of a pod, and the delay before it.
//!
//! Pods with `restartPolicy: Always` run forever. Others end after a while, and succeed. Two
//! annotations on a pod or its template override this.

use std::time::Duration;

use kube::ResourceExt as _;
use serde_json::Value;

use super::PodDelays;
use crate::objects::Pod;
use crate::pod::{PENDING, RUNNING, node, phase};

/// The exit code of the pod's containers: `"1"` for one that fails. Pods with
/// `restartPolicy: Always` end as well if this is set.
pub(crate) const EXIT_CODE: &str = "workloads.windlass.rs/exit-code";

/// How many seconds a pod runs before it ends, or `forever`.
pub(crate) const RUN_SECONDS: &str = "workloads.windlass.rs/run-seconds";

/// The exit code of a killed container.
pub(super) const KILLED: i32 = 137;

/// The restart backoff, as in the kubelet: ten seconds after the first end, twice as long each
/// time, at most five minutes.
const RESTART_FIRST: Duration = Duration::from_secs(10);
const RESTART_LONGEST: Duration = Duration::from_mins(5);

/// The next change of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextChange {
    /// Its containers start.
    Start,
    /// They end.
    End,
    /// They are restarted.
    Restart,
}

/// Returns the next change and the delay before it; `None` if there is none.
pub(super) fn next(pod: &Pod, delays: PodDelays) -> Option<(NextChange, Duration)> {
    node(pod)?;
    match phase(pod) {
        PENDING => Some((NextChange::Start, delays.start_delay)),
        RUNNING if is_waiting(pod) => Some((NextChange::Restart, restart_wait(pod))),
        RUNNING => run_time(pod, delays).map(|time| (NextChange::End, time)),
        _ => None,
    }
}

/// Returns the exit code with which the pod ends.
///
/// # Errors
/// The reason why the annotation is not a valid number. Then the pod fails.
pub(super) fn ending(pod: &Pod) -> Result<i32, String> {
    match pod.annotations().get(EXIT_CODE) {
        None => Ok(0),
        Some(code) => match code.parse::<u8>() {
            Ok(code) => Ok(code.into()),
            Err(_) => Err(format!("{EXIT_CODE} is {code:?}, but has to be a number up to 255")),
        },
    }
}

/// Returns whether the containers are restarted after this exit code.
pub(super) fn is_restarted(pod: &Pod, code: i32) -> bool {
    match pod.spec["restartPolicy"].as_str() {
        Some("Never") => false,
        Some("OnFailure") => code != 0,
        _ => true,
    }
}

/// Returns how often the first container was restarted.
pub(super) fn restarts(pod: &Pod) -> u32 {
    let first = pod.status.container_statuses.first();
    let count = first.and_then(|status| status["restartCount"].as_u64()).unwrap_or(0);
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Returns how long the pod runs; `None` if it does not end.
fn run_time(pod: &Pod, delays: PodDelays) -> Option<Duration> {
    let annotations = pod.annotations();
    let is_ending = pod.spec["restartPolicy"].as_str().is_some_and(|policy| policy != "Always");
    if !is_ending && !annotations.contains_key(EXIT_CODE) {
        return None;
    }
    match annotations.get(RUN_SECONDS).map(String::as_str) {
        Some("forever") => None,
        Some(seconds) => seconds.parse().ok().map(Duration::from_secs).or(Some(delays.run_time)),
        None => Some(delays.run_time),
    }
}

fn is_waiting(pod: &Pod) -> bool {
    let mut statuses = pod.status.container_statuses.iter();
    statuses.any(|status| status["state"].get("waiting").is_some_and(Value::is_object))
}

fn restart_wait(pod: &Pod) -> Duration {
    RESTART_FIRST.saturating_mul(1 << restarts(pod).min(16)).min(RESTART_LONGEST)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PACE: PodDelays =
        PodDelays { start_delay: Duration::from_millis(1), run_time: Duration::from_millis(2) };

    fn pod(policy: &str, status: &Value, annotations: &Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"annotations": annotations},
            "spec": {"nodeName": "a", "restartPolicy": policy},
            "status": status,
        }))
        .expect("a pod")
    }

    fn runs(policy: &str, annotations: &Value) -> Option<(NextChange, Duration)> {
        next(&pod(policy, &json!({"phase": "Running"}), annotations), PACE)
    }

    #[test]
    fn pods_start_on_nodes_only() {
        let mut waiting = pod("Always", &json!({}), &json!({}));
        assert_eq!(next(&waiting, PACE), Some((NextChange::Start, PACE.start_delay)));
        waiting.spec = json!({});
        assert_eq!(next(&waiting, PACE), None);
        assert_eq!(next(&pod("Never", &json!({"phase": "Failed"}), &json!({})), PACE), None);
    }

    #[test]
    fn pods_end_depending_on_policy_and_annotations() {
        let end = |seconds| Some((NextChange::End, Duration::from_secs(seconds)));
        assert_eq!(runs("Always", &json!({})), None);
        assert_eq!(runs("Never", &json!({})), Some((NextChange::End, PACE.run_time)));
        assert_eq!(runs("OnFailure", &json!({RUN_SECONDS: "7"})), end(7));
        assert_eq!(runs("Never", &json!({RUN_SECONDS: "forever"})), None);
        assert_eq!(runs("Always", &json!({EXIT_CODE: "1", RUN_SECONDS: "3"})), end(3));
        assert_eq!(runs("Always", &json!({RUN_SECONDS: "3"})), None);
    }

    #[test]
    fn container_that_waits_is_started_again_later_and_later() {
        let waiting = |restarts: u32| {
            let status = json!({"phase": "Running", "containerStatuses": [
                {"restartCount": restarts, "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
            ]});
            next(&pod("OnFailure", &status, &json!({})), PACE)
        };
        assert_eq!(waiting(0), Some((NextChange::Restart, RESTART_FIRST)));
        assert_eq!(waiting(1), Some((NextChange::Restart, Duration::from_secs(20))));
        assert_eq!(waiting(1000), Some((NextChange::Restart, RESTART_LONGEST)));
    }

    #[test]
    fn code_is_a_number_or_a_failure_that_says_why() {
        let code = |code: &str| ending(&pod("Never", &json!({}), &json!({EXIT_CODE: code})));
        assert_eq!(code("3"), Ok(3));
        assert!(code("three").expect_err("no number").contains("\"three\""));
        assert!(code("256").is_err() && code("-1").is_err());
    }

    #[test]
    fn policy_says_whether_a_container_runs_again() {
        let is_restarted = |policy, code| is_restarted(&pod(policy, &json!({}), &json!({})), code);
        assert!(is_restarted("Always", 0) && is_restarted("OnFailure", 1));
        assert!(!is_restarted("OnFailure", 0) && !is_restarted("Never", 1));
    }
}
