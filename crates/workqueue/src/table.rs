//! Which slot has a key, found by the key's hash.
//!
//! One array of eight-byte entries, each a hash and the number of a slot. A search begins where the hash says and goes on
//! to the first free entry. The table knows no keys: whoever searches says whether a slot with the right hash is the one.
//!
//! Written for a million keys, where every access is a wait for memory. A search touches one cache line, or two, where a
//! table that keeps its tags apart touches one more. [`touch`](Table::touch) fetches the places of a batch, all at the same
//! time. Slots are not taken out one by one, but [swept](Table::sweep) out, many in one pass. And that pass, like the one
//! that grows the table, looks at no slot, because an entry has its whole hash, and goes through the table from one end to
//! the other where it stands, because places follow the order of the hashes: no page is fetched twice, or anew.
//!
//! Keys whose hashes are close to each other make searches long, so the hash must be seeded: foldhash is, against
//! everybody who cannot see the queue's timing.
//!
//! Invariant: no entry is free between the one where the search for a slot begins and the one where the slot stands.

use std::hint::black_box;

use crate::slots::{KeyHash, SlotId};

/// The least entries that are worth an allocation. There are always a multiple of [`BLOCK`] of them, and enough of those:
/// an entry that stands before its home, because the search for it went on from the end, would share a block with that home
/// only if all but `BLOCK - 2` entries were in use, and a quarter are free.
const ENTRIES_MIN: usize = 4 * BLOCK;

/// Fewer entries are not worth giving back: the next keys would take them again.
const ENTRIES_KEPT: usize = 64 * BLOCK;

#[derive(Debug)]
pub(crate) struct Table {
    entries: Vec<Entry>,
    /// Entries in use: at most three of four, so that a search ends soon.
    len: usize,
}

/// The hash above, the slot's number below, plus one; zero while it is free.
type Entry = u64;

const FREE: Entry = 0;

/// Entries that a pass over the table takes out at once.
const BLOCK: usize = 64;

/// What was taken out of a part of the table.
struct Block {
    taken: [Entry; BLOCK],
    len: usize,
}

