//! Running a controller: it waits for its caches, and then workers take keys until it is to stop.

use std::convert::Infallible;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use windlass_workqueue::{Add, KeyStatus};

use super::Controller;
use crate::bounds::ObjectType;
use crate::cause::Cause;
use crate::key_stream::KeyStream;
use crate::plan::{InPlan, Plan, PlanBook};
use crate::run_error::RunError;
use crate::shutdown::Shutdown;
use crate::source::Source;

/// How often a controller that waits for a cache repeats why the cache cannot sync.
const TROUBLE_EVERY: Duration = Duration::from_secs(10);

/// How long a controller that stops waits for its events to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Longer sync timeouts are capped at this, because adding them to an `Instant` may overflow.
const SYNC_TIMEOUT_MAX: Duration = Duration::from_hours(24 * 365);

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
        self.begin()?;
        let (shutdown, controller, workers) = (shutdown.into(), self.name(), self.tools().workers);
        tracing::info!(controller, workers, watches = self.watched(), "starting");
        let ran = tokio::select! {
            () = shutdown.token().cancelled() => Ok(()),
            synced = self.wait_for_sync() => match synced {
                Ok(()) => self.work_until(&shutdown).await,
                Err(error) => Err(error),
            },
        };
        // Events are best effort: an unreachable server does not keep a process from ending.
        let _ = timeout(FLUSH_TIMEOUT, self.recorder().flush()).await;
        self.is_running.store(false, Ordering::Release);
        tracing::info!(controller, runs = self.tools().journal.counts().runs(), "stopped");
        ran
    }

    /// Marks the controller as running. Fails if it is marked already.
    fn begin(&self) -> Result<(), RunError> {
        let is_running = self.is_running.swap(true, Ordering::AcqRel);
        if is_running { Err(RunError::AlreadyRuns) } else { Ok(()) }
    }

    /// The resources of its sources, for a log line.
    fn watched(&self) -> String {
        let sources = self.tools().sources.all();
        let names = sources.iter().map(|source| source.resource().to_string());
        names.collect::<Vec<_>>().join(", ")
    }

    /// Runs the workers until the shutdown begins, or something breaks that they depend on.
    async fn work_until(&self, shutdown: &Shutdown) -> Result<(), RunError> {
        // Also cancelled if something breaks, so that no run begins with stale caches.
        let stop = &shutdown.token().child_token();
        let mut workers = self.start_workers(stop, shutdown);
        let mut watchdog = JoinSet::new();
        let tools = Arc::clone(&self.work.tools);
        watchdog.spawn(async move {
            tools.running.warn_while_running(|run| tools.log_long_run(run)).await
        });
        let mut streams = JoinSet::new();
        self.start_streams(&mut streams, stop);
        // Workers catch the panics of reconcilers, so a panic of a worker is a bug of this crate.
        // It is passed on after the other runs have ended.
        let mut bug = None;
        let ended = loop {
            tokio::select! {
                // First, because streams that have stopped must not be started again.
                biased;
                () = stop.cancelled() => break Ok(()),
                failure = self.wiring.factory.wait_for_failure() => {
                    break Err(RunError::Broke(failure));
                }
                () = self.handle.streams.wait_for_more() => self.start_streams(&mut streams, stop),
                Some(ended) = streams.join_next() => match ended {
                    Ok(stream) => self.keep_stream(stream),
                    Err(_) => break Err(RunError::StreamPanicked),
                },
                // A worker that did not panic ends only if the user has shut the queue down.
                Some(ended) = workers.join_next() => {
                    bug = ended.err();
                    break Ok(());
                }
                Some(ended) = watchdog.join_next() => {
                    bug = ended.err();
                    break Ok(());
                }
            }
        };
        if let Err(error) = &ended {
            tracing::error!(controller = self.name(), "the controller stops: {error}");
        }
        stop.cancel();
        while let Some(stream) = streams.join_next().await {
            self.keep_stream(stream.ok().flatten());
        }
        // The watchdog goes on while the last runs end.
        let drain = async {
            while let Some(ended) = workers.join_next().await {
                bug = bug.take().or(ended.err());
            }
        };
        let is_broken = ended.is_err();
        let give_up = async {
            tokio::select! {
                () = shutdown.wait_for_deadline() => {}
                () = sleep(BROKEN_GRACE), if is_broken => {}
            }
        };
        let drained = tokio::select! {
            () = drain => Ok(()),
            () = give_up => self.cancel_runs(&mut workers).await,
        };
        watchdog.shutdown().await;
        // Runs that could not be cancelled go on. That error takes precedence over the one in
        // `ended`, which was logged above.
        drained?;
        if let Some(bug) = bug {
            pass_on(bug);
        }
        ended
    }

    /// What the controller would do to the cluster as it is now: runs every key once, with all
    /// writes as server-side dry runs, and returns the differences. Nothing is stored.
    ///
    /// - The server defaults, validates and admits each write as usual. So a plan also shows what
    ///   it would refuse. The account needs the same rights, and `get` on what it patches.
    /// - Each write is compared with the object as it is stored. What a run reads after a write is
    ///   not changed by it, and no run is woken by another: the plan is the first step of what
    ///   would happen, not where it ends. Its events are not published.
    /// - A run that fails is part of the plan. Retries and requeues are not.
    ///
    /// Afterwards, the controller cannot run: build another one.
    ///
    /// ```
    /// # use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
    /// # use windlass_informer::SharedInformerFactory;
    /// # use windlass_reconciler::{Action, Controller, Error, InPlan};
    /// # use windlass_reconciler::{Reconcile, RunContext, Watch};
    /// # struct Scaler;
    /// # impl Reconcile<Deployment> for Scaler {
    /// #     async fn reconcile(
    /// #         &self,
    /// #         _: std::sync::Arc<Deployment>,
    /// #         _: &RunContext,
    /// #     ) -> Result<Action, Error> {
    /// #         Ok(Action::Done)
    /// #     }
    /// # }
    /// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = Controller::of(Watch::<Deployment>::new()).in_plan(InPlan::Run);
    /// let controller = builder.build(&SharedInformerFactory::new(client), Scaler)?;
    /// println!("{}", controller.plan().await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the controller has not said by
    /// [`in_plan`](crate::ControllerBuilder::in_plan) what it does, or has run already, and if a
    /// cache does not sync in time.
    ///
    /// # Cancel safety
    /// If it is dropped, the runs that are under way are cancelled.
    pub async fn plan(&self) -> Result<Plan, RunError> {
        match self.in_plan {
            None => return Err(RunError::NotInPlan),
            Some(InPlan::Skip) => return Ok(Plan::skipped(self.name())),
            Some(InPlan::Run) => {}
        }
        // It never ends, so `run` is refused from now on: the queue is shut down below.
        self.begin()?;
        let book = self.tools().plan.get_or_init(PlanBook::default);
        self.wait_for_sync().await?;
        // The handlers have enqueued what the caches have. In a plan, delayed keys run at once.
        let is_delayed = |status: &KeyStatus<_, _>| {
            status.next_run.as_ref().is_some_and(|run| run.due.is_some())
        };
        for status in self.queue().snapshot().keys.into_iter().filter(is_delayed) {
            self.tools().enqueuer.add(status.key, Add::now(), Cause::Timer);
        }
        // The workers end when all keys have run.
        self.queue().shut_down();
        let mut workers = self.start_workers(&CancellationToken::new(), &Shutdown::new());
        while let Some(ended) = workers.join_next().await {
            ended.unwrap_or_else(pass_on);
        }
        Ok(book.finish(self.name()))
    }

    fn start_workers(&self, stop: &CancellationToken, shutdown: &Shutdown) -> JoinSet<()> {
        let mut workers = JoinSet::new();
        for _ in 0..self.tools().workers {
            let (work, stop, shutdown) = (Arc::clone(&self.work), stop.clone(), shutdown.clone());
            workers.spawn(async move { work.run_worker(&stop, &shutdown).await });
        }
        workers
    }

    /// Starts a task for each stream that has none yet.
    fn start_streams(&self, tasks: &mut JoinSet<Option<KeyStream>>, stop: &CancellationToken) {
        for stream in self.handle.streams.take_waiting() {
            let (enqueuer, objects) =
                (self.tools().enqueuer.clone(), self.lister().reader().clone());
            tasks.spawn(stream.enqueue_all(enqueuer, objects, stop.clone()));
        }
    }

    /// Keeps a stream that has not ended for the next time that the controller runs.
    fn keep_stream(&self, stream: Option<KeyStream>) {
        if let Some(stream) = stream {
            self.handle.streams.add(stream);
        }
    }

    /// Cancels the runs under way. A run that blocks its thread cannot be cancelled: it is left
    /// alone, and that is an error.
    async fn cancel_runs(&self, workers: &mut JoinSet<()>) -> Result<(), RunError> {
        let (controller, keys) = (self.name(), self.running_keys());
        tracing::warn!(controller, keys, "runs are cancelled: the grace period is over");
        workers.abort_all();
        let ended = async { while workers.join_next().await.is_some() {} };
        if timeout(CANCEL_TIMEOUT, ended).await.is_ok() {
            return Ok(());
        }
        workers.detach_all();
        Err(RunError::NotCancelled { keys: self.running_keys() })
    }

    fn running_keys(&self) -> String {
        let keys = self.tools().running.keys();
        keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    /// Starts the informers, and waits until all of their caches and handlers are synced, at most
    /// for the [sync timeout](crate::ControllerBuilder::sync_timeout).
    ///
    /// # Errors
    /// Returns an error if a cache does not sync in time, or an informer has stopped.
    ///
    /// # Cancel safety
    /// If it is dropped, the informers go on.
    pub async fn wait_for_sync(&self) -> Result<(), RunError> {
        self.wiring.factory.start();
        let began = Instant::now();
        let deadline = began + self.sync_timeout.min(SYNC_TIMEOUT_MAX);
        let sources = self.tools().sources.all();
        for source in sources.into_iter().filter(|source| !source.is_late()) {
            let synced = async {
                tokio::select! {
                    synced = source.wait_for_sync() => synced,
                    never = self.warn_of_trouble(&source) => match never {},
                }
            };
            match timeout_at(deadline, synced).await {
                Ok(true) => {}
                // The source was removed meanwhile.
                Ok(false) if source.is_removed() => {}
                Ok(false) => return Err(RunError::ended(source.status())),
                Err(_) => return Err(RunError::not_synced(&source.status(), self.sync_timeout)),
            }
        }
        // Once: a manager waits for the caches before it runs the controller, which waits again.
        if !self.is_synced.swap(true, Ordering::Relaxed) {
            let (objects, took) = (self.lister().len(), began.elapsed());
            tracing::info!(controller = self.name(), objects, ?took, "the caches are complete");
        }
        Ok(())
    }

    /// Warns while the server refuses to list or watch a source. Never returns.
    async fn warn_of_trouble(&self, source: &Source) -> Infallible {
        let mut pause = Duration::from_secs(1);
        loop {
            sleep(pause).await;
            if let Some(trouble) = RunError::trouble(&source.status()) {
                let controller = &*self.tools().controller;
                tracing::warn!(controller, "no object is reconciled before the cache of {trouble}");
                pause = TROUBLE_EVERY;
            }
        }
    }
}

/// Passes a panic on; a cancelled task is none.
fn pass_on(ended: JoinError) {
    if let Ok(panic) = ended.try_into_panic() {
        resume_unwind(panic);
    }
}
