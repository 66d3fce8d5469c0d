//! A controller: informers whose events become keys in a queue, and workers that drain it.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use windlass_indexer::{Cached, Lister, ObjectKey};
use windlass_informer::{InformerError, InformerStatus};
use windlass_workqueue::WorkQueue;

use crate::cause::Cause;
use crate::journal::Run;
use crate::recorder::RecorderStatus;
use crate::run_error::RunError;
use crate::source::{Source, SourceId};
use crate::tally::Counts;
use crate::watch::Watch;
use crate::wiring::Wiring;
use crate::worker::Work;

/// The queue of a controller.
pub(crate) type Queue = WorkQueue<ObjectKey, Cause>;

/// How often a controller that waits for its caches says what it waits for, if there is trouble.
const TROUBLE_EVERY: Duration = Duration::from_secs(10);

/// How long the end waits for events to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// A controller, ready to run. Made by [`Controller::of`](crate::ControllerBuilder).
pub struct Controller<K> {
    pub(crate) work: Arc<Work<K>>,
    pub(crate) wiring: Wiring,
    pub(crate) streams: Mutex<Vec<KeyStream>>,
    pub(crate) has_run: AtomicBool,
    pub(crate) workers: usize,
    pub(crate) sync_timeout: Duration,
}

/// Keys from elsewhere.
pub(crate) struct KeyStream {
    pub(crate) name: Arc<str>,
    pub(crate) keys: Pin<Box<dyn Stream<Item = ObjectKey> + Send>>,
}

/// What a controller is at.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ControllerStatus {
    /// Its name.
    pub controller: Arc<str>,
    /// How many keys it works on at once.
    pub workers: usize,
    /// Keys that are ready and wait for a worker.
    pub ready: usize,
    /// What it has done.
    pub counts: Counts,
    /// What became of the Kubernetes events that its runs recorded.
    pub events: RecorderStatus,
    /// What its informers are at.
    pub sources: Vec<InformerStatus>,
}

