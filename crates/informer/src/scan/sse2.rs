//! Classes of bytes by SSE2, sixteen at a time. Every `x86_64` target has it, so nothing here is `unsafe`.

use std::arch::x86_64::{
    __m128i, _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x,
    _mm_set1_epi8,
};

use super::{BLOCK, Classes};

type Lanes = [__m128i; 4];

/// The classes of all bytes of a block.
#[inline]
pub(super) fn classes(block: &[u8; BLOCK]) -> Classes {
    let lanes = load(block);
    // This bit is all that `[` and `{`, and `]` and `}`, differ in.
    let folded = lanes.map(|lane| _mm_or_si128(lane, splat(0x20)));
    let capped = lanes.map(|lane| _mm_min_epu8(lane, splat(b' ')));
    Classes {
        quotes: marks(lanes, splat(b'"')),
        backslashes: marks(lanes, splat(b'\\')),
        opens: marks(folded, splat(b'{')),
        closes: marks(folded, splat(b'}')),
        blanks: bits([0, 1, 2, 3].map(|lane| _mm_cmpeq_epi8(capped[lane], lanes[lane]))),
    }
}

/// The bytes that are equal to `byte`.
#[inline]
pub(super) fn equal(block: &[u8; BLOCK], byte: u8) -> u64 {
    marks(load(block), splat(byte))
}

#[inline]
fn load(block: &[u8; BLOCK]) -> Lanes {
    let (words, _) = block.as_chunks::<8>();
    let word = |index: usize| i64::from_le_bytes(words[index]);
    [0, 2, 4, 6].map(|index| _mm_set_epi64x(word(index + 1), word(index)))
}

#[inline]
fn splat(byte: u8) -> __m128i {
    _mm_set1_epi8(byte.cast_signed())
}

#[inline]
fn marks(lanes: Lanes, byte: __m128i) -> u64 {
    bits(lanes.map(|lane| _mm_cmpeq_epi8(lane, byte)))
}

#[inline]
fn bits(lanes: Lanes) -> u64 {
    let [a, b, c, d] = lanes.map(|lane| u64::from(_mm_movemask_epi8(lane).cast_unsigned()));
    a | b << 16 | c << 32 | d << 48
}
