//! Checks that a schema is structural: outside of `allOf`, `anyOf`, `oneOf` and `not`, it declares
//! the type of every field and item.
//!
//! The checks read the JSON of the schema. Paths are relative to the definition, such as
//! `spec.validation.openAPIV3Schema.properties[spec].type`.

use serde_json::{Value, json};

use super::node::flag;
use super::pattern::Pattern;
use crate::field_error::FieldError;

/// The position of a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Returns the errors of a schema that is not structural, sorted by text.
pub(super) fn check(schema: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    invariants(schema, Level::Root, path, &mut errors);
    completeness(schema, Some(schema), path, path, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

/// Returns the string at a keyword, or an empty one.
pub(super) fn text<'a>(schema: &'a Value, name: &str) -> &'a str {
    schema[name].as_str().unwrap_or_default()
}

/// Returns the schemas of a keyword that holds a map of them.
pub(super) fn fields<'a>(
    schema: &'a Value,
    name: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema[name].as_object().into_iter().flatten()
}

/// Returns the schemas of a keyword that holds a list of them.
pub(crate) fn parts<'a>(schema: &'a Value, name: &str) -> impl Iterator<Item = (usize, &'a Value)> {
    schema[name].as_array().into_iter().flatten().enumerate()
}

fn invariants(schema: &Value, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let kind = text(schema, "type");
    if kind == "array" && schema["items"].is_null() {
        errors.push(FieldError::required(format!("{path}.items"), "must be specified"));
    }
    if schema["items"].is_object() {
        invariants(&schema["items"], Level::Item, &format!("{path}.items"), errors);
    }
    for (name, field) in fields(schema, "properties") {
        invariants(field, Level::Field, &format!("{path}.properties[{name}]"), errors);
    }
    let additional = &schema["additionalProperties"];
    let additional_path = format!("{path}.additionalProperties");
    if !additional.is_null() && level == Level::Root {
        errors.push(FieldError::forbidden(&additional_path, "must not be used at the root"));
    }
    if additional.is_object() {
        invariants(additional, Level::Field, &additional_path, errors);
    }
    extensions(schema, path, errors);
    combinations(schema, is_int_or_string(&schema["anyOf"]), path, errors);
    types(schema, level, path, errors);
    meta_fields(schema, level, path, errors);
}

/// Whether an anyOf has the two types of int-or-string. Otherwise types are not allowed there.
fn is_int_or_string(any_of: &Value) -> bool {
    *any_of == json!([{"type": "integer"}, {"type": "string"}])
}

fn extensions(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if !flag(schema, "x-kubernetes-int-or-string") {
        return;
    }
    for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if flag(schema, name) {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(format!("{path}.{name}"), &true.into(), detail));
        }
    }
}

fn types(schema: &Value, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let kind = text(schema, "type");
    let field = format!("{path}.type");
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    let keeps = flag(schema, "x-kubernetes-preserve-unknown-fields");
    if embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if kind.is_empty() {
            FieldError::required(&field, detail)
        } else {
            FieldError::invalid_str(&field, kind, detail)
        });
    } else if kind.is_empty() && !keeps && !flag(schema, "x-kubernetes-int-or-string") {
        errors.push(FieldError::required(
            &field,
            match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            },
        ));
    }
    if embedded && !schema["additionalProperties"].is_null() {
        errors.push(FieldError::forbidden(
            format!("{path}.additionalProperties"),
            "must not be used if x-kubernetes-embedded-resource is set",
        ));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid_str(&field, kind, "must be object at the root"));
    }
    if embedded && !keeps && fields(schema, "properties").next().is_none() {
        errors.push(FieldError::required(
            format!("{path}.properties"),
            "must not be empty if x-kubernetes-embedded-resource is true without \
             x-kubernetes-preserve-unknown-fields",
        ));
    }
}

/// Checks the schema of the type meta and metadata of a resource, which may restrict only a few
/// things.
fn meta_fields(schema: &Value, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let resource = level == Level::Root || flag(schema, "x-kubernetes-embedded-resource");
    for (name, expected) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let Some(field) = schema["properties"].get(name) else { continue };
        let field_path = format!("{path}.properties[{name}]");
        if resource && text(field, "type") != expected {
            let detail = format!("must be {expected}");
            let kind = text(field, "type");
            errors.push(FieldError::invalid_str(format!("{field_path}.type"), kind, &detail));
        }
        if name == "metadata" && level == Level::Root && !restricts_only_names(field) {
            errors.push(FieldError::forbidden(
                field_path,
                "must not specify anything other than name and generateName, but metadata is implicitly specified",
            ));
        }
    }
}

fn restricts_only_names(metadata: &Value) -> bool {
    metadata.as_object().into_iter().flatten().all(|(keyword, value)| match keyword.as_str() {
        "type" | "default" => true,
        "properties" => value
            .as_object()
            .into_iter()
            .flatten()
            .all(|(name, _)| matches!(name.as_str(), "name" | "generateName")),
        _ => matches!(value, Value::Null | Value::Bool(false)) || value == "",
    })
}

/// Checks the combinations and the pattern of a schema. `skips_any_of` is set if its anyOf has the
/// types of int-or-string.
fn combinations(schema: &Value, skips_any_of: bool, path: &str, errors: &mut Vec<FieldError>) {
    if !skips_any_of {
        for (index, part) in parts(schema, "anyOf") {
            nested(part, false, &format!("{path}.anyOf[{index}]"), errors);
        }
    }
    for (index, part) in parts(schema, "allOf") {
        let skips = index == 0 && is_int_or_string(&part["anyOf"]);
        nested(part, skips, &format!("{path}.allOf[{index}]"), errors);
    }
    for (index, part) in parts(schema, "oneOf") {
        nested(part, false, &format!("{path}.oneOf[{index}]"), errors);
    }
    if schema["not"].is_object() {
        nested(&schema["not"], false, &format!("{path}.not"), errors);
    }
    let pattern = text(schema, "pattern");
    if let Err(error) = Pattern::new(pattern) {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(FieldError::invalid_str(format!("{path}.pattern"), pattern, &detail));
    }
}

