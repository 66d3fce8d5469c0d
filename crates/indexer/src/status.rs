//! What a store tells of itself, at any time: sizes, the hot set of each type, and what does not decode.

use std::sync::atomic::Ordering;

use crate::error::DecodeError;
use crate::index::IndexStatus;
use crate::reader::Reader;

/// A store's accounts. Bytes are those asked of the allocator.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreStatus {
    /// How many objects there are.
    pub objects: usize,
    /// What they take, heads and bodies.
    pub object_bytes: usize,
    /// What finding them takes: the table, the order and the indexes.
    pub structure_bytes: usize,
    /// What interned texts take. If the interner is shared, those of other stores are in it.
    pub interned_bytes: usize,
    /// One for each type that the store has been read as.
    pub types: Vec<TypeStatus>,
    /// One for each index.
    pub indexes: Vec<IndexStatus>,
}

/// One type that a store is read as.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TypeStatus {
    /// The type.
    pub name: &'static str,
    /// What decoded objects in the hot set take, estimated.
    pub hot_bytes: usize,
    /// How many there are.
    pub hot_entries: usize,
    /// Reads that found the object decoded, or known not to decode.
    pub hits: u64,
    /// Reads that had to decode.
    pub misses: u64,
    /// How many objects are known not to decode in their current version.
    pub undecodable: usize,
    /// The first hundred of them, in the order of their keys.
    pub undecodable_first: Vec<DecodeError>,
}

/// How many undecodable objects a status names: enough to see what is wrong.
const NAMED_MAX: usize = 100;

impl Reader {
    /// The store's accounts. It walks over the nodes of all structures, so ask every few seconds, not for every
    /// event.
    pub fn status(&self) -> StoreStatus {
        let shared = self.shared();
        let moment = std::sync::Arc::clone(&*shared.trees.read());
        let trees: usize = moment.indexes.iter().map(|tree| tree.entries.allocated_bytes()).sum();
        let faces = shared.faces.read().clone();
        let types = faces.iter().map(|face| TypeStatus {
            name: face.name(),
            hot_bytes: face.hot_bytes.load(Ordering::Relaxed),
            hot_entries: face.hot_entries.load(Ordering::Relaxed),
            hits: face.hits.load(Ordering::Relaxed) + shared.table.living_hits(face),
            misses: face.misses.load(Ordering::Relaxed),
            undecodable: face.undecodable.load(Ordering::Relaxed),
            undecodable_first: shared.table.failures(face, NAMED_MAX),
        });
        let indexes = moment.indexes.iter().map(|tree| IndexStatus {
            name: tree.index.name,
            entries: tree.entries.len(),
            undecodable: tree.index.undecodable(),
        });
        StoreStatus {
            objects: moment.objects.len(),
            object_bytes: self.object_bytes(),
            structure_bytes: shared.table.allocated_bytes()
                + moment.objects.allocated_bytes()
                + trees,
            interned_bytes: shared.interner.allocated_bytes(),
            types: types.collect(),
            indexes: indexes.collect(),
        }
    }
}
