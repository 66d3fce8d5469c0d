//! Objects with every field set, for tests of what reads or writes objects.

use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::table::{Form, Message, Repeat, TABLE, Type};

/// Returns an object of a built-in kind in which every field is set, for tests. An API server would
/// not accept it: fields exclude each other, and names are of nothing.
///
/// Where messages contain themselves, as schemas do, it ends after one level.
///
/// # Errors
/// Returns an error if there is no such kind.
pub fn sample(api_version: &str, kind: &str) -> Result<Map<String, Value>, Error> {
    let message = crate::message(api_version, kind)?;
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    put_fields(message, &mut vec![message.name], &mut object);
    Ok(object)
}

/// Adds all fields of a message. `around` are the messages that it is in.
fn put_fields(
    message: &'static Message,
    around: &mut Vec<&'static str>,
    object: &mut Map<String, Value>,
) {
    for field in &message.fields {
        if let Some(inner) = field.inlined() {
            put_fields(inner, around, object);
            continue;
        }
        let Some(value) = value(field.item, field.name, around) else { continue };
        let value = match field.repeat {
            Repeat::Once => value,
            Repeat::List => Value::Array(vec![value.clone(), value]),
            Repeat::Map => json!({"a": value, "b/c": value}),
        };
        object.insert(field.name.to_owned(), value);
    }
}

/// Returns a value, or `None` if its message is around it.
fn value(kind: Type, name: &str, around: &mut Vec<&'static str>) -> Option<Value> {
    Some(match kind {
        // The names of fields are as good as any.
        Type::String => name.to_lowercase().into(),
        Type::Bytes => "AP8=".into(),
        Type::Bool => true.into(),
        Type::Int32 | Type::Int64 => 7.into(),
        Type::Double => 1.5.into(),
        Type::Message(message) => {
            let message = TABLE.get(message);
            match message.form {
                Form::Time => "2026-01-02T03:04:05Z".into(),
                Form::MicroTime => "2026-01-02T03:04:05.000006Z".into(),
                Form::Quantity => "1500m".into(),
                Form::IntOrString => "25%".into(),
                Form::Raw => json!({"f:a": {".": {}}, "b": [null, true, 1.5]}),
                Form::SchemaOrTexts => json!(["a", "b"]),
                Form::SchemaOrBool => true.into(),
                Form::SchemaOrSchemas => json!({"type": "string"}),
                Form::List => {
                    let item = value(message.fields[0].item, name, around)?;
                    Value::Array(vec![item])
                }
                Form::Struct if around.contains(&message.name) => return None,
                Form::Struct => {
                    let mut object = Map::new();
                    around.push(message.name);
                    put_fields(message, around, &mut object);
                    around.pop();
                    object.into()
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{from_raw, raw_from_json};

    #[test]
    fn samples_of_all_kinds_come_back() {
        for (api_version, kind) in crate::kinds() {
            let sample = sample(api_version, kind).expect("it is a kind");
            let raw = raw_from_json(api_version, kind, &sample).expect("it has its fields alone");
            let back: Value = from_raw(api_version, kind, &raw).expect("it was encoded");
            assert_eq!(back, Value::Object(sample), "{api_version} {kind}");
        }
    }
}
