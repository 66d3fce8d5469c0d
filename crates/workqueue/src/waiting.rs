//! The keys whose time has not come, ordered by due time and then by arrival.
//!
//! A key that is cancelled, or becomes ready before its time, leaves a stale entry behind. The
//! first entry is never stale, so the next due time is exact. When more than half of the entries
//! are stale, and more than 64, all stale ones are removed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tokio::time::Instant;

use crate::slots::{Place, SlotId, Slots};

/// So many stale entries are tolerated before a sweep.
const STALE_TOLERATED: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Waiting {
    heap: BinaryHeap<Reverse<(Instant, Place)>>,
    live: usize,
}

impl Waiting {
    /// Lets a key wait until `due`.
    pub(crate) fn insert(&mut self, due: Instant, place: Place) {
        self.live += 1;
        self.heap.push(Reverse((due, place)));
    }

    /// Notes that a key no longer waits. Its slot must already have lost the ticket.
    pub(crate) fn remove<K, C>(&mut self, slots: &Slots<K, C>) {
        self.live -= 1;
        if self.heap.len() > 2 * self.live + STALE_TOLERATED {
            self.heap.retain(|Reverse((_, place))| slots.is_live(*place));
        }
        self.pop_stale(slots);
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((due, _))| *due)
    }

    /// Takes out the first key that is due by `now`.
    pub(crate) fn pop_due<K, C>(&mut self, now: Instant, slots: &Slots<K, C>) -> Option<SlotId> {
        if self.next_due()? > now {
            return None;
        }
        let Reverse((_, first)) = self.heap.pop()?;
        self.live -= 1;
        self.pop_stale(slots);
        Some(first.id)
    }

    /// Takes out all keys, the earliest first.
    pub(crate) fn take_all<K, C>(&mut self, slots: &Slots<K, C>) -> Vec<SlotId> {
        self.live = 0;
        let mut entries = std::mem::take(&mut self.heap).into_vec();
        entries.retain(|Reverse((_, place))| slots.is_live(*place));
        entries.sort_unstable_by_key(|&Reverse(entry)| entry);
        entries.into_iter().map(|Reverse((_, place))| place.id).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.live
    }

    fn pop_stale<K, C>(&mut self, slots: &Slots<K, C>) {
        while self.heap.peek().is_some_and(|Reverse((_, place))| !slots.is_live(*place)) {
            self.heap.pop();
        }
    }
}
