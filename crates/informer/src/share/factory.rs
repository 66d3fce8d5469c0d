//! Factories: one informer for each resource, however many ask for it.
//!
//! A factory knows its informers by their identity, not by the type that they are read as, so that typed, dynamic
//! and metadata-only readers of a resource share one watch and one cache.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use kube::Client;
use kube::core::PartialObjectMeta;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_indexer::Lister;

use crate::error::{InformerError, Stopped};
use crate::reflect::reflector::ServerTraits;
use crate::resource::{Resource, Scope};
use crate::share::dynamic::DynamicInformerFactory;
use crate::share::engine::{Engine, Origin};
use crate::share::informer::{SharedInformer, User};
use crate::share::lock::lock;
use crate::share::options::{Identity, InformerOptions};
use crate::telemetry::status::{InformerStatus, Life};

/// Makes informers, shares them, starts and stops them. Cheap to clone.
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
    client: Client,
    defaults: InformerOptions,
    custom: BTreeMap<Resource, Customise>,
    stop: CancellationToken,
}

type Customise = Arc<dyn Fn(InformerOptions) -> InformerOptions + Send + Sync>;

struct Shared {
    client: Client,
    /// What is known of the server, for each group: aggregated ones hide behind the same address.
    servers: Mutex<BTreeMap<String, ServerTraits>>,
    defaults: InformerOptions,
    custom: BTreeMap<Resource, Customise>,
    stop: CancellationToken,
    tasks: TaskTracker,
    informers: Mutex<BTreeMap<Identity, Entry>>,
    failed: watch::Sender<Option<InformerFailure>>,
}

struct Entry {
    engine: Arc<Engine>,
    user: Weak<User>,
    is_started: bool,
}

/// An informer that broke.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the informer of {resource} broke: {message}")]
#[non_exhaustive]
pub struct InformerFailure {
    /// Its resource.
    pub resource: Resource,
    /// How.
    pub message: String,
}

impl FactoryBuilder {
    /// What informers are like, unless who asks for one says otherwise: resync, namespaces, selectors, observer.
    pub fn defaults(mut self, options: InformerOptions) -> Self {
        self.defaults = options;
        self
    }

    /// How the informer of one resource is made, whoever asks for it: with a selector, an index, a resync of its
    /// own. Called with the defaults.
    pub fn customise(
        mut self,
        resource: Resource,
        customise: impl Fn(InformerOptions) -> InformerOptions + Send + Sync + 'static,
    ) -> Self {
        self.custom.insert(resource, Arc::new(customise));
        self
    }

    /// Stops everything when `stop` is cancelled, beside [`shut_down`](SharedInformerFactory::shut_down).
    pub fn stop_on(mut self, stop: &CancellationToken) -> Self {
        self.stop = stop.child_token();
        self
    }

    /// The factory.
    pub fn build(self) -> SharedInformerFactory {
        let shared = Shared {
            client: self.client,
            servers: Mutex::default(),
            defaults: self.defaults,
            custom: self.custom,
            stop: self.stop,
            tasks: TaskTracker::new(),
            informers: Mutex::default(),
            failed: watch::Sender::new(None),
        };
        SharedInformerFactory { shared: Arc::new(shared) }
    }
}

impl SharedInformerFactory {
    /// A factory without settings.
    pub fn new(client: Client) -> Self {
        Self::builder(client).build()
    }

    /// Settings first.
    pub fn builder(client: Client) -> FactoryBuilder {
        FactoryBuilder {
            client,
            defaults: InformerOptions::new(),
            custom: BTreeMap::new(),
            stop: CancellationToken::new(),
        }
    }

    /// The informer of a type.
    ///
    /// # Errors
    /// If the options cannot be, or do not fit those of its other users.
    pub fn informer<K>(&self) -> Result<SharedInformer<K>, InformerError>
    where
        K: kube::Resource<DynamicType = (), Scope: Scope>
            + DeserializeOwned
            + Send
            + Sync
            + 'static,
    {
        self.informer_with(|options| options)
    }

    /// The informer of a type, made otherwise than the factory's settings say: `change` is given those.
    ///
    /// # Errors
    /// If the options cannot be, or do not fit those of its other users.
    pub fn informer_with<K>(
        &self,
        change: impl FnOnce(InformerOptions) -> InformerOptions,
    ) -> Result<SharedInformer<K>, InformerError>
    where
        K: kube::Resource<DynamicType = (), Scope: Scope>
            + DeserializeOwned
            + Send
            + Sync
            + 'static,
    {
        self.informer_of(&Resource::of::<K>(), change)
    }

