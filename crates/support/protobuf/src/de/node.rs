//! A value in protobuf, and the deserializer of it.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::de::value::StrDeserializer;
use serde::de::{Deserialize as _, Visitor};
use serde_json::Value;

use super::context::Context;
use super::items::{self, Items, Run};
use super::members::{self, Entries, Fields, Members};
use super::{names, unknown};
use crate::error::{Error, Reason};
use crate::source::Source;
use crate::special::{self, IntOrString};
use crate::table::{Field, Form, Message, TABLE, Type};
use crate::tidy::{scan, tidied};
use crate::wire::Reader;

/// A value that is decoded.
pub(crate) struct Node<'de, 's> {
    pub(crate) cx: &'s Context,
    /// How many messages it is in.
    pub(crate) depth: usize,
    pub(crate) what: What<'de, 's>,
}

/// What the bytes have for a value.
pub(crate) enum What<'de, 's> {
    /// Nothing, for which JSON has null.
    Null,
    /// Nothing, for which JSON has the zero value.
    Zero(Type),
    Varint(Type, u64),
    Double(f64),
    Text(Source<'de, 's>),
    /// Bytes, which are base64 in JSON.
    Base64(Source<'de, 's>),
    Message(&'static Message, Source<'de, 's>),
    /// An object with its version and kind.
    Root(&'static Message, Source<'de, 's>, (&'s str, &'s str)),
    /// All occurrences of a field, with their tags, and how many values they have.
    List(&'static Field, Source<'de, 's>, usize),
    /// All occurrences of a field, with their tags.
    Map(&'static Field, Source<'de, 's>),
    /// A part of JSON that is in protobuf.
    Json(Value),
}

/// What a type asks for.
#[derive(Clone, Copy)]
enum Hint {
    /// Everything.
    Any,
    /// These fields of a message.
    Fields(&'static [&'static str]),
}

/// Reads one value of a field. Its encoding was checked. `source` is what the reader reads.
pub(super) fn read<'de: 's, 's>(
    item: Type,
    reader: &mut Reader<'s>,
    source: Source<'de, 's>,
) -> Result<What<'de, 's>, Error> {
    Ok(match item {
        Type::Bool | Type::Int32 | Type::Int64 => What::Varint(item, reader.varint()?),
        Type::Double => What::Double(reader.double()?),
        Type::String | Type::Bytes | Type::Message(_) => {
            let content = reader.bytes()?;
            let source = source.before(reader.left(), content.len());
            match item {
                Type::Message(message) => What::Message(TABLE.get(message), source),
                Type::Bytes => What::Base64(source),
                _ => What::Text(source),
            }
        }
    })
}

/// Whether JSON has null for a message.
pub(super) fn is_null(message: &Message, bytes: &[u8]) -> Result<bool, Error> {
    Ok(match message.form {
        Form::Struct | Form::List | Form::Quantity | Form::IntOrString | Form::SchemaOrBool => {
            false
        }
        Form::Time | Form::MicroTime => special::moment(message, bytes)?.is_none(),
        Form::Raw => special::raw(message, bytes)?.is_null(),
        Form::SchemaOrSchemas | Form::SchemaOrTexts => {
            let mut reader = Reader::new(bytes);
            while !reader.is_empty() {
                let tag = reader.tag(message.name)?;
                if message.field(tag.number).is_some() {
                    return Ok(false);
                }
                reader.skip(tag)?;
            }
            true
        }
    })
}

impl<'de: 's, 's> Node<'de, 's> {
    fn is_null(&self) -> Result<bool, Error> {
        match &self.what {
            What::Null | What::Json(Value::Null) => Ok(true),
            What::Zero(Type::Message(message)) => is_null(TABLE.get(*message), &[]),
            What::Message(message, source) => is_null(message, source.bytes()),
            _ => Ok(false),
        }
    }

    /// Parses JSON that is in protobuf, so that it is not parsed again after it was looked at.
    fn parsed(self) -> Result<Self, Error> {
        Ok(match self.what {
            What::Message(message, source) if message.form == Form::Raw => {
                let value = special::raw(message, source.bytes())?;
                Self { what: What::Json(value), ..self }
            }
            _ => self,
        })
    }

    fn visit<V: Visitor<'de>>(self, hint: Hint, visitor: V) -> Result<V::Value, Error> {
        let Self { cx, depth, what } = self;
        match what {
            What::Null => visitor.visit_unit(),
            What::Zero(Type::String | Type::Bytes) => visitor.visit_borrowed_str(""),
            What::Zero(Type::Bool) => visitor.visit_bool(false),
            What::Zero(Type::Int32 | Type::Int64 | Type::Double) => visitor.visit_u64(0),
            What::Zero(Type::Message(message)) => {
                let what = What::Message(TABLE.get(message), Source::EMPTY);
                Node { cx, depth, what }.visit(hint, visitor)
            }
            What::Varint(Type::Bool, value) => visitor.visit_bool(value != 0),
            #[expect(clippy::cast_possible_truncation, reason = "Go cuts it off in the same way")]
            What::Varint(Type::Int32, value) => integer(i64::from(value as i32), visitor),
            What::Varint(_, value) => integer(value.cast_signed(), visitor),
            What::Double(value) => double(value, visitor),
            What::Text(source) => text(source, visitor),
            What::Base64(source) => visitor.visit_string(BASE64_STANDARD.encode(source.bytes())),
            What::Message(message, source) => {
                cx.enter(depth)?;
                message_of(cx, depth + 1, message, source, None, hint, visitor)
            }
            What::Root(message, source, type_meta) => {
                cx.enter(depth)?;
                message_of(cx, depth + 1, message, source, Some(type_meta), hint, visitor)
            }
            What::List(field, source, count) => {
                let of = items::Of::Fields(Run::new(field, source, count));
                visitor.visit_seq(Items { cx, depth, of })
            }
            What::Map(field, source) => {
                let of = members::Of::Entries(Entries::new(field, source)?);
                visitor.visit_map(Members { cx, depth, of, pending: None })
            }
            What::Json(value) => json(cx, depth, value, visitor),
        }
    }
}

