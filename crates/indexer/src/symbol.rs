//! A shared, immutable text.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A text that is shared by everything that was interned in the same [`Interner`](crate::Interner).
///
/// It compares, orders and hashes like its text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(pub(crate) Arc<str>);

/// Key and value of a label.
pub(crate) type Label = (Symbol, Symbol);

impl Symbol {
    /// Creates a symbol that no interner knows. It equals an interned one with the same text.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What an `Arc<str>` takes from the allocator: two counters and the text, aligned.
pub(crate) fn arc_str_bytes(text: &Arc<str>) -> usize {
    const COUNTER: usize = size_of::<usize>();
    (2 * COUNTER + text.len()).next_multiple_of(COUNTER)
}

impl Deref for Symbol {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Symbol {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}
