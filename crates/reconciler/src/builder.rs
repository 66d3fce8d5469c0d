//! How a controller is put together.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::Stream;
use serde::de::DeserializeOwned;
use windlass_indexer::{Cached, ObjectKey};
use windlass_informer::{InformerError, SharedInformerFactory};
use windlass_workqueue::{Group, InvalidConfig, Priority, RateLimiter, WorkQueue};

use crate::Reconcile;
use crate::cause::Cause;
use crate::context::Tools;
use crate::controller::{Controller, KeyStream};
use crate::expectations::Expectations;
use crate::journal::Journal;
use crate::priority::PriorityPolicy;
use crate::recorder::Recorder;
use crate::running::Running;
use crate::source::{Source, Sources};
use crate::tally::Tally;
use crate::watch::Watch;
use crate::wiring::{LooksBack, Wiring};
use crate::worker::Work;

/// Puts a controller together.
///
/// ```
/// # use std::sync::Arc;
/// # use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
/// # use windlass_informer::SharedInformerFactory;
/// # use windlass_reconciler::{Action, BuildError, RunContext, Controller, Error, Reconcile, Watch};
/// # struct Scaler;
/// # impl Reconcile<Deployment> for Scaler {
/// #     async fn reconcile(&self, _: Arc<Deployment>, _: &RunContext) -> Result<Action, Error> { Ok(Action::Done) }
/// # }
/// fn controller(factory: &SharedInformerFactory) -> Result<Controller<Deployment>, BuildError> {
///     Controller::of(Watch::<Deployment>::new())
///         .owns(Watch::<ReplicaSet>::new())
///         .workers(2)
///         .build(factory, Scaler)
/// }
/// ```
#[must_use]
pub struct ControllerBuilder<K> {
    name: Option<String>,
    primary: Watch<K>,
    sources: Vec<Attach>,
    streams: Vec<KeyStream>,
    priority: PriorityPolicy,
    workers: usize,
    limiter: Option<Box<dyn RateLimiter<ObjectKey>>>,
    is_fair: bool,
    timeout: Option<Duration>,
    sync_timeout: Duration,
    object: PhantomData<fn() -> K>,
}

/// Makes a source once the informers are there.
type Attach = Box<dyn FnOnce(&Wiring) -> Result<Source, InformerError> + Send>;

/// A controller cannot be put together like this.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// An informer cannot be made.
    #[error("controller {controller:?}: {error}")]
    Informer {
        /// The controller.
        controller: String,
        /// What is wrong.
        error: InformerError,
    },
    /// The queue cannot be made.
    #[error("controller {controller:?}: {error}")]
    Queue {
        /// The controller.
        controller: String,
        /// What is wrong.
        error: InvalidConfig,
    },
    /// Nobody would work.
    #[error("controller {controller:?} has no workers: ask for one at least")]
    NoWorkers {
        /// The controller.
        controller: String,
    },
}

/// How long caches may take to be complete, unless the builder says otherwise: as controller-runtime has it.
const SYNC_TIMEOUT: Duration = Duration::from_mins(2);

impl<K: DeserializeOwned + Send + Sync + 'static> Controller<K> {
    /// A controller of the objects that `primary` watches.
    pub fn of(primary: Watch<K>) -> ControllerBuilder<K> {
        ControllerBuilder {
            name: None,
            primary,
            sources: Vec::new(),
            streams: Vec::new(),
            priority: PriorityPolicy::default(),
            workers: 1,
            limiter: None,
            is_fair: false,
            timeout: None,
            sync_timeout: SYNC_TIMEOUT,
            object: PhantomData,
        }
    }
}

