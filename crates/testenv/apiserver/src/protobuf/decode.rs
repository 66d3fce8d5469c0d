//! Decodes a message to the JSON that Go writes for the same struct.
//!
//! Go decodes into an existing struct: if a field occurs twice, the last one wins, lists are
//! appended to, and messages are merged. The table says which fields JSON leaves out. Fields that
//! would be null are left out, too, because the server reads both alike.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use super::special;
use super::table::{Field, Form, Message, Table, Type};
use super::wire::{Reader, Tag, WireType};
use crate::json::DEPTH_MAX;

/// The limit on messages in one body. An empty message has two bytes in protobuf and hundreds in
/// memory. No object that etcd would store has more.
pub(super) const MESSAGES_MAX: usize = 200_000;

/// The decoding of one body.
pub(super) struct Decoding<'a> {
    table: &'a Table,
    /// How many more messages are allowed.
    left: usize,
}

impl<'a> Decoding<'a> {
    pub(super) fn new(table: &'a Table) -> Self {
        Self { table, left: MESSAGES_MAX }
    }

    /// Decodes an object.
    pub(super) fn object(
        &mut self,
        message: &Message,
        bytes: &[u8],
    ) -> Result<Map<String, Value>, String> {
        self.fields(message, bytes, self.zero(message), 0)
    }

