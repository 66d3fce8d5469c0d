//! Checks whether a configuration can be applied: its fields must be known, and its values must
//! have the right types.
//!
//! Other writes drop unknown fields. Apply cannot, because it is not known how they merge. The
//! error texts are those of the real server, without the values that it prints as Go structs.

use std::collections::BTreeSet;

use serde_json::Value;

use super::compare::element;
use super::field_set::Element;
use crate::merge_schema::{Expected, Form, MergeSchema};

/// Checks a configuration. The error lists everything that is wrong.
pub(crate) fn check(place: MergeSchema<'_>, config: &Value) -> Result<(), String> {
    let mut errors = Vec::new();
    add_errors(place, config, "", &mut errors);
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        several => Err(format!("errors:\n  {}", several.join("\n  "))),
    }
}

fn add_errors(place: MergeSchema<'_>, value: &Value, path: &str, errors: &mut Vec<String>) {
    let mut wrong = |why: &str| errors.push(error_text(path, why));
    match (place.expected(), value) {
        (_, Value::Null)
        | (Expected::Number, Value::Number(_))
        | (Expected::Text, Value::String(_))
        | (Expected::Flag, Value::Bool(_))
        | (
            Expected::Scalar | Expected::Any,
            Value::Number(_) | Value::String(_) | Value::Bool(_),
        ) => {}
        (Expected::Map | Expected::Any, Value::Object(fields)) => {
            for (name, value) in fields {
                let below = format!("{path}.{name}");
                let Some(field) = place.field(name) else {
                    // The real server stops here, too.
                    errors.push(error_text(&below, "field not declared in schema"));
                    break;
                };
                add_errors(field.place, value, &below, errors);
            }
        }
        (Expected::List | Expected::Any, Value::Array(items)) => {
            let keyed = matches!(place.form(value), Form::Set | Form::Keyed);
            list(place, items, keyed, path, errors);
        }
        (Expected::Map, other) => wrong(&format!("expected map, got &{{{}}}", plain(other))),
        (Expected::List, other) => wrong(&format!("expected list, got &{{{}}}", plain(other))),
        (Expected::Number, other) => {
            wrong(&format!("expected numeric (int or float), got {}", go_type(other)));
        }
        (Expected::Text, other) => wrong(&format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            plain(other)
        )),
        (Expected::Flag, other) => wrong(&format!("expected boolean, got &{{{}}}", plain(other))),
        (_, other) => wrong(&format!("expected any scalar, got &{{{}}}", plain(other))),
    }
}

fn list(
    place: MergeSchema<'_>,
    items: &[Value],
    keyed: bool,
    path: &str,
    errors: &mut Vec<String>,
) {
    let mut seen: BTreeSet<Element> = BTreeSet::new();
    for (at, item) in items.iter().enumerate() {
        if !keyed {
            add_errors(place.item(), item, &format!("{path}[{at}]"), errors);
            continue;
        }
        let element = match element(place, item) {
            Ok(element) => element,
            Err(why) => {
                errors.push(error_text(path, &format!("element {at}: {why}")));
                return;
            }
        };
        if seen.contains(&element) {
            errors.push(error_text(path, &format!("duplicate entries for key {element}")));
        }
        add_errors(place.item(), item, &format!("{path}{element}"), errors);
        seen.insert(element);
    }
}

fn error_text(path: &str, why: &str) -> String {
    if path.is_empty() { why.to_owned() } else { format!("{path}: {why}") }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the Go type of a value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
