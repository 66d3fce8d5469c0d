//! Conditions in the status of an object: one of each type, with the time of its last transition.
//!
//! The time says since when the status has its value, so it changes with the status and with
//! nothing else. A controller that set it in every run would wake itself by its own write.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// A condition without a time, which [`set_condition`] sets.
///
/// ```
/// use windlass_reconciler::{condition, is_condition_true, set_condition};
///
/// let mut conditions = Vec::new();
/// assert!(set_condition(&mut conditions, condition("Ready", "True", "AllUp", "3 of 3 are up")));
/// // The same again changes nothing, so there is nothing to write.
/// assert!(!set_condition(&mut conditions, condition("Ready", "True", "AllUp", "3 of 3 are up")));
/// assert!(is_condition_true(&conditions, "Ready"));
/// ```
pub fn condition(
    type_: impl Into<String>,
    status: impl Into<String>,
    reason: impl Into<String>,
    message: impl Into<String>,
) -> Condition {
    Condition {
        type_: type_.into(),
        status: status.into(),
        reason: reason.into(),
        message: message.into(),
        observed_generation: None,
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    }
}

/// Sets a condition, and replaces the one of its type. Returns whether that changed anything.
///
/// `lastTransitionTime` stays unless the status changes. Then it is that of the new condition, or
/// now if that has none (the epoch counts as none, since the field cannot be left out).
pub fn set_condition(conditions: &mut Vec<Condition>, condition: Condition) -> bool {
    set_condition_at(conditions, condition, Timestamp::now())
}

/// Like [`set_condition`], with a time instead of now.
pub fn set_condition_at(
    conditions: &mut Vec<Condition>,
    mut condition: Condition,
    now: Timestamp,
) -> bool {
    if condition.last_transition_time.0 == Timestamp::UNIX_EPOCH {
        // The server stores whole seconds. The written time must equal the one that is read later,
        // or each run would see a change.
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        condition.last_transition_time = Time(now);
    }
    let Some(present) = conditions.iter_mut().find(|present| present.type_ == condition.type_)
    else {
        conditions.push(condition);
        return true;
    };
    if present.status == condition.status {
        condition.last_transition_time = present.last_transition_time.clone();
    }
    let is_changed = *present != condition;
    *present = condition;
    is_changed
}

/// Removes the condition of a type. Returns whether there was one.
pub fn remove_condition(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != type_);
    conditions.len() < before
}

/// The condition of a type.
pub fn find_condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of a type exists and is `True`.
pub fn is_condition_true(conditions: &[Condition], type_: &str) -> bool {
    find_condition(conditions, type_).is_some_and(|condition| condition.status == "True")
}