impl<K: DeserializeOwned + Send + Sync + 'static> ControllerBuilder<K> {
    /// For logs, metrics and the queue. Default: the kind, in lower case.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Runs an object when one changes that it owns, as its controller.
    pub fn owns<T: DeserializeOwned + Send + Sync + 'static>(mut self, watch: Watch<T>) -> Self {
        self.sources.push(Box::new(move |wiring| wiring.owns(watch)));
        self
    }

    /// Runs the objects that `keys` names when an object of another kind changes: for an update, those of what it
    /// was and of what it is.
    pub fn watches<T, I>(
        mut self,
        watch: Watch<T>,
        keys: impl Fn(&Cached<T>) -> I + Send + Sync + 'static,
    ) -> Self
    where
        T: DeserializeOwned + Send + Sync + 'static,
        I: IntoIterator<Item = ObjectKey>,
    {
        self.sources.push(Box::new(move |wiring| wiring.watches(watch, keys)));
        self
    }

    /// Reads a cache beside: it is complete before the first run, and [`RunContext::lister`](crate::RunContext::lister)
    /// gives it. Its changes run nothing.
    pub fn reads<T: DeserializeOwned + Send + Sync + 'static>(mut self, watch: Watch<T>) -> Self {
        self.sources.push(Box::new(move |wiring| wiring.reads(watch)));
        self
    }

    /// Runs the objects whose keys come from a stream: from outside of the cluster, say. The name is what a run is
    /// told as its cause. A channel of `tokio` is a stream by
    /// `futures::stream::poll_fn(move |cx| receiver.poll_recv(cx))`.
    pub fn stream(
        mut self,
        name: impl Into<Arc<str>>,
        keys: impl Stream<Item = ObjectKey> + Send + 'static,
    ) -> Self {
        self.streams.push(KeyStream { name: name.into(), keys: Box::pin(keys) });
        self
    }

    /// How urgent a key is, by what woke it. Default: [`Priority::Low`] for what was there when the
    /// controller began and for resyncs, [`Priority::Normal`] for the rest. A policy that panics is
    /// logged, and the key is of [`Priority::Normal`].
    pub fn priority(
        mut self,
        policy: impl Fn(&ObjectKey, &Cause) -> Priority + Send + Sync + 'static,
    ) -> Self {
        self.priority = PriorityPolicy::new(policy);
        self
    }

    /// How many keys are worked on at once. Default: 1.
    ///
    /// As everywhere in tokio, a run must not block its thread: other keys could wait for it. Blocking
    /// work belongs into [`spawn_blocking`](tokio::task::spawn_blocking).
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// How long a key that failed waits. Default: from 5 ms to 1000 s, doubling, and ten a second over all keys.
    pub fn limiter(mut self, limiter: impl RateLimiter<ObjectKey> + 'static) -> Self {
        self.limiter = Some(Box::new(limiter));
        self
    }

    /// Namespaces take turns, so that a busy one does not keep the others waiting.
    pub fn fair(mut self) -> Self {
        self.is_fair = true;
        self
    }

    /// Cancels a run that takes longer, when it awaits something: one that blocks its thread cannot
    /// be cancelled. Default: never.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long caches may take to be complete before [`Controller::run`] gives up. Default: 2 minutes.
    pub fn sync_timeout(mut self, timeout: Duration) -> Self {
        self.sync_timeout = timeout;
        self
    }

    /// The controller, with informers from `factory`.
    ///
    /// # Errors
    /// If something does not fit together; the error says what, and for which controller.
    pub fn build<R: Reconcile<K>>(
        self,
        factory: &SharedInformerFactory,
        reconciler: R,
    ) -> Result<Controller<K>, BuildError> {
        let controller =
            self.name.unwrap_or_else(|| self.primary.resource().kind().to_ascii_lowercase());
        if self.workers == 0 {
            return Err(BuildError::NoWorkers { controller });
        }
        let informer_error = |error| BuildError::Informer { controller: controller.clone(), error };
        let mut queue = WorkQueue::builder().name(controller.clone());
        if let Some(limiter) = self.limiter {
            queue = queue.limiter(limiter);
        }
        if self.is_fair {
            queue = queue.fair_by(|key: &ObjectKey| Group::of(&key.namespace()));
        }
        let queue = queue
            .build()
            .map_err(|error| BuildError::Queue { controller: controller.clone(), error })?;
        let (primary, predicate) = self.primary.open(factory).map_err(informer_error)?;
        let wiring = Wiring {
            factory: factory.clone(),
            queue: queue.clone(),
            controller: controller.as_str().into(),
            priority: self.priority.clone(),
            primary: (primary.resource().clone(), primary.lister().reader().clone()),
        };
        let sources = Sources::default();
        let own = |object: &Cached<K>| Some(object.key().clone());
        let connected = wiring.connect(primary.clone(), predicate, own, LooksBack::No);
        sources.add(connected.map_err(informer_error)?);
        for attach in self.sources {
            sources.add(attach(&wiring).map_err(informer_error)?);
        }
        let tools = Tools {
            controller: Arc::clone(&wiring.controller),
            client: factory.client().clone(),
            sources,
            expectations: Expectations::new(),
            recorder: Recorder::new(factory.client().clone(), Arc::clone(&wiring.controller)),
        };
        let work = Work {
            tools: Arc::new(tools),
            reconciler: Box::new(reconciler),
            objects: primary.lister().clone(),
            queue,
            priority: self.priority,
            timeout: self.timeout,
            running: Running::new(),
            journal: Journal::default(),
            tally: Tally::default(),
        };
        Ok(Controller {
            work: Arc::new(work),
            wiring,
            streams: Mutex::new(self.streams),
            has_run: AtomicBool::new(false),
            workers: self.workers,
            sync_timeout: self.sync_timeout,
        })
    }
}

impl<K> fmt::Debug for ControllerBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerBuilder").field("primary", &self.primary).finish_non_exhaustive()
    }
}
