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

use crate::Context;
use crate::baton::Baton;
use crate::cause::Cause;
use crate::context::Tools;
use crate::controller::Queue;
use crate::error::{Class, Error};
use crate::journal::{Journal, Outcome, Run};
use crate::priority::PriorityPolicy;
use crate::reconcile::ErasedReconcile;
use crate::report::RunOf;
use crate::running::{LongRun, Running};
use crate::tally::Tally;
use crate::unseen::Pending;
use crate::verdict::Verdict;

/// How long after a write its key still waits for the caches to show it.
const CACHE_WAIT: Duration = Duration::from_secs(5);

/// How much of that a worker waits along, since it mostly takes no longer. After that the key is put aside, so that a
/// watch that is late does not keep other keys waiting.
const WORKER_WAIT: Duration = Duration::from_millis(100);

/// How long a key that was put aside stays there.
const ASIDE: Duration = Duration::from_millis(100);

/// What all workers of a controller have.
pub(crate) struct Work<K> {
    pub(crate) tools: Arc<Tools>,
    pub(crate) reconciler: Box<dyn ErasedReconcile<K>>,
    pub(crate) objects: Lister<K>,
    pub(crate) queue: Queue,
    pub(crate) baton: Baton,
    pub(crate) priority: PriorityPolicy,
    pub(crate) timeout: Option<Duration>,
    pub(crate) running: Running,
    pub(crate) journal: Journal,
    pub(crate) tally: Tally,
}

/// A key in the hands of a worker.
type Taken<'q> = Lease<'q, ObjectKey, Cause>;

impl<K: DeserializeOwned + Send + Sync + 'static> Work<K> {
    /// Takes keys until the queue is shut down and empty. From when `stop` is cancelled on, none of them is run:
    /// whoever comes next sees every object again.
    pub(crate) async fn drain(&self, stop: &CancellationToken) {
        let mut kept = None;
        loop {
            let turn = match kept {
                Some(turn) => turn,
                None => self.baton.take().await,
            };
            let Some(lease) = self.queue.get().await else { return };
            // Nobody else waits for keys meanwhile, and so nobody has to be told of what this finds due.
            let line = || self.queue.len();
            kept = self.baton.carry(turn, line, pin!(self.serve(lease, stop))).await;
        }
    }

    /// Runs a key when the caches show what its last runs have written, unless it is put aside until then.
    async fn serve(&self, lease: Taken<'_>, stop: &CancellationToken) {
        let caught_up = match self.tools.unseen.take(lease.key()) {
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

    /// Waits for the caches to show what the last runs of a key have written. Returns the key, and whether they still do
    /// not; nothing, if it was put aside until later.
    async fn catch_up<'q>(
        &self,
        lease: Taken<'q>,
        mut pending: Pending,
    ) -> Option<(Taken<'q>, bool)> {
        let waited = timeout_at(pending.since + WORKER_WAIT, async {
            for recorded in &pending.writes {
                for behind in self.tools.sources.behind(recorded) {
                    behind.seen(&recorded.written).await;
                }
            }
        });
        if waited.await.is_ok() {
            return Some((lease, pending.has_unknown));
        }
        pending.forget_seen(|recorded| self.tools.is_seen(recorded));
        let is_over = Instant::now() >= pending.since + CACHE_WAIT;
        // Whether an answer that was lost was one to a write is told once: nobody can know more later.
        pending.has_unknown &= !is_over;
        self.tools.unseen.put_back(lease.key(), pending);
        if is_over {
            return Some((lease, true));
        }
        // A queue that is shut down has no later.
        let _ = lease.defer(ASIDE);
        None
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
        self.tools.put_unseen(&cx.key, pending);
        let Context { key, causes, attempt, .. } = cx;
        let run = Run {
            started,
            queued,
            took,
            attempt,
            causes,
            outcome: outcome.clone(),
            writes: kept.writes,
            writes_omitted: kept.omitted,
        };
        let noted = self.journal.write(&key, run);
        if let Some(retry_in) = self.settle(lease, &verdict) {
            outcome.is_retried_in(retry_in);
            self.journal.is_retried_in(&key, noted.number, retry_in);
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

    fn context(&self, lease: &Taken<'_>, started: Instant, is_behind: bool) -> Context {
        // Not collected: mostly it is one, and then all the ways to make room for more are for nothing.
        let mut causes = Vec::with_capacity(1);
        lease.causes().for_each(|cause| causes.push(cause.clone()));
        self.journal.ascribe(lease.key(), &mut causes);
        Context {
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
    async fn call(&self, cx: &Context) -> Verdict {
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
    fn settle(&self, lease: Taken<'_>, verdict: &Verdict) -> Option<Duration> {
        match verdict {
            Verdict::Done => lease.finish(),
            Verdict::RequeueAfter(delay) => {
                let key = lease.key().clone();
                lease.finish();
                let priority = self.priority.of(&self.tools.controller, &key, &Cause::Timer);
                let add =
                    Add::after((*delay).min(MAX_DELAY)).priority(priority).cause(Cause::Timer);
                // A queue that is shut down has no later.
                let _ = self.queue.add_with(key, add);
            }
            // The failures stay, to be seen; the next event is the next try.
            Verdict::Failed { class: Class::Terminal | Class::Undecodable, .. } => drop(lease),
            Verdict::Failed { delay: Some(delay), .. } => {
                let delay = (*delay).min(MAX_DELAY);
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
fn span_of(cx: &Context) -> Span {
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
