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
        self.condition("True", reason, message)
    }

    /// The condition with the status `False`.
    pub fn no(self, reason: impl Into<String>, message: impl Into<String>) -> Condition {
        self.condition("False", reason, message)
    }

    /// The condition with the status `Unknown`.
    pub fn unknown(self, reason: impl Into<String>, message: impl Into<String>) -> Condition {
        self.condition("Unknown", reason, message)
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
        conditions.iter().find(|condition| condition.type_ == self.0)
    }

    /// Whether the condition of this type exists and is `True`.
    pub fn is_true(self, conditions: &[Condition]) -> bool {
        self.find(conditions).is_some_and(|condition| condition.status == "True")
    }

    /// Removes the condition of this type. Returns whether there was one.
    pub fn remove(self, conditions: &mut Vec<Condition>) -> bool {
        let before = conditions.len();
        conditions.retain(|condition| condition.type_ != self.0);
        conditions.len() < before
    }

    /// A condition without a time, which [`set_conditions`] sets.
    fn condition(
        self,
        status: &str,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Condition {
        Condition {
            type_: self.0.to_owned(),
            status: status.to_owned(),
            reason: reason.into(),
            message: message.into(),
            observed_generation: None,
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
        }
    }
}

/// Sets conditions, with the generation of the object that they are about. Returns whether that
/// changed anything. Conditions of other types stay.
///
/// - `lastTransitionTime` stays unless the status changes. Then it is that of the new condition, or
///   now if that has none (the epoch counts as none, since the field cannot be left out).
/// - The generation changes without a transition: a status that is the same for a newer generation
///   keeps its time.
/// - A condition that is about an older generation than the present one is outdated, and ignored.
pub fn set_conditions(
    conditions: &mut Vec<Condition>,
    generation: Option<i64>,
    new: impl IntoIterator<Item = Condition>,
) -> bool {
    let mut is_changed = false;
    for condition in new {
        let condition = Condition { observed_generation: generation, ..condition };
        is_changed |= set_condition(conditions, condition);
    }
    is_changed
}

fn set_condition(conditions: &mut Vec<Condition>, mut condition: Condition) -> bool {
    if condition.last_transition_time.0 == Timestamp::UNIX_EPOCH {
        // The server stores whole seconds. The written time must equal the one that is read later,
        // or each run would see a change.
        let now = windlass_environment::now();
        condition.last_transition_time =
            Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
    }
    let Some(present) = conditions.iter_mut().find(|present| present.type_ == condition.type_)
    else {
        conditions.push(condition);
        return true;
    };
    let generations = present.observed_generation.zip(condition.observed_generation);
    if generations.is_some_and(|(present, new)| present > new) {
        return false;
    }
    if present.status == condition.status {
        condition.last_transition_time = present.last_transition_time.clone();
    }
    let is_changed = *present != condition;
    *present = condition;
    is_changed
}
