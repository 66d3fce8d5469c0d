//! Brings the fields of a message into order.
//!
//! Go writes fields in the order of their numbers and each of them once, so that a reader can pass
//! on one after the other. A message may also be written in another way: then Go's decoder takes
//! the last value, appends to lists, and merges messages. [`scan`] finds out which of the two it
//! is, and [`tidied`] writes such a message as Go would have. Merging messages is joining their
//! bytes.
//!
//! Invariant: a tidied message is not longer than the original.

use crate::error::{Error, Reason};
use crate::table::{Field, Form, Message, Repeat, TABLE, Type};
use crate::wire::{Reader, Tag, WireType, put_bytes, put_tag, put_varint};

/// What a message is like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scan {
    /// Whether its fields are in order, and those of messages that stand in its place.
    pub(crate) is_tidy: bool,
    /// A field that the table lacks, and its message.
    pub(crate) unknown: Option<(&'static Message, u32)>,
}

/// Looks at the tags of a message, and at those of messages that stand in the place of a field.
pub(crate) fn scan(message: &'static Message, bytes: &[u8]) -> Result<Scan, Error> {
    let mut scan = Scan { is_tidy: true, unknown: None };
    let mut reader = Reader::new(bytes);
    let mut last = 0;
    let mut next = message.fields.as_slice();
    while !reader.is_empty() {
        let tag = reader.tag(message.name)?;
        if tag.number < last {
            scan.is_tidy = false;
            next = message.fields.as_slice();
        }
        while next.first().is_some_and(|field| field.number < tag.number) {
            next = &next[1..];
        }
        let Some(field) = next.first().filter(|field| field.number == tag.number) else {
            scan.unknown.get_or_insert((message, tag.number));
            last = tag.number;
            reader.skip(tag)?;
            continue;
        };
        if tag.number == last && field.repeat == Repeat::Once {
            scan.is_tidy = false;
        }
        last = tag.number;
        check(field, tag)?;
        match field.inlined() {
            Some(inner) => {
                let inner = self::scan(inner, reader.bytes()?)?;
                scan.is_tidy &= inner.is_tidy;
                scan.unknown = scan.unknown.or(inner.unknown);
            }
            None => reader.skip(tag)?,
        }
    }
    Ok(scan)
}

/// Checks the encoding of a value. Numbers of a list may be packed.
pub(crate) fn check(field: &Field, tag: Tag) -> Result<(), Error> {
    let is_right = match field.repeat {
        Repeat::Once => tag.is(wire_type(field.item)),
        Repeat::Map => tag.is(WireType::Bytes),
        Repeat::List => {
            tag.is(wire_type(field.item)) || is_number(field.item) && tag.is(WireType::Bytes)
        }
    };
    if is_right {
        return Ok(());
    }
    Err(Reason::WrongWireType { wire_type: tag.wire_type, field: field.go_name() }.into())
}

pub(crate) fn wire_type(kind: Type) -> WireType {
    match kind {
        Type::Bool | Type::Int32 | Type::Int64 => WireType::Varint,
        Type::Double => WireType::Fixed64,
        Type::String | Type::Bytes | Type::Message(_) => WireType::Bytes,
    }
}

/// Whether Go also reads lists of this type that are packed into one value.
pub(crate) fn is_number(kind: Type) -> bool {
    matches!(kind, Type::Bool | Type::Int32 | Type::Int64)
}

/// Returns the message as Go would have written it, without unknown fields. The caller has scanned
/// it.
pub(crate) fn tidied(message: &'static Message, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut occurs = vec![false; message.fields.len()];
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        let tag = reader.tag(message.name)?;
        if let Ok(place) = message.fields.binary_search_by_key(&tag.number, |field| field.number) {
            occurs[place] = true;
        }
        reader.skip(tag)?;
    }
    for (field, _) in message.fields.iter().zip(occurs).filter(|(_, occurs)| *occurs) {
        let merges = match field.item {
            Type::Message(inner) => {
                field.repeat == Repeat::Once && TABLE.get(inner).form == Form::Struct
            }
            _ => false,
        };
        if merges {
            put_merged(message, field, bytes, &mut out)?;
            continue;
        }
        let start = out.len();
        for_each(message, field.number, bytes, |tag, value| {
            if field.repeat == Repeat::Once {
                out.truncate(start);
            }
            tag.put(&mut out);
            out.extend_from_slice(value);
        })?;
    }
    Ok(out)
}

/// Writes a message that is made of all occurrences of a field.
fn put_merged(
    message: &'static Message,
    field: &Field,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let mut length = 0;
    for_each_message(message, field.number, bytes, |part| length += part.len())?;
    let Some(inner) = field.inlined() else {
        put_tag(out, field.number, WireType::Bytes);
        put_varint(out, length as u64);
        return for_each_message(message, field.number, bytes, |part| out.extend_from_slice(part));
    };
    let mut joined = Vec::with_capacity(length);
    for_each_message(message, field.number, bytes, |part| joined.extend_from_slice(part))?;
    put_bytes(out, field.number, &tidied(inner, &joined)?);
    Ok(())
}

/// Calls `each` with the tag and the encoded value of every occurrence of a field.
fn for_each(
    message: &'static Message,
    number: u32,
    bytes: &[u8],
    mut each: impl FnMut(Tag, &[u8]),
) -> Result<(), Error> {
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        let tag = reader.tag(message.name)?;
        let start = bytes.len() - reader.left();
        reader.skip(tag)?;
        if tag.number == number {
            each(tag, &bytes[start..bytes.len() - reader.left()]);
        }
    }
    Ok(())
}

/// Calls `each` with the content of every occurrence of a message.
fn for_each_message(
    message: &'static Message,
    number: u32,
    bytes: &[u8],
    mut each: impl FnMut(&[u8]),
) -> Result<(), Error> {
    for_each(message, number, bytes, |_, value| {
        let mut reader = Reader::new(value);
        if let Ok(content) = reader.bytes() {
            each(content);
        }
    })
}
