//! A list that is under way: what it had so far.
//!
//! The marks are with whoever reads the list and not in the fifo, so that there can be several at once, one for
//! each namespace, and so that an interrupted list is forgotten by dropping it.

use foldhash::fast::RandomState;
use hashbrown::HashSet;
use windlass_indexer::ObjectKey;

/// A list that is read object by object: from
/// [`DeltaFifo::begin_replace`](crate::DeltaFifo::begin_replace) to
/// [`DeltaFifo::end_replace`](crate::DeltaFifo::end_replace). Dropped before its end, it leaves what it brought
/// and sweeps nothing.
///
/// Every object that the server has in this part of the cache must be marked until the list ends, also one
/// that a watch reports meanwhile; two lists of the same part must not overlap.
#[derive(Debug)]
#[must_use = "a list that is dropped sweeps nothing"]
pub struct ReplaceList {
    namespace: Option<Box<str>>,
    marks: Marks,
}

#[derive(Debug)]
enum Marks {
    /// There was nothing when the list began. So all that is there at its end came from it, and none of that
    /// can be swept: the first list of a large resource takes no memory for marks.
    NothingToSweep,
    Seen(HashSet<ObjectKey, RandomState>),
}

impl ReplaceList {
    pub(super) fn new(namespace: Option<&str>, can_sweep: bool) -> Self {
        let marks = if can_sweep { Marks::Seen(HashSet::default()) } else { Marks::NothingToSweep };
        Self { namespace: namespace.map(Into::into), marks }
    }

    /// The namespace whose objects are listed; `None` if all are.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The list has this object in the very version that is held: there is nothing to queue.
    ///
    /// The key of the held object is the better one to pass, because the mark shares its text.
    pub fn mark(&mut self, key: &ObjectKey) {
        if let Marks::Seen(keys) = &mut self.marks {
            keys.insert(key.clone());
        }
    }

    /// The object has gone before the list ended.
    pub fn unmark(&mut self, key: &ObjectKey) {
        if let Marks::Seen(keys) = &mut self.marks {
            keys.remove(key);
        }
    }

    /// Whether any object can turn out to be gone.
    pub(super) fn can_sweep(&self) -> bool {
        matches!(self.marks, Marks::Seen(_))
    }

    /// Whether an object that is there now is gone by this list.
    pub(super) fn is_gone(&self, key: &ObjectKey) -> bool {
        let is_unmarked = match &self.marks {
            Marks::NothingToSweep => false,
            Marks::Seen(keys) => !keys.contains(key),
        };
        is_unmarked && covers(self.namespace(), key)
    }
}

/// Whether a list of a namespace, or of all, would have an object of this key.
pub(super) fn covers(namespace: Option<&str>, key: &ObjectKey) -> bool {
    namespace.is_none() || namespace == key.namespace()
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher as _;

    use super::*;

    /// Tenants choose the names of objects. With a fixed seed they could choose many whose hashes
    /// collide.
    #[test]
    fn no_two_lists_hash_names_alike() {
        let hash = || match ReplaceList::new(None, true).marks {
            Marks::Seen(keys) => keys.hasher().hash_one("default/web-0"),
            Marks::NothingToSweep => panic!("it can sweep"),
        };
        assert_ne!(hash(), hash());
    }
}
