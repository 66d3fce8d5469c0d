//! What users hold of a handler or a subscription.

use std::fmt;
use std::sync::{Arc, Weak};

use windlass_indexer::{Lister, ObjectType};

use crate::cache::Cache;
use crate::cache::event::Event;
use crate::cache::listener::{Listener, typed};
use crate::telemetry::status::HandlerStatus;

/// A handler that was added to an informer. Dropping this does not remove the handler: it stays
/// until it is [removed](Self::remove) or the informer stops.
pub struct Registration {
    listener: Arc<Listener>,
    cache: Weak<Cache>,
}

/// Events to await one by one. Dropping it ends it.
///
/// Events that are not taken merge, as for a slow handler.
pub struct Subscription<K> {
    registration: Registration,
    lister: Lister<K>,
}

impl Registration {
    pub(crate) fn new(listener: Arc<Listener>, cache: &Arc<Cache>) -> Self {
        Self { listener, cache: Arc::downgrade(cache) }
    }

    /// Whether the handler has seen the initial state: the first lists or, if it joined later,
    /// everything that was cached then.
    pub fn has_synced(&self) -> bool {
        self.listener.has_synced()
    }

    /// Waits until [`has_synced`](Self::has_synced). Returns `false` if the handler is removed or
    /// the informer stops before. Cancel safe.
    pub async fn wait_for_sync(&self) -> bool {
        self.listener.wait_for_sync().await
    }

    /// Removes the handler. If it is handling an event, it finishes that one. It gets no other.
    pub fn remove(&self) {
        self.listener.close();
        if let Some(cache) = self.cache.upgrade() {
            cache.forget(&self.listener);
        }
    }

    /// The status of the handler.
    pub fn status(&self) -> HandlerStatus {
        self.listener.status()
    }
}

impl<K: ObjectType> Subscription<K> {
    pub(crate) fn new(registration: Registration, lister: Lister<K>) -> Self {
        Self { registration, lister }
    }

    /// The next event; `None` when the informer has stopped. Cancel safe.
    pub async fn next(&mut self) -> Option<Event<K>> {
        let notice = self.registration.listener.next().await?;
        Some(typed(notice, &self.lister))
    }

    /// Whether everything was taken that was cached in the beginning.
    pub fn has_synced(&self) -> bool {
        self.registration.has_synced()
    }

    /// Waits until the cache is complete and everything in it was taken. A task that takes the
    /// events itself checks [`has_synced`](Self::has_synced) between them instead. Cancel safe.
    pub async fn wait_for_sync(&self) -> bool {
        self.registration.wait_for_sync().await
    }

    /// What is pending.
    pub fn status(&self) -> HandlerStatus {
        self.registration.status()
    }
}

impl<K> Drop for Subscription<K> {
    fn drop(&mut self) {
        self.registration.remove();
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registration").field(&self.listener.name).finish()
    }
}

impl<K> fmt::Debug for Subscription<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subscription").field(&self.registration.listener.name).finish()
    }
}
