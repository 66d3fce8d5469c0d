//! One copy of each text that many objects share: namespaces, label keys, kinds and API versions.
//!
//! Names, uids and label values are not interned, because a busy cluster makes new ones all day. Namespaces
//! can churn as well, so the table forgets what nobody uses any more: when it has grown to twice of what
//! was left after the last look, texts that only the table holds are dropped. There is no global table; a
//! store has its own, or shares the one that it is given.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// A text that is shared by everything that was interned in the same [`Interner`].
///
/// It compares, orders and hashes as its text does; two from one interner compare by address first.
#[derive(Clone)]
pub struct Symbol(Arc<str>);

/// A table of shared texts; clones share it.
///
/// ```
/// use windlass_indexer::Interner;
///
/// let interner = Interner::new();
/// let (one, two) = (interner.intern("kube-system"), interner.intern("kube-system"));
/// assert_eq!(one, two);
/// assert_eq!(interner.len(), 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Interner(Arc<Mutex<Texts>>);

/// The interner, locked for the texts of one object.
pub(crate) struct Interning<'a>(MutexGuard<'a, Texts>);

#[derive(Default)]
struct Texts {
    table: HashTable<Arc<str>>,
    /// Seeded by chance, against names chosen to collide; the order of this table never shows.
    hasher: RandomState,
    /// The table is swept when it is larger than this.
    sweep_at: usize,
}

/// The table is never swept below this many texts: a sweep must cost less than it brings.
const SWEEP_MIN: usize = 1_024;

impl Symbol {
    /// A text of its own, which no interner knows; it equals an interned one with the same text.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Interner {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// The shared copy of `text`.
    pub fn intern(&self, text: &str) -> Symbol {
        self.lock().intern(text)
    }

    /// How many texts there are.
    pub fn len(&self) -> usize {
        self.lock().0.table.len()
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the texts and the table take, in bytes asked of the allocator.
    pub fn allocated_bytes(&self) -> usize {
        let texts = self.lock().0;
        let held: usize = texts.table.iter().map(arc_str_bytes).sum();
        held + texts.table.allocation_size()
    }

    pub(crate) fn lock(&self) -> Interning<'_> {
        Interning(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Interning<'_> {
    pub(crate) fn intern(&mut self, text: &str) -> Symbol {
        let texts = &mut *self.0;
        let hash = texts.hasher.hash_one(text);
        if let Some(known) = texts.table.find(hash, |known| **known == *text) {
            return Symbol(Arc::clone(known));
        }
        texts.sweep();
        let text: Arc<str> = text.into();
        let hasher = &texts.hasher;
        texts.table.insert_unique(hash, Arc::clone(&text), |text| hasher.hash_one(&**text));
        Symbol(text)
    }
}

impl Texts {
    fn sweep(&mut self) {
        if self.table.len() < self.sweep_at.max(SWEEP_MIN) {
            return;
        }
        self.table.retain(|text| Arc::strong_count(text) > 1);
        let hasher = &self.hasher;
        self.table.shrink_to(2 * self.table.len(), |text| hasher.hash_one(&**text));
        self.sweep_at = 2 * self.table.len();
    }
}

/// What an `Arc<str>` asks of the allocator: two counts, then the text, rounded up to their alignment.
pub(crate) fn arc_str_bytes(text: &Arc<str>) -> usize {
    const COUNT: usize = size_of::<usize>();
    (2 * COUNT + text.len()).next_multiple_of(COUNT)
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

impl PartialEq for Symbol {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for Symbol {}

impl PartialOrd for Symbol {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Symbol {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.cmp(&other.0) }
    }
}

impl Hash for Symbol {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
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

impl fmt::Debug for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Texts").field("len", &self.table.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_nobody_uses_are_forgotten() {
        let interner = Interner::new();
        let kept = interner.intern("kept");
        for number in 0..100_000 {
            interner.intern(&format!("churn-{number}"));
        }
        assert!(interner.len() <= 2 * SWEEP_MIN, "{} texts are left", interner.len());
        assert!(Arc::ptr_eq(&interner.intern("kept").0, &kept.0));
    }

    #[test]
    fn texts_in_use_are_kept_however_many() {
        let interner = Interner::new();
        let texts: Vec<_> = (0..5_000).map(|n| interner.intern(&format!("used-{n}"))).collect();
        assert_eq!(interner.len(), texts.len());
    }
}
