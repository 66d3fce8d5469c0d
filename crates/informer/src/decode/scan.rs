//! The structural scan: which bytes of JSON text are structure, and which are inside of strings.
//!
//! Text is read in blocks of 64 bytes. [`Classes`] marks the interesting bytes of a block, one bit each, the
//! first byte lowest; [`Strings`] carries over from block to block whether a string is open, and tells which
//! of these bytes are outside of strings. A string is a pair of quotes that are not escaped; nothing else of
//! JSON's grammar is checked here.
//!
//! This is the first stage of simdjson, in safe Rust: the crate `wide` offers vectors of sixteen bytes as safe
//! types, on the instructions that every processor of the target has (SSE2, NEON), and on plain arrays where
//! there are none. The alternatives:
//! - Words of eight bytes, without any crate: tried, and half as fast on a list of pods.
//! - The intrinsics of `std::arch`, which `wide` is made of: `unsafe` to call from a function without
//!   `#[target_feature]`, even if the whole target has the feature. `std::simd` is not stable.
//! - Vectors of 32 bytes, chosen at run time: the choice is `unsafe`. The scan is still the largest part of
//!   splitting, so this is what would make it faster; without hardware for counting bits, which SSE2 does not
//!   imply, about a fifth of it goes into that.
//! - `memchr`, which finds one to three bytes quickly when they are rare. In JSON they stand a few bytes apart:
//!   a prototype was seven times slower than one with vectors.
//!
//! Invariant: the result does not depend on how the text is divided into blocks. A block may be short, at the
//! end of what has arrived; the next one begins right after it.

mod vectors;

/// Bytes of a block.
pub(crate) const BLOCK: usize = 64;

/// The interesting bytes of a block, inside and outside of strings alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Classes {
    quotes: u64,
    backslashes: u64,
    opens: u64,
    closes: u64,
    /// All bytes up to the space, so whitespace and control characters.
    blanks: u64,
}

/// Up to 64 bytes of text. What is missing at the end is filled with spaces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    bytes: [u8; BLOCK],
    len: usize,
}

/// What is outside of strings in a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Structure {
    /// All bytes that are not part of a string (a closing quote counts as outside).
    pub(crate) outside: u64,
    /// `{` and `[`.
    pub(crate) opens: u64,
    /// `}` and `]`.
    pub(crate) closes: u64,
    /// Whitespace and control characters.
    pub(crate) blanks: u64,
}

/// Whether a string is open, and whether the next byte is escaped, at the end of the last block.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Strings {
    /// All ones inside of a string, else zero.
    inside: u64,
    /// One if the next byte is escaped, else zero.
    escaped: u64,
}

impl Block {
    /// The block at `at`, which must lie within `text`.
    #[inline]
    pub(crate) fn at(text: &[u8], at: usize) -> Self {
        let rest = &text[at..];
        if let Some(bytes) = rest.first_chunk::<BLOCK>() {
            return Self { bytes: *bytes, len: BLOCK };
        }
        let mut bytes = [b' '; BLOCK];
        bytes[..rest.len()].copy_from_slice(rest);
        Self { bytes, len: rest.len() }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes that are not filled in.
    #[inline]
    pub(crate) fn there(&self) -> u64 {
        ones(self.len)
    }

    /// The bytes that are equal to `byte`.
    #[inline]
    pub(crate) fn equal(&self, byte: u8) -> u64 {
        vectors::equal(&self.bytes, byte)
    }

    /// JSON's whitespace.
    #[inline]
    pub(crate) fn whitespace(&self) -> u64 {
        self.equal(b' ') | self.equal(b'\n') | self.equal(b'\r') | self.equal(b'\t')
    }
}

impl Strings {
    /// Passes over a block.
    #[inline]
    pub(crate) fn pass(&mut self, block: &Block) -> Structure {
        let classes = vectors::classes(&block.bytes);
        let there = block.there();
        let escaped = self.escaped(classes.backslashes & there, block.len);
        let inside = running_parity(classes.quotes & there & !escaped) ^ self.inside;
        self.inside = 0_u64.wrapping_sub((inside >> (block.len - 1)) & 1);
        let outside = !inside & there;
        Structure {
            outside,
            opens: classes.opens & outside,
            closes: classes.closes & outside,
            blanks: classes.blanks & outside,
        }
    }

