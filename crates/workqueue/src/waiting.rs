//! The keys whose time has not come, ordered by time and then by arrival.
//!
//! A heap of sixteen-byte entries, four children to a parent: with a million keys every level is a wait for
//! memory, this has half as many as a binary one, and four children share a cache line. A key that is
//! cancelled, or becomes ready before its time, leaves its entry behind as stale. Invariants: the first entry
//! is never stale, so the next due time is exact; when more than half are stale, all of those are dropped.

use crate::clock::Stamp;
use crate::slots::{Pending, Slot, SlotId, Slots, Ticket};

/// Children of a parent.
const ARITY: usize = 4;

/// Stale entries, and spare room, that are not worth a sweep.
const STALE_TOLERATED: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// No entry is smaller than its parent, which stands at `(index - 1) / ARITY`.
    heap: Vec<Entry>,
    live: usize,
}

/// Ordered by time, and among equal times by ticket: first come, first out.
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
        self.live += 1;
        self.heap.push(Entry { due, ticket, id });
        self.sift_up(self.heap.len() - 1);
    }

    /// A key no longer waits. Its slot must already say so, or hold another ticket.
    pub(crate) fn remove<K>(&mut self, slots: &Slots<K>) {
        self.live -= 1;
        if self.heap.len() > 2 * self.live + STALE_TOLERATED {
            self.heap.retain(|entry| entry.is_live(slots));
            for index in (0..self.heap.len()).rev() {
                self.sift_down(index);
            }
        }
        self.drop_stale_first(slots);
    }

    pub(crate) fn next_due(&self) -> Option<Stamp> {
        self.heap.first().map(|entry| entry.due)
    }

    /// Takes out the first key that is due by `now`.
    pub(crate) fn pop_due<K>(&mut self, now: Stamp, slots: &Slots<K>) -> Option<SlotId> {
        if self.next_due()? > now {
            return None;
        }
        let first = self.pop();
        self.live -= 1;
        self.drop_stale_first(slots);
        Some(first.id)
    }

    /// Takes out everything, the earliest first.
    pub(crate) fn take_all<K>(&mut self, slots: &Slots<K>) -> Vec<SlotId> {
        self.live = 0;
        let mut entries = std::mem::take(&mut self.heap);
        entries.retain(|entry| entry.is_live(slots));
        entries.sort_unstable();
        entries.into_iter().map(|entry| entry.id).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.live
    }

    fn drop_stale_first<K>(&mut self, slots: &Slots<K>) {
        while self.heap.first().is_some_and(|entry| !entry.is_live(slots)) {
            self.pop();
        }
    }

    /// Takes out the first entry, which must be there.
    fn pop(&mut self) -> Entry {
        let first = self.heap.swap_remove(0);
        self.sift_down(0);
        if self.heap.capacity() > 4 * self.heap.len() + STALE_TOLERATED {
            self.heap.shrink_to(2 * self.heap.len());
        }
        first
    }

    fn sift_up(&mut self, mut index: usize) {
        while index > 0 {
            let parent = (index - 1) / ARITY;
            if self.heap[parent] <= self.heap[index] {
                break;
            }
            self.heap.swap(parent, index);
            index = parent;
        }
    }

    fn sift_down(&mut self, mut index: usize) {
        loop {
            let children = ARITY * index + 1..self.heap.len().min(ARITY * index + 1 + ARITY);
            let Some(smallest) = children.min_by_key(|&child| self.heap[child]) else { break };
            if self.heap[index] <= self.heap[smallest] {
                break;
            }
            self.heap.swap(index, smallest);
            index = smallest;
        }
    }
}

impl Entry {
    fn is_live<K>(&self, slots: &Slots<K>) -> bool {
        let slot = &slots[self.id];
        slot.pending == Pending::Waiting && slot.ticket == self.ticket && slot.at == self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_out_in_order() {
        let clock = crate::clock::Clock::new();
        let mut random = fastrand::Rng::with_seed(7);
        let mut waiting = Waiting::default();
        let mut expected = Vec::new();
        for ticket in 0..1_000 {
            let due = std::time::Duration::from_millis(random.u64(..100));
            let entry = Entry { due: clock.now().after(due), ticket, id: ticket };
            expected.push(entry);
            waiting.heap.push(entry);
            waiting.sift_up(waiting.heap.len() - 1);
        }
        expected.sort();
        let popped: Vec<_> = (0..1_000).map(|_| waiting.pop()).collect();
        assert_eq!(popped, expected);
        assert!(waiting.heap.capacity() <= STALE_TOLERATED);
    }
}
