//! Merge rules of the fields of custom resources, as defined by their schema.

use serde_json::Value;

use super::builtin::BuiltInMergeSchema;
use super::{Expected, Field, Form, Key, MergeSchema};
use crate::schema::node::{Additional, ListKind, MapKind, Node};
use crate::schema::value_type::Type;

/// The merge rules of one node of a schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CustomMergeSchema<'a> {
    node: &'a Node,
    /// Whether the node is a whole object: the resource itself, or an embedded resource.
    whole: bool,
    /// Whether undeclared fields are kept, because this node or one of its ancestors says so.
    keeps: bool,
}

impl<'a> CustomMergeSchema<'a> {
    pub(super) fn root(node: &'a Node) -> Self {
        Self { node, whole: true, keeps: node.preserves_unknown }
    }

    pub(crate) fn form(self, value: &Value) -> Form {
        let by_value = match value {
            Value::Array(_) => Expected::List,
            Value::Object(_) | Value::Null => Expected::Map,
            _ => Expected::Scalar,
        };
        let expected = match self.expected() {
            Expected::Any => by_value,
            expected => expected,
        };
        match expected {
            Expected::Map if self.node.map == MapKind::Atomic => Form::Leaf,
            Expected::Map => Form::Map,
            Expected::List => match self.node.list.kind {
                ListKind::Atomic => Form::Leaf,
                ListKind::Set => Form::Set,
                ListKind::Map(_) => Form::Keyed,
            },
            _ => Form::Leaf,
        }
    }

    pub(crate) fn expected(self) -> Expected {
        match self.node.types.as_slice() {
            [] => Expected::Any,
            [Type::Array] => Expected::List,
            [Type::Object] => Expected::Map,
            [Type::Boolean] => Expected::Flag,
            [Type::Integer | Type::Number] => Expected::Number,
            [Type::String] if self.node.format.is_none() => Expected::Text,
            _ => Expected::Scalar,
        }
    }

    pub(crate) fn field(self, name: &str) -> Option<Field<'a>> {
        if self.whole {
            match name {
                "apiVersion" | "kind" => {
                    return Some(Field { place: MergeSchema::Text, named: true });
                }
                "metadata" => {
                    let place = MergeSchema::BuiltIn(BuiltInMergeSchema::metadata());
                    return Some(Field { place, named: true });
                }
                _ => {}
            }
        }
        if let Some(node) = self.node.properties.get(name) {
            return Some(Field { place: self.below(node), named: true });
        }
        let place = match &self.node.additional {
            Some(Additional::Schema(node)) => self.below(node),
            Some(Additional::Allowed) => MergeSchema::Open,
            None if self.keeps || self.node.properties.is_empty() => MergeSchema::Open,
            Some(Additional::Refused) | None => return None,
        };
        Some(Field { place, named: false })
    }

    pub(crate) fn item(self) -> MergeSchema<'a> {
        self.node.items.as_deref().map_or(MergeSchema::Open, |node| self.below(node))
    }

    pub(crate) fn keys(self) -> Vec<Key<'a>> {
        let ListKind::Map(names) = &self.node.list.kind else { return Vec::new() };
        let items = self.node.items.as_deref();
        let default = |name: &str| items?.properties.get(name)?.default.clone();
        names.iter().map(|name| Key { name, default: default(name) }).collect()
    }

    fn below(self, node: &'a Node) -> MergeSchema<'a> {
        let keeps = self.keeps || node.preserves_unknown;
        MergeSchema::Custom(Self { node, whole: node.embedded, keeps })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::Schema;

    fn schema() -> Schema {
        let keyed = json!({
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name", "zone"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "zone": {"type": "string", "default": "z"},
                },
            },
        });
        let text = json!({"type": "string"});
        let schema = json!({
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {
                "keyed": keyed,
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
                "list": {"type": "array", "items": text},
                "atomic": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "additionalProperties": text,
                },
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "port": {"x-kubernetes-int-or-string": true},
            }}},
        });
        Schema::parse(&schema).expect("the schema must be valid")
    }

    fn at<'a>(schema: &'a Schema, path: &[&str]) -> MergeSchema<'a> {
        let root = MergeSchema::of_schema(schema);
        path.iter()
            .fold(root, |place, name| place.field(name).expect("the field must be declared").place)
    }

    #[test]
    fn lists_and_maps_merge_as_the_schema_says() {
        let schema = schema();
        let form = |name: &str, value: Value| at(&schema, &["spec", name]).form(&value);
        assert_eq!(form("keyed", json!([])), Form::Keyed);
        assert_eq!(form("set", json!([])), Form::Set);
        assert_eq!(form("list", json!([])), Form::Leaf);
        assert_eq!(form("atomic", json!({})), Form::Leaf);
        assert_eq!(form("open", json!({})), Form::Map);
        assert_eq!(form("port", json!(1)), Form::Leaf);
    }

    #[test]
    fn keys_have_the_defaults_of_their_fields() {
        let schema = schema();
        let keys = at(&schema, &["spec", "keyed"]).keys();
        let zone = Key { name: "zone", default: Some(json!("z")) };
        assert_eq!(keys, [Key { name: "name", default: None }, zone]);
    }

    #[test]
    fn metadata_is_that_of_kubernetes_and_other_fields_must_be_declared() {
        let schema = schema();
        let finalizers = at(&schema, &["metadata", "finalizers"]);
        assert_eq!(finalizers.form(&json!([])), Form::Set);
        assert!(at(&schema, &["spec"]).field("bogus").is_none());
        let open = at(&schema, &["spec", "open", "any", "thing"]);
        assert_eq!(open.form(&json!({})), Form::Map);
    }
}
