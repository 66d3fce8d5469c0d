//! What a worker does with a key: wait for the caches, call the reconciler, settle the outcome, note the run.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt as _;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::level_filters::LevelFilter;
use tracing::{Instrument as _, Span};
use windlass_indexer::{Lister, ObjectKey};
use windlass_workqueue::{Add, Lease, MAX_DELAY};

use crate::RunContext;
use crate::cause::Cause;
use crate::context::Tools;
use crate::controller::Queue;
use crate::error::{Class, Error};
use crate::expectations::Pending;
use crate::journal::{Journal, Outcome, Run};
use crate::priority::PriorityPolicy;
use crate::reconcile::ErasedReconcile;
use crate::report::RunOf;
use crate::running::{LongRun, Running};
use crate::tally::Tally;
use crate::verdict::Verdict;
use crate::write::Write;

/// How long after a write its key still waits for the caches to show it.
const CACHE_WAIT: Duration = Duration::from_secs(5);

/// How much of that the worker waits, too, since it mostly takes no longer. After that the key is
/// put aside, so that a watch that is late does not keep other keys waiting. A cache of which it is
/// not certain that it will ever show the write is not waited for any longer than this.
const WORKER_WAIT: Duration = Duration::from_millis(100);

/// How long a key that was put aside stays there.
const ASIDE: Duration = Duration::from_millis(100);

/// What all workers of a controller have.
pub(crate) struct Work<K> {
    pub(crate) tools: Arc<Tools>,
    pub(crate) reconciler: Box<dyn ErasedReconcile<K>>,
    pub(crate) objects: Lister<K>,
    pub(crate) queue: Queue,
    pub(crate) priority: PriorityPolicy,
    pub(crate) timeout: Option<Duration>,
    pub(crate) running: Running,
    pub(crate) journal: Journal,
    pub(crate) tally: Tally,
}

/// A key in the hands of a worker.
type Taken<'q> = Lease<'q, ObjectKey, Cause>;

