//! The memory that a request takes while it is handled.
//!
//! What a text takes as a [`Value`](serde_json::Value) is known before it is decoded. What the
//! types of a handler or converter take is not: `{}` may become a struct of kilobytes. So it is
//! counted as they are decoded, and before they are written.

use super::body::{Counted, Shortage};

/// Taken at once, so that not every field takes from the budget.
const STEP: usize = 16 * 1024;

/// Memory of one request, which grows. It is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Memory {
    /// `None` if there is no bound.
    counted: Option<Counted>,
    /// What is counted and not yet taken.
    left: usize,
    /// What the request takes as a value. Its copies are counted already.
    value: usize,
}

impl Memory {
    /// Memory that is not bounded.
    pub(crate) fn unbounded() -> Self {
        Self { counted: None, left: 0, value: 0 }
    }

    /// What is counted already, with room for copies of a value of so many bytes.
    pub(super) fn new(counted: Counted, value: usize) -> Self {
        Self { counted: Some(counted), left: 0, value }
    }

    /// A part for what is dropped before the rest.
    pub(crate) fn part(&self) -> Result<Self, Shortage> {
        let counted = self.counted.as_ref().map(|counted| counted.more(0)).transpose()?;
        Ok(Self { counted, left: 0, value: self.value })
    }

    /// Takes more.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), Shortage> {
        let Some(counted) = &mut self.counted else { return Ok(()) };
        if self.left < bytes {
            let more = (bytes - self.left).max(STEP);
            counted.merge(counted.more(more)?);
            self.left += more;
        }
        self.left -= bytes;
        Ok(())
    }

    /// Takes what a value of so many bytes has beyond the one that is counted.
    pub(crate) fn take_copy(&mut self, bytes: usize) -> Result<(), Shortage> {
        self.take(bytes.saturating_sub(self.value))
    }
}
