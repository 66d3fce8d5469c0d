//! Classes of bytes by vectors of sixteen.

use wide::u8x16;

use super::{BLOCK, Classes};

type Lanes = [u8x16; 4];

/// The classes of all bytes of a block.
#[inline]
pub(super) fn classes(block: &[u8; BLOCK]) -> Classes {
    let lanes = load(block);
    // This bit is all that `[` and `{`, and `]` and `}`, differ in.
    let folded = lanes.map(|lane| lane | u8x16::splat(0x20));
    Classes {
        quotes: marks(lanes, b'"'),
        backslashes: marks(lanes, b'\\'),
        opens: marks(folded, b'{'),
        closes: marks(folded, b'}'),
        blanks: bits(lanes.map(|lane| lane.min(u8x16::splat(b' ')).simd_eq(lane))),
    }
}

/// The bytes that are equal to `byte`.
#[inline]
pub(super) fn equal(block: &[u8; BLOCK], byte: u8) -> u64 {
    marks(load(block), byte)
}

#[inline]
fn load(block: &[u8; BLOCK]) -> Lanes {
    let (lanes, _) = block.as_chunks::<16>();
    [0, 1, 2, 3].map(|lane| u8x16::new(lanes[lane]))
}

#[inline]
fn marks(lanes: Lanes, byte: u8) -> u64 {
    bits(lanes.map(|lane| lane.simd_eq(u8x16::splat(byte))))
}

#[inline]
fn bits(lanes: Lanes) -> u64 {
    let [a, b, c, d] = lanes.map(|lane| u64::from(lane.to_bitmask()));
    a | b << 16 | c << 32 | d << 48
}
