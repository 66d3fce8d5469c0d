//! The queue between the watch and the store: all changes since the last pop, by key. As in
//! client-go, all changes of a key are together, in their order, and keys leave in the order of
//! their first change.
//!
//! ```text
//! Feed ─objects→ Cache { judge → DeltaFifo → Store } ─notices→ handlers
//! ```
//!
//! The cache owns it. For each chunk of a body the cache queues what is news, and then pops
//! everything, under one lock. So the queue needs no lock of its own, and no bound.
//!
//! A list goes through it object by object, by mark and sweep, and is never held as a whole. So,
//! unlike in client-go's newest queue, a list is not one atomic change: while it is read, readers
//! of the store see some keys as the list has them and others as they were before.
//!
//! Invariants: `queue` holds exactly the keys of `items`, each once; no item is empty. A delete
//! never follows a delete, because the cache queues it only for an object that it holds.

mod delta;
mod replace;

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use windlass_indexer::{Object, ObjectKey, Reader};

pub(crate) use delta::Delta;
pub use delta::FinalState;
pub(crate) use replace::ReplaceList;

/// Changes of objects by key, first in, first out.
#[derive(Debug, Default)]
pub(crate) struct DeltaFifo {
    /// Hashed with a random seed, because tenants choose the names.
    items: HashMap<ObjectKey, Vec<Delta>, RandomState>,
    queue: VecDeque<ObjectKey>,
}

/// How much room an empty queue keeps. A resync needs as much as the cache has keys.
const ROOM_KEPT: usize = 1024;

impl DeltaFifo {
    /// The list has an object that is new, or differs from the cached version. An unchanged one is
    /// only [marked](ReplaceList::mark).
    pub(crate) fn replace(&mut self, list: &mut ReplaceList, object: Arc<Object>) {
        list.mark(object.head().key());
        self.push(Delta::Replaced(object));
    }

    /// The list is complete: every cached object that it covers and did not have gets a tombstone.
    /// Returns how many. Nothing may be queued but objects of this list: what is queued is not
    /// swept.
    #[expect(clippy::needless_pass_by_value, reason = "a list ends once")]
    pub(crate) fn end_replace(&mut self, list: ReplaceList, known: &Reader) -> usize {
        if !list.can_sweep() {
            return 0;
        }
        let snapshot = known.snapshot();
        let covered = match list.namespace() {
            Some(namespace) => snapshot.in_namespace(namespace),
            None => snapshot.all(),
        };
        let gone = covered.iter().filter(|object| list.is_gone(object.head().key()));
        let mut tombstones = 0;
        for object in gone {
            self.push(Delta::tombstone(Arc::clone(object)));
            tombstones += 1;
        }
        tombstones
    }

    /// Queues a [`Delta::Sync`] for every cached object.
    pub(crate) fn resync(&mut self, known: &Reader) {
        for object in &known.snapshot().all() {
            self.push(Delta::Sync(Arc::clone(object)));
        }
    }

    /// Removes the key that has waited longest, with all its changes.
    pub(crate) fn pop(&mut self) -> Option<Vec<Delta>> {
        let key = self.queue.pop_front()?;
        let deltas = self.items.remove(&key).expect("every queued key must have changes");
        if self.queue.is_empty() && self.queue.capacity() > ROOM_KEPT {
            self.queue.shrink_to(ROOM_KEPT);
            self.items.shrink_to(ROOM_KEPT);
        }
        Some(deltas)
    }

    /// The newest change that is queued for a key.
    pub(crate) fn newest(&self, key: &ObjectKey) -> Option<&Delta> {
        // Mostly nothing is queued. Then the key need not be hashed.
        if self.queue.is_empty() {
            return None;
        }
        self.items.get(key)?.last()
    }

    /// Queues a change after the others of its key. A delete needs an object that is cached or
    /// queued.
    pub(crate) fn push(&mut self, delta: Delta) {
        match self.items.entry(delta.key().clone()) {
            Entry::Occupied(mut queued) => queued.get_mut().push(delta),
            Entry::Vacant(place) => {
                self.queue.push_back(place.key().clone());
                place.insert(vec![delta]);
            }
        }
    }
}

#[cfg(test)]
mod tests;
