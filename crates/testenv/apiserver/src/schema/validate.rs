//! Validation of a value against a schema, in the order and with the error texts of the real
//! server.
//!
//! Each step returns an [`Outcome`]. An update is not rejected for values that have not changed
//! (ratcheting).

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::before::OldValue;
use super::node::{Additional, Node};
use super::outcome::{Outcome, Position};
use super::scalar;
use crate::field_error::{FieldError, go_quote};

/// Validates `value`. `base` is a prefix of the paths in the fields of errors, but not in their
/// texts.
pub(super) fn validate(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    base: &str,
) -> Vec<FieldError> {
    let before = old.map(|value| OldValue::new(node, value));
    validate_with_ratcheting(node, value, before, Position { base, path: "" }).into_errors()
}

/// Validation that skips unchanged fields (ratcheting).
fn validate_with_ratcheting(
    node: &Node,
    value: &Value,
    before: Option<OldValue<'_>>,
    at: Position<'_>,
) -> Outcome {
    let mut outcome = validate_node(node, value, before, at);
    if !outcome.is_valid() && before.is_some_and(|before| before.is_same_as(value)) {
        outcome.clear_errors();
    }
    outcome
}

fn validate_node(
    node: &Node,
    value: &Value,
    before: Option<OldValue<'_>>,
    at: Position<'_>,
) -> Outcome {
    let mut outcome = Outcome::default();
    if value.is_null() {
        outcome.merge(scalar::check_type(node, value, at));
        outcome.merge(scalar::check_choices(node, value, at));
        return outcome;
    }
    let mut add = |found: Outcome| {
        outcome.merge(found);
        outcome.match_count += 1;
    };
    if !node.types.is_empty() || node.format.is_some() {
        add(scalar::check_type(node, value, at));
    }
    add(combined(node, value, at));
    if let Value::String(text) = value {
        add(scalar::check_text(node, text, at));
        if node.format.is_some() {
            add(scalar::check_format(node, text, at));
        }
    }
    if let Value::Number(number) = value {
        add(scalar::check_number(node, number, at));
    }
    if let Value::Array(items) = value {
        add(list(node, items, before, at));
    }
    add(scalar::check_choices(node, value, at));
    if let Value::Object(fields) = value {
        add(object(node, fields, before, at));
    }
    outcome.match_count += 1;
    outcome
}

/// Validates anyOf, oneOf, allOf and not. As in the real server, there is no ratcheting inside.
fn combined(node: &Node, value: &Value, at: Position<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let place = go_quote(at.path);
    if !node.any_of.is_empty() {
        match first_or_best(&node.any_of, value, at) {
            (0, best) => {
                let text = format!("{place} must validate at least one schema (anyOf)");
                outcome.without_field(at, text);
                outcome.merge(best);
            }
            (_, first) => outcome.merge(first),
        }
    }
    if !node.one_of.is_empty() {
        let (passed, kept) = first_or_best(&node.one_of, value, at);
        let found = match passed {
            0 => Some("Found none valid".to_owned()),
            1 => None,
            _ => Some(format!("Found {passed} valid alternatives")),
        };
        if let Some(found) = &found {
            let text = format!("{place} must validate one and only one schema (oneOf). {found}");
            outcome.without_field(at, text);
        }
        if passed < 2 {
            outcome.merge(kept);
        }
    }
    let mut passed = 0;
    for schema in &node.all_of {
        let found = validate_node(schema, value, None, at);
        passed += usize::from(found.is_valid());
        outcome.merge(found);
    }
    if passed != node.all_of.len() {
        let suffix = if passed == 0 { ". None validated" } else { "" };
        outcome.without_field(at, format!("{place} must validate all the schemas (allOf){suffix}"));
    }
    if node.not.as_ref().is_some_and(|schema| validate_node(schema, value, None, at).is_valid()) {
        outcome.without_field(at, format!("{place} must not validate the schema (not)"));
    }
    outcome.match_count += 1;
    outcome
}

