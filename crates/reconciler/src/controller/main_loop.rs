//! Running a controller: it waits for its caches, and then workers take keys until it is to stop.

use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::Fuse;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use windlass_indexer::ObjectType;

use super::Controller;
use crate::controller::run_error::RunError;
use crate::error::list;
use crate::shutdown::Shutdown;
use crate::sources::key_stream::KeyStream;

/// How long a controller that stops waits for its events to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a controller waits after a failover for its caches to show what the last leader has
/// written. As long as a key waits for what its own run has written.
const CATCH_UP_WAIT: Duration = Duration::from_secs(5);

/// How long the runs under way may go on if the controller cannot continue.
const BROKEN_GRACE: Duration = Duration::from_secs(30);

/// How long to wait for cancelled runs to end. A run ends when it next awaits something.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);

impl<K: ObjectType> Controller<K> {
    /// Runs the controller until `shutdown` begins, and then waits for the runs that are under way.
    /// It starts its informers, and waits until all of their caches and handlers are synced before
    /// the first run. `shutdown` may be a `CancellationToken`.
    ///
    /// A controller can run again after it has ended. Meanwhile its queue collects keys, because
    /// the informers go on. To stop them, shut down their factory.
    ///
    /// # Errors
    /// Returns an error if a cache does not sync in time, if an informer or a stream breaks, or if
    /// the controller runs already.
    ///
    /// # Cancel safety
    /// If it is dropped, the runs that are under way are cancelled, and the controller cannot run
    /// again.
    pub async fn run(&self, shutdown: impl Into<Shutdown>) -> Result<(), RunError> {
        self.run_after(false, shutdown.into()).await
    }

    /// As [`run`](Self::run), in the place of another process that has written what this controller
    /// writes: after a failover to a replica whose caches may not show those writes yet.
    ///
    /// Before the first run, every cache is compared with a consistent list of metadata, and the
    /// controller waits until it shows what that list has, at most 5 s. The runs that begin after
    /// that, and before the caches have caught up, report
    /// [`cache_behind`](crate::RunContext::cache_behind). A cache that cannot be compared leaves
    /// the others in use.
    ///
    /// # Errors
    /// As [`run`](Self::run). A list that fails is repeated, and is no error.
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn take_over(&self, shutdown: impl Into<Shutdown>) -> Result<(), RunError> {
        self.run_after(true, shutdown.into()).await
    }

    async fn run_after(&self, is_failover: bool, shutdown: Shutdown) -> Result<(), RunError> {
        self.mark_running()?;
        for source in self.core().sources.all() {
            source.set_catching_up(is_failover);
        }
        let controller = self.name();
        tracing::info!(
            controller,
            workers = self.core().workers,
            watches = self.watched(),
            "starting"
        );
        let mut catching_up = pin!(self.catch_up().fuse());
        let ready = async {
            self.wait_for_sync().await?;
            if is_failover && timeout(CATCH_UP_WAIT, &mut catching_up).await.is_err() {
                let caches = self.core().sources.all();
                let behind = caches.iter().filter(|source| source.is_catching_up());
                let caches = list(behind.map(|source| source.cache.resource()));
                tracing::warn!(
                    controller,
                    caches,
                    "runs begin although these caches may not show what the last leader has written"
                );
            }
            Ok(())
        };
        let ran = tokio::select! {
            biased;
            () = shutdown.token().cancelled() => Ok(()),
            ready = ready => match ready {
                Ok(()) => self.work_until(&shutdown, catching_up).await,
                Err(error) => Err(error),
            },
        };
        // Events are best effort: an unreachable server does not keep a process from ending.
        let _ = timeout(FLUSH_TIMEOUT, self.recorder().flush()).await;
        self.is_running.store(false, Ordering::Release);
        tracing::info!(controller, runs = self.core().journal.counts().runs(), "stopped");
        ran
    }

    /// Marks the controller as running. Fails if it is marked already.
    pub(super) fn mark_running(&self) -> Result<(), RunError> {
        let is_running = self.is_running.swap(true, Ordering::AcqRel);
        if is_running { Err(RunError::AlreadyRuns) } else { Ok(()) }
    }

    /// The resources of its sources, for a log line.
    fn watched(&self) -> String {
        list(self.core().sources.all().iter().map(|source| source.cache.resource()))
    }

