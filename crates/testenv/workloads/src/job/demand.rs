//! How many pods a job should have, and which are surplus.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::backoff::Backoff;
use super::pods::index;
use super::tally::{Tally, count};
use crate::objects::{Job, Pod};
use crate::replica_set::ranking::to_delete;

/// The maximum number of pods that one run creates or deletes, so that other jobs get their turn:
/// as upstream.
const BURST: usize = 500;

/// What to do about the number of pods.
#[derive(Clone, Debug)]
pub(super) enum PodChange {
    /// The number is right.
    Unchanged,
    /// Surplus pods to delete. They do not count as failed.
    Delete(Vec<Arc<Pod>>),
    /// Pods to create, one per entry; for an indexed job, the entry is the index of the pod.
    Create(Vec<Option<i32>>),
    /// Pods are missing, but earlier ones failed: wait this long before creating new ones.
    Wait(Duration),
}

pub(super) fn of(job: &Job, tally: &Tally, backoff: Backoff, now: Timestamp) -> PodChange {
    let active = count(tally.active.len());
    let wanted = wanted(job, tally);
    let excess = usize::try_from(active - wanted).unwrap_or(0);
    let surplus = surplus(job, &tally.active, excess);
    if !surplus.is_empty() {
        return PodChange::Delete(surplus);
    }
    let held = if job.waits_for_end() { count(tally.terminating.len()) } else { 0 };
    let missing = usize::try_from(wanted - active - held).unwrap_or(0);
    if missing == 0 {
        return PodChange::Unchanged;
    }
    let left = backoff.left(now);
    if !left.is_zero() {
        return PodChange::Wait(left);
    }
    PodChange::Create(new_pods(job, tally, missing.min(BURST)))
}

/// Returns how many pods should be active.
fn wanted(job: &Job, tally: &Tally) -> i32 {
    if job.is_suspended() {
        return 0;
    }
    match job.spec.completions {
        Some(completions) => (completions - tally.succeeded).clamp(0, job.parallelism()),
        // Once one has succeeded, the running ones may finish, and no new ones are created.
        None if tally.succeeded > 0 => count(tally.active.len()),
        None => job.parallelism(),
    }
}

/// Returns at least `excess` pods; for an indexed job, also those that share an index with another
/// pod.
fn surplus(job: &Job, active: &[Arc<Pod>], excess: usize) -> Vec<Arc<Pod>> {
    let mut surplus = Vec::new();
    let mut rest = active.to_vec();
    if job.is_indexed() && !job.is_suspended() {
        let mut taken = std::collections::BTreeSet::new();
        // The ranking starts with the pod to delete first. Reversed, each index keeps its best pod.
        let mut ranked = to_delete(rest, active.len());
        ranked.reverse();
        rest = Vec::new();
        for pod in ranked {
            match index(job, &pod) {
                Some(index) if taken.insert(index) => rest.push(pod),
                _ => surplus.push(pod),
            }
        }
    }
    let more = excess.saturating_sub(surplus.len());
    surplus.extend(to_delete(rest, more));
    surplus.truncate(BURST);
    surplus
}

