//! Which events are worth a run.
//!
//! Predicates look at metadata, so they decode nothing. A deletion and an object that is new always pass those
//! that ask for a change; a resync passes none of them, because nothing has changed.

use std::sync::Arc;

use windlass_indexer::Head;
use windlass_informer::Event;

/// Says of every event whether it is worth a run.
///
/// ```
/// use k8s_openapi::api::apps::v1::Deployment;
/// use windlass_reconciler::Predicate;
///
/// // Status updates are passed over, unless they come with other labels.
/// let worth_it: Predicate<Deployment> = Predicate::generation_changed().or(Predicate::labels_changed());
/// # drop(worth_it);
/// ```
pub struct Predicate<K>(Arc<Passes<K>>);

type Passes<K> = dyn Fn(&Event<K>) -> bool + Send + Sync;

impl<K: 'static> Predicate<K> {
    /// Whatever `passes`.
    pub fn new(passes: impl Fn(&Event<K>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(passes))
    }

    /// The spec changed. Most kinds count that in `metadata.generation`; one that does not, changes always.
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

    /// A finalizer came or went, or the deletion was asked for.
    pub fn finalizers_changed() -> Self {
        Self::on_change(|old, new| {
            !old.finalizers().eq(new.finalizers())
                || old.deletion_timestamp() != new.deletion_timestamp()
        })
    }

    /// The version changed: everything but resyncs.
    pub fn version_changed() -> Self {
        Self::on_change(|_, _| true)
    }

    /// Both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::new(move |event| self.passes(event) && other.passes(event))
    }

    /// At least one of them.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::new(move |event| self.passes(event) || other.passes(event))
    }

    /// The opposite.
    #[must_use]
    #[expect(
        clippy::should_implement_trait,
        reason = "beside `and` and `or`, it is what one looks for"
    )]
    pub fn not(self) -> Self {
        Self::new(move |event| !self.passes(event))
    }

    /// Whether an event is worth a run.
    pub fn passes(&self, event: &Event<K>) -> bool {
        (self.0)(event)
    }

    fn on_change(changed: impl Fn(&Head, &Head) -> bool + Send + Sync + 'static) -> Self {
        Self::new(move |event| match event {
            Event::Added { .. } | Event::Deleted { .. } => true,
            Event::Updated { .. } if event.is_resync() => false,
            Event::Updated { old, new } => changed(old.head(), new.head()),
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
