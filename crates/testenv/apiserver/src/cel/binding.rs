//! Maps a schema to CEL: to the type that expressions are checked against, and to the values that
//! they see.
//!
//! Expressions see only what the schema describes: neither unknown fields that are preserved, nor
//! lists and maps of such values. [`escape`] returns the names of fields in expressions.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::keywords::is_keyword;
use super::types::{self, Type};
use super::value::{Key, List, Object, Order, Val};

/// Returns the name of a field in expressions, or `None` if it has none.
pub(super) fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if is_keyword(name) {
        return Some(format!("__{name}__"));
    }
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/');
    let escaped = || {
        let name = name.replace("__", "\0").replace('.', "__dot__").replace('-', "__dash__");
        name.replace('/', "__slash__").replace('\0', "__underscores__")
    };
    name.chars().all(known).then(escaped)
}

/// A schema as expressions see it.
#[derive(Debug)]
pub(super) struct Binding {
    shape: Shape,
    nullable: bool,
    /// The `type` of the schema, for messages.
    pub(super) type_name: String,
}

#[derive(Debug)]
enum Shape {
    /// A value that expressions cannot access.
    Unknown,
    IntOrString,
    Bool,
    Int,
    Double,
    Text(Format),
    List(Box<Binding>, Order),
    Map(Box<Binding>),
    Object(BTreeMap<String, Binding>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Plain,
    Bytes,
    Duration,
    Date,
    DateTime,
}

impl Binding {
    /// Reads a schema. The root of a resource always has `apiVersion`, `kind`, and `metadata` with
    /// `name` and `generateName`.
    pub(super) fn read(schema: &Json, root: bool) -> Self {
        let text = |name: &str| schema[name].as_str().unwrap_or_default();
        let shape = if schema["x-kubernetes-int-or-string"] == true {
            Shape::IntOrString
        } else {
            match text("type") {
                "array" => Self::list(schema),
                "object" => Self::object(schema, root),
                "boolean" => Shape::Bool,
                "integer" => Shape::Int,
                "number" => Shape::Double,
                "string" => Shape::Text(match text("format") {
                    "byte" => Format::Bytes,
                    "duration" => Format::Duration,
                    "date" => Format::Date,
                    "date-time" => Format::DateTime,
                    _ => Format::Plain,
                }),
                _ => Shape::Unknown,
            }
        };
        let nullable = schema["nullable"] == true;
        Self { shape, nullable, type_name: text("type").to_owned() }
    }

    fn list(schema: &Json) -> Shape {
        if !schema["items"].is_object() {
            return Shape::Unknown;
        }
        let order = match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => Order::Set,
            Some("map") => {
                let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
                let keys = keys.filter_map(Json::as_str);
                Order::Keyed(
                    keys.map(|key| escape(key).unwrap_or_else(|| key.to_owned())).collect(),
                )
            }
            _ => Order::Ordered,
        };
        Shape::List(Box::new(Self::read(&schema["items"], is_embedded(&schema["items"]))), order)
    }

    fn object(schema: &Json, root: bool) -> Shape {
        let additional = &schema["additionalProperties"];
        if additional.is_object() {
            return Shape::Map(Box::new(Self::read(additional, is_embedded(additional))));
        }
        let properties = schema["properties"].as_object().into_iter().flatten();
        let mut fields: BTreeMap<String, Self> = properties
            .map(|(name, field)| (name.clone(), Self::read(field, is_embedded(field))))
            .collect();
        if root {
            let text = || Self::read(&serde_json::json!({"type": "string"}), false);
            let is_text = |field: Option<&Self>| field.is_some_and(|f| f.type_name == "string");
            let complete = is_text(fields.get("kind"))
                && is_text(fields.get("apiVersion"))
                && fields.get("metadata").is_some_and(|metadata| match &metadata.shape {
                    Shape::Object(fields) => {
                        is_text(fields.get("name")) && is_text(fields.get("generateName"))
                    }
                    _ => false,
                });
            if !complete {
                let metadata = [("name", text()), ("generateName", text())];
                let metadata = metadata.map(|(name, field)| (name.to_owned(), field));
                let metadata = Self {
                    shape: Shape::Object(metadata.into()),
                    nullable: false,
                    type_name: "object".to_owned(),
                };
                fields.insert("kind".to_owned(), text());
                fields.insert("apiVersion".to_owned(), text());
                fields.insert("metadata".to_owned(), metadata);
            }
        }
        Shape::Object(fields)
    }

    /// Returns the type of the values, or `None` if expressions do not see them. `name` is the name
    /// of an object type.
    pub(super) fn declared(&self, name: &str) -> Option<Type> {
        Some(match &self.shape {
            Shape::Unknown => return None,
            Shape::IntOrString => Type::Dyn,
            Shape::Bool => Type::Bool,
            Shape::Int => Type::Int,
            Shape::Double => Type::Double,
            Shape::Text(Format::Plain) => Type::String,
            Shape::Text(Format::Bytes) => Type::Bytes,
            Shape::Text(Format::Duration) => Type::Duration,
            Shape::Text(Format::Date | Format::DateTime) => Type::Timestamp,
            Shape::List(item, _) => Type::list(item.declared(&format!("{name}.@idx"))?),
            Shape::Map(value) => Type::map(Type::String, value.declared(&format!("{name}.@elem"))?),
            Shape::Object(fields) => {
                let fields = fields.iter().filter_map(|(field, binding)| {
                    let field = escape(field)?;
                    let declared = binding.declared(&format!("{name}.{field}"))?;
                    Some((field, declared))
                });
                let fields = fields.collect();
                Type::Object(Arc::new(types::Object { name: name.to_owned(), fields }))
            }
        })
    }

