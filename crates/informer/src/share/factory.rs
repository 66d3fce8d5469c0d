//! Factories: one informer for each resource, however many users ask for it.
//!
//! A factory finds its informers by their identity, and not by the type that they are read as. So
//! typed, dynamic and metadata-only readers of a resource share one watch and one cache.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use kube::Client;
use kube::core::{GroupVersionKind, PartialObjectMeta};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_indexer::{Lister, ObjectType};

use crate::error::{InformerError, InformerFailure, NotSynced, Stopped};
use crate::lock::lock;
use crate::reflector::ServerFeatures;
use crate::resource::{Resource, StaticResource};
use crate::share::engine::{Engine, ObjectSource};
use crate::share::informer::SharedInformer;
use crate::share::options::InformerOptions;
use crate::share::registry::Registry;
use crate::telemetry::status::{InformerPhase, InformerStatus};

/// Creates, shares, starts and stops informers. Cheap to clone.
///
/// ```
/// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use k8s_openapi::api::apps::v1::Deployment;
/// use k8s_openapi::api::core::v1::Pod;
/// use windlass_informer::{Event, SharedInformerFactory};
///
/// let factory = SharedInformerFactory::new(client);
/// let pods = factory.informer::<Pod>()?;
/// pods.add_handler(|event: Event<Pod>| println!("{event:?}"))?;
/// let deployments = factory.lister::<Deployment>()?; // registers its informer
///
/// factory.start();
/// factory.wait_for_sync().await?; // caches are complete, and handlers have seen them
/// println!("{} deployments", deployments.len());
/// factory.shut_down().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SharedInformerFactory {
    shared: Arc<Shared>,
}

/// Settings of a factory.
#[must_use]
pub struct FactoryBuilder {
    shared: Shared,
}

type Customise = Arc<dyn Fn(InformerOptions) -> InformerOptions + Send + Sync>;

struct Shared {
    client: Client,
    /// What is known about the server, by API group: an aggregated API server answers for whole
    /// groups behind the same address.
    servers: Mutex<BTreeMap<String, ServerFeatures>>,
    defaults: InformerOptions,
    custom: BTreeMap<Resource, Customise>,
    stop: CancellationToken,
    tasks: TaskTracker,
    informers: Mutex<Registry>,
    failed: watch::Sender<Option<InformerFailure>>,
    /// The resources of kinds that discovery has found. Bounded by the kinds that the program asks
    /// for.
    discovered: Mutex<Discovered>,
}

/// Resources by their kinds.
pub(crate) type Discovered = HashMap<GroupVersionKind, Resource, RandomState>;

impl FactoryBuilder {
    /// The default options of informers: resync, namespaces, selectors, observer. The caller that
    /// requests an informer can change them.
    pub fn defaults(mut self, options: InformerOptions) -> Self {
        self.shared.defaults = options;
        self
    }

    /// Changes the defaults for the informer of one resource: a selector, an index, a resync of its
    /// own.
    pub fn customise(
        mut self,
        resource: Resource,
        customise: impl Fn(InformerOptions) -> InformerOptions + Send + Sync + 'static,
    ) -> Self {
        self.shared.custom.insert(resource, Arc::new(customise));
        self
    }

    /// Stops everything when `stop` is cancelled, as
    /// [`shut_down`](SharedInformerFactory::shut_down) does.
    pub fn stop_on(mut self, stop: &CancellationToken) -> Self {
        self.shared.stop = stop.child_token();
        self
    }

    /// Builds the factory.
    pub fn build(self) -> SharedInformerFactory {
        SharedInformerFactory { shared: Arc::new(self.shared) }
    }
}

impl SharedInformerFactory {
    /// A factory with default settings.
    pub fn new(client: Client) -> Self {
        Self::builder(client).build()
    }