fn integer<'de, V: Visitor<'de>>(value: i64, visitor: V) -> Result<V::Value, Error> {
    // A parser of JSON does the same.
    match u64::try_from(value) {
        Ok(value) => visitor.visit_u64(value),
        Err(_) => visitor.visit_i64(value),
    }
}

/// Passes on a number as Go writes it: without a fraction, it is an integer.
fn double<'de, V: Visitor<'de>>(value: f64, visitor: V) -> Result<V::Value, Error> {
    /// Integers up to here are exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "the range was just checked")]
        return integer(value as i64, visitor);
    }
    if value.is_finite() {
        return visitor.visit_f64(value);
    }
    let shown = if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "+Inf"
    } else {
        "-Inf"
    };
    Err(Reason::NotFinite(shown).into())
}

/// Passes on a string. Invalid UTF-8 becomes U+FFFD, as in Go.
fn text<'de, V: Visitor<'de>>(source: Source<'de, '_>, visitor: V) -> Result<V::Value, Error> {
    match source {
        Source::Input(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => visitor.visit_borrowed_str(text),
            Err(_) => visitor.visit_string(String::from_utf8_lossy(bytes).into_owned()),
        },
        Source::Copy(bytes) => match String::from_utf8_lossy(bytes) {
            Cow::Borrowed(text) => visitor.visit_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        },
    }
}

