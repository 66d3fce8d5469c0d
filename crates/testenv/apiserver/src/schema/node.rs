//! A structural schema, parsed from JSON: a tree of one node per field, item or map value.
//!
//! Reading never fails: malformed parts were reported by earlier checks, and are left out here.

use std::collections::BTreeMap;

use serde_json::Value;

use super::format::Format;
use super::pattern::Pattern;
use super::value_type::Type;

/// The schema of one place.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// The allowed types: empty means all, and two stand for int-or-string.
    pub(crate) types: Vec<Type>,
    pub(crate) nullable: bool,
    pub(crate) format: Option<Format>,
    pub(crate) default: Option<Value>,
    /// Whether undeclared fields are kept.
    pub(crate) preserves_unknown: bool,
    /// Whether the value is an embedded resource.
    pub(crate) embedded: bool,
    pub(crate) map: MapKind,
    pub(crate) properties: BTreeMap<String, Node>,
    pub(crate) additional: Option<Additional>,
    pub(crate) items: Option<Box<Node>>,
    pub(crate) list: List,
    pub(crate) number: Number,
    pub(crate) text: Text,
    pub(crate) required: Vec<String>,
    pub(crate) min_properties: Option<i64>,
    pub(crate) max_properties: Option<i64>,
    pub(crate) choices: Vec<Value>,
    pub(crate) all_of: Vec<Node>,
    pub(crate) any_of: Vec<Node>,
    pub(crate) one_of: Vec<Node>,
    pub(crate) not: Option<Box<Node>>,
}

/// The schema of undeclared fields.
#[derive(Debug)]
pub(crate) enum Additional {
    /// `additionalProperties: true`.
    Allowed,
    /// `additionalProperties: false`.
    Refused,
    /// All of them follow this schema.
    Schema(Box<Node>),
}

/// The constraints of a list as a whole.
#[derive(Debug, Default)]
pub(crate) struct List {
    pub(crate) min: Option<i64>,
    pub(crate) max: Option<i64>,
    pub(crate) unique: bool,
    pub(crate) kind: ListKind,
}

/// `x-kubernetes-list-type`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum ListKind {
    #[default]
    Atomic,
    Set,
    /// A keyed list, with the names of its key fields.
    Map(Vec<String>),
}

/// `x-kubernetes-map-type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MapKind {
    /// Server-side apply merges the fields.
    #[default]
    Granular,
    /// Server-side apply replaces the value as a whole.
    Atomic,
}

/// The constraints of a number.
#[derive(Debug, Default)]
pub(crate) struct Number {
    pub(crate) min: Option<Bound>,
    pub(crate) max: Option<Bound>,
    pub(crate) multiple_of: Option<f64>,
}

/// The limit of a range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) limit: f64,
    pub(crate) exclusive: bool,
}

/// The constraints of a string.
#[derive(Debug, Default)]
pub(crate) struct Text {
    pub(crate) min: Option<i64>,
    pub(crate) max: Option<i64>,
    pub(crate) pattern: Option<Pattern>,
}

impl Node {
    /// Reads a schema.
    pub(crate) fn read(schema: &Value) -> Self {
        let types = if flag(schema, "x-kubernetes-int-or-string") {
            vec![Type::Integer, Type::String]
        } else {
            schema["type"].as_str().and_then(Type::parse).into_iter().collect()
        };
        Self {
            format: schema["format"].as_str().and_then(|name| Format::new(name, &types)),
            types,
            nullable: flag(schema, "nullable"),
            default: schema.get("default").filter(|value| !value.is_null()).cloned(),
            preserves_unknown: flag(schema, "x-kubernetes-preserve-unknown-fields"),
            embedded: flag(schema, "x-kubernetes-embedded-resource"),
            map: MapKind::read(schema),
            properties: schema["properties"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, schema)| (name.clone(), Self::read(schema)))
                .collect(),
            additional: Additional::read(&schema["additionalProperties"]),
            items: schema["items"].is_object().then(|| Box::new(Self::read(&schema["items"]))),
            list: List::read(schema),
            number: Number::read(schema),
            text: Text {
                min: whole(schema, "minLength"),
                max: whole(schema, "maxLength"),
                pattern: schema["pattern"]
                    .as_str()
                    .filter(|text| !text.is_empty())
                    .and_then(|text| Pattern::new(text).ok()),
            },
            required: texts(schema, "required"),
            min_properties: whole(schema, "minProperties"),
            max_properties: whole(schema, "maxProperties"),
            choices: schema["enum"].as_array().cloned().unwrap_or_default(),
            all_of: Self::read_all(&schema["allOf"]),
            any_of: Self::read_all(&schema["anyOf"]),
            one_of: Self::read_all(&schema["oneOf"]),
            not: schema["not"].is_object().then(|| Box::new(Self::read(&schema["not"]))),
        }
    }

    /// Returns the schema of a field, declared by name or common to all fields.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        match (self.properties.get(name), &self.additional) {
            (Some(node), _) => Some(node),
            (None, Some(Additional::Schema(node))) => Some(node),
            _ => None,
        }
    }

    fn read_all(schemas: &Value) -> Vec<Self> {
        schemas.as_array().into_iter().flatten().map(Self::read).collect()
    }
}

impl Additional {
    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(true) => Some(Self::Allowed),
            Value::Bool(false) => Some(Self::Refused),
            Value::Object(_) => Some(Self::Schema(Box::new(Node::read(value)))),
            _ => None,
        }
    }

    /// Returns the schema that all fields follow, if there is one.
    pub(crate) fn schema(&self) -> Option<&Node> {
        match self {
            Self::Schema(node) => Some(node),
            Self::Allowed | Self::Refused => None,
        }
    }
}

impl List {
    fn read(schema: &Value) -> Self {
        let kind = match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => ListKind::Set,
            Some("map") => ListKind::Map(texts(schema, "x-kubernetes-list-map-keys")),
            _ => ListKind::Atomic,
        };
        Self {
            min: whole(schema, "minItems"),
            max: whole(schema, "maxItems"),
            unique: flag(schema, "uniqueItems"),
            kind,
        }
    }
}

impl MapKind {
    fn read(schema: &Value) -> Self {
        if schema["x-kubernetes-map-type"] == "atomic" { Self::Atomic } else { Self::Granular }
    }
}

impl Number {
    fn read(schema: &Value) -> Self {
        let bound = |limit: &str, exclusive: &str| {
            let limit = schema[limit].as_f64()?;
            Some(Bound { limit, exclusive: flag(schema, exclusive) })
        };
        Self {
            min: bound("minimum", "exclusiveMinimum"),
            max: bound("maximum", "exclusiveMaximum"),
            multiple_of: schema["multipleOf"].as_f64(),
        }
    }
}

pub(crate) fn flag(schema: &Value, name: &str) -> bool {
    schema[name] == Value::Bool(true)
}

pub(crate) fn texts(schema: &Value, name: &str) -> Vec<String> {
    let items = schema[name].as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(ToOwned::to_owned).collect()
}

fn whole(schema: &Value, name: &str) -> Option<i64> {
    schema[name].as_i64()
}
