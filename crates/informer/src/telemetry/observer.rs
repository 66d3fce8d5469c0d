//! What an informer tells of itself while it runs: the seam between it and any metrics system.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::decode::frames::Change;
use crate::resource::Resource;
use crate::share::engine::Engine;
use crate::telemetry::status::InformerStatus;
use crate::transport::source::SourceError;

/// Hears of every step of an informer. Every method does nothing unless implemented; the `prometheus` feature has
/// a ready implementation.
///
/// They are called in between of what the informer does, so they must be quick. What is a state and not a step
/// (sizes, pending events, the age of the last one) is in the [status](crate::InformerStatus), which a [`Probe`]
/// asks for.
pub trait Observer: Send + Sync + 'static {
    /// The informer is made; it does not run yet. Keep the probe to ask for its state.
    fn attached(&self, resource: &Resource, probe: Probe) {
        let _ = (resource, probe);
    }

    /// A list is complete, streamed or in pages.
    fn listed(&self, resource: &Resource, list: &ListReport) {
        let _ = (resource, list);
    }

    /// The first list of all namespaces is complete.
    fn synced(&self, resource: &Resource) {
        let _ = resource;
    }

    /// A watch was opened.
    fn watch_opened(&self, resource: &Resource) {
        let _ = resource;
    }

    /// A watch ended, cleanly or not, with so many events.
    fn watch_closed(&self, resource: &Resource, lasted: Duration, events: u64) {
        let _ = (resource, lasted, events);
    }

    /// Changes of a watch have arrived.
    fn changed(&self, resource: &Resource, change: Change, count: u64) {
        let _ = (resource, change, count);
    }

    /// A list or a watch failed, and what follows.
    fn failed(&self, resource: &Resource, error: &SourceError) {
        let _ = (resource, error);
    }

    /// All has to be listed anew.
    fn relisting(&self, resource: &Resource) {
        let _ = resource;
    }

    /// Objects came that were older than what is held, and were dropped.
    fn stale(&self, resource: &Resource, count: u64) {
        let _ = (resource, count);
    }

    /// An object came whose head cannot be read.
    fn quarantined(&self, resource: &Resource) {
        let _ = resource;
    }

    /// The versions of the cluster went back: it was restored.
    fn restored(&self, resource: &Resource) {
        let _ = resource;
    }
}

/// Asks an informer for its state at this moment, without keeping the informer alive.
#[derive(Clone)]
pub struct Probe {
    engine: Weak<Engine>,
}

/// A list that is complete.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ListReport {
    /// How many objects it had.
    pub objects: u64,
    /// How many bytes it had, as they were sent.
    pub bytes: u64,
    /// How long it took.
    pub took: Duration,
    /// Objects that were deleted because it no longer had them.
    pub swept: u64,
    /// Objects that it had and that a watch should have told of.
    pub repaired: u64,
}

impl Probe {
    pub(crate) fn new(engine: &Arc<Engine>) -> Self {
        Self { engine: Arc::downgrade(engine) }
    }

    /// Whether the informer is gone.
    pub fn is_gone(&self) -> bool {
        self.engine.strong_count() == 0
    }

    /// The state at this moment, or `None` if the informer is gone.
    pub fn status(&self) -> Option<InformerStatus> {
        Some(self.engine.upgrade()?.status())
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe").finish_non_exhaustive()
    }
}

/// Nobody, or one.
#[derive(Clone, Default)]
pub(crate) struct Observers(Option<Arc<dyn Observer>>);

impl Observers {
    pub(crate) fn of(observer: Arc<dyn Observer>) -> Self {
        Self(Some(observer))
    }

    /// Tells the observer. Should it panic, the informer goes on.
    pub(crate) fn tell(&self, event: impl FnOnce(&dyn Observer)) {
        let Some(observer) = &self.0 else { return };
        if catch_unwind(AssertUnwindSafe(|| event(&**observer))).is_err() {
            tracing::error!("the observer of an informer panicked and has missed an event");
        }
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Observers({})", if self.0.is_some() { "one" } else { "none" })
    }
}
