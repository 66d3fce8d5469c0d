//! A controller: informers whose events become keys in a queue, and workers that drain it.

use std::convert::Infallible;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use windlass_indexer::{Lister, ObjectKey};
use windlass_informer::{InformerCache, InformerStatus};
use windlass_workqueue::{Add, KeyStatus, WorkQueue};

use crate::bounds::ObjectType;
use crate::cause::Cause;
use crate::counts::Counts;
use crate::handle::ControllerHandle;
use crate::inactive::{InactiveKey, InactiveReason};
use crate::journal::{HotLoop, RecentRuns, Run};
use crate::key_stream::KeyStream;
use crate::late_sources::LateSources;
use crate::plan::{InPlan, Plan, PlanBook};
use crate::recorder::{Recorder, RecorderStatus};
use crate::run_error::RunError;
use crate::shutdown::Shutdown;
use crate::source::Source;
use crate::worker::Work;
use crate::write::Write;

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

/// A controller, ready to run. Built by [`Controller::of`](crate::ControllerBuilder).
pub struct Controller<K> {
    pub(crate) work: Arc<Work<K>>,
    /// Shared with the handles, which hold it weakly.
    pub(crate) late: Arc<LateSources>,
    pub(crate) handle: ControllerHandle,
    /// Whether all caches were complete once.
    pub(crate) is_synced: AtomicBool,
    pub(crate) workers: usize,
    pub(crate) in_plan: Option<InPlan>,
    pub(crate) sync_timeout: Duration,
}

