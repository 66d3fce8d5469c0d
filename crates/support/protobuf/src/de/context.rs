//! The settings of one decoding: what it may cost, and what it leaves out.

use std::cell::Cell;

use crate::DEPTH_MAX;
use crate::error::{Error, Reason};

/// How often the bytes may be copied to bring fields into order. Each level of messages with
/// scattered fields copies what is in it.
const COPIES_MAX: usize = 8;

/// The settings of one decoding, and what it has cost.
pub(crate) struct Context {
    /// Whether fields that the table lacks are left out, instead of refused.
    pub(crate) skips_unknown: bool,
    messages_max: usize,
    messages: Cell<usize>,
    copied: Cell<usize>,
    copied_max: usize,
}

impl Context {
    pub(crate) fn new(length: usize, messages_max: usize) -> Self {
        let copied_max = length.saturating_mul(COPIES_MAX);
        let (messages, copied) = (Cell::new(0), Cell::new(0));
        Self { skips_unknown: false, messages_max, messages, copied, copied_max }
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
