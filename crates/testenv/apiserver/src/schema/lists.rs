//! Checks that sets have no duplicate items, and keyed lists no duplicate keys.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::node::{Additional, ListKind, Node};
use crate::field_error::{FieldError, go_json};

/// Checks all lists below a value at `path`.
pub(super) fn check(node: &Node, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            if let Some(Additional::Schema(schema)) = &node.additional {
                for (key, field) in fields {
                    check(schema, field, &format!("{path}[{key}]"), errors);
                }
            }
            for (key, field) in fields {
                if let Some(schema) = node.properties.get(key) {
                    let dot = if path.is_empty() { "" } else { "." };
                    check(schema, field, &format!("{path}{dot}{key}"), errors);
                }
            }
        }
        Value::Array(items) => {
            match &node.list.kind {
                ListKind::Atomic => {}
                ListKind::Set => check_set(items, path, errors),
                ListKind::Map(keys) => check_map(keys, items, path, errors),
            }
            if let Some(schema) = &node.items {
                for (index, item) in items.iter().enumerate() {
                    check(schema, item, &format!("{path}[{index}]"), errors);
                }
            }
        }
        _ => {}
    }
}

fn check_set(items: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    for index in repeated(items.iter().map(unique_text)) {
        errors.push(FieldError::duplicate(format!("{path}[{index}]"), &items[index]));
    }
}

fn check_map(keys: &[String], items: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    let odd = items.iter().position(|item| !item.is_object() && !item.is_null());
    if let Some(index) = odd {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(format!("{path}[{index}]"), &items[index], detail));
        return;
    }
    let identities: Vec<Value> = items.iter().map(|item| identity(keys, item)).collect();
    let repeats = match keys {
        // A single key is compared by value, several keys by their JSON text: only the former
        // distinguishes 1 and 1.0.
        [key] => {
            repeated(identities.iter().map(|one| one.get(key).map(unique_text).unwrap_or_default()))
        }
        _ => repeated(identities.iter().map(go_json)),
    };
    for index in repeats {
        errors.push(FieldError::duplicate(format!("{path}[{index}]"), &identities[index]));
    }
}

/// Returns the key fields of an item that are present.
fn identity(keys: &[String], item: &Value) -> Value {
    let Value::Object(fields) = item else { return json!({}) };
    let present = keys.iter().filter_map(|key| Some((key.clone(), fields.get(key)?.clone())));
    Value::Object(present.collect::<Map<_, _>>())
}

/// Returns a text that is unique for a value: 1 and 1.0 have the same JSON text, but are different
/// values.
fn unique_text(value: &Value) -> String {
    let mark = if value.is_f64() { "f" } else { "" };
    format!("{mark}{}", go_json(value))
}

/// Returns the index of the second occurrence of each repeated text.
fn repeated(texts: impl Iterator<Item = String>) -> Vec<usize> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut repeated = Vec::new();
    for (index, text) in texts.enumerate() {
        let count = counts.entry(text).or_default();
        *count += 1;
        if *count == 2 {
            repeated.push(index);
        }
    }
    repeated
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(schema: &Value, value: &Value) -> Vec<String> {
        let mut errors = Vec::new();
        check(&Node::read(schema), value, "", &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn duplicate_items_of_a_set_are_refused() {
        let schema = json!({"properties": {"s": {"items": {}, "x-kubernetes-list-type": "set"}}});
        assert_eq!(errors(&schema, &json!({"s": ["a", "b"]})), [""; 0]);
        assert_eq!(
            errors(&schema, &json!({"s": ["a", "b", "a", "a", {"x": 1}, {"x": 1}]})),
            [r#"s[2]: Duplicate value: "a""#, r#"s[5]: Duplicate value: {"x":1}"#]
        );
    }

    #[test]
    fn duplicate_keys_of_a_keyed_list_are_refused() {
        let schema = json!({"properties": {"m": {"additionalProperties": {
            "items": {}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"]}}}});
        assert_eq!(
            errors(
                &schema,
                &json!({"m": {"k": [
                    {"name": "a", "v": 1}, {"name": "a", "port": 1}, {"name": "a", "v": 2}, {}, {},
                ]}})
            ),
            [r#"m[k][2]: Duplicate value: {"name":"a"}"#, "m[k][4]: Duplicate value: {}"]
        );
        assert_eq!(
            errors(&schema, &json!({"m": {"k": [1]}})),
            ["m[k][0]: Invalid value: 1: must be an object for an array of list-type map"]
        );
    }
}
