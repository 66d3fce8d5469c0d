//! The builder of controllers.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::Stream;
use jiff::Timestamp;
use kube::Client;
use tracing::Span;
use windlass_indexer::{Cached, ObjectKey};
use windlass_informer::{InformerError, SharedInformerFactory};
use windlass_workqueue::{Group, InvalidConfig, Priority, RateLimiter, WorkQueue};

use crate::bounds::ObjectType;
use crate::cause::Cause;
use crate::context::RunContext;
use crate::controller::{Controller, KeyStream};
use crate::defaults::ControllerDefaults;
use crate::enqueue::{Enqueuer, PriorityPolicy, default_priority};
use crate::expectations::Expectations;
use crate::journal::Journal;
#[cfg(feature = "prometheus")]
use crate::metrics::ControllerMetrics;
use crate::reconcile::Reconcile;
use crate::recorder::{Recorder, instance_from_environment};
use crate::run_id::RunIds;
use crate::running::{LONG, Running};
use crate::source::{Source, Sources};
use crate::span::SpanShape;
use crate::tools::{Tools, WriteObserver};
use crate::watch::Watch;
use crate::wiring::Wiring;
use crate::worker::Work;

/// Builds a controller.
///
/// ```
/// # use std::sync::Arc;
/// # use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
/// # use windlass_informer::SharedInformerFactory;
/// # use windlass_reconciler::{Action, BuildError, Controller, Error, Reconcile, RunContext};
/// # use windlass_reconciler::Watch;
/// # struct Scaler;
/// # impl Reconcile<Deployment> for Scaler {
/// #     async fn reconcile(&self, _: Arc<Deployment>, _: &RunContext) -> Result<Action, Error> {
/// #         Ok(Action::Done)
/// #     }
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
    workers: Option<usize>,
    limiter: Option<Box<dyn RateLimiter<ObjectKey>>>,
    is_fair: bool,
    timeout: Option<Duration>,
    sync_timeout: Option<Duration>,
    defaults: ControllerDefaults,
    client: Option<Client>,
    span: Option<SpanShape>,
    #[cfg(feature = "prometheus")]
    metrics: Option<ControllerMetrics>,
}

/// Makes a source when the controller is built.
type Attach = Box<dyn FnOnce(&Wiring) -> Result<Source, InformerError> + Send>;

/// A controller cannot be built.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// An informer cannot be created.
    #[error("controller {controller:?}: {error}")]
    Informer {
        /// The controller.
        controller: String,
        /// What is wrong.
        error: InformerError,
    },
    /// The queue cannot be created.
    #[error("controller {controller:?}: {error}")]
    Queue {
        /// The controller.
        controller: String,
        /// What is wrong.
        error: InvalidConfig,
    },
    /// The number of workers is zero.
    #[error("controller {controller:?} has no workers: it needs at least one")]
    NoWorkers {
        /// The controller.
        controller: String,
    },
}

/// How long caches may take to sync by default. As in controller-runtime.
const SYNC_TIMEOUT: Duration = Duration::from_mins(2);

impl<K: ObjectType> Controller<K> {
    /// A controller of the objects that `primary` watches.
    pub fn of(primary: Watch<K>) -> ControllerBuilder<K> {
        ControllerBuilder {
            name: None,
            primary,
            sources: Vec::new(),
            streams: Vec::new(),
            priority: Arc::new(default_priority),
            workers: None,
            limiter: None,
            is_fair: false,
            timeout: None,
            sync_timeout: None,
            defaults: ControllerDefaults::new(),
            client: None,
            span: None,
            #[cfg(feature = "prometheus")]
            metrics: None,
        }
    }
}

impl<K: ObjectType> ControllerBuilder<K> {
    /// The name of the controller, for logs, metrics and the queue. Default: the kind, in lower
    /// case.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Runs an object when another object changes that it owns as its controller.
    pub fn owns<T: ObjectType>(mut self, watch: Watch<T>) -> Self {
        self.sources.push(Box::new(move |wiring| wiring.owns(watch)));
        self
    }

