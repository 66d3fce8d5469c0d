//! The status of a deployment: counts from its replica sets, and the progress of its rollout.

use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt as _;

use super::condition::{AVAILABLE, ConditionStatus, PROGRESSING, get, reason, remove, renew, set};
use super::limits::Limits;
use super::sets::Sets;
use crate::clock::until;
use crate::objects::{Condition, Deployment, DeploymentStatus, ReplicaSet, ReplicaSetStatus};

/// A deadline of this many seconds means no deadline.
const NO_DEADLINE: i32 = i32::MAX;

/// Sums up the statuses of the replica sets, and sets the `Available` condition.
pub(super) fn counted(
    deployment: &Deployment,
    conditions: Vec<Condition>,
    sets: &Sets,
    now: Timestamp,
) -> DeploymentStatus {
    let statuses = || sets.all().iter().map(|set| &set.status);
    let sum = |count: fn(&ReplicaSetStatus) -> i32| statuses().map(count).sum::<i32>();
    let replicas = sum(|status| status.replicas);
    let available = sum(|status| status.available_replicas.unwrap_or(0));
    let updated = sets.newest().map_or(0, |set| set.status.replicas);
    let known = &deployment.status;
    let present = |count: i32| Some(count).filter(|count| *count != 0);
    DeploymentStatus {
        observed_generation: deployment.metadata.generation.max(known.observed_generation),
        // The server leaves out zeros; a status with them would differ from what is read back.
        replicas: present(replicas),
        updated_replicas: present(updated),
        ready_replicas: present(sum(|status| status.ready_replicas.unwrap_or(0))),
        available_replicas: present(available),
        unavailable_replicas: present((replicas - available).max(0)),
        terminating_replicas: terminating(sets),
        collision_count: known.collision_count,
        conditions: with_availability(deployment, conditions, available, now),
    }
}

fn with_availability(
    deployment: &Deployment,
    mut conditions: Vec<Condition>,
    available: i32,
    now: Timestamp,
) -> Vec<Condition> {
    let (truth, why, message) = if available >= Limits::of(deployment).available_min() {
        (ConditionStatus::True, reason::ENOUGH, "Deployment has minimum availability.")
    } else {
        (ConditionStatus::False, reason::TOO_FEW, "Deployment does not have minimum availability.")
    };
    set(&mut conditions, AVAILABLE, truth, why, message.to_owned(), now);
    conditions
}

/// Sets the `Progressing` condition.
pub(super) fn set_progressing(
    deployment: &Deployment,
    status: &mut DeploymentStatus,
    sets: &Sets,
    now: Timestamp,
) {
    let subject = match sets.newest() {
        Some(set) => format!("ReplicaSet {:?}", set.name_any()),
        None => format!("Deployment {:?}", deployment.name_any()),
    };
    let mut conditions = std::mem::take(&mut status.conditions);
    let Some(deadline) = deadline(deployment) else {
        remove(&mut conditions, PROGRESSING);
        status.conditions = conditions;
        return;
    };
    let current = get(&conditions, PROGRESSING).cloned();
    let why = current.as_ref().and_then(|condition| condition.reason.as_deref());
    if status.replicas != status.updated_replicas || why != Some(reason::COMPLETE) {
        let conditions = &mut conditions;
        if is_complete(deployment, status) {
            let message = format!("{subject} has successfully progressed.");
            set(conditions, PROGRESSING, ConditionStatus::True, reason::COMPLETE, message, now);
        } else if is_progress(&deployment.status, status) {
            let message = format!("{subject} is progressing.");
            renew(conditions, PROGRESSING, ConditionStatus::True, reason::UPDATED, message, now);
        } else if current.is_some_and(|current| is_out_of_time(&current, deadline, now)) {
            let message = format!("{subject} has timed out progressing.");
            set(conditions, PROGRESSING, ConditionStatus::False, reason::TIMED_OUT, message, now);
        }
    }
    status.conditions = conditions;
}