    /// The bytes that a backslash escapes: those after an odd number of backslashes.
    #[inline]
    fn escaped(&mut self, backslashes: u64, len: usize) -> u64 {
        const EVEN: u64 = 0x5555_5555_5555_5555;
        if backslashes == 0 {
            return std::mem::take(&mut self.escaped);
        }
        let backslashes = backslashes & !self.escaped;
        let followers = backslashes << 1 | self.escaped;
        // A run of backslashes that starts at an odd place is found by a carry that ripples through it; the
        // bytes that are escaped are then at the even places of such a run instead of at the odd ones.
        let odd_starts = backslashes & !EVEN & !followers;
        let (even_runs, carry) = odd_starts.overflowing_add(backslashes);
        let escaped = (EVEN ^ (even_runs << 1)) & followers;
        self.escaped = if len == BLOCK { u64::from(carry) } else { (escaped >> len) & 1 };
        escaped
    }
}

/// The lowest `count` bits, of which there must be at least one.
#[inline]
fn ones(count: usize) -> u64 {
    u64::MAX >> (BLOCK - count)
}

/// Every bit becomes the parity of itself and all bits below.
#[inline]
fn running_parity(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same by looking at one byte after the other.
    fn outside_by_byte(text: &[u8]) -> Vec<bool> {
        let (mut inside, mut escaped) = (false, false);
        let mut outside = Vec::new();
        for &byte in text {
            if byte == b'"' && !escaped {
                inside = !inside;
            }
            escaped = byte == b'\\' && !escaped;
            outside.push(!inside);
        }
        outside
    }

    fn bits(block: &[u8; BLOCK], is: impl Fn(u8) -> bool) -> u64 {
        block.iter().rev().fold(0, |bits, &byte| bits << 1 | u64::from(is(byte)))
    }

    fn json_like() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            4 => prop::sample::select(br#""\{}[]:, "#.to_vec()),
            1 => any::<u8>(),
        ];
        prop::collection::vec(byte, 1..400)
    }

    proptest! {
        #[test]
        fn strings_are_found_wherever_blocks_begin(
            text in json_like(),
            cuts in prop::collection::vec(1_usize..200, 0..8),
        ) {
            let mut strings = Strings::default();
            let mut outside = Vec::new();
            let mut start = 0_usize;
            for end in cuts.into_iter().chain([usize::MAX]) {
                let end = start.saturating_add(end).min(text.len());
                while start < end {
                    let block = Block::at(&text[..end], start);
                    let structure = strings.pass(&block);
                    outside.extend((0..block.len()).map(|bit| structure.outside >> bit & 1 == 1));
                    start += block.len();
                }
            }
            prop_assert_eq!(outside, outside_by_byte(&text));
        }

        #[test]
        fn classes_are_the_same_by_vector_and_by_byte(text in json_like(), byte: u8) {
            let block = Block::at(&text, 0).bytes;
            let by_byte = Classes {
                quotes: bits(&block, |byte| byte == b'"'),
                backslashes: bits(&block, |byte| byte == b'\\'),
                opens: bits(&block, |byte| byte == b'{' || byte == b'['),
                closes: bits(&block, |byte| byte == b'}' || byte == b']'),
                blanks: bits(&block, |byte| byte <= b' '),
            };
            prop_assert_eq!(vectors::classes(&block), by_byte);
            prop_assert_eq!(vectors::equal(&block, byte), bits(&block, |other| other == byte));
        }
    }
}
