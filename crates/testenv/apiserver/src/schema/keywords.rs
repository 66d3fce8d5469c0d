//! Checks that definitions may use the keywords of a schema, and that they fit together.

use serde_json::Value;

use super::node::{flag, texts};
use super::structural::{fields, parts, text};
use super::value_type::Type;
use crate::field_error::FieldError;

/// Keywords of `OpenAPI` that definitions must not use, in the order in which the real server
/// checks them.
const UNSUPPORTED: [&str; 6] =
    ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];

/// What the schemas above this one imply.
#[derive(Clone, Copy, Default)]
struct Context<'a> {
    /// Why a default is not allowed here. Empty if it is.
    no_default: &'a str,
    /// Whether this is part of the type meta or metadata of a resource.
    in_meta: bool,
}

/// Checks the keywords of a schema and of all schemas in it.
pub(super) fn check(schema: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_node(schema, path, true, Context::default(), &mut errors);
    errors
}

/// Whether the schema has keywords that no structural schema can have. Other checks make no sense
/// then.
pub(super) fn has_unsupported(schema: &Value) -> bool {
    UNSUPPORTED.iter().chain(["$schema"].iter()).any(|name| is_used(schema, name))
        || schema["items"].is_array()
        || schema["x-kubernetes-preserve-unknown-fields"] == Value::Bool(false)
        || ["items", "additionalProperties", "not"]
            .iter()
            .any(|name| schema[*name].is_object() && has_unsupported(&schema[*name]))
        || fields(schema, "properties").any(|(_, field)| has_unsupported(field))
        || ["allOf", "anyOf", "oneOf"]
            .iter()
            .any(|name| parts(schema, name).any(|(_, part)| has_unsupported(part)))
}

fn is_used(schema: &Value, name: &str) -> bool {
    match &schema[name] {
        Value::Null => false,
        Value::String(text) => name == "$ref" || !text.is_empty(),
        Value::Object(fields) => name == "dependencies" || !fields.is_empty(),
        _ => true,
    }
}

fn check_node(
    schema: &Value,
    path: &str,
    root: bool,
    context: Context<'_>,
    errors: &mut Vec<FieldError>,
) {
    standard(schema, path, context, errors);
    if flag(schema, "uniqueItems") {
        errors.push(FieldError::forbidden(
            format!("{path}.uniqueItems"),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ));
    }
    let additional = &schema["additionalProperties"];
    let has_properties = fields(schema, "properties").next().is_some();
    if !additional.is_null() {
        let field = format!("{path}.additionalProperties");
        if has_properties && *additional != Value::Bool(true) {
            let detail = "additionalProperties and properties are mutual exclusive";
            errors.push(FieldError::forbidden(&field, detail));
        }
        let mut context = context;
        if context.in_meta {
            context.no_default = "inside additionalProperties applying to object metadata";
        }
        if additional.is_object() {
            check_node(additional, &field, false, context, errors);
        }
    }
    for (name, property) in fields(schema, "properties") {
        let resource = root || flag(schema, "x-kubernetes-embedded-resource");
        let mut context = context;
        let reason = format!("in top-level {name}");
        if resource && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
            context.in_meta = true;
            if root {
                context.no_default = &reason;
            }
        }
        check_node(property, &format!("{path}.properties[{name}]"), false, context, errors);
    }
    if schema["not"].is_object() {
        check_node(&schema["not"], &format!("{path}.not"), false, context, errors);
    }
    for name in ["allOf", "oneOf", "anyOf"] {
        for (index, part) in parts(schema, name) {
            check_node(part, &format!("{path}.{name}[{index}]"), false, context, errors);
        }
    }
    if schema["items"].is_object() {
        check_node(&schema["items"], &format!("{path}.items"), false, context, errors);
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == Value::Bool(false) {
        let field = format!("{path}.x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(field, &false.into(), "must be true or undefined"));
    }
    map_type(schema, path, errors);
    list_type(schema, path, errors);
    map_keys(schema, path, errors);
    crate::cel::check_entries(schema, path, errors);
}

/// Checks keywords of the `OpenAPI` standard that definitions must not use.
fn standard(schema: &Value, path: &str, context: Context<'_>, errors: &mut Vec<FieldError>) {
    let kind = text(schema, "type");
    if !kind.is_empty() && Type::parse(kind).is_none() {
        errors.push(FieldError::not_supported(format!("{path}.type"), &kind.into(), &Type::NAMES));
    }
    if !context.no_default.is_empty() && !schema["default"].is_null() {
        let detail = format!("must not be set {}", context.no_default);
        errors.push(FieldError::forbidden(format!("{path}.default"), &detail));
    }
    for name in UNSUPPORTED {
        if is_used(schema, name) {
            let detail = format!("{name} is not supported");
            errors.push(FieldError::forbidden(format!("{path}.{name}"), &detail));
        }
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(format!("{path}.type"), detail));
    }
    if schema["items"].as_array().is_some_and(|items| !items.is_empty()) {
        let detail = "items must be a schema object and not an array";
        errors.push(FieldError::forbidden(format!("{path}.items"), detail));
    }
    if context.in_meta && flag(schema, "x-kubernetes-embedded-resource") {
        let field = format!("{path}.x-kubernetes-embedded-resource");
        errors.push(FieldError::forbidden(field, "must not be used inside of resource meta"));
    }
}

