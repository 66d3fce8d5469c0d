//! The schemas that the real server publishes for custom kinds: those of their definitions, plus
//! the fields that every object has.

use serde_json::{Value, json};

use super::catalog::{CATALOG, KIND, META};
use super::operation::reference;
use crate::kind::{Kind, Version};

/// Returns the schema of an object.
pub(super) fn object(kind: &Kind, version: &Version, schema: Option<&Value>) -> Value {
    let mut schema = schema.cloned().unwrap_or_else(|| json!({"type": "object"}));
    publish(&mut schema);
    let words = "Standard object's metadata. More info: \
                 https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
    set(&mut schema, "metadata", described(words, "ObjectMeta"));
    add_type(&mut schema);
    add_kind(&mut schema, kind, version, &kind.kind);
    schema
}

/// Returns the schema of a list; `item` is the full name of the schema of its items.
pub(super) fn list(kind: &Kind, version: &Version, item: &str) -> Value {
    let words = "Standard list metadata. More info: \
                 https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
    let mut schema = json!({
        "description": format!("{} is a list of {}", kind.list_kind, kind.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "items": {
                "description": format!(
                    "List of {}. More info: \
                     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md",
                    kind.plural
                ),
                "type": "array",
                "items": reference(item),
            },
            "metadata": described(words, "ListMeta"),
        },
    });
    add_type(&mut schema);
    add_kind(&mut schema, kind, version, &kind.list_kind);
    schema
}

/// Adds what the real server adds to a published schema, at any depth.
fn publish(schema: &mut Value) {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(publish);
    }
    for inside in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(inside).filter(|inner| inner.is_object()) {
            publish(inner);
        }
    }
    let says = |schema: &Value, word: &str| schema.get(word) == Some(&Value::Bool(true));
    if says(schema, "x-kubernetes-int-or-string") && schema.get("anyOf").is_none() {
        schema["anyOf"] = json!([{"type": "integer"}, {"type": "string"}]);
    }
    if says(schema, "x-kubernetes-embedded-resource") {
        embed(schema);
    }
}

/// Adds the fields that every object has to the schema of an embedded resource.
fn embed(schema: &mut Value) {
    let conventions =
        "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
    let text = |words: String| json!({"description": words, "type": "string"});
    let version = format!(
        "apiVersion defines the versioned schema of this representation of an object. More info: \
         {conventions}#resources"
    );
    let kind = format!(
        "kind is a string value representing the type of this object. In CamelCase. More info: \
         {conventions}#types-kinds"
    );
    let words = format!("Standard object's metadata. More info: {conventions}#metadata");
    set(schema, "apiVersion", text(version));
    set(schema, "kind", text(kind));
    set(schema, "metadata", described(&words, "ObjectMeta"));
    let mut required = schema["required"].as_array().cloned().unwrap_or_default();
    for field in ["kind", "apiVersion"] {
        if !required.iter().any(|known| known == field) {
            required.push(json!(field));
        }
    }
    schema["required"] = Value::Array(required);
}

fn set(schema: &mut Value, property: &str, value: Value) {
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    schema["properties"][property] = value;
}

/// Returns a reference to a type of the package [`META`], with its own description.
fn described(words: &str, of: &str) -> Value {
    json!({"description": words, "allOf": [reference(&format!("{META}.{of}"))]})
}

/// Adds `apiVersion` and `kind`, with the descriptions that built-in kinds have.
fn add_type(schema: &mut Value) {
    let status = CATALOG.schema(&format!("{META}.Status")).unwrap_or_default();
    for property in ["apiVersion", "kind"] {
        set(schema, property, status["properties"][property].clone());
    }
}

fn add_kind(schema: &mut Value, kind: &Kind, version: &Version, name: &str) {
    schema[KIND] = json!([{"group": kind.group, "kind": name, "version": version.name}]);
    if !version.selectable.is_empty() {
        let fields: Vec<Value> =
            version.selectable.iter().map(|path| json!({"fieldPath": path})).collect();
        schema["x-kubernetes-selectable-fields"] = json!(fields);
    }
}
