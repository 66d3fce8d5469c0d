//! What is around the objects of a body: `{"kind":…,"items":[…]}` of a list, and
//! `{"type":…,"object":…}` of a watch.
//!
//! The envelope is collected as it was sent, with empty brackets in the place of the objects. When
//! it is complete, it is small, and serde reads it. Until then only brackets and strings are
//! looked at.

use crate::decode::compact::Key;
use crate::decode::scan::Strings;

#[derive(Default)]
pub(super) struct Envelope {
    pub(super) bytes: Vec<u8>,
    strings: Strings,
    /// Objects and arrays that are open.
    depth: usize,
}

/// Why reading an envelope stopped.
pub(super) enum Stop {
    /// All bytes were read, and the envelope continues.
    More,
    /// The next byte opens a value that the caller reads.
    Value,
    /// The envelope is complete.
    End,
}

impl Envelope {
    /// Reads on. The first byte of an envelope must be `{`. Stops before the value of a member of
    /// the envelope for which `is_read_by_caller` returns true, given the key and the bracket that
    /// opens the value. Returns the number of bytes that were read.
    pub(super) fn advance(
        &mut self,
        bytes: &[u8],
        is_read_by_caller: impl Fn(&Key<'_>, u8) -> bool,
    ) -> (usize, Stop) {
        for (at, &byte) in bytes.iter().enumerate() {
            let is_outside = self.strings.pass(byte);
            match byte {
                b'{' | b'[' if is_outside => {
                    if self.depth == 1
                        && Key::of_value(&self.bytes)
                            .is_some_and(|key| is_read_by_caller(&key, byte))
                    {
                        return (at, Stop::Value);
                    }
                    self.depth += 1;
                }
                b'}' | b']' if is_outside => self.depth -= 1,
                _ => {}
            }
            self.bytes.push(byte);
            if self.depth == 0 {
                return (at + 1, Stop::End);
            }
        }
        (bytes.len(), Stop::More)
    }
}
