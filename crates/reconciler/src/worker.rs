//! What a worker does with a key: take it, wait for the caches, run, settle the outcome and release
//! it.

mod call;
mod catch_up;
mod report;
mod settle;

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt as _;
use parking_lot::Mutex;
use scopeguard::ScopeGuard;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use windlass_indexer::{Lister, Object, ObjectKey, ObjectType};
use windlass_informer::Resource;

use crate::controller_core::ControllerCore;
use crate::guard::caught;
use crate::history::inactive::InactiveReason;
use crate::history::origin::SpanOrigin;
use crate::history::run_record::Outcome;
use crate::run::context::RunContext;
use crate::run::frozen::FrozenCaches;
use crate::run::span::{MakeSpan, span_of};
use crate::shutdown::Shutdown;
use crate::worker::call::{ErasedReconcile, RunResult};
use crate::worker::catch_up::CatchUp;
use crate::worker::settle::KeyLease;

/// What all workers of a controller share.
pub(crate) struct Work<K> {
    pub(crate) core: Arc<ControllerCore>,
    pub(crate) span: Option<MakeSpan>,
    pub(crate) reconciler: Box<dyn ErasedReconcile<K>>,
    pub(crate) objects: Lister<K>,
}

/// A key that a worker has taken. It is requeued when it is dropped, with its causes: so it is not
/// lost if the worker ends before the run does.
type TakenKey = ScopeGuard<KeyLease, fn(KeyLease)>;

fn taken(lease: KeyLease) -> TakenKey {
    scopeguard::guard(lease, |lease| defer(lease, Duration::ZERO))
}

fn defer(lease: KeyLease, delay: Duration) {
    // Fails only after shut-down, when the key does not run again.
    let _ = lease.defer(delay);
}

impl<K: ObjectType> Work<K> {
    /// Takes keys until `stop` is cancelled, or the queue is shut down and empty. A run that has
    /// begun ends first. `stop` is cancelled when `shutdown` begins, and when something breaks that
    /// the workers need, such as an informer.
    pub(crate) async fn run_worker(&self, stop: &CancellationToken, shutdown: &Shutdown) {
        let core = &self.core;
        // In a plan, delayed keys run at once.
        let debounce = core.enqueuer.debounce.as_ref().filter(|_| core.plan.get().is_none());
        while let Some(Some(lease)) = stop.run_until_cancelled(core.enqueuer.queue.get()).await {
            let taken = taken(lease);
            if let Some(wait) = debounce.and_then(|debounce| debounce.wait_left(taken.key())) {
                defer(ScopeGuard::into_inner(taken), wait);
                continue;
            }
            match core.catch_up(taken.key()).await {
                CatchUp::CheckAgainAfter(delay) => defer(ScopeGuard::into_inner(taken), delay),
                CatchUp::Run { is_behind } if !stop.is_cancelled() => {
                    self.run_key(taken, is_behind, shutdown).await;
                }
                // Stopping: `taken` is requeued when it is dropped.
                CatchUp::Run { is_behind: true } => core.report_behind_to_next_run(taken.key()),
                CatchUp::Run { is_behind: false } => {}
            }
        }
    }

    async fn run_key(&self, taken: TakenKey, is_behind: bool, shutdown: &Shutdown) {
        let (core, key) = (&self.core, taken.key());
        // The object comes from the snapshot that the run reads, so both show the same version.
        let caches = FrozenCaches::of(core.sources.all());
        let object = caches.primary(key);
        let is_paused = object.as_ref().is_some_and(|object| core.pause.is_paused(object));
        // An earlier run was recorded as paused. This one is skipped: neither recorded nor logged.
        if is_paused && core.inactive.is_paused(key) {
            if is_behind {
                core.report_behind_to_next_run(key);
            }
            return ScopeGuard::into_inner(taken).finish();
        }
        if core.inactive.remove(key) == Some(InactiveReason::Paused) {
            tracing::info!(controller = &*core.controller, %key, "no longer paused");
        }
        let mut cx = self.context(&taken, is_behind, shutdown, caches, object);
        cx.is_paused = is_paused;
        let (result, took) = self.run_in_span(&mut cx).await;
        core.settle(ScopeGuard::into_inner(taken), &mut cx, result, took);
    }

    /// Calls the reconciler in the span of the run, under the eyes of the watchdog. Returns also
    /// how long that took.
    async fn run_in_span(&self, cx: &mut RunContext) -> (RunResult, Duration) {
        let core = &self.core;
        let span = span_of(cx, self.span.as_ref());
        cx.origin = SpanOrigin::of(&span);
        let result = {
            let _active = core.running.enter(&cx.key, cx.id, cx.attempt, cx.started);
            let called = pin!(self.call_with_timeout(cx));
            // Avoids the cost of instrumenting with a disabled span.
            if span.is_disabled() { called.await } else { called.instrument(span.clone()).await }
        };
        let took = cx.started.elapsed();
        SpanOrigin::end(&span, &cx.causes, &result.outcome);
        #[cfg(feature = "prometheus")]
        if let Some(durations) = core.durations.get() {
            durations.observe(took.as_secs_f64());
        }
        (result, took)
    }

    fn context(
        &self,
        lease: &KeyLease,
        is_behind: bool,
        shutdown: &Shutdown,
        caches: FrozenCaches,
        object: Option<Arc<Object>>,
    ) -> RunContext {
        let core = &self.core;
        let mut causes: Vec<_> = lease.causes().cloned().collect();
        let is_valid = |resource: &Resource, key: &ObjectKey, written: Instant| {
            !core.sources.is_restored_since(resource, key, written)
        };
        core.journal.mark_causes_by_us(lease.key(), &mut causes, is_valid);
        RunContext {
            core: Arc::clone(core),
            id: core.ids.next(),
            key: lease.key().clone(),
            started: Instant::now(),
            causes,
            causes_omitted: lease.causes_omitted(),
            attempt: core.enqueuer.queue.failures(lease.key()) + 1,
            is_behind,
            shutdown: shutdown.clone(),
            plan: core.plan.get().map(|open| open.recorder.for_part()),
            origin: SpanOrigin::default(),
            recording: OnceLock::new(),
            caches,
            object,
            is_paused: false,
            events: Mutex::default(),
        }
    }

    /// Calls the reconciler, within its timeout. Catches panics of user code, including those in
    /// formatting its error.
    async fn call_with_timeout(&self, cx: &RunContext) -> RunResult {
        let object = cx.object.clone().map(|object| self.objects.handle(object));
        let called = self.reconciler.call(object, cx.is_paused, cx);
        let mut called = AssertUnwindSafe(called).catch_unwind();
        let ended = match self.core.timeout {
            None => called.await,
            Some(limit) => {
                let Ok(ended) = timeout(limit, &mut called).await else {
                    // Dropping the run is user code, too. If that panics, it still timed out.
                    let _ = caught(|| drop(called));
                    return RunResult::of(Outcome::TimedOut);
                };
                ended
            }
        };
        ended.unwrap_or_else(|panic| RunResult::of(Outcome::of_panic(&*panic)))
    }
}
