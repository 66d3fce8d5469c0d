//! The pods of a set by ordinal; pods outside of the set's range are surplus.

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt as _;

use crate::objects::{Pod, StatefulSet};
use crate::pod::{RUNNING, available_in, is_deleted, phase};

/// The pods of a set, by ordinal.
#[derive(Clone, Debug)]
pub(super) struct Members {
    /// The ordinal of the first pod.
    start: i32,
    /// One place for each desired pod.
    pub(super) wanted: Vec<Option<Arc<Pod>>>,
    /// The surplus pods, from the highest ordinal down.
    pub(super) surplus: Vec<Arc<Pod>>,
}

impl Members {
    pub(super) fn of(set: &StatefulSet, pods: &[Arc<Pod>]) -> Self {
        let size = usize::try_from(set.replicas()).unwrap_or(0);
        let mut members =
            Self { start: set.start(), wanted: vec![None; size], surplus: Vec::new() };
        for pod in pods {
            let Some(ordinal) = ordinal(set, pod) else { continue };
            let at = usize::try_from(i64::from(ordinal) - i64::from(members.start)).ok();
            match at.and_then(|at| members.wanted.get_mut(at)) {
                Some(place) => *place = Some(Arc::clone(pod)),
                None => members.surplus.push(Arc::clone(pod)),
            }
        }
        members.surplus.sort_by_cached_key(|pod| std::cmp::Reverse(ordinal(set, pod)));
        members
    }

    /// Returns the ordinal of a place.
    pub(super) fn ordinal(&self, at: usize) -> i32 {
        self.start.saturating_add(i32::try_from(at).unwrap_or(i32::MAX))
    }

    /// Returns all existing pods.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.wanted.iter().flatten().chain(&self.surplus)
    }
}

/// Returns whether the pod's name is one of the set's.
pub(super) fn is_member(set: &StatefulSet, pod: &Pod) -> bool {
    ordinal(set, pod).is_some()
}

/// Returns the number at the end of the pod's name, if the rest is the name of the set.
pub(super) fn ordinal(set: &StatefulSet, pod: &Pod) -> Option<i32> {
    let name = pod.name_any();
    let (parent, ordinal) = name.rsplit_once('-')?;
    let is_number = !ordinal.is_empty() && ordinal.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && parent == set.name_any()).then(|| ordinal.parse().ok()).flatten()
}

/// Returns the name of the pod with this ordinal.
pub(super) fn pod_name(set: &StatefulSet, ordinal: i32) -> String {
    format!("{}-{ordinal}", set.name_any())
}

/// Returns whether the pod is running, has been ready for long enough, and is not being deleted.
pub(super) fn is_available(set: &StatefulSet, pod: &Pod, now: Timestamp) -> bool {
    let min_ready = set.spec.min_ready_seconds.unwrap_or(0);
    phase(pod) == RUNNING
        && !is_deleted(pod)
        && available_in(pod, min_ready, now).is_some_and(|wait| wait.is_zero())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(replicas: i32, start: i32) -> StatefulSet {
        serde_json::from_value(json!({
            "metadata": {"name": "db"},
            "spec": {"replicas": replicas, "ordinals": {"start": start}},
        }))
        .expect("a set")
    }

    fn pod(name: &str) -> Arc<Pod> {
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name}})).expect("a pod"))
    }

    fn names<'a>(pods: impl IntoIterator<Item = &'a Arc<Pod>>) -> Vec<String> {
        pods.into_iter().map(|pod| pod.name_any()).collect()
    }

    #[test]
    fn pods_are_placed_by_ordinal_and_surplus_is_sorted_downwards() {
        let pods = ["db-0", "db-7", "db-2", "db-3"].map(pod);
        let members = Members::of(&set(3, 1), &pods);
        assert!(members.wanted[0].is_none());
        assert_eq!(names(members.wanted.iter().flatten()), ["db-2", "db-3"]);
        assert_eq!(names(&members.surplus), ["db-7", "db-0"]);
        assert_eq!(members.ordinal(2), 3);
    }

    #[test]
    fn name_is_that_of_the_set_and_a_number() {
        for foreign in ["db", "db-", "db-x", "db-+1", "other-1", "db-1-2", "db-99999999999"] {
            assert!(!is_member(&set(3, 0), &pod(foreign)), "{foreign}");
        }
        assert_eq!(ordinal(&set(3, 0), &pod("db-12")), Some(12));
    }
}