/// Returns when to check the progress deadline; `None` if the rollout has ended.
pub(super) fn deadline_in(
    deployment: &Deployment,
    status: &DeploymentStatus,
    now: Timestamp,
) -> Option<Duration> {
    let deadline = deadline(deployment)?;
    let current = get(&status.conditions, PROGRESSING)?;
    if is_complete(deployment, status)
        || current.reason.as_deref().is_none_or(|reason| !is_under_way(reason))
    {
        return None;
    }
    // Times are stored in whole seconds: with one more, the check is never early.
    Some(until(now, current.last_update_time.as_ref()?, deadline) + Duration::from_secs(1))
}

/// Records that the deployment was paused or resumed, so that a pause does not count against the
/// deadline.
pub(super) fn note_pause(deployment: &Deployment, conditions: &mut Vec<Condition>, now: Timestamp) {
    let is_paused = deployment.spec.paused == Some(true);
    let noted = get(conditions, PROGRESSING).and_then(|condition| condition.reason.clone());
    let noted = noted.as_deref();
    if deadline(deployment).is_none() || noted == Some(reason::TIMED_OUT) {
        return;
    }
    let (why, message) = match (is_paused, noted == Some(reason::PAUSED)) {
        (true, false) => (reason::PAUSED, "Deployment is paused"),
        (false, true) => (reason::RESUMED, "Deployment is resumed"),
        _ => return,
    };
    set(conditions, PROGRESSING, ConditionStatus::Unknown, why, message.to_owned(), now);
}

/// Records that the new replica set was created or found.
pub(super) fn note_new_set(
    deployment: &Deployment,
    conditions: &mut Vec<Condition>,
    name: &str,
    is_created: bool,
    now: Timestamp,
) {
    if deadline(deployment).is_none() {
        return;
    }
    if is_created {
        let message = format!("Created new replica set {name:?}");
        set(conditions, PROGRESSING, ConditionStatus::True, reason::CREATED, message, now);
    } else if get(conditions, PROGRESSING).is_none() {
        let message = format!("Found new replica set {name:?}");
        set(conditions, PROGRESSING, ConditionStatus::True, reason::FOUND, message, now);
    }
}

/// Returns whether all pods have the newest template and are available.
pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let desired = Limits::of(deployment).desired;
    [status.updated_replicas, status.replicas, status.available_replicas]
        .iter()
        .all(|count| count.unwrap_or(0) == desired)
        && status.observed_generation >= deployment.metadata.generation
}

/// Returns whether more pods are new, ready or available, or fewer are old, than before.
fn is_progress(before: &DeploymentStatus, status: &DeploymentStatus) -> bool {
    let old = |status: &DeploymentStatus| {
        status.replicas.unwrap_or(0) - status.updated_replicas.unwrap_or(0)
    };
    let has_grown = |count: fn(&DeploymentStatus) -> Option<i32>| {
        count(status).unwrap_or(0) > count(before).unwrap_or(0)
    };
    old(status) < old(before)
        || has_grown(|status| status.updated_replicas)
        || has_grown(|status| status.ready_replicas)
        || has_grown(|status| status.available_replicas)
}

fn is_out_of_time(current: &Condition, deadline: i32, now: Timestamp) -> bool {
    match current.reason.as_deref() {
        Some(reason::TIMED_OUT) => true,
        Some(reason) if !is_under_way(reason) => false,
        _ => {
            let since = current.last_update_time.as_ref();
            since.is_some_and(|since| until(now, since, deadline).is_zero())
        }
    }
}

/// Returns whether the deadline applies: not to a complete rollout, nor to a paused one.
fn is_under_way(why: &str) -> bool {
    ![reason::COMPLETE, reason::TIMED_OUT, reason::PAUSED].contains(&why)
}

/// The progress deadline in seconds, if there is one.
fn deadline(deployment: &Deployment) -> Option<i32> {
    deployment.spec.progress_deadline_seconds.filter(|seconds| *seconds != NO_DEADLINE)
}