    /// Runs the workers until the shutdown begins, or something breaks that they depend on.
    async fn work_until(
        &self,
        shutdown: &Shutdown,
        mut catching_up: Pin<&mut Fuse<impl Future<Output = ()>>>,
    ) -> Result<(), RunError> {
        // Also cancelled if something breaks, so that no run begins with stale caches.
        let stop = &shutdown.token().child_token();
        self.core().retired_children.reset();
        let mut workers = self.start_workers(stop, shutdown);
        let mut watchdog = JoinSet::new();
        let core = Arc::clone(&self.work.core);
        watchdog.spawn(async move {
            core.running.warn_while_running(|run| core.log_long_run(run)).await
        });
        let mut streams = JoinSet::new();
        self.start_streams(&mut streams, stop);
        // Workers catch the panics of reconcilers, so a panic of a worker is a bug of this crate.
        // It is passed on after the other runs have ended.
        let mut worker_panic = None;
        let ended = loop {
            tokio::select! {
                // First, because streams that have stopped must not be started again.
                biased;
                () = stop.cancelled() => break Ok(()),
                failure = self.core().factory.wait_for_failure() => {
                    break Err(RunError::Broke(failure));
                }
                () = &mut catching_up => {}
                () = self.core().streams.wait_for_more() => self.start_streams(&mut streams, stop),
                Some(ended) = streams.join_next() => match ended {
                    Ok(stream) => self.keep_stream(stream),
                    Err(_) => break Err(RunError::StreamPanicked),
                },
                // A worker that did not panic ends only if the user has shut the queue down.
                Some(ended) = workers.join_next() => {
                    worker_panic = ended.err();
                    break Ok(());
                }
                Some(ended) = watchdog.join_next() => {
                    worker_panic = ended.err();
                    break Ok(());
                }
            }
        };
        let controller = self.name();
        if let Err(error) = &ended {
            tracing::error!(controller, "the controller stops: {error}");
        }
        if worker_panic.is_some() {
            tracing::error!(controller, "the controller stops: one of its tasks panicked");
        }
        let is_broken = ended.is_err() || worker_panic.is_some();
        stop.cancel();
        while let Some(stream) = streams.join_next().await {
            self.keep_stream(stream.ok().flatten());
        }
        // The watchdog goes on while the last runs end.
        let drained = self.drain(&mut workers, &mut worker_panic, shutdown, is_broken).await;
        watchdog.shutdown().await;
        // Runs that could not be cancelled go on. That error takes precedence over the one in
        // `ended`, which was logged above.
        drained?;
        if let Some(panic) = worker_panic {
            resume_panic(panic);
        }
        ended
    }

    /// Waits for the runs that are under way, and cancels them when their time is over. A panic of
    /// a worker is kept in `worker_panic`.
    async fn drain(
        &self,
        workers: &mut JoinSet<()>,
        worker_panic: &mut Option<JoinError>,
        shutdown: &Shutdown,
        is_broken: bool,
    ) -> Result<(), RunError> {
        let end = async {
            while let Some(ended) = workers.join_next().await {
                *worker_panic = worker_panic.take().or(ended.err());
            }
        };
        let give_up = async {
            tokio::select! {
                biased;
                () = shutdown.wait_for_deadline() => {}
                () = sleep(BROKEN_GRACE), if is_broken => {}
            }
        };
        tokio::select! {
            biased;
            () = end => Ok(()),
            () = give_up => self.cancel_runs(workers).await,
        }
    }

    pub(super) fn start_workers(
        &self,
        stop: &CancellationToken,
        shutdown: &Shutdown,
    ) -> JoinSet<()> {
        let mut workers = JoinSet::new();
        for _ in 0..self.core().workers {
            let work = Arc::clone(&self.work);
            let stop = stop.clone();
            let shutdown = shutdown.clone();
            workers.spawn(async move { work.run_worker(&stop, &shutdown).await });
        }
        workers
    }

    /// Starts a task for each stream that has none yet.
    fn start_streams(&self, tasks: &mut JoinSet<Option<KeyStream>>, stop: &CancellationToken) {
        for stream in self.core().streams.take_waiting() {
            let enqueuer = self.core().enqueuer.clone();
            let objects = self.lister().reader().clone();
            tasks.spawn(stream.enqueue_all(enqueuer, objects, stop.clone()));
        }
    }

    /// Keeps a stream that has not ended for the next time that the controller runs.
    fn keep_stream(&self, stream: Option<KeyStream>) {
        if let Some(stream) = stream {
            self.core().streams.add(stream);
        }
    }

    /// Cancels the runs under way. A run that blocks its thread cannot be cancelled: it is left
    /// alone, and that is an error.
    async fn cancel_runs(&self, workers: &mut JoinSet<()>) -> Result<(), RunError> {
        let keys = self.running_keys();
        tracing::warn!(
            controller = self.name(),
            keys,
            "runs are cancelled: the grace period is over"
        );
        workers.abort_all();
        let ended = async { while workers.join_next().await.is_some() {} };
        if timeout(CANCEL_TIMEOUT, ended).await.is_ok() {
            return Ok(());
        }
        workers.detach_all();
        Err(RunError::NotCancelled { keys: self.running_keys() })
    }

    fn running_keys(&self) -> String {
        list(self.core().running.keys())
    }
}

/// Resumes the panic of a task. Does nothing if the task was cancelled.
pub(super) fn resume_panic(ended: JoinError) {
    if let Ok(panic) = ended.try_into_panic() {
        resume_unwind(panic);
    }
}
