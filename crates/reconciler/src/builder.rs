//! How a controller is put together.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use windlass_indexer::{Cached, ObjectKey};
use windlass_informer::{
    Event, HandlerOptions, InformerError, Resource, SharedInformer, SharedInformerFactory,
};
use windlass_workqueue::{Add, Group, InvalidConfig, Priority, RateLimiter, WorkQueue};

use crate::Reconcile;
use crate::cause::Cause;
use crate::controller::{AttachedSource, Controller, Queue, Shared};
use crate::journal::Journal;
use crate::owner::OwnerMapper;
use crate::predicate::Predicate;
use crate::watch::Watch;

/// Puts a controller together.
///
/// ```
/// # use std::sync::Arc;
/// # use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
/// # use windlass_informer::SharedInformerFactory;
/// # use windlass_reconciler::{Action, BuildError, Context, Controller, Error, Reconcile, Watch};
/// # struct Scaler;
/// # impl Reconcile<Deployment> for Scaler {
/// #     async fn reconcile(&self, _: Arc<Deployment>, _: &Context) -> Result<Action, Error> { Ok(Action::Done) }
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
    sources: Vec<Attach<K>>,
    workers: usize,
    limiter: Option<Box<dyn RateLimiter<ObjectKey>>>,
    is_fair: bool,
    timeout: Option<Duration>,
    sync_timeout: Duration,
    object: PhantomData<fn() -> K>,
}

/// Registers a source once the informers are there.
type Attach<K> = Box<dyn FnOnce(&Sink<K>) -> Result<AttachedSource, InformerError> + Send>;

/// Where the events of all sources go.
struct Sink<K> {
    factory: SharedInformerFactory,
    queue: Queue,
    primary: SharedInformer<K>,
    name: Arc<str>,
}

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
        let owner = self.primary.resource().clone();
        self.sources.push(Box::new(move |sink| {
            let owners = sink.primary.lister().reader().clone();
            let mapper = OwnerMapper::new(owner, owners);
            sink.attach(watch, move |object| mapper.key(object.head()))
        }));
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
        self.sources.push(Box::new(move |sink| sink.attach(watch, keys)));
        self
    }

    /// How many keys are worked on at once. Default: 1.
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

    /// Cancels a run that takes longer. Default: never.
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
        let sink = Sink {
            factory: factory.clone(),
            queue: queue.clone(),
            primary: primary.clone(),
            name: controller.as_str().into(),
        };
        let own = |object: &Cached<K>| Some(object.key().clone());
        let mut sources =
            vec![sink.register(primary.clone(), predicate, own).map_err(informer_error)?];
        for attach in self.sources {
            sources.push(attach(&sink).map_err(informer_error)?);
        }
        let shared = Shared {
            name: Arc::clone(&sink.name),
            factory: factory.clone(),
            client: factory.client().clone(),
            reconciler: Box::new(reconciler),
            primary,
            queue,
            timeout: self.timeout,
            journal: Journal::default(),
        };
        Ok(Controller {
            shared: Arc::new(shared),
            sources,
            workers: self.workers,
            sync_timeout: self.sync_timeout,
        })
    }
}

impl<K> Sink<K> {
    fn attach<T, I>(
        &self,
        watch: Watch<T>,
        keys: impl Fn(&Cached<T>) -> I + Send + Sync + 'static,
    ) -> Result<AttachedSource, InformerError>
    where
        T: DeserializeOwned + Send + Sync + 'static,
        I: IntoIterator<Item = ObjectKey>,
    {
        let (informer, predicate) = watch.open(&self.factory)?;
        self.register(informer, predicate, keys)
    }

    /// Turns the events of an informer into keys in the queue.
    fn register<T, I>(
        &self,
        informer: SharedInformer<T>,
        predicate: Option<Predicate<T>>,
        keys: impl Fn(&Cached<T>) -> I + Send + Sync + 'static,
    ) -> Result<AttachedSource, InformerError>
    where
        T: DeserializeOwned + Send + Sync + 'static,
        I: IntoIterator<Item = ObjectKey>,
    {
        let (queue, resource) = (self.queue.clone(), informer.resource().clone());
        let handler = move |event: Event<T>| {
            if predicate.as_ref().is_none_or(|predicate| predicate.passes(&event)) {
                enqueue(&queue, &resource, &event, &keys);
            }
        };
        let options = HandlerOptions::new().name(format!("controller {}", self.name));
        let registration = informer.add_handler_with(options, handler)?;
        let status = informer.clone();
        Ok(AttachedSource {
            registration,
            status: Box::new(move || status.status()),
            _user: Box::new(informer),
        })
    }
}

fn enqueue<T, I>(
    queue: &Queue,
    resource: &Resource,
    event: &Event<T>,
    keys: &impl Fn(&Cached<T>) -> I,
) where
    I: IntoIterator<Item = ObjectKey>,
{
    let cause = Cause::of(resource, event);
    let priority = if cause.is_patient() { Priority::Low } else { Priority::Normal };
    let add = |object: &Cached<T>| {
        for key in keys(object) {
            // A queue that is shut down takes nothing: the controller has stopped.
            let _ = queue.add_with(key, Add::now().priority(priority).cause(cause.clone()));
        }
    };
    if let Event::Updated { old, .. } = event
        && !event.is_resync()
    {
        // What it led to before has to look as well.
        add(old);
    }
    add(event.object());
}

impl<K> fmt::Debug for ControllerBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerBuilder").field("primary", &self.primary).finish_non_exhaustive()
    }
}
