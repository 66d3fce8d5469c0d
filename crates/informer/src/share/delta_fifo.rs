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
//! Invariants: `queue` holds exactly the keys of `items`, each once; no item is empty; a delete
//! never follows a delete.

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
    /// A watch reported a deletion, with the final state of the object. Nothing happens if the key
    /// is neither in the cache nor queued: its deletion was reported before, for instance by a
    /// list.
    pub(crate) fn delete(&mut self, object: Arc<Object>, known: &Reader) {
        let key = object.head().key();
        if self.items.contains_key(key) || known.get(key).is_some() {
            self.push(Delta::Deleted { object, state: FinalState::Final });
        }
    }

    /// Begins a list of all objects, or of those in a namespace. `known` is the cache.
    pub(crate) fn begin_replace(&self, known: &Reader, namespace: Option<&str>) -> ReplaceList {
        let is_cached = match namespace {
            Some(namespace) => known.snapshot().in_namespace(namespace).iter().next().is_some(),
            None => !known.is_empty(),
        };
        let is_queued = || self.queue.iter().any(|key| replace::covers(namespace, key));
        ReplaceList::new(namespace, is_cached || is_queued())
    }

    /// The list has an object that is new, or differs from the cached version. An unchanged one is
    /// only [marked](ReplaceList::mark).
    pub(crate) fn replace(&mut self, list: &mut ReplaceList, object: Arc<Object>) {
        list.mark(object.head().key());
        self.push(Delta::Replaced(object));
    }

    /// The list is complete: every cached or queued object that it covers and did not have gets a
    /// tombstone. Returns how many.
    #[expect(clippy::needless_pass_by_value, reason = "a list ends once")]
    pub(crate) fn end_replace(&mut self, list: ReplaceList, known: &Reader) -> usize {
        if !list.can_sweep() {
            return 0;
        }
        let mut tombstones = 0;
        for deltas in self.items.values_mut() {
            let newest = &deltas[deltas.len() - 1];
            if !newest.is_deleted() && list.is_gone(newest.key()) {
                let object = Arc::clone(newest.object());
                deltas.push(Delta::tombstone(object));
                tombstones += 1;
            }
        }
        let snapshot = known.snapshot();
        let covered = match list.namespace() {
            Some(namespace) => snapshot.in_namespace(namespace),
            None => snapshot.all(),
        };
        let gone = covered.iter().filter(|object| list.is_gone(object.head().key()));
        tombstones + self.push_unqueued(gone, Delta::tombstone)
    }

    /// Queues a [`Delta::Sync`] for every cached object, except for keys that are queued: what is
    /// queued is newer, and handlers see the object anyway. Returns how many.
    pub(crate) fn resync(&mut self, known: &Reader) -> usize {
        self.push_unqueued(known.snapshot().all().iter(), Delta::Sync)
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

    /// Queues a change after the others of its key.
    pub(crate) fn push(&mut self, delta: Delta) {
        match self.items.entry(delta.key().clone()) {
            Entry::Occupied(mut queued) => {
                let deltas = queued.get_mut();
                let newest = deltas.last_mut().expect("an item must not be empty");
                if newest.is_deleted() && delta.is_deleted() {
                    newest.merge_delete(delta);
                } else {
                    deltas.push(delta);
                }
            }
            Entry::Vacant(place) => {
                self.queue.push_back(place.key().clone());
                place.insert(vec![delta]);
            }
        }
    }

    /// Queues a change for each of the objects whose key is not queued. Returns for how many.
    fn push_unqueued<'a>(
        &mut self,
        objects: impl Iterator<Item = &'a Arc<Object>>,
        change: fn(Arc<Object>) -> Delta,
    ) -> usize {
        let before = self.queue.len();
        for object in objects {
            if let Entry::Vacant(place) = self.items.entry(object.head().key().clone()) {
                self.queue.push_back(place.key().clone());
                place.insert(vec![change(Arc::clone(object))]);
            }
        }
        self.queue.len() - before
    }
}

#[cfg(test)]
mod tests;
