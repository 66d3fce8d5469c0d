//! Decodes an object by its shape, as Go's decoder decodes a body into a struct.
//!
//! Go names a value in two ways. An unknown field is reported by its JSON path, with map keys and
//! list indices. A value of a wrong type is reported by the innermost struct and the names of the
//! fields on the way to it, including those of embedded structs, without keys and indices. The
//! first wrong value is reported after everything is read. But an error in a type with its own
//! decoder (a time, a quantity, a schema within a schema) ends the walk at once.
//!
//! The result of a strategic merge patch is converted instead of decoded, with the error texts of
//! another part of the real server ([`ErrorStyle`]).

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use super::table::{Field, Shape, Table, Type};
use super::{text, time};

/// The limit on unknown fields that are reported.
const UNKNOWN_FIELDS_MAX: usize = 100;

/// The type of an `OpenAPI` schema, which types with their own decoder contain.
const SCHEMA: Shape = Shape::Struct("apiextensions.v1.JSONSchemaProps");

/// The decoder whose error texts are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErrorStyle {
    /// Go's JSON decoder.
    Decoder,
    /// The converter of apimachinery.
    Converter,
}

/// The state while one object is decoded.
pub(super) struct Walk<'a> {
    table: &'a Table,
    error_style: ErrorStyle,
    /// The paths of unknown fields.
    unknown: Vec<String>,
    /// The JSON path of the current value.
    path: String,
    /// The names of the fields on the way to it, as in Go's errors.
    stack: String,
    /// The innermost struct on the way to it.
    owner: &'static str,
    /// Whether the value is inside a type with its own decoder: then `owner` does not change, and
    /// unknown fields are not reported.
    inside: bool,
    /// The error of the first wrong value.
    wrong: Option<String>,
}

impl<'a> Walk<'a> {
    /// Returns a walk for decoding.
    pub(super) fn new(table: &'a Table) -> Self {
        Self {
            table,
            error_style: ErrorStyle::Decoder,
            unknown: Vec::new(),
            path: String::new(),
            stack: String::new(),
            owner: "",
            inside: false,
            wrong: None,
        }
    }

    /// Returns a walk for the result of a strategic merge patch.
    pub(super) fn converting(table: &'a Table) -> Self {
        Self { error_style: ErrorStyle::Converter, ..Self::new(table) }
    }

    /// Decodes an object of the named type, and returns the paths of unknown fields.
    pub(super) fn run(
        mut self,
        name: &'static str,
        object: &mut Value,
    ) -> Result<Vec<String>, String> {
        self.value(&Shape::Struct(name), object)?;
        self.wrong.map_or(Ok(self.unknown), Err)
    }

    /// Decodes a value that is not null. An error ends the walk.
    fn value(&mut self, shape: &Shape, value: &mut Value) -> Result<(), String> {
        match (shape, &mut *value) {
            (Shape::Any, _)
            | (Shape::String(_) | Shape::IntOrString, Value::String(_))
            | (Shape::Bool(_) | Shape::SchemaOrBool, Value::Bool(_))
            | (Shape::Float(_), Value::Number(_)) => {}
            (Shape::Int32(_), Value::Number(number)) if is_int32(number) => {}
            (Shape::Int64(_), Value::Number(number)) if number.is_i64() => {}
            // The converter truncates numbers that do not fit.
            (Shape::Int32(_), Value::Number(number))
                if self.error_style == ErrorStyle::Converter && number.is_i64() =>
            {
                *value = truncated(number);
            }
            (Shape::IntOrString, Value::Number(number)) if is_int32(number) => {}
            (Shape::Byte, Value::Number(number)) if number.as_u64().is_some_and(|n| n < 256) => {}
            (Shape::Bytes, Value::String(bytes)) => self.bytes(bytes),
            (Shape::Bytes, Value::Array(items)) => {
                self.list(&Shape::Byte, items)?;
                *value = in_base64(items);
            }
            (Shape::Time, Value::String(text)) => time::check(text, time::SECONDS)?,
            (Shape::MicroTime, Value::String(text)) => time::check(text, time::MICROSECONDS)?,
            (Shape::Quantity, _) => text::check_quantity(value)?,
            (Shape::List(_, items), Value::Array(values)) => self.list(items, values)?,
            (Shape::Map(_, _, values), Value::Object(fields)) => self.map(values, fields)?,
            (Shape::Struct(name), Value::Object(fields)) => {
                let table = self.table;
                self.fields(table.get(name), fields)?;
            }
            (Shape::Schemas | Shape::SchemaOrBool | Shape::SchemaOrTexts, Value::Object(_)) => {
                self.itself(&SCHEMA, value)?;
            }
            (Shape::Schemas, Value::Array(_)) => {
                self.itself(&Shape::List("", Box::new(SCHEMA)), value)?;
            }
            (Shape::SchemaOrTexts, Value::Array(_)) => {
                self.itself(&Shape::List("", Box::new(Shape::String(""))), value)?;
            }
            (Shape::SchemaOrBool, _) => return Err("boolean or JSON schema expected".to_owned()),
            // Go decodes anything else into an empty schema.
            (Shape::Schemas | Shape::SchemaOrTexts, other) => *other = Value::Null,
            // Their own decoders name another type in errors.
            (Shape::Time | Shape::MicroTime, other) => {
                return Err(self.own_decoder_error(&Shape::String(""), other));
            }
            (Shape::IntOrString, other) => {
                return Err(self.own_decoder_error(&Shape::Int32(""), other));
            }
            (_, other) => {
                let wrong = self.mismatch(shape, other);
                self.wrong.get_or_insert(wrong);
            }
        }
        Ok(())
    }

