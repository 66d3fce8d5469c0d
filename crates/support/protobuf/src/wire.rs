//! The wire format: reads and writes tags, varints and lengths, with the errors of the decoder that
//! Kubernetes generates for Go.

use crate::error::{Error, Reason};

/// The encoding of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireType {
    Varint = 0,
    Fixed64 = 1,
    /// A length, followed by that many bytes.
    Bytes = 2,
}

/// A tag: the number and the encoding of the next field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tag {
    pub(crate) number: u32,
    pub(crate) wire_type: u8,
}

impl Tag {
    pub(crate) fn is(self, wire_type: WireType) -> bool {
        self.wire_type == wire_type as u8
    }

    pub(crate) fn put(self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.number) << 3 | u64::from(self.wire_type));
    }
}

/// A reader of encoded bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// How many bytes are left.
    #[inline]
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    /// Reads the next tag of a message. The name is for errors.
    #[expect(clippy::cast_possible_truncation, reason = "Go cuts numbers off in the same way")]
    #[inline]
    pub(crate) fn tag(&mut self, message: &'static str) -> Result<Tag, Error> {
        let wire = self.varint()?;
        let wire_type = (wire & 7) as u8;
        let number = ((wire >> 3) as u32).cast_signed();
        if wire_type == 4 {
            return Err(Reason::EndOfGroup(message).into());
        }
        match u32::try_from(number) {
            Ok(number) if number > 0 => Ok(Tag { number, wire_type }),
            _ => Err(Reason::IllegalTag { message, number, wire }.into()),
        }
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, Error> {
        if let Some((&byte, rest)) = self.rest.split_first()
            && byte < 0x80
        {
            self.rest = rest;
            return Ok(u64::from(byte));
        }
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or_else(short)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Reason::Overflow.into())
    }

    pub(crate) fn double(&mut self) -> Result<f64, Error> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or_else(short)?;
        self.rest = rest;
        Ok(f64::from_le_bytes(*bytes))
    }

    /// Reads a length and that many bytes.
    #[inline]
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Error> {
        let length = self.length()?;
        self.take(length)
    }

    #[inline]
    pub(crate) fn length(&mut self) -> Result<usize, Error> {
        let length = self.varint()?;
        let in_go = i64::try_from(length).ok().and_then(|length| usize::try_from(length).ok());
        in_go.ok_or_else(|| Reason::NegativeLength.into())
    }

    /// Skips the value of a field.
    #[inline]
    pub(crate) fn skip(&mut self, tag: Tag) -> Result<(), Error> {
        let mut wire_type = tag.wire_type;
        let mut groups = 0_usize;
        loop {
            match wire_type {
                0 => drop(self.varint()?),
                1 => drop(self.take(8)?),
                2 => drop(self.bytes()?),
                3 => groups += 1,
                4 if groups == 0 => return Err(Reason::UnexpectedEndOfGroup.into()),
                4 => groups -= 1,
                5 => drop(self.take(4)?),
                other => return Err(Reason::IllegalWireType(other).into()),
            }
            if groups == 0 {
                return Ok(());
            }
            wire_type = (self.varint()? & 7) as u8;
        }
    }

    #[inline]
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or_else(short)?;
        self.rest = rest;
        Ok(bytes)
    }
}

#[cold]
fn short() -> Error {
    Reason::Short.into()
}

pub(crate) fn put_tag(out: &mut Vec<u8>, number: u32, wire_type: WireType) {
    Tag { number, wire_type: wire_type as u8 }.put(out);
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

/// Writes a field of bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_tag(out, number, WireType::Bytes);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            let mut reader = Reader::new(&out);
            assert_eq!(reader.varint(), Ok(value));
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn errors_are_those_of_go() {
        let tag = |bytes: &[u8]| Reader::new(bytes).tag("Pod").expect_err("it is no tag");
        assert_eq!(tag(&[]).to_string(), "unexpected EOF");
        assert_eq!(tag(&[0xff; 11]).to_string(), "proto: integer overflow");
        assert_eq!(tag(&[0x0c]).to_string(), "proto: Pod: wiretype end group for non-group");
        assert_eq!(tag(&[0x02]).to_string(), "proto: Pod: illegal tag 0 (wire type 2)");
        let negative = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        let error = Reader::new(&negative).bytes().expect_err("no length is negative");
        assert_eq!(error.to_string(), "proto: negative length found during unmarshaling");
        let skip = |wire_type, bytes: &[u8]| Reader::new(bytes).skip(Tag { number: 9, wire_type });
        assert_eq!(skip(3, &[0x08, 1, 0x0c]), Ok(()));
        assert_eq!(skip(3, &[0x08]), Err(Reason::Short.into()));
        assert_eq!(skip(6, &[]), Err(Reason::IllegalWireType(6).into()));
    }
}