    /// The informer of any resource, read as `K`: a type with the few fields that matter, or a dynamic one.
    ///
    /// # Errors
    /// If the options cannot be, or do not fit those of its other users.
    pub fn informer_of<K>(
        &self,
        resource: &Resource,
        change: impl FnOnce(InformerOptions) -> InformerOptions,
    ) -> Result<SharedInformer<K>, InformerError>
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        self.ask(resource, change, false)
    }

    /// The lister of a type. Its informer is registered, and runs as long as the lister is there.
    ///
    /// # Errors
    /// If the options cannot be, or do not fit those of its other users.
    pub fn lister<K>(&self) -> Result<Lister<K>, InformerError>
    where
        K: kube::Resource<DynamicType = (), Scope: Scope>
            + DeserializeOwned
            + Send
            + Sync
            + 'static,
    {
        Ok(self.informer::<K>()?.lister().clone())
    }

    /// An informer that needs no more of the objects than their metadata. If somebody else has asked for whole
    /// objects it is the same one; otherwise the server sends nothing but metadata.
    ///
    /// # Errors
    /// If the options cannot be, or do not fit those of its other users.
    pub fn metadata<K>(&self) -> Result<SharedInformer<PartialObjectMeta<K>>, InformerError>
    where
        K: kube::Resource<DynamicType = (), Scope: Scope> + Send + Sync + 'static,
    {
        self.metadata_of(&Resource::of::<K>(), |options| options)
    }

    /// As [`metadata`](Self::metadata), of any resource, made otherwise.
    ///
    /// # Errors
    /// If the options cannot be, or do not fit those of its other users.
    pub fn metadata_of<K>(
        &self,
        resource: &Resource,
        change: impl FnOnce(InformerOptions) -> InformerOptions,
    ) -> Result<SharedInformer<K>, InformerError>
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        self.ask(resource, change, true)
    }

    /// Informers of resources that are known at run time only, shared with those of this factory.
    pub fn dynamic(&self) -> DynamicInformerFactory {
        DynamicInformerFactory::on(self.clone())
    }

    /// Runs every informer that does not run yet. Call it again when there are more.
    ///
    /// # Panics
    /// If it is not called within a tokio runtime.
    pub fn start(&self) {
        let mut informers = lock(&self.shared.informers);
        informers.retain(|_, entry| entry.is_used());
        for entry in informers.values_mut() {
            if !entry.is_started && !self.shared.stop.is_cancelled() {
                entry.is_started = true;
                let shared = Arc::clone(&self.shared);
                let engine = Arc::clone(&entry.engine);
                self.shared.tasks.spawn(async move { shared.run(&engine).await });
            }
        }
    }

    /// Waits until every informer's cache is complete. Cancel safe.
    ///
    /// # Errors
    /// If one of them was not started, or stops or breaks before, with its resource.
    pub async fn wait_for_cache_sync(&self) -> Result<(), NotSynced> {
        if let Some(resource) = self.never_started() {
            return Err(NotSynced::NotStarted { resource });
        }
        let stopped = |resource: &Resource| NotSynced::Stopped { resource: resource.clone() };
        let engines = self.engines();
        // One that broke may not be among them any more.
        if let Some(failure) = &*self.shared.failed.borrow() {
            return Err(stopped(&failure.resource));
        }
        for engine in engines {
            engine.wait_for_sync().await.map_err(|_| stopped(engine.resource()))?;
        }
        Ok(())
    }

    /// Waits until every informer's cache is complete and every handler has seen all of it. Subscriptions are not
    /// waited for, since who takes their events may be the one who waits here. Cancel safe.
    ///
    /// # Errors
    /// If one of them stops or breaks before, with its resource.
    pub async fn wait_for_sync(&self) -> Result<(), NotSynced> {
        self.wait_for_cache_sync().await?;
        for engine in self.engines() {
            for listener in engine.cache().driven_listeners() {
                // One that was removed meanwhile is not waited for.
                listener.wait_for_sync().await;
            }
        }
        Ok(())
    }

    /// What every informer is at.
    pub fn status(&self) -> Vec<InformerStatus> {
        self.engines().iter().map(|engine| engine.status()).collect()
    }

    /// Waits for an informer to break, which none does but for a bug, or a transform or index that panics: a
    /// process should end then. Never returns otherwise. Cancel safe.
    pub async fn wait_for_failure(&self) -> InformerFailure {
        let mut failed = self.shared.failed.subscribe();
        match failed.wait_for(Option::is_some).await.map(|failure| failure.clone()) {
            Ok(Some(failure)) => failure,
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Stops all informers and waits for their handlers to finish what they are at. The factory starts no others.
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

    /// Those that somebody uses.
    fn engines(&self) -> Vec<Arc<Engine>> {
        let informers = lock(&self.shared.informers);
        let used = informers.values().filter(|entry| entry.is_used());
        used.map(|entry| Arc::clone(&entry.engine)).collect()
    }

    /// One that would be waited for in vain. Who runs an informer himself is not among them.
    fn never_started(&self) -> Option<Resource> {
        let informers = lock(&self.shared.informers);
        let mut idle = informers
            .values()
            .filter(|entry| entry.is_used() && !entry.is_started && entry.engine.is_new());
        idle.next().map(|entry| entry.engine.resource().clone())
    }

    fn ask<K>(
        &self,
        resource: &Resource,
        change: impl FnOnce(InformerOptions) -> InformerOptions,
        metadata_only: bool,
    ) -> Result<SharedInformer<K>, InformerError>
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        let shared = &*self.shared;
        if shared.stop.is_cancelled() {
            return Err(Stopped.into());
        }
        let mut defaults = shared.defaults.clone();
        if !resource.is_namespaced() {
            // A factory for some namespaces may be asked for nodes as well.
            defaults.namespaces.clear();
            defaults.is_nowhere = false;
        }
        let made = match shared.custom.get(resource) {
            Some(customise) => customise(defaults),
            None => defaults,
        };
        let mut options = change(made);
        options.metadata_only = metadata_only;
        let mut informers = lock(&shared.informers);
        upgrade(&mut informers, resource, &options);
        if let Some((engine, user)) = find(&informers, resource, &options) {
            // Indexes are the users' code, and may take their time with a full cache.
            drop(informers);
            engine.require_same_options(&options)?;
            return SharedInformer::face(engine, user, options.resync);
        }
        let group = resource.group().to_owned();
        let server = lock(&shared.servers).entry(group).or_default().clone();
        let origin = Origin::Server(shared.client.clone(), server);
        let stop = shared.stop.child_token();
        let engine = Engine::new(resource.clone(), origin, options.clone(), stop)?;
        let informer = SharedInformer::on(engine, options.resync)?;
        let (engine, user) = informer.parts();
        let entry =
            Entry { engine: Arc::clone(engine), user: Arc::downgrade(user), is_started: false };
        informers.insert(options.identity(resource), entry);
        Ok(informer)
    }
}

