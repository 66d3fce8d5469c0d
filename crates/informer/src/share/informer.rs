//! The informer that users hold: a typed view of an engine, which knows no types.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_indexer::{Index, Lister, ObjectType};

use crate::cache::event::Handler;
use crate::cache::listener::{HandlerOptions, run_handler};
use crate::error::{InformerError, Stopped};
use crate::reflector::ServerFeatures;
use crate::resource::{Resource, StaticResource};
use crate::share::engine::{Engine, ObjectSource};
use crate::share::informer_cache::InformerCache;
use crate::share::options::InformerOptions;
use crate::share::registration::{Registration, Subscription};
use crate::telemetry::status::{InformerPhase, InformerStatus};
use crate::transport::source::ListWatch;

/// A cache of one resource that keeps itself up to date and notifies any number of handlers.
///
/// Cheap to clone. All clones, and all informers that a factory returns for the same options, are
/// one informer: one watch, one cache. It runs as long as it is used: by a clone of this, a
/// handler, a subscription, a lister or an object from it. It stops when the last of them is
/// dropped.
///
/// ```
/// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use k8s_openapi::api::core::v1::Pod;
/// use tokio_util::sync::{CancellationToken, DropGuard};
/// use windlass_informer::{Event, InformerOptions, SharedInformer};
///
/// let pods = SharedInformer::<Pod>::new(client, InformerOptions::new().namespace("shop"))?;
/// pods.add_handler(|event: Event<Pod>| println!("{event:?}"))?;
///
/// let stop = CancellationToken::new();
/// let run = pods.run(stop.clone());
/// let use_it = async {
///     pods.wait_for_sync().await?;
///     let pod = pods.lister().get("shop/web-1")?;
/// #   drop(pod);
///     stop.cancel();
///     Ok::<_, Box<dyn std::error::Error>>(())
/// };
/// let (ran, used) = tokio::join!(run, use_it);
/// # ran?; used?;
/// # Ok(())
/// # }
/// ```
///
/// Objects are shared and immutable by type: users cannot change the cache, so there is nothing
/// like client-go's mutation detector.
pub struct SharedInformer<K> {
    pub(crate) engine: Arc<Engine>,
    lister: Lister<K>,
    pub(crate) user: KeepAlive,
    /// How often handlers that are added by this one are shown everything again. Zero for never.
    resync: Duration,
}

/// Stops the informer when its last user is dropped.
pub(crate) type KeepAlive = Arc<DropGuard>;

impl<K: StaticResource + ObjectType> SharedInformer<K> {
    /// An informer of its own. A [`SharedInformerFactory`](crate::SharedInformerFactory) makes
    /// informers that are shared.
    ///
    /// # Errors
    /// Returns an error if a selector is invalid or the layout is of another type.
    pub fn new(client: Client, options: InformerOptions) -> Result<Self, InformerError> {
        Self::of(client, Resource::of::<K>(), options)
    }
}

