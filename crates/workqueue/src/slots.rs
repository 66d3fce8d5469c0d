//! The keys that the queue knows, each in a numbered slot.
//!
//! A key is known while it runs or has a next run. It is stored once, in its slot; the line and
//! the set of waiting keys hold slot numbers. A hash table finds the slot of a key.
//!
//! Each time a key takes a place in the line or among the waiting keys, it gets a new ticket. A
//! place in the line with an old ticket is stale and is skipped, so nothing has to be removed from
//! the middle of the line.

use std::ops::{Index, IndexMut};

use hashbrown::HashTable;
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

/// One key's place in the line or among the waiting keys. Ordered by arrival.
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
    pub(crate) next_run: NextRunState,
    /// The highest priority that was requested for the next run.
    pub(crate) priority: Priority,
    /// The level of the line for the next run: its priority, or a higher level because of aging.
    pub(crate) level: Priority,
    /// The group of the next run, if groups take turns.
    pub(crate) group: Option<Group>,
    /// The ticket of the current place.
    pub(crate) ticket: Ticket,
    /// Why the next run is wanted. Boxed, because most keys of most queues have no cause.
    pub(crate) why: Option<Box<Why<C>>>,
}

/// The state of the next run of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextRunState {
    None,
    /// Waits for its time.
    Waiting {
        since: Instant,
        due: Instant,
    },
    /// In the line of ready keys.
    InLine(Ready),
    /// Its turn came while the key was running. It goes to the front when that run is done.
    PassedOver(Ready),
}

/// For how long a run has been ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) since: Instant,
    /// Since when it is at its present level.
    pub(crate) level_since: Instant,
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
    table: HashTable<SlotId>,
}

impl<K, C> Slots<K, C> {
    pub(crate) fn new() -> Self {
        Self { slots: Slab::new(), table: HashTable::new() }
    }

    /// Removes a key that has nothing left to do.
    pub(crate) fn remove(&mut self, id: SlotId) -> Slot<K, C> {
        let slot = self.slots.remove(id as usize);
        let entry = self.table.find_entry(slot.hash, |&other| other == id);
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
        self.table.find(hash, |&id| self[id].has_key(key, hash)).copied()
    }

    /// The slot of `key`. If the key is new, it gets a slot that has no next run yet. If it is
    /// known, `key` is returned as well, for the caller to drop.
    pub(crate) fn find_or_insert(&mut self, key: K, hash: u64) -> (SlotId, Option<K>) {
        if let Some(id) = self.find(&key, hash) {
            return (id, Some(key));
        }
        let id = slot_id(self.slots.insert(Slot {
            key,
            hash,
            is_running: false,
            next_run: NextRunState::None,
            priority: Priority::default(),
            level: Priority::default(),
            group: None,
            ticket: NO_TICKET,
            why: None,
        }));
        self.table.insert_unique(hash, id, |&id| self.slots[id as usize].hash);
        (id, None)
    }
}

impl<K: Eq, C> Slot<K, C> {
    fn has_key(&self, key: &K, hash: u64) -> bool {
        self.hash == hash && self.key == *key
    }
}

impl<K, C> Slot<K, C> {
    /// The current place of the key, which is in slot `id`.
    pub(crate) fn place(&self, id: SlotId) -> Place {
        Place { ticket: self.ticket, id }
    }

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
