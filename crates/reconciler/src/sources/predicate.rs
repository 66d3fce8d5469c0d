//! Which events cause a run: predicates of one source, which know its type, and of all sources.
//!
//! The predicates here look at metadata, so they decode nothing. Those that ask for a change always
//! pass new objects and deletions, and never a resync, because nothing has changed.
//!
//! They need not know whether an update has merged:
//! [`EventFilter`](crate::sources::filter::EventFilter) shows such a one also as an addition.

use std::sync::Arc;

use windlass_indexer::{Cached, Head, Selector};
use windlass_informer::{Event, Resource};

use crate::sources::pause::annotation;

/// Decides for every event whether it causes a run.
///
/// If events were so many that some have merged, an update may leave versions out that a run has
/// read. Such an update also causes a run if it would as the addition of its new version.
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
pub struct Predicate<K> {
    passes: Arc<Passes<K>>,
    /// Whether it needs the bytes of objects.
    pub(crate) reads_annotations: bool,
}

type Passes<K> = dyn Fn(&Event<K>) -> bool + Send + Sync;

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
pub(crate) type AnyFilter = Arc<dyn Fn(&AnyEvent<'_>) -> bool + Send + Sync>;

impl<K: 'static> Predicate<K> {
    /// A predicate that passes the events for which the function returns `true`.
    pub fn new(passes: impl Fn(&Event<K>) -> bool + Send + Sync + 'static) -> Self {
        Self { passes: Arc::new(passes), reads_annotations: false }
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

    /// The labels match a selector, before or after the change. So an object that ceases to match
    /// passes once more.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use windlass_reconciler::Predicate;
    /// let web = Predicate::<ConfigMap>::labelled("app in (web, api)".parse()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn labelled(selector: Selector) -> Self {
        Self::of_either(move |object| selector.matches(object.head().labels()))
    }

    /// An annotation has a value, before or after the change. It is read from the cached bytes,
    /// without decoding the object. A [resident](windlass_informer::InformerOptions::resident)
    /// cache has no bytes, so building a controller with this predicate on one is an error.
    pub fn annotated(name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), value.into());
        let has_value = move |object: &Cached<K>| {
            annotation(object.object(), &name).is_some_and(|found| found == value)
        };
        Self { reads_annotations: true, ..Self::of_either(has_value) }
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
        let reads_annotations = self.reads_annotations || other.reads_annotations;
        let both = Self::new(move |event| self.passes(event) && other.passes(event));
        Self { reads_annotations, ..both }
    }

    /// Passes the events that at least one of them passes.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let reads_annotations = self.reads_annotations || other.reads_annotations;
        let either = Self::new(move |event| self.passes(event) || other.passes(event));
        Self { reads_annotations, ..either }
    }

    /// Passes the events that it does not pass.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "it belongs to `and` and `or`")]
    pub fn not(self) -> Self {
        let reads_annotations = self.reads_annotations;
        Self { reads_annotations, ..Self::new(move |event| !self.passes(event)) }
    }

    /// Whether an event passes.
    pub fn passes(&self, event: &Event<K>) -> bool {
        (self.passes)(event)
    }

    fn of_either(matches: impl Fn(&Cached<K>) -> bool + Send + Sync + 'static) -> Self {
        Self::new(move |event| {
            let old = match event {
                Event::Updated { old, .. } => Some(old),
                Event::Added { .. } | Event::Deleted { .. } => None,
            };
            matches(event.object()) || old.is_some_and(&matches)
        })
    }

    fn on_change(is_changed: impl Fn(&Head, &Head) -> bool + Send + Sync + 'static) -> Self {
        Self::new(move |event| match event {
            Event::Added { .. } | Event::Deleted { .. } => true,
            Event::Updated { .. } if event.is_resync() => false,
            Event::Updated { old, new, .. } => is_changed(old.head(), new.head()),
        })
    }
}

impl<K> Clone for Predicate<K> {
    fn clone(&self) -> Self {
        Self { passes: Arc::clone(&self.passes), reads_annotations: self.reads_annotations }
    }
}

impl<K> std::fmt::Debug for Predicate<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Predicate")
    }
}

impl<'a> AnyEvent<'a> {
    pub(crate) fn of<T>(resource: &'a Resource, event: &'a Event<T>) -> Self {
        let (old, new) = match event {
            Event::Added { object, .. } => (None, Some(object)),
            Event::Updated { old, new, .. } => (Some(old), Some(new)),
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