impl<K: ObjectType> SharedInformer<K> {
    /// An informer of any resource, read as `K`: a type of your own with a few fields, or a dynamic
    /// one.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of(
        client: Client,
        resource: Resource,
        options: InformerOptions,
    ) -> Result<Self, InformerError> {
        Self::unshared(ObjectSource::Server(client, ServerFeatures::default()), resource, options)
    }

    /// An informer of any source. The source is responsible for namespaces and selectors.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_source(
        source: impl ListWatch,
        resource: Resource,
        options: InformerOptions,
    ) -> Result<Self, InformerError> {
        Self::unshared(ObjectSource::Custom(Arc::new(source)), resource, options)
    }

    fn unshared(
        object_source: ObjectSource,
        resource: Resource,
        options: InformerOptions,
    ) -> Result<Self, InformerError> {
        let stop = CancellationToken::new();
        let informer = Self::create(object_source, resource, options, false, stop)?;
        informer.engine.report_created();
        Ok(informer)
    }

    /// An informer with an engine of its own. The caller reports that it was created.
    pub(crate) fn create(
        object_source: ObjectSource,
        resource: Resource,
        options: InformerOptions,
        metadata_only: bool,
        stop: CancellationToken,
    ) -> Result<Self, InformerError> {
        let resync = options.resync;
        let engine = Engine::new(resource, object_source, options, metadata_only, stop)?;
        let user = Arc::new(engine.stop.clone().drop_guard());
        Self::with_engine(engine, user, resync)
    }

    /// One more view of an engine.
    pub(crate) fn with_engine(
        engine: Arc<Engine>,
        user: KeepAlive,
        resync: Duration,
    ) -> Result<Self, InformerError> {
        let lister = engine
            .cache
            .reader
            .lister::<K>()
            .map_err(|error| InformerError::Type { resource: engine.resource.clone(), error })?;
        // A lister is a user, too, even if nothing else is left of the informer.
        let lister = lister.keeping(Arc::clone(&user) as _);
        Ok(Self { engine, lister, user, resync })
    }

    /// The same informer, read as another type.
    ///
    /// # Errors
    /// Returns an error if it is resident as another type.
    pub fn read_as<T: ObjectType>(&self) -> Result<SharedInformer<T>, InformerError> {
        SharedInformer::with_engine(Arc::clone(&self.engine), Arc::clone(&self.user), self.resync)
    }

    /// Reads the cache. It can be read at any time; it is complete once the informer is
    /// [synced](Self::wait_for_sync).
    pub fn lister(&self) -> &Lister<K> {
        &self.lister
    }

    /// Its resource.
    pub fn resource(&self) -> &Resource {
        &self.engine.resource
    }

    /// Adds a handler. It is first shown every cached object as added, and then every change: it
    /// misses nothing and gets nothing twice.
    ///
    /// # Errors
    /// Returns an error if the informer has stopped.
    pub fn add_handler(&self, handler: impl Handler<K>) -> Result<Registration, Stopped> {
        self.add_handler_with(HandlerOptions::new(), handler)
    }

    /// As [`add_handler`](Self::add_handler), with a name or a resync of its own.
    ///
    /// # Errors
    /// Returns an error if the informer has stopped.
    pub fn add_handler_with<H: Handler<K>>(
        &self,
        mut options: HandlerOptions,
        handler: H,
    ) -> Result<Registration, Stopped> {
        options.resync.get_or_insert(self.resync);
        let listener = self.engine.new_listener(options, std::any::type_name::<H>(), true);
        // The lister in the task makes the handler a user of the informer until it is removed.
        let task = run_handler(Arc::clone(&listener), self.lister.clone(), handler);
        self.engine.join(Arc::clone(&listener), Some(Box::pin(task)))?;
        Ok(Registration::new(listener, &self.engine.cache))
    }

    /// Events to await one by one, beginning with every cached object.
    ///
    /// # Errors
    /// Returns an error if the informer has stopped.
    pub fn subscribe(&self) -> Result<Subscription<K>, Stopped> {
        self.subscribe_with(HandlerOptions::new())
    }

    /// As [`subscribe`](Self::subscribe), with a name or a resync of its own.
    ///
    /// # Errors
    /// Returns an error if the informer has stopped.
    pub fn subscribe_with(&self, mut options: HandlerOptions) -> Result<Subscription<K>, Stopped> {
        options.resync.get_or_insert(self.resync);
        let listener = self.engine.new_listener(options, "subscription", false);
        self.engine.join(Arc::clone(&listener), None)?;
        let registration = Registration::new(listener, &self.engine.cache);
        Ok(Subscription::new(registration, self.lister.clone()))
    }

    /// Adds an index, at any time, unless an equal one is there. It has every cached object when
    /// this returns.
    ///
    /// # Errors
    /// Returns an error if there is one of the same type with other settings, or if it needs the
    /// bytes of objects and the informer is resident.
    pub fn add_index<I: Index>(&self, index: I) -> Result<(), InformerError> {
        self.engine
            .cache
            .add_index(index)
            .map_err(|error| InformerError::Index { resource: self.resource().clone(), error })
    }

    /// Checks that the cache keeps the bytes of objects, from which `reader` reads what their
    /// metadata in the cache lacks: annotations.
    ///
    /// # Errors
    /// Returns an error that names `reader` if the informer is
    /// [resident](InformerOptions::resident).
    pub fn require_bytes(&self, reader: &'static str) -> Result<(), InformerError> {
        let options = &self.engine.options;
        if !options.is_resident() {
            return Ok(());
        }
        let resource = self.resource().clone();
        let held = options.describe_layout();
        Err(InformerError::NoBytes { resource, held, reader })
    }

    /// Whether the first lists are complete, and the informer has not stopped.
    pub fn has_synced(&self) -> bool {
        *self.engine.phase.borrow() == InformerPhase::Synced
    }

    /// Waits until [`has_synced`](Self::has_synced). Cancel safe.
    ///
    /// # Errors
    /// Returns an error if the informer stops or breaks before.
    pub async fn wait_for_sync(&self) -> Result<(), Stopped> {
        self.engine.wait_for_sync().await
    }

    /// Runs it until `stop` is cancelled or [`stop`](Self::stop) is called, and until its handlers
    /// have finished. A factory runs its informers itself. An informer runs only once.
    ///
    /// # Errors
    /// Returns an error if it runs already, or did.
    pub async fn run(&self, stop: CancellationToken) -> Result<(), Stopped> {
        let run = self.engine.run();
        tokio::pin!(run);
        tokio::select! {
            biased;
            ran = &mut run => ran,
            () = stop.cancelled() => {
                self.stop();
                run.await
            }
        }
    }

    /// Stops it for all of its users. The cache stays readable.
    pub fn stop(&self) {
        self.engine.stop();
    }

    /// The cache, which can tell whether it shows a write.
    pub fn cache(&self) -> InformerCache {
        InformerCache::new(Arc::clone(&self.engine))
    }

    /// How far it is, what went wrong, which handler is slow.
    pub fn status(&self) -> InformerStatus {
        self.engine.status()
    }
}

// Not derived, because that would require `K: Clone`.
impl<K> Clone for SharedInformer<K> {
    fn clone(&self) -> Self {
        Self {
            engine: Arc::clone(&self.engine),
            lister: self.lister.clone(),
            user: Arc::clone(&self.user),
            resync: self.resync,
        }
    }
}

impl<K> fmt::Debug for SharedInformer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedInformer({}, {:?})", self.engine.resource, self.lister)
    }
}
