//! A list that is being applied to the cache: what it had so far, and what is decided at its end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_indexer::{Object, ObjectKey, ResourceVersion};

use crate::share::delta_fifo::ReplaceList;

/// A list that is under way.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(super) list: ReplaceList,
    /// Everything up to this version was in the cache when the list began.
    pub(super) cached_up_to: Option<ResourceVersion>,
    /// The list before this one was refused, because it contradicted the cache. So the cluster may
    /// have been restored, and the same version may have other content.
    pub(super) is_after_refused: bool,
    /// The version of an object went back, so this list will be refused.
    pub(super) went_back: bool,
    /// Objects that contradict the cache, until the version of the list decides which is right.
    pub(super) held_back: BTreeMap<ObjectKey, Arc<Object>>,
    /// Objects that the list has and that cannot be read.
    pub(super) unreadable: BTreeSet<ObjectKey>,
}

impl Listing {
    /// The list has an object with this key that cannot be read: the cached one is not deleted.
    pub(crate) fn keep_unreadable(&mut self, key: &ObjectKey) {
        self.list.mark(key);
        self.unreadable.insert(key.clone());
    }
}
