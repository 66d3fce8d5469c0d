//! Decides which events of a source count.
//!
//! Predicates and mappers are user code and may panic, which is logged. An event whose predicate
//! panics counts.

use std::sync::Arc;

use windlass_informer::{Event, Resource};

use crate::guard::{PANIC_ADVICE, caught};
use crate::sources::pause::Pause;
use crate::sources::predicate::{AnyEvent, AnyFilter, Predicate};

/// Decides which events of one source count.
pub(crate) struct EventFilter<T> {
    pub(crate) controller: Arc<str>,
    pub(crate) resource: Resource,
    pub(crate) predicate: Predicate<T>,
    /// For the events of all sources.
    pub(crate) global: Option<AnyFilter>,
    /// For the reconciled objects: an update that pauses an object or ends its pause passes,
    /// whatever the predicates say.
    pub(crate) pause: Pause,
}

impl<T: 'static> EventFilter<T> {
    pub(crate) fn passes(&self, event: &Event<T>) -> bool {
        let passes = caught(|| {
            self.predicate.passes(event)
                && self
                    .global
                    .as_ref()
                    .is_none_or(|filter| filter(&AnyEvent::of(&self.resource, event)))
        });
        let passes = passes.unwrap_or_else(|| {
            self.report_panic("predicate", "the event counts", event);
            true
        });
        passes || toggles_pause(&self.pause, event)
    }

    pub(crate) fn report_mapper_panic(&self, event: &Event<T>) {
        self.report_panic("mapper", "what the event leads to is not reconciled", event);
    }

    fn report_panic(&self, what: &str, consequence: &str, event: &Event<T>) {
        let Self { controller, resource, .. } = self;
        tracing::error!(
            controller = &**controller, %resource, object = %event.key(),
            "the {what} of a watch panicked; {consequence}; {PANIC_ADVICE}"
        );
    }
}

/// Whether an update paused an object, or ended its pause.
fn toggles_pause<T>(pause: &Pause, event: &Event<T>) -> bool {
    match event {
        Event::Updated { old, new } => pause.has_changed(old.object(), new.object()),
        Event::Added { .. } | Event::Deleted { .. } => false,
    }
}
