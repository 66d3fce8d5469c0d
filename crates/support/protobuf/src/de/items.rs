//! Walks through the values of a list.

use serde::de::{DeserializeSeed, SeqAccess};
use serde_json::Value;

use super::context::Context;
use super::node::{Node, What, read};
use crate::error::Error;
use crate::source::Source;
use crate::table::Field;
use crate::tidy::is_number;
use crate::wire::{Reader, WireType};

/// The values of a list.
pub(super) struct Items<'de, 's> {
    pub(super) cx: &'s Context,
    pub(super) depth: usize,
    pub(super) of: Of<'de, 's>,
}

/// Where they come from.
pub(super) enum Of<'de, 's> {
    /// Fields of a message.
    Fields(Run<'de, 's>),
    Json(std::vec::IntoIter<Value>),
}

/// A field and its values, one after the other.
pub(super) struct Run<'de, 's> {
    field: &'static Field,
    source: Source<'de, 's>,
    reader: Reader<'s>,
    /// The rest of a value that several numbers are packed into.
    packed: Reader<'s>,
    left: usize,
}

impl<'de: 's, 's> Run<'de, 's> {
    /// Other fields in the bytes are skipped. `count` may be less than there are.
    pub(super) fn new(field: &'static Field, source: Source<'de, 's>, count: usize) -> Self {
        let reader = Reader::new(source.bytes());
        Self { field, source, reader, packed: Reader::new(&[]), left: count }
    }

    fn next(&mut self) -> Result<Option<What<'de, 's>>, Error> {
        loop {
            if !self.packed.is_empty() {
                return Ok(Some(What::Varint(self.field.item, self.packed.varint()?)));
            }
            if self.reader.is_empty() {
                return Ok(None);
            }
            let tag = self.reader.tag("")?;
            if tag.number != self.field.number {
                self.reader.skip(tag)?;
            } else if is_number(self.field.item) && tag.is(WireType::Bytes) {
                self.packed = Reader::new(self.reader.bytes()?);
            } else {
                return read(self.field.item, &mut self.reader, self.source).map(Some);
            }
        }
    }
}

impl<'de: 's, 's> SeqAccess<'de> for Items<'de, 's> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let what = match &mut self.of {
            Of::Fields(run) => {
                let next = run.next()?;
                run.left = run.left.saturating_sub(1);
                next
            }
            Of::Json(values) => values.next().map(What::Json),
        };
        let Some(what) = what else { return Ok(None) };
        seed.deserialize(Node { cx: self.cx, depth: self.depth, what }).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(match &self.of {
            Of::Fields(run) => run.left,
            Of::Json(values) => values.len(),
        })
    }
}
