//! The span of a run, in which everything that the reconciler logs is.

use std::sync::Arc;

use tracing::Span;
use tracing::level_filters::LevelFilter;

use crate::guard::{PANIC_ADVICE, caught};
use crate::run::context::RunContext;

/// The target of the spans of runs, for filters.
pub const SPAN_TARGET: &str = "windlass_reconciler::run";

/// Makes the span of a run.
pub(crate) type SpanShape = Arc<dyn Fn(&RunContext) -> Span + Send + Sync>;

/// The span of a run. Without a subscriber for it, it is not created: `tracing` would pass it to
/// `log`, because kube enables that feature.
pub(crate) fn span_of(cx: &RunContext, shape: Option<&SpanShape>) -> Span {
    if LevelFilter::current() == LevelFilter::OFF {
        return Span::none();
    }
    let Some(shape) = shape else { return default_span(cx) };
    caught(|| shape(cx)).unwrap_or_else(|| {
        tracing::error!(
            controller = cx.controller(), key = %cx.key, reconcile_id = %cx.id,
            "the shape of the span panicked; the run has the default span; {PANIC_ADVICE}"
        );
        default_span(cx)
    })
}

/// Its level is the highest, so that a filter that lets warnings pass does not remove from them
/// what they are about. No line is logged for the span itself.
fn default_span(cx: &RunContext) -> Span {
    tracing::error_span!(
        target: SPAN_TARGET,
        "reconcile",
        controller = cx.controller(),
        key = %cx.key,
        reconcile_id = %cx.id,
        attempt = cx.attempt,
        cause = cx.causes.last().map(tracing::field::display),
    )
}
