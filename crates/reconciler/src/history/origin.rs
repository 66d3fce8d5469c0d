//! Which run made a version of an object, for the links between spans of the feature `otel`.
//!
//! When the server has answered a write of a run, the context of the run's span is noted with the
//! uid and the version that the write made. When a run ends, the changes that caused it are looked
//! up, and its span is linked to the spans of the runs that made them.
//!
//! The notes are shared by all controllers of the process, because one controller mostly wakes
//! another. The uid tells objects of different clusters apart. Their number is bounded.
//!
//! They are looked up at the end of the run, because an event may arrive before the answer to the
//! write that led to it.
//!
//! Without the feature, all of this is empty.

#[cfg(feature = "otel")]
pub(crate) use linked::SpanOrigin;
#[cfg(not(feature = "otel"))]
pub(crate) use unlinked::SpanOrigin;

#[cfg(not(feature = "otel"))]
mod unlinked {
    use tracing::Span;

    use crate::cause::Cause;
    use crate::history::run_record::Outcome;
    use crate::writes::write::Write;

    /// The run that makes a version.
    #[derive(Clone, Default)]
    pub(crate) struct SpanOrigin;

    impl SpanOrigin {
        pub(crate) fn of(_: &Span) -> Self {
            Self
        }

        #[expect(clippy::unused_self, reason = "as with the feature `otel`")]
        pub(crate) fn note(&self, _: &Write) {}

        pub(crate) fn end(_: &Span, _: &[Cause], _: &Outcome) {}
    }
}

#[cfg(feature = "otel")]
mod linked {
    use std::sync::LazyLock;

    use hashlink::LruCache;
    use opentelemetry::trace::{SpanContext, Status, TraceContextExt as _};
    use parking_lot::Mutex;
    use tracing::Span;
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;
    use windlass_indexer::{ResourceVersion, Uid};

    use crate::cause::{Cause, Change};
    use crate::error::Class;
    use crate::history::run_record::Outcome;
    use crate::writes::write::Write;

    /// How many versions are noted; beyond that, the oldest is forgotten. A change is looked up
    /// when the run ends that it causes, which is mostly less than a few thousand writes later.
    const NOTES_MAX: usize = 8_192;

    /// The uid of an object and the version that was made; no version if the object was removed.
    type Made = (Uid, Option<ResourceVersion>);

    static NOTES: LazyLock<Mutex<LruCache<Made, SpanContext>>> =
        LazyLock::new(|| Mutex::new(LruCache::new(NOTES_MAX)));

    /// The run that makes a version.
    #[derive(Clone, Default)]
    pub(crate) struct SpanOrigin {
        /// `None` if the spans of runs are not exported.
        span: Option<SpanContext>,
    }

    impl SpanOrigin {
        /// The run with this span.
        pub(crate) fn of(span: &Span) -> Self {
            let context = span.context().span().span_context().clone();
            Self { span: Some(context).filter(SpanContext::is_valid) }
        }

        /// Notes that the run has made a version.
        pub(crate) fn note(&self, write: &Write) {
            let Some(span) = self.span.as_ref().filter(|_| write.has_changed()) else { return };
            NOTES.lock().insert((write.uid.clone(), write.version.clone()), span.clone());
        }

        /// Links the span of a run that ends to the runs that caused it, and sets its status.
        pub(crate) fn end(span: &Span, causes: &[Cause], outcome: &Outcome) {
            if span.is_disabled() {
                return;
            }
            for origin in origins(causes) {
                span.add_link(origin);
            }
            // A conflict is not an error of the controller.
            let is_conflict = matches!(outcome, Outcome::Failed { class: Class::Conflict, .. });
            if let Some(message) = outcome.failure().filter(|_| !is_conflict) {
                span.set_status(Status::error(message));
            }
        }
    }

    /// The spans of the runs that made the changes among these causes, each once.
    fn origins(causes: &[Cause]) -> Vec<SpanContext> {
        let mut origins = Vec::new();
        let mut notes = NOTES.lock();
        for cause in causes {
            let Cause::Changed { change, version, uid, .. } = cause else { continue };
            // The answer to a write that removes an object does not contain the last version.
            let version = (*change != Change::Deleted).then(|| version.clone());
            if let Some(origin) = notes.get(&(uid.clone(), version))
                && !origins.contains(origin)
            {
                origins.push(origin.clone());
            }
        }
        origins
    }
}
