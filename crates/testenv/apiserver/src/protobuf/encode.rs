//! Encodes JSON as a message, byte for byte as Go encodes the same struct: fields are sorted by
//! number, map keys are sorted, and fields that are not pointers are written even if they are
//! empty.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use super::special;
use super::table::{Field, Form, Message, Table, Type};
use super::wire::{WireType, put_bytes, put_tag, put_varint};

/// Encodes an object. Fields that the message does not have are left out.
///
/// # Errors
/// Returns the name of a field with a value of a wrong type.
pub(super) fn object(
    table: &Table,
    message: &Message,
    object: &Map<String, Value>,
) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    for field in &message.fields {
        put_field(table, field, object, &mut out)
            .map_err(|why| format!("{}.{}: {why}", message.struct_name(), field.go_name))?;
    }
    Ok(out)
}

fn put_field(
    table: &Table,
    field: &Field,
    object: &Map<String, Value>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let Some(name) = field.json else {
        let Type::Message(inner) = field.kind else {
            unreachable!("only messages stand in the place of a field");
        };
        put_bytes(out, field.number, &self::object(table, table.get(inner), object)?);
        return Ok(());
    };
    let value = object.get(name).filter(|value| !value.is_null());
    match (&field.kind, value) {
        (Type::List(_) | Type::Map(_) | Type::Bytes, None) => Ok(()),
        (_, None) if field.pointer => Ok(()),
        (Type::List(item), Some(Value::Array(items))) => {
            items.iter().try_for_each(|value| put_value(table, item, field.number, value, out))
        }
        (Type::Map(kind), Some(Value::Object(map))) => {
            // Keys are sorted by their bytes, in whatever order the map has them.
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            entries.into_iter().try_for_each(|(key, value)| {
                let mut entry = Vec::new();
                put_bytes(&mut entry, 1, key.as_bytes());
                put_value(table, kind, 2, value, &mut entry)?;
                put_bytes(out, field.number, &entry);
                Ok(())
            })
        }
        (Type::List(_) | Type::Map(_), Some(_)) => Err("the value is of another type".to_owned()),
        (kind, value) => put_value(table, kind, field.number, value.unwrap_or(&Value::Null), out),
    }
}

/// Encodes one value. A null counts as empty.
fn put_value(
    table: &Table,
    kind: &Type,
    number: u32,
    value: &Value,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let wrong = || "the value is of another type".to_owned();
    match kind {
        Type::String => {
            let text = if value.is_null() { "" } else { value.as_str().ok_or_else(wrong)? };
            put_bytes(out, number, text.as_bytes());
        }
        Type::Bytes => {
            let text = if value.is_null() { "" } else { value.as_str().ok_or_else(wrong)? };
            let bytes = BASE64_STANDARD.decode(text).map_err(|error| error.to_string())?;
            put_bytes(out, number, &bytes);
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
            put_bytes(out, number, &message(table, table.get(*inner), value)?);
        }
        Type::List(_) | Type::Map(_) => unreachable!("lists do not hold lists"),
    }
    Ok(())
}

fn message(table: &Table, message: &Message, value: &Value) -> Result<Vec<u8>, String> {
    match (message.form, value) {
        (Form::Special(special), value) => match special::from_json(special, value)? {
            Some(fields) => object(table, message, &fields),
            None => Ok(Vec::new()),
        },
        (_, Value::Null) => object(table, message, &Map::new()),
        (Form::Struct, Value::Object(fields)) => object(table, message, fields),
        (Form::List, Value::Array(_)) => {
            let fields = Map::from_iter([("items".to_owned(), value.clone())]);
            object(table, message, &fields)
        }
        _ => Err("the value is of another type".to_owned()),
    }
}
