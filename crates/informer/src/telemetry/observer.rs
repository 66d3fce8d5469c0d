//! What an informer reports while it runs: the interface between it and any metrics system.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;
use windlass_indexer::{HeadError, ResourceVersion};

use crate::decode::frames::EventType;
use crate::reflector::{ListFault, Reaction, Relist};
use crate::resource::Resource;
use crate::telemetry::status::{InformerStatus, Progress};
use crate::transport::source::SourceError;

/// Receives everything that an informer does. The `prometheus` feature has an implementation,
/// and a closure is one as well.
///
/// The informer calls it between its own steps, so it must be quick. If it panics, the informer
/// logs that and goes on. What is a state and not a step (sizes, pending events, the age of the
/// last one) is in the [status](crate::InformerStatus), which a [`StatusHandle`] returns.
pub trait Observer: Send + Sync + 'static {
    /// Something happened in the informer of `resource`.
    fn observe(&self, resource: &Resource, observation: &Observation<'_>);
}

impl<F: Fn(&Resource, &Observation<'_>) + Send + Sync + 'static> Observer for F {
    fn observe(&self, resource: &Resource, observation: &Observation<'_>) {
        self(resource, observation);
    }
}

/// One thing that happened in an informer. All but [`Created`](Self::Created) and
/// [`Synced`](Self::Synced) are about one of its watched namespaces.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Observation<'a> {
    /// The informer exists. It is the first observation. Keep the handle to ask for its status.
    Created(StatusHandle),
    /// A list begins, streamed or in pages.
    ListBegun {
        /// Whether a list was complete before.
        is_relist: bool,
    },
    /// A part of a list arrived. These are the sums so far.
    ListGrew(Progress),
    /// A list is complete, and the cache equals it.
    Listed {
        /// Its size and how long it took.
        list: Progress,
        /// Objects that were deleted from the cache because the list did not have them.
        swept: u64,
        /// Objects that the list had and that an earlier watch should have reported.
        repaired: u64,
        /// The versions of the cluster went back: it was restored from a backup.
        is_restored: bool,
    },
    /// A list is not used, and there will be another one.
    ListRefused(ListFault),
    /// The first lists of all namespaces are complete.
    Synced,
    /// A watch is requested that continues from a version.
    WatchBegun,
    /// The server accepted a watch. A streamed list is a watch, too.
    WatchOpened,
    /// A watch ended, cleanly or not.
    WatchClosed {
        /// How long it took from the request to the end.
        lasted: Duration,
        /// How many changes it brought, without those that are part of a list.
        events: u64,
    },
    /// A watch is ended for a list, or has ended and is followed by one.
    WatchEndedForList(Relist),
    /// A watch brought a change.
    Changed(EventType),
    /// A watch brought a bookmark.
    Bookmark,
    /// A chunk was processed. Everything up to this version is in the cache.
    Advanced(Option<&'a ResourceVersion>),
    /// So many objects arrived that were older than the cached ones. They were dropped.
    Stale(u64),
    /// An object arrived whose metadata cannot be read.
    Quarantined(&'a HeadError),
    /// A list or a watch failed.
    Failed {
        /// Why.
        error: &'a SourceError,
        /// What the informer does about it.
        reaction: Reaction,
    },
    /// Something between here and the server closes watches that are silent for so long.
    IdleCutsFound(Duration),
    /// No request is sent before this time.
    Waiting(Instant),
    /// The list and watch of one namespace was stopped.
    Stopped,
}

/// Returns the current status of an informer, without keeping the informer alive.
#[derive(Clone, Debug)]
pub struct StatusHandle(Weak<dyn HasStatus>);

/// An informer, as its telemetry knows it.
pub(crate) trait HasStatus: Send + Sync {
    fn status(&self) -> InformerStatus;
}

impl StatusHandle {
    pub(crate) fn new(informer: Weak<dyn HasStatus>) -> Self {
        Self(informer)
    }

    /// Whether the informer was dropped.
    pub fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }

    /// The current status, or `None` if the informer was dropped.
    pub fn status(&self) -> Option<InformerStatus> {
        Some(self.0.upgrade()?.status())
    }
}

/// The observers of an informer.
#[derive(Clone, Default)]
pub(crate) struct Observers(Vec<Arc<dyn Observer>>);

impl Observers {
    pub(crate) fn push(&mut self, observer: Arc<dyn Observer>) {
        self.0.push(observer);
    }

    /// Calls the observers. The caller must hold no lock, because they may use the informer.
    pub(crate) fn notify(&self, resource: &Resource, observation: &Observation<'_>) {
        for observer in &self.0 {
            let call = AssertUnwindSafe(|| observer.observe(resource, observation));
            if catch_unwind(call).is_err() {
                tracing::error!(%resource, "an observer or error handler of an informer panicked");
            }
        }
    }
}