/// The state of a controller.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ControllerStatus {
    /// Its name.
    pub controller: Arc<str>,
    /// How many keys run at once.
    pub workers: usize,
    /// How many keys run now.
    pub running: usize,
    /// If no worker is free: for how long at least, which is how long the youngest run has taken.
    pub all_busy_for: Option<Duration>,
    /// Keys that are ready and wait for a worker.
    pub ready: usize,
    /// Keys that do not run because their object is paused.
    pub paused: usize,
    /// Keys that do not run because they were given up.
    pub given_up: usize,
    /// Keys that do not run because their last run ended with a terminal error.
    pub terminal: usize,
    /// Counts of its runs.
    pub counts: Counts,
    /// Counts of the Kubernetes events that its runs recorded.
    pub events: RecorderStatus,
}

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
        let shutdown = shutdown.into();
        let streams = &self.handle.streams;
        if !streams.begin() {
            return Err(RunError::AlreadyRuns);
        }
        let controller = self.name();
        tracing::info!(controller, workers = self.workers, watches = self.watched(), "starting");
        let (ran, open_streams) = tokio::select! {
            () = shutdown.token().cancelled() => (Ok(()), Vec::new()),
            synced = self.wait_for_sync() => match synced {
                Ok(()) => self.work_until(&shutdown).await,
                Err(error) => (Err(error), Vec::new()),
            },
        };
        // Events are best effort: an unreachable server does not keep a process from ending.
        let _ = timeout(FLUSH_TIMEOUT, self.work.tools.recorder.flush()).await;
        streams.end(open_streams);
        tracing::info!(controller, runs = self.work.journal.counts().runs(), "stopped");
        ran
    }

    /// The resources of its sources, for a log line.
    fn watched(&self) -> String {
        let sources = self.work.tools.sources.all();
        let names = sources.iter().map(|source| source.resource().to_string());
        names.collect::<Vec<_>>().join(", ")
    }

    /// Runs the workers until the shutdown begins, or something breaks that they depend on. Returns
    /// the streams that have not ended.
    async fn work_until(&self, shutdown: &Shutdown) -> (Result<(), RunError>, Vec<KeyStream>) {
        // Also cancelled if something breaks, so that no run begins with stale caches.
        let stop = &shutdown.token().child_token();
        let mut workers = JoinSet::new();
        for _ in 0..self.workers {
            let (work, stop, shutdown) = (Arc::clone(&self.work), stop.clone(), shutdown.clone());
            workers.spawn(async move { work.run_worker(&stop, &shutdown).await });
        }
        let mut watchdog = JoinSet::new();
        let work = Arc::clone(&self.work);
        watchdog.spawn(async move { work.warn_while_running().await });
        let mut streams = JoinSet::new();
        self.start_streams(&mut streams, stop);
        // Workers catch the panics of reconcilers, so a panic of a worker is a bug of this crate.
        // It is passed on after the other runs have ended.
        let (mut bug, mut open_streams) = (None, Vec::new());
        let ended = loop {
            tokio::select! {
                () = stop.cancelled() => break Ok(()),
                failure = self.late.wiring.factory.wait_for_failure() => {
                    break Err(RunError::Broke(failure));
                }
                () = self.handle.streams.wait_for_more() => self.start_streams(&mut streams, stop),
                Some(ended) = streams.join_next() => match ended {
                    Ok(stream) => open_streams.extend(stream),
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
        stop.cancel();
        while let Some(stream) = streams.join_next().await {
            open_streams.extend(stream.ok().flatten());
        }
        // The watchdog goes on meanwhile.
        let last_run = async {
            while let Some(ended) = workers.join_next().await {
                bug = bug.take().or(ended.err());
            }
        };
        let is_broken = ended.is_err();
        if let Err(error) = &ended {
            tracing::error!(controller = self.name(), "the controller stops: {error}");
        }
        let give_up = async {
            tokio::select! {
                () = shutdown.wait_for_deadline() => {}
                () = sleep(BROKEN_GRACE), if is_broken => {}
            }
        };
        tokio::select! {
            () = last_run => {}
            () = give_up => {
                // This counts more than what broke, which is logged: the runs go on.
                if let Err(not_cancelled) = self.cancel_runs(&mut workers).await {
                    watchdog.shutdown().await;
                    return (Err(not_cancelled), open_streams);
                }
            }
        }
        if let Some(Ok(panic)) = bug.map(tokio::task::JoinError::try_into_panic) {
            resume_unwind(panic);
        }
        watchdog.shutdown().await;
        (ended, open_streams)
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
        // There is no matching `end`, so `run` is refused from now on: the queue is shut down
        // below.
        if !self.handle.streams.begin() {
            return Err(RunError::AlreadyRuns);
        }
        let book = self.work.plan.get_or_init(PlanBook::default);
        self.wait_for_sync().await?;
        // The handlers have enqueued what the caches have. In a plan, delayed keys run at once.
        let is_delayed = |status: &KeyStatus<_, _>| {
            status.next_run.as_ref().is_some_and(|run| run.due.is_some())
        };
        for status in self.queue().snapshot().keys.into_iter().filter(is_delayed) {
            self.work.enqueuer.add(status.key, Add::now(), Cause::Timer);
        }
        // The workers end when all keys have run.
        self.queue().shut_down();
        let mut workers = JoinSet::new();
        for _ in 0..self.workers {
            let work = Arc::clone(&self.work);
            workers.spawn(async move {
                work.run_worker(&CancellationToken::new(), &Shutdown::new()).await;
            });
        }
        while let Some(ended) = workers.join_next().await {
            if let Err(Ok(panic)) = ended.map_err(tokio::task::JoinError::try_into_panic) {
                resume_unwind(panic);
            }
        }
        Ok(book.finish(self.name()))
    }

    /// Starts a task for each stream that has none yet.
    fn start_streams(&self, tasks: &mut JoinSet<Option<KeyStream>>, stop: &CancellationToken) {
        for stream in self.handle.streams.take_waiting() {
            let objects = self.lister().reader().clone();
            tasks.spawn(stream.enqueue_all(self.work.enqueuer.clone(), objects, stop.clone()));
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
        let keys = self.work.running.keys();
        keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    /// The last runs of a key, the oldest first: when, why, how long, how it ended, what it wrote.
    pub fn runs(&self, key: &ObjectKey) -> Vec<Run> {
        self.work.journal.runs(key)
    }

    /// How often a key has run since this controller started. It begins again for a key that is
    /// forgotten because many others ran after it.
    pub fn run_count(&self, key: &ObjectKey) -> u64 {
        self.work.journal.run_count(key)
    }

    /// The last runs of all keys, the newest first, at most `limit`.
    pub fn recent_runs(&self, limit: usize) -> RecentRuns {
        self.work.journal.recent_runs(limit)
    }

    /// Calls `observer` with every write of a run that the server has answered, in the order of the
    /// answers, together with the key that ran. It is called before the run sees the answer, so it
    /// must be quick. Returns whether it was accepted: a controller has one observer.
    pub fn on_write(&self, observer: impl Fn(&ObjectKey, &Write) + Send + Sync + 'static) -> bool {
        self.work.tools.on_write.set(Box::new(observer))
    }

    /// Its caches. Each can tell whether it shows something that was written.
    pub fn caches(&self) -> Vec<InformerCache> {
        let sources = self.work.tools.sources.all();
        sources.iter().map(|source| source.cache().clone()).collect()
    }

    /// Records the Kubernetes events of its runs.
    pub fn recorder(&self) -> &Recorder {
        &self.work.tools.recorder
    }

    /// The cache of the objects that are reconciled.
    pub fn lister(&self) -> &Lister<K> {
        &self.work.objects
    }

    /// The queue, which knows the state of every key.
    pub fn queue(&self) -> &WorkQueue<ObjectKey, Cause> {
        &self.work.enqueuer.queue
    }

    /// What it has done, and how busy it is.
    pub fn status(&self) -> ControllerStatus {
        let tools = &self.work.tools;
        ControllerStatus {
            controller: Arc::clone(&tools.controller),
            workers: self.workers,
            running: self.work.running.keys().len(),
            all_busy_for: self.all_busy_for(),
            ready: self.queue().len(),
            paused: self.work.inactive.count(InactiveReason::Paused),
            given_up: self.work.inactive.count(InactiveReason::GivenUp),
            terminal: self.work.inactive.count(InactiveReason::Terminal),
            counts: self.work.journal.counts(),
            events: tools.recorder.status(),
        }
    }

    /// The state of its informers, the reconciled kind first. Each call computes how much memory
    /// they use, which takes longer the more objects there are.
    pub fn informers(&self) -> Vec<InformerStatus> {
        self.work.tools.sources.all().iter().map(|source| source.status()).collect()
    }

    /// The keys that do not run, because their object is paused, because they were given up, or
    /// because of a terminal error, in their order.
    pub fn inactive(&self) -> Vec<InactiveKey> {
        self.work.inactive.all()
    }

    /// The last runs of all keys that wrote something, the newest first, at most `limit`.
    pub fn writing_runs(&self, limit: usize) -> Vec<(ObjectKey, Run)> {
        self.work.journal.writing_runs(limit)
    }

    /// The keys that their own writes wake again and again, at most `limit`: those whose last ten
    /// runs or more were caused by nothing but the run before, and changed the same object again.
    pub fn hot_loops(&self, limit: usize) -> Vec<(ObjectKey, HotLoop)> {
        self.work.journal.hot_loops(limit)
    }

    /// The annotation that [pauses](crate::ControllerBuilder::paused_by) an object if its value is
    /// `true`; `None` if nothing does.
    pub fn pause_annotation(&self) -> Option<&str> {
        Some(self.work.pause.annotation()).filter(|name| !name.is_empty())
    }

    /// Whether the cached object of a key is paused. `false` if there is none.
    pub fn is_paused(&self, key: &ObjectKey) -> bool {
        self.lister().reader().get(key).is_some_and(|object| self.work.pause.is_paused(&object))
    }

    /// A handle that adds streams and sources while the controller runs, and shows its finished
    /// runs.
    pub fn handle(&self) -> ControllerHandle {
        self.handle.clone()
    }

    /// If no worker is free: for how long at least, which is how long the youngest run has taken.
    pub fn all_busy_for(&self) -> Option<Duration> {
        let durations = self.work.running.durations();
        durations.iter().min().copied().filter(|_| durations.len() >= self.workers)
    }

    /// Why a cache is not complete, and what to do about it. `None` if all of them are. Sources
    /// that were added later do not count.
    pub fn trouble(&self) -> Option<String> {
        let sources = self.work.tools.sources.all().into_iter();
        let unsynced = sources.filter(|source| !source.is_late() && !source.has_synced());
        let troubles = unsynced.map(|source| RunError::incomplete(&source.status()));
        let troubles: Vec<_> = troubles.collect();
        (!troubles.is_empty()).then(|| troubles.join("; "))
    }

    /// The name of the controller.
    pub fn name(&self) -> &str {
        &self.work.tools.controller
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
        self.late.wiring.factory.start();
        let began = Instant::now();
        let deadline = began + self.sync_timeout.min(SYNC_TIMEOUT_MAX);
        let sources = self.work.tools.sources.all();
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
                let controller = &*self.work.tools.controller;
                tracing::warn!(controller, "no object is reconciled before the cache of {trouble}");
                pause = TROUBLE_EVERY;
            }
        }
    }
}

impl<K> Drop for Controller<K> {
    /// Empties the queue, which would warn of keys that are left. No work is lost: a controller
    /// that starts later enqueues every object.
    fn drop(&mut self) {
        let queue = &self.work.enqueuer.queue;
        queue.shut_down();
        while let Some(key) = queue.try_get() {
            drop(key);
        }
    }
}

impl<K> fmt::Debug for Controller<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Controller").field(&self.work.tools.controller).finish()
    }
}
