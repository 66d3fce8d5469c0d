//! The queue between the judge and the store: changes of objects, grouped by key as in client-go's.
//! All changes of a key are together, in their order, and keys leave in the order of their first
//! change. So between the keys of one chunk, the order is not the server's.
//!
//! ```text
//! Feed ─objects→ Cache { Judge ─deltas→ DeltaFifo → Store } ─notices→ handlers
//! ```
//!
//! It holds what is new in one chunk of a body until the whole chunk is judged: the judge compares
//! each object with the newest one that is queued or stored. Without it, each object would be
//! applied to the store as soon as it is judged, and one thing would be different: the handlers
//! would see the changes of a chunk in the server's order, instead of those of each key together.
//! client-go uses its fifo to decouple two goroutines; its handlers see the same order.
//!
//! The task that fills it also drains it, under one lock, so it needs no lock of its own and no
//! bound. A resync does not go through it, because it changes nothing.
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
use windlass_indexer::{Object, ObjectKey};

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
    /// It is new, or has a new version. Which of the two, and whether a watch or a list reported
    /// it, does not matter: the store shows what it replaces.
    Changed(Arc<Object>),
    /// It is gone.
    Deleted { object: Arc<Object>, state: FinalState },
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
            Self::Changed(object) | Self::Deleted { object, .. } => object,
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