/// Passes on a message that was entered. `depth` is that of its fields.
fn message_of<'de: 's, 's, V: Visitor<'de>>(
    cx: &'s Context,
    depth: usize,
    message: &'static Message,
    source: Source<'de, 's>,
    type_meta: Option<(&'s str, &'s str)>,
    hint: Hint,
    visitor: V,
) -> Result<V::Value, Error> {
    match message.form {
        Form::Time | Form::MicroTime => match special::time(message, source.bytes())? {
            Some(time) => visitor.visit_string(time),
            None => visitor.visit_unit(),
        },
        Form::Quantity => match special::quantity(message, source)? {
            Some(quantity) => text(quantity, visitor),
            None => visitor.visit_borrowed_str("0"),
        },
        Form::IntOrString => match special::int_or_string(message, source)? {
            IntOrString::Int(number) => integer(i64::from(number), visitor),
            IntOrString::Text(found) => text(found, visitor),
        },
        Form::Raw => json(cx, depth, special::raw(message, source.bytes())?, visitor),
        Form::List => {
            let of = items::Of::Fields(Run::new(&message.fields[0], source, 0));
            visitor.visit_seq(Items { cx, depth, of })
        }
        Form::Struct | Form::SchemaOrSchemas | Form::SchemaOrBool | Form::SchemaOrTexts => {
            let scan = scan(message, source.bytes())?;
            let tidy;
            let source: Source<'de, '_> = if scan.is_tidy {
                source
            } else {
                cx.copy(source.bytes().len())?;
                tidy = tidied(message, source.bytes())?;
                Source::Copy(&tidy)
            };
            match (hint, scan.unknown) {
                (Hint::Fields(fields), _) if message.form == Form::Struct => {
                    names::check(message, fields)?;
                }
                (_, Some(field)) if !cx.skips_unknown => return Err(unknown(field)),
                _ => {}
            }
            if message.form != Form::Struct {
                let what = schema(message, source)?;
                return Node { cx, depth, what }.visit(hint, visitor);
            }
            let mut fields = Fields::new(message, source);
            if let Some((api_version, kind)) = type_meta {
                (fields.api_version, fields.kind) = (Some(api_version), Some(kind));
            }
            let of = members::Of::Fields(fields);
            visitor.visit_map(Members { cx, depth, of, pending: None })
        }
    }
}

/// Returns what JSON has for a message that is a schema or something else. The message is tidy.
fn schema<'de: 's, 's>(
    message: &'static Message,
    source: Source<'de, 's>,
) -> Result<What<'de, 's>, Error> {
    // Go looks at one of the fields first.
    let first = match message.form {
        Form::SchemaOrSchemas | Form::SchemaOrTexts => "list",
        _ => "schema",
    };
    let mut found = [None, None];
    for number in [1, 2] {
        let field = message.field(number).expect("such a message must have two fields");
        let mut reader = Reader::new(source.bytes());
        while !reader.is_empty() {
            let tag = reader.tag(message.name)?;
            if tag.number != number {
                reader.skip(tag)?;
                continue;
            }
            let is_list = field.repeat == crate::table::Repeat::List;
            let what = if is_list {
                What::List(field, source, 0)
            } else {
                read(field.item, &mut reader, source)?
            };
            let is_first = match what {
                What::List(..) => first == "list",
                What::Message(..) => first == "schema",
                _ => false,
            };
            found[usize::from(!is_first)] = Some(what);
            break;
        }
    }
    let [first, second] = found;
    let nothing = || match message.form {
        Form::SchemaOrBool => What::Zero(Type::Bool),
        _ => What::Null,
    };
    Ok(first.or(second).unwrap_or_else(nothing))
}

fn json<'de: 's, 's, V: Visitor<'de>>(
    cx: &'s Context,
    depth: usize,
    value: Value,
    visitor: V,
) -> Result<V::Value, Error> {
    match value {
        Value::Null => visitor.visit_unit(),
        Value::Bool(value) => visitor.visit_bool(value),
        Value::String(text) => visitor.visit_string(text),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => visitor.visit_u64(number),
            (None, Some(number)) => visitor.visit_i64(number),
            (None, None) => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::Array(values) => {
            let of = items::Of::Json(values.into_iter());
            visitor.visit_seq(Items { cx, depth, of })
        }
        Value::Object(members) => {
            let of = members::Of::Json(members.into_iter());
            visitor.visit_map(Members { cx, depth, of, pending: None })
        }
    }
}

impl<'de: 's, 's> serde::Deserializer<'de> for Node<'de, 's> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.visit(Hint::Any, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.visit(Hint::Fields(fields), visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let can_be_null = match &self.what {
            What::Null | What::Zero(Type::Message(_)) | What::Json(_) => true,
            What::Message(message, _) => message.form != Form::Struct,
            _ => false,
        };
        let node = if can_be_null { self.parsed()? } else { self };
        if can_be_null && node.is_null()? {
            return visitor.visit_none();
        }
        visitor.visit_some(node)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if let What::Text(source) = self.what {
            let text = String::from_utf8_lossy(source.bytes());
            return StrDeserializer::new(&text).deserialize_enum(name, variants, visitor);
        }
        let value = Value::deserialize(self)?;
        let outcome = value.deserialize_enum(name, variants, visitor);
        outcome.map_err(serde::de::Error::custom)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier
    }
}
