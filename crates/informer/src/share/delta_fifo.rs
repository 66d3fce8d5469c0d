//! The queue between a reflector and the cache: what happened, key by key.
//!
//! Changes come in at one end as lists and watches report them, and go out at the other to whoever applies
//! them to the cache and tells the handlers. All changes of a key lie together, in the order in which they
//! came; keys come out in the order of their first change. It is synchronous and knows no lock: the cache owns
//! it.
//!
//! A list goes through it object by object, by mark and sweep, and is never held as a whole. So a list is not
//! one atomic change, as in client-go's newest queue: between its first and its last object, readers of the
//! cache see some keys as the list has them and others as they were before.
//!
//! Invariants: no entry is empty; all deltas of an entry are of one key, and no two entries of the same; a
//! delete never follows on a delete; entries leave only at the front, so that the place of an entry is its
//! number less the number of those that have left.
//!
//! There is no bound on what is queued. Whoever adds also pops: the cache does both under one lock, for as many
//! objects as one chunk of a body holds at most.

mod delta;
mod replace;

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::iter;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use windlass_indexer::{KeyRef, Object, Reader};

pub use delta::{Delta, Deltas, FinalState, IntoDeltas};
pub use replace::ReplaceList;

/// Changes of objects by key, first in, first out.
///
/// ```
/// use windlass_indexer::Store;
/// use windlass_informer::{Delta, DeltaFifo};
///
/// let mut store = Store::new();
/// let pod = store.put_bytes(br#"{"metadata":{"name":"web","namespace":"shop"}}"#)?.current;
/// let gone = store.put_bytes(br#"{"metadata":{"name":"old","namespace":"shop"}}"#)?.current;
///
/// // A list that has only one of the two objects that are known.
/// let mut fifo = DeltaFifo::new();
/// let known = store.reader();
/// let mut list = fifo.begin_replace(&known, None);
/// fifo.replace(&mut list, pod);
/// assert_eq!(fifo.end_replace(list, &known), 1);
///
/// let deltas = fifo.pop().expect("queued");
/// assert!(matches!(*deltas, [Delta::Replaced(_)]));
/// let deltas = fifo.pop().expect("queued");
/// assert_eq!(deltas.key(), gone.head().key());
/// assert!(fifo.has_synced());
/// # Ok::<(), windlass_indexer::HeadError>(())
/// ```
#[derive(Debug)]
pub struct DeltaFifo {
    /// The numbers of the entries, found by their key.
    numbers: HashTable<u64>,
    /// Seeded at random, because tenants choose the names that it hashes. The order of the table
    /// shows nowhere.
    hasher: RandomState,
    entries: VecDeque<Queued>,
    /// How many entries have left, which is the number of the first one that has not.
    popped: u64,
    /// Where the first complete list ended.
    first_list: Option<Position>,
    closed: bool,
}

/// A place in the queue, behind all that was queued by then. It orders by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(u64);

#[derive(Debug)]
struct Queued {
    /// Of the key, which is not hashed again when the entry leaves.
    hash: u64,
    deltas: Deltas,
}

/// Where the changes of a key are.
enum Place {
    /// In the entry with this number.
    Taken(u64),
    /// Nowhere yet; this is the hash of the key.
    New(u64),
}

/// How much room an empty queue keeps. A resync needs as much as the cache has keys, and then it is idle.
const ROOM_KEPT: usize = 1024;

impl DeltaFifo {
    /// An empty queue that has seen no list.
    pub fn new() -> Self {
        Self {
            numbers: HashTable::new(),
            hasher: RandomState::default(),
            entries: VecDeque::new(),
            popped: 0,
            first_list: None,
            closed: false,
        }
    }

    /// A watch reported a new object.
    pub fn add(&mut self, object: Arc<Object>) {
        self.push(Delta::Added(object));
    }

    /// A watch reported a new version of an object.
    pub fn update(&mut self, object: Arc<Object>) {
        self.push(Delta::Updated(object));
    }

