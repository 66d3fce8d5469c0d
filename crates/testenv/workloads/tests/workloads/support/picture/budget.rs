//! The picture of a disruption budget.

use serde_json::{Value, json};

pub(super) fn budget_picture(budget: &Value) -> Value {
    let (metadata, mut status) = (&budget["metadata"], budget["status"].clone());
    assert_eq!(status["observedGeneration"], metadata["generation"], "{budget}");
    // When the server removes a past eviction depends on timing.
    status["disruptedPods"] = Value::Null;
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        assert!(condition["lastTransitionTime"].is_string(), "{condition}");
        condition["lastTransitionTime"] = Value::Null;
    }
    json!({ "name": metadata["name"], "status": status })
}