/// Checks that the schema has the type that an extension requires.
fn needs_type(
    schema: &Value,
    path: &str,
    extension: &str,
    kind: &str,
    errors: &mut Vec<FieldError>,
) {
    let actual = text(schema, "type");
    let field = format!("{path}.type");
    let detail = format!("must be {kind} if {extension} is specified");
    if actual.is_empty() {
        errors.push(FieldError::required(field, &detail));
    } else if actual != kind {
        errors.push(FieldError::invalid_str(field, actual, &detail));
    }
}

fn map_type(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(map_type) = schema["x-kubernetes-map-type"].as_str() else { return };
    needs_type(schema, path, "x-kubernetes-map-type", "object", errors);
    if !matches!(map_type, "atomic" | "granular") {
        let field = format!("{path}.x-kubernetes-map-type");
        errors.push(FieldError::not_supported(field, &map_type.into(), &["atomic", "granular"]));
    }
}

fn list_type(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(list_type) = schema["x-kubernetes-list-type"].as_str() else { return };
    needs_type(schema, path, "x-kubernetes-list-type", "array", errors);
    let items = &schema["items"];
    if text(schema, "type") == "array" && list_type == "set" && items.is_object() {
        let (name, is_atomic) = match text(items, "type") {
            "array" => {
                let inner = &items["x-kubernetes-list-type"];
                ("x-kubernetes-list-type", inner.is_null() || inner == "atomic")
            }
            "object" => ("x-kubernetes-map-type", items["x-kubernetes-map-type"] == "atomic"),
            _ => ("", true),
        };
        if !is_atomic {
            // The real server shows the list type in both cases.
            let value = &items["x-kubernetes-list-type"];
            let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
            errors.push(FieldError::invalid(format!("{path}.items.{name}"), value, detail));
        }
    }
    if !matches!(list_type, "atomic" | "set" | "map") {
        let field = format!("{path}.x-kubernetes-list-type");
        errors.push(FieldError::not_supported(field, &list_type.into(), &["atomic", "set", "map"]));
    }
}

fn map_keys(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let keys = texts(schema, "x-kubernetes-list-map-keys");
    let list_type = schema["x-kubernetes-list-type"].as_str();
    if !keys.is_empty() && list_type != Some("map") {
        let field = format!("{path}.x-kubernetes-list-type");
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match list_type {
            None => FieldError::required(field, detail),
            Some(other) => FieldError::invalid_str(field, other, detail),
        });
    }
    let items = &schema["items"];
    if list_type == Some("map") {
        let keys_field = format!("{path}.x-kubernetes-list-map-keys");
        if keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            errors.push(FieldError::required(&keys_field, detail));
        }
        if items.is_null() {
            let detail = "must have a schema if x-kubernetes-list-type is map";
            errors.push(FieldError::required(format!("{path}.items"), detail));
        } else if items.is_object() && text(items, "type") != "object" {
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            let field = format!("{path}.items.type");
            errors.push(FieldError::invalid_str(field, text(items, "type"), detail));
        } else if items.is_object() {
            each_map_key(schema, &keys, path, errors);
        }
    }
    if items.is_object() && matches!(list_type, Some("map" | "set")) {
        nullable_items(schema, &keys, path, errors);
    }
}