    /// Returns the value that expressions see. The error says why there is none.
    pub(super) fn value(&self, json: &Json) -> Result<Val, String> {
        if json.is_null() {
            return if self.nullable {
                Ok(Val::Null)
            } else {
                Err("invalid data, got null for schema with nullable=false".to_owned())
            };
        }
        let wrong = |expected: &str| format!("invalid data, expected {expected}");
        Ok(match (&self.shape, json) {
            (Shape::IntOrString | Shape::Text(Format::Plain), Json::String(text)) => {
                Val::text(text)
            }
            (Shape::IntOrString | Shape::Int, Json::Number(number)) => {
                Val::Int(number.as_i64().ok_or_else(|| wrong("int"))?)
            }
            (Shape::Bool, Json::Bool(flag)) => Val::Bool(*flag),
            (Shape::Double, Json::Number(number)) => {
                Val::Double(number.as_f64().ok_or_else(|| wrong("float"))?)
            }
            (Shape::Text(format), Json::String(text)) => formatted(*format, text)?,
            (Shape::List(item, order), Json::Array(items)) => {
                let items = items.iter().map(|one| item.value(one)).collect::<Result<_, _>>()?;
                Val::List(Arc::new(List { items, order: order.clone() }))
            }
            (Shape::Map(value), Json::Object(fields)) => {
                let entries = fields.iter().map(|(name, field)| {
                    Ok((Key::String(name.as_str().into()), value.value(field)?))
                });
                Val::Map(Arc::new(entries.collect::<Result<_, String>>()?))
            }
            (Shape::Object(shapes), Json::Object(fields)) => {
                Val::Object(Arc::new(object(shapes, fields)?))
            }
            (shape, _) => return Err(wrong(shape.expected())),
        })
    }
}

impl Shape {
    fn expected(&self) -> &'static str {
        match self {
            Self::Unknown => "a type",
            Self::IntOrString => "XIntOrString value to be either a string or integer",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Double => "float",
            Self::Text(_) => "string",
            Self::List(..) => "an array for the provided schema with type=array",
            Self::Map(_) | Self::Object(_) => "a map for the provided schema with type=object",
        }
    }
}

/// Whether the values of a schema are embedded resources.
pub(super) fn is_embedded(schema: &Json) -> bool {
    schema["x-kubernetes-embedded-resource"] == true
}

/// Returns an object. Null fields, and fields without a type or a name in expressions, are hidden.
fn object(
    shapes: &BTreeMap<String, Binding>,
    fields: &Map<String, Json>,
) -> Result<Object, String> {
    let mut object = Object::default();
    for (name, json) in fields {
        let shown = shapes.get(name).zip(escape(name));
        match shown {
            Some((binding, name)) if !json.is_null() && !binding.is_hidden() => {
                object.fields.insert(name, binding.value(json)?);
            }
            _ => {
                object.hidden.insert(name.clone(), json.clone());
            }
        }
    }
    Ok(object)
}

impl Binding {
    fn is_hidden(&self) -> bool {
        match &self.shape {
            Shape::Unknown => true,
            Shape::List(inner, _) | Shape::Map(inner) => inner.is_hidden(),
            _ => false,
        }
    }
}

fn formatted(format: Format, text: &str) -> Result<Val, String> {
    use base64::Engine as _;
    match format {
        Format::Plain => Ok(Val::text(text)),
        Format::Bytes => {
            let decoded = base64::engine::general_purpose::STANDARD.decode(text);
            let decoded =
                decoded.map_err(|why| format!("Invalid byte formatted string {text}: {why}"))?;
            Ok(Val::Bytes(decoded.into()))
        }
        Format::Duration => foreign("duration", text)
            .map_err(|()| format!("Invalid duration {text}: unable to parse {text} as duration")),
        Format::Date => foreign("timestamp", &format!("{text}T00:00:00Z"))
            .map_err(|()| format!("Invalid date formatted string {text}")),
        Format::DateTime => {
            // The format allows lower case letters, but the function does not.
            foreign("timestamp", &text.to_ascii_uppercase())
                .map_err(|()| format!("Invalid date-time formatted string {text}"))
        }
    }
}

fn foreign(function: &str, text: &str) -> Result<Val, ()> {
    super::library::call(function, None, &[Val::text(text)]).map_err(drop)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_escaped_as_kubernetes_does() {
        for (name, escaped) in [
            ("plain", Some("plain")),
            ("snake_case", Some("snake_case")),
            ("namespace", Some("__namespace__")),
            ("a.b", Some("a__dot__b")),
            ("a-b/c", Some("a__dash__b__slash__c")),
            ("a__b", Some("a__underscores__b")),
            ("a___b", Some("a__underscores___b")),
            ("1a", None),
            ("ä", None),
            ("", None),
        ] {
            assert_eq!(escape(name).as_deref(), escaped, "{name}");
        }
    }

    #[test]
    fn formats_have_types_of_their_own() {
        let schema = json!({"type": "object", "properties": {
            "at": {"type": "string", "format": "date-time"}, "raw": {"x-kubernetes-preserve-unknown-fields": true}}});
        let binding = Binding::read(&schema, false);
        let Ok(Val::Object(object)) =
            binding.value(&json!({"at": "2024-01-01t00:00:00z", "raw": 1}))
        else {
            panic!("an object must be read");
        };
        assert!(matches!(object.fields["at"], Val::Foreign(kube_cel::cel::Value::Timestamp(_))));
        assert_eq!(object.hidden["raw"], 1);
    }
}