    /// A factory with settings.
    pub fn builder(client: Client) -> FactoryBuilder {
        let shared = Shared {
            client,
            servers: Mutex::default(),
            defaults: InformerOptions::new(),
            custom: BTreeMap::new(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            informers: Mutex::default(),
            failed: watch::Sender::new(None),
            discovered: Mutex::default(),
        };
        FactoryBuilder { shared }
    }

    /// The informer of a type.
    ///
    /// # Errors
    /// Returns an error if the options are invalid, or do not fit those of its other users.
    pub fn informer<K: StaticResource + ObjectType>(
        &self,
    ) -> Result<SharedInformer<K>, InformerError> {
        self.informer_with(|options| options)
    }

    /// The informer of a type, with changed options: `change` gets those of the factory.
    ///
    /// # Errors
    /// Returns an error if the options are invalid, or do not fit those of its other users.
    pub fn informer_with<K: StaticResource + ObjectType>(
        &self,
        change: impl FnOnce(InformerOptions) -> InformerOptions,
    ) -> Result<SharedInformer<K>, InformerError> {
        self.informer_of(&Resource::of::<K>(), change)
    }

    /// The informer of any resource, read as `K`: a type of your own with a few fields, or a
    /// dynamic one.
    ///
    /// # Errors
    /// Returns an error if the options are invalid, or do not fit those of its other users.
    pub fn informer_of<K: ObjectType>(
        &self,
        resource: &Resource,
        change: impl FnOnce(InformerOptions) -> InformerOptions,
    ) -> Result<SharedInformer<K>, InformerError> {
        self.get_or_create(resource, change, false)
    }

    /// The lister of a type. Its informer runs as long as the lister is used.
    ///
    /// # Errors
    /// Returns an error if the options are invalid, or do not fit those of its other users.
    pub fn lister<K: StaticResource + ObjectType>(&self) -> Result<Lister<K>, InformerError> {
        Ok(self.informer::<K>()?.lister().clone())
    }

    /// An informer of which only the metadata is read. If another user asks for whole objects, it
    /// is the same informer; otherwise the server sends nothing but metadata.
    ///
    /// # Errors
    /// Returns an error if the options are invalid, or do not fit those of its other users.
    pub fn metadata<K: StaticResource + Send + Sync + 'static>(
        &self,
    ) -> Result<SharedInformer<PartialObjectMeta<K>>, InformerError> {
        self.metadata_of(&Resource::of::<K>(), |options| options)
    }

