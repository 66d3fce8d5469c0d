//! The wire format: writes tags, varints and lengths, and reads them with the errors of the decoder
//! that Kubernetes generates for Go.

/// Go's error for bytes that end too early.
const SHORT: &str = "unexpected EOF";

/// The encoding of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireType {
    Varint = 0,
    Fixed64 = 1,
    /// A length, followed by that many bytes.
    Bytes = 2,
}

/// A reader of encoded bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

/// A tag: the number and the encoding of the next field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tag {
    pub(super) number: u32,
    pub(super) wire_type: u8,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads the next tag of a message. The name is for errors.
    #[expect(clippy::cast_possible_truncation, reason = "Go cuts numbers off in the same way")]
    pub(super) fn tag(&mut self, message: &str) -> Result<Tag, String> {
        let wire = self.varint()?;
        let wire_type = (wire & 7) as u8;
        let number = ((wire >> 3) as u32).cast_signed();
        if wire_type == 4 {
            return Err(format!("proto: {message}: wiretype end group for non-group"));
        }
        match u32::try_from(number) {
            Ok(number) if number > 0 => Ok(Tag { number, wire_type }),
            _ => Err(format!("proto: {message}: illegal tag {number} (wire type {wire})")),
        }
    }

    pub(super) fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(SHORT)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(value);
            }
        }
        Err("proto: integer overflow".to_owned())
    }

    pub(super) fn double(&mut self) -> Result<f64, String> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(SHORT)?;
        self.rest = rest;
        Ok(f64::from_le_bytes(*bytes))
    }

    /// Reads a length and that many bytes.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], String> {
        let length = self.length()?;
        self.take(length)
    }

    /// Skips the value of an unknown field.
    pub(super) fn skip(&mut self, tag: Tag) -> Result<(), String> {
        let mut wire_type = tag.wire_type;
        let mut groups = 0_usize;
        loop {
            match wire_type {
                0 => drop(self.varint()?),
                1 => drop(self.take(8)?),
                2 => drop(self.bytes()?),
                3 => groups += 1,
                4 if groups == 0 => return Err("proto: unexpected end of group".to_owned()),
                4 => groups -= 1,
                5 => drop(self.take(4)?),
                other => return Err(format!("proto: illegal wireType {other}")),
            }
            if groups == 0 {
                return Ok(());
            }
            wire_type = (self.varint()? & 7) as u8;
        }
    }

    fn length(&mut self) -> Result<usize, String> {
        let length = self.varint()?;
        let in_go = i64::try_from(length).ok().and_then(|length| usize::try_from(length).ok());
        in_go.ok_or_else(|| "proto: negative length found during unmarshaling".to_owned())
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(SHORT)?;
        self.rest = rest;
        Ok(bytes)
    }
}

pub(super) fn put_tag(out: &mut Vec<u8>, number: u32, wire_type: WireType) {
    put_varint(out, u64::from(number) << 3 | wire_type as u64);
}

pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

/// Writes a field of bytes.
pub(super) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
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
        assert_eq!(tag(&[]), "unexpected EOF");
        assert_eq!(tag(&[0xff; 11]), "proto: integer overflow");
        assert_eq!(tag(&[0x0c]), "proto: Pod: wiretype end group for non-group");
        assert_eq!(tag(&[0x02]), "proto: Pod: illegal tag 0 (wire type 2)");
        let negative = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        let error = Reader::new(&negative).bytes().expect_err("no length is negative");
        assert_eq!(error, "proto: negative length found during unmarshaling");
        let skip = |wire_type, bytes: &[u8]| Reader::new(bytes).skip(Tag { number: 9, wire_type });
        assert_eq!(skip(3, &[0x08, 1, 0x0c]), Ok(()));
        assert_eq!(skip(3, &[0x08]), Err("unexpected EOF".to_owned()));
        assert_eq!(skip(6, &[]), Err("proto: illegal wireType 6".to_owned()));
    }
}