impl<K: DeserializeOwned + Send + Sync + 'static> Work<K> {
    /// Takes keys until the queue is shut down and empty. Once `stop` is cancelled, no key is run:
    /// whoever starts next sees every object again.
    pub(crate) async fn drain(&self, stop: &CancellationToken) {
        while let Some(lease) = self.queue.get().await {
            self.serve(lease, stop).await;
        }
    }

    /// Runs a key when the caches show what its last runs have written, unless it is put aside until then.
    async fn serve(&self, lease: Taken<'_>, stop: &CancellationToken) {
        let caught_up = match self.tools.expectations.take(lease.key()) {
            None => Some((lease, false)),
            Some(pending) => {
                stop.run_until_cancelled(self.catch_up(lease, pending)).await.flatten()
            }
        };
        if let Some((lease, is_behind)) = caught_up
            && !stop.is_cancelled()
        {
            self.run(lease, is_behind).await;
        }
    }

    /// Waits for the caches to show what the last runs of a key have written. Returns the key, and
    /// whether a cache is behind, or may be; `None` if the key was put aside until later.
    async fn catch_up<'q>(
        &self,
        lease: Taken<'q>,
        mut pending: Pending,
    ) -> Option<(Taken<'q>, bool)> {
        let deadline = pending.since + WORKER_WAIT;
        let waited = timeout_at(deadline, async {
            for recorded in &pending.writes {
                for behind in self.tools.sources.behind(recorded) {
                    if behind.is_certain(&recorded.written) {
                        behind.wait_until_seen(&recorded.written, recorded.write.answered).await;
                    }
                }
            }
        });
        let is_late = waited.await.is_err();
        if pending.writes.iter().all(|recorded| self.tools.is_seen(recorded)) {
            return Some((lease, pending.has_unknown));
        }
        let now = Instant::now();
        if !is_late && now < deadline {
            // Only caches that may never show the object are missing. Free the worker, and look again
            // at the deadline.
            self.tools.expectations.put_back(lease.key(), pending);
            let _ = lease.defer(deadline - now);
            return None;
        }
        let Pending { writes, has_unknown, .. } = &mut pending;
        writes.retain(|recorded| {
            let behind = self.tools.sources.behind(recorded);
            // Only caches with field selectors lack this write, and nobody can tell whether they select
            // the object: stop waiting for it.
            let is_uncertain = !behind.is_empty()
                && !behind.iter().any(|cache| cache.is_certain(&recorded.written));
            *has_unknown |= is_uncertain && now < recorded.write.answered + CACHE_WAIT;
            !is_uncertain
        });
        pending.forget_seen(|recorded| self.tools.is_seen(recorded));
        if !pending.writes.is_empty() && now < pending.since + CACHE_WAIT {
            self.tools.expectations.put_back(lease.key(), pending);
            // A queue that is shut down has no later.
            let _ = lease.defer(ASIDE);
            return None;
        }
        let is_behind = pending.has_unknown || !pending.writes.is_empty();
        // A lost answer is reported once: waiting longer would tell no more.
        pending.has_unknown = false;
        self.tools.expectations.put_back(lease.key(), pending);
        Some((lease, is_behind))
    }

    /// Mentions runs that take long in the log, for ever.
    pub(crate) async fn warn_while_running(&self) -> Infallible {
        let controller = &self.tools.controller;
        let warn = |run: &LongRun| {
            RunOf { controller, key: &run.key, attempt: run.attempt }.report_long(run.took);
        };
        self.running.warn_while_running(warn).await
    }

    async fn run(&self, lease: Taken<'_>, is_behind: bool) {
        let (started, queued) = (Instant::now(), lease.queued());
        let cx = self.context(&lease, started, is_behind);
        let verdict = {
            let _under_way = self.running.enter(&cx.key, cx.attempt, started);
            let called = pin!(self.call(&cx));
            let span = span_of(&cx);
            // One that nobody listens to is not even entered.
            if span.is_disabled() { called.await } else { called.instrument(span).await }
        };
        let took = started.elapsed();
        let mut outcome = Outcome::of(&verdict);
        // All of this before the key may run again, on another worker.
        let log = cx.recording.get().map(|(_, log)| log.close());
        let (kept, pending) = log.unwrap_or_default();
        self.tools.expect_writes(&cx.key, pending);
        let RunContext { key, causes, causes_omitted, attempt, .. } = cx;
        let run = Run {
            started,
            queued,
            took,
            attempt,
            causes,
            causes_omitted,
            outcome: outcome.clone(),
            writes: kept.writes,
            writes_omitted: kept.omitted,
        };
        let noted = self.journal.write(&key, run);
        if let Some(retry_in) = self.settle(lease, attempt, &verdict) {
            outcome.set_retry(retry_in);
            self.journal.set_retry(&key, noted.number, retry_in);
        }
        self.tally.count(&outcome, took, is_behind);
        let of = RunOf { controller: &self.tools.controller, key: &key, attempt };
        of.report(&outcome, took, noted.is_repeated);
        if let Some(circles) = noted.circles
            && of.report_circles(&circles)
        {
            self.tally.hot_loop();
        }
    }

    fn context(&self, lease: &Taken<'_>, started: Instant, is_behind: bool) -> RunContext {
        // Not collected: mostly it is one, and then all the ways to make room for more are for nothing.
        let mut causes = Vec::with_capacity(1);
        lease.causes().for_each(|cause| causes.push(cause.clone()));
        let is_valid = |write: &Write| !self.tools.sources.is_restored_since(write);
        self.journal.ascribe(lease.key(), &mut causes, is_valid);
        RunContext {
            tools: Arc::clone(&self.tools),
            key: lease.key().clone(),
            causes,
            causes_omitted: lease.causes_omitted(),
            attempt: self.queue.failures(lease.key()) + 1,
            deadline: self.timeout.map(|timeout| started + timeout),
            is_behind,
            recording: OnceLock::new(),
        }
    }

    /// Calls the reconciler, within its time. Whatever of the user's panics, as its error when it is shown, is caught.
    async fn call(&self, cx: &RunContext) -> Verdict {
        let called = async {
            // By its handle, which leaves the hot set to those who read: most objects have changed before they run
            // again.
            match self.objects.cached(cx.key()).map(|object| object.get()) {
                Some(Ok(object)) => self.reconciler.reconcile(object, cx).await,
                None => self.reconciler.absent(cx).await,
                Some(Err(error)) => Err(Error::undecodable(error)),
            }
        };
        // Dropping a run that took too long is code of the user's, too: if that panics, it was still too long.
        let is_over = AtomicBool::new(false);
        let judged = async {
            let Some(limit) = self.timeout else { return Verdict::of(called.await) };
            // Pinned, so that it is dropped after this is noted.
            tokio::pin! {
                let limited = timeout(limit, called);
            }
            if let Ok(returned) = limited.as_mut().await {
                return Verdict::of(returned);
            }
            is_over.store(true, Ordering::Relaxed);
            Verdict::TimedOut
        };
        let caught = AssertUnwindSafe(judged).catch_unwind().await;
        caught.unwrap_or_else(|panic| {
            let is_over = is_over.load(Ordering::Relaxed);
            if is_over { Verdict::TimedOut } else { Verdict::panicked(&*panic) }
        })
    }

    /// Does with the key what the verdict asks for. Returns when it is tried again, if it is.
    fn settle(&self, lease: Taken<'_>, attempt: u32, verdict: &Verdict) -> Option<Duration> {
        match verdict {
            Verdict::Done => lease.finish(),
            Verdict::RequeueAfter(delay) => {
                let key = lease.key().clone();
                let priority = self.priority.of(&self.tools.controller, &key, &Cause::Timer);
                let add =
                    Add::after((*delay).min(MAX_DELAY)).priority(priority).cause(Cause::Timer);
                // Fails only after shut-down, when nobody needs the key. Before the end of the run, so
                // that the queue is never idle in between.
                let _ = self.queue.add_with(key, add);
                lease.finish();
            }
            // The failures stay, to be seen; the next event is the next try.
            Verdict::Failed { class: Class::Terminal | Class::Undecodable, .. } => drop(lease),
            Verdict::Failed { delay: Some(delay), .. } => {
                let delay = delay.after(attempt.saturating_sub(1)).min(MAX_DELAY);
                return Some(lease.retry_after(delay).map_or(Duration::ZERO, |()| delay));
            }
            Verdict::Failed { .. } | Verdict::Panicked(_) | Verdict::TimedOut => {
                return Some(lease.retry().unwrap_or_default());
            }
        }
        None
    }
}

/// The span of a run. Without a subscriber it is not even made, nor told to `log`, as `tracing` would with a feature of kube's.
fn span_of(cx: &RunContext) -> Span {
    if LevelFilter::current() < LevelFilter::INFO {
        return Span::none();
    }
    tracing::info_span!(
        "reconcile",
        controller = cx.controller(),
        key = %cx.key,
        attempt = cx.attempt,
        cause = cx.causes.last().map(tracing::field::display),
    )
}