    /// A watch reported the end of an object, in its final state. If the key is neither in the cache nor
    /// queued, nothing happens: its end has been told of already, for instance as that of a tombstone.
    pub fn delete(&mut self, object: Arc<Object>, known: &Reader) {
        let key = object.head().key();
        if self.get(key).is_some() || known.get(key).is_some() {
            self.push(Delta::Deleted { object, state: FinalState::Final });
        }
    }

    /// An object is gone, and nobody knows how it was in the end: `last_known` is in the cache or queued.
    pub(crate) fn bury(&mut self, last_known: Arc<Object>) {
        self.push(Delta::tombstone(last_known));
    }

    /// Begins a list of all objects, or of those in a namespace. `known` is the cache.
    pub fn begin_replace(&self, known: &Reader, namespace: Option<&str>) -> ReplaceList {
        let is_cached = match namespace {
            Some(namespace) => known.snapshot().in_namespace(namespace).iter().next().is_some(),
            None => !known.is_empty(),
        };
        let is_queued = || self.list().any(|deltas| replace::covers(namespace, deltas.key()));
        ReplaceList::new(namespace, is_cached || is_queued())
    }

    /// The list has an object that is new, or differs from the version that is held. One that does not is
    /// only [marked](ReplaceList::mark).
    pub fn replace(&mut self, list: &mut ReplaceList, object: Arc<Object>) {
        list.mark(object.head().key());
        self.push(Delta::Replaced(object));
    }

    /// The list is complete: every object in the cache or in the queue that it is a list of, and did not have,
    /// gets a tombstone. Returns how many there are.
    #[expect(clippy::needless_pass_by_value, reason = "a list ends once")]
    pub fn end_replace(&mut self, list: ReplaceList, known: &Reader) -> usize {
        if self.closed {
            // What the list brought last was ignored, so it can neither sweep nor count as complete.
            return 0;
        }
        let tombstones = if list.can_sweep() { self.sweep(&list, known) } else { 0 };
        self.first_list.get_or_insert(Position(self.next_number()));
        tombstones
    }

    /// Shows again what is in the cache. Keys with changes in the queue are left alone: those are newer than the
    /// cache, and handlers see the object anyway. Returns how many objects are shown.
    pub fn resync(&mut self, known: &Reader) -> usize {
        self.push_unqueued(known.snapshot().all().iter(), Delta::Sync)
    }

    /// Takes out the key that has waited longest, with all that happened to it.
    pub fn pop(&mut self) -> Option<Deltas> {
        let Queued { hash, deltas } = self.entries.pop_front()?;
        self.forget(hash);
        Some(deltas)
    }

    /// Takes out up to `max` keys, one when it is asked for. A key comes once, with all that happened to it, so a
    /// batch needs no end at a key that it has already; what was not asked for stays.
    pub fn pop_batch(&mut self, max: usize) -> impl Iterator<Item = Deltas> {
        iter::from_fn(|| self.pop()).take(max)
    }

    /// What is queued for a key, oldest first.
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<&Deltas> {
        // Mostly nothing is, and then nothing is hashed.
        if self.is_empty() {
            return None;
        }
        let key = key.into();
        let is_it = |number: &u64| self.entry(*number).deltas.key().as_ref() == key;
        let number = self.numbers.find(self.hasher.hash_one(key), is_it)?;
        Some(&self.entry(*number).deltas)
    }

    /// The newest change that is queued for a key.
    pub fn newest<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<&Delta> {
        self.get(key).map(Deltas::newest)
    }

    /// All that is queued, in the order in which it will come out.
    pub fn list(&self) -> impl ExactSizeIterator<Item = &Deltas> {
        self.entries.iter().map(|queued| &queued.deltas)
    }

    /// How many keys are queued.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The end of the queue as it is now.
    pub fn end(&self) -> Position {
        Position(self.next_number())
    }

    /// Whether all that was queued before `position` has been popped.
    ///
    /// With several lists, one for each namespace, each is applied when the [end](Self::end) that the queue had
    /// after its [`end_replace`](Self::end_replace) has been passed.
    pub fn has_passed(&self, position: Position) -> bool {
        position.0 <= self.popped
    }

    /// Whether a list was complete, and all that it queued has been popped. Once true, it stays true. An empty
    /// list is enough; changes that a watch reports are not, as they do not say what else there is.
    pub fn has_synced(&self) -> bool {
        self.first_list.is_some_and(|end| self.has_passed(end))
    }