/// A free place where a key belongs that was not found.
#[derive(Debug)]
pub(crate) struct Vacancy {
    index: usize,
    hash: KeyHash,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), len: 0 }
    }

    /// The slot with this hash for which `is_it` holds.
    pub(crate) fn find(&self, hash: KeyHash, is_it: impl Fn(SlotId) -> bool) -> Option<SlotId> {
        if self.entries.is_empty() {
            return None;
        }
        self.search(hash, is_it).ok()
    }

    /// The slot with this hash for which `is_it` holds, or else a place for it.
    #[inline]
    pub(crate) fn find_or_vacancy(
        &mut self,
        hash: KeyHash,
        is_it: impl Fn(SlotId) -> bool,
    ) -> Result<SlotId, Vacancy> {
        if self.is_full() {
            self.grow();
        }
        self.search(hash, is_it).map_err(|index| Vacancy { index, hash })
    }

    /// Fills a place that was just found.
    #[inline]
    pub(crate) fn fill(&mut self, Vacancy { index, hash }: Vacancy, id: SlotId) {
        debug_assert_eq!(self.entries[index], FREE, "nobody must have come between");
        self.entries[index] = entry(hash, id);
        self.len += 1;
    }

    /// Takes out all slots for which `is_gone` holds, in one pass from front to back: an entry stays where it is, or moves
    /// towards its home, into a place that this pass has emptied. Those that stand before their home, because the search for
    /// them went on from the end, are put back last.
    pub(crate) fn sweep(&mut self, is_gone: impl Fn(SlotId) -> bool) {
        let mut last = Vec::new();
        self.len = 0;
        for start in (0..self.entries.len()).step_by(BLOCK) {
            let block = self.take_block(start, |entry| !is_gone(id_of(entry)));
            for &entry in block.entries() {
                self.len += 1;
                if self.home(hash_of(entry)) < start + BLOCK {
                    self.put(entry);
                } else {
                    last.push(entry);
                }
            }
        }
        for entry in last {
            self.put(entry);
        }
        if self.entries.len() >= ENTRIES_KEPT && self.len < self.entries.len() / 8 {
            let smaller = vec![FREE; capacity_for(self.len)];
            let entries = std::mem::replace(&mut self.entries, smaller);
            entries.into_iter().filter(|&entry| entry != FREE).for_each(|entry| self.put(entry));
        }
    }

    /// Takes out everything.
    pub(crate) fn clear(&mut self) {
        let is_roomy = self.entries.len() >= ENTRIES_KEPT && self.len <= self.entries.len() / 4;
        if is_roomy {
            self.entries = vec![FREE; capacity_for(self.len)];
        } else {
            self.entries.fill(FREE);
        }
        self.len = 0;
    }

    /// Whether it must grow before another slot fits.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len >= self.entries.len() / 4 * 3
    }

    /// Entries in use.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Entries, in use or free.
    pub(crate) fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// Fetches the places of these hashes: one wait for memory, instead of one for each.
    #[inline]
    pub(crate) fn touch(&self, hashes: impl Iterator<Item = KeyHash>) {
        if self.entries.is_empty() {
            return;
        }
        black_box(hashes.fold(0, |all, hash| all ^ self.entries[self.home(hash.bits())]));
    }

    /// The slot, or else the free place at which the search ended.
    #[inline]
    fn search(&self, hash: KeyHash, is_it: impl Fn(SlotId) -> bool) -> Result<SlotId, usize> {
        let mut index = self.home(hash.bits());
        loop {
            let entry = self.entries[index];
            if entry == FREE {
                return Err(index);
            }
            if hash_of(entry) == hash.bits() && is_it(id_of(entry)) {
                return Ok(id_of(entry));
            }
            index = self.after(index);
        }
    }

    /// Where the search for a hash begins.
    #[inline]
    fn home(&self, hash: u32) -> usize {
        // With more than 2^32 entries it may wrap, which costs order, and nothing else.
        let scaled = u64::from(hash).wrapping_mul(self.entries.len() as u64);
        (scaled >> 32) as usize
    }

    #[inline]
    fn after(&self, index: usize) -> usize {
        if index + 1 == self.entries.len() { 0 } else { index + 1 }
    }

    /// Doubles where it stands, in one pass from back to front: entries move towards the back, into places that this pass
    /// has emptied. Those whose new home is before that, or for which the search would go on from the front, are put back
    /// last.
    #[cold]
    fn grow(&mut self) {
        let before = self.entries.len();
        self.entries.resize((2 * before).max(ENTRIES_MIN), FREE);
        let mut last = Vec::new();
        for start in (0..before).step_by(BLOCK).rev() {
            let block = self.take_block(start, |_| true);
            for &entry in block.entries() {
                let home = self.home(hash_of(entry));
                let free = self.entries[home..].iter().position(|&entry| entry == FREE);
                match free {
                    Some(offset) if home >= start => self.entries[home + offset] = entry,
                    _ => last.push(entry),
                }
            }
        }
        for entry in last {
            self.put(entry);
        }
    }

    /// Empties a block; returns what was in it and shall stay. Without a branch for each entry, because none could be
    /// foreseen.
    #[inline]
    fn take_block(&mut self, start: usize, stays: impl Fn(Entry) -> bool) -> Block {
        let mut block = Block { taken: [FREE; BLOCK], len: 0 };
        for place in &mut self.entries[start..start + BLOCK] {
            let entry = std::mem::replace(place, FREE);
            block.taken[block.len] = entry;
            block.len += usize::from(entry != FREE && stays(entry));
        }
        block
    }

    /// Puts an entry into the first free place from its home on.
    #[inline]
    fn put(&mut self, entry: Entry) {
        let mut place = self.home(hash_of(entry));
        while self.entries[place] != FREE {
            place = self.after(place);
        }
        self.entries[place] = entry;
    }
}

/// Entries for a table that is half full with `len` of them, or less.
fn capacity_for(len: usize) -> usize {
    (2 * len).next_power_of_two().max(ENTRIES_MIN)
}

impl Block {
    fn entries(&self) -> &[Entry] {
        &self.taken[..self.len]
    }
}

fn entry(hash: KeyHash, id: SlotId) -> Entry {
    u64::from(hash.bits()) << 32 | (u64::from(id) + 1)
}

