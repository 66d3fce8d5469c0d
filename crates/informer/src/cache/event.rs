//! Events and handlers.
//!
//! A handler is a closure, or a type that implements [`Handler`]. It runs in a task of its own, one
//! event at a time, in the order in which the cache changed. Everything that it gets is shared and
//! immutable by type, so it cannot corrupt the cache.

use std::fmt;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashSet;
use windlass_indexer::{Cached, ObjectKey};

use crate::cache::delta_fifo::FinalState;

/// A change of the cache.
///
/// Objects come as handles with their metadata. [`Cached::get`] decodes the whole object.
pub enum Event<K> {
    /// An object is new.
    Added {
        /// The object.
        object: Cached<K>,
        /// Whether it existed when the informer began, or when this handler joined.
        initial: bool,
    },
    /// An object changed. If both versions are the same, a [resync](Self::is_resync) shows it
    /// again.
    Updated {
        /// The version that the handler saw last.
        old: Cached<K>,
        /// The new version.
        new: Cached<K>,
        /// Whether the cache has shown versions between the two, because the handler was slow and
        /// events [merged](Handler). Then somebody may have read a version that differs from both,
        /// so that `old` and `new` being alike does not mean that nothing has changed.
        merged: bool,
    },
    /// An object is gone.
    Deleted {
        /// Its last version, or the last one that was received.
        object: Cached<K>,
        /// Whether `object` is the final version.
        state: FinalState,
    },
}

/// Handles every change, one after the other.
///
/// Closures are handlers:
///
/// ```
/// # use windlass_informer::{Event, Handler};
/// # use k8s_openapi::api::core::v1::Pod;
/// fn logger() -> impl Handler<Pod> {
///     |event: Event<Pod>| match event {
///         Event::Added { object, .. } => println!("{} is there", object.key()),
///         Event::Updated { new, .. } => {
///             println!("{} is now {}", new.key(), new.head().resource_version());
///         }
///         Event::Deleted { object, .. } => println!("{} is gone", object.key()),
///     }
/// }
/// ```
///
/// A handler must not block its thread for long. Code that has to wait for something subscribes
/// and awaits ([`SharedInformer::subscribe`](crate::SharedInformer::subscribe)), or adds to a
/// queue. A slow handler slows no other one; if more than 1,024 events wait for it, those of the
/// same object merge. A handler that panics misses the event that it panicked on; that is counted
/// and logged.
pub trait Handler<K>: Send + 'static {
    /// Handles an event.
    fn handle(&mut self, event: Event<K>);
}

impl<K, F: FnMut(Event<K>) + Send + 'static> Handler<K> for F {
    fn handle(&mut self, event: Event<K>) {
        self(event);
    }
}

struct Filtered<P, H> {
    passes: P,
    handler: H,
    /// The objects that the handler has seen. Events do not contain that: those of a slow handler
    /// merge, so it may never have seen the old object of an update, or the last of a deletion.
    seen: HashSet<ObjectKey, RandomState>,
}

/// Shows `handler` only the objects that pass. An object that begins to pass is added, and one that
/// ceases to pass is deleted, whatever happened to it.
///
/// ```
/// # use windlass_informer::{Event, Handler, filtered};
/// # use k8s_openapi::api::core::v1::Pod;
/// # fn assigned(handler: impl Handler<Pod>) -> impl Handler<Pod> {
/// filtered(|pod| pod.head().labels().get("app") == Some("web"), handler)
/// # }
/// ```
pub fn filtered<K, P, H>(passes: P, handler: H) -> impl Handler<K>
where
    K: 'static,
    P: FnMut(&Cached<K>) -> bool + Send + 'static,
    H: Handler<K>,
{
    Filtered { passes, handler, seen: HashSet::default() }
}

impl<K, P, H> Handler<K> for Filtered<P, H>
where
    K: 'static,
    P: FnMut(&Cached<K>) -> bool + Send + 'static,
    H: Handler<K>,
{
    fn handle(&mut self, event: Event<K>) {
        let was_seen = self.seen.contains(event.key());
        let passes = !matches!(event, Event::Deleted { .. }) && (self.passes)(event.object());
        let event = match event {
            _ if !was_seen && !passes => return,
            Event::Updated { new, .. } if !was_seen => Event::Added { object: new, initial: false },
            Event::Updated { old: object, .. } | Event::Added { object, .. } if !passes => {
                Event::Deleted { object, state: FinalState::LastKnown }
            }
            event => event,
        };
        match &event {
            Event::Added { object, .. } => drop(self.seen.insert(object.key().clone())),
            Event::Updated { .. } => {}
            Event::Deleted { object, .. } => drop(self.seen.remove(object.key())),
        }
        self.handler.handle(event);
    }
}

impl<K> Event<K> {
    /// The key of the object.
    pub fn key(&self) -> &ObjectKey {
        self.object().key()
    }

    /// The newest version of the object.
    pub fn object(&self) -> &Cached<K> {
        match self {
            Self::Added { object, .. } | Self::Deleted { object, .. } => object,
            Self::Updated { new, .. } => new,
        }
    }

    /// Whether this is not a change, but the same version again, because a resync was due.
    pub fn is_resync(&self) -> bool {
        match self {
            // Not by version: in a restored cluster the same one can belong to another object.
            Self::Updated { old, new, .. } => Arc::ptr_eq(old.object(), new.object()),
            Self::Added { .. } | Self::Deleted { .. } => false,
        }
    }
}

// Not derived, because that would require `K: Clone`.
impl<K> Clone for Event<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Added { object, initial } => {
                Self::Added { object: object.clone(), initial: *initial }
            }
            Self::Updated { old, new, merged } => {
                Self::Updated { old: old.clone(), new: new.clone(), merged: *merged }
            }
            Self::Deleted { object, state } => {
                Self::Deleted { object: object.clone(), state: *state }
            }
        }
    }
}

impl<K> fmt::Debug for Event<K> {
    /// Shows keys and versions only: the object may be a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key();
        let version = |object: &Cached<K>| object.head().resource_version().clone();
        match self {
            Self::Added { object, .. } => write!(f, "Added({key} {})", version(object)),
            Self::Updated { old, new, .. } => {
                write!(f, "Updated({key} {} → {})", version(old), version(new))
            }
            Self::Deleted { object, state } => {
                write!(f, "Deleted({key} {}, {state:?})", version(object))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher as _;

    use super::*;

    /// Tenants choose the names of objects. With a fixed seed they could choose many whose hashes
    /// collide.
    #[test]
    fn no_two_filters_hash_names_alike() {
        let hash = || {
            let filter = Filtered { passes: (), handler: (), seen: HashSet::default() };
            filter.seen.hasher().hash_one("default/web-0")
        };
        assert_ne!(hash(), hash());
    }
}