    /// Decodes the fields of a struct.
    fn fields(&mut self, of: &Type, fields: &mut Map<String, Value>) -> Result<(), String> {
        let (path, stack, owner) = (self.path.len(), self.stack.len(), self.owner);
        let mut is_clean = true;
        for (name, value) in fields.iter_mut() {
            let Some(field) = of.field(name) else {
                self.report_unknown(name);
                is_clean = false;
                continue;
            };
            if !value.is_null() {
                push(&mut self.path, name);
                push(&mut self.stack, field.inline);
                push(&mut self.stack, field.name);
                if !self.inside {
                    self.owner = of.struct_name();
                }
                self.value(&field.shape, value)?;
                self.path.truncate(path);
                self.stack.truncate(stack);
                self.owner = owner;
                if is_left_out(field, value) {
                    *value = Value::Null;
                }
            }
            is_clean &= !value.is_null();
        }
        if !is_clean {
            fields.retain(|name, value| !value.is_null() && of.field(name).is_some());
        }
        Ok(())
    }

    fn map(&mut self, shape: &Shape, fields: &mut Map<String, Value>) -> Result<(), String> {
        let path = self.path.len();
        for (name, value) in fields.iter_mut() {
            if self.error_style == ErrorStyle::Decoder {
                push(&mut self.path, name);
            }
            self.element(shape, value)?;
            self.path.truncate(path);
        }
        Ok(())
    }

    fn list(&mut self, shape: &Shape, items: &mut [Value]) -> Result<(), String> {
        let path = self.path.len();
        for (index, value) in items.iter_mut().enumerate() {
            let _ = write!(self.path, "[{index}]");
            self.element(shape, value)?;
            self.path.truncate(path);
        }
        Ok(())
    }

    /// Decodes an item of a list or a value of a map. A null becomes the zero value of its type.
    fn element(&mut self, shape: &Shape, value: &mut Value) -> Result<(), String> {
        if !value.is_null() {
            return self.value(shape, value);
        }
        *value = nothing(shape);
        Ok(())
    }

    /// Decodes the parts of a value whose Go type has its own decoder. An error ends the walk.
    fn itself(&mut self, shape: &Shape, value: &mut Value) -> Result<(), String> {
        let outside = (self.inside, self.wrong.take(), self.error_style, self.stack.clone());
        if self.error_style == ErrorStyle::Converter {
            self.stack.clear();
        }
        (self.inside, self.error_style) = (true, ErrorStyle::Decoder);
        self.value(shape, value)?;
        if let Some(wrong) = self.wrong.take() {
            return Err(wrong);
        }
        (self.inside, self.wrong, self.error_style, self.stack) = outside;
        Ok(())
    }

    /// Checks bytes, and removes the line breaks that base64 may have.
    fn bytes(&mut self, bytes: &mut String) {
        match text::check_base64(bytes) {
            Ok(()) => bytes.retain(|c| c != '\r' && c != '\n'),
            Err(wrong) => {
                let wrong = match self.error_style {
                    ErrorStyle::Decoder => wrong,
                    ErrorStyle::Converter => format!("error decoding from json: {wrong}"),
                };
                self.wrong.get_or_insert(wrong);
            }
        }
    }

