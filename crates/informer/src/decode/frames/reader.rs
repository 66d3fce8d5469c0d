//! What has arrived of a body and was not taken out, and how far it was read.
//!
//! Positions count from the start of the frame, which is the first byte that is still held: they stay valid
//! while more arrives. Invariant: the buffer is as large as the largest unfinished frame and the last piece
//! of the body needed, within a factor; after a frame of unusual size it shrinks again.

use std::ops::Range;

use crate::decode::compact::{ObjectScan, Progress};

/// A buffer of up to this size is kept whatever it holds.
const CAPACITY_KEPT: usize = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct Reader {
    bytes: Vec<u8>,
    /// Where in `bytes` the frame starts. What is before it was taken out.
    start: usize,
    /// How many bytes of the frame were read.
    at: usize,
    /// Bytes of the body before the frame.
    offset: u64,
}

impl Reader {
    pub(super) fn push(&mut self, chunk: &[u8]) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        let needed = self.bytes.len() + chunk.len();
        if self.bytes.capacity() > CAPACITY_KEPT.max(4 * needed) {
            self.bytes.shrink_to(needed);
        }
        self.bytes.extend_from_slice(chunk);
    }

    /// Forgets everything but the buffer.
    pub(super) fn reset(&mut self) {
        self.bytes.clear();
        *self = Self { bytes: std::mem::take(&mut self.bytes), ..Self::default() };
    }

    /// The next byte that is not whitespace, if it has arrived.
    pub(super) fn peek(&mut self) -> Option<u8> {
        let rest = self.rest();
        let skip = rest.iter().position(|byte| !matches!(byte, b' ' | b'\n' | b'\r' | b'\t'));
        let next = skip.map(|skip| rest[skip]);
        self.at += skip.unwrap_or(rest.len());
        next
    }

    /// Reads `count` bytes, which must have arrived. Returns where they are.
    pub(super) fn read(&mut self, count: usize) -> Range<usize> {
        let from = self.at;
        self.at += count;
        from..self.at
    }

    /// Drops what was read: the next frame starts here.
    pub(super) fn consume(&mut self) {
        self.start += self.at;
        self.offset += self.at as u64;
        self.at = 0;
    }

    /// Reads on in an object. Returns where it is, once it has arrived.
    pub(super) fn object(&mut self, scan: &mut ObjectScan) -> Option<Range<usize>> {
        match scan.advance(self.rest()) {
            Progress::More => None,
            Progress::End(len) => Some(self.read(len)),
        }
    }

    /// What was not read.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.start + self.at..]
    }

    /// Bytes of the frame that have arrived, and perhaps of what comes after it.
    pub(super) fn held(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Bytes of the frame that were read.
    pub(super) fn frame_len(&self) -> usize {
        self.at
    }

    /// Bytes of the body that were read.
    pub(super) fn offset(&self) -> u64 {
        self.offset + self.at as u64
    }

    /// Bytes of the body that have arrived.
    pub(super) fn arrived(&self) -> u64 {
        self.offset + self.held() as u64
    }

    /// Bytes of memory.
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn get(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[self.start..][range]
    }

    pub(super) fn get_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self.bytes[self.start..][range]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_shrinks_after_a_large_frame() {
        let mut reader = Reader::default();
        reader.push(&vec![b'x'; 8 << 20]);
        reader.read(8 << 20);
        reader.consume();
        reader.push(b"small");
        assert!(reader.bytes.capacity() <= CAPACITY_KEPT);
        assert_eq!(reader.rest(), b"small");
        assert_eq!(reader.offset(), 8 << 20);
    }

    #[test]
    fn the_buffer_is_reused() {
        let mut reader = Reader::default();
        reader.push(&[b'x'; 10_000]);
        let capacity = reader.bytes.capacity();
        for _ in 0..100 {
            reader.read(9_000);
            reader.consume();
            reader.push(&[b'x'; 9_000]);
        }
        assert_eq!(reader.bytes.capacity(), capacity);
    }
}
