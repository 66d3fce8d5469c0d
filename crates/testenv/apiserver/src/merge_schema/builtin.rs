//! Merge rules of the fields of built-in kinds, and the empty objects of these kinds.

use serde_json::{Map, Value};

use super::{Expected, Field, Form, Key, MergeSchema};
use crate::kind::Kind;
use crate::kinds::shape::table::{
    ApplyMarkers, Field as Member, ListIdentity, OBJECT_META, Shape, TABLE, Table, Type,
};

/// The merge rules of a built-in type, or of a field of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuiltInMergeSchema {
    of: Of,
    /// The rules that the field adds to those of its type, if this is a field.
    merging: Option<&'static ApplyMarkers>,
}

/// The type of a value.
#[derive(Clone, Copy, Debug)]
enum Of {
    Type(&'static Type),
    Shape(&'static Shape),
}

impl BuiltInMergeSchema {
    /// Returns the rules of whole objects of a kind in one of its versions.
    pub(crate) fn of_kind(kind: &Kind, version: &str) -> Option<Self> {
        let table: &'static Table = &TABLE;
        let name = table.kind(&kind.api_version(version), &kind.kind)?;
        Some(Self { of: Of::Type(table.get(name)), merging: None })
    }

    /// Returns the rules of the metadata of any object.
    pub(crate) fn metadata() -> Self {
        let table: &'static Table = &TABLE;
        Self { of: Of::Type(table.get(OBJECT_META)), merging: None }
    }

    /// Returns what Go encodes for an object without any values: it has the structs that are
    /// embedded by value, and not those behind pointers.
    pub(crate) fn empty_object(kind: &Kind, version: &str) -> Value {
        match Self::of_kind(kind, version) {
            Some(Self { of: Of::Type(of), .. }) => empty(of),
            _ => Value::Object(Map::new()),
        }
    }

    pub(crate) fn form(self, value: &Value) -> Form {
        let atomic = self.merging.and_then(|merging| merging.atomic);
        match self.of {
            Of::Type(of) if atomic.unwrap_or(of.atomic) => Form::Leaf,
            Of::Shape(Shape::Map(..)) if atomic == Some(true) => Form::Leaf,
            Of::Type(_) | Of::Shape(Shape::Map(..)) => Form::Map,
            Of::Shape(Shape::List(..)) => match self.merging.map(|merging| &merging.list) {
                None | Some(ListIdentity::Atomic) => Form::Leaf,
                Some(ListIdentity::Set) => Form::Set,
                Some(ListIdentity::Keyed(_)) => Form::Keyed,
            },
            // Server-side apply treats a `RawExtension` as one value, whatever it contains.
            Of::Shape(Shape::Any) => Form::Leaf,
            Of::Shape(shape) if is_open(shape) => MergeSchema::Open.form(value),
            Of::Shape(_) => Form::Leaf,
        }
    }

    pub(crate) fn expected(self) -> Expected {
        match self.of {
            Of::Type(_) | Of::Shape(Shape::Map(..)) => Expected::Map,
            Of::Shape(Shape::List(..)) => Expected::List,
            Of::Shape(Shape::Int32(_) | Shape::Int64(_) | Shape::Float(_) | Shape::Byte) => {
                Expected::Number
            }
            Of::Shape(Shape::String(_) | Shape::Bytes) => Expected::Text,
            Of::Shape(Shape::Bool(_)) => Expected::Flag,
            Of::Shape(shape) if is_open(shape) => Expected::Any,
            Of::Shape(_) => Expected::Scalar,
        }
    }

    pub(crate) fn field(self, name: &str) -> Option<Field<'static>> {
        match self.of {
            Of::Type(of) => {
                let member = of.field(name)?;
                let place = Self::new(&member.shape, Some(&member.merging));
                Some(Field { place: MergeSchema::BuiltIn(place), named: true })
            }
            Of::Shape(Shape::Map(_, _, values)) => {
                let place = Self::new(values, None);
                Some(Field { place: MergeSchema::BuiltIn(place), named: false })
            }
            Of::Shape(shape) if is_open(shape) => MergeSchema::Open.field(name),
            Of::Shape(_) => None,
        }
    }

    pub(crate) fn item(self) -> MergeSchema<'static> {
        match self.of {
            Of::Shape(Shape::List(_, items)) => MergeSchema::BuiltIn(Self::new(items, None)),
            _ => MergeSchema::Open,
        }
    }