    fn report_unknown(&mut self, name: &str) {
        if self.inside || self.unknown.len() >= UNKNOWN_FIELDS_MAX {
            return;
        }
        let mut path = self.path.clone();
        push(&mut path, name);
        // A key with a dot can give two fields the same path.
        if !self.unknown.contains(&path) {
            self.unknown.push(path);
        }
    }

    /// Returns the error of a type's own decoder. The converter calls that decoder without the path
    /// of the value.
    fn own_decoder_error(&mut self, shape: &Shape, value: &Value) -> String {
        if self.error_style == ErrorStyle::Converter {
            self.error_style = ErrorStyle::Decoder;
            self.stack.clear();
        }
        self.mismatch(shape, value)
    }

    fn mismatch(&self, shape: &Shape, value: &Value) -> String {
        if self.error_style == ErrorStyle::Converter {
            return converter_error(shape, value);
        }
        let found = match value {
            Value::Null => "null".to_owned(),
            Value::Bool(_) => "bool".to_owned(),
            // Only the errors for integers contain the number itself.
            Value::Number(number)
                if matches!(shape, Shape::Int32(_) | Shape::Int64(_) | Shape::Byte) =>
            {
                format!("number {number}")
            }
            Value::Number(_) => "number".to_owned(),
            Value::String(_) => "string".to_owned(),
            Value::Array(_) => "array".to_owned(),
            Value::Object(_) => "object".to_owned(),
        };
        let place = if self.stack.is_empty() {
            "value".to_owned()
        } else {
            format!("struct field {}.{}", self.owner, self.stack)
        };
        format!("json: cannot unmarshal {found} into Go {place} of type {}", shape.go_type())
    }
}

/// Whether Go omits a field from JSON: an empty list or map, unless its tag says otherwise.
fn is_left_out(field: &Field, value: &Value) -> bool {
    // Clients send empty managed fields to clear them.
    if field.always || field.name == "managedFields" {
        return false;
    }
    match (&field.shape, value) {
        (Shape::List(..), Value::Array(items)) => items.is_empty(),
        (Shape::Map(..), Value::Object(fields)) => fields.is_empty(),
        _ => false,
    }
}

/// Returns the converter's error for a value of a wrong type.
fn converter_error(shape: &Shape, value: &Value) -> String {
    let found = match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    };
    match (shape, found) {
        (Shape::Struct(_), _) => format!("cannot restore struct from: {found}"),
        (Shape::List(..) | Shape::Bytes, _) => format!("cannot restore slice from {found}"),
        (Shape::Map(..), _) => format!("cannot restore map from {found}"),
        // Go could convert these, but the converter does not allow it.
        (Shape::String(_), "int64") | (Shape::Int32(_) | Shape::Int64(_), "float64") => {
            format!("cannot convert {found} to {}", shape.go_type())
        }
        _ => format!("unrecognized type: {}", shape.go_kind()),
    }
}

/// Returns the low bits of an integer, to which Go truncates one that is too large.
fn truncated(number: &serde_json::Number) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "Go truncates it, too")]
    let low = number.as_i64().unwrap_or(0) as i32;
    low.into()
}

/// Appends a name to a path. An empty name adds nothing.
fn push(path: &mut String, name: &str) {
    if !path.is_empty() && !name.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

fn is_int32(number: &serde_json::Number) -> bool {
    number.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
}

/// Encodes bytes that were sent as numbers. Items that are not bytes have been reported already.
fn in_base64(items: &[Value]) -> Value {
    let byte = |item: &Value| item.as_u64().and_then(|number| u8::try_from(number).ok());
    let bytes: Vec<u8> = items.iter().filter_map(byte).collect();
    BASE64_STANDARD.encode(bytes).into()
}

/// Returns Go's zero value of a type.
fn nothing(shape: &Shape) -> Value {
    match shape {
        Shape::String(_) | Shape::Bytes => "".into(),
        Shape::Bool(_) => false.into(),
        Shape::Int32(_) | Shape::Int64(_) | Shape::Float(_) | Shape::IntOrString | Shape::Byte => {
            0.into()
        }
        Shape::Quantity => "0".into(),
        Shape::List(..) => Value::Array(Vec::new()),
        Shape::Map(..) | Shape::Struct(_) => Value::Object(Map::new()),
        Shape::Time
        | Shape::MicroTime
        | Shape::Any
        | Shape::Schemas
        | Shape::SchemaOrBool
        | Shape::SchemaOrTexts => Value::Null,
    }
}
