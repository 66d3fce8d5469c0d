//! One copy of what many objects have in common: namespaces, kinds, the labels and the owners of a workload.
//!
//! Names and uids are not interned, because each is of one object. All others come and go as well, so the
//! tables forget what nobody uses any more: when one has grown by half since the last look, and when a quarter
//! as many objects have left the store as there are texts, entries that only the table holds are dropped. So
//! what is dead is never more than what lives, but for a thousand. There is no global table; a store has its
//! own, or shares the one that it is given.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::head::Ties;

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
pub struct Interner(Arc<Mutex<Tables>>);

/// The interner, locked for the texts of one object.
pub(crate) struct Interning<'a>(MutexGuard<'a, Tables>);

#[derive(Default)]
struct Tables {
    texts: Pool<str>,
    ties: Pool<Ties>,
    /// Seeded by chance, against names chosen to collide; the order of these tables never shows.
    hasher: RandomState,
    /// Objects that have left the store since the last look.
    left: usize,
}

/// What is shared of one type.
struct Pool<T: ?Sized> {
    table: HashTable<Arc<T>>,
    /// It is swept when it is larger than this.
    sweep_at: usize,
}

/// No table is swept below this many entries: a sweep must cost less than it brings.
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
        self.lock().0.texts.table.len()
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the texts and the tables take, in bytes asked of the allocator.
    pub fn allocated_bytes(&self) -> usize {
        let Tables { texts, ties, .. } = &*self.lock().0;
        let text_bytes: usize = texts.table.iter().map(arc_str_bytes).sum();
        let tie_bytes: usize = ties.table.iter().map(Ties::allocated_bytes).sum();
        text_bytes + tie_bytes + texts.table.allocation_size() + ties.table.allocation_size()
    }

    /// An object has left a store, and may have been the last to use a text.
    pub(crate) fn object_left(&self) {
        let tables = &mut *self.lock().0;
        tables.left += 1;
        if tables.left >= SWEEP_MIN.max(tables.texts.table.len() / 4) {
            tables.left = 0;
            // In this order, because ties hold texts.
            tables.ties.sweep(&tables.hasher);
            tables.texts.sweep(&tables.hasher);
        }
    }

    pub(crate) fn lock(&self) -> Interning<'_> {
        Interning(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Interning<'_> {
    pub(crate) fn intern(&mut self, text: &str) -> Symbol {
        let Tables { texts, hasher, .. } = &mut *self.0;
        let hash = hasher.hash_one(text);
        if let Some(known) = texts.table.find(hash, |known| **known == *text) {
            return Symbol(Arc::clone(known));
        }
        Symbol(texts.add(hash, text.into(), hasher))
    }

    pub(crate) fn hash(&self, value: impl Hash) -> u64 {
        self.0.hasher.hash_one(value)
    }

    pub(crate) fn find_ties(&self, hash: u64, is: impl Fn(&Ties) -> bool) -> Option<Arc<Ties>> {
        self.0.ties.table.find(hash, |known| is(known)).cloned()
    }

    pub(crate) fn add_ties(&mut self, hash: u64, ties: Ties) -> Arc<Ties> {
        let Tables { ties: pool, hasher, .. } = &mut *self.0;
        pool.add(hash, Arc::new(ties), hasher)
    }
}

impl<T: Hash + ?Sized> Pool<T> {
    fn add(&mut self, hash: u64, value: Arc<T>, hasher: &RandomState) -> Arc<T> {
        if self.table.len() >= self.sweep_at.max(SWEEP_MIN) {
            self.sweep(hasher);
        }
        self.table.insert_unique(hash, Arc::clone(&value), |known| hasher.hash_one(&**known));
        value
    }

    /// Drops what only the table holds.
    fn sweep(&mut self, hasher: &RandomState) {
        self.table.retain(|value| Arc::strong_count(value) > 1);
        let len = self.table.len();
        if self.table.capacity() > 4 * len {
            self.table.shrink_to(2 * len, |value| hasher.hash_one(&**value));
        }
        self.sweep_at = len + len / 2;
    }
}

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self { table: HashTable::new(), sweep_at: 0 }
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

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (texts, ties) = (self.texts.table.len(), self.ties.table.len());
        f.debug_struct("Tables").field("texts", &texts).field("ties", &ties).finish_non_exhaustive()
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
