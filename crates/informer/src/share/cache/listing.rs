//! A list on its way into the cache: what it had so far, and what waits for its end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_indexer::{Object, ObjectKey, ResourceVersion};

use crate::share::delta_fifo::ReplaceList;

/// A list that is under way.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(super) list: ReplaceList,
    pub(super) high_water: Option<ResourceVersion>,
    /// The list before this one contradicted the cache. So the cluster may have been restored, and then the
    /// same version of an object can be another one.
    pub(super) is_second: bool,
    /// The version of an object went back, in the first list that does so. Nothing more has to be known of it.
    pub(super) went_back: bool,
    /// What contradicts the cache, until the version of the list says which of them is right.
    pub(super) held_back: BTreeMap<ObjectKey, Arc<Object>>,
    /// Objects that the list has and that cannot be read.
    pub(super) unreadable: BTreeSet<ObjectKey>,
}

impl Listing {
    pub(super) fn new(
        list: ReplaceList,
        high_water: Option<ResourceVersion>,
        is_second: bool,
    ) -> Self {
        Self {
            list,
            high_water,
            is_second,
            went_back: false,
            held_back: BTreeMap::new(),
            unreadable: BTreeSet::new(),
        }
    }

    /// The list has an object of this key, but it cannot be read: what is held of it stays.
    pub(crate) fn keep_unreadable(&mut self, key: &ObjectKey) {
        self.list.mark(key);
        self.unreadable.insert(key.clone());
    }

    /// Something else came of an object before the end of the list: what is held back of it is overtaken.
    pub(super) fn overtaken(&mut self, key: &ObjectKey) {
        if !self.held_back.is_empty() {
            self.held_back.remove(key);
        }
    }
}
