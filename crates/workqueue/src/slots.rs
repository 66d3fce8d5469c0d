//! The keys that the queue knows, each in a numbered slot.
//!
//! A key is known while it runs or has a next run. It is stored once, in its slot; the line and
//! the heap of waiting keys hold slot numbers. A hash table finds the slot of a key.
//!
//! Each time a key takes a place in the line or in the heap, it gets a new ticket. A place with an
//! old ticket is stale and is skipped, so nothing has to be removed from the middle of a line or a
//! heap.

use std::ops::{Index, IndexMut};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use slab::Slab;
use tokio::time::Instant;

use crate::causes::Causes;
use crate::priority::{Group, Priority};

/// The number of a slot. Numbers are reused. 32 bits keep places small.
pub(crate) type SlotId = u32;

/// The number of a place. Never reused.
pub(crate) type Ticket = u64;

/// The ticket of a slot without a place.
pub(crate) const NO_TICKET: Ticket = 0;

/// One key's place in the line or in the heap of waiting keys. Ordered by arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) ticket: Ticket,
    pub(crate) id: SlotId,
}

/// The state of one key.
#[derive(Debug)]
pub(crate) struct Slot<K, C> {
    pub(crate) key: K,
    hash: u64,
    /// Whether a worker holds a lease on the key.
    pub(crate) is_running: bool,
    /// The state of the next run.
    pub(crate) pending: Pending,
    /// The level of the next run. Aging may have raised it.
    pub(crate) priority: Priority,
    /// The highest priority that was requested. Aging does not change it.
    pub(crate) requested: Priority,
    /// The group of the next run, if groups take turns.
    pub(crate) group: Option<Group>,
    /// Since when the next run is ready or, while it waits, since when it waits.
    pub(crate) since: Instant,
    /// While the next run waits: when it is due. In line: since when it is at its level.
    pub(crate) at: Instant,
    /// The ticket of the current place.
    pub(crate) ticket: Ticket,
    /// Why the next run is wanted. Boxed, because most keys of most queues have no cause.
    pub(crate) why: Option<Box<Why<C>>>,
}

/// The state of the next run of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    /// No next run.
    None,
    /// In the line of ready keys.
    InLine,
    /// Its turn came while the key was running. It goes to the front when that run is done.
    PassedOver,
    /// Waiting for its time.
    Waiting,
}

/// Why the next run is wanted.
#[derive(Debug)]
pub(crate) struct Why<C> {
    /// The causes that have already happened.
    pub(crate) causes: Causes<C>,
    /// The causes of delayed adds. They join `causes` when the key is due, and are dropped if the
    /// key runs earlier.
    pub(crate) timers: Causes<C>,
}

#[derive(Debug)]
pub(crate) struct Slots<K, C> {
    slots: Slab<Slot<K, C>>,
    /// Finds the slot of a key.
    table: HashTable<Known>,
}

/// A key in the table, with a copy of its hash, so that the table can grow without reading every
/// slot.
#[derive(Debug)]
struct Known {
    hash: u64,
    id: SlotId,
}

impl<K, C> Slots<K, C> {
    pub(crate) fn new() -> Self {
        Self { slots: Slab::new(), table: HashTable::new() }
    }

    /// Removes a key that has nothing left to do.
    pub(crate) fn remove(&mut self, id: SlotId) -> Slot<K, C> {
        let slot = self.slots.remove(id as usize);
        let entry = self.table.find_entry(slot.hash, |known| known.id == id);
        entry.expect("the table must know every slot").remove();
        slot
    }

    /// Whether `place` is the current place of its key.
    pub(crate) fn is_live(&self, place: Place) -> bool {
        self.slots.get(place.id as usize).is_some_and(|slot| slot.ticket == place.ticket)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SlotId, &Slot<K, C>)> {
        self.slots.iter().map(|(id, slot)| (slot_id(id), slot))
    }
}

impl<K: Eq, C> Slots<K, C> {
    pub(crate) fn find(&self, key: &K, hash: u64) -> Option<SlotId> {
        let known =
            self.table.find(hash, |known| known.hash == hash && self[known.id].key == *key)?;
        Some(known.id)
    }

    /// The slot of `key`. If the key is new, it gets a slot that has no next run yet. If it is
    /// known, `key` is returned as well, for the caller to drop.
    pub(crate) fn find_or_insert(
        &mut self,
        key: K,
        hash: u64,
        now: Instant,
    ) -> (SlotId, Option<K>) {
        let Self { slots, table } = self;
        let is_same_key = |known: &Known| known.hash == hash && slots[known.id as usize].key == key;
        match table.entry(hash, is_same_key, |known| known.hash) {
            Entry::Occupied(known) => (known.get().id, Some(key)),
            Entry::Vacant(vacant) => {
                let id = slots.insert(Slot {
                    key,
                    hash,
                    is_running: false,
                    pending: Pending::None,
                    priority: Priority::default(),
                    requested: Priority::default(),
                    group: None,
                    since: now,
                    at: now,
                    ticket: NO_TICKET,
                    why: None,
                });
                let id = slot_id(id);
                vacant.insert(Known { hash, id });
                (id, None)
            }
        }
    }
}

impl<K, C> Slot<K, C> {
    pub(crate) fn why_mut(&mut self) -> &mut Why<C> {
        self.why.get_or_insert_default()
    }
}

fn slot_id(index: usize) -> SlotId {
    SlotId::try_from(index).expect("a queue must hold fewer than 2^32 keys")
}

impl<C> Default for Why<C> {
    fn default() -> Self {
        Self { causes: Causes::default(), timers: Causes::default() }
    }
}

impl<K, C> Index<SlotId> for Slots<K, C> {
    type Output = Slot<K, C>;

    fn index(&self, id: SlotId) -> &Slot<K, C> {
        &self.slots[id as usize]
    }
}

impl<K, C> IndexMut<SlotId> for Slots<K, C> {
    fn index_mut(&mut self, id: SlotId) -> &mut Slot<K, C> {
        &mut self.slots[id as usize]
    }
}
