//! Counts every finished pod exactly once.
//!
//! This takes two steps, with a status write between them. [`note`] adds the uids of
//! finished pods to the status, and returns the pods whose finalizer can be removed.
//! [`count_released`] counts the pods that have lost their finalizer. Wherever a run fails, the
//! next one continues from the status.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::pods::{index, is_failed, is_tracked};
use super::tally::{count, done_before};
use super::verdict::JobEnd;
use crate::objects::{Job, JobStatus, Pod};
use crate::pod::{SUCCEEDED, phase};

/// The maximum number of pods that one run counts, to keep the status small: as upstream.
const UNCOUNTED_MAX: usize = 500;

/// Records the finished pods, and returns those whose finalizer may be removed. `pods` are ordered
/// by index.
pub(super) fn note(
    job: &Job,
    status: &mut JobStatus,
    pods: &[Arc<Pod>],
    verdict: Option<&JobEnd>,
) -> Vec<Arc<Pod>> {
    let mut done = done_before(job);
    let mut released = Vec::new();
    for pod in pods.iter().filter(|pod| is_tracked(pod)).take(UNCOUNTED_MAX) {
        let has_failed = is_failed(job, pod);
        let has_succeeded = phase(pod) == SUCCEEDED;
        let is_over = job.metadata.deletion_timestamp.is_some() || verdict.is_some();
        if !(has_failed || has_succeeded || is_over) {
            continue;
        }
        released.push(Arc::clone(pod));
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let noted = status.uncounted_terminated_pods.get_or_insert_default();
        let has_place = !job.is_indexed() || index(job, pod).is_some();
        // Pods still running when a job fails count as failed.
        let fails = has_failed || verdict.is_some_and(|verdict| !verdict.is_success);
        if has_succeeded && !noted.failed.contains(&uid) {
            match index(job, pod) {
                Some(index) if job.is_indexed() => done.add(index),
                _ if job.is_indexed() => {}
                _ => add(&mut noted.succeeded, uid),
            }
        } else if fails && has_place {
            add(&mut noted.failed, uid);
        }
    }
    if job.is_indexed() {
        status.succeeded = non_zero(done.len());
        status.completed_indexes = Some(done.to_string()).filter(|text| !text.is_empty());
    }
    released
}

/// Counts the recorded pods that no longer have the finalizer.
pub(super) fn count_released(status: &mut JobStatus, held: &BTreeSet<String>) {
    let noted = status.uncounted_terminated_pods.get_or_insert_default();
    let counted = |uids: &mut Vec<String>| {
        let before = uids.len();
        uids.retain(|uid| held.contains(uid));
        count(before - uids.len())
    };
    let (succeeded, failed) = (counted(&mut noted.succeeded), counted(&mut noted.failed));
    status.succeeded = non_zero(status.succeeded.unwrap_or(0).saturating_add(succeeded));
    status.failed = non_zero(status.failed.unwrap_or(0).saturating_add(failed));
}

/// Returns whether all recorded pods are counted.
pub(super) fn is_settled(status: &JobStatus) -> bool {
    let noted = status.uncounted_terminated_pods.as_ref();
    noted.is_none_or(|noted| noted.succeeded.is_empty() && noted.failed.is_empty())
}

fn add(uids: &mut Vec<String>, uid: String) {
    if !uids.contains(&uid) {
        uids.push(uid);
    }
}

/// Returns `None` for zero: the server omits zeros.
pub(super) fn non_zero(pods: i32) -> Option<i32> {
    (pods != 0).then_some(pods)
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt as _;
    use serde_json::{Value, json};

    use super::super::pods::TRACKING;
    use super::*;

    fn job(spec: &Value) -> Job {
        serde_json::from_value(json!({"metadata": {"name": "sum"}, "spec": spec})).expect("a job")
    }

    fn pod(uid: &str, phase: &str, index: i32) -> Arc<Pod> {
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {
                    "name": uid, "uid": uid, "finalizers": [TRACKING],
                    "annotations": {"batch.kubernetes.io/job-completion-index": index.to_string()},
                },
                "status": {"phase": phase},
            }))
            .expect("a pod"),
        )
    }

    fn noted(status: &JobStatus) -> crate::objects::Uncounted {
        status.uncounted_terminated_pods.clone().unwrap_or_default()
    }

    fn names(pods: &[Arc<Pod>]) -> Vec<String> {
        pods.iter().map(|pod| pod.name_any()).collect()
    }

    #[test]
    fn finished_pods_are_counted_after_losing_their_finalizer() {
        let job = job(&json!({}));
        let pods =
            [pod("good", "Succeeded", 0), pod("bad", "Failed", 0), pod("busy", "Running", 0)];
        let mut status = JobStatus::default();
        let released = note(&job, &mut status, &pods, None);
        assert_eq!(names(&released), ["good", "bad"]);
        assert_eq!((status.succeeded, is_settled(&status)), (None, false));
        // Only one finalizer could be removed.
        count_released(&mut status, &BTreeSet::from(["bad".to_owned()]));
        assert_eq!((status.succeeded, status.failed, is_settled(&status)), (Some(1), None, false));
        count_released(&mut status, &BTreeSet::new());
        assert_eq!(
            (status.succeeded, status.failed, is_settled(&status)),
            (Some(1), Some(1), true)
        );
        // A pod that is recorded twice is counted once.
        let again = note(&job, &mut status, &pods[1..2], None);
        note(&job, &mut status, &pods[1..2], None);
        assert_eq!((again.len(), noted(&status).failed.len()), (1, 1));
    }

    #[test]
    fn running_pods_of_a_failed_job_count_as_failed() {
        let verdict =
            |is_success| JobEnd { is_success, reason: String::new(), message: String::new() };
        let pods = [pod("busy", "Running", 0)];
        let mut status = JobStatus::default();
        assert_eq!(note(&job(&json!({})), &mut status, &pods, Some(&verdict(true))).len(), 1);
        assert!(is_settled(&status));
        note(&job(&json!({})), &mut status, &pods, Some(&verdict(false)));
        assert_eq!(noted(&status).failed, ["busy"]);
    }

    #[test]
    fn indexes_are_noted_by_number() {
        let job = job(&json!({"completionMode": "Indexed", "completions": 3}));
        let pods = [pod("a", "Succeeded", 0), pod("b", "Succeeded", 2), pod("c", "Succeeded", 7)];
        let mut status = JobStatus::default();
        assert_eq!(note(&job, &mut status, &pods, None).len(), 3);
        assert_eq!(status.completed_indexes.as_deref(), Some("0,2"));
        count_released(&mut status, &BTreeSet::new());
        assert_eq!(status.succeeded, Some(2));
    }
}
