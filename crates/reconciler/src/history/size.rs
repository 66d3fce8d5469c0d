//! Estimates the memory of the texts of a record. Shared texts are not counted.

use std::fmt::{self, Display, Write as _};

use windlass_indexer::ObjectKey;

/// The two counters of an `Arc`.
pub(crate) const ARC_COUNTERS: usize = 2 * size_of::<usize>();

/// Counts what is written to it.
struct Counter(usize);

impl fmt::Write for Counter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

/// The length of a version or a uid. A uid that is a UUID takes less: it is kept in sixteen bytes.
pub(crate) fn text_bytes(text: &impl Display) -> usize {
    let mut counter = Counter(0);
    let _ = write!(counter, "{text}");
    counter.0
}

/// What a key has allocated, if it shares nothing.
pub(crate) fn key_bytes(key: &ObjectKey) -> usize {
    let namespace = key.namespace().map_or(0, |namespace| ARC_COUNTERS + namespace.len());
    ARC_COUNTERS + key.name().len() + namespace
}