/// Returns the number of terminating pods, if every replica set reports it.
fn terminating(sets: &Sets) -> Option<i32> {
    let count = |set: &ReplicaSet| set.status.terminating_replicas;
    sets.all().iter().map(count).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn deployment(status: &Value) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "generation": 2},
            "spec": {
                "replicas": 3, "progressDeadlineSeconds": 60, "selector": {}, "template": {},
                "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
            },
            "status": status,
        }))
        .expect("a deployment")
    }

    fn set_of(name: &str, replicas: i32, available: i32) -> ReplicaSet {
        serde_json::from_value(json!({"metadata": {"name": name}, "status": {
            "replicas": replicas, "readyReplicas": available, "availableReplicas": available, "terminatingReplicas": 1,
        }}))
        .expect("a replica set")
    }

    fn status_at(
        deployment: &Deployment,
        new: ReplicaSet,
        old: &[ReplicaSet],
        second: i64,
    ) -> DeploymentStatus {
        let mut sets = Sets::of(old.to_vec(), |_| false);
        sets.add_new(new);
        let held = deployment.status.conditions.clone();
        let mut status = counted(deployment, held, &sets, at(second));
        set_progressing(deployment, &mut status, &sets, at(second));
        status
    }

    fn condition(status: &DeploymentStatus, kind: &str) -> (String, String) {
        let condition = get(&status.conditions, kind);
        let condition = condition.expect("the condition").clone();
        (condition.status, condition.reason.expect("a reason"))
    }

    #[test]
    fn counts_are_those_of_all_sets() {
        let status =
            status_at(&deployment(&json!({})), set_of("new", 2, 1), &[set_of("old", 2, 1)], 0);
        assert_eq!((status.replicas, status.updated_replicas), (Some(4), Some(2)));
        assert_eq!((status.ready_replicas, status.available_replicas), (Some(2), Some(2)));
        assert_eq!((status.unavailable_replicas, status.terminating_replicas), (Some(2), Some(2)));
        assert_eq!(status.observed_generation, Some(2));
        assert_eq!(condition(&status, AVAILABLE), ("True".into(), reason::ENOUGH.into()));
        assert_eq!(condition(&status, PROGRESSING), ("True".into(), reason::UPDATED.into()));
    }

    #[test]
    fn too_few_pods_are_unavailable() {
        let status = status_at(&deployment(&json!({})), set_of("new", 3, 1), &[], 0);
        assert_eq!(condition(&status, AVAILABLE), ("False".into(), reason::TOO_FEW.into()));
    }

    #[test]
    fn rollout_is_complete_when_all_pods_are_new_and_available() {
        let status =
            status_at(&deployment(&json!({})), set_of("new", 3, 3), &[set_of("old", 0, 0)], 0);
        assert_eq!(condition(&status, PROGRESSING), ("True".into(), reason::COMPLETE.into()));
        assert_eq!(status.unavailable_replicas, None);
    }

    #[test]
    fn rollout_without_progress_times_out_at_its_deadline() {
        let begun = status_at(&deployment(&json!({})), set_of("new", 1, 0), &[], 100);
        let held = deployment(&json!(begun));
        assert_eq!(deadline_in(&held, &begun, at(130)), Some(Duration::from_secs(31)));
        let waiting = status_at(&held, set_of("new", 1, 0), &[], 159);
        assert_eq!(condition(&waiting, PROGRESSING), ("True".into(), reason::UPDATED.into()));
        let late = status_at(&held, set_of("new", 1, 0), &[], 160);
        assert_eq!(condition(&late, PROGRESSING), ("False".into(), reason::TIMED_OUT.into()));
        assert_eq!(deadline_in(&held, &late, at(160)), None);
        // Late is better than never.
        let moved = status_at(&deployment(&json!(late)), set_of("new", 2, 1), &[], 500);
        assert_eq!(condition(&moved, PROGRESSING), ("True".into(), reason::UPDATED.into()));
    }

    #[test]
    fn pause_and_resumption_are_noted_once() {
        let mut paused = deployment(&json!({}));
        paused.spec.paused = Some(true);
        let mut conditions = Vec::new();
        note_pause(&paused, &mut conditions, at(1));
        note_pause(&paused, &mut conditions, at(2));
        assert_eq!(conditions[0].reason.as_deref(), Some(reason::PAUSED));
        assert_eq!(conditions[0].last_update_time, Some(crate::clock::stored(at(1))));
        note_pause(&deployment(&json!({})), &mut conditions, at(3));
        assert_eq!(conditions[0].reason.as_deref(), Some(reason::RESUMED));
    }
}
