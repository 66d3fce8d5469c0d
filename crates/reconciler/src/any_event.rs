//! An event of any source of a controller, without its type.

use std::sync::Arc;

use windlass_indexer::{Cached, Head};
use windlass_informer::{Event, Resource};

/// An event of any source: what its objects are, and their metadata.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AnyEvent<'a> {
    /// The resource of the object.
    pub resource: &'a Resource,
    /// The metadata before; `None` if the object is new.
    pub old: Option<&'a Head>,
    /// The metadata now; `None` if the object is gone.
    pub new: Option<&'a Head>,
    /// Whether the object existed when the controller started.
    pub is_initial: bool,
    /// Whether nothing has changed, because a resync shows it again.
    pub is_resync: bool,
    newest: &'a Head,
}

/// Decides which events of all sources count.
pub(crate) type Filter = Arc<dyn Fn(&AnyEvent<'_>) -> bool + Send + Sync>;

impl<'a> AnyEvent<'a> {
    pub(crate) fn of<T>(resource: &'a Resource, event: &'a Event<T>) -> Self {
        let (old, new) = match event {
            Event::Added { object, .. } => (None, Some(object)),
            Event::Updated { old, new } => (Some(old), Some(new)),
            Event::Deleted { object, .. } => (Some(object), None),
        };
        Self {
            resource,
            old: old.map(Cached::head),
            new: new.map(Cached::head),
            is_initial: matches!(event, Event::Added { initial: true, .. }),
            is_resync: event.is_resync(),
            newest: event.object().head(),
        }
    }

    /// The newest metadata.
    pub fn head(&self) -> &'a Head {
        self.newest
    }
}
