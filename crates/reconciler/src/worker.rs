//! What a worker does with a key: take it, wait for the caches, run, settle the outcome and release
//! it.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use windlass_indexer::{Cached, Lister, ObjectKey};

use crate::bounds::ObjectType;
use crate::catch_up::CatchUp;
use crate::context::RunContext;
use crate::frozen::FrozenCaches;
use crate::guard::caught;
use crate::inactive::InactiveReason;
use crate::origin::SpanOrigin;
use crate::plan::PlanRecorder;
use crate::rebase::Rebased;
use crate::reconcile::ErasedReconcile;
use crate::run::Outcome;
use crate::settle::{KeyLease, RunResult};
use crate::shutdown::Shutdown;
use crate::span::span_of;
use crate::tools::Tools;
use crate::write::Write;

/// What all workers of a controller share.
pub(crate) struct Work<K> {
    pub(crate) tools: Arc<Tools>,
    pub(crate) reconciler: Box<dyn ErasedReconcile<K>>,
    pub(crate) objects: Lister<K>,
}

/// A key that a worker has taken. If the worker ends before the run does, the key goes back to the
/// queue, with its causes.
struct TakenKey<'q> {
    /// `None` once the lease was taken out.
    lease: Option<KeyLease<'q>>,
}

impl<'q> TakenKey<'q> {
    fn lease(&self) -> &KeyLease<'q> {
        self.lease.as_ref().expect("the lease must be there until it is taken out")
    }

    fn key(&self) -> &ObjectKey {
        self.lease().key()
    }

    fn into_lease(mut self) -> KeyLease<'q> {
        self.lease.take().expect("the lease must be there until it is taken out")
    }

    fn defer(self, delay: Duration) {
        // Fails only after shut-down, when the key does not run again.
        let _ = self.into_lease().defer(delay);
    }
}

impl Drop for TakenKey<'_> {
    fn drop(&mut self) {
        // As in `defer`.
        let _ = self.lease.take().map(|lease| lease.defer(Duration::ZERO));
    }
}

impl<K: ObjectType> Work<K> {
    /// Takes keys until `stop` is cancelled, or the queue is shut down and empty. A run that has
    /// begun ends first. `stop` is cancelled when `shutdown` begins, and when something breaks that
    /// the workers need, such as an informer.
    pub(crate) async fn run_worker(&self, stop: &CancellationToken, shutdown: &Shutdown) {
        let tools = &self.tools;
        // In a plan, delayed keys run at once.
        let debounce = tools.enqueuer.debounce.as_ref().filter(|_| tools.plan.get().is_none());
        while let Some(Some(lease)) = stop.run_until_cancelled(tools.enqueuer.queue.get()).await {
            let taken = TakenKey { lease: Some(lease) };
            if let Some(wait) = debounce.and_then(|debounce| debounce.wait_left(taken.key())) {
                taken.defer(wait);
                continue;
            }
            match tools.catch_up(taken.key()).await {
                CatchUp::Late(delay) => taken.defer(delay),
                CatchUp::Ready { is_behind } if !stop.is_cancelled() => {
                    self.run(taken, is_behind, shutdown).await;
                }
                // The controller stops before this run. `cache_behind` is set for the next one.
                CatchUp::Ready { is_behind: true } => tools.expect_unknown_write(taken.key()),
                CatchUp::Ready { is_behind: false } => {}
            }
        }
    }

    async fn run(&self, taken: TakenKey<'_>, is_behind: bool, shutdown: &Shutdown) {
        let (tools, key) = (&self.tools, taken.key());
        // The object comes from the snapshot that the run reads, so both show the same version.
        let caches = FrozenCaches::of(tools.sources.all());
        let object = caches.primary(key);
        let is_paused = object.as_ref().is_some_and(|object| tools.pause.is_paused(object));
        // An earlier run was recorded as paused. This one is neither recorded nor logged.
        if is_paused && tools.inactive.is_paused(key) {
            if is_behind {
                // This run is skipped. `cache_behind` is set for the next one.
                tools.expect_unknown_write(key);
            }
            return taken.into_lease().finish();
        }
        if tools.inactive.remove(key) == Some(InactiveReason::Paused) {
            tracing::info!(controller = &*tools.controller, %key, "no longer paused");
        }
        let mut cx = self.context(taken.lease(), is_behind, shutdown, caches);
        let span = span_of(&cx, tools.span.as_ref());
        cx.origin = SpanOrigin::of(&span);
        let result = {
            let _active = tools.running.enter(&cx.key, cx.id, cx.attempt, cx.started);
            let object = object.map(|object| self.objects.handle(object));
            let called = pin!(self.call(&cx, object, is_paused));
            // Avoids the cost of instrumenting with a disabled span.
            if span.is_disabled() { called.await } else { called.instrument(span.clone()).await }
        };
        let took = cx.started.elapsed();
        SpanOrigin::end(&span, &cx.causes, &result.outcome);
        drop(span);
        #[cfg(feature = "prometheus")]
        if let Some(durations) = tools.durations.get() {
            durations.observe(took.as_secs_f64());
        }
        tools.settle(taken.into_lease(), &mut cx, result, took);
    }

    fn context(
        &self,
        lease: &KeyLease<'_>,
        is_behind: bool,
        shutdown: &Shutdown,
        caches: FrozenCaches,
    ) -> RunContext {
        let tools = &self.tools;
        let mut causes: Vec<_> = lease.causes().cloned().collect();
        let is_valid = |write: &Write| !tools.sources.is_restored_since(write);
        tools.journal.mark_own_causes(lease.key(), &mut causes, is_valid);
        RunContext {
            tools: Arc::clone(tools),
            id: tools.ids.next(),
            key: lease.key().clone(),
            started: Instant::now(),
            causes,
            causes_omitted: lease.causes_omitted(),
            attempt: tools.enqueuer.queue.failures(lease.key()) + 1,
            is_behind,
            shutdown: shutdown.clone(),
            plan: tools.plan.get().map(|_| PlanRecorder::new()),
            origin: SpanOrigin::none(),
            recording: OnceLock::new(),
            object: caches.primary(lease.key()),
            caches,
            events: Mutex::default(),
            rebased: Rebased::default(),
        }
    }

    /// Calls the reconciler, within its timeout. Catches panics of user code, including those in
    /// formatting its error.
    async fn call(&self, cx: &RunContext, object: Option<Cached<K>>, is_paused: bool) -> RunResult {
        let called = self.reconciler.run(object, is_paused, cx);
        let mut called = AssertUnwindSafe(called).catch_unwind();
        let ended = match self.tools.timeout {
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
