//! The next steps for the pods of a stateful set, in upstream's order.
//!
//! First the missing pods, from the lowest ordinal up; then the surplus pods, from the highest
//! down; then the highest pod with an old revision. With `OrderedReady`, each step waits until
//! everything before it is available. With `Parallel`, only the last part waits.

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt as _;

use super::members::{Members, is_available};
use super::pods::{has_identity, revision_of};
use crate::objects::{Pod, StatefulSet};
use crate::pod::{is_deleted, is_finished};

/// One step.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Create the pod with this ordinal.
    Create(i32),
    /// Delete this pod: it has ended, or is surplus.
    Delete(Arc<Pod>),
    /// Add the missing identity labels.
    Label(Arc<Pod>),
    /// Delete this pod of an old revision, so that it is created with the new one.
    Replace(Arc<Pod>),
}

/// Returns the steps that can be taken now. `update` is the revision that pods should have.
pub(super) fn plan(
    set: &StatefulSet,
    members: &Members,
    update: &str,
    now: Timestamp,
) -> Vec<Step> {
    let mut steps = Vec::new();
    let is_settled = fill(set, members, now, &mut steps) && shrink(set, members, now, &mut steps);
    if is_settled && !set.is_updated_on_delete() {
        steps.extend(next_to_replace(set, members, update, now).cloned().map(Step::Replace));
    }
    steps
}

/// Creates missing pods and replaces finished ones. Returns whether later steps may begin.
fn fill(set: &StatefulSet, members: &Members, now: Timestamp, steps: &mut Vec<Step>) -> bool {
    for (at, pod) in members.wanted.iter().enumerate() {
        let is_in_the_way = match pod {
            None => {
                steps.push(Step::Create(members.ordinal(at)));
                true
            }
            Some(pod) if is_finished(pod) => {
                if !is_deleted(pod) {
                    steps.push(Step::Delete(Arc::clone(pod)));
                }
                true
            }
            Some(pod) => {
                let is_ready = is_available(set, pod, now);
                if (is_ready || set.is_parallel()) && !has_identity(pod) {
                    steps.push(Step::Label(Arc::clone(pod)));
                }
                !is_ready
            }
        };
        if is_in_the_way && !set.is_parallel() {
            return false;
        }
    }
    true
}

/// Deletes surplus pods. Returns whether later steps may begin.
fn shrink(set: &StatefulSet, members: &Members, now: Timestamp, steps: &mut Vec<Step>) -> bool {
    let is_unavailable = |pod: &&Arc<Pod>| !is_available(set, pod, now);
    // An unavailable pod is deleted only if no surplus pod with a lower ordinal is unavailable.
    let lowest_unavailable = members.surplus.iter().rev().find(is_unavailable);
    for pod in &members.surplus {
        if set.is_parallel() {
            if !is_deleted(pod) {
                steps.push(Step::Delete(Arc::clone(pod)));
            }
            continue;
        }
        let may_go = !is_deleted(pod)
            && (is_available(set, pod, now)
                || lowest_unavailable.is_some_and(|lowest| Arc::ptr_eq(lowest, pod)));
        if may_go {
            steps.push(Step::Delete(Arc::clone(pod)));
        }
        return false;
    }
    true
}

/// Returns the highest pod of an old revision, if all above it have the new one and are available.
fn next_to_replace<'a>(
    set: &StatefulSet,
    members: &'a Members,
    update: &str,
    now: Timestamp,
) -> Option<&'a Arc<Pod>> {
    let partition = usize::try_from(set.partition()).unwrap_or(0);
    for pod in members.wanted.iter().skip(partition).rev() {
        let pod = pod.as_ref().filter(|pod| !is_finished(pod))?;
        if revision_of(pod) != Some(update) && !is_deleted(pod) {
            return Some(pod);
        }
        if !is_available(set, pod, now) {
            return None;
        }
    }
    None
}

