//! Which slot has a key, found by the key's hash.
//!
//! One array of eight-byte entries, each a hash and the number of a slot. A search begins where the hash says and goes on
//! to the first free entry. The table knows no keys: whoever searches says whether a slot with the right hash is the one.
//!
//! Written for a million keys, where every access is a wait for memory. A search touches one cache line, or two, where a
//! table that keeps its tags apart touches one more. An entry has its whole hash, so that neither growing nor closing a gap
//! looks at any slot. Places follow the order of the hashes, so that growing reads one array and writes the other from
//! front to back. And [`touch`](Table::touch) fetches the places of a batch, all at the same time.
//!
//! Keys whose hashes are close to each other make searches long, so the hash must be seeded: foldhash is, against
//! everybody who cannot see the queue's timing.
//!
//! Invariant: no entry is free between the one where the search for a slot begins and the one where the slot stands.

use std::hint::black_box;

use crate::slots::{KeyHash, SlotId};

/// The least entries that are worth an allocation.
const ENTRIES_MIN: usize = 64;

#[derive(Debug)]
pub(crate) struct Table {
    entries: Vec<Entry>,
    /// Entries in use: at most three of four, so that a search ends soon.
    len: usize,
}

/// The hash above, the slot's number below, plus one; zero while it is free.
type Entry = u64;

const FREE: Entry = 0;

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
        if self.len >= self.entries.len() / 4 * 3 {
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

    /// Takes a slot out.
    pub(crate) fn remove(&mut self, hash: KeyHash, id: SlotId) {
        let wanted = entry(hash, id);
        let mut gap = self.home(hash.bits());
        while self.entries[gap] != wanted {
            assert_ne!(self.entries[gap], FREE, "a slot in use must be in the table");
            gap = self.after(gap);
        }
        // What would no longer be found behind the gap moves into it, and leaves a gap in turn.
        let mut index = gap;
        loop {
            index = self.after(index);
            let entry = self.entries[index];
            if entry == FREE {
                break;
            }
            if self.distance(self.home(hash_of(entry)), index) >= self.distance(gap, index) {
                self.entries[gap] = entry;
                gap = index;
            }
        }
        self.entries[gap] = FREE;
        self.len -= 1;
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

    /// How far a search that has begun at `from` has come at `to`.
    #[inline]
    fn distance(&self, from: usize, to: usize) -> usize {
        if from <= to { to - from } else { to + self.entries.len() - from }
    }

    #[cold]
    fn grow(&mut self) {
        let larger = (self.entries.len() / 2 * 3).max(ENTRIES_MIN);
        let entries = std::mem::replace(&mut self.entries, vec![FREE; larger]);
        for entry in entries.into_iter().filter(|&entry| entry != FREE) {
            let mut index = self.home(hash_of(entry));
            while self.entries[index] != FREE {
                index = self.after(index);
            }
            self.entries[index] = entry;
        }
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
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// What is done to a slot's number; it is in the table, or it is not.
    #[derive(Clone, Copy, Debug)]
    struct Toggle(SlotId);

    /// Few hashes, many of them the same, some at the very end of the table, and some anywhere.
    fn hash(id: SlotId) -> KeyHash {
        let spread = id.wrapping_mul(0x9e37_79b9);
        KeyHash::new(u64::from(match id % 4 {
            0 => u32::MAX,
            1 => u32::MAX - id,
            2 => id / 16,
            _ => spread,
        }))
    }

    fn ids(table: &Table, hash: KeyHash) -> Vec<SlotId> {
        let seen = std::cell::RefCell::new(Vec::new());
        let found = table.find(hash, |id| {
            seen.borrow_mut().push(id);
            false
        });
        assert_eq!(found, None);
        let mut seen = seen.into_inner();
        seen.sort_unstable();
        seen
    }

    proptest! {
        #[test]
        fn what_was_put_in_is_found_until_it_is_taken_out(
            toggles in prop::collection::vec((0..4000_u32).prop_map(Toggle), 0..3000),
        ) {
            let mut table = Table::new();
            let mut model: BTreeMap<u32, Vec<SlotId>> = BTreeMap::new();
            for Toggle(id) in toggles {
                let same = model.entry(hash(id).bits()).or_default();
                table.touch([hash(id)].into_iter());
                match table.find_or_vacancy(hash(id), |other| other == id) {
                    Ok(found) => {
                        prop_assert!(found == id && same.contains(&id));
                        table.remove(hash(id), id);
                        same.retain(|&other| other != id);
                    }
                    Err(vacancy) => {
                        prop_assert!(!same.contains(&id));
                        table.fill(vacancy, id);
                        same.push(id);
                        same.sort_unstable();
                    }
                }
                prop_assert_eq!(table.len, model.values().map(Vec::len).sum::<usize>());
            }
            for (bits, same) in &model {
                prop_assert_eq!(&ids(&table, KeyHash::new(u64::from(*bits))), same);
            }
        }
    }

    #[test]
    fn empty_table_finds_nothing_and_takes_no_memory() {
        let table = Table::new();
        table.touch([hash(1)].into_iter());
        assert_eq!(table.find(hash(1), |_| true), None);
        assert_eq!(table.entries.capacity(), 0);
    }

    #[test]
    fn highest_number_is_told_apart_from_a_free_entry() {
        let mut table = Table::new();
        let (id, hash) = (SlotId::MAX - 1, KeyHash::new(0));
        let vacancy = table.find_or_vacancy(hash, |_| true).expect_err("it is empty");
        table.fill(vacancy, id);
        assert_eq!(table.find(hash, |_| true), Some(id));
    }
}
