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
//! updated   updated   updated, from the first old to the last new object
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
    Updated { old: Arc<Object>, new: Arc<Object> },
    /// An object is gone.
    Deleted { object: Arc<Object>, state: FinalState },
    /// The end of the initial list.
    Synced,
}

/// Notices that are pending, first in, first out.
#[derive(Debug)]
pub(crate) struct Backlog {
    /// Numbered in the order in which they came.
    notices: BTreeMap<u64, Notice>,
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
            notices: BTreeMap::new(),
            next_number: 0,
            merge_above,
            last: HashMap::default(),
            merged: 0,
        }
    }

    /// Adds a notice. The notices of each key must be a history: an object is added, updated,
    /// deleted, and then another one can be added.
    pub(crate) fn push(&mut self, notice: Notice) {
        let key = notice.key().cloned();
        let notice = match &key {
            Some(key) if self.len() >= self.merge_above => self.merge(key, notice),
            _ => Some(notice),
        };
        let Some(notice) = notice else { return };
        if let Some(key) = key {
            self.last.insert(key, self.next_number);
        }
        self.notices.insert(self.next_number, notice);
        self.next_number += 1;
    }

    /// Removes the notice that has waited longest.
    pub(crate) fn pop(&mut self) -> Option<Notice> {
        let (number, notice) = self.notices.pop_first()?;
        if let Some(key) = notice.key()
            && self.last.get(key) == Some(&number)
        {
            self.last.remove(key);
        }
        if self.is_empty() {
            // A long backlog must not leave a large table behind.
            self.last.shrink_to(self.merge_above);
        }
        Some(notice)
    }

    /// Removes the end of the initial list, if that comes next.
    pub(crate) fn pop_synced(&mut self) -> bool {
        let comes_next = matches!(self.notices.first_key_value(), Some((_, Notice::Synced)));
        comes_next && self.pop().is_some()
    }

    /// How many notices are pending.
    pub(crate) fn len(&self) -> usize {
        self.notices.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.notices.is_empty()
    }

    /// How many notices were never delivered themselves: one for each that was merged into another,
    /// two where an object was added and deleted.
    pub(crate) fn merged(&self) -> u64 {
        self.merged
    }

    /// Merges a notice with the last pending one of its key. Returns the notice if it has to be
    /// added.
    fn merge(&mut self, key: &ObjectKey, notice: Notice) -> Option<Notice> {
        let Some(&number) = self.last.get(key) else { return Some(notice) };
        let pending = self.notices.remove(&number).expect("an indexed notice must be pending");
        match pending.merge(notice) {
            Merged::One(notice) => {
                self.notices.insert(number, notice);
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
                self.notices.insert(number, pending);
                Some(notice)
            }
        }
    }
}

impl Notice {
    /// The key of the object; the end of the initial list has none.
    pub(crate) fn key(&self) -> Option<&ObjectKey> {
        match self {
            Self::Added { object, .. }
            | Self::Updated { new: object, .. }
            | Self::Deleted { object, .. } => Some(object.head().key()),
            Self::Synced => None,
        }
    }

    /// Merges this with `next`, a later notice of the same key.
    fn merge(self, next: Self) -> Merged {
        match (self, next) {
            (Self::Added { initial, .. }, Self::Updated { new: object, .. }) => {
                Merged::One(Self::Added { object, initial })
            }
            (Self::Updated { old, .. }, Self::Updated { new, .. }) => {
                Merged::One(Self::Updated { old, new })
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