/// Keywords that are not allowed in combinations, with the error texts.
const FORBIDDEN_IN_COMBINATIONS: [(&str, &str); 12] = [
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
];

/// Checks a schema inside of a combination: it may only restrict fields that are declared outside.
fn nested(schema: &Value, skips_any_of: bool, path: &str, errors: &mut Vec<FieldError>) {
    combinations(schema, skips_any_of, path, errors);
    if schema["items"].is_object() {
        nested(&schema["items"], false, &format!("{path}.items"), errors);
    }
    for (name, field) in fields(schema, "properties") {
        nested(field, false, &format!("{path}.properties[{name}]"), errors);
    }
    for (name, detail) in FORBIDDEN_IN_COMBINATIONS {
        if is_set(&schema[name]) {
            errors.push(FieldError::forbidden(format!("{path}.{name}"), detail));
        }
    }
    if is_set(&schema["x-kubernetes-validations"]) {
        let field = format!("{path}.x-kubernetes-validations");
        errors.push(FieldError::forbidden(field, "must be empty to be structural"));
    }
    if schema["properties"].get("metadata").is_some() {
        errors.push(FieldError::forbidden(
            format!("{path}.properties[metadata]"),
            "must not be specified in a nested context",
        ));
    }
}

/// Whether a keyword is set: empty strings, empty lists and false are not.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}

/// Checks that `outer` declares the fields that the combinations of `inner` restrict.
fn completeness(
    inner: &Value,
    outer: Option<&Value>,
    outer_path: &str,
    inner_path: &str,
    errors: &mut Vec<FieldError>,
) {
    if inner["not"].is_object() {
        let inner_path = format!("{inner_path}.not");
        nested_completeness(&inner["not"], outer, outer_path, &inner_path, errors);
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        for (index, part) in parts(inner, name) {
            let inner_path = format!("{inner_path}.{name}[{index}]");
            nested_completeness(part, outer, outer_path, &inner_path, errors);
        }
    }
}

fn nested_completeness(
    inner: &Value,
    outer: Option<&Value>,
    outer_path: &str,
    inner_path: &str,
    errors: &mut Vec<FieldError>,
) {
    let Some(outer) = outer else {
        let detail = format!("because it is defined in {inner_path}");
        errors.push(FieldError::required(outer_path, &detail));
        return;
    };
    completeness(inner, Some(outer), outer_path, inner_path, errors);
    if inner["items"].is_object() {
        let items = Some(&outer["items"]).filter(|items| items.is_object());
        let (outer_path, inner_path) =
            (format!("{outer_path}.items"), format!("{inner_path}.items"));
        nested_completeness(&inner["items"], items, &outer_path, &inner_path, errors);
    }
    for (name, field) in fields(inner, "properties") {
        let declared = outer["properties"].get(name);
        let (outer_path, inner_path) = (
            format!("{outer_path}.properties[{name}]"),
            format!("{inner_path}.properties[{name}]"),
        );
        nested_completeness(field, declared, &outer_path, &inner_path, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(schema: &Value) -> Vec<String> {
        check(schema, "s").iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_schema_needs_a_type() {
        assert_eq!(errors(&json!({})), ["s.type: Required value: must not be empty at the root"]);
        assert_eq!(
            errors(&json!({"type": "object", "properties": {
                "a": {}, "l": {"type": "array", "items": {}}, "m": {"type": "object", "additionalProperties": {}},
                "n": {"type": "array"}, "io": {"x-kubernetes-int-or-string": true},
                "any": {"x-kubernetes-preserve-unknown-fields": true},
            }})),
            [
                "s.properties[a].type: Required value: must not be empty for specified object fields",
                "s.properties[l].items.type: Required value: must not be empty for specified array items",
                "s.properties[m].additionalProperties.type: Required value: must not be empty for specified object \
                 fields",
                "s.properties[n].items: Required value: must be specified",
            ]
        );
    }

    #[test]
    fn combinations_cannot_declare_types_or_fields() {
        assert_eq!(
            errors(&json!({"type": "object", "properties": {"a": {"type": "string"}}, "oneOf": [
                {"properties": {"a": {"type": "string"}}}, {"properties": {"b": {"minimum": 1}}},
            ]})),
            [
                "s.oneOf[0].properties[a].type: Forbidden: must be empty to be structural",
                "s.properties[b]: Required value: because it is defined in s.oneOf[1].properties[b]",
            ]
        );
        let int_or_string = json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true});
        assert_eq!(errors(&json!({"type": "object", "properties": {"a": int_or_string}})), [""; 0]);
    }

    #[test]
    fn metadata_may_only_restrict_names() {
        assert_eq!(
            errors(&json!({"type": "object", "properties": {"metadata": {"type": "object"}}})),
            [""; 0]
        );
        assert_eq!(
            errors(
                &json!({"type": "object", "properties": {"kind": {"type": "integer"}, "metadata": {
                "type": "object", "properties": {"labels": {"type": "object"}}}}})
            ),
            [
                "s.properties[kind].type: Invalid value: \"integer\": must be string",
                "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but \
                 metadata is implicitly specified",
            ]
        );
    }

    #[test]
    fn a_pattern_that_cannot_be_compiled_is_an_error() {
        let found = errors(
            &json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
        );
        assert_eq!(
            found,
            [
                "s.properties[a].pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: unclosed \
              group"
            ]
        );
    }
}
