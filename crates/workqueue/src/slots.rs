//! Every key that the queue knows, each in a numbered slot.
//!
//! The other structures of the queue hold slot numbers, so a key is stored once and cloned once a run.
//! Beside the slots stands a [table](crate::table) of their numbers by the hashes of their keys; a slot remembers its own,
//! so that a key is hashed once.
//!
//! A key that has nothing to do any more is retired: it may come back soon, and finds its slot. Retired keys are forgotten
//! many at a time, when they fill half of the table, or a quarter when it would have to grow, or an eighth when the queue
//! has nothing else to do.

use crate::Priority;
use crate::clock::Stamp;
use crate::table::Table;

/// The number of a slot.
pub(crate) type SlotId = u32;

/// The hash of a key, cut to what the table needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyHash(u32);

/// All that is known of one key at any time. What only some keys have (a run under way, causes, a group)
/// is kept elsewhere, because there may be a million of these: 24 bytes with a key whose `Option` takes four,
/// 40 with an `Arc<str>`.
#[derive(Debug)]
pub(crate) struct Slot<K> {
    /// The key; `None` only while the slot is free.
    pub(crate) key: Option<K>,
    /// While waiting: when the run ahead is due. In line: since when it is at its level, if anybody asks.
    pub(crate) at: Stamp,
    /// Drawn anew whenever the run ahead changes its place: what holds another ticket is stale.
    pub(crate) ticket: Ticket,
    hash: KeyHash,
    pub(crate) pending: Pending,
    /// The level at which the run ahead stands; age may have moved it up.
    pub(crate) priority: Priority,
    /// The priority that was asked for.
    pub(crate) asked: Priority,
    /// [`RUNNING`] and [`RETIRED`], in one byte: a slot fills its 24 bytes.
    flags: u8,
}

/// A lease on the key is out.
const RUNNING: u8 = 1;

/// The slot is on the list of those that may be freed.
const RETIRED: u8 = 2;

/// A number drawn for every place that a key takes, in the line or among the waiting.
///
/// It may wrap around. Should a stale place ever hold its slot's ticket again, four billion draws later,
/// its key has a run ahead all the same, and merely comes earlier than asked.
pub(crate) type Ticket = u32;

/// A key has at most one run ahead of it. This says where that run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    /// No run ahead.
    None,
    /// In the line of ready keys.
    InLine,
    /// Its turn came while it was running: first in line when that run is done.
    PassedOver,
    /// Waiting for its time.
    Waiting,
}

#[derive(Debug)]
pub(crate) struct Slots<K> {
    table: Table,
    all: Vec<Slot<K>>,
    free: Vec<SlotId>,
    /// A bit for each slot: whether it is retired.
    retired: Vec<u64>,
    retired_len: usize,
    /// Words of `retired` up to the last in which a bit is set.
    retired_words: usize,
    /// Keys to be dropped when the queue is unlocked, because that is the user's code: those that were forgotten, and those
    /// that came for a key that is known already.
    left_over: Vec<K>,
}

/// Retired slots that are not worth a pass over the table.
const RETIRED_TOLERATED: usize = 64;

impl KeyHash {
    pub(crate) fn new(hash: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "both halves are mixed in")]
        Self((hash ^ (hash >> 32)) as u32)
    }

    pub(crate) fn bits(self) -> u32 {
        self.0
    }
}

impl<K> Slots<K> {
    pub(crate) fn new() -> Self {
        Self {
            table: Table::new(),
            all: Vec::new(),
            free: Vec::new(),
            retired: Vec::new(),
            retired_len: 0,
            retired_words: 0,
            left_over: Vec::new(),
        }
    }

    /// Notes that a key neither runs nor has a run ahead. It may be forgotten at any time from now on, unless it
    /// [comes back](Self::revive).
    #[inline]
    pub(crate) fn retire(&mut self, id: SlotId) {
        debug_assert!(self[id].is_idle(), "a key that has something to do must not be forgotten");
        self[id].set_retired(true);
        let (word, bit) = retired_bit(id);
        self.retired[word] |= bit;
        self.retired_len += 1;
        self.retired_words = self.retired_words.max(word + 1);
        self.forget_retired_if(self.table.capacity() / 2);
    }

    /// Notes that a key has something to do.
    #[inline]
    pub(crate) fn revive(&mut self, id: SlotId) {
        let slot = &mut self[id];
        if !slot.is_retired() {
            return;
        }
        slot.set_retired(false);
        let (word, bit) = retired_bit(id);
        self.retired[word] &= !bit;
        self.retired_len -= 1;
    }

    /// Nothing else is to be done now.
    #[inline]
    pub(crate) fn rest(&mut self) {
        self.forget_retired_if(self.table.capacity() / 8);
    }

    /// Forgets the retired keys if there are `enough` of them: that takes a pass over the whole table.
    #[inline]
    fn forget_retired_if(&mut self, enough: usize) {
        if self.retired_len >= RETIRED_TOLERATED.max(enough) {
            self.forget_retired();
        }
    }

