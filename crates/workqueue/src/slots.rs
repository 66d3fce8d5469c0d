//! The keys that the queue knows, each in a numbered slot.
//!
//! A key is known while it runs or has a next run. It is stored once, in its slot; lists and runs
//! hold the slot's number. A hash table finds the slot of a key.

use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

use hashbrown::HashTable;
use slab::Slab;

use crate::causes::Causes;
use crate::priority::{Group, Priority};
use crate::time::Time;

/// The number of a slot or of a run. Numbers are reused. Stored plus one, so never zero: an
/// `Option<Number>` takes four bytes, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Number(NonZeroU32);

pub(crate) type SlotId = Number;

pub(crate) type RunId = Number;

/// The state of one key. A queue may have a million of them, so it is compact.
#[derive(Debug)]
pub(crate) struct Slot<K, C> {
    pub(crate) key: K,
    hash: u32,
    /// The run that is under way.
    pub(crate) run: Option<RunId>,
    pub(crate) next_run: NextRunState,
    /// The group of the next run, if groups take turns.
    pub(crate) group: Option<Group>,
    /// The causes of the next run that have already happened.
    pub(crate) causes: Causes<C>,
    /// Causes that count only if the key waits until it is due. Then they join `causes`; if the key
    /// runs earlier, they are dropped. Boxed, because few keys have any.
    pub(crate) timers: Option<Box<Causes<C>>>,
}

/// The next run of a key. `priority` is the highest that was requested for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextRunState {
    None,
    Waiting {
        priority: Priority,
        /// Since when the key waits.
        since: Time,
        due: Time,
        /// Orders the keys that are due at the same time.
        sequence: u64,
    },
    Ready {
        /// Whether the key left the line because its turn came while it was running.
        is_parked: bool,
        priority: Priority,
        /// Where the key is in line: at `priority`, or higher after aging.
        level: Priority,
        /// Since when the key is ready.
        since: Time,
        /// Since when it is at this level.
        level_since: Time,
    },
}

#[derive(Debug)]
pub(crate) struct Slots<K, C> {
    slots: Slab<Slot<K, C>>,
    /// Finds the slot of a key.
    table: HashTable<Entry>,
}

/// Keeps the hash, so that the table can grow without reading the slots.
#[derive(Debug)]
struct Entry {
    hash: u32,
    id: SlotId,
}

impl Number {
    pub(crate) fn new(index: usize) -> Self {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Self(number.expect("a queue must hold fewer than 2^32 keys"))
    }

    /// Its index in a slab.
    pub(crate) fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl<K, C> Slots<K, C> {
    pub(crate) fn new() -> Self {
        Self { slots: Slab::new(), table: HashTable::new() }
    }

    /// Removes a key that has nothing left to do.
    pub(crate) fn remove(&mut self, id: SlotId) -> K {
        let Slot { key, hash, .. } = self.slots.remove(id.index());
        let entry = self.table.find_entry(table_hash(hash), |entry| entry.id == id);
        entry.expect("the table must know every slot").remove();
        key
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Slot<K, C>> {
        self.slots.iter().map(|(_, slot)| slot)
    }
}

impl<K: Eq, C> Slots<K, C> {
    pub(crate) fn find(&self, key: &K, hash: u32) -> Option<SlotId> {
        let is_found = |entry: &Entry| entry.hash == hash && self[entry.id].key == *key;
        self.table.find(table_hash(hash), is_found).map(|entry| entry.id)
    }

    /// The slot of `key`. If the key is new, it gets a slot that has no next run yet. If it is
    /// known, `key` is returned as well, for the caller to drop.
    pub(crate) fn find_or_insert(&mut self, key: K, hash: u32) -> (SlotId, Option<K>) {
        if let Some(id) = self.find(&key, hash) {
            return (id, Some(key));
        }
        let id = Number::new(self.slots.insert(Slot {
            key,
            hash,
            run: None,
            next_run: NextRunState::None,
            group: None,
            causes: Causes::default(),
            timers: None,
        }));
        self.table
            .insert_unique(table_hash(hash), Entry { hash, id }, |entry| table_hash(entry.hash));
        (id, None)
    }
}

/// The table uses the low bits for an entry's position and the highest ones to tell entries apart.
fn table_hash(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

impl<K, C> Index<SlotId> for Slots<K, C> {
    type Output = Slot<K, C>;

    fn index(&self, id: SlotId) -> &Slot<K, C> {
        &self.slots[id.index()]
    }
}

impl<K, C> IndexMut<SlotId> for Slots<K, C> {
    fn index_mut(&mut self, id: SlotId) -> &mut Slot<K, C> {
        &mut self.slots[id.index()]
    }
}
