//! Finding the end of one JSON value, of any type, in the envelope around objects.
//!
//! These values are few and small, except where a body is not what was expected.

use crate::decode::compact::{ManagedFields, ObjectScan, Progress};

/// A pass over one value, which may arrive in pieces.
#[derive(Debug, Default)]
pub(super) enum ValueScan {
    /// Nothing of the value was seen.
    #[default]
    Start,
    /// In a string: bytes that were passed, and whether the next one is escaped.
    String(usize, bool),
    /// In a number or a literal: bytes that were passed.
    Scalar(usize),
    /// In an object or array.
    Container(Box<ObjectScan>),
}

impl ValueScan {
    /// Goes on through `bytes`: the value from its first byte, which must not be whitespace, to as far as it
    /// has arrived. At its end the scan is ready for another value.
    pub(super) fn advance(&mut self, bytes: &[u8]) -> Progress {
        let Some(first) = bytes.first() else { return Progress::More };
        if matches!(self, Self::Start) {
            *self = match first {
                b'"' => Self::String(1, false),
                b'{' | b'[' => Self::Container(Box::new(ObjectScan::new(ManagedFields::Keep))),
                _ => Self::Scalar(0),
            };
        }
        let progress = match self {
            Self::Start => unreachable!("a scan with a first byte must have started"),
            Self::String(at, escaped) => end_of_string(bytes, at, escaped),
            Self::Scalar(at) => end_of_scalar(bytes, at),
            Self::Container(scan) => scan.advance(bytes),
        };
        if progress != Progress::More {
            *self = Self::Start;
        }
        progress
    }
}

fn end_of_string(bytes: &[u8], at: &mut usize, escaped: &mut bool) -> Progress {
    for &byte in &bytes[*at..] {
        *at += 1;
        if byte == b'"' && !*escaped {
            return Progress::End(*at);
        }
        *escaped = byte == b'\\' && !*escaped;
    }
    Progress::More
}

fn end_of_scalar(bytes: &[u8], at: &mut usize) -> Progress {
    for byte in &bytes[*at..] {
        if matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t') {
            return Progress::End(*at);
        }
        *at += 1;
    }
    Progress::More
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_end_where_they_do_in_any_pieces() {
        for value in [r#""a\\\"b\\""#, "null", "-1.5e3", r#"{"a":["}"]}"#, "[[],{}]", "\"\""] {
            let text = format!("{value},\"rest\"}}");
            for first in 0..text.len() {
                let mut scan = ValueScan::default();
                let mut progress = scan.advance(&text.as_bytes()[..first]);
                if progress == Progress::More {
                    progress = scan.advance(text.as_bytes());
                }
                assert_eq!(progress, Progress::End(value.len()), "{value} in pieces at {first}");
            }
        }
    }
}