    /// Runs the objects whose keys `keys` returns when an object of another kind changes. For an
    /// update, it is called with the old and the new version.
    pub fn watches<T: ObjectType, I: IntoIterator<Item = ObjectKey>>(
        mut self,
        watch: Watch<T>,
        keys: impl Fn(&Cached<T>) -> I + Send + Sync + 'static,
    ) -> Self {
        self.sources.push(Box::new(move |wiring| wiring.watches(watch, keys)));
        self
    }

    /// Adds a cache that is only read. It is complete before the first run, and
    /// [`RunContext::lister`](crate::RunContext::lister) returns it. Its events run nothing.
    pub fn reads<T: ObjectType>(mut self, watch: Watch<T>) -> Self {
        self.sources.push(Box::new(move |wiring| wiring.reads(watch)));
        self
    }

    /// Runs the objects whose keys the stream yields, for example from outside of the cluster. The
    /// name appears in the [cause](Cause::Source) of a run. A receiver of `tokio` becomes a stream
    /// by `futures::stream::poll_fn(move |cx| receiver.poll_recv(cx))`.
    pub fn stream(
        mut self,
        name: impl Into<Arc<str>>,
        keys: impl Stream<Item = ObjectKey> + Send + 'static,
    ) -> Self {
        self.streams.push(KeyStream { name: name.into(), keys: Box::pin(keys) });
        self
    }

    /// How urgent a key is, depending on the cause. Default: [`Priority::Low`] for objects that
    /// existed when the controller started and for resyncs, [`Priority::Normal`] for the rest. If
    /// the policy panics, that is logged, and the key gets [`Priority::Normal`].
    pub fn priority(
        mut self,
        policy: impl Fn(&ObjectKey, &Cause) -> Priority + Send + Sync + 'static,
    ) -> Self {
        self.priority = Arc::new(policy);
        self
    }

    /// How many keys run at once. Default: 1.
    ///
    /// As everywhere in tokio, a run must not block its thread, or other keys may have to wait for
    /// it. Blocking work belongs into [`spawn_blocking`](tokio::task::spawn_blocking).
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// How long a key that failed waits. Default: from 5 ms to 1000 s, doubling, and ten keys a
    /// second in total.
    pub fn limiter(mut self, limiter: impl RateLimiter<ObjectKey> + 'static) -> Self {
        self.limiter = Some(Box::new(limiter));
        self
    }

    /// Lets namespaces take turns, so that a busy one does not keep the others waiting. Default:
    /// they do not.
    pub fn fair(mut self) -> Self {
        self.is_fair = true;
        self
    }

    /// Cancels a run that takes longer, when it awaits something: a run that blocks its thread
    /// cannot be cancelled. Default: no timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long caches may take to sync before [`Controller::run`] gives up. Default: 2 minutes.
    pub fn sync_timeout(mut self, timeout: Duration) -> Self {
        self.sync_timeout = Some(timeout);
        self
    }

    /// Settings for what this builder does not set itself.
    pub fn defaults(mut self, defaults: ControllerDefaults) -> Self {
        self.defaults = defaults;
        self
    }

    /// What the runs read and write with. Default: the client of the factory.
    pub fn client(mut self, client: Client) -> Self {
        self.client = Some(client);
        self
    }

    /// The name that the controller has or will have.
    pub fn controller_name(&self) -> String {
        let kind = || self.primary.resource().kind().to_ascii_lowercase();
        self.name.clone().unwrap_or_else(kind)
    }

    /// The span of a run, in which everything that the reconciler logs is. Default: a span
    /// `reconcile` with the controller, the key, the [id of the run](crate::RunContext::run_id),
    /// the attempt and the last cause. It is called only if there is a subscriber. If it panics,
    /// that is logged, and the run has the default span.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use windlass_reconciler::{Controller, ControllerBuilder, Watch};
    /// # fn builder() -> ControllerBuilder<ConfigMap> {
    /// Controller::of(Watch::<ConfigMap>::new()).span(|cx| {
    ///     let tenant = cx.key().namespace();
    ///     tracing::error_span!("reconcile", reconcile_id = %cx.run_id(), key = %cx.key(), tenant)
    /// })
    /// # }
    /// ```
    ///
    /// A filter removes a span from all lines if its level is too low. So this one has the highest.
    pub fn span(mut self, shape: impl Fn(&RunContext) -> Span + Send + Sync + 'static) -> Self {
        self.span = Some(Arc::new(shape));
        self
    }

