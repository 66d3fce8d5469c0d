//! Label selectors inside of objects: `matchLabels` and `matchExpressions`.

use serde_json::Value;

use crate::field_error::FieldError;
use crate::metadata::names;

/// Validates a label selector. A missing one is valid.
pub(crate) fn validate(selector: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let field = format!("{path}.matchLabels");
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        for wrong in names::qualified_name(key) {
            errors.push(FieldError::invalid_str(field.clone(), key, &wrong));
        }
        let value = value.as_str().unwrap_or_default();
        for wrong in names::label_value(value) {
            errors.push(FieldError::invalid_str(format!("{field}[{key}]"), value, &wrong));
        }
    }
    for (index, term) in list(selector, "matchExpressions").iter().enumerate() {
        validate_term(term, &format!("{path}.matchExpressions[{index}]"), errors);
    }
}

fn validate_term(term: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let values = list(term, "values");
    match (term["operator"].as_str().unwrap_or_default(), values.is_empty()) {
        ("In" | "NotIn", false) | ("Exists" | "DoesNotExist", true) => {}
        ("In" | "NotIn", true) => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(format!("{path}.values"), detail));
        }
        ("Exists" | "DoesNotExist", false) => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(format!("{path}.values"), detail));
        }
        (other, _) => {
            let detail = "not a valid selector operator";
            errors.push(FieldError::invalid_str(format!("{path}.operator"), other, detail));
        }
    }
    let key = term["key"].as_str().unwrap_or_default();
    for wrong in names::qualified_name(key) {
        errors.push(FieldError::invalid_str(format!("{path}.key"), key, &wrong));
    }
    for (index, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        for wrong in names::label_value(value) {
            errors.push(FieldError::invalid_str(format!("{path}.values[{index}]"), value, &wrong));
        }
    }
}

/// Whether a label selector has no terms, so that it matches everything.
pub(crate) fn is_empty(selector: &Value) -> bool {
    let has_labels = selector["matchLabels"].as_object().is_some_and(|labels| !labels.is_empty());
    !has_labels && list(selector, "matchExpressions").is_empty()
}

/// Whether a label selector matches these labels. A missing or invalid selector matches nothing,
/// and an empty one everything.
pub(crate) fn selects(selector: &Value, labels: &Value) -> bool {
    if !selector.is_object() {
        return false;
    }
    let mut exact = selector["matchLabels"].as_object().into_iter().flatten();
    let mut terms = list(selector, "matchExpressions").iter();
    exact.all(|(key, value)| labels.get(key) == Some(value))
        && terms.all(|term| {
            let held = term["key"].as_str().and_then(|key| labels.get(key));
            let values = list(term, "values");
            match term["operator"].as_str() {
                Some("In") => held.is_some_and(|held| values.contains(held)),
                Some("NotIn") => held.is_none_or(|held| !values.contains(held)),
                Some("Exists") => held.is_some(),
                Some("DoesNotExist") => held.is_none(),
                _ => false,
            }
        })
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_terms_of_a_selector_must_match() {
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
