//! Encodes JSON as a message, byte for byte as Go encodes the same object: fields are sorted by
//! number, map keys are sorted, and fields that are not pointers are written even if they are
//! empty.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::envelope::Envelope;
use crate::error::{Error, Reason};
use crate::special::ZERO_SECONDS;
use crate::table::{Field, Form, Message, Repeat, TABLE, Type};
use crate::wire::{WireType, put_bytes, put_tag, put_varint};

/// Encodes an object of a built-in kind, in its envelope.
///
/// # Errors
/// Returns an error if the object has no kind that is in the table, or a field that is not, or a
/// value of the wrong type.
pub fn from_json(object: &Map<String, Value>) -> Result<Vec<u8>, Error> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let raw = raw_from_json(api_version, kind, object)?;
    Ok(Envelope::new(api_version, kind, &raw).to_bytes())
}

/// Encodes the message of a built-in kind, without an envelope.
///
/// # Errors
/// As [`from_json`].
pub fn raw_from_json(
    api_version: &str,
    kind: &str,
    object: &Map<String, Value>,
) -> Result<Vec<u8>, Error> {
    fields(crate::message(api_version, kind)?, object)
}

/// Encodes all fields of a message.
fn fields(message: &Message, object: &Map<String, Value>) -> Result<Vec<u8>, Error> {
    for name in object.keys() {
        let is_known = message.is_kind && (name == "kind" || name == "apiVersion");
        if !is_known && !message.has(name) {
            let field = name.clone();
            return Err(Reason::UnknownName { message: message.name, field }.into());
        }
    }
    let mut out = Vec::new();
    put_fields(message, object, &mut out)?;
    Ok(out)
}

fn put_fields(
    message: &Message,
    object: &Map<String, Value>,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    for field in &message.fields {
        if let Some(inner) = field.inlined() {
            let mut content = Vec::new();
            put_fields(inner, object, &mut content)?;
            if !field.pointer || !content.is_empty() {
                put_bytes(out, field.number, &content);
            }
            continue;
        }
        let value = object.get(field.name).filter(|value| !value.is_null());
        put_field(field, value, out).map_err(|error| error.within(field.name))?;
    }
    Ok(())
}

fn put_field(field: &Field, value: Option<&Value>, out: &mut Vec<u8>) -> Result<(), Error> {
    match (field.repeat, value) {
        (Repeat::List | Repeat::Map, None) => Ok(()),
        (Repeat::Once, None) if field.pointer || field.item == Type::Bytes => Ok(()),
        (Repeat::List, Some(Value::Array(items))) => {
            items.iter().try_for_each(|value| put_value(field.item, field.number, value, out))
        }
        (Repeat::Map, Some(Value::Object(map))) => {
            // Keys are sorted by their bytes, in whatever order the map has them.
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            entries.into_iter().try_for_each(|(key, value)| {
                let mut entry = Vec::new();
                put_bytes(&mut entry, 1, key.as_bytes());
                put_value(field.item, 2, value, &mut entry)?;
                put_bytes(out, field.number, &entry);
                Ok(())
            })
        }
        (Repeat::List | Repeat::Map, Some(_)) => Err(Reason::Misfit.into()),
        (Repeat::Once, value) => {
            put_value(field.item, field.number, value.unwrap_or(&Value::Null), out)
        }
    }
}

/// Encodes one value. A null counts as empty.
fn put_value(kind: Type, number: u32, value: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
    let wrong = || Error::from(Reason::Misfit);
    match kind {
        Type::String => {
            let text = if value.is_null() { "" } else { value.as_str().ok_or_else(wrong)? };
            put_bytes(out, number, text.as_bytes());
        }
        Type::Bytes => {
            let text = if value.is_null() { "" } else { value.as_str().ok_or_else(wrong)? };
            put_bytes(out, number, &BASE64_STANDARD.decode(text).map_err(|_| wrong())?);
        }
        Type::Bool | Type::Int32 | Type::Int64 => {
            let numeral = match value {
                Value::Null => 0,
                Value::Bool(set) => i64::from(*set),
                value => value.as_i64().ok_or_else(wrong)?,
            };
            put_tag(out, number, WireType::Varint);
            put_varint(out, numeral.cast_unsigned());
        }
        Type::Double => {
            let numeral = if value.is_null() { 0.0 } else { value.as_f64().ok_or_else(wrong)? };
            put_tag(out, number, WireType::Fixed64);
            out.extend_from_slice(&numeral.to_le_bytes());
        }
        Type::Message(inner) => {
            put_bytes(out, number, &message(TABLE.get(inner), value)?);
        }
    }
    Ok(())
}

fn message(message: &Message, value: &Value) -> Result<Vec<u8>, Error> {
    match (message.form, value) {
        (Form::Struct, Value::Null) => fields(message, &Map::new()),
        (Form::Struct, Value::Object(object)) => fields(message, object),
        (Form::Struct, _) => Err(Reason::Misfit.into()),
        (Form::List, Value::Null) => Ok(Vec::new()),
        (Form::List, value) => {
            let mut out = Vec::new();
            put_field(&message.fields[0], Some(value), &mut out)?;
            Ok(out)
        }
        (form, value) => match special(form, value)? {
            Some(object) => fields(message, &object),
            None => Ok(Vec::new()),
        },
    }
}

/// Returns the fields of the message that Go encodes for a value, or `None` if it encodes no bytes
/// at all.
fn special(form: Form, value: &Value) -> Result<Option<Map<String, Value>>, Error> {
    let fields = match (form, value) {
        (Form::Quantity, Value::Null) => json!({"string": "0"}),
        (Form::IntOrString, Value::Null) => json!({}),
        (_, Value::Null) => return Ok(None),
        (Form::Time | Form::MicroTime, Value::String(text)) => {
            let time: Timestamp = text.parse().map_err(|_| Error::from(Reason::Misfit))?;
            let (seconds, nanos) = parts(time);
            if seconds == ZERO_SECONDS && nanos == 0 {
                return Ok(None);
            }
            let nanos = if form == Form::Time { 0 } else { nanos };
            json!({"seconds": seconds, "nanos": nanos})
        }
        (Form::Quantity, Value::String(text)) => json!({ "string": text }),
        (Form::Quantity, Value::Number(number)) => json!({"string": number.to_string()}),
        (Form::IntOrString, Value::Number(number)) => json!({"type": 0, "intVal": number}),
        (Form::IntOrString, Value::String(text)) => json!({"type": 1, "strVal": text}),
        (Form::Raw, value) => json!({"raw": BASE64_STANDARD.encode(value.to_string())}),
        (Form::SchemaOrSchemas, Value::Array(_)) => json!({ "jSONSchemas": value }),
        (Form::SchemaOrBool, Value::Bool(_)) => json!({ "allows": value }),
        (Form::SchemaOrBool, Value::Object(_)) => json!({"allows": true, "schema": value}),
        (Form::SchemaOrTexts, Value::Array(_)) => json!({ "property": value }),
        (Form::SchemaOrSchemas | Form::SchemaOrTexts, Value::Object(_)) => {
            json!({ "schema": value })
        }
        _ => return Err(Reason::Misfit.into()),
    };
    match fields {
        Value::Object(fields) => Ok(Some(fields)),
        _ => unreachable!("all fields above are objects"),
    }
}

/// Returns the seconds, rounded down, and the remaining nanoseconds.
fn parts(time: Timestamp) -> (i64, i64) {
    let (seconds, nanos) = (time.as_second(), i64::from(time.subsec_nanosecond()));
    if nanos < 0 { (seconds - 1, nanos + 1_000_000_000) } else { (seconds, nanos) }
}