fn each_map_key(schema: &Value, keys: &[String], path: &str, errors: &mut Vec<FieldError>) {
    let field = format!("{path}.x-kubernetes-list-map-keys");
    let shown = &schema["x-kubernetes-list-map-keys"];
    for (index, key) in keys.iter().enumerate() {
        match schema["items"]["properties"].get(key) {
            Some(property) if matches!(text(property, "type"), "array" | "object") => {
                errors.push(FieldError::invalid_str(
                    format!("{path}.items.properties[{key}].type"),
                    text(&schema["items"], "type"),
                    "must be a scalar type if parent array's x-kubernetes-list-type is map",
                ));
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid(&field, shown, detail));
            }
        }
        if keys[..index].contains(key) {
            errors.push(FieldError::invalid(&field, shown, "must not contain duplicate entries"));
        }
    }
}

/// Checks that the items of sets and the key fields of keyed lists cannot be missing or null.
fn nullable_items(schema: &Value, keys: &[String], path: &str, errors: &mut Vec<FieldError>) {
    let items = &schema["items"];
    let list_type = text(schema, "x-kubernetes-list-type");
    if flag(items, "nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(format!("{path}.items.nullable"), &detail));
    }
    if list_type != "map" {
        return;
    }
    let required = texts(items, "required");
    for key in keys {
        let Some(property) = items["properties"].get(key) else { continue };
        if !required.contains(key) && property["default"].is_null() {
            errors.push(FieldError::required(
                format!("{path}.items.properties[{key}].default"),
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ));
        }
        if flag(property, "nullable") {
            errors.push(FieldError::forbidden(
                format!("{path}.items.properties[{key}].nullable"),
                "this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(schema: &Value) -> Vec<String> {
        check(schema, "s").iter().map(ToString::to_string).collect()
    }

    #[test]
    fn unsupported_keywords_are_reported() {
        assert_eq!(
            errors(&json!({"type": "object", "properties": {
                "a": {"$ref": "#/x"}, "b": {"type": "text"}, "c": {"type": "array", "uniqueItems": true},
                "d": {"type": "object", "properties": {"x": {}}, "additionalProperties": false},
            }})),
            [
                "s.properties[a].$ref: Forbidden: $ref is not supported",
                "s.properties[b].type: Unsupported value: \"text\": supported values: \"array\", \"boolean\", \
                 \"integer\", \"number\", \"object\", \"string\"",
                "s.properties[c].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime \
                 complexity becomes quadratic",
                "s.properties[d].additionalProperties: Forbidden: additionalProperties and properties are mutual \
                 exclusive",
            ]
        );
        assert!(has_unsupported(&json!({"properties": {"a": {"items": {"$ref": ""}}}})));
    }

    #[test]
    fn key_fields_of_a_keyed_list_must_be_required_or_have_defaults() {
        assert_eq!(
            errors(
                &json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"],
                "items": {"type": "object", "properties": {"a": {"type": "string"}}}})
            ),
            [
                "s.x-kubernetes-list-map-keys: Invalid value: [\"a\",\"b\"]: entries must all be names of item properties",
                "s.items.properties[a].default: Required value: this property is in x-kubernetes-list-map-keys, so it \
                 must have a default or be a required property",
            ]
        );
        assert_eq!(
            errors(&json!({"type": "object", "x-kubernetes-list-type": "bag"})),
            [
                "s.type: Invalid value: \"object\": must be array if x-kubernetes-list-type is specified",
                "s.x-kubernetes-list-type: Unsupported value: \"bag\": supported values: \"atomic\", \"set\", \"map\"",
            ]
        );
    }

    #[test]
    fn defaults_in_type_meta_and_metadata_are_refused() {
        assert_eq!(
            errors(&json!({"properties": {"kind": {"type": "string", "default": "A"}}})),
            ["s.properties[kind].default: Forbidden: must not be set in top-level kind"]
        );
    }
}
