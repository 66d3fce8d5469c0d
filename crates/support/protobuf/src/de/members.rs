//! Walks through the members of what JSON shows as an object: the fields of a message, the entries
//! of a map, a JSON object.

use std::collections::{BTreeMap, btree_map};

use serde::de::value::{BorrowedStrDeserializer, StrDeserializer, StringDeserializer};
use serde::de::{DeserializeSeed, MapAccess};

use super::context::Context;
use super::node::{Node, What, read};
use crate::error::Error;
use crate::source::Source;
use crate::table::{Field, Form, Message, Repeat, Type};
use crate::wire::{Reader, Tag};

/// The members of an object.
pub(super) struct Members<'de, 's> {
    pub(super) cx: &'s Context,
    pub(super) depth: usize,
    pub(super) of: Of<'de, 's>,
    /// The value of the last key, and the field that it is in.
    pub(super) pending: Option<(What<'de, 's>, &'static str)>,
}

/// Where they come from.
pub(super) enum Of<'de, 's> {
    Fields(Fields<'de, 's>),
    Entries(Entries<'de, 's>),
    Json(serde_json::map::IntoIter),
}

/// The name of a member.
enum Key<'de, 's> {
    Name(&'static str),
    Text(Source<'de, 's>),
    Owned(String),
}

/// A tidy message: its fields come in the order of the table.
pub(super) struct Fields<'de, 's> {
    /// What JSON has beside the fields: first `kind`, then `apiVersion`.
    pub(super) kind: Option<&'s str>,
    pub(super) api_version: Option<&'s str>,
    place: Place<'de, 's>,
    /// The messages around those that stand in the place of a field.
    outer: Vec<Place<'de, 's>>,
}

/// A place in a message.
struct Place<'de, 's> {
    /// The fields that follow.
    fields: std::slice::Iter<'static, Field>,
    name: &'static str,
    source: Source<'de, 's>,
    reader: Reader<'s>,
    /// The tag that was read last, if its value was not, and how many bytes were left before it.
    tag: Option<(Tag, usize)>,
}

/// The entries of a map.
pub(super) enum Entries<'de, 's> {
    /// As Go writes them: with sorted keys.
    Sorted(&'static Field, Source<'de, 's>, Reader<'s>),
    /// In another order, or with repeated keys.
    Map(btree_map::IntoIter<&'s [u8], (Source<'de, 's>, What<'de, 's>)>, &'static str),
}

impl<'de: 's, 's> Place<'de, 's> {
    fn new(message: &'static Message, source: Source<'de, 's>) -> Self {
        let reader = Reader::new(source.bytes());
        Self { fields: message.fields.iter(), name: message.name, source, reader, tag: None }
    }

    /// Moves to the field, and returns whether it is there.
    fn find(&mut self, field: &Field) -> Result<bool, Error> {
        loop {
            let (tag, _) = match self.tag {
                Some(tag) => tag,
                None if self.reader.is_empty() => return Ok(false),
                None => {
                    let left = self.reader.left();
                    *self.tag.insert((self.reader.tag(self.name)?, left))
                }
            };
            if tag.number >= field.number {
                return Ok(tag.number == field.number);
            }
            self.tag = None;
            self.reader.skip(tag)?;
        }
    }

    /// Returns all occurrences of a field, with their tags, and their number. The first one was
    /// found.
    fn run(&mut self, field: &Field) -> Result<(Source<'de, 's>, usize), Error> {
        let (tag, mut length) = self.tag.take().expect("the field must be found");
        self.reader.skip(tag)?;
        let mut count = 1;
        loop {
            let left = self.reader.left();
            if left > 0 {
                let tag = self.reader.tag(self.name)?;
                if tag.number == field.number {
                    self.reader.skip(tag)?;
                    count += 1;
                    continue;
                }
                self.tag = Some((tag, left));
            }
            length -= left;
            return Ok((self.source.before(left, length), count));
        }
    }
}

impl<'de: 's, 's> Fields<'de, 's> {
    pub(super) fn new(message: &'static Message, source: Source<'de, 's>) -> Self {
        let place = Place::new(message, source);
        Self { kind: None, api_version: None, place, outer: Vec::new() }
    }

    /// Returns the next field that JSON has.
    fn next(&mut self) -> Result<Option<(&'static str, What<'de, 's>)>, Error> {
        loop {
            let Some(field) = self.place.fields.next() else {
                let Some(outer) = self.outer.pop() else { return Ok(None) };
                self.place = outer;
                continue;
            };
            let is_there = self.place.find(field)?;
            if let Some(inner) = field.inlined() {
                if let Some(source) = self.inlined(field, is_there)? {
                    let outer = std::mem::replace(&mut self.place, Place::new(inner, source));
                    self.outer.push(outer);
                }
                continue;
            }
            let what = match (is_there, field.repeat) {
                (false, _) if !field.always => continue,
                (false, Repeat::Once) if !field.pointer && field.item != Type::Bytes => {
                    What::Zero(field.item)
                }
                (false, _) => What::Null,
                (true, Repeat::List) => {
                    let (source, count) = self.place.run(field)?;
                    What::List(field, source, count)
                }
                (true, Repeat::Map) => What::Map(field, self.place.run(field)?.0),
                (true, Repeat::Once) => {
                    self.place.tag = None;
                    let what = read(field.item, &mut self.place.reader, self.place.source)?;
                    if !field.pointer && !field.always && is_empty(&what)? {
                        continue;
                    }
                    what
                }
            };
            return Ok(Some((field.name, what)));
        }
    }