    pub(crate) fn keys(self) -> Vec<Key<'static>> {
        let Some(ListIdentity::Keyed(names)) = self.merging.map(|merging| &merging.list) else {
            return Vec::new();
        };
        let of = match self.item() {
            MergeSchema::BuiltIn(Self { of: Of::Type(of), .. }) => Some(of),
            _ => None,
        };
        let default = |name: &str| of.and_then(|of| of.field(name)).and_then(default);
        names.iter().map(|&name| Key { name, default: default(name) }).collect()
    }

    fn new(shape: &'static Shape, merging: Option<&'static ApplyMarkers>) -> Self {
        let table: &'static Table = &TABLE;
        let of = match shape {
            Shape::Struct(name) => Of::Type(table.get(name)),
            shape => Of::Shape(shape),
        };
        Self { of, merging }
    }
}

/// Returns whether a value has no type.
fn is_open(shape: &Shape) -> bool {
    matches!(shape, Shape::Any | Shape::Schemas | Shape::SchemaOrBool | Shape::SchemaOrTexts)
}

/// Returns the value of a missing field. Fields that Go always writes are then empty.
fn default(member: &'static Member) -> Option<Value> {
    match (member.default, &member.shape) {
        (Some(text), _) => Some(text.into()),
        (None, _) if !member.always => None,
        (None, Shape::String(_)) => Some("".into()),
        (None, Shape::Int32(_) | Shape::Int64(_)) => Some(0.into()),
        (None, _) => None,
    }
}

/// Returns an empty struct. This ends: types contain themselves only through pointers, lists and
/// maps.
fn empty(of: &Type) -> Value {
    let always = of.fields.iter().filter(|member| member.always);
    let value = |member: &Member| match &member.shape {
        Shape::Struct(name) => empty(TABLE.get(name)),
        Shape::String(_) => "".into(),
        Shape::Bool(_) => false.into(),
        Shape::Int32(_) | Shape::Int64(_) | Shape::IntOrString => 0.into(),
        _ => Value::Null,
    };
    Value::Object(always.map(|member| (member.name.to_owned(), value(member))).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::builtin;

    fn kind(plural: &str) -> Kind {
        let found = builtin().into_iter().find(|kind| kind.plural == plural);
        found.expect("the kind must be built in")
    }

    fn at(plural: &str, path: &[&str]) -> MergeSchema<'static> {
        let root =
            BuiltInMergeSchema::of_kind(&kind(plural), "v1").expect("the kind must have a shape");
        path.iter().fold(MergeSchema::BuiltIn(root), |place, &name| match name {
            "[]" => place.item(),
            name => place.field(name).expect("the field must exist").place,
        })
    }

    fn key_names(place: &MergeSchema<'static>) -> Vec<&'static str> {
        place.keys().iter().map(|key| key.name).collect()
    }

    #[test]
    fn lists_of_a_pod_merge_by_their_keys() {
        let spec = ["spec", "template", "spec", "containers"];
        let containers = at("deployments", &spec);
        assert_eq!(containers.form(&json!([])), Form::Keyed);
        assert_eq!(key_names(&containers), ["name"]);
        let ports = at("deployments", &[&spec[..], &["[]", "ports"]].concat());
        assert_eq!(key_names(&ports), ["containerPort", "protocol"]);
        assert_eq!(ports.keys()[1].default, Some(json!("TCP")));
        let args = at("deployments", &[&spec[..], &["[]", "args"]].concat());
        assert_eq!(args.form(&json!([])), Form::Leaf);
    }

    #[test]
    fn maps_merge_unless_atomic() {
        assert_eq!(at("deployments", &["metadata", "labels"]).form(&json!({})), Form::Map);
        assert_eq!(at("deployments", &["spec", "selector"]).form(&json!({})), Form::Leaf);
        assert_eq!(at("services", &["spec", "selector"]).form(&json!({})), Form::Leaf);
        assert_eq!(at("configmaps", &["data"]).form(&json!({})), Form::Map);
        assert_eq!(at("pods", &["metadata", "finalizers"]).form(&json!([])), Form::Set);
    }

    #[test]
    fn entries_of_maps_have_no_names_and_fields_of_structs_do() {
        let named = |place: &MergeSchema<'_>, name| place.field(name).map(|field| field.named);
        assert_eq!(named(&at("configmaps", &[]), "data"), Some(true));
        assert_eq!(named(&at("configmaps", &["data"]), "anything"), Some(false));
        assert_eq!(named(&at("configmaps", &[]), "bogus"), None);
    }

    #[test]
    fn empty_objects_have_the_structs_that_are_in_them() {
        let empty = BuiltInMergeSchema::empty_object(&kind("deployments"), "v1");
        assert_eq!(empty["spec"]["template"]["spec"], json!({"containers": null}));
        assert_eq!(empty["spec"]["strategy"], json!({}));
        assert_eq!(empty["spec"].get("replicas"), None);
        assert_eq!(empty["metadata"], json!({}));
    }
}
