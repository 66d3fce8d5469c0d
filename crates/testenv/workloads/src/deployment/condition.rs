//! Conditions of a deployment, changed as upstream changes them.

use jiff::Timestamp;

use crate::clock::stored;
use crate::objects::Condition;

/// Whether enough pods are available.
pub(super) const AVAILABLE: &str = "Available";
/// Whether a rollout makes progress.
pub(super) const PROGRESSING: &str = "Progressing";

/// The reasons of the `Progressing` and `Available` conditions.
pub(super) mod reason {
    pub(in super::super) const ENOUGH: &str = "MinimumReplicasAvailable";
    pub(in super::super) const TOO_FEW: &str = "MinimumReplicasUnavailable";
    pub(in super::super) const CREATED: &str = "NewReplicaSetCreated";
    pub(in super::super) const FOUND: &str = "FoundNewReplicaSet";
    pub(in super::super) const UPDATED: &str = "ReplicaSetUpdated";
    pub(in super::super) const COMPLETE: &str = "NewReplicaSetAvailable";
    pub(in super::super) const TIMED_OUT: &str = "ProgressDeadlineExceeded";
    pub(in super::super) const PAUSED: &str = "DeploymentPaused";
    pub(in super::super) const RESUMED: &str = "DeploymentResumed";
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConditionStatus {
    True,
    False,
    Unknown,
}

impl ConditionStatus {
    fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

pub(super) fn get<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// Sets a condition. If status and reason are unchanged, the condition stays as it is, message and
/// times included; the transition time changes only with the status.
pub(super) fn set(
    conditions: &mut Vec<Condition>,
    kind: &str,
    truth: ConditionStatus,
    reason: &str,
    message: String,
    now: Timestamp,
) {
    let is_same =
        |held: &Condition| held.status == truth.as_str() && held.reason.as_deref() == Some(reason);
    if !get(conditions, kind).is_some_and(is_same) {
        renew(conditions, kind, truth, reason, message, now);
    }
}

/// Sets a condition and updates its last update time.
pub(super) fn renew(
    conditions: &mut Vec<Condition>,
    kind: &str,
    truth: ConditionStatus,
    reason: &str,
    message: String,
    now: Timestamp,
) {
    let held = get(conditions, kind).filter(|held| held.status == truth.as_str());
    let transition = held.and_then(|held| held.last_transition_time.clone());
    let condition = Condition {
        kind: kind.to_owned(),
        status: truth.as_str().to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_update_time: Some(stored(now)),
        last_transition_time: transition.or_else(|| Some(stored(now))),
        ..Condition::default()
    };
    remove(conditions, kind);
    conditions.push(condition);
}

pub(super) fn remove(conditions: &mut Vec<Condition>, kind: &str) {
    conditions.retain(|condition| condition.kind != kind);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn times_stay_as_long_as_the_condition_does() {
        let mut conditions = Vec::new();
        set(&mut conditions, AVAILABLE, ConditionStatus::False, "Few", "one".to_owned(), at(1));
        let first = conditions.clone();
        set(&mut conditions, AVAILABLE, ConditionStatus::False, "Few", "two".to_owned(), at(2));
        assert_eq!(conditions, first);
        set(&mut conditions, AVAILABLE, ConditionStatus::False, "Fewer", "three".to_owned(), at(3));
        assert_eq!(conditions[0].last_transition_time, Some(stored(at(1))));
        assert_eq!(conditions[0].last_update_time, Some(stored(at(3))));
        set(&mut conditions, AVAILABLE, ConditionStatus::True, "Many", "four".to_owned(), at(4));
        assert_eq!(conditions[0].last_transition_time, Some(stored(at(4))));
        assert_eq!(conditions.len(), 1);
    }
}
