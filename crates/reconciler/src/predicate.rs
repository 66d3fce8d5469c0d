//! Which events cause a run.
//!
//! The predicates here look at metadata, so they decode nothing. Those that ask for a change always
//! pass new objects and deletions, and never a resync, because nothing has changed.

use std::sync::Arc;

use windlass_indexer::Head;
use windlass_informer::Event;

/// Decides for every event whether it causes a run.
///
/// ```
/// use k8s_openapi::api::apps::v1::Deployment;
/// use windlass_reconciler::Predicate;
///
/// // Ignores updates of the status, unless labels have changed, too.
/// let predicate: Predicate<Deployment> =
///     Predicate::generation_changed().or(Predicate::labels_changed());
/// # drop(predicate);
/// ```
pub struct Predicate<K>(Arc<Passes<K>>);

type Passes<K> = dyn Fn(&Event<K>) -> bool + Send + Sync;

impl<K: 'static> Predicate<K> {
    /// A predicate that passes the events for which the function returns `true`.
    pub fn new(passes: impl Fn(&Event<K>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(passes))
    }

    /// The spec changed. Most kinds count that in `metadata.generation`; for those that do not,
    /// every update passes.
    pub fn generation_changed() -> Self {
        Self::on_change(|old, new| match (old.generation(), new.generation()) {
            (Some(old), Some(new)) => old != new,
            _ => true,
        })
    }

    /// A label changed.
    pub fn labels_changed() -> Self {
        Self::on_change(|old, new| !old.labels().iter().eq(new.labels().iter()))
    }

    /// An annotation changed.
    pub fn annotations_changed() -> Self {
        Self::on_change(|old, new| old.annotations_hash() != new.annotations_hash())
    }

    /// A finalizer was added or removed, or the deletion was requested.
    pub fn finalizers_changed() -> Self {
        Self::on_change(|old, new| {
            !old.finalizers().eq(new.finalizers())
                || old.deletion_timestamp() != new.deletion_timestamp()
        })
    }

    /// The version changed: all events but resyncs.
    pub fn version_changed() -> Self {
        Self::on_change(|_, _| true)
    }

    /// Passes the events that both pass.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::new(move |event| self.passes(event) && other.passes(event))
    }

    /// Passes the events that at least one of them passes.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::new(move |event| self.passes(event) || other.passes(event))
    }

    /// Passes the events that it does not pass.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "it belongs to `and` and `or`")]
    pub fn not(self) -> Self {
        Self::new(move |event| !self.passes(event))
    }

    /// Whether an event passes.
    pub fn passes(&self, event: &Event<K>) -> bool {
        (self.0)(event)
    }

    fn on_change(is_changed: impl Fn(&Head, &Head) -> bool + Send + Sync + 'static) -> Self {
        Self::new(move |event| match event {
            Event::Added { .. } | Event::Deleted { .. } => true,
            Event::Updated { .. } if event.is_resync() => false,
            Event::Updated { old, new } => is_changed(old.head(), new.head()),
        })
    }
}

impl<K> Clone for Predicate<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> std::fmt::Debug for Predicate<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Predicate")
    }
}
