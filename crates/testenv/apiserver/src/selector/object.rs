//! Label selectors inside of objects: `matchLabels` and `matchExpressions`.

use serde_json::Value;

/// Whether a label selector matches these labels. A missing or invalid selector matches nothing,
/// and an empty one everything.
pub(crate) fn selects(selector: &Value, labels: &Value) -> bool {
    if !selector.is_object() {
        return false;
    }
    let mut exact = selector["matchLabels"].as_object().into_iter().flatten();
    let mut terms = selector["matchExpressions"].as_array().into_iter().flatten();
    exact.all(|(key, value)| labels.get(key) == Some(value))
        && terms.all(|term| {
            let held = term["key"].as_str().and_then(|key| labels.get(key));
            let values = term["values"].as_array().cloned().unwrap_or_default();
            match term["operator"].as_str() {
                Some("In") => held.is_some_and(|held| values.contains(held)),
                Some("NotIn") => held.is_none_or(|held| !values.contains(held)),
                Some("Exists") => held.is_some(),
                Some("DoesNotExist") => held.is_none(),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selector_has_all_its_terms() {
        let labels = json!({"app": "a", "tier": "web"});
        for (selector, selected) in [
            (json!(null), false),
            (json!({}), true),
            (json!({"matchLabels": {"app": "a"}}), true),
            (json!({"matchLabels": {"app": "b"}}), false),
            (
                json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["web"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["web"]}]}),
                true,
            ),
            (json!({"matchExpressions": [{"key": "x", "operator": "Exists"}]}), false),
            (json!({"matchExpressions": [{"key": "tier", "operator": "Like"}]}), false),
            // One value with a comma, and not two terms as in a query.
            (json!({"matchLabels": {"app": "a,tier"}}), false),
        ] {
            assert_eq!(selects(&selector, &labels), selected, "{selector}");
        }
    }
}
