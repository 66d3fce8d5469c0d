//! Validation of the type meta and metadata of embedded resources.

use serde_json::Value;

use super::node::{Additional, Node};
use crate::field_error::FieldError;
use crate::metadata::{self, names};

/// Checks all embedded resources below a value at `path`.
pub(super) fn check(node: &Node, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            if node.embedded {
                check_resource(value, path, errors);
            }
            for (key, field) in fields {
                if let Some(schema) = node.properties.get(key) {
                    check(schema, field, &child(path, key), errors);
                } else if let Some(Additional::Schema(schema)) = &node.additional {
                    check(schema, field, &format!("{path}[{key}]"), errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                check(schema, item, &format!("{path}[{index}]"), errors);
            }
        }
        _ => {}
    }
}

/// Checks an embedded resource. The type meta is required; metadata is only checked if present.
fn check_resource(resource: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        let field = child(path, name);
        match resource.get(name) {
            None => errors.push(FieldError::required(field, "")),
            Some(Value::String(text)) => {
                if let Some(detail) = wrong_type_text(name, text) {
                    errors.push(FieldError::invalid_str(field, text, &detail));
                }
            }
            Some(other) => errors.push(FieldError::invalid(field, other, "must be a string")),
        }
    }
    if !resource["metadata"].is_object() {
        return;
    }
    let mut meta = resource["metadata"].clone();
    if meta["name"].as_str().is_none_or(str::is_empty) {
        // An embedded resource needs no name.
        meta["name"] = "fakename".into();
    }
    let namespaced = meta["namespace"].as_str().is_some_and(|namespace| !namespace.is_empty());
    for mut error in metadata::validate_create(&meta, namespaced, metadata::NameRule::Path) {
        error.field = child(path, &error.field);
        errors.push(error);
    }
}

fn wrong_type_text(name: &str, text: &str) -> Option<String> {
    if text.is_empty() {
        return Some("must not be empty".to_owned());
    }
    if name == "apiVersion" {
        return (text.matches('/').count() > 1)
            .then(|| format!("unexpected GroupVersion string: {text}"));
    }
    let wrong = names::dns1035_label(&text.to_lowercase());
    (!wrong.is_empty())
        .then(|| format!("may have mixed case, but should otherwise match: {}", wrong.join(",")))
}

fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn embedded_resource_needs_type_meta_and_valid_metadata() {
        let schema =
            json!({"properties": {"pods": {"items": {"x-kubernetes-embedded-resource": true}}}});
        let value = json!({"pods": [
            {"apiVersion": "v1", "kind": "Pod", "metadata": {}},
            {"apiVersion": "a/b/c", "metadata": {"name": "a/b"}},
        ]});
        let mut errors = Vec::new();
        check(&Node::read(&schema), &value, "", &mut errors);
        let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "pods[1].apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
                "pods[1].kind: Required value",
                "pods[1].metadata.name: Invalid value: \"a/b\": may not contain '/'",
            ]
        );
    }
}
