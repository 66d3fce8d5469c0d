//! Defaulting: fills in missing fields.

use serde_json::Value;

use super::node::{Additional, Node};

/// Fills in the defaults. A null that is not allowed counts as missing: it is replaced by the
/// default, or removed if there is none.
pub(super) fn apply(root: &Node, object: &mut Value) {
    drop_nulls(Some(root), object);
    fill(root, object);
}

fn drop_nulls(node: Option<&Node>, value: &mut Value) {
    match value {
        Value::Object(fields) => fields.retain(|key, field| {
            let schema = node.and_then(|node| node.field(key));
            let dropped = field.is_null()
                && schema.is_some_and(|schema| !schema.nullable && schema.default.is_none());
            if !dropped {
                drop_nulls(schema, field);
            }
            !dropped
        }),
        Value::Array(items) => {
            let schema = node.and_then(|node| node.items.as_deref());
            for item in items {
                drop_nulls(schema, item);
            }
        }
        _ => {}
    }
}

/// Fills in defaults, also in values that were filled in, as their own fields may have defaults.
fn fill(node: &Node, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, schema) in &node.properties {
                let Some(default) = &schema.default else { continue };
                let left_out = match fields.get(name) {
                    None => true,
                    Some(field) => field.is_null() && !schema.nullable,
                };
                if left_out {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (key, field) in fields {
                if let Some(schema) = node.properties.get(key) {
                    fill(schema, field);
                } else if let Some(Additional::Schema(schema)) = &node.additional {
                    replace_null(schema, field);
                    fill(schema, field);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = node.items.as_deref() else { return };
            for item in items {
                replace_null(schema, item);
                fill(schema, item);
            }
        }
        _ => {}
    }
}

fn replace_null(node: &Node, value: &mut Value) {
    if let (Value::Null, false, Some(default)) = (&*value, node.nullable, &node.default) {
        *value = default.clone();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn defaulted(schema: &Value, mut object: Value) -> Value {
        apply(&Node::read(schema), &mut object);
        object
    }

    #[test]
    fn defaults_are_applied_inside_defaults() {
        let schema = json!({"properties": {"spec": {"default": {}, "properties": {
            "color": {"type": "string", "default": "red"},
            "ports": {"items": {"properties": {"protocol": {"default": "TCP"}}}},
        }}, "map": {"additionalProperties": {"properties": {"a": {"default": 1}}}}}});
        assert_eq!(defaulted(&schema, json!({})), json!({"spec": {"color": "red"}}));
        assert_eq!(
            defaulted(&schema, json!({"spec": {"color": "blue", "ports": [{}]}, "map": {"k": {}}})),
            json!({"spec": {"color": "blue", "ports": [{"protocol": "TCP"}]}, "map": {"k": {"a": 1}}})
        );
    }

    #[test]
    fn disallowed_null_counts_as_missing() {
        let schema = json!({"properties": {
            "a": {"default": 1}, "b": {"type": "string"}, "c": {"nullable": true, "default": 1},
            "list": {"items": {"default": "x"}},
        }});
        assert_eq!(
            defaulted(
                &schema,
                json!({"a": null, "b": null, "c": null, "list": [null], "other": null})
            ),
            json!({"a": 1, "c": null, "list": ["x"], "other": null})
        );
    }
}
