//! What one handler has not yet been told.
//!
//! The cache pushes a notice for every change; the handler's task pops them, as fast as the handler is. Nobody
//! waits for it, so the backlog bounds itself. Up to [`MERGE_ABOVE`] notices lie in it as they came, and every
//! one is delivered, in order. From there on a new notice merges with the one of the same key that is pending,
//! so that there are at most two more of each key, and memory is bounded by the number of keys:
//!
//! ```text
//! pending   then      becomes
//! added     updated   added, with the new object; it stays one of the initial list
//! added     deleted   nothing
//! updated   updated   updated, from the first old to the last new object
//! updated   deleted   deleted
//! deleted   added     both: a handler must see an object go and another come, even if they have one uid
//! ```
//!
//! A merged notice stands where the first one stood. So each key keeps its own order, nothing of the initial
//! list gets behind the mark that ends it, and only the order between keys is lost.
//!
//! Invariants: below the bound nothing merges; `old` of an update is what the handler was told last, or will
//! have been; holes are never more than notices; every notice is popped, pending or counted as merged.

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use windlass_indexer::{Object, ObjectKey};

use crate::share::delta_fifo::FinalState;

/// How many notices are pending before they merge: enough for a burst, and little memory for a handler that
/// stands still.
pub(crate) const MERGE_ABOVE: usize = 1024;

/// What a handler is told.
#[derive(Clone, Debug)]
pub(crate) enum Notice {
    /// An object is there.
    Added {
        object: Arc<Object>,
        /// Whether it was there when the handler came, or is of the first list.
        initial: bool,
    },
    /// An object has changed; with a resync, both are the same.
    Updated { old: Arc<Object>, new: Arc<Object> },
    /// An object is gone.
    Deleted { object: Arc<Object>, state: FinalState },
    /// Everything of the initial list came before this.
    Synced,
}

/// Notices that are pending, first in, first out.
#[derive(Debug)]
pub(crate) struct Backlog {
    /// `None` is a hole, where an object came and went.
    notices: VecDeque<Option<Notice>>,
    /// The number of the first one in `notices`.
    first: u64,
    holes: usize,
    merge_above: usize,
    /// The last pending notice of each key; only while the backlog is long.
    last: Option<Index>,
    merged: u64,
}

/// The number of a key's last pending notice. A key whose last one became a hole is absent: what is pending of
/// it ends with a delete, if there is anything, and with that nothing merges.
type Index = HashMap<ObjectKey, u64, RandomState>;

/// What becomes of two notices of one key.
enum Merged {
    One(Notice),
    Nothing,
    Both(Notice, Notice),
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
}

impl Backlog {
    /// An empty one that merges when more than `merge_above` notices would be pending.
    pub(crate) fn new(merge_above: usize) -> Self {
        Self { notices: VecDeque::new(), first: 0, holes: 0, merge_above, last: None, merged: 0 }
    }

    /// Takes in a notice. The notices of each key must be a history: an object is added, updated, deleted, and
    /// then another one can be added. Returns whether it merged with one that was pending.
    pub(crate) fn push(&mut self, notice: Notice) -> bool {
        match notice.key() {
            Some(key) if self.len() >= self.merge_above => self.push_merging(key.clone(), notice),
            _ => self.append(notice),
        }
    }

    /// Takes out the notice that has waited longest.
    pub(crate) fn pop(&mut self) -> Option<Notice> {
        let notice = loop {
            let slot = self.notices.pop_front()?;
            self.first += 1;
            match slot {
                Some(notice) => break notice,
                None => self.holes -= 1,
            }
        };
        self.forget(&notice);
        self.close_holes();
        Some(notice)
    }

    /// Takes out the end of the initial list, if that comes next.
    pub(crate) fn pop_synced(&mut self) -> bool {
        let comes_next = matches!(self.notices.iter().flatten().next(), Some(Notice::Synced));
        comes_next && self.pop().is_some()
    }

    /// How many notices are pending.
    pub(crate) fn len(&self) -> usize {
        self.notices.len() - self.holes
    }

    /// Whether none is.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many notices were never delivered as themselves, since the beginning: one for each that went up in
    /// another, two where an object came and went.
    pub(crate) fn merged(&self) -> u64 {
        self.merged
    }

    /// Appends a notice, which is the last one of its key then. Nothing has merged.
    fn append(&mut self, notice: Notice) -> bool {
        let number = self.next_number();
        if let Some(last) = &mut self.last
            && let Some(key) = notice.key()
        {
            last.insert(key.clone(), number);
        }
        self.notices.push_back(Some(notice));
        false
    }

    /// Merges a notice with the last one of its key, if one is pending.
    fn push_merging(&mut self, key: ObjectKey, notice: Notice) -> bool {
        let number = self.next_number();
        let last = self.last.get_or_insert_with(|| index(&self.notices, self.first));
        let mut pending = match last.entry(key) {
            Entry::Occupied(pending) => pending,
            Entry::Vacant(none) => {
                none.insert(number);
                self.notices.push_back(Some(notice));
                return false;
            }
        };
        let slot = &mut self.notices[place_of(*pending.get(), self.first)];
        let earlier = slot.take().expect("a notice that can be found must be pending");
        match earlier.merge(notice) {
            Merged::One(notice) => {
                *slot = Some(notice);
                self.merged += 1;
                true
            }
            Merged::Nothing => {
                pending.remove();
                self.holes += 1;
                self.merged += 2;
                self.close_holes();
                true
            }
            Merged::Both(earlier, notice) => {
                *slot = Some(earlier);
                pending.insert(number);
                self.notices.push_back(Some(notice));
                false
            }
        }
    }

    /// Takes the notice that was popped last out of the index, and drops the index when the backlog is short
    /// again: at half of the bound, so that one notice more or less does not build it anew.
    fn forget(&mut self, popped: &Notice) {
        let len = self.len();
        let Some(last) = &mut self.last else { return };
        if len <= self.merge_above / 2 {
            self.last = None;
            self.notices.shrink_to(self.merge_above);
        } else if let Some(key) = popped.key()
            && last.get(key) == Some(&(self.first - 1))
        {
            last.remove(key);
        }
    }

    /// Moves notices together when most places are holes. There are fewer notices to move than holes to close,
    /// and a push makes at most one, so it takes constant time for each push.
    fn close_holes(&mut self) {
        if self.holes > self.len() {
            self.notices.retain(Option::is_some);
            self.holes = 0;
            self.last = self.last.as_ref().map(|_| index(&self.notices, self.first));
        }
    }

    /// The number of the notice that is appended next.
    fn next_number(&self) -> u64 {
        self.first + self.notices.len() as u64
    }
}

impl Notice {
    /// What a handler is told instead of this and then `next`, which is of the same key.
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
            // No history has these: an object that is there is not added, one that is not is not changed. What
            // the cache says is told as it was said.
            (earlier, next) => Merged::Both(earlier, next),
        }
    }
}

/// The last notice of each key.
fn index(notices: &VecDeque<Option<Notice>>, first: u64) -> Index {
    let mut last = Index::default();
    for (number, notice) in (first..).zip(notices) {
        if let Some(key) = notice.as_ref().and_then(Notice::key) {
            last.insert(key.clone(), number);
        }
    }
    last
}

fn place_of(number: u64, first: u64) -> usize {
    usize::try_from(number - first).expect("what is in memory must be countable")
}

#[cfg(test)]
mod tests;
