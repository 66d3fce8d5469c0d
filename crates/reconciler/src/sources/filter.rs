//! Decides which events of a source count.
//!
//! Predicates and mappers are user code and may panic, which is logged. An event whose predicate
//! panics counts.
//!
//! Predicates compare the old version of an update with the new one. If events have merged, a run
//! may have read a version in between, so a merged update also counts if it would as an addition.

use std::sync::Arc;

use windlass_indexer::ObjectKey;
use windlass_informer::{Event, Resource};

use crate::guard::{PANIC_ADVICE, caught};
use crate::sources::log_limit::LogLimit;
use crate::sources::pause::PauseFilter;
use crate::sources::predicate::{AnyEvent, AnyFilter, Predicate};

/// Decides which events of one source count.
pub(crate) struct EventFilter<T> {
    pub(crate) controller: Arc<str>,
    pub(crate) resource: Resource,
    pub(crate) predicate: Predicate<T>,
    /// For the events of all sources.
    pub(crate) global: Option<AnyFilter>,
    /// For the reconciled objects, if they can be paused.
    pub(crate) pause: Option<PauseFilter>,
    /// For panics.
    pub(crate) log_limit: LogLimit,
}

impl<T: 'static> EventFilter<T> {
    pub(crate) fn passes(&self, event: &Event<T>) -> bool {
        self.passes_predicates(event)
            || as_added(event).is_some_and(|added| self.passes_predicates(&added))
            || self.pause.as_ref().is_some_and(|pause| pause.must_pass(event))
    }

    fn passes_predicates(&self, event: &Event<T>) -> bool {
        let passes = caught(|| {
            self.predicate.passes(event)
                && self
                    .global
                    .as_ref()
                    .is_none_or(|filter| filter(&AnyEvent::of(&self.resource, event)))
        });
        passes.unwrap_or_else(|| {
            self.report_panic("predicate", "the event counts", event.key());
            true
        })
    }

    /// A mapper panicked. `consequence` says what becomes of the event.
    pub(crate) fn report_mapper_panic(&self, object: &ObjectKey, consequence: &str) {
        self.report_panic("mapper", consequence, object);
    }

    fn report_panic(&self, what: &str, consequence: &str, object: &ObjectKey) {
        let Self { controller, resource, .. } = self;
        let Some(line) = self.log_limit.line() else { return };
        tracing::error!(
            controller = &**controller, %resource, %object, left_out = line.left_out,
            "the {what} of a watch panicked; {consequence}; {PANIC_ADVICE}"
        );
    }
}

/// The addition of its new version, if it is an update that has merged.
fn as_added<T>(event: &Event<T>) -> Option<Event<T>> {
    match event {
        Event::Updated { new, merged: true, .. } => {
            Some(Event::Added { object: new.clone(), initial: false })
        }
        _ => None,
    }
}