    /// Returns the message whose fields stand in the place of this field. It is empty if it is not
    /// there, and `None` if Go holds a pointer to it.
    fn inlined(&mut self, field: &Field, is_there: bool) -> Result<Option<Source<'de, 's>>, Error> {
        if !is_there {
            return Ok((!field.pointer).then_some(Source::EMPTY));
        }
        self.place.tag = None;
        let content = self.place.reader.bytes()?;
        Ok(Some(self.place.source.before(self.place.reader.left(), content.len())))
    }
}

/// Whether Go leaves the value out if it leaves out empty ones. It never leaves out a struct, but
/// times that say so.
fn is_empty(what: &What<'_, '_>) -> Result<bool, Error> {
    Ok(match what {
        // Go cuts off the upper half.
        What::Varint(Type::Int32, value) => value & u64::from(u32::MAX) == 0,
        What::Varint(_, value) => *value == 0,
        What::Double(value) => *value == 0.0,
        What::Text(source) | What::Base64(source) => source.bytes().is_empty(),
        What::Message(message, _) if message.form == Form::Struct => false,
        What::Message(message, source) => super::node::is_null(message, source.bytes())?,
        _ => false,
    })
}

impl<'de: 's, 's> Entries<'de, 's> {
    pub(super) fn new(field: &'static Field, source: Source<'de, 's>) -> Result<Self, Error> {
        let reader = Reader::new(source.bytes());
        let (mut rest, mut last) = (reader, None);
        while let Some((key, _)) = entry(field, source, &mut rest)? {
            if last.is_some_and(|last| last >= key.bytes()) {
                return Self::sorted(field, source, reader);
            }
            last = Some(key.bytes());
        }
        Ok(Self::Sorted(field, source, reader))
    }

    fn sorted(
        field: &'static Field,
        source: Source<'de, 's>,
        mut rest: Reader<'s>,
    ) -> Result<Self, Error> {
        let mut map = BTreeMap::new();
        while let Some((key, value)) = entry(field, source, &mut rest)? {
            map.insert(key.bytes(), (key, value));
        }
        Ok(Self::Map(map.into_iter(), field.name))
    }

    fn next(&mut self) -> Result<Option<(Key<'de, 's>, What<'de, 's>, &'static str)>, Error> {
        Ok(match self {
            Self::Sorted(field, source, rest) => {
                let entry = entry(field, *source, rest)?;
                entry.map(|(key, value)| (Key::Text(key), value, field.name))
            }
            Self::Map(entries, name) => {
                entries.next().map(|(_, (key, value))| (Key::Text(key), value, *name))
            }
        })
    }
}

/// Reads the next entry of a map. Go does not check the encoding of keys and values.
fn entry<'de: 's, 's>(
    field: &'static Field,
    source: Source<'de, 's>,
    rest: &mut Reader<'s>,
) -> Result<Option<(Source<'de, 's>, What<'de, 's>)>, Error> {
    if rest.is_empty() {
        return Ok(None);
    }
    rest.tag("")?;
    let content = rest.bytes()?;
    let source = source.before(rest.left(), content.len());
    let mut reader = Reader::new(content);
    let (mut key, mut value) = (Source::EMPTY, What::Zero(field.item));
    while !reader.is_empty() {
        let tag = reader.tag(field.name)?;
        match tag.number {
            1 => {
                let content = reader.bytes()?;
                key = source.before(reader.left(), content.len());
            }
            2 => value = read(field.item, &mut reader, source)?,
            _ => reader.skip(tag)?,
        }
    }
    Ok(Some((key, value)))
}

impl<'de: 's, 's> Members<'de, 's> {
    fn next(&mut self) -> Result<Option<Key<'de, 's>>, Error> {
        let (key, value, name) = match &mut self.of {
            Of::Fields(fields) => {
                if let Some(kind) = fields.kind.take() {
                    self.pending = Some((What::Text(Source::Copy(kind.as_bytes())), "kind"));
                    return Ok(Some(Key::Name("kind")));
                }
                if let Some(version) = fields.api_version.take() {
                    self.pending =
                        Some((What::Text(Source::Copy(version.as_bytes())), "apiVersion"));
                    return Ok(Some(Key::Name("apiVersion")));
                }
                let Some((name, value)) = fields.next()? else { return Ok(None) };
                (Key::Name(name), value, name)
            }
            Of::Entries(entries) => {
                let Some((key, value, _)) = entries.next()? else { return Ok(None) };
                (key, value, "")
            }
            Of::Json(members) => {
                let Some((key, value)) = members.next() else { return Ok(None) };
                (Key::Owned(key), What::Json(value), "")
            }
        };
        self.pending = Some((value, name));
        Ok(Some(key))
    }
}

impl<'de: 's, 's> MapAccess<'de> for Members<'de, 's> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Some(key) = self.next()? else { return Ok(None) };
        match key {
            Key::Name(name) => seed.deserialize(BorrowedStrDeserializer::new(name)),
            Key::Text(Source::Input(bytes)) => match std::str::from_utf8(bytes) {
                Ok(text) => seed.deserialize(BorrowedStrDeserializer::new(text)),
                Err(_) => owned(seed, String::from_utf8_lossy(bytes).into_owned()),
            },
            Key::Text(Source::Copy(bytes)) => {
                seed.deserialize(StrDeserializer::new(&String::from_utf8_lossy(bytes)))
            }
            Key::Owned(text) => owned(seed, text),
        }
        .map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        let (what, name) = self.pending.take().expect("a value must follow its key");
        let value = seed.deserialize(Node { cx: self.cx, depth: self.depth, what });
        value.map_err(|error| if name.is_empty() { error } else { error.within(name) })
    }
}

fn owned<'de, K: DeserializeSeed<'de>>(seed: K, text: String) -> Result<K::Value, Error> {
    seed.deserialize(StringDeserializer::new(text))
}
