//! Classes of bytes by words of eight, for processors whose vectors [`super`] does not use.

use super::{BLOCK, Classes};

/// One in every byte.
const ONES: u64 = 0x0101_0101_0101_0101;
/// The highest bit of every byte.
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// The classes of all bytes of a block.
#[inline]
pub(super) fn classes(block: &[u8; BLOCK]) -> Classes {
    Classes {
        quotes: equal(block, b'"'),
        backslashes: equal(block, b'\\'),
        // This bit is all that `[` and `{`, and `]` and `}`, differ in.
        opens: marks(block, |word| zeros((word | ONES * 0x20) ^ (ONES * u64::from(b'{')))),
        closes: marks(block, |word| zeros((word | ONES * 0x20) ^ (ONES * u64::from(b'}')))),
        blanks: marks(block, blanks),
    }
}

/// The bytes that are equal to `byte`.
#[inline]
pub(super) fn equal(block: &[u8; BLOCK], byte: u8) -> u64 {
    marks(block, |word| zeros(word ^ (ONES * u64::from(byte))))
}

/// Gathers the highest bits that `mark` sets in every word.
#[inline]
fn marks(block: &[u8; BLOCK], mark: impl Fn(u64) -> u64) -> u64 {
    let (words, _) = block.as_chunks::<8>();
    words.iter().rev().fold(0, |bits, word| {
        // The factor moves the bit of each byte to its own place in the highest byte.
        let marked = mark(u64::from_le_bytes(*word)) >> 7;
        bits << 8 | marked.wrapping_mul(0x0102_0408_1020_4080) >> 56
    })
}

/// Marks the bytes that are zero, by their highest bit. No carry crosses a byte, so the result is exact.
#[inline]
fn zeros(word: u64) -> u64 {
    !(((word & !HIGHS) + !HIGHS) | word) & HIGHS
}

/// Marks the bytes from zero up to the space.
#[inline]
fn blanks(word: u64) -> u64 {
    !(((word & !HIGHS) + ONES * (0x7f - 0x20)) | word) & HIGHS
}
