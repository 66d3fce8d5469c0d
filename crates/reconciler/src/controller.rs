//! A controller: informers whose events become keys in a queue, and workers that drain it.

use std::convert::Infallible;
use std::fmt;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use windlass_indexer::{Cached, Lister, ObjectKey};
use windlass_informer::{Freshness, InformerError, InformerStatus, Life};
use windlass_workqueue::{Add, WorkQueue};

use crate::bounds::ObjectType;
use crate::cause::Cause;
use crate::counts::Counts;
use crate::enqueue::Enqueuer;
use crate::journal::{RecentRuns, Run};
use crate::recorder::{Recorder, RecorderStatus};
use crate::run_error::RunError;
use crate::shutdown::Shutdown;
use crate::source::{Source, SourceId};
use crate::watch::Watch;
use crate::wiring::Wiring;
use crate::worker::Work;
use crate::write::Write;

/// How often a controller that waits for a cache repeats why the cache cannot sync.
const TROUBLE_EVERY: Duration = Duration::from_secs(10);

/// How long a controller that stops waits for its events to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Longer sync timeouts are cut to this: a time that far ahead cannot be represented everywhere.
const SYNC_TIMEOUT_MAX: Duration = Duration::from_hours(24 * 365);

/// How long the runs under way may go on if the controller cannot continue.
const BROKEN_GRACE: Duration = Duration::from_secs(30);

/// How long cancelled runs may take to notice it.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);

/// A controller, ready to run. Built by [`Controller::of`](crate::ControllerBuilder).
pub struct Controller<K> {
    pub(crate) work: Arc<Work<K>>,
    pub(crate) wiring: Wiring,
    /// `None` while the controller runs.
    pub(crate) streams: Mutex<Option<Vec<KeyStream>>>,
    pub(crate) workers: usize,
    pub(crate) sync_timeout: Duration,
}

/// A stream of keys, with its name.
pub(crate) struct KeyStream {
    pub(crate) name: Arc<str>,
    pub(crate) keys: Pin<Box<dyn Stream<Item = ObjectKey> + Send>>,
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
    /// Counts of its runs.
    pub counts: Counts,
    /// Counts of the Kubernetes events that its runs recorded.
    pub events: RecorderStatus,
    /// The state of its informers.
    pub sources: Vec<InformerStatus>,
}

