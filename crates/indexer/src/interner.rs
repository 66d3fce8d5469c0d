//! One copy of what many objects have in common: namespaces, kinds, and the labels and the owners
//! of a workload.
//!
//! Names and uids of objects are not interned, because each belongs to one object. A value that no
//! object uses any more stays in its pool until the next sweep. A pool is swept when it has grown
//! by half since its last sweep, and all pools are swept after many objects have left the store.
//! Each store has its own interner.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;

use crate::key::arc_str_bytes;
use crate::owner::OwnersAndFinalizers;

/// A table of shared texts, labels and owners. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interner(Arc<Mutex<Pools>>);

/// Key and value of a label.
pub(crate) type Label = (Arc<str>, Arc<str>);

/// The pools of an interner. A parser locks them once for all texts of an object.
#[derive(Default)]
pub(crate) struct Pools {
    texts: Pool<str>,
    labels: Pool<[Label]>,
    owners: Pool<OwnersAndFinalizers>,
    /// How many objects have left the store since the last sweep.
    objects_left: usize,
}

/// The shared values of one type.
struct Pool<T: ?Sized> {
    /// Randomly seeded, so that nobody can choose names that collide. The order is never visible.
    values: HashSet<Arc<T>, RandomState>,
    /// The pool is swept when it has this many values.
    sweep_at: usize,
}

/// A pool with fewer values is not swept: a sweep must cost less than it frees.
const SWEEP_MIN: usize = 1_024;

impl Interner {
    /// What the shared values and the pools take from the allocator, in bytes.
    pub(crate) fn allocated_bytes(&self) -> usize {
        let pools = self.lock();
        pools.texts.allocated_bytes(arc_str_bytes)
            + pools.labels.allocated_bytes(|labels| 2 * size_of::<usize>() + size_of_val(&**labels))
            + pools.owners.allocated_bytes(|owners| owners.allocated_bytes())
    }

    /// An object has left a store. It may have been the last user of its shared values.
    pub(crate) fn object_left(&self) {
        let mut pools = self.lock();
        pools.objects_left += 1;
        if pools.objects_left >= SWEEP_MIN.max(pools.texts.values.len() / 4) {
            pools.objects_left = 0;
            // Texts come last, because the other values hold texts.
            pools.labels.sweep();
            pools.owners.sweep();
            pools.texts.sweep();
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Pools> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pools {
    pub(crate) fn text(&mut self, text: &str) -> Arc<str> {
        self.texts.share(text)
    }

    pub(crate) fn labels(&mut self, labels: Vec<Label>) -> Arc<[Label]> {
        self.labels.share(labels)
    }

    pub(crate) fn owners(&mut self, owners: OwnersAndFinalizers) -> Arc<OwnersAndFinalizers> {
        self.owners.share(owners)
    }
}

impl<T: Eq + Hash + ?Sized> Pool<T> {
    /// The shared copy of a value.
    fn share<V: Borrow<T> + Into<Arc<T>>>(&mut self, value: V) -> Arc<T> {
        if let Some(known) = self.values.get(value.borrow()) {
            return Arc::clone(known);
        }
        if self.values.len() >= self.sweep_at.max(SWEEP_MIN) {
            self.sweep();
        }
        let value = value.into();
        self.values.insert(Arc::clone(&value));
        value
    }

    /// Drops the values that only the pool holds.
    fn sweep(&mut self) {
        self.values.retain(|value| Arc::strong_count(value) > 1);
        let len = self.values.len();
        if self.values.capacity() > 4 * len {
            self.values.shrink_to(2 * len);
        }
        self.sweep_at = len + len / 2;
    }

    fn allocated_bytes(&self, value_bytes: impl Fn(&Arc<T>) -> usize) -> usize {
        let values: usize = self.values.iter().map(value_bytes).sum();
        values + self.values.capacity() * (size_of::<Arc<T>>() + 1)
    }
}

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self { values: HashSet::default(), sweep_at: 0 }
    }
}

impl fmt::Debug for Pools {
    /// Shows no text: it may be of any object.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pools").field("texts", &self.texts.values.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts_in(interner: &Interner) -> usize {
        interner.lock().texts.values.len()
    }

    #[test]
    fn texts_that_nobody_uses_are_forgotten() {
        let interner = Interner::default();
        let kept = interner.lock().text("kept");
        for number in 0..100_000 {
            interner.lock().text(&format!("churn-{number}"));
        }
        let left = texts_in(&interner);
        assert!(left <= 2 * SWEEP_MIN, "{left} texts are left");
        assert!(Arc::ptr_eq(&interner.lock().text("kept"), &kept));
    }

    #[test]
    fn texts_in_use_are_kept_however_many() {
        let interner = Interner::default();
        let texts: Vec<_> =
            (0..5_000).map(|n| interner.lock().text(&format!("used-{n}"))).collect();
        assert_eq!(texts_in(&interner), texts.len());
    }

    #[test]
    fn equal_lists_of_labels_are_one() {
        let interner = Interner::default();
        let mut pools = interner.lock();
        let mut share = |value: &str| {
            let label = (pools.text("app"), pools.text(value));
            pools.labels(vec![label])
        };
        let [one, two, other] = ["web", "web", "api"].map(&mut share);
        assert!(Arc::ptr_eq(&one, &two) && !Arc::ptr_eq(&one, &other));
    }
}
