//! What a worker does with a key: wait for the caches, call the reconciler, decide about a retry,
//! note the run, release the key.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use windlass_indexer::{Cached, Lister, ObjectKey};
use windlass_workqueue::{Add, Lease, MAX_DELAY, Priority};

use crate::action::Action;
use crate::bounds::ObjectType;
use crate::cause::Cause;
use crate::context::RunContext;
use crate::enqueue::Enqueuer;
use crate::error::{Class, Delay, Error};
use crate::expectations::PendingWrites;
use crate::failed_run::{ErrorHook, FailedRun};
use crate::finished::RunSubscribers;
use crate::frozen::FrozenCaches;
use crate::guard::caught;
use crate::inactive::{InactiveKeys, InactiveReason};
use crate::journal::{Journal, MESSAGE_MAX, Run};
#[cfg(feature = "prometheus")]
use crate::metrics::{Measured, Measures, Series};
use crate::origin::SpanOrigin;
use crate::outcome::Outcome;
use crate::pause::Pause;
use crate::plan::{PlanBook, PlanRecorder};
use crate::rebase::Rebased;
use crate::reconcile::ErasedReconcile;
use crate::report::RunReport;
use crate::run_id::{RunId, RunIds};
use crate::running::{LongRun, Running};
use crate::shutdown::Shutdown;
use crate::span::{SpanShape, span_of};
use crate::tools::Tools;
use crate::write::Write;

/// How long after the last run that wrote something its key still waits for the caches to show it.
const CACHE_WAIT: Duration = Duration::from_secs(5);

/// For the first part of that time the worker itself waits, because most caches catch up by then.
/// After it the key is deferred, so that a late watch does not keep other keys waiting. A cache
/// that may never show the write is waited for only this long.
const WORKER_WAIT: Duration = Duration::from_millis(100);

/// How long to defer a key whose caches are late.
const DEFER_DELAY: Duration = Duration::from_millis(100);

/// What all workers of a controller share.
pub(crate) struct Work<K> {
    pub(crate) tools: Arc<Tools>,
    pub(crate) reconciler: Box<dyn ErasedReconcile<K>>,
    pub(crate) objects: Lister<K>,
    pub(crate) enqueuer: Enqueuer,
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) on_error: Option<ErrorHook>,
    pub(crate) pause: Pause,
    pub(crate) inactive: InactiveKeys,
    pub(crate) subscribers: Arc<RunSubscribers>,
    pub(crate) running: Running,
    pub(crate) journal: Journal,
    pub(crate) ids: RunIds,
    pub(crate) span: Option<SpanShape>,
    /// Set in [plan mode](crate::Controller::plan): collects what the runs would write.
    pub(crate) plan: OnceLock<PlanBook>,
    /// How many workers there are, and the series that records durations.
    #[cfg(feature = "prometheus")]
    pub(crate) metrics: Option<(usize, Arc<Series>)>,
}

/// The lease of a key that a worker has taken.
type KeyLease<'q> = Lease<'q, ObjectKey, Cause>;

/// A key that a worker has taken. If the worker ends before the run does, the key goes back to the
/// queue, with its causes.
struct TakenKey<'q> {
    /// `None` once the lease is finished, deferred or retried.
    lease: Option<KeyLease<'q>>,
    tools: &'q Tools,
    /// What earlier runs have written, while the worker waits for the caches to show it.
    pending: Option<PendingWrites>,
}

/// How a run ended, and what follows.
struct RunResult {
    outcome: Outcome,
    /// What the reconciler returned.
    error: Option<Error>,
    /// The delay that the error requests.
    delay: Option<Delay>,
    /// The priority that the run requests for the next one.
    priority: Option<Priority>,
}

/// What follows a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// No retry. The key runs again if something changes, or after the delay of `RequeueAfter`.
    Nothing,
    Retry(Duration),
    /// The key would be retried, but this was its last attempt.
    GiveUp,
}

/// A run under way. If it is cancelled, its writes are noted when this is dropped. After a normal
/// end, [`Work::run`] has noted them, and there is nothing left to note.
struct UnfinishedRun<'r>(&'r RunContext);

impl Drop for UnfinishedRun<'_> {
    fn drop(&mut self) {
        let RunContext { recording, tools, key, .. } = self.0;
        if let Some((_, log)) = recording.get() {
            let (_, pending) = log.close();
            tools.expect_writes(key, pending);
        }
    }
}

impl RunResult {
    fn of(outcome: Outcome) -> Self {
        Self { outcome, error: None, delay: None, priority: None }
    }