impl<K: ObjectType> Controller<K> {
    /// Runs the controller until `shutdown` begins, and then waits for the runs that are under way.
    /// It starts its informers, and waits until all of their caches and handlers are synced before
    /// the first run. `shutdown` may be a `CancellationToken`.
    ///
    /// A controller can run again after it has ended. Meanwhile its queue collects keys. The
    /// factory's informers go on in any case: shut it down where nobody needs them any more.
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
        let streams = self.streams().take().ok_or(RunError::AlreadyRuns)?;
        self.wiring.factory.start();
        let (ran, streams) = tokio::select! {
            () = shutdown.token().cancelled() => (Ok(()), streams),
            synced = self.wait_for_sync() => match synced {
                Ok(()) => self.work_until(&shutdown, streams).await,
                Err(error) => (Err(error), streams),
            },
        };
        // Events are best effort: an unreachable server does not keep a process from ending.
        let _ = timeout(FLUSH_TIMEOUT, self.work.tools.recorder.flush()).await;
        *self.streams() = Some(streams);
        ran
    }

    /// Runs the workers until the shutdown begins, or something breaks that they depend on. Returns
    /// the streams that have not ended.
    async fn work_until(
        &self,
        shutdown: &Shutdown,
        key_streams: Vec<KeyStream>,
    ) -> (Result<(), RunError>, Vec<KeyStream>) {
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
        for stream in key_streams {
            streams.spawn(enqueue_all(stream, self.work.enqueuer.clone(), stop.clone()));
        }
        // Workers catch the panics of reconcilers, so a panic of a worker is a bug of this crate.
        // It is passed on after the other runs have ended.
        let (mut bug, mut open_streams) = (None, Vec::new());
        let mut ended = loop {
            tokio::select! {
                () = stop.cancelled() => break Ok(()),
                failure = self.wiring.factory.wait_for_failure() => {
                    break Err(RunError::Broke(failure));
                }
                Some(ended) = streams.join_next() => match ended {
                    Ok(stream) => open_streams.extend(stream),
                    Err(_) => break Err(RunError::StreamPanicked),
                },
                // Without a bug: the user has shut the queue down.
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
        // The watchdog goes on until the last run has ended.
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
                let cancelled = self.cancel_runs(&mut workers).await;
                ended = ended.and(cancelled);
            }
        }
        if let Some(Ok(panic)) = bug.map(tokio::task::JoinError::try_into_panic) {
            resume_unwind(panic);
        }
        watchdog.shutdown().await;
        (ended, open_streams)
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

    /// Tells of each of its caches whether it is as new as something that was written.
    pub fn caches(&self) -> Vec<Freshness> {
        let sources = self.work.tools.sources.all();
        sources.iter().map(|source| source.freshness().clone()).collect()
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

    /// What it has done, and the state of its informers.
    pub fn status(&self) -> ControllerStatus {
        let tools = &self.work.tools;
        ControllerStatus {
            controller: Arc::clone(&tools.controller),
            workers: self.workers,
            running: self.work.running.keys().len(),
            all_busy_for: self.all_busy_for(),
            ready: self.queue().len(),
            counts: self.work.journal.counts(),
            events: tools.recorder.status(),
            sources: tools.sources.all().iter().map(|source| source.status()).collect(),
        }
    }

    /// If no worker is free: for how long at least, which is how long the youngest run has taken.
    pub fn all_busy_for(&self) -> Option<Duration> {
        let durations = self.work.running.durations();
        durations.iter().min().copied().filter(|_| durations.len() >= self.workers)
    }

    /// Why a cache is not complete, and what to do about it. `None` if all of them are.
    pub fn trouble(&self) -> Option<String> {
        let statuses = self.work.tools.sources.all().into_iter().map(|source| source.status());
        let not_synced = |status: &InformerStatus| status.life != Life::Synced;
        let troubles = statuses.filter(not_synced).map(|status| RunError::incomplete(&status));
        let troubles: Vec<_> = troubles.collect();
        (!troubles.is_empty()).then(|| troubles.join("; "))
    }

    /// Adds a source like [`owns`](crate::ControllerBuilder::owns) to a controller that may already
    /// run, for example for a definition that was installed later. Runs do not wait for its cache.
    ///
    /// # Errors
    /// Returns an error if the informer cannot be created.
    pub fn add_owned<T: ObjectType>(&self, watch: Watch<T>) -> Result<SourceId, InformerError> {
        Ok(self.add(self.wiring.owns(watch)?))
    }

    /// Adds a source like [`watches`](crate::ControllerBuilder::watches) to a controller that may
    /// already run. Runs do not wait for its cache.
    ///
    /// # Errors
    /// Returns an error if the informer cannot be created.
    pub fn add_watched<T: ObjectType, I: IntoIterator<Item = ObjectKey>>(
        &self,
        watch: Watch<T>,
        keys: impl Fn(&Cached<T>) -> I + Send + Sync + 'static,
    ) -> Result<SourceId, InformerError> {
        Ok(self.add(self.wiring.watches(watch, keys)?))
    }

    /// Removes a source that was added. Its informer stops if nobody else uses it. Returns whether
    /// the source was there.
    pub fn remove(&self, source: SourceId) -> bool {
        self.work.tools.sources.remove(source)
    }

    fn streams(&self) -> MutexGuard<'_, Option<Vec<KeyStream>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, source: Source) -> SourceId {
        let id = self.work.tools.sources.add(source);
        self.wiring.factory.start();
        id
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
        self.wiring.factory.start();
        let deadline = Instant::now() + self.sync_timeout.min(SYNC_TIMEOUT_MAX);
        for source in self.work.tools.sources.all() {
            let synced = async {
                tokio::select! {
                    synced = source.wait_for_sync() => synced,
                    never = self.warn_of_trouble(&source) => match never {},
                }
            };
            match timeout_at(deadline, synced).await {
                Ok(true) => {}
                // It was removed meanwhile, so nobody waits for it.
                Ok(false) if source.is_removed() => {}
                Ok(false) => {
                    return Err(RunError::Stopped { resource: source.resource().clone() });
                }
                Err(_) => return Err(RunError::not_synced(&source.status(), self.sync_timeout)),
            }
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

/// Enqueues every key that the stream yields. Returns the stream if it has not ended.
async fn enqueue_all(
    mut stream: KeyStream,
    enqueuer: Enqueuer,
    stop: CancellationToken,
) -> Option<KeyStream> {
    while let Some(next) = stop.run_until_cancelled(stream.keys.next()).await {
        let Some(key) = next else {
            let controller = &*enqueuer.controller;
            tracing::debug!(controller, stream = &*stream.name, "a stream of keys has ended");
            return None;
        };
        enqueuer.add(key, Add::now(), Cause::Source(Arc::clone(&stream.name)));
    }
    Some(stream)
}

impl<K> Drop for Controller<K> {
    /// Empties the queue, which would warn of keys that are left. They are not lost: whoever starts
    /// next sees every object.
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