    /// As [`metadata`](Self::metadata), of any resource, with changed options. It is read as
    /// metadata only, because all other fields would be missing from it.
    ///
    /// # Errors
    /// Returns an error if the options are invalid, or do not fit those of its other users.
    pub fn metadata_of<K: Send + Sync + 'static>(
        &self,
        resource: &Resource,
        change: impl FnOnce(InformerOptions) -> InformerOptions,
    ) -> Result<SharedInformer<PartialObjectMeta<K>>, InformerError> {
        self.get_or_create(resource, change, true)
    }

    /// Starts every informer that does not run yet. Call it again after more were requested. If the
    /// factory is stopped, this ends all waits for informers that never ran.
    ///
    /// # Panics
    /// Panics if it is not called within a tokio runtime.
    pub fn start(&self) {
        if self.shared.stop.is_cancelled() {
            return self.engines().iter().for_each(|engine| engine.stop());
        }
        // Panics before any informer is marked as started.
        let runtime = Handle::current();
        let new = lock(&self.shared.informers).take_new();
        for engine in new {
            let shared = Arc::clone(&self.shared);
            self.shared.tasks.spawn_on(async move { shared.run(&engine).await }, &runtime);
        }
    }

    /// Waits until every informer's cache is complete. Cancel safe.
    ///
    /// # Errors
    /// Returns an error if one of them was not started, or stops or breaks before.
    pub async fn wait_for_cache_sync(&self) -> Result<(), NotSynced> {
        if let Some(resource) = lock(&self.shared.informers).never_started() {
            return Err(NotSynced::NotStarted { resource });
        }
        let stopped = |resource: &Resource| NotSynced::Stopped { resource: resource.clone() };
        let engines = self.engines();
        // One that broke may be removed by now.
        if let Some(failure) = &*self.shared.failed.borrow() {
            return Err(stopped(&failure.resource));
        }
        for engine in engines {
            engine.wait_for_sync().await.map_err(|_| stopped(&engine.resource))?;
        }
        Ok(())
    }

    /// Waits until every informer's cache is complete and every handler has seen all of it. It does
    /// not wait for subscriptions, because the task that takes their events may be the one that
    /// waits here. Cancel safe.
    ///
    /// # Errors
    /// As [`wait_for_cache_sync`](Self::wait_for_cache_sync).
    pub async fn wait_for_sync(&self) -> Result<(), NotSynced> {
        self.wait_for_cache_sync().await?;
        for engine in self.engines() {
            for listener in engine.cache.handler_listeners() {
                // This returns also if the handler is removed.
                listener.wait_for_sync().await;
            }
        }
        Ok(())
    }

    /// The status of every informer.
    pub fn status(&self) -> Vec<InformerStatus> {
        self.engines().iter().map(|engine| engine.status()).collect()
    }

    /// Waits until an informer breaks. That is a bug, or a transform or index that panics, and the
    /// process should end. Never returns otherwise. Cancel safe.
    pub async fn wait_for_failure(&self) -> InformerFailure {
        let mut failed = self.shared.failed.subscribe();
        match failed.wait_for(Option::is_some).await.map(|failure| failure.clone()) {
            Ok(Some(failure)) => failure,
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Stops all informers, and waits until their handlers have finished the current event. The
    /// factory starts no others.
    pub async fn shut_down(&self) {
        self.shared.stop.cancel();
        for engine in self.engines() {
            engine.stop();
        }
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    /// The client of its informers.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    pub(crate) fn discovered(&self) -> MutexGuard<'_, Discovered> {
        lock(&self.shared.discovered)
    }

    /// The informers that have a user.
    fn engines(&self) -> Vec<Arc<Engine>> {
        lock(&self.shared.informers).used()
    }

    fn get_or_create<K: ObjectType>(
        &self,
        resource: &Resource,
        change: impl FnOnce(InformerOptions) -> InformerOptions,
        metadata_only: bool,
    ) -> Result<SharedInformer<K>, InformerError> {
        let shared = &*self.shared;
        if shared.stop.is_cancelled() {
            return Err(Stopped.into());
        }
        let mut options = shared.defaults.clone();
        if !resource.is_namespaced() {
            // A factory for some namespaces can also be asked for nodes.
            options.namespaces = None;
        }
        if let Some(customise) = shared.custom.get(resource) {
            options = customise(options);
        }
        let options = change(options);
        let identity = options.identity(resource, metadata_only);
        let mut informers = lock(&shared.informers);
        if let Some((engine, user)) = informers.find(&identity) {
            // Indexes are code of the user, and may take long with a full cache.
            drop(informers);
            engine.add_user(&options)?;
            return SharedInformer::with_engine(engine, user, options.resync);
        }
        let group = resource.group().to_owned();
        let server = lock(&shared.servers).entry(group).or_default().clone();
        let object_source = ObjectSource::Server(shared.client.clone(), server);
        let resource = resource.clone();
        let stop = shared.stop.child_token();
        let informer =
            SharedInformer::create(object_source, resource, options, metadata_only, stop)?;
        informers.insert(identity, &informer.engine, &informer.user);
        // Observers may use the factory.
        drop(informers);
        informer.engine.report_created();
        Ok(informer)
    }
}

impl Shared {
    /// Runs an informer, and removes it when it has ended.
    async fn run(&self, engine: &Arc<Engine>) {
        if engine.run().await.is_err() {
            // The user runs it, by `SharedInformer::run`, or it was stopped before.
            return;
        }
        if let InformerPhase::Failed(message) = &*engine.phase.borrow() {
            let resource = engine.resource.clone();
            self.failed.send_replace(Some(InformerFailure { resource, message: message.clone() }));
        }
        lock(&self.informers).remove(engine);
    }
}

impl fmt::Debug for SharedInformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resources = self.engines().into_iter().map(|engine| engine.resource.clone());
        f.debug_tuple("SharedInformerFactory").field(&resources.collect::<Vec<_>>()).finish()
    }
}

impl fmt::Debug for FactoryBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FactoryBuilder")
            .field("defaults", &self.shared.defaults)
            .finish_non_exhaustive()
    }
}
