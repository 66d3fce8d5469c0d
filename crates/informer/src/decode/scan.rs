//! The structural scan: which bytes of JSON text are structure, and which are inside of strings. A
//! string is a pair of quotes that are not escaped. Nothing else of JSON's grammar is checked here.
//!
//! Invariant: the result does not depend on how the text is divided into chunks.

use memchr::memchr2;

/// Whether a string is open, and whether the next byte is escaped, after the bytes that were
/// passed.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json_like() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            4 => prop::sample::select(br#""\{}[]:, "#.to_vec()),
            1 => any::<u8>(),
        ];
        prop::collection::vec(byte, 1..400)
    }

    proptest! {
        #[test]
        fn strings_are_found_wherever_chunks_end(
            text in json_like(),
            cuts in prop::collection::vec(1_usize..200, 0..8),
        ) {
            let mut strings = Strings::default();
            let mut outside = Vec::new();
            let mut start = 0_usize;
            for chunk in cuts.into_iter().chain([usize::MAX]) {
                let end = start.saturating_add(chunk).min(text.len());
                while start < end {
                    let passed = strings.pass_string(&text[start..end]);
                    start += passed;
                    if passed > 0 {
                        outside.extend(std::iter::repeat_n(false, passed - 1));
                        // A closing quote is outside.
                        outside.push(!strings.is_inside);
                    }
                    if start < end {
                        outside.push(strings.pass(text[start]));
                        start += 1;
                    }
                }
            }
            let mut by_byte = Strings::default();
            let expected: Vec<_> = text.iter().map(|&byte| by_byte.pass(byte)).collect();
            prop_assert_eq!(outside, expected);
        }
    }
}
