//! Conditions of pods and disruption budgets. Those of deployments and jobs follow rules of their
//! own, as upstream's do.

use jiff::Timestamp;

use crate::clock::stored;
use crate::objects::Condition;

/// Sets a condition. Its transition time is now, or stays if the status is the same.
pub(crate) fn set(conditions: &mut Vec<Condition>, mut condition: Condition, now: Timestamp) {
    let held = conditions.iter().position(|held| held.kind == condition.kind);
    let kept = held.map(|index| &conditions[index]).filter(|held| held.status == condition.status);
    let since = kept.and_then(|held| held.last_transition_time.clone());
    condition.last_transition_time = since.or_else(|| Some(stored(now)));
    match held {
        Some(index) => conditions[index] = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transition_time_changes_with_the_status_only() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let ready = |status: &str, reason: &str| Condition {
            kind: "Ready".to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            ..Condition::default()
        };
        let mut conditions = Vec::new();
        set(&mut conditions, ready("True", "A"), at(1));
        set(&mut conditions, ready("True", "B"), at(2));
        assert_eq!(conditions[0].last_transition_time, Some(stored(at(1))));
        assert_eq!(conditions[0].reason.as_deref(), Some("B"));
        set(&mut conditions, ready("False", "B"), at(3));
        assert_eq!(conditions[0].last_transition_time, Some(stored(at(3))));
        assert_eq!(conditions.len(), 1);
    }
}
