//! The fields that an update has changed.
//!
//! Values are compared as in Go: a missing field equals an empty one, and quantities are compared
//! by amount. A pointer to an empty value cannot be distinguished from nil here, so a change from
//! one to the other is accepted.

use serde_json::{Map, Value};

use crate::kinds::defaults::Quantity;

/// Fields with maps whose keys the user chooses: an entry with an empty value is not the same as a
/// missing entry.
const MAPS: [&str; 6] =
    ["annotations", "binaryData", "data", "labels", "matchLabels", "nodeSelector"];

/// Fields that are quantities, or contain them.
const AMOUNTS: [&str; 6] = ["capacity", "divisor", "limits", "overhead", "requests", "sizeLimit"];

/// Appends the changed fields of the spec to an error text. The real server shows a diff there.
pub(super) fn with_names(words: &str, fields: &[&str]) -> String {
    let named: Vec<String> = fields.iter().map(|field| format!("spec.{field}")).collect();
    format!("{words}\nchanged: {}", named.join(", "))
}

/// Returns the fields that differ between two objects, except for those in `free`.
pub(super) fn changed<'a>(
    old: &'a Value,
    new: &'a Value,
    free: &'a [&str],
) -> impl Iterator<Item = &'a str> {
    let names = |value: &'a Value| value.as_object().into_iter().flatten().map(|(name, _)| name);
    let added = names(new).filter(|name| old.get(name.as_str()).is_none());
    let all = names(old).chain(added).map(String::as_str).filter(|name| !free.contains(name));
    all.filter(|name| !is_same_field(old, new, name))
}

pub(super) fn is_same_field(one: &Value, other: &Value, name: &str) -> bool {
    let (one, other) = (&one[name], &other[name]);
    if MAPS.contains(&name) {
        let is_none = |value: &Value| value.as_object().is_none_or(Map::is_empty);
        return one == other || is_none(one) && is_none(other);
    }
    if AMOUNTS.contains(&name) { is_same_amount(one, other) } else { is_same(one, other) }
}

/// Whether Go considers the two values equal.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (one, other) if one == other => true,
        (Value::Object(_), Value::Object(_)) => changed(one, other, &[]).next().is_none(),
        (Value::Array(ones), Value::Array(others)) => {
            ones.len() == others.len()
                && ones.iter().zip(others).all(|(one, other)| is_same(one, other))
        }
        (one, other) => is_empty(one) && is_empty(other),
    }
}

/// Whether two quantities, or maps of them, have the same amounts.
fn is_same_amount(one: &Value, other: &Value) -> bool {
    match (one.as_object(), other.as_object()) {
        (Some(ones), Some(others)) => {
            let equals = |(name, one)| others.get(name).is_some_and(|o| is_same_amount(one, o));
            ones.len() == others.len() && ones.iter().all(equals)
        }
        (None, None) => {
            let (amount, same) = (Quantity::parse(one), Quantity::parse(other));
            one == other || amount.is_some() && amount == same
        }
        _ => is_empty(one) && is_empty(other),
    }
}

/// Whether the value is empty in Go's sense, so that `omitempty` could drop it.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_and_empty_are_the_same_and_so_are_equal_amounts() {
        for (one, other) in [
            (json!({"a": {}}), json!({})),
            (json!({"a": null, "b": [], "c": "", "d": false, "e": 0}), json!({})),
            (
                json!({"limits": {"memory": "1Gi", "cpu": "500m"}}),
                json!({"limits": {"memory": "1024Mi", "cpu": 0.5}}),
            ),
            (json!([{"a": 1, "b": {}}]), json!([{"a": 1}])),
        ] {
            assert!(is_same(&one, &other) && is_same(&other, &one), "{one} {other}");
        }
        for (one, other) in [
            (json!({"a": 1}), json!({})),
            (json!({"a": "x"}), json!({"a": "y"})),
            (json!([1]), json!([1, 2])),
            (json!({"a": {"b": true}}), json!({"a": {}})),
            (json!("x"), json!("")),
            (json!({"data": {"a": ""}}), json!({"data": {}})),
            (json!({"data": {"a": "1"}}), json!({"data": {"a": "1.0"}})),
            (json!({"limits": {"cpu": 1}}), json!({"limits": {"cpu": 2}})),
        ] {
            assert!(!is_same(&one, &other) && !is_same(&other, &one), "{one} {other}");
        }
    }

    #[test]
    fn changed_fields_are_named_once() {
        let (old, new) = (json!({"a": 1, "b": 1, "c": 1}), json!({"b": 2, "c": 1, "d": 1}));
        assert_eq!(changed(&old, &new, &[]).collect::<Vec<_>>(), ["a", "b", "d"]);
        assert_eq!(changed(&old, &new, &["a", "d"]).collect::<Vec<_>>(), ["b"]);
    }
}