    /// From now on nothing is taken in. What is queued can still be popped.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Queues a change at the end of those of its key.
    fn push(&mut self, delta: Delta) {
        if self.closed {
            return;
        }
        match self.place(delta.key().as_ref()) {
            Place::Taken(number) => self.entry_mut(number).deltas.push(delta),
            Place::New(hash) => self.entries.push_back(Queued { hash, deltas: Deltas::one(delta) }),
        }
    }

    /// Queues a change for each of the objects whose key is not queued. Returns for how many.
    fn push_unqueued<'a>(
        &mut self,
        objects: impl Iterator<Item = &'a Arc<Object>>,
        change: fn(Arc<Object>) -> Delta,
    ) -> usize {
        if self.closed {
            return 0;
        }
        let before = self.len();
        for object in objects {
            if let Place::New(hash) = self.place(object.head().key().as_ref()) {
                let deltas = Deltas::one(change(Arc::clone(object)));
                self.entries.push_back(Queued { hash, deltas });
            }
        }
        self.len() - before
    }

    /// Where the changes of a key are. If there are none, its place is the next one, and the caller fills it.
    fn place(&mut self, key: KeyRef<'_>) -> Place {
        let Self { numbers, hasher, entries, popped, .. } = self;
        let entry = |number: u64| &entries[place_of(number, *popped)];
        let hash = hasher.hash_one(key);
        let is_it = |number: &u64| entry(*number).deltas.key().as_ref() == key;
        match numbers.entry(hash, is_it, |number| entry(*number).hash) {
            Entry::Occupied(found) => Place::Taken(*found.get()),
            Entry::Vacant(vacant) => {
                vacant.insert(*popped + entries.len() as u64);
                Place::New(hash)
            }
        }
    }

    /// Takes note that the first entry has left.
    fn forget(&mut self, hash: u64) {
        let number = self.popped;
        let found = self.numbers.find_entry(hash, |queued| *queued == number);
        found.expect("every entry must be found by its key").remove();
        self.popped += 1;
        if self.entries.is_empty() && self.entries.capacity() > ROOM_KEPT {
            self.entries.shrink_to(ROOM_KEPT);
            self.numbers.shrink_to(ROOM_KEPT, |_| unreachable!("an empty table must not hash"));
        }
    }

    /// Puts tombstones for what a list did not have.
    fn sweep(&mut self, list: &ReplaceList, known: &Reader) -> usize {
        let mut tombstones = 0;
        for Queued { deltas, .. } in &mut self.entries {
            let newest = deltas.newest();
            if !newest.is_deleted() && list.is_gone(newest.key()) {
                let object = Arc::clone(newest.object());
                deltas.push(Delta::tombstone(object));
                tombstones += 1;
            }
        }
        // What is queued is newer than the cache and has been swept, or its end is queued already.
        let moment = known.snapshot();
        let part = match list.namespace() {
            Some(namespace) => moment.in_namespace(namespace),
            None => moment.all(),
        };
        let gone = part.iter().filter(|object| list.is_gone(object.head().key()));
        tombstones + self.push_unqueued(gone, Delta::tombstone)
    }

    fn entry(&self, number: u64) -> &Queued {
        &self.entries[place_of(number, self.popped)]
    }

    fn entry_mut(&mut self, number: u64) -> &mut Queued {
        &mut self.entries[place_of(number, self.popped)]
    }

    /// The number of the entry that is queued next.
    fn next_number(&self) -> u64 {
        self.popped + self.entries.len() as u64
    }
}

impl Default for DeltaFifo {
    fn default() -> Self {
        Self::new()
    }
}

fn place_of(number: u64, popped: u64) -> usize {
    usize::try_from(number - popped).expect("what is in memory must be countable")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tenants choose the names of objects. With a fixed seed they could choose many whose hashes
    /// collide.
    #[test]
    fn no_two_fifos_hash_names_alike() {
        let hash = || DeltaFifo::new().hasher.hash_one("default/web-0");
        assert_ne!(hash(), hash());
    }
}
