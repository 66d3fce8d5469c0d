//! Revisions and the other values that a deployment keeps in annotations of its replica sets.

use std::collections::BTreeMap;

use kube::ResourceExt as _;

use super::limits::Limits;
use crate::objects::{Deployment, ReplicaSet};

/// The revision. On a replica set: the last rollout in which it was the new one. On a deployment:
/// the last rollout.
pub(crate) const REVISION: &str = "deployment.kubernetes.io/revision";
/// Earlier revisions of a replica set that became the new one again by a rollback.
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The desired number of pods when the replica set was last scaled.
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// The maximum number of pods when the replica set was last scaled.
const TOTAL_MAX: &str = "deployment.kubernetes.io/max-replicas";

/// Annotations of a deployment that are not copied to its replica sets.
const NOT_COPIED: [&str; 6] = [
    REVISION,
    REVISION_HISTORY,
    DESIRED,
    TOTAL_MAX,
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
];

/// Bounds the history of a replica set that is rolled back to repeatedly.
const HISTORY_MAX: usize = 20;

/// Returns the revision of a replica set; 0 if it has none.
pub(super) fn revision(set: &ReplicaSet) -> i64 {
    number(set, REVISION).unwrap_or(0)
}

/// Returns the desired number of pods when it was last scaled.
pub(super) fn desired_before(set: &ReplicaSet) -> Option<i32> {
    number(set, DESIRED).and_then(|number| number.try_into().ok())
}

/// Returns the maximum number of pods when it was last scaled.
pub(super) fn total_max_before(set: &ReplicaSet) -> Option<i32> {
    number(set, TOTAL_MAX).and_then(|number| number.try_into().ok())
}

/// Records the limits for which the replica set was scaled.
pub(super) fn note_scale(set: &mut ReplicaSet, limits: &Limits) {
    let annotations = set.annotations_mut();
    annotations.insert(DESIRED.to_owned(), limits.desired.to_string());
    annotations.insert(TOTAL_MAX.to_owned(), limits.total_max().to_string());
}

/// Gives the replica set the newest revision, one above those of `others`, and copies the
/// deployment's annotations.
pub(super) fn note_newest<'a>(
    set: &mut ReplicaSet,
    deployment: &Deployment,
    others: impl IntoIterator<Item = &'a ReplicaSet>,
) {
    let newest = others.into_iter().map(revision).max().unwrap_or(0) + 1;
    let before = number(set, REVISION);
    let copied =
        deployment.annotations().iter().filter(|(key, _)| !NOT_COPIED.contains(&key.as_str()));
    let copied: BTreeMap<String, String> =
        copied.map(|(key, value)| (key.clone(), value.clone())).collect();
    let annotations = set.annotations_mut();
    annotations.extend(copied);
    if before.is_none_or(|before| before < newest) {
        annotations.insert(REVISION.to_owned(), newest.to_string());
        if let Some(before) = before {
            let history = annotations.entry(REVISION_HISTORY.to_owned()).or_default();
            *history = appended(history, before);
        }
    }
}

/// Appends a revision to a comma-separated list. The oldest entries are dropped.
fn appended(history: &str, revision: i64) -> String {
    let mut revisions: Vec<&str> = history.split(',').filter(|part| !part.is_empty()).collect();
    let last = revision.to_string();
    revisions.push(&last);
    let surplus = revisions.len().saturating_sub(HISTORY_MAX);
    revisions.split_off(surplus).join(",")
}

fn number(set: &ReplicaSet, annotation: &str) -> Option<i64> {
    set.annotations().get(annotation)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(revision: Option<i64>) -> ReplicaSet {
        let mut set = ReplicaSet::default();
        if let Some(revision) = revision {
            set.annotations_mut().insert(REVISION.to_owned(), revision.to_string());
        }
        set
    }

    #[test]
    fn newest_is_one_above_the_others() {
        let mut first = set(None);
        note_newest(&mut first, &Deployment::default(), []);
        assert_eq!(revision(&first), 1);
        let mut next = set(None);
        note_newest(&mut next, &Deployment::default(), &[set(Some(4)), set(None)]);
        assert_eq!(revision(&next), 5);
        // It is already the newest.
        note_newest(&mut next, &Deployment::default(), &[set(Some(4))]);
        assert_eq!(revision(&next), 5);
        assert!(!next.annotations().contains_key(REVISION_HISTORY));
    }

    #[test]
    fn rollback_records_the_earlier_revision() {
        let mut back = set(Some(1));
        note_newest(&mut back, &Deployment::default(), &[set(Some(2))]);
        assert_eq!(back.annotations()[REVISION_HISTORY], "1");
        note_newest(&mut back, &Deployment::default(), &[set(Some(6))]);
        assert_eq!(revision(&back), 7);
        assert_eq!(back.annotations()[REVISION_HISTORY], "1,3");
    }

    #[test]
    fn annotations_are_copied_except_those_of_the_deployment_itself() {
        let mut deployment = Deployment::default();
        for key in ["team", REVISION, "kubectl.kubernetes.io/last-applied-configuration"] {
            deployment.annotations_mut().insert(key.to_owned(), "x".to_owned());
        }
        let mut new = set(None);
        note_newest(&mut new, &deployment, []);
        let keys: Vec<&String> = new.annotations().keys().collect();
        assert_eq!(keys, [REVISION, "team"]);
    }
}
