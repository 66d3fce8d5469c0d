//! The error about a read that is out of date.

use windlass_indexer::ObjectKey;

/// What a run has read of an object is out of date. Nothing was deleted because of it.
///
/// An [`Error`](crate::Error) of this has the class [`StaleRead`](crate::Class::StaleRead): it is
/// no failure of the key, which runs again when the cache has caught up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the {kind} {key} {change} since it was read at version {version}: nothing is deleted because \
     of what was read, and the key runs again when the cache has caught up"
)]
#[non_exhaustive]
pub struct StaleRead {
    /// The kind of the object.
    pub kind: String,
    /// The key of the object.
    pub key: ObjectKey,
    /// The version that was read.
    pub version: String,
    pub(crate) change: &'static str,
}
