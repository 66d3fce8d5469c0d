//! The way from a key to its object, and the hot set: decoded objects beside those that are read often.
//!
//! The table is cut into shards, each behind its own lock, so a read by key takes one uncontended lock and one
//! look-up, as in `DashMap`. The decoded object is a slot of the same shard, so a hot read costs no second
//! look-up, and a slot cannot outlive its version: whoever replaces the object drops its slots under the
//! same lock, and whoever decoded it keeps the result only if the object is still the one that it read.
//!
//! The hot set has a budget for each type over all shards. Whoever goes over it evicts by the clock: a slot that
//! was read since the hand came by gets another round. It starts in its own shard and goes on to others only
//! if that was not enough; no two shards are ever locked at once.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::error::DecodeError;
use crate::face::Face;
use crate::key::{KeyRef, ObjectKey};
use crate::object::{Body, Decoded, Object};
use crate::sync::Lock;
use crate::tree::Trail;

/// Enough that readers on a few dozen cores seldom meet, and little for a store of three objects.
const SHARDS: usize = 16;

pub(crate) struct Table {
    /// Seeded by chance, against names chosen to collide. The order of this table shows nowhere: lists come
    /// from the tree.
    hasher: RandomState,
    shards: Box<[Lock<Shard>]>,
}

/// Values of indexes may be secrets, and entries are many: neither shows.
impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("shards", &self.shards.len()).finish_non_exhaustive()
    }
}

/// Where an object stands in the indexes.
#[derive(Clone)]
pub(crate) struct Posting {
    /// The number of the index.
    pub(crate) index: usize,
    pub(crate) value: Arc<str>,
}

/// What a table knew of a key.
pub(crate) struct Removed {
    pub(crate) object: Arc<Object>,
    pub(crate) postings: Box<[Posting]>,
    /// To its place in the tree of objects.
    pub(crate) trail: Trail,
    /// Dropped by the caller, outside of the lock: a decoded object is many allocations.
    #[expect(dead_code, reason = "it is there to be dropped late")]
    slots: Vec<Slot>,
}

/// What decoding an object gave.
#[derive(Clone, Debug)]
pub(crate) enum Memo {
    Decoded(Decoded),
    Failed(DecodeError),
}

/// What is known of a key in one type.
pub(crate) enum Found {
    Nothing,
    /// Decoded before, or known not to decode.
    Hot(Memo),
    /// To be decoded.
    Cold(Arc<Object>),
}

struct Shard {
    entries: HashTable<Entry>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// Where the clock's hand stands in `slots`.
    hand: usize,
}

struct Entry {
    object: Arc<Object>,
    postings: Box<[Posting]>,
    /// To its place in the tree of objects.
    trail: Trail,
    /// The first of the object's slots, or [`NONE`].
    slot: u32,
}

/// A decoded object, in one type.
struct Slot {
    face: Arc<Face>,
    memo: Memo,
    weight: usize,
    /// Of the key, to find the entry again.
    hash: u64,
    /// The object's slot in another type, or [`NONE`].
    next: u32,
    /// How often it was read, all but exactly.
    hits: AtomicU64,
    /// The hits when the hand came by.
    hits_seen: u64,
}

/// No slot.
const NONE: u32 = u32::MAX;

impl Table {
    pub(crate) fn new() -> Self {
        Self {
            hasher: RandomState::default(),
            shards: (0..SHARDS).map(|_| Lock::new(Shard::new())).collect(),
        }
    }

    pub(crate) fn get(&self, key: KeyRef<'_>) -> Option<Arc<Object>> {
        let hash = self.hasher.hash_one(key);
        let shard = self.shard(hash).read();
        shard.find(hash, key).map(|entry| Arc::clone(&entry.object))
    }

    /// The hot path: one lock, one look-up, one clone of a pointer.
    pub(crate) fn find(&self, key: KeyRef<'_>, face: &Arc<Face>) -> Found {
        let hash = self.hasher.hash_one(key);
        let shard = self.shard(hash).read();
        let Some(entry) = shard.find(hash, key) else { return Found::Nothing };
        shard.read(entry, face).map_or_else(|| Found::Cold(Arc::clone(&entry.object)), Found::Hot)
    }

