//! The builder of controllers.

mod rules;
mod sources;

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube::Client;
use tracing::Span;
use windlass_indexer::{ObjectKey, ObjectType};
use windlass_informer::{InformerError, SharedInformerFactory};
use windlass_workqueue::{Builder as QueueBuilder, InvalidConfig, RateLimiter, WorkQueue};

use crate::api::children::kinds::ChildKinds;
use crate::api::children::retired::RetiredChildren;
use crate::cause::Cause;
use crate::controller::Controller;
use crate::controller::defaults::ControllerDefaults;
use crate::controller::handle::ControllerHandle;
#[cfg(feature = "prometheus")]
use crate::controller::metrics::ControllerMetrics;
use crate::controller_core::ControllerCore;
use crate::history::inactive::InactiveKeys;
use crate::history::journal::{JOURNAL_BYTES, Journal};
use crate::history::run_record::RunIds;
use crate::history::watchdog::{Running, WARN_AFTER};
use crate::plan::InPlan;
use crate::reconcile::Reconcile;
use crate::recorder::{Recorder, instance_from_environment};
use crate::run::context::RunContext;
use crate::run::span::MakeSpan;
use crate::sources::enqueue::{
    Debounce, Enqueuer, PriorityPolicy, RetryPriority, default_priority,
};
use crate::sources::pause::Pause;
use crate::sources::predicate::AnyFilter;
use crate::sources::source::{Source, Sources};
use crate::sources::watch::Watch;
use crate::worker::Work;
use crate::writes::applied::Applied;
use crate::writes::expectations::Expectations;
use crate::writes::server_warnings::ServerWarnings;

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
/// #         Ok(Action::done())
/// #     }
/// # }
/// fn controller(factory: &SharedInformerFactory) -> Result<Controller<Deployment>, BuildError> {
///     Controller::named("deployment", Watch::<Deployment>::new())
///         .owns(Watch::<ReplicaSet>::new())
///         .workers(2)
///         .build(factory, Scaler)
/// }
/// ```
#[must_use]
pub struct ControllerBuilder<K> {
    name: String,
    pub(crate) primary: Watch<K>,
    pub(crate) sources: Vec<Attach>,
    handle: ControllerHandle,
    filter: Option<AnyFilter>,
    pause: Pause,
    priority: PriorityPolicy,
    retry_priority: Option<RetryPriority>,
    debounce: Option<Debounce>,
    limiter: Option<Box<dyn RateLimiter<ObjectKey>>>,
    /// Its name, its limiter and its observer are set when the controller is built.
    queue: QueueBuilder<ObjectKey, Cause>,
    /// What this builder sets itself, except for the limiter.
    settings: ControllerDefaults,
    defaults: ControllerDefaults,
    client: Option<Client>,
    recorder: Option<Recorder>,
    child_kinds: ChildKinds,
    span: Option<MakeSpan>,
    in_plan: Option<InPlan>,
    #[cfg(feature = "prometheus")]
    metrics: Option<ControllerMetrics>,
}

/// Creates a source when the controller is built.
pub(crate) type Attach = Box<dyn FnOnce(&ControllerCore) -> Result<Source, InformerError> + Send>;

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
    /// The number of attempts is zero.
    #[error("controller {controller:?} has no attempts: max_attempts must be at least 1")]
    NoAttempts {
        /// The controller.
        controller: String,
    },
}

/// How long caches may take to sync by default. As in controller-runtime.
const SYNC_TIMEOUT: Duration = Duration::from_mins(2);

impl<K: ObjectType> Controller<K> {
    /// A controller of the objects that `primary` watches.
    ///
    /// The name is for logs, metrics and the queue. It is also the field manager of what the
    /// controller applies, and the label of its [children](crate::RunContext::children). So choose
    /// one that no other controller of the cluster has, and keep it: under another name, the
    /// controller does not know its children any more.
    pub fn named(name: impl Into<String>, primary: Watch<K>) -> ControllerBuilder<K> {
        ControllerBuilder {
            name: name.into(),
            primary,
            sources: Vec::new(),
            handle: ControllerHandle::default(),
            filter: None,
            pause: Pause::default(),
            priority: Arc::new(default_priority),
            retry_priority: None,
            debounce: None,
            limiter: None,
            queue: WorkQueue::builder(),
            settings: ControllerDefaults::new(),
            defaults: ControllerDefaults::new(),
            client: None,
            recorder: None,
            child_kinds: ChildKinds::default(),
            span: None,
            in_plan: None,
            #[cfg(feature = "prometheus")]
            metrics: None,
        }
    }
}

