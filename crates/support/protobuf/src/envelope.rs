//! The envelope of every object: a prefix of four bytes, the version and the kind, and the message
//! as bytes (`runtime.Unknown` in Go).

use std::borrow::Cow;

use serde::Deserialize;

use crate::error::{Error, Reason};
use crate::wire::{Reader, put_bytes};

/// The prefix of every body.
pub(crate) const PREFIX: &[u8] = b"k8s\0";

/// The fields of `runtime.Unknown`, by their numbers.
pub(crate) const FIELDS: [&str; 4] = ["TypeMeta", "Raw", "ContentEncoding", "ContentType"];

/// An object in its envelope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The version, as in `apps/v1`. Empty if the envelope has none.
    pub api_version: Cow<'a, str>,
    /// The kind. Empty if the envelope has none.
    pub kind: Cow<'a, str>,
    /// The message.
    pub raw: &'a [u8],
    /// Whether the message is said to be compressed or of another type. Go's decoder ignores that.
    pub is_encoded: bool,
}

impl<'a> Envelope<'a> {
    /// An envelope around a message.
    pub fn new(api_version: &'a str, kind: &'a str, raw: &'a [u8]) -> Self {
        Self { api_version: api_version.into(), kind: kind.into(), raw, is_encoded: false }
    }

    /// Reads the body of an answer, or the object of a watch event.
    ///
    /// # Errors
    /// Returns an error if the bytes are no envelope.
    pub fn read(body: &'a [u8]) -> Result<Self, Error> {
        let message = body.strip_prefix(PREFIX);
        let no_prefix = if body.is_empty() { Reason::EmptyData } else { Reason::NoPrefix };
        let message = message.ok_or(no_prefix)?;
        if message.is_empty() {
            return Err(Reason::EmptyBody.into());
        }
        let mut envelope = Self::default();
        each_bytes("Unknown", message, &FIELDS, |number, bytes| envelope.set(number, bytes))?;
        Ok(envelope)
    }

    /// Takes the content of a field.
    pub(crate) fn set(&mut self, number: u32, bytes: &'a [u8]) -> Result<(), Error> {
        match number {
            1 => each_bytes("TypeMeta", bytes, &["APIVersion", "Kind"], |number, bytes| {
                let text = String::from_utf8_lossy(bytes);
                *(if number == 1 { &mut self.api_version } else { &mut self.kind }) = text;
                Ok(())
            })?,
            2 => self.raw = bytes,
            3 | 4 => self.is_encoded |= !bytes.is_empty(),
            _ => {}
        }
        Ok(())
    }

    /// Decodes the object as [`from_raw`](crate::from_raw) does.
    ///
    /// # Errors
    /// As `from_raw`, and if the content is said to be something else.
    pub fn decode<T: Deserialize<'a>>(&self) -> Result<T, Error> {
        if self.is_encoded {
            return Err(Reason::Encoded.into());
        }
        crate::from_raw(&self.api_version, &self.kind, self.raw)
    }

    /// Returns the whole body, as Go writes it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut type_meta = Vec::new();
        put_bytes(&mut type_meta, 1, self.api_version.as_bytes());
        put_bytes(&mut type_meta, 2, self.kind.as_bytes());
        let mut out = Vec::with_capacity(self.raw.len() + type_meta.len() + 32);
        out.extend_from_slice(PREFIX);
        put_bytes(&mut out, 1, &type_meta);
        put_bytes(&mut out, 2, self.raw);
        // The encoding and type of the content are empty.
        put_bytes(&mut out, 3, b"");
        put_bytes(&mut out, 4, b"");
        out
    }
}

/// Calls `each` for the fields of a message that has only fields of bytes. `names` are their names,
/// from number 1 up.
pub(crate) fn each_bytes<'a>(
    message: &'static str,
    bytes: &'a [u8],
    names: &[&str],
    mut each: impl FnMut(u32, &'a [u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        let tag = reader.tag(message)?;
        match names.get(tag.number as usize - 1) {
            None => reader.skip(tag)?,
            Some(_) if tag.wire_type == 2 => each(tag.number, reader.bytes()?)?,
            Some(name) => {
                let field = (*name).to_owned();
                return Err(Reason::WrongWireType { wire_type: tag.wire_type, field }.into());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let envelope = Envelope::new("apps/v1", "Deployment", b"\x0a\x00");
        let bytes = envelope.to_bytes();
        assert_eq!(Envelope::read(&bytes), Ok(envelope));
    }

    #[test]
    fn other_bytes_are_refused_in_the_words_of_go() {
        let error = |body: &[u8]| Envelope::read(body).expect_err("it is no body").to_string();
        assert_eq!(error(b""), "empty data");
        assert_eq!(error(b"k8s\0"), "empty body");
        assert!(error(b"{}").starts_with("provided data does not appear to be a protobuf message"));
        assert_eq!(error(b"k8s\0\x08\x01"), "proto: wrong wireType = 0 for field TypeMeta");
    }

    #[test]
    fn content_of_another_type_is_not_decoded() {
        let mut bytes = Envelope::new("v1", "Pod", b"").to_bytes();
        put_bytes(&mut bytes, 4, b"application/json");
        let envelope = Envelope::read(&bytes).expect("it is an envelope");
        let error = envelope.decode::<serde_json::Value>().expect_err("it is JSON");
        assert_eq!(*error.reason(), Reason::Encoded);
    }
}