    /// The run succeeded.
    fn of_action(action: Action) -> Self {
        Self { priority: action.priority(), ..Self::of(Outcome::of(action)) }
    }

    /// The run failed. Formatting the error is user code, which may panic.
    fn of_error(error: Error) -> Self {
        let (outcome, delay) = Outcome::of_error(&error);
        let priority = error.retry_priority();
        Self { outcome, delay, priority, error: Some(error) }
    }
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
}

impl Drop for TakenKey<'_> {
    fn drop(&mut self) {
        let Some(lease) = self.lease.take() else { return };
        if let Some(pending) = self.pending.take() {
            self.tools.expectations.put_back(lease.key(), pending);
        }
        // Fails only after shut-down, when the key does not run again.
        let _ = lease.defer(Duration::ZERO);
    }
}

impl<K: ObjectType> Work<K> {
    /// Takes keys until `stop` is cancelled, or the queue is shut down and empty. A run that has
    /// begun ends first. `stop` is also cancelled when an informer breaks, before any `shutdown`.
    pub(crate) async fn run_worker(&self, stop: &CancellationToken, shutdown: &Shutdown) {
        while let Some(Some(lease)) = stop.run_until_cancelled(self.enqueuer.queue.get()).await {
            let debounce = self.enqueuer.debounce.as_ref().filter(|_| self.plan.get().is_none());
            if let Some(wait) = debounce.and_then(|debounce| debounce.take_if_due(&lease)) {
                // Fails only after shut-down, when the key does not run again.
                let _ = lease.defer(wait);
                continue;
            }
            let taken = TakenKey { lease: Some(lease), tools: &self.tools, pending: None };
            let ready = match self.tools.expectations.take(taken.key()) {
                None => Some((taken, false)),
                Some(pending) => self.catch_up(taken, pending).await,
            };
            match ready {
                Some((taken, is_behind)) if !stop.is_cancelled() => {
                    self.run(taken, is_behind, shutdown).await;
                }
                // The controller stops before this run. `cache_behind` is set for the next one.
                Some((taken, true)) => self.tools.expect_unknown_write(taken.key()),
                Some((_, false)) | None => {}
            }
        }
    }

