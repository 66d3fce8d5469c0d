//! A controller: informers whose events become keys in a queue, and workers that drain it.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use kube::Client;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use windlass_indexer::{Lister, ObjectKey};
use windlass_informer::{InformerStatus, Registration, SharedInformer, SharedInformerFactory};
use windlass_workqueue::{Add, Lease, WorkQueue};

use crate::cause::Cause;
use crate::error::{Class, Error};
use crate::journal::{Journal, Outcome, Run};
use crate::reconcile::ErasedReconcile;
use crate::{Action, Context, RunError};

/// The queue of a controller.
pub(crate) type Queue = WorkQueue<ObjectKey, Cause>;

/// A controller, ready to run. Made by [`Controller::of`](crate::ControllerBuilder).
pub struct Controller<K> {
    pub(crate) shared: Arc<Shared<K>>,
    pub(crate) sources: Vec<AttachedSource>,
    pub(crate) workers: usize,
    pub(crate) sync_timeout: Duration,
}

/// What all workers have.
pub(crate) struct Shared<K> {
    pub(crate) name: Arc<str>,
    pub(crate) factory: SharedInformerFactory,
    pub(crate) client: Client,
    pub(crate) reconciler: Box<dyn ErasedReconcile<K>>,
    pub(crate) primary: SharedInformer<K>,
    pub(crate) queue: Queue,
    pub(crate) timeout: Option<Duration>,
    pub(crate) journal: Journal,
}

/// A source whose events go to the queue.
pub(crate) struct AttachedSource {
    pub(crate) registration: Registration,
    /// What it is at, for whoever waits for it.
    pub(crate) status: Box<dyn Fn() -> InformerStatus + Send + Sync>,
    /// Keeps its informer running.
    pub(crate) _user: Box<dyn Any + Send + Sync>,
}

impl<K: DeserializeOwned + Send + Sync + 'static> Controller<K> {
    /// Runs it until `stop` is cancelled; runs that are under way are finished. Its informers are started if
    /// nobody has, and all of their caches and handlers are synced before the first run.
    ///
    /// # Errors
    /// If a cache is not complete in time, or an informer breaks.
    pub async fn run(&self, stop: CancellationToken) -> Result<(), RunError> {
        self.shared.factory.start();
        let synced = tokio::select! {
            () = stop.cancelled() => {
                self.shared.queue.shut_down();
                return Ok(());
            }
            synced = self.synced() => synced,
        };
        synced?;
        let mut workers = JoinSet::new();
        for _ in 0..self.workers {
            let shared = Arc::clone(&self.shared);
            workers.spawn(async move { shared.work().await });
        }
        stop.cancelled().await;
        self.shared.queue.shut_down();
        while let Some(ended) = workers.join_next().await {
            if let Err(error) = ended
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
        Ok(())
    }

    /// The last runs of a key, the oldest first: when, why, how long, how it ended.
    pub fn runs(&self, key: &ObjectKey) -> Vec<Run> {
        self.shared.journal.read(key)
    }

    /// Reads the objects that are reconciled.
    pub fn lister(&self) -> &Lister<K> {
        self.shared.primary.lister()
    }

    /// The queue: what every key is at.
    pub fn queue(&self) -> &WorkQueue<ObjectKey, Cause> {
        &self.shared.queue
    }

    async fn synced(&self) -> Result<(), RunError> {
        let deadline = Instant::now() + self.sync_timeout;
        for source in &self.sources {
            match timeout_at(deadline, source.registration.synced()).await {
                Ok(true) => {}
                Ok(false) => return Err(RunError::stopped(&(source.status)())),
                Err(_) => return Err(RunError::not_synced(&(source.status)(), self.sync_timeout)),
            }
        }
        Ok(())
    }
}

