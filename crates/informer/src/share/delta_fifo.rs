//! The queue between the watch and the store: changes of objects, by key. As in client-go, all
//! changes of a key are together, in their order, and keys leave in the order of their first
//! change.
//!
//! ```text
//! Feed ─objects→ Cache { judge → DeltaFifo → Store } ─notices→ handlers
//! ```
//!
//! In client-go it decouples two goroutines. Here the task that fills it also drains it: for each
//! chunk of a body, the cache queues what is new and then applies all of it, under one lock. So the
//! queue lives only for that step. It needs no lock of its own, and no bound. A resync does not go
//! through it, because it changes nothing.
//!
//! A list goes through it object by object, by mark and sweep, and is never held as a whole. So,
//! unlike in client-go's newest queue, a list is not one atomic change: while it is read, readers
//! of the store see some keys as the list has them and others as they were before.
//!
//! Invariants: `queue` holds exactly the keys of `items`, each once; no item is empty. A delete
//! never follows a delete, because the judge queues it only for an object that is cached or queued.

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use windlass_indexer::{Object, ObjectKey, Reader};

use crate::share::listing::Listing;

/// Changes of objects by key, first in, first out.
#[derive(Debug, Default)]
pub(crate) struct DeltaFifo {
    /// Hashed with a random seed, because tenants choose the names.
    items: HashMap<ObjectKey, Vec<Delta>, RandomState>,
    queue: VecDeque<ObjectKey>,
}

/// A change of one object, with the object after the change.
#[derive(Clone, Debug)]
pub(crate) enum Delta {
    /// A watch reported it as new.
    Added(Arc<Object>),
    /// A watch reported a new version.
    Updated(Arc<Object>),
    /// It is gone.
    Deleted { object: Arc<Object>, state: FinalState },
    /// A list has it, and it is new or differs from the cached one.
    Replaced(Arc<Object>),
}

/// What is known about the end of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FinalState {
    /// The server reported the deletion, with the object in its last version.
    Final,
    /// A tombstone, client-go's `DeletedFinalStateUnknown`. The deletion was missed, for instance
    /// while the watch was interrupted, and a later list did not have the object. It may have
    /// changed any number of times since this version.
    LastKnown,
}

impl DeltaFifo {
    /// The list has an object that is new, or differs from the cached version.
    pub(crate) fn replace(&mut self, list: &mut Listing, object: Arc<Object>) {
        list.mark(object.head().key());
        self.push(Delta::Replaced(object));
    }

    /// The list is complete: every cached object that it covers and did not have gets a tombstone.
    /// Returns how many. Only what is in the store gets one. So nothing may be queued but objects
    /// of this list.
    pub(crate) fn end_replace(&mut self, list: &Listing, known: &Reader) -> usize {
        let gone = list.gone(known);
        let tombstones = gone.len();
        gone.into_iter().map(Delta::tombstone).for_each(|tombstone| self.push(tombstone));
        tombstones
    }

    /// Queues a change after the others of its key. A delete needs an object that is cached or
    /// queued.
    pub(crate) fn push(&mut self, delta: Delta) {
        let key = delta.object().head().key();
        let deltas = self.items.entry(key.clone()).or_default();
        if deltas.is_empty() {
            self.queue.push_back(key.clone());
        }
        deltas.push(delta);
    }

    /// Removes the key that has waited longest, with all its changes.
    pub(crate) fn pop(&mut self) -> Option<Vec<Delta>> {
        let key = self.queue.pop_front()?;
        Some(self.items.remove(&key).expect("every queued key must have changes"))
    }

    /// The newest change that is queued for a key.
    pub(crate) fn newest(&self, key: &ObjectKey) -> Option<&Delta> {
        self.items.get(key)?.last()
    }
}

impl Delta {
    pub(crate) fn object(&self) -> &Arc<Object> {
        match self {
            Self::Added(object)
            | Self::Updated(object)
            | Self::Deleted { object, .. }
            | Self::Replaced(object) => object,
        }
    }

    pub(crate) fn is_deleted(&self) -> bool {
        matches!(self, Self::Deleted { .. })
    }

    /// A deletion whose final state is unknown.
    pub(crate) fn tombstone(object: Arc<Object>) -> Self {
        Self::Deleted { object, state: FinalState::LastKnown }
    }
}

#[cfg(test)]
mod tests;