    #[inline(never)]
    fn forget_retired(&mut self) {
        let Self { table, all, free, retired, retired_len, retired_words, left_over } = self;
        if *retired_len == table.len() {
            table.clear();
        } else {
            table.sweep(|id| {
                let (word, bit) = retired_bit(id);
                retired.get(word).is_some_and(|bits| bits & bit != 0)
            });
        }
        *retired_len = 0;
        // From the last to the first, so that they are used again from the first to the last.
        let words = retired.iter_mut().take(std::mem::take(retired_words)).enumerate();
        for (word, bits) in words.rev() {
            while *bits != 0 {
                let bit = bits.ilog2();
                *bits &= !(1 << bit);
                #[expect(clippy::cast_possible_truncation, reason = "slot numbers fit")]
                let id = 64 * word as SlotId + bit;
                free.push(id);
                let slot = &mut all[id as usize];
                slot.set_retired(false);
                put_aside(slot.key.take(), left_over);
            }
        }
    }

    /// Keys to be dropped, by whoever has unlocked the queue.
    #[inline]
    pub(crate) fn take_left_over(&mut self) -> Vec<K> {
        if self.left_over.is_empty() { Vec::new() } else { std::mem::take(&mut self.left_over) }
    }

    /// Fetches the table's places of these keys, all at the same time.
    pub(crate) fn touch(&self, hashes: impl Iterator<Item = KeyHash>) {
        self.table.touch(hashes);
    }

    /// The slots in use, in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SlotId, &Slot<K>)> {
        let numbered = (0..).zip(&self.all);
        numbered.filter(|(_, slot)| slot.key.is_some())
    }
}

impl<K: Eq> Slots<K> {
    pub(crate) fn find(&self, key: &K, hash: KeyHash) -> Option<SlotId> {
        self.table.find(hash, |id| self.all[id as usize].is_of(key))
    }

    /// The slot of `key`, a fresh one if there is none yet.
    pub(crate) fn find_or_insert(&mut self, key: K, hash: KeyHash) -> SlotId {
        if self.table.is_full() {
            self.forget_retired_if(self.table.capacity() / 4);
        }
        let Self { table, all, free, retired, left_over, .. } = self;
        let vacancy = match table.find_or_vacancy(hash, |id| all[id as usize].is_of(&key)) {
            Ok(id) => {
                put_aside(Some(key), left_over);
                return id;
            }
            Err(vacancy) => vacancy,
        };
        let slot = Slot::new(key, hash);
        let id = free.pop().unwrap_or_else(|| {
            let id = SlotId::try_from(all.len()).ok().filter(|&id| id < SlotId::MAX);
            id.expect("a queue must hold fewer than 2^32 keys")
        });
        table.fill(vacancy, id);
        if id as usize == all.len() {
            all.push(slot);
            retired.resize(retired_bit(id).0 + 1, 0);
        } else {
            all[id as usize] = slot;
        }
        id
    }
}

/// Puts a key aside, unless dropping it does nothing.
#[inline]
fn put_aside<K>(key: Option<K>, left_over: &mut Vec<K>) {
    if std::mem::needs_drop::<K>() {
        left_over.extend(key);
    }
}

/// Where the bit of a slot is: the number of its word, and its mask.
fn retired_bit(id: SlotId) -> (usize, u64) {
    (id as usize / 64, 1 << (id % 64))
}

impl<K> Slot<K> {
    fn new(key: K, hash: KeyHash) -> Self {
        Self {
            key: Some(key),
            at: Stamp::default(),
            ticket: 0,
            hash,
            pending: Pending::None,
            priority: Priority::Low,
            asked: Priority::Low,
            flags: 0,
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.flags & RUNNING != 0
    }

    pub(crate) fn set_running(&mut self, running: bool) {
        self.flags = (self.flags & !RUNNING) | if running { RUNNING } else { 0 };
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.flags & RETIRED != 0
    }

    pub(crate) fn set_retired(&mut self, retired: bool) {
        self.flags = (self.flags & !RETIRED) | if retired { RETIRED } else { 0 };
    }

    /// Whether nothing is known of the key but its name.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_running() && self.pending == Pending::None
    }

    fn is_of(&self, key: &K) -> bool
    where
        K: Eq,
    {
        self.key.as_ref() == Some(key)
    }

    pub(crate) fn hash(&self) -> KeyHash {
        self.hash
    }

    pub(crate) fn key(&self) -> &K {
        self.key.as_ref().expect("a slot in use must have a key")
    }
}

impl<K> std::ops::Index<SlotId> for Slots<K> {
    type Output = Slot<K>;

    fn index(&self, id: SlotId) -> &Slot<K> {
        &self.all[id as usize]
    }
}

impl<K> std::ops::IndexMut<SlotId> for Slots<K> {
    fn index_mut(&mut self, id: SlotId) -> &mut Slot<K> {
        &mut self.all[id as usize]
    }
}
