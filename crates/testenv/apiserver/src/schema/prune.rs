//! Pruning: removes unknown fields.

use std::fmt::Write as _;

use serde_json::Value;

use super::node::{Additional, Node};

/// Removes the unknown fields of a resource and returns their paths, sorted.
pub(super) fn prune(root: &Node, object: &mut Value) -> Vec<String> {
    let mut pruner = Pruner::default();
    pruner.object_or_list(PruneContext { resource: true, ..PruneContext::of(Some(root)) }, object);
    pruner.dropped.sort_unstable();
    pruner.dropped
}

/// Whether a value inside of a resource, such as a default, has unknown fields.
pub(super) fn has_unknown(node: &Node, value: &Value) -> bool {
    let mut pruner = Pruner::default();
    pruner.object_or_list(PruneContext::of(Some(node)), &mut value.clone());
    !pruner.dropped.is_empty()
}

/// How to prune the current value.
#[derive(Clone, Copy)]
struct PruneContext<'a> {
    /// The schema of the value. `None` declares no fields.
    node: Option<&'a Node>,
    /// Whether the value is a resource, with type meta and metadata that need no declaration.
    resource: bool,
    /// Whether undeclared fields are kept.
    keeps: bool,
}

impl<'a> PruneContext<'a> {
    fn of(node: Option<&'a Node>) -> Self {
        Self {
            node,
            resource: node.is_some_and(|node| node.embedded),
            keeps: node.is_some_and(|node| node.preserves_unknown),
        }
    }
}

#[derive(Default)]
struct Pruner {
    /// The path of the current value.
    path: String,
    dropped: Vec<String>,
}

impl Pruner {
    fn object_or_list(&mut self, place: PruneContext<'_>, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|key, field| self.field(place, key, field));
            }
            Value::Array(items) => {
                let schema = place.node.and_then(|node| node.items.as_deref());
                let mut inner = PruneContext::of(schema);
                if place.keeps && schema.is_none() {
                    return;
                }
                // If a list keeps unknown fields, so do its items.
                inner.keeps |= place.keeps;
                for (index, item) in items.iter_mut().enumerate() {
                    let length = self.path.len();
                    let _ = write!(self.path, "[{index}]");
                    self.object_or_list(inner, item);
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }

    /// Prunes below a field, and returns whether the field itself is kept.
    fn field(&mut self, place: PruneContext<'_>, key: &str, field: &mut Value) -> bool {
        if place.resource && matches!(key, "apiVersion" | "kind" | "metadata") {
            return true;
        }
        let length = self.push_key(key);
        let declared = place.node.and_then(|node| node.properties.get(key));
        let additional = place.node.and_then(|node| node.additional.as_ref());
        let kept = declared.is_some() || additional.is_some() || place.keeps;
        if !kept {
            self.dropped.push(self.path.clone());
        } else if declared.is_some() || additional.is_some() {
            let schema = declared.or_else(|| additional.and_then(Additional::schema));
            self.object_or_list(PruneContext::of(schema), field);
        }
        self.path.truncate(length);
        kept
    }

    /// Appends a key to the path, and returns the length to truncate it to afterwards.
    fn push_key(&mut self, key: &str) -> usize {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        length
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pruned(schema: &Value, mut object: Value) -> (Value, Vec<String>) {
        let dropped = prune(&Node::read(schema), &mut object);
        (object, dropped)
    }

    #[test]
    fn unknown_fields_are_dropped_and_named() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "size": {"type": "integer"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"b": {"type": "string"}}}},
        }}}});
        let object = json!({
            "apiVersion": "v1", "kind": "K", "metadata": {"name": "a"}, "extra": 1,
            "spec": {"size": 1, "bogus": 1, "list": [{"a": "x", "x": 1}], "map": {"k": {"b": "", "c": {}}}},
        });
        let (object, dropped) = pruned(&schema, object);
        assert_eq!(dropped, ["extra", "spec.bogus", "spec.list[0].x", "spec.map.k.c"]);
        assert_eq!(
            object,
            json!({
                "apiVersion": "v1", "kind": "K", "metadata": {"name": "a"},
                "spec": {"size": 1, "list": [{"a": "x"}], "map": {"k": {"b": ""}}},
            })
        );
    }

    #[test]
    fn unknown_fields_are_kept_where_the_schema_says_so() {
        let schema = json!({"type": "object", "properties": {
            "free": {"x-kubernetes-preserve-unknown-fields": true, "type": "object", "properties": {
                "strict": {"type": "object"},
            }},
            "any": {"type": "object", "additionalProperties": true},
            "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
        }});
        let object = json!({
            "free": {"a": {"b": 1}, "strict": {"c": 1}},
            "any": {"a": 1, "b": {"c": 1}},
            "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"x": 1}, "y": 1},
        });
        let (object, dropped) = pruned(&schema, object);
        assert_eq!(dropped, ["any.b.c", "free.strict.c", "pod.spec.x", "pod.y"]);
        assert_eq!(object["free"], json!({"a": {"b": 1}, "strict": {}}));
    }
}
