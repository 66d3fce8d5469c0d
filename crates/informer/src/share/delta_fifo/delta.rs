//! A change of one object.

use std::sync::Arc;

use windlass_indexer::{Object, ObjectKey};

/// A change of one object, with the object after the change.
#[derive(Clone, Debug)]
pub(crate) enum Delta {
    /// A watch reported it as new.
    Added(Arc<Object>),
    /// A watch reported a new version.
    Updated(Arc<Object>),
    /// It is gone.
    Deleted { object: Arc<Object>, state: FinalState },
    /// A list has it, and it is new or differs from the cached one.
    Replaced(Arc<Object>),
    /// Nothing changed: a resync shows it again.
    Sync(Arc<Object>),
}

/// What is known about the end of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FinalState {
    /// The server reported the deletion, with the object in its last version.
    Final,
    /// A tombstone, client-go's `DeletedFinalStateUnknown`. The deletion was missed, for instance
    /// while the watch was interrupted, and a later list did not have the object. It may have
    /// changed any number of times since this version.
    LastKnown,
}

impl Delta {
    pub(crate) fn object(&self) -> &Arc<Object> {
        match self {
            Self::Added(object)
            | Self::Updated(object)
            | Self::Deleted { object, .. }
            | Self::Replaced(object)
            | Self::Sync(object) => object,
        }
    }

    pub(crate) fn key(&self) -> &ObjectKey {
        self.object().head().key()
    }

    pub(crate) fn is_deleted(&self) -> bool {
        matches!(self, Self::Deleted { .. })
    }

    /// A deletion whose final state is unknown.
    pub(crate) fn tombstone(object: Arc<Object>) -> Self {
        Self::Deleted { object, state: FinalState::LastKnown }
    }
}
