//! Conditions of a job, changed as upstream changes them.

use jiff::Timestamp;

use crate::clock::stored;
use crate::objects::Condition;

/// Whether the job is suspended.
pub(super) const SUSPENDED: &str = "Suspended";

/// Sets a condition; returns whether anything changed. A missing condition is not added with status
/// `False`.
pub(super) fn set(
    conditions: &mut Vec<Condition>,
    kind: &str,
    is_true: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> bool {
    let condition = Condition {
        kind: kind.to_owned(),
        status: if is_true { "True" } else { "False" }.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(stored(now)),
        last_transition_time: Some(stored(now)),
        ..Condition::default()
    };
    let is_same = |held: &Condition| {
        held.status == condition.status
            && held.reason == condition.reason
            && held.message == condition.message
    };
    match conditions.iter_mut().find(|held| held.kind == kind) {
        Some(held) if is_same(held) => false,
        Some(held) => {
            *held = condition;
            true
        }
        None if is_true => {
            conditions.push(condition);
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_changes_once_and_does_not_begin_as_false() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let mut conditions = Vec::new();
        assert!(!set(&mut conditions, SUSPENDED, false, "JobResumed", "Job resumed", at(1)));
        assert!(set(&mut conditions, SUSPENDED, true, "JobSuspended", "Job suspended", at(2)));
        let first = conditions.clone();
        assert!(!set(&mut conditions, SUSPENDED, true, "JobSuspended", "Job suspended", at(3)));
        assert_eq!(conditions, first);
        assert!(set(&mut conditions, SUSPENDED, false, "JobResumed", "Job resumed", at(4)));
        assert_eq!((conditions.len(), &*conditions[0].status), (1, "False"));
    }
}
