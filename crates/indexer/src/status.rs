//! The status of a store: sizes, the hot set of each type, and objects that do not decode.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::decoder::TypeView;
use crate::error::DecodeError;
use crate::index::IndexStatus;
use crate::reader::Reader;

/// The status of a store. Bytes are those taken from the allocator.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreStatus {
    /// The number of objects.
    pub objects: usize,
    /// What the objects take: heads and bodies.
    pub object_bytes: usize,
    /// What the map, the order and the indexes take.
    pub structure_bytes: usize,
    /// What interned texts, labels and owners take.
    pub interned_bytes: usize,
    /// One for each type that the store was read as.
    pub types: Vec<TypeStatus>,
    /// One for each index.
    pub indexes: Vec<IndexStatus>,
}

/// The status of one type that a store is read as.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TypeStatus {
    /// The type.
    pub name: &'static str,
    /// What the decoded objects in the hot set take, as an estimate.
    pub hot_bytes: usize,
    /// The number of decoded objects in the hot set.
    pub hot_entries: usize,
    /// Reads that found the object decoded, or known not to decode. A resident store counts none.
    pub hits: u64,
    /// Reads that had to decode.
    pub misses: u64,
    /// The number of objects that are known not to decode in their current version.
    pub undecodable: usize,
    /// The first hundred of them, in the order of their keys.
    pub undecodable_first: Vec<DecodeError>,
}

/// How many undecodable objects a status names. These are enough to see what is wrong.
const NAMED_MAX: usize = 100;

impl Reader {
    /// The status of the store. It visits all nodes of all structures, so call it every few
    /// seconds and not for every event.
    pub fn status(&self) -> StoreStatus {
        let shared = self.shared();
        let trees = Arc::clone(&*shared.trees.read());
        let views = shared.views.read().clone();
        let indexes = trees.indexes.iter().map(|tree| IndexStatus {
            name: tree.index.name,
            entries: tree.entries.len(),
            undecodable: tree.index.undecodable(),
        });
        let index_bytes: usize =
            trees.indexes.iter().map(|tree| tree.entries.allocated_bytes()).sum();
        let lists = trees.objects.iter().map(|stored| &stored.indexed);
        let list_bytes: usize = lists
            .filter(|list| !list.is_empty())
            .map(|list| 2 * size_of::<usize>() + size_of_val(&**list))
            .sum();
        StoreStatus {
            objects: trees.objects.len(),
            object_bytes: shared.object_bytes.load(Ordering::Relaxed),
            structure_bytes: shared.map.allocated_bytes()
                + trees.objects.allocated_bytes()
                + list_bytes
                + index_bytes,
            interned_bytes: shared.interner.allocated_bytes(),
            types: views.iter().map(|view| type_status(view)).collect(),
            indexes: indexes.collect(),
        }
    }
}

fn type_status(view: &TypeView) -> TypeStatus {
    let hot_set = view.hot_set.read();
    TypeStatus {
        name: view.decoder.name,
        hot_bytes: hot_set.bytes,
        hot_entries: hot_set.len(),
        hits: hot_set.hits,
        misses: hot_set.misses,
        undecodable: hot_set.undecodable().len(),
        undecodable_first: hot_set.undecodable().take(NAMED_MAX).cloned().collect(),
    }
}
