//! The events that a handler has not handled yet.
//!
//! The cache pushes a notice for every change, and the handler's task pops them at its own pace.
//! The cache never waits for the handler, so the backlog is bounded by merging. Up to
//! [`MERGE_ABOVE`] notices are delivered one by one, in order. Above that, a new notice merges with
//! the last pending one of its key, so that each key adds at most two notices to that number:
//!
//! ```text
//! pending   then      becomes
//! added     updated   added, with the new object; `initial` stays as it was
//! added     deleted   nothing
//! updated   updated   updated, from the first old to the last new object, and marked as merged
//! updated   deleted   deleted
//! deleted   added     both: a handler must see one object go and another come
//! ```
//!
//! A merged notice takes the place of the first one. So the order of each key is kept, nothing of
//! the initial list gets behind the mark that ends it, and only the order between keys is lost.
//!
//! Invariants: below the bound nothing merges; `old` of an update is what the handler saw last, or
//! will have seen; every notice is popped, pending or counted as merged.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use windlass_indexer::{Object, ObjectKey};

use crate::cache::delta_fifo::FinalState;

/// How many notices are pending before they merge: enough for a burst, and little memory for a
/// handler that hangs.
pub(crate) const MERGE_ABOVE: usize = 1024;

/// A notification for a handler.
#[derive(Clone, Debug)]
pub(crate) enum Notice {
    /// An object is new.
    Added {
        object: Arc<Object>,
        /// Whether it was cached when the handler joined, or is part of the first list.
        initial: bool,
    },
    /// An object has changed. In a resync, `old` and `new` are the same.
    Updated {
        old: Arc<Object>,
        new: Arc<Object>,
        /// Whether there were versions between the two.
        merged: bool,
    },
    /// An object is gone.
    Deleted { object: Arc<Object>, state: FinalState },
}

/// What waits in a backlog.
#[derive(Clone, Debug)]
pub(crate) enum Pending {
    Notice(Notice),
    /// The end of the initial list.
    Synced,
}

/// Notices that are pending, first in, first out.
#[derive(Debug)]
pub(crate) struct Backlog {
    /// Numbered in the order in which they came.
    pending: BTreeMap<u64, Pending>,
    next_number: u64,
    merge_above: usize,
    /// The number of the last pending notice of each key. Hashed with a random seed, because
    /// tenants choose the names.
    last: HashMap<ObjectKey, u64, RandomState>,
    merged: u64,
}

/// The result of merging two notices of one key.
enum Merged {
    One(Notice),
    Nothing,
    Both(Notice, Notice),
}

impl Backlog {
    /// An empty one that merges when more than `merge_above` notices would be pending.
    pub(crate) fn new(merge_above: usize) -> Self {
        Self {
            pending: BTreeMap::new(),
            next_number: 0,
            merge_above,
            last: HashMap::default(),
            merged: 0,
        }
    }

    /// Adds a notice. The notices of each key must be a history: an object is added, updated,
    /// deleted, and then another one can be added.
    pub(crate) fn push(&mut self, notice: Notice) {
        let key = notice.key().clone();
        let must_merge = self.len() >= self.merge_above;
        let notice = if must_merge { self.merge(&key, notice) } else { Some(notice) };
        if let Some(notice) = notice {
            self.last.insert(key, self.next_number);
            self.append(Pending::Notice(notice));
        }
    }

    /// Adds the end of the initial list.
    pub(crate) fn push_synced(&mut self) {
        self.append(Pending::Synced);
    }

    /// Removes what has waited longest.
    pub(crate) fn pop(&mut self) -> Option<Pending> {
        let (number, pending) = self.pending.pop_first()?;
        if let Pending::Notice(notice) = &pending
            && self.last.get(notice.key()) == Some(&number)
        {
            self.last.remove(notice.key());
        }
        if self.is_empty() {
            // A long backlog must not leave a large table behind.
            self.last.shrink_to(self.merge_above);
        }
        Some(pending)
    }

    /// Removes the end of the initial list, if that comes next.
    pub(crate) fn pop_synced(&mut self) -> bool {
        let comes_next = matches!(self.pending.first_key_value(), Some((_, Pending::Synced)));
        comes_next && self.pop().is_some()
    }

    /// How many notices are pending, with the end of the initial list.
    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// How many notices were never delivered themselves: one for each that was merged into another,
    /// two where an object was added and deleted.
    pub(crate) fn merged(&self) -> u64 {
        self.merged
    }

    fn append(&mut self, pending: Pending) {
        self.pending.insert(self.next_number, pending);
        self.next_number += 1;
    }

    /// Merges a notice with the last pending one of its key. Returns the notice if it has to be
    /// added.
    fn merge(&mut self, key: &ObjectKey, notice: Notice) -> Option<Notice> {
        let Some(&number) = self.last.get(key) else { return Some(notice) };
        let Some(Pending::Notice(pending)) = self.pending.remove(&number) else {
            unreachable!("an indexed notice must be pending")
        };
        match pending.merge(notice) {
            Merged::One(notice) => {
                self.pending.insert(number, Pending::Notice(notice));
                self.merged += 1;
                None
            }
            Merged::Nothing => {
                // If more notices of the key are pending, the last is a delete, and nothing merges
                // with it.
                self.last.remove(key);
                self.merged += 2;
                None
            }
            Merged::Both(pending, notice) => {
                self.pending.insert(number, Pending::Notice(pending));
                Some(notice)
            }
        }
    }
}

impl Notice {
    /// The key of the object.
    fn key(&self) -> &ObjectKey {
        match self {
            Self::Added { object, .. }
            | Self::Updated { new: object, .. }
            | Self::Deleted { object, .. } => object.head().key(),
        }
    }

    /// Merges this with `next`, a later notice of the same key.
    fn merge(self, next: Self) -> Merged {
        match (self, next) {
            (Self::Added { initial, .. }, Self::Updated { new: object, .. }) => {
                Merged::One(Self::Added { object, initial })
            }
            (
                Self::Updated { old, new: between, merged },
                Self::Updated { old: before, new, merged: next_merged },
            ) => {
                // A resync adds no version.
                let is_resync = Arc::ptr_eq(&old, &between) || Arc::ptr_eq(&before, &new);
                let merged = merged || next_merged || !is_resync;
                Merged::One(Self::Updated { old, new, merged })
            }
            (Self::Updated { .. }, deleted @ Self::Deleted { .. }) => Merged::One(deleted),
            (Self::Added { .. }, Self::Deleted { .. }) => Merged::Nothing,
            (deleted @ Self::Deleted { .. }, added @ Self::Added { .. }) => {
                Merged::Both(deleted, added)
            }
            // These do not occur in a history. They are delivered as they came.
            (earlier, next) => Merged::Both(earlier, next),
        }
    }
}

#[cfg(test)]
mod tests;