/// If whole objects are wanted of an informer that has metadata only and does not run yet, it is to have both.
fn upgrade(
    informers: &mut BTreeMap<Identity, Entry>,
    resource: &Resource,
    options: &InformerOptions,
) {
    let whole = options.identity(resource);
    let partial = whole.clone().metadata_only(true);
    if whole != partial
        && !informers.contains_key(&whole)
        && informers.get(&partial).is_some_and(|entry| entry.engine.wants_whole_objects())
        && let Some(entry) = informers.remove(&partial)
    {
        informers.insert(whole, entry);
    }
}

/// An informer that is there and does what is asked for.
fn find(
    informers: &BTreeMap<Identity, Entry>,
    resource: &Resource,
    options: &InformerOptions,
) -> Option<(Arc<Engine>, Arc<User>)> {
    let living = |metadata_only: bool| {
        let identity = options.identity(resource).metadata_only(metadata_only);
        let entry = informers.get(&identity)?;
        if entry.engine.token().is_cancelled() {
            return None;
        }
        Some((Arc::clone(&entry.engine), entry.user.upgrade()?))
    };
    // Whole objects have metadata as well.
    living(false).or_else(|| options.metadata_only.then(|| living(true)).flatten())
}

impl Entry {
    /// Whether somebody uses it, and it has not ended.
    fn is_used(&self) -> bool {
        self.user.strong_count() > 0 && *self.engine.life().borrow() != Life::Stopped
    }
}

impl Shared {
    /// Runs an informer, and forgets it when it has ended.
    async fn run(&self, engine: &Arc<Engine>) {
        if engine.run().await.is_err() {
            // Somebody else runs it.
            return;
        }
        if let Life::Failed(message) = &*engine.life().borrow() {
            let resource = engine.resource().clone();
            self.failed.send_replace(Some(InformerFailure { resource, message: message.clone() }));
        }
        // By itself, because its identity may have changed: metadata only, and then whole objects.
        lock(&self.informers).retain(|_, entry| !Arc::ptr_eq(&entry.engine, engine));
    }
}

/// A cache that is not complete, and will not be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotSynced {
    /// It has stopped or broken.
    #[error("the informer of {resource} has stopped before its cache was complete")]
    Stopped {
        /// Its resource.
        resource: Resource,
    },
    /// Nobody has started it.
    #[error(
        "the informer of {resource} was not started: call `start` after asking for it, as often as there are more"
    )]
    NotStarted {
        /// Its resource.
        resource: Resource,
    },
}

impl NotSynced {
    /// Whose cache it is.
    pub fn resource(&self) -> &Resource {
        match self {
            Self::Stopped { resource } | Self::NotStarted { resource } => resource,
        }
    }
}

impl fmt::Debug for SharedInformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resources = self.engines().into_iter().map(|engine| engine.resource().clone());
        f.debug_tuple("SharedInformerFactory").field(&resources.collect::<Vec<_>>()).finish()
    }
}

impl fmt::Debug for FactoryBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FactoryBuilder").field("defaults", &self.defaults).finish_non_exhaustive()
    }
}
