//! The writes of one run that the journal keeps.

use crate::write::Write;

/// How many writes of a run are kept: the first half and the last half of them.
pub const WRITES_PER_RUN: usize = 16;

/// How many of them are the first ones.
const FIRST: usize = WRITES_PER_RUN / 2;

/// The first and the last writes of a run, and how many there were between them.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptWrites {
    pub(crate) writes: Vec<Write>,
    pub(crate) omitted: u64,
}

impl KeptWrites {
    pub(crate) fn push(&mut self, write: Write) {
        if self.writes.len() == WRITES_PER_RUN {
            self.writes.remove(FIRST);
            self.omitted += 1;
        }
        self.writes.push(write);
    }
}