impl<K: DeserializeOwned + Send + Sync + 'static> Shared<K> {
    /// Takes keys until the queue is shut down.
    async fn work(&self) {
        while let Some(lease) = self.queue.get().await {
            self.run(lease).await;
        }
    }

    async fn run(&self, lease: Lease<ObjectKey, Cause>) {
        let started = Instant::now();
        let cx = Context {
            controller: Arc::clone(&self.name),
            client: self.client.clone(),
            key: lease.key().clone(),
            causes: lease.causes().cloned().collect(),
            causes_omitted: lease.causes_omitted(),
            attempt: self.queue.failures(lease.key()) + 1,
            deadline: self.timeout.map(|timeout| started + timeout),
        };
        let queued = lease.queued();
        let ended = self.reconcile(&cx).await;
        let took = started.elapsed();
        let outcome = self.settle(lease, ended);
        report(&cx, &outcome, took);
        let Context { key, causes, attempt, .. } = cx;
        self.journal.write(&key, Run { started, queued, took, attempt, causes, outcome });
    }

    /// Calls the reconciler, within its time, and catches its panic.
    async fn reconcile(&self, cx: &Context) -> Ended {
        let called = async {
            match self.primary.lister().get(cx.key()) {
                Ok(Some(object)) => self.reconciler.reconcile(object, cx).await,
                Ok(None) => self.reconciler.absent(cx).await,
                Err(error) => Err(error.into()),
            }
        };
        let caught = AssertUnwindSafe(called).catch_unwind();
        let ended = match self.timeout {
            Some(limit) => match timeout(limit, caught).await {
                Ok(ended) => ended,
                Err(_) => return Ended::TimedOut,
            },
            None => caught.await,
        };
        ended.map_or(Ended::Panicked, Ended::Returned)
    }

    /// Does with the key what the outcome asks for.
    fn settle(&self, lease: Lease<ObjectKey, Cause>, ended: Ended) -> Outcome {
        let error = match ended {
            Ended::Returned(Ok(Action::Done)) => {
                lease.finish();
                return Outcome::Done;
            }
            Ended::Returned(Ok(Action::RequeueAfter(delay))) => {
                let key = lease.key().clone();
                lease.finish();
                // A queue that is shut down has no later.
                let _ = self.queue.add_with(key, Add::after(delay).cause(Cause::Timer));
                return Outcome::RequeueAfter(delay);
            }
            Ended::Panicked => {
                let _ = lease.retry();
                return Outcome::Panicked;
            }
            Ended::TimedOut => {
                let _ = lease.retry();
                return Outcome::TimedOut;
            }
            Ended::Returned(Err(error)) => error,
        };
        let (class, message) = (error.class(), error.to_string());
        if matches!(class, Class::Terminal | Class::Undecodable) {
            // The failures stay, to be seen; the next event is the next try.
            drop(lease);
            return Outcome::Terminal { class, message };
        }
        let retry_in = match error.delay() {
            Some(delay) => lease.retry_after(delay).map(|()| delay),
            None => lease.retry(),
        };
        Outcome::Failed { class, message, retry_in: retry_in.unwrap_or_default() }
    }
}

/// How a call of the reconciler ended.
enum Ended {
    Returned(Result<Action, Error>),
    Panicked,
    TimedOut,
}

/// One line for each run: what it is of, how it ended, and what follows.
fn report(cx: &Context, outcome: &Outcome, took: Duration) {
    let (controller, key, attempt) = (cx.controller(), cx.key(), cx.attempt());
    match outcome {
        Outcome::Done | Outcome::RequeueAfter(_) => {
            tracing::debug!(controller, %key, attempt, ?took, ?outcome, "reconciled");
        }
        Outcome::Failed { class, message, retry_in } => {
            tracing::warn!(controller, %key, attempt, %class, ?retry_in, "reconcile failed: {message}");
        }
        Outcome::Terminal { class, message } => {
            tracing::error!(
                controller, %key, attempt, %class,
                "reconcile failed, and is not tried again before the object changes: {message}"
            );
        }
        Outcome::Panicked => {
            tracing::error!(controller, %key, attempt, "the reconciler panicked, and is tried again");
        }
        Outcome::TimedOut => {
            tracing::error!(
                controller, %key, attempt, ?took,
                "the reconciler took too long, was cancelled, and is tried again"
            );
        }
    }
}

impl<K> fmt::Debug for Controller<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Controller").field(&self.shared.name).finish()
    }
}
