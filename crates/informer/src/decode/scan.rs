//! The structural scan: which bytes of JSON text are structure, and which are inside of strings. A
//! string is a pair of quotes that are not escaped. Nothing else of JSON's grammar is checked here.
//!
//! Invariant: the result does not depend on how the text is divided into chunks.

use memchr::memchr2;

/// Whether a string is open, and whether the next byte is escaped, after the bytes that were passed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Strings {
    is_inside: bool,
    is_escaped: bool,
}

impl Strings {
    /// Passes over a byte. Returns whether it is outside of strings. A closing quote is outside.
    #[inline]
    pub(crate) fn pass(&mut self, byte: u8) -> bool {
        self.is_inside ^= byte == b'"' && !self.is_escaped;
        self.is_escaped = byte == b'\\' && !self.is_escaped;
        !self.is_inside
    }

    /// Passes over the rest of a string that is open, up to the end of `text`. Returns how many
    /// bytes that are. Most of an object is in strings, so this searches many bytes at once.
    #[inline]
    pub(crate) fn pass_string(&mut self, text: &[u8]) -> usize {
        let mut at = 0;
        while self.is_inside && at < text.len() {
            if !self.is_escaped {
                let rest = &text[at..];
                at += memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
            }
            if let Some(&byte) = text.get(at) {
                self.pass(byte);
                at += 1;
            }
        }
        at
    }
}
