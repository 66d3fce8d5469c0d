//! The keys whose time has not come, ordered by due time and then by arrival.
//!
//! A key that is cancelled, or becomes ready before its time, leaves a stale entry behind. The
//! first entry is never stale, so the next due time is exact. All stale entries are removed when
//! they outnumber the others by more than 64.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tokio::time::Instant;

use crate::slots::{Place, SlotId, Slots};

/// By how many the stale entries may outnumber the others.
const STALE_TOLERATED: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct WaitingKeys {
    heap: BinaryHeap<Reverse<(Instant, Place)>>,
    live: usize,
}

impl WaitingKeys {
    /// Lets a key wait until `due`.
    pub(crate) fn insert(&mut self, due: Instant, place: Place) {
        self.live += 1;
        self.heap.push(Reverse((due, place)));
    }

    /// Notes that a key no longer waits. Its slot must already have another ticket, or none.
    pub(crate) fn note_stale<K, C>(&mut self, slots: &Slots<K, C>) {
        self.live -= 1;
        if self.heap.len() > 2 * self.live + STALE_TOLERATED {
            self.heap.retain(|Reverse((_, place))| slots.is_live(*place));
        }
        self.pop_stale(slots);
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((due, _))| *due)
    }

    /// Takes out the first key that is due by `now`, with its due time.
    pub(crate) fn pop_due<K, C>(
        &mut self,
        now: Instant,
        slots: &Slots<K, C>,
    ) -> Option<(SlotId, Instant)> {
        if self.next_due()? > now {
            return None;
        }
        let Reverse((due, first)) = self.heap.pop()?;
        self.live -= 1;
        self.pop_stale(slots);
        Some((first.id, due))
    }

    /// Takes out all keys with their due times, the earliest first.
    pub(crate) fn take_all<K, C>(&mut self, slots: &Slots<K, C>) -> Vec<(SlotId, Instant)> {
        self.live = 0;
        let mut entries = std::mem::take(&mut self.heap).into_vec();
        entries.retain(|Reverse((_, place))| slots.is_live(*place));
        entries.sort_unstable_by_key(|&Reverse(entry)| entry);
        entries.into_iter().map(|Reverse((due, place))| (place.id, due)).collect()
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