fn hash_of(entry: Entry) -> u32 {
    (entry >> 32) as u32
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is the number")]
fn id_of(entry: Entry) -> SlotId {
    (entry as u32).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        /// Puts a slot in that is not there.
        Add(SlotId),
        /// Takes out all slots whose number has a remainder.
        Sweep {
            divisor: SlotId,
            remainder: SlotId,
        },
        /// Takes out all but those.
        SweepOthers {
            divisor: SlotId,
            remainder: SlotId,
        },
        Clear,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let rest = || (1..40_u32).prop_flat_map(|divisor| (Just(divisor), 0..divisor));
        let step = prop_oneof![
            400 => (0..4000_u32).prop_map(Step::Add),
            4 => rest().prop_map(|(divisor, remainder)| Step::Sweep { divisor, remainder }),
            1 => rest().prop_map(|(divisor, remainder)| Step::SweepOthers { divisor, remainder }),
            1 => Just(Step::Clear),
        ];
        prop::collection::vec(step, 0..3000)
    }

    /// Few hashes, many of them the same, some at the very end of the table, some close together in the middle, and some
    /// anywhere.
    fn hash(id: SlotId) -> KeyHash {
        let spread = id.wrapping_mul(0x9e37_79b9);
        KeyHash::new(u64::from(match id % 5 {
            0 => u32::MAX - id % 8,
            1 => u32::MAX - id,
            2 => id / 16,
            3 => u32::MAX / 2 + (id % 64) * (u32::MAX / 128),
            _ => spread,
        }))
    }

    fn is_there(table: &Table, id: SlotId) -> bool {
        table.find(hash(id), |other| other == id).is_some()
    }

    proptest! {
        #[test]
        fn what_was_put_in_is_found_until_it_is_taken_out(steps in steps()) {
            let (mut table, mut model) = (Table::new(), BTreeSet::new());
            for step in steps {
                let was_sweep = !matches!(step, Step::Add(_));
                match step {
                    Step::Add(id) => {
                        table.touch([hash(id)].into_iter());
                        match table.find_or_vacancy(hash(id), |other| other == id) {
                            Ok(found) => prop_assert!(found == id && model.contains(&id)),
                            Err(vacancy) => {
                                table.fill(vacancy, id);
                                prop_assert!(model.insert(id));
                            }
                        }
                    }
                    Step::Sweep { divisor, remainder } => {
                        table.sweep(|id| id % divisor == remainder);
                        model.retain(|id| id % divisor != remainder);
                    }
                    Step::SweepOthers { divisor, remainder } => {
                        table.sweep(|id| id % divisor != remainder);
                        model.retain(|id| id % divisor == remainder);
                    }
                    Step::Clear => {
                        table.clear();
                        model.clear();
                    }
                }
                prop_assert_eq!(table.len(), model.len());
                if was_sweep {
                    prop_assert!(model.iter().all(|&id| is_there(&table, id)));
                }
            }
            for id in 0..4000 {
                prop_assert_eq!(is_there(&table, id), model.contains(&id), "{}", id);
            }
        }
    }

    /// Whatever the size of a table, when its rear half is full, a search from the middle goes on from the front.
    #[test]
    fn a_search_that_goes_on_from_the_front_survives_a_sweep() {
        for entries in [ENTRIES_MIN, 2 * ENTRIES_MIN, 4 * ENTRIES_MIN] {
            let hash_at = |home: usize| {
                let scaled = ((home as u64) << 32).div_ceil(entries as u64);
                KeyHash::new(scaled)
            };
            let mut table = Table { entries: vec![FREE; entries], len: 0 };
            let middle = entries / 2 - 1;
            // Some that stay, else the table would shrink.
            let homes = std::iter::once(middle).chain(entries / 2..entries).chain([middle]);
            let homes = homes.chain(2..2 + entries / 8);
            for (id, home) in (0..).zip(homes) {
                let vacancy = table.find_or_vacancy(hash_at(home), |_| false).expect_err("new");
                table.fill(vacancy, id);
            }
            assert_eq!(table.capacity(), entries, "it must not have grown");
            let wrapped = SlotId::try_from(entries / 2 + 1).expect("a number");
            assert_eq!(table.entries[0], entry(hash_at(middle), wrapped));
            table.sweep(|id| (1..wrapped).contains(&id));
            assert_eq!(table.capacity(), entries, "it must not have shrunk");
            for id in [0, wrapped] {
                assert_eq!(table.find(hash_at(middle), |other| other == id), Some(id), "{entries}");
            }
        }
    }

    #[test]
    fn empty_table_finds_nothing_and_takes_no_memory() {
        let table = Table::new();
        table.touch([hash(1)].into_iter());
        assert_eq!(table.find(hash(1), |_| true), None);
        assert_eq!(table.capacity(), 0);
    }

    #[test]
    fn highest_number_is_told_apart_from_a_free_entry() {
        let mut table = Table::new();
        let (id, hash) = (SlotId::MAX - 1, KeyHash::new(0));
        let vacancy = table.find_or_vacancy(hash, |_| true).expect_err("it is empty");
        table.fill(vacancy, id);
        assert_eq!(table.find(hash, |found| found == id), Some(id));
    }

    #[test]
    fn a_table_that_was_large_becomes_small() {
        let mut table = Table::new();
        let add = |table: &mut Table, id| {
            let vacancy = table.find_or_vacancy(hash(id), |_| false).expect_err("it is new");
            table.fill(vacancy, id);
        };
        (0..10_000).for_each(|id| add(&mut table, id));
        table.sweep(|id| id >= 100);
        assert!(table.capacity() < ENTRIES_KEPT, "{}", table.capacity());
        assert!((0..100).all(|id| is_there(&table, id)));

        (10_000..20_000).for_each(|id| add(&mut table, id));
        table.clear();
        let roomy = table.capacity();
        (0..100).for_each(|id| add(&mut table, id));
        table.clear();
        let small = table.capacity();
        assert!(roomy >= 10_000 && small < ENTRIES_KEPT, "{roomy}, {small}");
    }
}
