//! Whether a job is over, and why.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::tally::{Tally, restarts};
use crate::objects::{Condition, Job, Pod};

/// Enough pods have succeeded.
pub(crate) const COMPLETE: &str = "Complete";
/// Too many pods have failed, or the deadline has passed.
pub(crate) const FAILED: &str = "Failed";
/// The job will be complete once all pods have ended and are counted.
pub(super) const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
/// The job will have failed once all pods have ended and are counted.
pub(super) const FAILURE_TARGET: &str = "FailureTarget";

/// How a job ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JobEnd {
    pub(super) is_success: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

impl JobEnd {
    fn failure(reason: &str, message: &str) -> Self {
        Self { is_success: false, reason: reason.to_owned(), message: message.to_owned() }
    }

    fn noted(condition: &Condition, is_success: bool) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self { is_success, reason: text(&condition.reason), message: text(&condition.message) }
    }

    /// Returns its conditions: the one until all pods are counted, and the final one.
    pub(super) fn conditions(&self) -> (&'static str, &'static str) {
        if self.is_success { (SUCCESS_CRITERIA_MET, COMPLETE) } else { (FAILURE_TARGET, FAILED) }
    }
}

/// Returns the verdict that the status already states, or the one that is reached now.
pub(super) fn of(
    job: &Job,
    started: Option<&Time>,
    tally: &Tally,
    pods: &[Arc<Pod>],
    now: Timestamp,
) -> Option<JobEnd> {
    if let Some(condition) = job.condition(SUCCESS_CRITERIA_MET) {
        return Some(JobEnd::noted(condition, true));
    }
    if let Some(condition) = job.condition(FAILURE_TARGET) {
        return Some(JobEnd::noted(condition, false));
    }
    if tally.failed > job.backoff_limit() || has_restarted_too_often(job, pods) {
        let message = "Job has reached the specified backoff limit";
        return Some(JobEnd::failure("BackoffLimitExceeded", message));
    }
    if deadline_in(job, started, now).is_some_and(|left| left.is_zero()) {
        let message = "Job was active longer than specified deadline";
        return Some(JobEnd::failure("DeadlineExceeded", message));
    }
    None
}

/// Returns success if enough pods have succeeded and none runs any more.
pub(super) fn success(job: &Job, succeeded: i32, active: i32) -> Option<JobEnd> {
    // Without `completions`, one success is enough.
    let wanted = job.spec.completions.unwrap_or(1);
    (succeeded >= wanted && active == 0).then(|| JobEnd {
        is_success: true,
        reason: "CompletionsReached".to_owned(),
        message: "Reached expected number of succeeded pods".to_owned(),
    })
}

/// Returns how long the job may still be active; `None` if there is no limit.
pub(super) fn deadline_in(job: &Job, started: Option<&Time>, now: Timestamp) -> Option<Duration> {
    let limit = job.spec.active_deadline_seconds.filter(|_| !job.is_suspended())?;
    let limit = Duration::from_secs(u64::try_from(limit).unwrap_or(0));
    let end = started?.0.saturating_add(limit).unwrap_or(Timestamp::MAX);
    Some(Duration::try_from(end.duration_since(now)).unwrap_or(Duration::ZERO))
}

/// Pods that are restarted in place do not fail; their restarts count instead.
fn has_restarted_too_often(job: &Job, pods: &[Arc<Pod>]) -> bool {
    if job.spec.template["spec"]["restartPolicy"] != "OnFailure" {
        return false;
    }
    restarts(pods) >= i64::from(job.backoff_limit()).max(1)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(spec: &Value, status: &Value) -> Job {
        serde_json::from_value(json!({"metadata": {"name": "sum"}, "spec": spec, "status": status}))
            .expect("a job")
    }

    fn reason(job: &Job, failed: i32, pods: &[Arc<Pod>]) -> Option<String> {
        let tally = Tally { failed, ..Tally::default() };
        let now = "2026-01-01T00:01:00Z".parse().expect("a time");
        let verdict = of(job, job.status.start_time.as_ref(), &tally, pods, now);
        verdict.map(|verdict| verdict.reason)
    }

    #[test]
    fn one_failure_more_than_the_limit_is_the_end() {
        let limited = job(&json!({"backoffLimit": 1}), &json!({}));
        assert_eq!(reason(&limited, 1, &[]), None);
        assert_eq!(reason(&limited, 2, &[]).as_deref(), Some("BackoffLimitExceeded"));
        assert_eq!(reason(&job(&json!({}), &json!({})), 6, &[]), None);
    }

    #[test]
    fn restarts_count_where_pods_do_not_fail() {
        let pod = json!({"metadata": {}, "status": {
            "phase": "Running", "containerStatuses": [{"restartCount": 2}],
        }});
        let pods = [Arc::new(serde_json::from_value(pod).expect("a pod"))];
        let limited = |policy: &str, limit: i32| {
            let template = json!({"spec": {"restartPolicy": policy}});
            job(&json!({"backoffLimit": limit, "template": template}), &json!({}))
        };
        assert_eq!(reason(&limited("OnFailure", 3), 0, &pods), None);
        assert!(reason(&limited("OnFailure", 2), 0, &pods).is_some());
        assert!(reason(&limited("OnFailure", 0), 0, &pods).is_some());
        assert_eq!(reason(&limited("OnFailure", 0), 0, &[]), None);
        assert_eq!(reason(&limited("Never", 0), 0, &pods), None);
    }

    #[test]
    fn deadline_counts_from_the_start_unless_suspended() {
        let started = json!({"startTime": "2026-01-01T00:00:30Z"});
        let limited = |seconds: i64| job(&json!({"activeDeadlineSeconds": seconds}), &started);
        assert_eq!(reason(&limited(31), 0, &[]), None);
        assert_eq!(reason(&limited(30), 0, &[]).as_deref(), Some("DeadlineExceeded"));
        let spec = json!({"activeDeadlineSeconds": 1, "suspend": true});
        assert_eq!(reason(&job(&spec, &started), 0, &[]), None);
    }

    #[test]
    fn recorded_outcome_is_kept() {
        let condition = |kind: &str| json!({"conditions": [{"type": kind, "status": "True", "reason": "Because"}]});
        for kind in [SUCCESS_CRITERIA_MET, FAILURE_TARGET] {
            let decided = job(&json!({}), &condition(kind));
            assert_eq!(reason(&decided, 99, &[]).as_deref(), Some("Because"));
        }
    }

    #[test]
    fn success_is_enough_pods_and_none_that_runs() {
        let three = job(&json!({"completions": 3}), &json!({}));
        assert_eq!(success(&three, 2, 0), None);
        assert_eq!(success(&three, 3, 1), None);
        assert!(success(&three, 3, 0).is_some());
        let any = job(&json!({"parallelism": 3}), &json!({}));
        assert!(success(&any, 0, 0).is_none() && success(&any, 1, 0).is_some());
    }
}
