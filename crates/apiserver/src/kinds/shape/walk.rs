//! The way of an object through its shape: what Go's decoder does with a body and a struct.
//!
//! Go names a value in two ways. A field that is not known has its path in JSON, with keys and
//! places in lists. A value of a wrong type has the innermost struct, and the names of fields on
//! the way to it, those of embedded structs among them and no keys or places. The first wrong value
//! is told when all is read; but a type that decodes itself (a time, a quantity, a schema in a
//! schema) ends the walk at once.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use super::table::{Shape, Table, Type};
use super::{text, time};

/// How many unknown fields are told at most.
const MOST: usize = 100;

/// The type of an `OpenAPI` schema, which types that decode themselves are made of.
const SCHEMA: Shape = Shape::Struct("apiextensions.v1.JSONSchemaProps");

/// One walk through one object.
pub(super) struct Walk<'a> {
    table: &'a Table,
    /// The paths of fields that are not known.
    unknown: Vec<String>,
    /// The path in JSON of what is looked at.
    path: String,
    /// The names of the fields on the way to it, as Go tells them.
    stack: String,
    /// The innermost struct on the way to it.
    owner: &'static str,
    /// Whether it is inside of a type that decodes itself: the struct stays, and nobody hears of
    /// unknown fields.
    inside: bool,
    /// What is wrong with the first wrong value.
    wrong: Option<String>,
}

impl<'a> Walk<'a> {
    /// A walk that is at its beginning.
    pub(super) fn new(table: &'a Table) -> Self {
        Self {
            table,
            unknown: Vec::new(),
            path: String::new(),
            stack: String::new(),
            owner: "",
            inside: false,
            wrong: None,
        }
    }

    /// Takes an object of the named type through its shape, and returns the paths of unknown
    /// fields.
    pub(super) fn run(
        mut self,
        name: &'static str,
        object: &mut Value,
    ) -> Result<Vec<String>, String> {
        self.value(&Shape::Struct(name), object)?;
        self.wrong.map_or(Ok(self.unknown), Err)
    }

    /// Looks at a value that is not null. An error ends the walk.
    fn value(&mut self, shape: &Shape, value: &mut Value) -> Result<(), String> {
        match (shape, &mut *value) {
            (Shape::Any, _)
            | (Shape::String(_) | Shape::IntOrString, Value::String(_))
            | (Shape::Bool(_) | Shape::SchemaOrBool, Value::Bool(_))
            | (Shape::Float(_), Value::Number(_)) => {}
            (Shape::Int32(_), Value::Number(number)) if is_int32(number) => {}
            (Shape::Int64(_), Value::Number(number)) if number.is_i64() => {}
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
            // Whatever else it is becomes a schema that is not there.
            (Shape::Schemas | Shape::SchemaOrTexts, other) => *other = Value::Null,
            // These decode themselves, into something with another name.
            (Shape::Time | Shape::MicroTime, other) => {
                return Err(self.mismatch(&Shape::String(""), other));
            }
            (Shape::IntOrString, other) => return Err(self.mismatch(&Shape::Int32(""), other)),
            (_, other) => {
                let wrong = self.mismatch(shape, other);
                self.wrong.get_or_insert(wrong);
            }
        }
        Ok(())
    }

    /// The fields of a struct.
    fn fields(&mut self, of: &Type, fields: &mut Map<String, Value>) -> Result<(), String> {
        let (path, stack, owner) = (self.path.len(), self.stack.len(), self.owner);
        let mut is_clean = true;
        for (name, value) in fields.iter_mut() {
            let Some(field) = of.field(name) else {
                self.not_known(name);
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
            push(&mut self.path, name);
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

    /// An item of a list or a value of a map: there it stays if it is null, and is what Go has for
    /// nothing.
    fn element(&mut self, shape: &Shape, value: &mut Value) -> Result<(), String> {
        if !value.is_null() {
            return self.value(shape, value);
        }
        *value = nothing(shape);
        Ok(())
    }

    /// A value whose type decodes itself by what it is made of: what is wrong in there ends the
    /// walk.
    fn itself(&mut self, shape: &Shape, value: &mut Value) -> Result<(), String> {
        let outside = (self.inside, self.wrong.take());
        self.inside = true;
        self.value(shape, value)?;
        if let Some(wrong) = self.wrong.take() {
            return Err(wrong);
        }
        (self.inside, self.wrong) = outside;
        Ok(())
    }

    /// Line breaks are allowed in base64, and are not there any more when it is written again.
    fn bytes(&mut self, bytes: &mut String) {
        match text::check_base64(bytes) {
            Ok(()) => bytes.retain(|c| c != '\r' && c != '\n'),
            Err(wrong) => {
                self.wrong.get_or_insert(wrong);
            }
        }
    }

    fn not_known(&mut self, name: &str) {
        if self.inside || self.unknown.len() >= MOST {
            return;
        }
        let mut path = self.path.clone();
        push(&mut path, name);
        // A key with a dot in it may make two places look alike.
        if !self.unknown.contains(&path) {
            self.unknown.push(path);
        }
    }

    fn mismatch(&self, shape: &Shape, value: &Value) -> String {
        let found = match value {
            Value::Null => "null".to_owned(),
            Value::Bool(_) => "bool".to_owned(),
            // Only where an integer is wanted is the number itself worth telling.
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

/// Adds a name to a path; nothing adds nothing.
fn push(path: &mut String, name: &str) {
    if !path.is_empty() && !name.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

fn is_int32(number: &serde_json::Number) -> bool {
    number.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
}

/// Bytes that were given as numbers, in the form that they are kept in. Those that are none have
/// been told already.
fn in_base64(items: &[Value]) -> Value {
    let byte = |item: &Value| item.as_u64().and_then(|number| u8::try_from(number).ok());
    let bytes: Vec<u8> = items.iter().filter_map(byte).collect();
    BASE64_STANDARD.encode(bytes).into()
}

/// What Go has where nothing was given.
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
