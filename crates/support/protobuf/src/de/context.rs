//! What the decoding of one object may cost.

use std::cell::Cell;

use crate::DEPTH_MAX;
use crate::error::{Error, Reason};

/// How often the bytes may be copied to bring fields into order. Each level of messages with
/// scattered fields copies what is in it.
const COPIES_MAX: usize = 8;

/// The bounds of one decoding.
pub(crate) struct Context {
    messages_max: usize,
    messages: Cell<usize>,
    copied: Cell<usize>,
    copied_max: usize,
}

impl Context {
    pub(crate) fn new(length: usize, messages_max: usize) -> Self {
        let copied_max = length.saturating_mul(COPIES_MAX);
        Self { messages_max, messages: Cell::new(0), copied: Cell::new(0), copied_max }
    }

    /// Notes that a message is entered.
    pub(crate) fn enter(&self, depth: usize) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(Reason::TooDeep.into());
        }
        self.messages.set(self.messages.get() + 1);
        if self.messages.get() > self.messages_max {
            return Err(Reason::TooManyMessages(self.messages_max).into());
        }
        Ok(())
    }

    /// Notes that this many bytes are copied.
    pub(crate) fn copy(&self, length: usize) -> Result<(), Error> {
        self.copied.set(self.copied.get().saturating_add(length));
        if self.copied.get() > self.copied_max { Err(Reason::TooScattered.into()) } else { Ok(()) }
    }
}
