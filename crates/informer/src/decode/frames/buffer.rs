//! The bytes of a body that have arrived and were not consumed.
//!
//! Invariant: the buffer is as large as the largest unfinished object and the last chunk needed,
//! within a factor. After an object of unusual size it shrinks again.

/// A buffer of up to this size is kept, whatever it holds.
const CAPACITY_KEPT: usize = 1 << 20;

#[derive(Default)]
pub(super) struct Buffer {
    pub(super) bytes: Vec<u8>,
    /// Where in `bytes` the rest starts.
    start: usize,
    /// Bytes of the body that were consumed.
    offset: u64,
}

impl Buffer {
    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        let needed = self.bytes.len() + chunk.len();
        if self.bytes.capacity() > CAPACITY_KEPT.max(4 * needed) {
            self.bytes.shrink_to(needed);
        }
        self.bytes.extend_from_slice(chunk);
    }

    /// What was not consumed.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
        self.offset += count as u64;
    }

    /// Bytes of the body that were consumed.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_shrinks_after_a_large_frame() {
        let mut buffer = Buffer::default();
        buffer.push(&vec![b'x'; 8 << 20]);
        buffer.consume(8 << 20);
        buffer.push(b"small");
        assert!(buffer.bytes.capacity() <= CAPACITY_KEPT);
        assert_eq!(buffer.rest(), b"small");
        assert_eq!(buffer.offset(), 8 << 20);
    }

    #[test]
    fn the_buffer_is_reused() {
        let mut buffer = Buffer::default();
        buffer.push(&[b'x'; 10_000]);
        let capacity = buffer.bytes.capacity();
        for _ in 0..100 {
            buffer.consume(9_000);
            buffer.push(&[b'x'; 9_000]);
        }
        assert_eq!(buffer.bytes.capacity(), capacity);
    }
}