    /// Decodes the fields into an object, and returns it.
    fn fields(
        &mut self,
        message: &Message,
        bytes: &[u8],
        mut into: Map<String, Value>,
        depth: usize,
    ) -> Result<Map<String, Value>, String> {
        if depth > DEPTH_MAX {
            return Err(format!(
                "the body is nested deeper than {DEPTH_MAX} levels, which this embedded API server \
                 does not read"
            ));
        }
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            format!(
                "the body consists of more than {MESSAGES_MAX} messages, which this embedded API \
                 server does not read"
            )
        })?;
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let tag = reader.tag(message.struct_name())?;
            match message.field(tag.number) {
                Some(field) => self.field(field, tag, &mut reader, &mut into, depth)?,
                None => reader.skip(tag)?,
            }
        }
        Ok(into)
    }

    /// Decodes one field into an object.
    fn field(
        &mut self,
        field: &Field,
        tag: Tag,
        reader: &mut Reader<'_>,
        into: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), String> {
        let Some(name) = field.json else {
            let inner = self.inline(field);
            let bytes = length_delimited(field, tag, reader)?;
            let merged = self.fields(inner, bytes, std::mem::take(into), depth)?;
            *into = merged;
            return Ok(());
        };
        match &field.kind {
            Type::List(item) => {
                let mut list = match into.remove(name) {
                    Some(Value::Array(list)) => list,
                    _ => Vec::new(),
                };
                self.items(field, item, tag, reader, &mut list, depth)?;
                into.insert(name.to_owned(), Value::Array(list));
            }
            Type::Map(value) => {
                let bytes = length_delimited(field, tag, reader)?;
                let (key, value) = self.entry(field, value, bytes, depth)?;
                let map = into.entry(name).or_insert_with(|| Map::new().into());
                if let Value::Object(map) = map {
                    map.insert(key, value);
                }
            }
            kind => {
                let old = into.remove(name);
                let value = self.value(field, kind, tag, reader, old, depth)?;
                let kept = field.pointer || field.always || !is_zero(&value);
                if kept && !value.is_null() {
                    into.insert(name.to_owned(), value);
                }
            }
        }
        Ok(())
    }

    /// Decodes items of a list: one, or several packed numbers.
    fn items(
        &mut self,
        field: &Field,
        item: &Type,
        tag: Tag,
        reader: &mut Reader<'_>,
        list: &mut Vec<Value>,
        depth: usize,
    ) -> Result<(), String> {
        let is_number = matches!(item, Type::Int32 | Type::Int64 | Type::Bool);
        if !is_number || tag.wire_type != WireType::Bytes as u8 {
            list.push(self.value(field, item, tag, reader, None, depth)?);
            return Ok(());
        }
        let mut packed = Reader::new(reader.bytes()?);
        let one = Tag { wire_type: WireType::Varint as u8, ..tag };
        while !packed.is_empty() {
            list.push(self.value(field, item, one, &mut packed, None, depth)?);
        }
        Ok(())
    }

    /// Decodes the key and value of a map entry. Go does not check wire types here.
    fn entry(
        &mut self,
        field: &Field,
        kind: &Type,
        bytes: &[u8],
        depth: usize,
    ) -> Result<(String, Value), String> {
        let mut reader = Reader::new(bytes);
        let (mut key, mut value) = (String::new(), self.nothing(kind));
        while !reader.is_empty() {
            let tag = reader.tag(field.go_name)?;
            match tag.number {
                1 => key = text(reader.bytes()?),
                2 => {
                    let tag = Tag { wire_type: wire_type(kind) as u8, ..tag };
                    value = self.value(field, kind, tag, &mut reader, None, depth)?;
                }
                _ => reader.skip(tag)?,
            }
        }
        Ok((key, value))
    }

    /// Decodes one value. A message is merged into `old`.
    fn value(
        &mut self,
        field: &Field,
        kind: &Type,
        tag: Tag,
        reader: &mut Reader<'_>,
        old: Option<Value>,
        depth: usize,
    ) -> Result<Value, String> {
        if tag.wire_type != wire_type(kind) as u8 {
            return Err(wrong_wire_type(field, tag));
        }
        Ok(match kind {
            Type::String => text(reader.bytes()?).into(),
            Type::Bytes => BASE64_STANDARD.encode(reader.bytes()?).into(),
            Type::Bool => (reader.varint()? != 0).into(),
            #[expect(clippy::cast_possible_truncation, reason = "Go cuts it off in the same way")]
            Type::Int32 => (reader.varint()? as i32).into(),
            Type::Int64 => reader.varint()?.cast_signed().into(),
            Type::Double => match reader.double()? {
                number if number.is_finite() => crate::json::number(number),
                number => return Err(format!("json: unsupported value: {number}")),
            },
            Type::Message(message) => {
                let message = self.table.get(*message);
                let bytes = reader.bytes()?;
                self.message(message, bytes, old, depth + 1)?
            }
            Type::List(_) | Type::Map(_) => unreachable!("lists do not hold lists"),
        })
    }

    fn message(
        &mut self,
        message: &Message,
        bytes: &[u8],
        old: Option<Value>,
        depth: usize,
    ) -> Result<Value, String> {
        let into = match (message.form, old) {
            (Form::Struct, Some(Value::Object(old))) => old,
            _ => self.zero(message),
        };
        let mut fields = self.fields(message, bytes, into, depth)?;
        match message.form {
            Form::Struct => Ok(fields.into()),
            Form::List => Ok(fields.remove("items").unwrap_or_else(|| Value::Array(Vec::new()))),
            Form::Special(_) if bytes.is_empty() => Ok(self.empty(message)),
            Form::Special(special) => special::to_json(special, fields),
        }
    }

    /// Returns the JSON of a struct without any fields set.
    fn zero(&self, message: &Message) -> Map<String, Value> {
        let mut zero = Map::new();
        for field in message.fields.iter().filter(|field| field.always) {
            match field.json {
                None => zero.extend(self.zero(self.inline(field))),
                Some(name) => {
                    let value = self.nothing(&field.kind);
                    let is_none = matches!(field.kind, Type::List(_) | Type::Map(_) | Type::Bytes);
                    if !is_none && !value.is_null() {
                        zero.insert(name.to_owned(), value);
                    }
                }
            }
        }
        zero
    }

    /// Returns the value of a field that is not set.
    fn nothing(&self, kind: &Type) -> Value {
        match kind {
            Type::String | Type::Bytes => "".into(),
            Type::Bool => false.into(),
            Type::Int32 | Type::Int64 | Type::Double => 0.into(),
            Type::List(_) => Value::Array(Vec::new()),
            Type::Map(_) => Value::Object(Map::new()),
            Type::Message(message) => self.empty(self.table.get(*message)),
        }
    }

    fn empty(&self, message: &Message) -> Value {
        match message.form {
            Form::Struct => self.zero(message).into(),
            Form::List => Value::Array(Vec::new()),
            Form::Special(special) => special::nothing(special),
        }
    }

    /// Returns the message of an inlined field.
    fn inline(&self, field: &Field) -> &'a Message {
        match field.kind {
            Type::Message(message) => self.table.get(message),
            _ => unreachable!("only messages stand in the place of a field"),
        }
    }
}

/// Whether `omitempty` drops the value from Go's JSON. A struct is never empty in this sense.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(set) => !set,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Decodes a string. Invalid UTF-8 becomes U+FFFD, as in Go.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn length_delimited<'b>(
    field: &Field,
    tag: Tag,
    reader: &mut Reader<'b>,
) -> Result<&'b [u8], String> {
    if tag.wire_type == WireType::Bytes as u8 {
        reader.bytes()
    } else {
        Err(wrong_wire_type(field, tag))
    }
}

fn wrong_wire_type(field: &Field, tag: Tag) -> String {
    format!("proto: wrong wireType = {} for field {}", tag.wire_type, field.go_name)
}

fn wire_type(kind: &Type) -> WireType {
    match kind {
        Type::Bool | Type::Int32 | Type::Int64 => WireType::Varint,
        Type::Double => WireType::Fixed64,
        _ => WireType::Bytes,
    }
}