    /// Waits for the caches to show what the last runs of a key have written. Returns the key, and
    /// whether a cache is or may be behind; `None` if the key was deferred.
    async fn catch_up<'q>(
        &self,
        mut taken: TakenKey<'q>,
        pending: PendingWrites,
    ) -> Option<(TakenKey<'q>, bool)> {
        let deadline = pending.since + WORKER_WAIT;
        let writes = &taken.pending.insert(pending).writes;
        let waited = timeout_at(deadline, async {
            for recorded in writes {
                for behind in self.tools.sources.behind(recorded) {
                    if behind.surely_selects(&recorded.written) {
                        behind
                            .wait_until_caught_up(&recorded.written, recorded.write.answered)
                            .await;
                    }
                }
            }
        });
        let is_late = waited.await.is_err();
        let mut pending = taken.pending.take().expect("it was put there above");
        if pending.writes.iter().all(|recorded| self.tools.is_seen(recorded)) {
            return Some((taken, pending.has_unknown));
        }
        let now = Instant::now();
        if !is_late && now < deadline {
            // Only caches that may never show the object are missing. Free the worker, and look
            // again at the deadline.
            self.defer(taken, pending, deadline - now);
            return None;
        }
        let PendingWrites { writes, has_unknown, .. } = &mut pending;
        writes.retain(|recorded| {
            let behind = self.tools.sources.behind(recorded);
            // Only caches with field selectors lack this write, and they may never show it. Stop
            // waiting for it. A run within 5 s of the write has `cache_behind` set.
            let is_uncertain = !behind.is_empty()
                && !behind.iter().any(|cache| cache.surely_selects(&recorded.written));
            *has_unknown |= is_uncertain && now < recorded.write.answered + CACHE_WAIT;
            !is_uncertain
        });
        pending.forget_seen(|recorded| self.tools.is_seen(recorded));
        if !pending.writes.is_empty() && now < pending.since + CACHE_WAIT {
            self.defer(taken, pending, DEFER_DELAY);
            return None;
        }
        let is_behind = pending.has_unknown || !pending.writes.is_empty();
        // A write whose response was lost is reported to one run only.
        pending.has_unknown = false;
        self.tools.expectations.put_back(taken.key(), pending);
        Some((taken, is_behind))
    }

    /// Defers a key until its caches may have caught up.
    fn defer(&self, taken: TakenKey<'_>, pending: PendingWrites, delay: Duration) {
        self.tools.expectations.put_back(taken.key(), pending);
        // Fails only after shut-down, when the key does not run again.
        let _ = taken.into_lease().defer(delay);
    }

    /// Warns of runs that take long. Never returns.
    pub(crate) async fn warn_while_running(&self) -> Infallible {
        let warn =
            |run: &LongRun| self.report(&run.key, run.id, run.attempt).still_running(run.took);
        self.running.warn_while_running(warn).await
    }

    async fn run(&self, taken: TakenKey<'_>, is_behind: bool, shutdown: &Shutdown) {
        let (started, key) = (Instant::now(), taken.key());
        // The object comes from the snapshot that the run reads, so both show the same version.
        let caches = FrozenCaches::of(self.tools.sources.all());
        let object = caches.primary(key).map(|object| self.objects.handle(object));
        let is_paused = object.as_ref().is_some_and(|of| self.pause.is_paused(of.object()));
        if is_paused && self.inactive.is_paused(key) {
            if is_behind {
                // This run is skipped. `cache_behind` is set for the next one.
                self.tools.expect_unknown_write(key);
            }
            return taken.into_lease().finish();
        }
        if self.inactive.remove(key) == Some(InactiveReason::Paused) {
            tracing::info!(controller = &*self.tools.controller, %key, "no longer paused");
        }
        let mut cx = self.context(taken.lease(), started, is_behind, shutdown, caches);
        let span = span_of(&cx, self.span.as_ref());
        cx.origin = SpanOrigin::of(&span);
        let unfinished = UnfinishedRun(&cx);
        let RunResult { outcome, error, delay, priority } = {
            let _active = self.running.enter(&cx.key, cx.id, cx.attempt, started);
            let called = pin!(self.call(&cx, object, is_paused));
            // Avoids the cost of instrumenting with a disabled span.
            if span.is_disabled() { called.await } else { called.instrument(span.clone()).await }
        };
        let (took, mut lease) = (started.elapsed(), taken.into_lease());
        SpanOrigin::end(&span, &cx.causes, &outcome);
        drop(span);
        #[cfg(feature = "prometheus")]
        if let Some((_, series)) = &self.metrics {
            series.observe(took);
        }
        let next = self.schedule(&mut lease, cx.attempt, &outcome, delay, priority);
        let retry_in = match next {
            // During a shutdown no worker takes the retry, so none is reported.
            Next::Retry(delay) if !shutdown.has_begun() => Some(delay),
            _ => None,
        };
        let log = cx.recording.get().map(|(_, log)| log.close());
        let (kept, pending) = log.unwrap_or_default();
        match (self.plan.get(), &cx.plan) {
            // No cache will ever show what was not stored.
            (Some(book), Some(writes)) => book.note(&cx.key, writes, &outcome),
            _ => self.tools.expect_writes(&cx.key, pending),
        }
        drop(unfinished);
        let RunContext { id, key, causes, causes_omitted, attempt, events, .. } = cx;
        let mut shortened = outcome.clone();
        shortened.shorten(MESSAGE_MAX);
        let run = Arc::new(Run {
            id,
            started,
            queued: lease.queued(),
            took,
            attempt,
            causes,
            causes_omitted,
            outcome: shortened,
            retry_in,
            gave_up: next == Next::GiveUp,
            writes: kept.writes,
            writes_omitted: kept.omitted,
            events: events.into_inner().unwrap_or_else(PoisonError::into_inner),
        });
        let noted = self.journal.write(&key, Arc::clone(&run), is_behind);
        self.report(&key, id, attempt).ended(&run, &outcome, &noted, &self.pause);
        self.notify_users(&key, &run, error);
        // Last, because then the key may run again on another worker.
        match (&outcome, next) {
            (Outcome::Paused, _) => self.deactivate(lease, InactiveReason::Paused),
            (_, Next::GiveUp) => self.deactivate(lease, InactiveReason::GivenUp),
            (Outcome::Terminal { .. }, _) => {
                // The failures are kept: the error may persist, so the attempts do not start over.
                self.inactive.insert(lease.key(), InactiveReason::Terminal);
                drop(lease);
            }
            (Outcome::Done | Outcome::RequeueAfter(_), _) => lease.finish(),
            _ => drop(lease),
        }
    }

    /// Calls the hook for errors, and sends the run to the subscribers of finished runs.
    fn notify_users(&self, key: &ObjectKey, run: &Arc<Run>, error: Option<Error>) {
        if let Some(hook) = self.on_error.as_ref().filter(|_| run.outcome.is_failure()) {
            let controller = &*self.tools.controller;
            hook.call(&FailedRun { controller, key, run, error: error.as_ref() });
        }
        // Dropping an error is user code, too.
        let _ = caught(|| drop(error));
        self.subscribers.send(key, run);
    }

    /// Ends a lease whose key does not run until something changes. Its failures are forgotten, so
    /// that the key has all of its attempts again.
    fn deactivate(&self, lease: KeyLease<'_>, why: InactiveReason) {
        self.inactive.insert(lease.key(), why);
        lease.finish();
    }

    fn context(
        &self,
        lease: &KeyLease<'_>,
        started: Instant,
        is_behind: bool,
        shutdown: &Shutdown,
        caches: FrozenCaches,
    ) -> RunContext {
        let mut causes: Vec<_> = lease.causes().cloned().collect();
        let is_valid = |write: &Write| !self.tools.sources.is_restored_since(write);
        self.journal.mark_own_causes(lease.key(), &mut causes, is_valid);
        RunContext {
            tools: Arc::clone(&self.tools),
            id: self.ids.next(),
            key: lease.key().clone(),
            causes,
            causes_omitted: lease.causes_omitted(),
            attempt: self.enqueuer.queue.failures(lease.key()) + 1,
            deadline: self.timeout.map(|timeout| started + timeout),
            is_behind,
            shutdown: shutdown.clone(),
            plan: self.plan.get().map(|_| PlanRecorder::new()),
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
        let called = async {
            // The decoded object is not cached: most objects change before they run again.
            let returned = match object.map(|object| object.get()) {
                Some(Ok(object)) if is_paused => {
                    let paused = self.reconciler.paused(object, cx).await;
                    paused.map(|()| RunResult::of(Outcome::Paused))
                }
                Some(Ok(object)) => {
                    self.reconciler.reconcile(object, cx).await.map(RunResult::of_action)
                }
                None => self.reconciler.absent(cx).await.map(RunResult::of_action),
                Some(Err(error)) => Err(Error::undecodable(error)),
            };
            returned.unwrap_or_else(RunResult::of_error)
        };
        let called = AssertUnwindSafe(called).catch_unwind();
        let ended = match self.timeout {
            None => called.await,
            Some(limit) => {
                let mut called = Box::pin(called);
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

    /// Adds the key again if the outcome asks for it; it runs after the lease has ended.
    fn schedule(
        &self,
        lease: &mut KeyLease<'_>,
        attempt: u32,
        outcome: &Outcome,
        delay: Option<Delay>,
        priority: Option<Priority>,
    ) -> Next {
        if let Some(priority) = priority {
            lease.set_priority(priority);
        }
        let delay = delay.map(|delay| delay.after(attempt - 1).min(MAX_DELAY));
        match (outcome, delay) {
            (Outcome::Done | Outcome::Paused | Outcome::Terminal { .. }, _) => Next::Nothing,
            (Outcome::RequeueAfter(delay), _) => {
                let (key, add) = (lease.key().clone(), Add::after((*delay).min(MAX_DELAY)));
                match priority {
                    Some(priority) => self.enqueuer.add_at(priority, key, add, Cause::Timer),
                    None => self.enqueuer.add(key, add, Cause::Timer),
                }
                Next::Nothing
            }
            // The key is not to blame, so no failure of it is counted. Here and below,
            // scheduling fails only after shut-down, when the key does not run again.
            (Outcome::Failed { class: Class::NotLeader, .. }, Some(delay)) => {
                lease.schedule_defer(delay).map_or(Next::Nothing, |()| Next::Retry(delay))
            }
            _ if self.max_attempts.is_some_and(|max| attempt >= max) => Next::GiveUp,
            (_, delay) => lease.schedule_retry(delay).map_or(Next::Nothing, Next::Retry),
        }
    }

    fn report<'a>(&'a self, key: &'a ObjectKey, id: RunId, attempt: u32) -> RunReport<'a> {
        RunReport { controller: &self.tools.controller, key, id, attempt }
    }
}

#[cfg(feature = "prometheus")]
impl<K: ObjectType> Measured for Work<K> {
    fn measure(&self) -> Measures {
        Measures {
            counts: self.journal.counts(),
            workers: self.metrics.as_ref().map_or(0, |(workers, _)| *workers),
            active_workers: self.enqueuer.queue.load().running,
            events_dropped: self.tools.recorder.status().dropped,
            paused: self.inactive.count(InactiveReason::Paused),
            given_up: self.inactive.count(InactiveReason::GivenUp),
            terminal: self.inactive.count(InactiveReason::Terminal),
        }
    }
}
