//! A list that is being applied to the cache: what it had so far, and what is decided at its end.
//!
//! It is not a part of the cache, so that there can be several lists at once, one for each
//! namespace. An interrupted list is dropped: nothing is deleted, and what it has applied stays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashSet;
use windlass_indexer::{Object, ObjectKey, Reader, ResourceVersion, Selection};

/// A list that is read object by object. If it is dropped before its end, the objects that it has
/// applied stay in the cache, and nothing is deleted.
///
/// Every object that the server has in this part of the cache must be marked before the list ends.
/// That includes an object that is added or changed while the list is streamed: the feed passes it
/// as an item. Two lists of the same part must not overlap.
#[derive(Debug)]
#[must_use = "a list that is dropped deletes nothing"]
pub(crate) struct Listing {
    /// The namespace whose objects are listed; `None` for all.
    pub(super) namespace: Option<Box<str>>,
    /// The keys that the list had. `None` if there was nothing when the list began: then nothing
    /// can be deleted, and the first list of a large resource needs no memory for marks.
    marks: Option<HashSet<ObjectKey, RandomState>>,
    /// Everything up to this version was in the cache when the list began.
    pub(super) cached_up_to: Option<ResourceVersion>,
    /// The list before this one was refused, because it contradicted the cache. So the cluster may
    /// have been restored, and the same version may have other content.
    pub(super) is_after_refused: bool,
    /// The version of an object went back for the first time, so this list will be refused.
    pub(super) must_refuse: bool,
    /// Objects that contradict the cache, until the version of the list decides which is right.
    pub(super) undecided: BTreeMap<ObjectKey, Arc<Object>>,
    /// Objects that the list has and that cannot be read.
    pub(super) unreadable: BTreeSet<ObjectKey>,
}

impl Listing {
    /// Begins a list of all objects, or of those in a namespace.
    pub(crate) fn begin(
        store: &Reader,
        namespace: Option<&str>,
        cached_up_to: Option<ResourceVersion>,
        is_after_refused: bool,
    ) -> Self {
        let can_delete = covered(store, namespace).iter().next().is_some();
        Self {
            namespace: namespace.map(Into::into),
            marks: can_delete.then(HashSet::default),
            cached_up_to,
            is_after_refused,
            must_refuse: false,
            undecided: BTreeMap::new(),
            unreadable: BTreeSet::new(),
        }
    }

    /// The list has this object. Pass the key of the cached object if there is one: the mark then
    /// shares its text.
    pub(super) fn mark(&mut self, key: &ObjectKey) {
        if let Some(keys) = &mut self.marks {
            keys.insert(key.clone());
        }
    }

    /// The object was deleted before the list ended, so what the list said of it is outdated.
    pub(super) fn unmark(&mut self, key: &ObjectKey) {
        self.undecided.remove(key);
        if let Some(keys) = &mut self.marks {
            keys.remove(key);
        }
    }

    /// The list has an object with this key that cannot be read: the cached one is not deleted.
    pub(crate) fn keep_unreadable(&mut self, key: &ObjectKey) {
        self.mark(key);
        self.unreadable.insert(key.clone());
    }

    /// The cached objects that this list covers and did not have, in the order of their keys.
    pub(super) fn gone(&self, store: &Reader) -> Vec<Arc<Object>> {
        let Some(marks) = &self.marks else { return Vec::new() };
        let covered = covered(store, self.namespace.as_deref());
        covered.iter().filter(|object| !marks.contains(object.head().key())).cloned().collect()
    }
}

/// The cached objects of a namespace, or all.
fn covered(store: &Reader, namespace: Option<&str>) -> Selection {
    let all = store.snapshot().all();
    match namespace {
        Some(namespace) => all.in_namespace(namespace),
        None => all,
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher as _;

    use super::*;

    /// Tenants choose the names of objects. With a fixed seed they could choose many whose hashes
    /// collide.
    #[test]
    fn no_two_lists_hash_names_alike() {
        let hash = || {
            let marks: HashSet<ObjectKey, RandomState> = HashSet::default();
            marks.hasher().hash_one("default/web-0")
        };
        assert_ne!(hash(), hash());
    }
}
