//! The structural scan: which bytes of JSON text are structure, and which are inside of strings.
//!
//! Text is read in blocks of 64 bytes. A set of bytes of a block is a `u64` with one bit for each
//! byte, the first byte lowest. [`Strings`] knows from the blocks before whether a string is open,
//! and tells which bytes are outside of strings. A string is a pair of quotes that are not escaped.
//! Nothing else of JSON's grammar is checked here.
//!
//! This is the first stage of simdjson. The crate `wide` provides vectors of sixteen bytes as safe
//! types. It uses the instructions that every processor of the target has (SSE2, NEON), and plain
//! arrays where there are none.
//!
//! Invariant: the result does not depend on how the text is divided into blocks. A block may be
//! short, at the end of what has arrived. The next one begins right after it.

use wide::u8x16;

/// Bytes of a block.
const BLOCK: usize = 64;

/// Up to 64 bytes of text. What is missing at the end is filled with spaces.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    lanes: [u8x16; 4],
    len: usize,
}

/// What is outside of strings in a block.
#[derive(Clone, Copy)]
pub(crate) struct Structure {
    /// All bytes that are not part of a string. A closing quote counts as outside.
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

/// The same as [`Strings`] for one byte after the other. For text that is short or rare.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StringsByByte {
    is_inside: bool,
    is_escaped: bool,
}

impl Block {
    /// The block at `at`, which must lie within `text`.
    #[inline]
    pub(crate) fn at(text: &[u8], at: usize) -> Self {
        let rest = &text[at..];
        let len = rest.len().min(BLOCK);
        let bytes = rest.first_chunk::<BLOCK>().copied().unwrap_or_else(|| {
            let mut bytes = [b' '; BLOCK];
            bytes[..len].copy_from_slice(rest);
            bytes
        });
        let (lanes, _) = bytes.as_chunks::<16>();
        Self { lanes: [0, 1, 2, 3].map(|lane| u8x16::new(lanes[lane])), len }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes that are equal to `byte`.
    #[inline]
    pub(crate) fn equal(&self, byte: u8) -> u64 {
        self.matching(|lane| lane.simd_eq(u8x16::splat(byte)))
    }

    /// For `{` both `{` and `[`, and for `}` both `}` and `]`. They differ in this bit only.
    #[inline]
    fn brackets(&self, bracket: u8) -> u64 {
        self.matching(|lane| (lane | u8x16::splat(0x20)).simd_eq(u8x16::splat(bracket)))
    }

    /// All bytes up to the space, which are whitespace and control characters.
    #[inline]
    fn blanks(&self) -> u64 {
        self.matching(|lane| lane.min(u8x16::splat(b' ')).simd_eq(lane))
    }

    #[inline]
    fn matching(&self, compare: impl Fn(u8x16) -> u8x16) -> u64 {
        let [a, b, c, d] = self.lanes.map(|lane| u64::from(compare(lane).to_bitmask()));
        a | b << 16 | c << 32 | d << 48
    }
}

impl Strings {
    /// Passes over a block.
    #[inline]
    pub(crate) fn pass(&mut self, block: &Block) -> Structure {
        let present = u64::MAX >> (BLOCK - block.len);
        let escaped = self.escaped(block.equal(b'\\') & present, block.len);
        let inside = running_parity(block.equal(b'"') & present & !escaped) ^ self.inside;
        self.inside = 0_u64.wrapping_sub((inside >> (block.len - 1)) & 1);
        let outside = !inside & present;
        Structure {
            outside,
            opens: block.brackets(b'{') & outside,
            closes: block.brackets(b'}') & outside,
            blanks: block.blanks() & outside,
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
        // A carry ripples through each run of backslashes that starts at an odd position. In such
        // a run the escaped bytes are at the even positions, and in the others at the odd ones.
        let odd_starts = backslashes & !EVEN & !followers;
        let (even_runs, carry) = odd_starts.overflowing_add(backslashes);
        let escaped = (EVEN ^ (even_runs << 1)) & followers;
        self.escaped = if len == BLOCK { u64::from(carry) } else { (escaped >> len) & 1 };
        escaped
    }
}

impl StringsByByte {
    /// Passes over a byte. Returns whether it is outside of strings.
    pub(crate) fn pass(&mut self, byte: u8) -> bool {
        self.is_inside ^= byte == b'"' && !self.is_escaped;
        self.is_escaped = byte == b'\\' && !self.is_escaped;
        !self.is_inside
    }
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
            let mut by_byte = StringsByByte::default();
            let expected: Vec<_> = text.iter().map(|&byte| by_byte.pass(byte)).collect();
            prop_assert_eq!(outside, expected);
        }

        #[test]
        fn sets_are_the_same_by_vector_and_by_byte(text in json_like(), wanted: u8) {
            let block = Block::at(&text, 0);
            let set = |is: fn(u8, u8) -> bool| {
                let padded = text.iter().copied().chain(std::iter::repeat(b' '));
                let bytes = padded.take(BLOCK).enumerate();
                bytes.fold(0, |set, (bit, byte)| set | u64::from(is(byte, wanted)) << bit)
            };
            prop_assert_eq!(block.equal(wanted), set(|byte, wanted| byte == wanted));
            prop_assert_eq!(block.brackets(b'{'), set(|byte, _| byte == b'{' || byte == b'['));
            prop_assert_eq!(block.brackets(b'}'), set(|byte, _| byte == b'}' || byte == b']'));
            prop_assert_eq!(block.blanks(), set(|byte, _| byte <= b' '));
        }
    }
}