impl<K: ObjectType> ControllerBuilder<K> {
    /// How many keys run at once. Default: 1.
    ///
    /// As everywhere in tokio, a run must not block its thread, or other keys may have to wait for
    /// it. Do blocking work in [`spawn_blocking`](tokio::task::spawn_blocking).
    pub fn workers(self, workers: usize) -> Self {
        Self { settings: self.settings.workers(workers), ..self }
    }

    /// How long a key that failed waits. Default: from 5 ms to 1000 s, doubling, and ten keys a
    /// second in total.
    pub fn limiter(self, limiter: impl RateLimiter<ObjectKey> + 'static) -> Self {
        Self { limiter: Some(Box::new(limiter)), ..self }
    }

    /// Cancels a run that takes longer, when it awaits something: a run that blocks its thread
    /// cannot be cancelled. Default: no timeout.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { settings: self.settings.timeout(timeout), ..self }
    }

    /// How many bytes the record of runs may take, which [`Controller::runs`] and the debug report
    /// show. Default: [`JOURNAL_BYTES`](crate::JOURNAL_BYTES), 16 MiB.
    ///
    /// The keys that ran last share it. If it is used up, the runs of the key that ran longest ago
    /// are [shortened](crate::Run::is_shortened): they keep their causes, their outcome, and the
    /// uids and versions that they wrote. Shortened runs get half of it; beyond that, the key that
    /// ran longest ago is forgotten. At most [`KEYS_MAX`](crate::KEYS_MAX) keys are known, whatever
    /// their size.
    pub fn journal_bytes(self, bytes: usize) -> Self {
        Self { settings: self.settings.journal_bytes(bytes), ..self }
    }

    /// How long caches may take to sync before [`Controller::run`] gives up. Default: 2 minutes.
    pub fn sync_timeout(self, timeout: Duration) -> Self {
        Self { settings: self.settings.sync_timeout(timeout), ..self }
    }

    /// Settings for what this builder does not set itself.
    pub fn defaults(self, defaults: ControllerDefaults) -> Self {
        Self { defaults, ..self }
    }

    /// What the controller does in [plan mode](Controller::plan). Default: it refuses, because a
    /// reconciler may change something outside of the cluster, where there are no dry runs.
    pub fn in_plan(self, in_plan: InPlan) -> Self {
        Self { in_plan: Some(in_plan), ..self }
    }

    /// The client with which the runs read and write. Default: the client of the factory.
    pub fn client(self, client: Client) -> Self {
        Self { client: Some(client), ..self }
    }

    /// What records the events of the runs. Default: one that writes them with the client of the
    /// factory. Tests pass [`Recorder::in_memory`].
    pub fn recorder(self, recorder: Recorder) -> Self {
        Self { recorder: Some(recorder), ..self }
    }

    /// The name of the controller.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The span of a run, which all log lines of the reconciler have. Default: a span
    /// `reconcile` with the controller, the key, the [id of the run](crate::RunContext::run_id),
    /// the attempt and the last cause. `shape` is called only if there is a subscriber. If it
    /// panics, that is logged, and the run has the default span.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use windlass_reconciler::{Controller, ControllerBuilder, Watch};
    /// # fn builder() -> ControllerBuilder<ConfigMap> {
    /// Controller::named("configmap", Watch::<ConfigMap>::new()).span(|cx| {
    ///     let tenant = cx.key().namespace();
    ///     tracing::error_span!("reconcile", reconcile_id = %cx.run_id(), key = %cx.key(), tenant)
    /// })
    /// # }
    /// ```
    ///
    /// A filter that disables the level of a span removes the span from all lines. So this one has
    /// the level `ERROR`.
    pub fn span(self, shape: impl Fn(&RunContext) -> Span + Send + Sync + 'static) -> Self {
        Self { span: Some(Arc::new(shape)), ..self }
    }

    /// Shows the controller and its queue with these metrics. Default: they are not shown.
    #[cfg(feature = "prometheus")]
    pub fn metrics(self, metrics: &ControllerMetrics) -> Self {
        Self { metrics: Some(metrics.clone()), ..self }
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
        let controller = self.name;
        let settings = self.settings.clone().or(self.defaults.clone());
        let workers = settings.workers.unwrap_or(1);
        if workers == 0 {
            return Err(BuildError::NoWorkers { controller });
        }
        if settings.max_attempts == Some(0) {
            return Err(BuildError::NoAttempts { controller });
        }
        let queue_error = |error| BuildError::Queue { controller: controller.clone(), error };
        let mut queue = self.queue.name(&*controller);
        let default_limiter = || settings.limiter.as_ref().map(|make| make());
        if let Some(limiter) = self.limiter.or_else(default_limiter) {
            queue = queue.limiter(limiter);
        }
        #[cfg(feature = "prometheus")]
        if let Some(metrics) = &self.metrics {
            queue = queue.observer(metrics.queues().observer(&controller));
        }
        let queue = queue.build().map_err(queue_error)?;
        let informer_error = |error| BuildError::Informer { controller: controller.clone(), error };
        let (primary, predicate) = self.primary.open(factory).map_err(informer_error)?;
        let (objects, name) = (primary.lister().clone(), Arc::<str>::from(&*controller));
        let core = Arc::new(ControllerCore {
            controller: Arc::clone(&name),
            primary: primary.resource().clone(),
            child_kinds: self.child_kinds,
            workers,
            timeout: settings.timeout,
            max_attempts: settings.max_attempts,
            pause: self.pause,
            retry_priority: self.retry_priority,
            on_error: settings.on_error,
            client: self.client.unwrap_or_else(|| factory.client().clone()),
            filter: self.filter,
            factory: factory.clone(),
            objects: objects.reader().clone(),
            sources: Sources::default(),
            streams: Arc::clone(&self.handle.streams),
            mappers: Arc::default(),
            enqueuer: Enqueuer {
                queue,
                controller: Arc::clone(&name),
                priority: self.priority,
                debounce: self.debounce.map(Arc::new),
            },
            expectations: Expectations::new(),
            recorder: self
                .recorder
                .unwrap_or_else(|| Recorder::new(factory.client().clone(), Arc::clone(&name))),
            retired_children: RetiredChildren::default(),
            applied: Applied::new(),
            warnings: ServerWarnings::new(),
            on_write: OnceLock::new(),
            ids: RunIds::of(&name, &instance_from_environment(), windlass_environment::now()),
            running: Running::new(WARN_AFTER),
            inactive: Arc::new(InactiveKeys::new(objects.reader().clone())),
            journal: Journal::new(settings.journal_bytes.unwrap_or(JOURNAL_BYTES)),
            subscribers: Arc::clone(&self.handle.subscribers),
            plan: OnceLock::new(),
            #[cfg(feature = "prometheus")]
            durations: OnceLock::new(),
        });
        // Must be the first source: runs find their object there.
        core.sources.add(core.primary_source(&primary, predicate).map_err(informer_error)?);
        for attach in self.sources {
            core.sources.add(attach(&core).map_err(informer_error)?);
        }
        self.handle.attach(&core);
        #[cfg(feature = "prometheus")]
        if let Some(metrics) = &self.metrics {
            let _ = core.durations.set(metrics.show(&core));
        }
        Ok(Controller {
            work: Arc::new(Work {
                core,
                span: self.span,
                reconciler: Box::new(reconciler),
                objects,
            }),
            handle: self.handle,
            is_running: AtomicBool::new(false),
            is_synced: AtomicBool::new(false),
            in_plan: self.in_plan,
            sync_timeout: settings.sync_timeout.unwrap_or(SYNC_TIMEOUT),
        })
    }
}

impl<K> fmt::Debug for ControllerBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerBuilder").field("primary", &self.primary).finish_non_exhaustive()
    }
}