    /// The same for a version that the caller holds.
    pub(crate) fn find_version(&self, object: &Arc<Object>, face: &Arc<Face>) -> Option<Memo> {
        let key = object.head().key().as_ref();
        let hash = self.hasher.hash_one(key);
        let shard = self.shard(hash).read();
        let entry = shard.find(hash, key)?;
        if Arc::ptr_eq(&entry.object, object) { shard.read(entry, face) } else { None }
    }

    /// Keeps what decoding `object` gave, if it is still in the store and there is room.
    pub(crate) fn keep(&self, object: &Arc<Object>, face: &Arc<Face>, memo: Memo, weight: usize) {
        if weight > face.hot_bytes_max {
            return;
        }
        let hash = self.hasher.hash_one(object.head().key());
        // What is evicted is dropped behind the lock.
        let mut evicted = Vec::new();
        {
            let mut shard = self.shard(hash).write();
            let Some(kept) = shard.keep(hash, object, face, memo, weight) else { return };
            shard.evict(face, Some(kept), &mut evicted);
        }
        for shard in &*self.shards {
            if !face.is_over_budget() {
                break;
            }
            shard.write().evict(face, None, &mut evicted);
        }
    }

    /// Puts an object in the place of the one with its key, if there is one.
    pub(crate) fn replace(&self, object: Arc<Object>, postings: Box<[Posting]>) -> Option<Removed> {
        let hash = self.hasher.hash_one(object.head().key());
        let mut shard = self.shard(hash).write();
        let entry = shard.find_mut(hash, object.head().key().as_ref())?;
        let trail = entry.trail;
        let object = std::mem::replace(&mut entry.object, object);
        let postings = std::mem::replace(&mut entry.postings, postings);
        let first = std::mem::replace(&mut entry.slot, NONE);
        let slots = shard.take_slots(first);
        Some(Removed { object, postings, trail, slots })
    }

    /// Adds an object whose key is not there.
    pub(crate) fn insert(&self, object: Arc<Object>, postings: Box<[Posting]>, trail: Trail) {
        let hash = self.hasher.hash_one(object.head().key());
        let entry = Entry { object, postings, trail, slot: NONE };
        let mut shard = self.shard(hash).write();
        shard.entries.insert_unique(hash, entry, |entry| self.hash(entry));
    }

    /// Where the object of a key now is in the tree.
    pub(crate) fn moved(&self, key: &ObjectKey, trail: Trail) {
        let hash = self.hasher.hash_one(key);
        if let Some(entry) = self.shard(hash).write().find_mut(hash, key.as_ref()) {
            entry.trail = trail;
        }
    }

    pub(crate) fn remove(&self, key: KeyRef<'_>) -> Option<Removed> {
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shard(hash).write();
        let found = shard.entries.find_entry(hash, |entry| entry.has(key)).ok()?;
        let (Entry { object, postings, trail, slot }, _) = found.remove();
        let slots = shard.take_slots(slot);
        // A store that was once large gives its memory back.
        let (len, room) = (shard.entries.len(), shard.entries.capacity());
        if room > 64 && len < room / 4 {
            shard.entries.shrink_to(2 * len, |entry| self.hash(entry));
        }
        Some(Removed { object, postings, trail, slots })
    }

    /// Adds to the postings of a key, for an index that comes late.
    pub(crate) fn add_postings(&self, key: &ObjectKey, added: impl IntoIterator<Item = Posting>) {
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shard(hash).write();
        let entry = shard.find_mut(hash, key.as_ref()).expect("an object in the tree must be here");
        let postings = std::mem::take(&mut entry.postings);
        entry.postings = postings.into_iter().chain(added).collect();
    }

