//! A `serde::Deserializer` over protobuf: types decode as from the JSON that Go writes for the same
//! object.
//!
//! A [`Node`](node::Node) is a value, and the deserializer of everything inside of an object, so
//! that a type is compiled for one deserializer alone. [`members`] walks through the fields of a
//! message, a map or a JSON object, [`items`] through lists. [`names`] checks which fields a type
//! asks for.
//!
//! A message is scanned before its fields are passed on, which reads its tags and no values.
//! Values that the type ignores are never looked at.

mod context;
mod items;
mod members;
mod names;
mod node;
#[cfg(test)]
mod tests;

use serde::de::{Deserialize, Visitor};

use self::context::Context;
use self::node::{Node, What};
use crate::error::{Error, Reason};
use crate::source::Source;
use crate::table::{Message, TABLE};

/// Decodes a message of a built-in kind, such as `apps/v1` and `Deployment`: what an
/// [`Envelope`](crate::Envelope) has in `raw`, or an item of a [list](crate::ListParser).
///
/// `T` gets what it would get from the JSON of the same object, so any type that decodes from that
/// will do: one of k8s-openapi, a struct of your own with the fields that you need, or
/// `serde_json::Value`. Strings can be borrowed. Fields that `T` does not ask for are skipped.
///
/// # Errors
/// Returns an error if the bytes are no such message, if they do not fit `T`, or if something would
/// be left out in silence: if a struct has a field that Kubernetes [`RELEASE`](crate::RELEASE)
/// lacks, or if a map or `Value` wants all fields of a message and one of them is newer.
pub fn from_raw<'de, T: Deserialize<'de>>(
    api_version: &str,
    kind: &str,
    raw: &'de [u8],
) -> Result<T, Error> {
    let deserializer = Deserializer::new(api_version, kind, raw)?;
    let cx = deserializer.context();
    T::deserialize(deserializer.node(&cx))
}

/// Decodes the metadata of an object of any kind, and nothing else of it.
///
/// # Errors
/// As [`from_raw`]. `T` gets the fields of `ObjectMeta`.
pub fn metadata_from_raw<'de, T: Deserialize<'de>>(raw: &'de [u8]) -> Result<T, Error> {
    let message = meta("ObjectMeta");
    let parts = crate::metadata::parts(raw)?;
    let joined;
    let source = match parts.as_slice() {
        [] => Source::EMPTY,
        [metadata] => Source::Input(metadata),
        several => {
            joined = several.concat();
            Source::Copy(&joined)
        }
    };
    let cx = Context::new(raw.len(), usize::MAX);
    T::deserialize(Node { cx: &cx, depth: 0, what: What::Message(message, source) })
}

/// Decodes a message of the types that all groups share.
pub(crate) fn from_meta<'de, T: Deserialize<'de>>(name: &str, raw: &'de [u8]) -> Result<T, Error> {
    let cx = Context::new(raw.len(), usize::MAX);
    let what = What::Message(meta(name), Source::Input(raw));
    T::deserialize(Node { cx: &cx, depth: 0, what })
}

fn meta(name: &str) -> &'static Message {
    TABLE.named("meta.v1", name).expect("the table must have it")
}

/// A deserializer of one object, for readers that [`from_raw`] is too little for: with a seed, with
/// a bound on the number of messages, or without fields that are newer than the table.
#[derive(Clone, Copy, Debug)]
pub struct Deserializer<'de, 'a> {
    message: &'static Message,
    api_version: &'a str,
    kind: &'a str,
    raw: &'de [u8],
    messages_max: usize,
    skips_unknown: bool,
}

impl<'de, 'a> Deserializer<'de, 'a> {
    /// Reads a message of a built-in kind.
    ///
    /// # Errors
    /// Returns an error if there is no such kind.
    pub fn new(api_version: &'a str, kind: &'a str, raw: &'de [u8]) -> Result<Self, Error> {
        let message = crate::message(api_version, kind)?;
        let (messages_max, skips_unknown) = (usize::MAX, false);
        Ok(Self { message, api_version, kind, raw, messages_max, skips_unknown })
    }

    /// Sets how many messages there may be, which has no bound by default. An empty message has two
    /// bytes in protobuf, but some types need a hundred times as much for it.
    #[must_use]
    pub fn messages_max(mut self, messages_max: usize) -> Self {
        self.messages_max = messages_max;
        self
    }

    /// Leaves out fields that the table lacks, as a server does with what newer clients send. By
    /// default they are refused if `T` wants all fields.
    #[must_use]
    pub fn skip_unknown(mut self) -> Self {
        self.skips_unknown = true;
        self
    }

    fn context(&self) -> Context {
        let mut cx = Context::new(self.raw.len(), self.messages_max);
        cx.skips_unknown = self.skips_unknown;
        cx
    }

    fn node<'s>(self, cx: &'s Context) -> Node<'de, 's>
    where
        'de: 's,
        'a: 's,
    {
        let type_meta = (self.api_version, self.kind);
        let what = What::Root(self.message, Source::Input(self.raw), type_meta);
        Node { cx, depth: 0, what }
    }
}

/// Passes a method on to the node of the whole object.
macro_rules! by_node {
    ($($method:ident($($argument:ident: $kind:ty),*))*) => {$(
        fn $method<V: Visitor<'de>>(self $(, $argument: $kind)*, visitor: V) -> Result<V::Value, Error> {
            let cx = self.context();
            self.node(&cx).$method($($argument,)* visitor)
        }
    )*};
}

impl<'de> serde::Deserializer<'de> for Deserializer<'de, '_> {
    type Error = Error;

    by_node! {
        deserialize_any()
        deserialize_option()
        deserialize_newtype_struct(name: &'static str)
        deserialize_struct(name: &'static str, fields: &'static [&'static str])
        deserialize_ignored_any()
        deserialize_enum(name: &'static str, variants: &'static [&'static str])
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier
    }
}

/// The error for a field that the table lacks.
fn unknown((message, number): (&'static Message, u32)) -> Error {
    Reason::UnknownNumber { message: message.name, number }.into()
}
