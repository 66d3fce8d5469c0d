//! What handlers are told, and how they are written.
//!
//! A handler is anything that takes events: a closure, or a type that implements [`Handler`]. It runs in a task
//! of its own, one event at a time, in the order in which the cache changed. Everything that it is given is
//! shared and immutable by type, so there is no cache that it could corrupt, and no mutation detector.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashSet;
use windlass_indexer::{Cached, ObjectKey};

use crate::share::delta_fifo::FinalState;

/// A change of the cache.
///
/// Objects come as handles: their metadata is at hand, and [`Cached::get`] decodes the whole.
pub enum Event<K> {
    /// An object is there that was not there before.
    Added {
        /// The object.
        object: Cached<K>,
        /// Whether it was there when the informer began, or when this handler joined.
        initial: bool,
    },
    /// An object changed; or, if both versions are the same, a [resync](Self::is_resync) shows it again.
    Updated {
        /// As it was when the handler last heard of it.
        old: Cached<K>,
        /// As it is.
        new: Cached<K>,
    },
    /// An object is gone.
    Deleted {
        /// As it was at the end, or when it was last seen.
        object: Cached<K>,
        /// Which of the two.
        state: FinalState,
    },
}

/// Hears of every change, one after the other.
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
/// A handler must be quick or at least not block its thread for long: who has to wait for something subscribes
/// and awaits ([`SharedInformer::subscribe`](crate::SharedInformer::subscribe)), or adds to a queue. A handler
/// that is slow slows nobody else; if more than 1,024 events wait for it, those of the same object merge. One
/// that panics misses the event that it panicked on; that is counted and logged.
pub trait Handler<K>: Send + 'static {
    /// Takes an event.
    fn handle(&mut self, event: Event<K>);
}

impl<K, F: FnMut(Event<K>) + Send + 'static> Handler<K> for F {
    fn handle(&mut self, event: Event<K>) {
        self(event);
    }
}

/// A handler that sees only what passes a filter. See [`filtered`].
pub struct Filtered<K, P, H> {
    passes: P,
    handler: H,
    /// What the handler was told of. It cannot be found out from an event: of a slow handler they merge, and the
    /// old object of an update, or the last state of a deletion, may be none that it was told of.
    told: HashSet<ObjectKey, RandomState>,
    object: PhantomData<fn(K)>,
}

/// Shows `handler` only the objects for which `passes`. An object that begins to pass is added, and one that
/// ceases to pass is deleted, whatever happened to it.
///
/// ```
/// # use windlass_informer::{Event, Handler, filtered};
/// # use k8s_openapi::api::core::v1::Pod;
/// # fn assigned(handler: impl Handler<Pod>) -> impl Handler<Pod> {
/// filtered(|pod| pod.head().labels().get("app") == Some("web"), handler)
/// # }
/// ```
pub fn filtered<K, P, H>(passes: P, handler: H) -> Filtered<K, P, H>
where
    P: FnMut(&Cached<K>) -> bool + Send + 'static,
    H: Handler<K>,
{
    Filtered { passes, handler, told: HashSet::default(), object: PhantomData }
}

impl<K, P, H> Handler<K> for Filtered<K, P, H>
where
    K: 'static,
    P: FnMut(&Cached<K>) -> bool + Send + 'static,
    H: Handler<K>,
{
    fn handle(&mut self, event: Event<K>) {
        let was_told = self.told.contains(event.key());
        let passes = !matches!(event, Event::Deleted { .. }) && (self.passes)(event.object());
        let event = match event {
            _ if !was_told && !passes => return,
            Event::Updated { new, .. } if !was_told => Event::Added { object: new, initial: false },
            Event::Updated { old: object, .. } | Event::Added { object, .. } if !passes => {
                Event::Deleted { object, state: FinalState::LastKnown }
            }
            event => event,
        };
        match &event {
            Event::Added { object, .. } => drop(self.told.insert(object.key().clone())),
            Event::Updated { .. } => {}
            Event::Deleted { object, .. } => drop(self.told.remove(object.key())),
        }
        self.handler.handle(event);
    }
}

impl<K> Event<K> {
    /// Namespace and name of the object.
    pub fn key(&self) -> &ObjectKey {
        self.object().key()
    }

    /// The object in its newest version.
    pub fn object(&self) -> &Cached<K> {
        match self {
            Self::Added { object, .. } | Self::Deleted { object, .. } => object,
            Self::Updated { new, .. } => new,
        }
    }

    /// Whether this is no change, but the same version once more: the handler asked for a resync.
    pub fn is_resync(&self) -> bool {
        match self {
            // Not by the version: in a restored cluster the same one can be of another object.
            Self::Updated { old, new } => Arc::ptr_eq(old.object(), new.object()),
            Self::Added { .. } | Self::Deleted { .. } => false,
        }
    }
}

// Not derived, because that would ask for the same of `K`.
impl<K> Clone for Event<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Added { object, initial } => {
                Self::Added { object: object.clone(), initial: *initial }
            }
            Self::Updated { old, new } => Self::Updated { old: old.clone(), new: new.clone() },
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
        match self {
            Self::Added { object, .. } => {
                write!(f, "Added({key} {})", object.head().resource_version())
            }
            Self::Updated { old, new } => {
                write!(
                    f,
                    "Updated({key} {} → {})",
                    old.head().resource_version(),
                    new.head().resource_version()
                )
            }
            Self::Deleted { object, state } => {
                write!(f, "Deleted({key} {}, {state:?})", object.head().resource_version())
            }
        }
    }
}

impl<K, P, H: fmt::Debug> fmt::Debug for Filtered<K, P, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filtered").field("handler", &self.handler).finish_non_exhaustive()
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
            let filter = filtered(|_: &Cached<()>| true, |_: Event<()>| {});
            filter.told.hasher().hash_one("default/web-0")
        };
        assert_ne!(hash(), hash());
    }
}