    /// Hits of the slots that there are.
    pub(crate) fn living_hits(&self, face: &Face) -> u64 {
        let hits = |shard: &Lock<Shard>| -> u64 {
            let shard = shard.read();
            let slots = shard.slots.iter().flatten().filter(|slot| slot.is_of(face));
            slots.map(|slot| slot.hits.load(Ordering::Relaxed)).sum()
        };
        self.shards.iter().map(hits).sum()
    }

    /// What is known not to decode in a type, at most `limit`.
    pub(crate) fn failures(&self, face: &Face, limit: usize) -> Vec<DecodeError> {
        let mut failures = Vec::new();
        for shard in &*self.shards {
            let shard = shard.read();
            let slots = shard.slots.iter().flatten().filter(|slot| slot.is_of(face));
            failures.extend(slots.filter_map(|slot| match &slot.memo {
                Memo::Failed(error) => Some(error.clone()),
                Memo::Decoded(_) => None,
            }));
        }
        failures.sort_by(|one, two| one.key().cmp(two.key()));
        failures.truncate(limit);
        failures
    }

    /// What the table itself asked of the allocator, without objects and decoded ones.
    pub(crate) fn allocated_bytes(&self) -> usize {
        let bytes = |shard: &Lock<Shard>| {
            let shard = shard.read();
            let postings = |entry: &Entry| size_of_val(&*entry.postings);
            shard.entries.allocation_size()
                + shard.entries.iter().map(postings).sum::<usize>()
                + shard.slots.capacity() * size_of::<Option<Slot>>()
                + shard.free.capacity() * size_of::<u32>()
        };
        self.shards.iter().map(bytes).sum()
    }

    fn hash(&self, entry: &Entry) -> u64 {
        self.hasher.hash_one(entry.object.head().key())
    }

    /// By bits that the hash table uses neither for its tags nor for its places.
    fn shard(&self, hash: u64) -> &Lock<Shard> {
        &self.shards[(hash >> 40) as usize % SHARDS]
    }
}

impl Shard {
    fn new() -> Self {
        Self { entries: HashTable::new(), slots: Vec::new(), free: Vec::new(), hand: 0 }
    }

    fn find(&self, hash: u64, key: KeyRef<'_>) -> Option<&Entry> {
        self.entries.find(hash, |entry| entry.has(key))
    }

    fn find_mut(&mut self, hash: u64, key: KeyRef<'_>) -> Option<&mut Entry> {
        self.entries.find_mut(hash, |entry| entry.has(key))
    }

    /// What is known of an object in a type, and counts the hit.
    fn read(&self, entry: &Entry, face: &Arc<Face>) -> Option<Memo> {
        if let Some(slot) = self.chain(entry.slot).find(|slot| slot.is_of(face)) {
            slot.hit();
            return Some(slot.memo.clone());
        }
        match entry.object.body() {
            Body::Resident(decoded, _) => Some(Memo::Decoded(Arc::clone(decoded))),
            Body::Undecodable(error) => Some(Memo::Failed(error.clone())),
            Body::Bytes(_) => None,
        }
    }

    /// The slots of an object, from its first on.
    fn chain(&self, first: u32) -> impl Iterator<Item = &Slot> {
        // No slot has the number `NONE`, which is therefore behind the end.
        let slot = |number: u32| self.slots.get(number as usize)?.as_ref();
        std::iter::successors(slot(first), move |this| slot(this.next))
    }

    /// Returns the number of the new slot.
    fn keep(
        &mut self,
        hash: u64,
        object: &Arc<Object>,
        face: &Arc<Face>,
        memo: Memo,
        weight: usize,
    ) -> Option<u32> {
        let entry = self.find(hash, object.head().key().as_ref())?;
        if !Arc::ptr_eq(&entry.object, object) {
            return None;
        }
        let next = entry.slot;
        if self.chain(next).any(|slot| slot.is_of(face)) {
            return None;
        }
        let slot = Slot::new(Arc::clone(face), memo, weight, hash, next);
        let number = self.free.pop().or_else(|| u32::try_from(self.slots.len()).ok());
        let number = number.filter(|number| *number != NONE)?;
        if number as usize == self.slots.len() {
            self.slots.push(Some(slot));
        } else {
            self.slots[number as usize] = Some(slot);
        }
        let entry = self.find_mut(hash, object.head().key().as_ref());
        entry.expect("the entry must still be there").slot = number;
        Some(number)
    }

