//! Conditions in the status of an object: one of each type, with the time of its last transition.
//!
//! The time says since when the status has its value, so it changes with the status and with
//! nothing else. A controller that set it in every run would wake itself by its own write.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// A type of conditions. A constant of each saves the controller from writing its name twice.
///
/// ```
/// use windlass_reconciler::{ConditionType, set_conditions};
///
/// const READY: ConditionType = ConditionType::new("Ready");
///
/// # let generation = Some(1);
/// # let mut conditions = Vec::new();
/// // With the generation of the object, `metadata.generation`.
/// set_conditions(&mut conditions, generation, [READY.yes("AllUp", "3 of 3 are up")]);
/// assert!(READY.is_true(&conditions));
/// // The same again changes nothing, so there is nothing to write.
/// assert!(!set_conditions(&mut conditions, generation, [READY.yes("AllUp", "3 of 3 are up")]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConditionType(&'static str);

impl ConditionType {
    /// The type of this name, as in `Ready`.
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.0
    }

    /// The condition with the status `True`. The reason is a word in `CamelCase`, the message a
    /// sentence for people.
    pub fn yes(self, reason: impl Into<String>, message: impl Into<String>) -> Condition {
        condition(self.0, "True", reason, message)
    }

    /// The condition with the status `False`.
    pub fn no(self, reason: impl Into<String>, message: impl Into<String>) -> Condition {
        condition(self.0, "False", reason, message)
    }

    /// The condition with the status `Unknown`.
    pub fn unknown(self, reason: impl Into<String>, message: impl Into<String>) -> Condition {
        condition(self.0, "Unknown", reason, message)
    }

    /// The condition with the status `True` or `False`.
    pub fn with(
        self,
        is_true: bool,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Condition {
        if is_true { self.yes(reason, message) } else { self.no(reason, message) }
    }

    /// The condition of this type.
    pub fn find(self, conditions: &[Condition]) -> Option<&Condition> {
        find_condition(conditions, self.0)
    }

    /// Whether the condition of this type exists and is `True`.
    pub fn is_true(self, conditions: &[Condition]) -> bool {
        is_condition_true(conditions, self.0)
    }
}

/// Sets several conditions, with the generation of the object that they are about. Returns whether
/// that changed anything. Others stay. For the time see [`set_condition`].
///
/// The generation changes without a transition: a status that is the same for a newer generation
/// keeps its time. A condition of an older generation than the present one is left out: it is news
/// of yesterday.
pub fn set_conditions(
    conditions: &mut Vec<Condition>,
    generation: Option<i64>,
    new: impl IntoIterator<Item = Condition>,
) -> bool {
    set_conditions_at(conditions, generation, new, Timestamp::now())
}

/// Like [`set_conditions`], with a time instead of now.
pub fn set_conditions_at(
    conditions: &mut Vec<Condition>,
    generation: Option<i64>,
    new: impl IntoIterator<Item = Condition>,
    now: Timestamp,
) -> bool {
    let mut is_changed = false;
    for condition in new {
        let condition = Condition { observed_generation: generation, ..condition };
        let present = find_condition(conditions, &condition.type_);
        let observed = present.and_then(|present| present.observed_generation);
        if observed.zip(generation).is_some_and(|(observed, new)| observed > new) {
            continue;
        }
        is_changed |= set_condition_at(conditions, condition, now);
    }
    is_changed
}

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
