//! The span of a run, in which everything that the reconciler logs is.

use std::sync::Arc;

use tracing::Span;
use tracing::level_filters::LevelFilter;

use crate::guard::{PANIC_ADVICE, caught};
use crate::run::context::RunContext;

/// The target of the spans of runs, for filters.
pub const SPAN_TARGET: &str = "windlass_reconciler::run";

/// The user's function that makes the span of a run.
pub(crate) type MakeSpan = Arc<dyn Fn(&RunContext) -> Span + Send + Sync>;

/// The span of a run. Without a subscriber for it, it is not created: `tracing` would pass it to
/// `log`, because kube enables that feature.
pub(crate) fn span_of(cx: &RunContext, make: Option<&MakeSpan>) -> Span {
    if LevelFilter::current() == LevelFilter::OFF {
        return Span::none();
    }
    let Some(make) = make else { return default_span(cx) };
    caught(|| make(cx)).unwrap_or_else(|| {
        tracing::error!(
            controller = cx.controller(), key = %cx.key, reconcile_id = %cx.id,
            "the span function panicked; the run has the default span; {PANIC_ADVICE}"
        );
        default_span(cx)
    })
}

/// At the level `ERROR`: a filter at `warn` keeps the span then, so that warnings still have the
/// controller and the key. The span itself logs nothing.
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