impl<K: DeserializeOwned + Send + Sync + 'static> Controller<K> {
    /// Runs it until `stop` is cancelled; runs that are under way are finished. Its informers are started if
    /// nobody has, and all of their caches and handlers are synced before the first run.
    ///
    /// A controller runs once.
    ///
    /// # Errors
    /// If a cache is not complete in time, or an informer or a stream breaks; if it ran before.
    pub async fn run(&self, stop: CancellationToken) -> Result<(), RunError> {
        if self.has_run.swap(true, Ordering::Relaxed) {
            return Err(RunError::AlreadyRan);
        }
        self.wiring.factory.start();
        let ran = tokio::select! {
            () = stop.cancelled() => Ok(()),
            synced = self.wait_for_sync() => match synced {
                Ok(()) => self.work_until(&stop).await,
                Err(error) => Err(error),
            },
        };
        self.work.queue.shut_down();
        // Events are best effort: a server that is away does not keep a process from ending.
        let _ = timeout(FLUSH_TIMEOUT, self.work.tools.recorder.flush()).await;
        ran
    }

    /// Runs the workers until they are to stop, or something breaks that they depend on.
    async fn work_until(&self, stop: &CancellationToken) -> Result<(), RunError> {
        // Cancelled also if something breaks: no key is begun on caches that nobody keeps up to date.
        let stop = &stop.child_token();
        let mut workers = JoinSet::new();
        for _ in 0..self.workers {
            let (work, stop) = (Arc::clone(&self.work), stop.clone());
            workers.spawn(async move { work.drain(&stop).await });
        }
        let mut watchdog = JoinSet::new();
        let work = Arc::clone(&self.work);
        watchdog.spawn(async move { work.warn_while_running().await });
        let mut streams = JoinSet::new();
        let taken =
            std::mem::take(&mut *self.streams.lock().unwrap_or_else(PoisonError::into_inner));
        for stream in taken {
            let wiring = self.wiring.clone();
            streams.spawn(async move { pump(stream, &wiring).await });
        }
        // The panic of a worker, which is a bug in here: other runs are finished before it goes on.
        let mut bug = None;
        let ended = loop {
            tokio::select! {
                () = stop.cancelled() => break Ok(()),
                failure = self.wiring.factory.wait_for_failure() => break Err(RunError::Broke(failure)),
                Some(ended) = streams.join_next() => if ended.is_err() {
                    break Err(RunError::StreamPanicked);
                },
                // Or the queue was shut down by somebody else.
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
        self.work.queue.shut_down();
        streams.shutdown().await;
        // The watchdog goes on until the last run has ended.
        while let Some(ended) = workers.join_next().await {
            bug = bug.or(ended.err());
        }
        if let Some(error) = bug {
            resume(error);
        }
        watchdog.shutdown().await;
        ended
    }

    /// The last runs of a key, the oldest first: when, why, how long, how it ended, what it wrote.
    pub fn runs(&self, key: &ObjectKey) -> Vec<Run> {
        self.work.journal.read(key)
    }

    /// Reads the objects that are reconciled.
    pub fn lister(&self) -> &Lister<K> {
        &self.work.objects
    }

    /// The queue: what every key is at.
    pub fn queue(&self) -> &WorkQueue<ObjectKey, Cause> {
        &self.work.queue
    }

    /// What it has done, and what its informers are at.
    pub fn status(&self) -> ControllerStatus {
        ControllerStatus {
            controller: Arc::clone(&self.work.tools.controller),
            workers: self.workers,
            ready: self.work.queue.len(),
            counts: self.work.tally.read(),
            events: self.work.tools.recorder.status(),
            sources: self.work.tools.sources.all().iter().map(|source| source.status()).collect(),
        }
    }

    /// Adds a source to a controller that may run already, as for a definition that was installed later: as
    /// [`owns`](crate::ControllerBuilder::owns). Nothing waits for its cache.
    ///
    /// # Errors
    /// If its informer cannot be made.
    pub fn add_owned<T>(&self, watch: Watch<T>) -> Result<SourceId, InformerError>
    where
        T: DeserializeOwned + Send + Sync + 'static,
    {
        Ok(self.add(self.wiring.owns(watch)?))
    }

    /// Adds a source to a controller that may run already: as [`watches`](crate::ControllerBuilder::watches).
    /// Nothing waits for its cache.
    ///
    /// # Errors
    /// If its informer cannot be made.
    pub fn add_watched<T, I>(
        &self,
        watch: Watch<T>,
        keys: impl Fn(&Cached<T>) -> I + Send + Sync + 'static,
    ) -> Result<SourceId, InformerError>
    where
        T: DeserializeOwned + Send + Sync + 'static,
        I: IntoIterator<Item = ObjectKey>,
    {
        Ok(self.add(self.wiring.watches(watch, keys)?))
    }

    /// Removes a source that was added, as when its definition goes. Its informer stops if nobody else uses it.
    /// Returns whether it was there.
    pub fn remove(&self, source: SourceId) -> bool {
        self.work.tools.sources.remove(source)
    }

    fn add(&self, source: Source) -> SourceId {
        let id = self.work.tools.sources.add(source);
        self.wiring.factory.start();
        id
    }

    async fn wait_for_sync(&self) -> Result<(), RunError> {
        let deadline = Instant::now() + self.sync_timeout;
        for source in self.work.tools.sources.all() {
            let synced = async {
                tokio::select! {
                    synced = source.wait_for_sync() => synced,
                    never = self.tell_trouble(&source) => match never {},
                }
            };
            match timeout_at(deadline, synced).await {
                Ok(true) => {}
                // Somebody took it away meanwhile, and so nobody waits for it.
                Ok(false) if source.is_removed() => {}
                Ok(false) => return Err(RunError::stopped(source.resource())),
                Err(_) => return Err(RunError::not_synced(&source.status(), self.sync_timeout)),
            }
        }
        Ok(())
    }

    /// Says what a cache waits for, if the server refuses it: a definition that is missing, a right.
    async fn tell_trouble(&self, source: &Source) -> std::convert::Infallible {
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

/// Wakes what a stream names, until it ends.
async fn pump(mut stream: KeyStream, wiring: &Wiring) {
    while let Some(key) = stream.keys.next().await {
        wiring.wake(key, Cause::Source(Arc::clone(&stream.name)));
    }
    tracing::debug!(
        controller = &*wiring.controller,
        stream = &*stream.name,
        "a stream of keys has ended"
    );
}

/// Workers catch what reconcilers do, so a panic of their own is a bug here.
fn resume(error: tokio::task::JoinError) {
    if error.is_panic() {
        std::panic::resume_unwind(error.into_panic());
    }
}

impl<K> fmt::Debug for Controller<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Controller").field(&self.work.tools.controller).finish()
    }
}
