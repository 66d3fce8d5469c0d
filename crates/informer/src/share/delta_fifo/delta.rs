//! What can happen to an object, and what happened to one since somebody last looked.
//!
//! Nearly always a key is popped before a second change of it arrives, so one delta lies in place; only
//! several take an allocation.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::{iter, option, slice, vec};

use windlass_indexer::{Object, ObjectKey};

/// A change of one object, with the object as it is after it.
#[derive(Clone, Debug)]
pub enum Delta {
    /// A watch reported it as new.
    Added(Arc<Object>),
    /// A watch reported a new version.
    Updated(Arc<Object>),
    /// It is gone.
    Deleted {
        /// The object as it was at the end, as far as that is known.
        object: Arc<Object>,
        /// Whether it is.
        state: FinalState,
    },
    /// A list has it, and it is new or differs from what is held.
    Replaced(Arc<Object>),
    /// Nothing happened: the cache shows it again, because a resync is due.
    Sync(Arc<Object>),
}

/// What is known of an object that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FinalState {
    /// The server told of the deletion, with the object in its very last version.
    Final,
    /// A tombstone. The deletion was missed, for instance while the watch was interrupted, and a later list
    /// no longer had the object. It may have changed any number of times after the version that is at hand.
    LastKnown,
}

/// What happened to one object, oldest first. There is at least one delta, and all are of one key.
#[derive(Clone)]
pub struct Deltas(Few);

#[derive(Clone)]
enum Few {
    One(Delta),
    /// Never empty.
    Many(Vec<Delta>),
}

/// Deltas one by one, oldest first.
pub type IntoDeltas = iter::Chain<option::IntoIter<Delta>, vec::IntoIter<Delta>>;

impl Delta {
    /// The object.
    pub fn object(&self) -> &Arc<Object> {
        match self {
            Self::Added(object)
            | Self::Updated(object)
            | Self::Deleted { object, .. }
            | Self::Replaced(object)
            | Self::Sync(object) => object,
        }
    }

    /// Namespace and name of the object.
    pub fn key(&self) -> &ObjectKey {
        self.object().head().key()
    }

    /// Whether the object is gone.
    pub fn is_deleted(&self) -> bool {
        matches!(self, Self::Deleted { .. })
    }

    pub(super) fn tombstone(object: Arc<Object>) -> Self {
        Self::Deleted { object, state: FinalState::LastKnown }
    }

    /// Takes in a delete that follows on a delete. Returns it if this is no delete.
    ///
    /// An object goes once, so one of the two says all: the one that knows the final state. The final state of
    /// another uid is that of an object which nobody saw come, and says nothing about the one that went.
    fn absorb_delete(&mut self, next: Self) -> Option<Self> {
        if !(self.is_deleted() && next.is_deleted()) {
            return Some(next);
        }
        let learns = matches!(self, Self::Deleted { state: FinalState::LastKnown, .. });
        if learns && self.object().head().uid() == next.object().head().uid() {
            *self = next;
        }
        None
    }
}

impl Deltas {
    pub(super) fn one(delta: Delta) -> Self {
        Self(Few::One(delta))
    }

    /// Appends a delta of the same key; a delete after a delete adds none.
    pub(super) fn push(&mut self, delta: Delta) {
        let newest = match &mut self.0 {
            Few::One(delta) => delta,
            Few::Many(deltas) => deltas.last_mut().expect("deltas must not be empty"),
        };
        let Some(delta) = newest.absorb_delete(delta) else { return };
        match &mut self.0 {
            Few::One(oldest) => self.0 = Few::Many(vec![oldest.clone(), delta]),
            Few::Many(deltas) => deltas.push(delta),
        }
    }

    /// Namespace and name of the object.
    pub fn key(&self) -> &ObjectKey {
        self.newest().key()
    }

    /// What happened last.
    pub fn newest(&self) -> &Delta {
        match &self.0 {
            Few::One(delta) => delta,
            Few::Many(deltas) => &deltas[deltas.len() - 1],
        }
    }
}

impl Deref for Deltas {
    type Target = [Delta];

    fn deref(&self) -> &[Delta] {
        match &self.0 {
            Few::One(delta) => slice::from_ref(delta),
            Few::Many(deltas) => deltas,
        }
    }
}

impl IntoIterator for Deltas {
    type Item = Delta;
    type IntoIter = IntoDeltas;

    fn into_iter(self) -> IntoDeltas {
        let (one, many) = match self.0 {
            Few::One(delta) => (Some(delta), Vec::new()),
            Few::Many(deltas) => (None, deltas),
        };
        one.into_iter().chain(many)
    }
}

impl<'a> IntoIterator for &'a Deltas {
    type Item = &'a Delta;
    type IntoIter = slice::Iter<'a, Delta>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Deltas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
