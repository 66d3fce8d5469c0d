//! The JSON types of the fields of `metadata`.
//!
//! The real server decodes metadata into a Go struct. A field of the wrong type is a 400 with the
//! error of Go's decoder. Unknown fields are ignored, and null counts as absent.

use serde_json::Value;

use crate::field_error::go_quote;

/// The type of a field.
enum Shape {
    Text(&'static str),
    Whole,
    Flag,
    Time,
    Map,
    Texts,
    /// A list of structs: the name of the Go type, and its fields.
    Structs(&'static str, &'static [(&'static str, Shape)]),
    Anything,
}

const OBJECT_META: &[(&str, Shape)] = &[
    ("annotations", Shape::Map),
    ("creationTimestamp", Shape::Time),
    ("deletionGracePeriodSeconds", Shape::Whole),
    ("deletionTimestamp", Shape::Time),
    ("finalizers", Shape::Texts),
    ("generateName", Shape::Text("string")),
    ("generation", Shape::Whole),
    ("labels", Shape::Map),
    ("managedFields", Shape::Structs("ManagedFieldsEntry", MANAGED_FIELDS)),
    ("name", Shape::Text("string")),
    ("namespace", Shape::Text("string")),
    ("ownerReferences", Shape::Structs("OwnerReference", OWNER_REFERENCE)),
    ("resourceVersion", Shape::Text("string")),
    ("selfLink", Shape::Text("string")),
    ("uid", Shape::Text("types.UID")),
];

const OWNER_REFERENCE: &[(&str, Shape)] = &[
    ("apiVersion", Shape::Text("string")),
    ("blockOwnerDeletion", Shape::Flag),
    ("controller", Shape::Flag),
    ("kind", Shape::Text("string")),
    ("name", Shape::Text("string")),
    ("uid", Shape::Text("types.UID")),
];

const MANAGED_FIELDS: &[(&str, Shape)] = &[
    ("apiVersion", Shape::Text("string")),
    ("fieldsType", Shape::Text("string")),
    ("fieldsV1", Shape::Anything),
    ("manager", Shape::Text("string")),
    ("operation", Shape::Text("v1.ManagedFieldsOperationType")),
    ("subresource", Shape::Text("string")),
    ("time", Shape::Time),
];

/// Checks the types in `metadata`. The error is that of Go's decoder for the first wrong field.
pub(crate) fn check_types(object: &Value) -> Result<(), String> {
    match &object["metadata"] {
        Value::Null => Ok(()),
        meta @ Value::Object(_) => check_fields(meta, "ObjectMeta", "metadata", OBJECT_META),
        other => {
            let kind = object["kind"].as_str().unwrap_or_default();
            Err(mismatch(other, &format!("{kind}.metadata"), "v1.ObjectMeta"))
        }
    }
}

fn check_fields(
    value: &Value,
    owner: &str,
    path: &str,
    fields: &[(&str, Shape)],
) -> Result<(), String> {
    for (name, shape) in fields {
        let field = &value[*name];
        if !field.is_null() {
            check_field(field, owner, &format!("{path}.{name}"), shape)?;
        }
    }
    Ok(())
}

fn check_field(value: &Value, owner: &str, path: &str, shape: &Shape) -> Result<(), String> {
    let expected = |go_type: &str| Err(mismatch(value, &format!("{owner}.{path}"), go_type));
    match shape {
        Shape::Anything => Ok(()),
        Shape::Text(go_type) => {
            if value.is_string() {
                Ok(())
            } else {
                expected(go_type)
            }
        }
        Shape::Flag => {
            if value.is_boolean() {
                Ok(())
            } else {
                expected("bool")
            }
        }
        Shape::Whole => {
            if value.is_i64() {
                Ok(())
            } else {
                expected("int64")
            }
        }
        Shape::Time => check_time(value, owner, path),
        Shape::Map => match value.as_object() {
            Some(fields) => {
                each(fields.values(), |one| check_field(one, owner, path, &Shape::Text("string")))
            }
            None => expected("map[string]string"),
        },
        Shape::Texts => match value.as_array() {
            Some(items) => {
                each(items.iter(), |one| check_field(one, owner, path, &Shape::Text("string")))
            }
            None => expected("[]string"),
        },
        Shape::Structs(name, fields) => match value.as_array() {
            Some(items) => each(items.iter(), |one| {
                if one.is_object() {
                    check_fields(one, name, path, fields)
                } else {
                    Err(mismatch(one, &format!("{owner}.{path}"), &format!("v1.{name}")))
                }
            }),
            None => expected(&format!("[]v1.{name}")),
        },
    }
}

/// Runs `check` for every value that is not null.
fn each<'a>(
    values: impl Iterator<Item = &'a Value>,
    check: impl FnMut(&'a Value) -> Result<(), String>,
) -> Result<(), String> {
    values.filter(|value| !value.is_null()).try_for_each(check)
}

/// Checks a time: a text for the decoder, in the format of RFC 3339.
fn check_time(value: &Value, owner: &str, path: &str) -> Result<(), String> {
    const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
    let Value::String(text) = value else {
        return Err(mismatch(value, &format!("{owner}.{path}"), "string"));
    };
    if text.parse::<jiff::Timestamp>().is_ok() {
        return Ok(());
    }
    let text = go_quote(text);
    Err(format!("parsing time {text} as \"{LAYOUT}\": cannot parse {text} as \"2006\""))
}

fn mismatch(value: &Value, place: &str, go_type: &str) -> String {
    let kind = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        // Go shows the number only if it expects an integer.
        Value::Number(number) if number.is_f64() && go_type == "int64" => {
            format!("number {number}")
        }
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    };
    format!("json: cannot unmarshal {kind} into Go struct field {place} of type {go_type}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_of_the_wrong_type_is_named_as_go_names_it() {
        for (metadata, message) in [
            (
                json!({"labels": {"a": 1}}),
                "number into Go struct field ObjectMeta.metadata.labels of type string",
            ),
            (
                json!({"labels": []}),
                "array into Go struct field ObjectMeta.metadata.labels of type map[string]string",
            ),
            (
                json!({"name": 1}),
                "number into Go struct field ObjectMeta.metadata.name of type string",
            ),
            (
                json!({"generation": "1"}),
                "string into Go struct field ObjectMeta.metadata.generation of type int64",
            ),
            (
                json!({"generation": 1.5}),
                "number 1.5 into Go struct field ObjectMeta.metadata.generation of type int64",
            ),
            (
                json!({"finalizers": "a"}),
                "string into Go struct field ObjectMeta.metadata.finalizers of type []string",
            ),
            (
                json!({"finalizers": [1]}),
                "number into Go struct field ObjectMeta.metadata.finalizers of type string",
            ),
            (
                json!({"ownerReferences": [{"uid": 1}]}),
                "number into Go struct field OwnerReference.metadata.ownerReferences.uid of type types.UID",
            ),
            (
                json!({"ownerReferences": [{"controller": "true"}]}),
                "string into Go struct field OwnerReference.metadata.ownerReferences.controller of type bool",
            ),
            (
                json!({"creationTimestamp": 1}),
                "number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
            ),
            (json!("x"), "string into Go struct field ConfigMap.metadata of type v1.ObjectMeta"),
        ] {
            let object = json!({"kind": "ConfigMap", "metadata": metadata});
            assert_eq!(check_types(&object), Err(format!("json: cannot unmarshal {message}")));
        }
    }

    #[test]
    fn null_and_unknown_fields_are_fine() {
        let object = json!({"metadata": {"labels": {"a": null}, "name": null, "bogus": 1, "finalizers": [null]}});
        assert_eq!(check_types(&object), Ok(()));
        assert_eq!(check_types(&json!({})), Ok(()));
        assert_eq!(check_types(&json!([])), Ok(()));
        assert_eq!(
            check_types(&json!({"metadata": {"creationTimestamp": "2026-11-15T00:44:40Z"}})),
            Ok(())
        );
    }
}