/// Returns the lowest indexes that have neither succeeded nor a pod; without indexes, `None`s.
fn new_pods(job: &Job, tally: &Tally, missing: usize) -> Vec<Option<i32>> {
    if !job.is_indexed() {
        return vec![None; missing];
    }
    let mut taken = tally.done.clone();
    let held: &[Arc<Pod>] = if job.waits_for_end() { &tally.terminating } else { &[] };
    for index in tally.active.iter().chain(held).filter_map(|pod| index(job, pod)) {
        taken.add(index);
    }
    let free = taken.first_missing(missing, job.spec.completions.unwrap_or(0));
    free.into_iter().map(Some).collect()
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt as _;
    use serde_json::{Value, json};

    use super::super::indexes::Indexes;
    use super::*;

    fn job(spec: &Value) -> Job {
        serde_json::from_value(json!({"metadata": {"name": "sum"}, "spec": spec})).expect("a job")
    }

    fn pod(name: &str, index: i32, phase: &str) -> Arc<Pod> {
        let annotations = json!({"batch.kubernetes.io/job-completion-index": index.to_string()});
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": name, "annotations": annotations},
                "spec": {"nodeName": "a"},
                "status": {"phase": phase},
            }))
            .expect("a pod"),
        )
    }

    fn pods(count: usize) -> Vec<Arc<Pod>> {
        (0..count).map(|at| pod(&format!("p{at}"), 0, "Running")).collect()
    }

    /// `+2` for two missing pods, `-p1` for a surplus one, `0` for neither.
    fn demand(job: &Job, tally: &Tally) -> String {
        let now = "2026-01-01T00:00:00Z".parse().expect("a time");
        match of(job, tally, Backoff::default(), now) {
            PodChange::Unchanged => "0".to_owned(),
            PodChange::Delete(pods) => {
                let names: Vec<String> = pods.iter().map(|pod| pod.name_any()).collect();
                format!("-{}", names.join("-"))
            }
            PodChange::Create(new) => match new.iter().flatten().count() {
                0 => format!("+{}", new.len()),
                _ => format!("+{:?}", new.into_iter().flatten().collect::<Vec<_>>()),
            },
            PodChange::Wait(wait) => format!("in {wait:?}"),
        }
    }

    #[test]
    fn pods_are_limited_by_parallelism_and_remaining_completions() {
        let job = job(&json!({"completions": 5, "parallelism": 2}));
        let tally =
            |active, succeeded| Tally { active: pods(active), succeeded, ..Tally::default() };
        assert_eq!(demand(&job, &tally(0, 0)), "+2");
        assert_eq!(demand(&job, &tally(1, 0)), "+1");
        assert_eq!(demand(&job, &tally(2, 3)), "0");
        assert_eq!(demand(&job, &tally(2, 4)), "-p0");
        assert_eq!(demand(&job, &tally(0, 5)), "0");
    }

    #[test]
    fn without_completions_no_pods_come_after_the_first_success() {
        let job = job(&json!({"parallelism": 3}));
        let tally =
            |active, succeeded| Tally { active: pods(active), succeeded, ..Tally::default() };
        assert_eq!(demand(&job, &tally(1, 0)), "+2");
        assert_eq!(demand(&job, &tally(2, 1)), "0");
    }

    #[test]
    fn suspended_job_has_no_pods() {
        let job = job(&json!({"completions": 5, "parallelism": 2, "suspend": true}));
        let tally = Tally { active: pods(2), ..Tally::default() };
        assert_eq!(demand(&job, &tally), "-p0-p1");
    }

    #[test]
    fn lowest_free_indexes_are_created_and_duplicates_deleted() {
        let job = job(&json!({
            "completionMode": "Indexed", "completions": 6, "parallelism": 3,
        }));
        let tally = Tally {
            active: vec![pod("two", 2, "Running")],
            done: Indexes::parse("0", 6),
            succeeded: 1,
            ..Tally::default()
        };
        assert_eq!(demand(&job, &tally), "+[1, 3]");
        let active = vec![pod("a", 2, "Pending"), pod("b", 2, "Running"), pod("c", 9, "Running")];
        let doubled = demand(&job, &Tally { active, ..tally });
        assert!(doubled.contains("-a") && doubled.contains("-c") && !doubled.contains("-b"));
    }

    #[test]
    fn terminating_pod_is_counted_if_the_job_waits_for_its_end() {
        let tally = Tally { terminating: pods(1), ..Tally::default() };
        let patient = json!({"completions": 1, "podReplacementPolicy": "Failed"});
        assert_eq!(demand(&job(&patient), &tally), "0");
        assert_eq!(demand(&job(&json!({"completions": 1})), &tally), "+1");
    }
}
