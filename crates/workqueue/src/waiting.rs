//! The keys whose time has not come, ordered by time and then by arrival.
//!
//! A heap of sixteen-byte entries. A key that is cancelled, or becomes ready before its time, leaves its
//! entry behind as stale. Invariants: the first entry is never stale; when more than half are stale, all
//! of those are dropped. So the heap is at most twice as large as what waits, and the next due time is
//! always exact.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::clock::Stamp;
use crate::slots::{Pending, Slot, SlotId, Slots, Ticket};

/// Stale entries that are not worth a sweep.
const STALE_TOLERATED: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// Ordered by time, and among equal times by ticket: first come, first out.
    heap: BinaryHeap<Reverse<Entry>>,
    live: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    due: Stamp,
    ticket: Ticket,
    id: SlotId,
}

impl Waiting {
    /// Lets `id` wait. Its slot must already say until when.
    pub(crate) fn insert<K>(&mut self, id: SlotId, slots: &Slots<K>) {
        let Slot { at: due, ticket, .. } = slots[id];
        self.heap.push(Reverse(Entry { due, ticket, id }));
        self.live += 1;
    }

    /// A key no longer waits. Its slot must already say so, or hold another ticket.
    pub(crate) fn remove<K>(&mut self, slots: &Slots<K>) {
        self.live -= 1;
        if self.heap.len() > 2 * self.live + STALE_TOLERATED {
            self.heap.retain(|Reverse(entry)| entry.is_live(slots));
        }
        self.drop_stale_first(slots);
    }

    pub(crate) fn next_due(&self) -> Option<Stamp> {
        self.heap.peek().map(|Reverse(entry)| entry.due)
    }

    /// Takes out the first key that is due by `now`.
    pub(crate) fn pop_due<K>(&mut self, now: Stamp, slots: &Slots<K>) -> Option<SlotId> {
        if self.next_due()? > now {
            return None;
        }
        let Reverse(first) = self.heap.pop()?;
        self.live -= 1;
        self.drop_stale_first(slots);
        Some(first.id)
    }

    /// Takes out everything, the earliest first.
    pub(crate) fn take_all<K>(&mut self, slots: &Slots<K>) -> Vec<SlotId> {
        self.live = 0;
        let mut entries = std::mem::take(&mut self.heap).into_vec();
        entries.retain(|Reverse(entry)| entry.is_live(slots));
        entries.sort_unstable_by_key(|&Reverse(entry)| entry);
        entries.into_iter().map(|Reverse(entry)| entry.id).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.live
    }

    fn drop_stale_first<K>(&mut self, slots: &Slots<K>) {
        while self.heap.peek().is_some_and(|Reverse(entry)| !entry.is_live(slots)) {
            self.heap.pop();
        }
    }
}

impl Entry {
    fn is_live<K>(&self, slots: &Slots<K>) -> bool {
        let slot = &slots[self.id];
        slot.pending == Pending::Waiting && slot.ticket == self.ticket && slot.at == self.due
    }
}
