//! The pods of a job by state: which are active, and which have finished.

use std::sync::Arc;

use kube::ResourceExt as _;

use super::indexes::Indexes;
use super::pods::{index, is_failed, is_tracked};
use crate::objects::{Job, Pod};
use crate::pod::{SUCCEEDED, is_active, is_ready, is_terminating, phase};

/// The pods of a job, by state.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) active: Vec<Arc<Pod>>,
    /// How many of the active pods are ready.
    pub(super) ready: i32,
    pub(super) terminating: Vec<Arc<Pod>>,
    /// How many succeeded, counted or not; for an indexed job, how many indexes.
    pub(super) succeeded: i32,
    /// How many failed, counted or not.
    pub(super) failed: i32,
    /// Those that have succeeded since the last run.
    pub(super) newly_succeeded: Vec<Arc<Pod>>,
    pub(super) newly_failed: Vec<Arc<Pod>>,
    /// The succeeded indexes of an indexed job.
    pub(super) done: Indexes,
}

impl Tally {
    pub(super) fn of(job: &Job, pods: &[Arc<Pod>]) -> Self {
        let select = |is_so: &dyn Fn(&Pod) -> bool| -> Vec<Arc<Pod>> {
            pods.iter().filter(|pod| is_so(pod)).cloned().collect()
        };
        let noted = job.status.uncounted_terminated_pods.clone().unwrap_or_default();
        let is_new = |pod: &Pod, noted: &[String]| {
            let is_noted = pod.metadata.uid.as_ref().is_some_and(|uid| noted.contains(uid));
            let is_valid = !job.is_indexed() || index(job, pod).is_some();
            is_tracked(pod) && !is_noted && is_valid
        };
        let newly_succeeded =
            select(&|pod| phase(pod) == SUCCEEDED && is_new(pod, &noted.succeeded));
        let newly_failed = select(&|pod| is_failed(job, pod) && is_new(pod, &noted.failed));
        let active = select(&is_active);
        let mut tally = Self {
            ready: count(active.iter().filter(|pod| is_ready(pod)).count()),
            active,
            terminating: select(&is_terminating),
            succeeded: job.status.succeeded.unwrap_or(0)
                + count(noted.succeeded.len() + newly_succeeded.len()),
            failed: job.status.failed.unwrap_or(0) + count(noted.failed.len() + newly_failed.len()),
            newly_succeeded,
            newly_failed,
            done: Indexes::default(),
        };
        if job.is_indexed() {
            tally.done = done_before(job);
            for index in tally.newly_succeeded.iter().filter_map(|pod| index(job, pod)) {
                tally.done.add(index);
            }
            tally.succeeded = tally.done.len();
        }
        tally
    }
}

/// Returns the succeeded indexes in the status.
pub(super) fn done_before(job: &Job) -> Indexes {
    let text = job.status.completed_indexes.as_deref().unwrap_or_default();
    Indexes::parse(text, job.spec.completions.unwrap_or(0))
}

/// Returns how often the containers of running pods were restarted.
pub(super) fn restarts(pods: &[Arc<Pod>]) -> i64 {
    let running = pods.iter().filter(|pod| !crate::pod::is_finished(pod));
    let statuses = running.flat_map(|pod| &pod.status.container_statuses);
    statuses.filter_map(|status| status["restartCount"].as_i64()).sum()
}

/// Sorts the pods by name, so that nothing depends on the order of the cache.
pub(super) fn sort(job: &Job, pods: &mut [Arc<Pod>]) {
    pods.sort_by_cached_key(|pod| (index(job, pod), pod.name_any()));
}

pub(super) fn count(pods: usize) -> i32 {
    i32::try_from(pods).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(spec: &Value, status: &Value) -> Job {
        serde_json::from_value(json!({"metadata": {"name": "sum"}, "spec": spec, "status": status}))
            .expect("a job")
    }

    /// A pod with a finalizer, if `is_tracked`.
    fn pod(uid: &str, phase: &str, is_tracked: bool, index: i32) -> Value {
        let finalizers: &[&str] = if is_tracked { &[super::super::pods::TRACKING] } else { &[] };
        json!({
            "metadata": {
                "name": uid, "uid": uid, "finalizers": finalizers,
                "annotations": {"batch.kubernetes.io/job-completion-index": index.to_string()},
            },
            "status": {"phase": phase},
        })
    }

    fn pods(pods: Vec<Value>) -> Vec<Arc<Pod>> {
        pods.into_iter().map(|pod| Arc::new(serde_json::from_value(pod).expect("a pod"))).collect()
    }

    #[test]
    fn pods_are_counted_once() {
        let status = json!({
            "succeeded": 2, "failed": 1,
            "uncountedTerminatedPods": {"succeeded": ["noted"], "failed": ["gone"]},
        });
        let mut deleted = pod("deleted", "Running", true, 0);
        deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let pods = pods(vec![
            pod("noted", "Succeeded", true, 0),
            pod("counted", "Succeeded", false, 0),
            pod("new", "Succeeded", true, 0),
            pod("failed", "Failed", true, 0),
            pod("running", "Running", true, 0),
            deleted,
        ]);
        let tally = Tally::of(&job(&json!({}), &status), &pods);
        assert_eq!((tally.succeeded, tally.newly_succeeded.len()), (4, 1));
        // One in the status, one recorded, one that failed, one that was deleted.
        assert_eq!((tally.failed, tally.newly_failed.len()), (4, 2));
        assert_eq!((tally.active.len(), tally.terminating.len()), (1, 1));
        let patient = job(&json!({"podReplacementPolicy": "Failed"}), &status);
        assert_eq!(Tally::of(&patient, &pods).failed, 3);
    }

    #[test]
    fn indexes_succeed_once() {
        let spec = json!({"completionMode": "Indexed", "completions": 4});
        let status = json!({"succeeded": 1, "completedIndexes": "0"});
        let pods = pods(vec![
            pod("again", "Succeeded", true, 0),
            pod("new", "Succeeded", true, 2),
            pod("beyond", "Succeeded", true, 9),
        ]);
        let tally = Tally::of(&job(&spec, &status), &pods);
        assert_eq!((tally.succeeded, tally.done.to_string()), (2, "0,2".to_owned()));
    }
}