    /// Evicts slots of a type until it is within its budget, or this shard has no more, except `spared`.
    fn evict(&mut self, face: &Face, spared: Option<u32>, evicted: &mut Vec<Slot>) {
        // In the first round every slot may have been read, in the second none.
        let mut steps = 2 * self.slots.len();
        while steps > 0 && face.is_over_budget() {
            steps -= 1;
            self.hand = (self.hand + 1) % self.slots.len();
            let Some(slot) = &mut self.slots[self.hand] else { continue };
            let is_failed = matches!(slot.memo, Memo::Failed(_));
            let number = u32::try_from(self.hand).expect("slot numbers must fit");
            if !slot.is_of(face) || is_failed || spared == Some(number) {
                continue;
            }
            let hits = *slot.hits.get_mut();
            if std::mem::replace(&mut slot.hits_seen, hits) == hits {
                evicted.extend(self.unlink(number));
            }
        }
    }

    /// Takes a slot out of its object's chain.
    fn unlink(&mut self, number: u32) -> Option<Slot> {
        let mut slot = self.slots[number as usize].take()?;
        slot.retire();
        self.free.push(number);
        if let Some(entry) = self.entries.find_mut(slot.hash, |entry| entry.slot == number) {
            entry.slot = slot.next;
        } else if let Some(before) =
            self.slots.iter_mut().flatten().find(|before| before.next == number)
        {
            // Only where a store is read as several types.
            before.next = slot.next;
        }
        Some(slot)
    }

    /// Takes all slots of an object.
    fn take_slots(&mut self, first: u32) -> Vec<Slot> {
        let mut taken = Vec::new();
        let mut next = first;
        while let Some(mut slot) = self.slots.get_mut(next as usize).and_then(Option::take) {
            slot.retire();
            self.free.push(next);
            next = slot.next;
            taken.push(slot);
        }
        if self.free.len() == self.slots.len() {
            // Nothing is hot any more: the room goes back.
            (self.slots, self.free, self.hand) = (Vec::new(), Vec::new(), 0);
        }
        taken
    }
}

impl Entry {
    fn has(&self, key: KeyRef<'_>) -> bool {
        let own = self.object.head().key();
        own.name() == key.name() && own.namespace() == key.namespace()
    }
}

impl Slot {
    fn new(face: Arc<Face>, memo: Memo, weight: usize, hash: u64, next: u32) -> Self {
        match memo {
            Memo::Decoded(_) => {
                face.hot_bytes.fetch_add(weight, Ordering::Relaxed);
                face.hot_entries.fetch_add(1, Ordering::Relaxed);
            }
            Memo::Failed(_) => drop(face.undecodable.fetch_add(1, Ordering::Relaxed)),
        }
        Self { face, memo, weight, hash, next, hits: AtomicU64::new(0), hits_seen: 0 }
    }

    fn is_of(&self, face: &Face) -> bool {
        std::ptr::eq(&raw const *self.face, face)
    }

    /// Not one step, which would cost a tenth of a hot read: two readers of one object at the same instant
    /// may count as one.
    fn hit(&self) {
        self.hits.store(self.hits.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Takes it off the accounts, when it leaves its shard; it may be dropped later.
    fn retire(&mut self) {
        let face = &self.face;
        match self.memo {
            Memo::Decoded(_) => {
                face.hot_bytes.fetch_sub(self.weight, Ordering::Relaxed);
                face.hot_entries.fetch_sub(1, Ordering::Relaxed);
            }
            Memo::Failed(_) => drop(face.undecodable.fetch_sub(1, Ordering::Relaxed)),
        }
        face.hits.fetch_add(*self.hits.get_mut(), Ordering::Relaxed);
    }
}