/// Returns how many alternatives are valid, with the outcome of the first valid one, or else of the
/// best match.
fn first_or_best(schemas: &[Node], value: &Value, at: Position<'_>) -> (usize, Outcome) {
    let mut passed = 0;
    let mut kept: Option<Outcome> = None;
    for schema in schemas {
        let found = validate_node(schema, value, None, at);
        if found.is_valid() {
            passed += 1;
            if passed == 1 {
                kept = Some(found);
            }
        } else if passed == 0
            && kept.as_ref().is_none_or(|best| found.match_count > best.match_count)
        {
            kept = Some(found);
        }
    }
    (passed, kept.unwrap_or_default())
}

fn list(node: &Node, items: &[Value], before: Option<OldValue<'_>>, at: Position<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    if let Some(schema) = &node.items {
        let held = before.and_then(OldValue::items);
        for (index, item) in items.iter().enumerate() {
            let path = format!("{}[{index}]", at.path);
            let old = held.as_ref().and_then(|held| held.find(item));
            outcome.merge(validate_with_ratcheting(
                schema,
                item,
                old,
                Position { path: &path, ..at },
            ));
        }
    }
    let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(min) = node.list.min.filter(|min| size < *min) {
        outcome.invalid(at, &size.into(), &format!("should have at least {min} items"));
    }
    if let Some(max) = node.list.max.filter(|max| size > *max) {
        outcome.too_many(at, items.len(), max, "items");
    }
    if node.list.unique && (1..items.len()).any(|index| items[..index].contains(&items[index])) {
        outcome.invalid(at, &"".into(), "shouldn't contain duplicates");
    }
    outcome.match_count += 1;
    outcome
}

fn object(
    node: &Node,
    fields: &Map<String, Value>,
    before: Option<OldValue<'_>>,
    at: Position<'_>,
) -> Outcome {
    let mut outcome = Outcome::default();
    let size = i64::try_from(fields.len()).unwrap_or(i64::MAX);
    if let Some(min) = node.min_properties.filter(|min| size < *min) {
        outcome.invalid(at, &size.into(), &format!("should have at least {min} properties"));
    }
    if let Some(max) = node.max_properties.filter(|max| size > *max) {
        outcome.too_many(at, fields.len(), max, "properties");
    }
    additional(node, fields, before, at, &mut outcome);
    for (name, schema) in &node.properties {
        let Some(field) = fields.get(name) else { continue };
        let path = if at.path.is_empty() {
            Cow::Borrowed(name.as_str())
        } else {
            Cow::Owned(format!("{}.{name}", at.path))
        };
        let old = old_field(before, name, at);
        outcome.merge(validate_with_ratcheting(schema, field, old, Position { path: &path, ..at }));
    }
    for name in node.required.iter().filter(|name| !fields.contains_key(*name)) {
        let path = format!("{}.{name}", at.path);
        outcome.required(Position { path: &path, ..at });
    }
    outcome
}

/// Validates the undeclared fields.
fn additional(
    node: &Node,
    fields: &Map<String, Value>,
    before: Option<OldValue<'_>>,
    at: Position<'_>,
    outcome: &mut Outcome,
) {
    let Some(rule) = &node.additional else { return };
    let undeclared = fields.iter().filter(|(name, _)| !node.properties.contains_key(*name));
    for (name, field) in undeclared {
        match rule {
            Additional::Allowed => {}
            Additional::Refused => {
                let text = format!("{}.{name} in body is a forbidden property", at.path);
                outcome.invalid_text(at, &name.as_str().into(), text);
            }
            Additional::Schema(schema) => {
                let path = format!("{}.{name}", at.path);
                let old = old_field(before, name, at);
                outcome.merge(validate_with_ratcheting(
                    schema,
                    field,
                    old,
                    Position { path: &path, ..at },
                ));
            }
        }
    }
}

