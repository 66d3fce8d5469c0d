//! The marks of a list that is under way.
//!
//! They are not in the fifo, so that there can be several lists at once, one for each namespace,
//! and so that an interrupted list is undone by dropping it.

use foldhash::fast::RandomState;
use hashbrown::HashSet;
use windlass_indexer::{ObjectKey, Reader};

/// A list that is read object by object, until
/// [`DeltaFifo::end_replace`](super::DeltaFifo::end_replace). Dropped before its end, it keeps what
/// it brought and deletes nothing.
///
/// Every object that the server has in this part of the cache must be marked before the list ends,
/// also one that a watch reports meanwhile. Two lists of the same part must not overlap.
#[derive(Debug)]
#[must_use = "a list that is dropped deletes nothing"]
pub(crate) struct ReplaceList {
    namespace: Option<Box<str>>,
    /// The keys that the list had. `None` if there was nothing when the list began: then nothing
    /// can be deleted, and the first list of a large resource needs no memory for marks.
    marks: Option<HashSet<ObjectKey, RandomState>>,
}

impl ReplaceList {
    /// Begins a list of all objects, or of those in a namespace. `known` is the cache.
    pub(crate) fn begin(known: &Reader, namespace: Option<&str>) -> Self {
        let can_sweep = match namespace {
            Some(namespace) => known.snapshot().in_namespace(namespace).iter().next().is_some(),
            None => !known.is_empty(),
        };
        Self { namespace: namespace.map(Into::into), marks: can_sweep.then(HashSet::default) }
    }

    /// The namespace whose objects are listed; `None` for all.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The list has this object. Pass the key of the cached object if there is one: the mark then
    /// shares its text.
    pub(crate) fn mark(&mut self, key: &ObjectKey) {
        if let Some(keys) = &mut self.marks {
            keys.insert(key.clone());
        }
    }

    /// The object was deleted before the list ended.
    pub(crate) fn unmark(&mut self, key: &ObjectKey) {
        if let Some(keys) = &mut self.marks {
            keys.remove(key);
        }
    }

    pub(super) fn can_sweep(&self) -> bool {
        self.marks.is_some()
    }

    /// Whether a cached object of this namespace is gone, according to this complete list.
    pub(super) fn is_gone(&self, key: &ObjectKey) -> bool {
        self.marks.as_ref().is_some_and(|keys| !keys.contains(key))
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