    /// Shows the controller and its queue with these metrics. Default: they are not shown.
    #[cfg(feature = "prometheus")]
    pub fn metrics(mut self, metrics: &ControllerMetrics) -> Self {
        self.metrics = Some(metrics.clone());
        self
    }

    /// Builds the controller, with informers from `factory`.
    ///
    /// # Errors
    /// Returns an error if an option is invalid. The error says which, and for which controller.
    pub fn build<R: Reconcile<K>>(
        self,
        factory: &SharedInformerFactory,
        reconciler: R,
    ) -> Result<Controller<K>, BuildError> {
        let (controller, defaults) = (self.controller_name(), self.defaults);
        let workers = self.workers.or(defaults.workers).unwrap_or(1);
        if workers == 0 {
            return Err(BuildError::NoWorkers { controller });
        }
        let informer_error = |error| BuildError::Informer { controller: controller.clone(), error };
        let mut queue = WorkQueue::builder().name(controller.clone());
        if let Some(limiter) = self.limiter.or_else(|| defaults.limiter.map(|make| make())) {
            queue = queue.limiter(limiter);
        }
        if self.is_fair {
            queue = queue.fair_by(|key: &ObjectKey| Group::of(&key.namespace()));
        }
        #[cfg(feature = "prometheus")]
        if let Some(metrics) = &self.metrics {
            queue = queue.observer(metrics.queues().observer(&controller));
        }
        let queue = queue
            .build()
            .map_err(|error| BuildError::Queue { controller: controller.clone(), error })?;
        let (primary, predicate) = self.primary.open(factory).map_err(informer_error)?;
        let enqueuer =
            Enqueuer { queue, controller: controller.as_str().into(), priority: self.priority };
        let wiring = Wiring {
            factory: factory.clone(),
            enqueuer: enqueuer.clone(),
            primary: (primary.resource().clone(), primary.lister().reader().clone()),
        };
        let sources = Sources::default();
        let objects = primary.lister().clone();
        let attached = wiring.attach(primary, predicate, |_, object| Some(object.key().clone()));
        sources.add(attached.map_err(informer_error)?);
        for attach in self.sources {
            sources.add(attach(&wiring).map_err(informer_error)?);
        }
        let tools = Tools {
            controller: Arc::clone(&enqueuer.controller),
            client: self.client.unwrap_or_else(|| factory.client().clone()),
            sources,
            expectations: Expectations::new(),
            recorder: Recorder::new(factory.client().clone(), Arc::clone(&enqueuer.controller)),
            on_write: WriteObserver::default(),
        };
        let ids = RunIds::of(&enqueuer.controller, &instance_from_environment(), Timestamp::now());
        #[cfg(feature = "prometheus")]
        let metrics = self.metrics.map(|metrics| (workers, metrics.series(&enqueuer.controller)));
        let work = Arc::new(Work {
            tools: Arc::new(tools),
            reconciler: Box::new(reconciler),
            objects,
            enqueuer,
            timeout: self.timeout.or(defaults.timeout),
            running: Running::new(LONG),
            journal: Journal::new(),
            ids,
            span: self.span,
            #[cfg(feature = "prometheus")]
            metrics,
        });
        #[cfg(feature = "prometheus")]
        if let Some((_, series)) = &work.metrics {
            let measured = Arc::downgrade(&work);
            series.attach(measured);
        }
        Ok(Controller {
            work,
            wiring,
            streams: Mutex::new(Some(self.streams)),
            workers,
            sync_timeout: self.sync_timeout.or(defaults.sync_timeout).unwrap_or(SYNC_TIMEOUT),
        })
    }
}

impl<K> fmt::Debug for ControllerBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerBuilder").field("primary", &self.primary).finish_non_exhaustive()
    }
}