/// Returns the old value of a field. The type meta never changes, so it does not take part in
/// ratcheting.
fn old_field<'a>(
    before: Option<OldValue<'a>>,
    name: &str,
    at: Position<'_>,
) -> Option<OldValue<'a>> {
    if at.path.is_empty() && matches!(name, "apiVersion" | "kind") {
        return None;
    }
    before?.field(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(schema: &Value, value: &Value) -> Vec<String> {
        texts(&validate(&Node::read(schema), value, None, ""))
    }

    fn texts(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    /// Returns the only error of a field `f` with this schema and value, without the field.
    fn of_field(schema: &Value, value: &Value) -> Vec<String> {
        let schema = json!({"type": "object", "properties": {"f": schema}});
        let found = validate(&Node::read(&schema), &json!({"f": value}), None, "");
        found.into_iter().map(|error| error.message).collect()
    }

    #[test]
    fn a_widget_is_refused_as_recorded() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 0, "maximum": 10},
            "color": {"type": "string", "enum": ["red", "green", "blue"], "default": "red"},
        }}}});
        assert_eq!(
            errors(&schema, &json!({"spec": {"size": 99, "color": "pink"}})),
            [
                r#"spec.color: Unsupported value: "pink": supported values: "red", "green", "blue""#,
                "spec.size: Invalid value: 99: spec.size in body should be less than or equal to 10",
            ]
        );
        assert_eq!(
            errors(&schema, &json!({"spec": {"color": "red"}})),
            ["spec.size: Required value"]
        );
        assert_eq!(
            errors(&schema, &json!({"spec": {"size": "x"}})),
            [
                r#"spec.size: Invalid value: "string": spec.size in body must be of type integer: "string""#
            ]
        );
        assert_eq!(errors(&schema, &json!({"spec": {"size": 1.0}})), [""; 0]);
    }

    #[test]
    fn constraints_of_numbers_are_checked() {
        for (schema, value, message) in [
            (
                json!({"type": "integer", "minimum": 3}),
                json!(2),
                "Invalid value: 2: f in body should be greater than or equal to 3",
            ),
            (
                json!({"type": "number", "minimum": 3, "exclusiveMinimum": true}),
                json!(3.0),
                "Invalid value: 3: f in body should be greater than 3",
            ),
            (
                json!({"type": "integer", "maximum": 3, "exclusiveMaximum": true}),
                json!(3),
                "Invalid value: 3: f in body should be less than 3",
            ),
            (
                json!({"type": "integer", "multipleOf": 5}),
                json!(7),
                "Invalid value: 7: f in body should be a multiple of 5",
            ),
            (
                json!({"type": "number", "multipleOf": 0.5}),
                json!(0.7),
                "Invalid value: 0.7: f in body should be a multiple of 0.5",
            ),
            (
                json!({"type": "integer", "format": "int32"}),
                json!(3_000_000_000_i64),
                "Invalid value: \"\": Checked value must be of type integer with format int32 in f",
            ),
        ] {
            assert_eq!(of_field(&schema, &value), [message]);
        }
    }

    #[test]
    fn constraints_of_strings_are_checked() {
        for (schema, value, message) in [
            (
                json!({"type": "string", "maxLength": 2}),
                json!("abc"),
                "Too long: may not be more than 2 bytes",
            ),
            (
                json!({"type": "string", "minLength": 1}),
                json!(""),
                "Invalid value: \"\": f in body should be at least 1 chars long",
            ),
            (
                json!({"type": "string", "pattern": "^a$"}),
                json!("b"),
                "Invalid value: \"b\": f in body should match '^a$'",
            ),
            (
                json!({"type": "string", "format": "date-time"}),
                json!("now"),
                "Invalid value: \"now\": f in body must be of type date-time: \"now\"",
            ),
            (
                json!({"type": "string", "format": "date-time"}),
                json!(1),
                "Invalid value: \"int64\": f in body must be of type date-time: \"int64\"",
            ),
            (
                json!({"x-kubernetes-int-or-string": true}),
                json!(true),
                "Invalid value: \"boolean\": f in body must be of type integer,string: \"boolean\"",
            ),
            (
                json!({"type": "string"}),
                json!(null),
                "Invalid value: \"null\": f in body must be of type string: \"null\"",
            ),
        ] {
            assert_eq!(of_field(&schema, &value), [message]);
        }
        assert_eq!(of_field(&json!({"type": "string", "nullable": true}), &json!(null)), [""; 0]);
    }

    #[test]
    fn constraints_of_lists_and_maps_are_checked() {
        for (schema, value, message) in [
            (
                json!({"type": "array", "minItems": 1}),
                json!([]),
                "Invalid value: 0: f in body should have at least 1 items",
            ),
            (
                json!({"type": "array", "maxItems": 1}),
                json!([1, 2]),
                "Too many: 2: must have at most 1 item",
            ),
            (
                json!({"type": "array", "uniqueItems": true}),
                json!([1, 1]),
                "Invalid value: \"\": f in body shouldn't contain duplicates",
            ),
            (
                json!({"type": "object", "minProperties": 1}),
                json!({}),
                "Invalid value: 0: f in body should have at least 1 properties",
            ),
            (
                json!({"type": "object", "maxProperties": 0}),
                json!({"a": 1}),
                "Too many: 1: must have at most 0 items",
            ),
            (
                json!({"type": "object", "additionalProperties": false}),
                json!({"a": 1}),
                "Invalid value: \"a\": f.a in body is a forbidden property",
            ),
        ] {
            assert_eq!(of_field(&schema, &value), [message]);
        }
        let schema =
            json!({"properties": {"m": {"additionalProperties": {"items": {"type": "string"}}}}});
        assert_eq!(
            errors(&schema, &json!({"m": {"k": ["a", 1]}})),
            [
                r#"m.k[1]: Invalid value: "integer": m.k[1] in body must be of type string: "integer""#
            ]
        );
    }

    #[test]
    fn combinations_report_the_best_match() {
        let schema = json!({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
        assert_eq!(
            errors(&schema, &json!({})),
            [
                "<nil>: Invalid value: \"\": \"\" must validate one and only one schema (oneOf). Found none valid",
                "a: Required value",
            ]
        );
        assert_eq!(
            errors(&schema, &json!({"a": 1, "b": 1})),
            [
                "<nil>: Invalid value: \"\": \"\" must validate one and only one schema (oneOf). Found 2 valid alternatives"
            ]
        );
        assert_eq!(
            errors(
                &json!({"properties": {"x": {"anyOf": [{"minimum": 5}, {"type": "string"}]}}}),
                &json!({"x": 1})
            ),
            [
                "<nil>: Invalid value: \"\": \"x\" must validate at least one schema (anyOf)",
                "x: Invalid value: \"integer\": x in body must be of type string: \"integer\"",
            ]
        );
        assert_eq!(
            errors(&json!({"not": {"required": ["a"]}}), &json!({"a": 1})),
            ["<nil>: Invalid value: \"\": \"\" must not validate the schema (not)"]
        );
        assert_eq!(
            errors(&json!({"allOf": [{"required": ["a"]}, {"required": ["b"]}]}), &json!({"a": 1})),
            [
                "b: Required value",
                "<nil>: Invalid value: \"\": \"\" must validate all the schemas (allOf)"
            ]
        );
    }

    #[test]
    fn unchanged_invalid_values_do_not_fail_an_update() {
        let schema = json!({"properties": {"a": {"maximum": 1}, "list": {
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
            "items": {"properties": {"n": {}, "v": {"maximum": 1}}}}}});
        let node = Node::read(&schema);
        let old = json!({"a": 5, "list": [{"n": "x", "v": 5}, {"n": "y", "v": 5}]});
        let new = json!({"a": 5, "b": 1, "list": [{"n": "y", "v": 6}, {"n": "x", "v": 5}]});
        assert_eq!(
            texts(&validate(&node, &new, Some(&old), "")),
            ["list[0].v: Invalid value: 6: list[0].v in body should be less than or equal to 1"]
        );
        assert_eq!(validate(&node, &new, None, "").len(), 3);
    }
}
