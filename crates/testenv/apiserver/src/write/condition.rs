//! Conditions in the statuses that the server itself writes.

use serde_json::{Value, json};

/// Sets a condition in a status. The transition time is kept if the condition's status is the same.
pub(crate) fn set(status: &mut Value, mut condition: Value) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    match conditions.iter_mut().find(|one| one["type"] == condition["type"]) {
        Some(held) => {
            if held["status"] == condition["status"] {
                condition["lastTransitionTime"] = held["lastTransitionTime"].clone();
            }
            *held = condition;
        }
        None => conditions.push(condition),
    }
}