impl Step {
    /// Returns the step as text, for logs and tests.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Create(ordinal) => format!("create {ordinal}"),
            Self::Delete(pod) => format!("delete {}", pod.name_any()),
            Self::Label(pod) => format!("label {}", pod.name_any()),
            Self::Replace(pod) => format!("replace {}", pod.name_any()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(replicas: i32, more: &Value) -> StatefulSet {
        let mut spec = json!({"replicas": replicas});
        spec.as_object_mut()
            .expect("an object")
            .extend(more.as_object().cloned().unwrap_or_default());
        serde_json::from_value(json!({"metadata": {"name": "db"}, "spec": spec})).expect("a set")
    }

    /// `2r new` is a ready pod with the ordinal 2 and the revision `new`; `p` is pending, `f`
    /// failed, `d` deleted.
    fn pod(text: &str) -> Arc<Pod> {
        let (head, revision) = text.split_once(' ').expect("an ordinal, a state and a revision");
        let (ordinal, state) = head.split_at(head.len() - 1);
        let name = format!("db-{ordinal}");
        let mut pod = json!({
            "metadata": {"name": name, "labels": {
                "statefulset.kubernetes.io/pod-name": name,
                "apps.kubernetes.io/pod-index": ordinal,
                "controller-revision-hash": revision,
            }},
            "status": {"phase": "Running", "conditions": [{
                "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]},
        });
        match state {
            "p" => pod["status"] = json!({"phase": "Pending"}),
            "f" => pod["status"] = json!({"phase": "Failed"}),
            "d" => pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
            _ => {}
        }
        Arc::new(serde_json::from_value(pod).expect("a pod"))
    }

    fn planned(set: &StatefulSet, pods: &[&str]) -> Vec<String> {
        let pods: Vec<_> = pods.iter().map(|text| pod(text)).collect();
        let now = "2026-01-01T00:01:00Z".parse().expect("a time");
        plan(set, &Members::of(set, &pods), "new", now).iter().map(Step::describe).collect()
    }

    fn parallel() -> Value {
        json!({"podManagementPolicy": "Parallel"})
    }

    #[test]
    fn pods_come_one_after_the_other() {
        let set = set(3, &json!({}));
        assert_eq!(planned(&set, &[]), ["create 0"]);
        assert_eq!(planned(&set, &["0p new"]), [""; 0]);
        assert_eq!(planned(&set, &["0r new"]), ["create 1"]);
        // A missing one in the middle comes first, whatever is above it.
        assert_eq!(planned(&set, &["0r new", "2r new"]), ["create 1"]);
        assert_eq!(planned(&set, &["0d new", "1r new"]), [""; 0]);
    }

    #[test]
    fn pods_come_and_go_at_once_in_parallel() {
        let set = set(3, &parallel());
        assert_eq!(planned(&set, &["1p new"]), ["create 0", "create 2"]);
        let pods = ["0r new", "1r new", "2r new", "3r new", "4d new", "5p new"];
        assert_eq!(planned(&set, &pods), ["delete db-5", "delete db-3"]);
    }

    #[test]
    fn pods_go_from_the_highest_down() {
        let set = set(1, &json!({}));
        assert_eq!(planned(&set, &["0r new", "1r new", "2r new"]), ["delete db-2"]);
        assert_eq!(planned(&set, &["0r new", "1r new", "2d new"]), [""; 0]);
        // The highest waits for an unavailable one below it, and goes if it is the only one.
        assert_eq!(planned(&set, &["0r new", "1p new", "2p new"]), [""; 0]);
        assert_eq!(planned(&set, &["0r new", "1r new", "2p new"]), ["delete db-2"]);
        // The remaining ones have to be available first.
        assert_eq!(planned(&set, &["0p new", "1r new"]), [""; 0]);
    }

    #[test]
    fn pod_that_ended_is_deleted_and_comes_again() {
        assert_eq!(planned(&set(2, &json!({})), &["0f new", "1r new"]), ["delete db-0"]);
        assert_eq!(planned(&set(2, &parallel()), &["0f new"]), ["delete db-0", "create 1"]);
    }

    #[test]
    fn old_pods_are_replaced_from_the_highest_down() {
        let set = set(3, &json!({}));
        assert_eq!(planned(&set, &["0r old", "1r old", "2r old"]), ["replace db-2"]);
        assert_eq!(planned(&set, &["0r old", "1r old", "2d old"]), [""; 0]);
        assert_eq!(planned(&set, &["0r old", "1r old", "2r new"]), ["replace db-1"]);
        assert_eq!(planned(&set, &["0r new", "1r new", "2r new"]), [""; 0]);
    }

    #[test]
    fn partition_keeps_the_first_and_on_delete_all() {
        let partition = json!({"updateStrategy": {
            "type": "RollingUpdate", "rollingUpdate": {"partition": 2},
        }});
        let set_ = set(3, &partition);
        assert_eq!(planned(&set_, &["0r old", "1r old", "2r old"]), ["replace db-2"]);
        assert_eq!(planned(&set_, &["0r old", "1r old", "2r new"]), [""; 0]);
        let on_delete = set(2, &json!({"updateStrategy": {"type": "OnDelete"}}));
        assert_eq!(planned(&on_delete, &["0r old", "1r old"]), [""; 0]);
    }

    #[test]
    fn pod_without_its_labels_gets_them() {
        let mut stray = Pod::clone(&pod("0r new"));
        stray.metadata.labels = None;
        let set = set(1, &json!({"updateStrategy": {"type": "OnDelete"}}));
        let members = Members::of(&set, &[Arc::new(stray)]);
        let now = "2026-01-01T00:01:00Z".parse().expect("a time");
        let steps = plan(&set, &members, "new", now);
        assert_eq!(steps.iter().map(Step::describe).collect::<Vec<_>>(), ["label db-0"]);
    }
}
