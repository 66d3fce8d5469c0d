//! The informer that users hold: a typed face on an engine that knows no types.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use windlass_indexer::{Index, Lister};

use crate::error::{InformerError, Stopped};
use crate::freshness::Freshness;
use crate::reflect::reflector::ServerTraits;
use crate::resource::{Resource, Scope};
use crate::share::engine::{Engine, Origin};
use crate::share::event::Handler;
use crate::share::listener::{HandlerOptions, Registration, Subscription, drive};
use crate::share::options::InformerOptions;
use crate::telemetry::status::{InformerStatus, Life};
use crate::transport::source::ListWatch;

/// A cache of one resource that keeps itself up to date, and tells any number of handlers what changes.
///
/// Cheap to clone; all clones, and all that a factory gives for the same, are one informer: one watch, one cache.
/// It runs as long as somebody uses it: a clone of this, a handler, a subscription, a lister or an object from it.
/// When the last one leaves, it stops.
///
/// ```
/// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use k8s_openapi::api::core::v1::Pod;
/// use tokio_util::sync::CancellationToken;
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
/// Objects are shared and immutable by type: nobody can change what is in the cache, so there is nothing like
/// client-go's mutation detector.
pub struct SharedInformer<K> {
    engine: Arc<Engine>,
    lister: Lister<K>,
    user: Arc<User>,
    /// How often handlers are shown everything again that are added by this one.
    resync: Option<Duration>,
}

/// Somebody who uses an informer. When the last one is dropped, it stops.
#[derive(Debug)]
pub(crate) struct User {
    stop: CancellationToken,
}

impl<K> SharedInformer<K>
where
    K: kube::Resource<DynamicType = (), Scope: Scope> + DeserializeOwned + Send + Sync + 'static,
{
    /// An informer that runs alone. Those that share are made by a
    /// [`SharedInformerFactory`](crate::SharedInformerFactory).
    ///
    /// # Errors
    /// If the options cannot be: a selector that is none, a layout of another type.
    pub fn new(client: Client, options: InformerOptions) -> Result<Self, InformerError> {
        Self::of(client, Resource::of::<K>(), options)
    }
}

impl<K: DeserializeOwned + Send + Sync + 'static> SharedInformer<K> {
    /// An informer of any resource, read as `K`: a type with the few fields that matter, or a dynamic one.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of(
        client: Client,
        resource: Resource,
        options: InformerOptions,
    ) -> Result<Self, InformerError> {
        let (origin, resync) = (Origin::Server(client, ServerTraits::default()), options.resync);
        Self::on(Engine::new(resource, origin, options, CancellationToken::new())?, resync)
    }

    /// An informer of any source. Namespaces and selectors are the source's affair.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_source(
        source: impl ListWatch,
        resource: Resource,
        options: InformerOptions,
    ) -> Result<Self, InformerError> {
        let (origin, resync) = (Origin::Source(Arc::new(source)), options.resync);
        Self::on(Engine::new(resource, origin, options, CancellationToken::new())?, resync)
    }

    /// The first face of an engine.
    pub(crate) fn on(engine: Arc<Engine>, resync: Option<Duration>) -> Result<Self, InformerError> {
        let user = Arc::new(User { stop: engine.token().clone() });
        Self::face(engine, user, resync)
    }

    /// One more face of an engine.
    pub(crate) fn face(
        engine: Arc<Engine>,
        user: Arc<User>,
        resync: Option<Duration>,
    ) -> Result<Self, InformerError> {
        let lister = engine
            .cache()
            .reader()
            .lister::<K>()
            .map_err(|error| InformerError::Type { resource: engine.resource().clone(), error })?;
        // Who reads is a user, too, even if nothing else is left of the informer.
        let lister = lister.keeping(Arc::clone(&user) as _);
        Ok(Self { engine, lister, user, resync })
    }

    pub(crate) fn parts(&self) -> (&Arc<Engine>, &Arc<User>) {
        (&self.engine, &self.user)
    }

    /// The same informer, read as another type.
    ///
    /// # Errors
    /// If it is resident as another type.
    pub fn read_as<T>(&self) -> Result<SharedInformer<T>, InformerError>
    where
        T: DeserializeOwned + Send + Sync + 'static,
    {
        SharedInformer::face(Arc::clone(&self.engine), Arc::clone(&self.user), self.resync)
    }

    /// Reads the cache. It can be read at any time; it is complete once the informer is
    /// [synced](Self::wait_for_sync).
    pub fn lister(&self) -> &Lister<K> {
        &self.lister
    }

    /// What it is of.
    pub fn resource(&self) -> &Resource {
        self.engine.resource()
    }

    /// Adds a handler. What is there already it is shown first, each object as added; nothing is lost or doubled
    /// on the way from that to what changes.
    ///
    /// # Errors
    /// If the informer has stopped.
    pub fn add_handler(&self, handler: impl Handler<K>) -> Result<Registration, Stopped> {
        self.add_handler_with(HandlerOptions::new(), handler)
    }

    /// As [`add_handler`](Self::add_handler), with a name or a resync of its own.
    ///
    /// # Errors
    /// If the informer has stopped.
    pub fn add_handler_with<H: Handler<K>>(
        &self,
        options: HandlerOptions,
        handler: H,
    ) -> Result<Registration, Stopped> {
        let name = std::any::type_name::<H>();
        let listener = self.engine.listener(options, name, self.resync, true);
        let registration = Registration::new(Arc::clone(&listener), &self.engine);
        // A handler is a user until it is removed: its lister is.
        let driven = drive(Arc::clone(&listener), self.lister.clone(), handler);
        self.engine.spawn(Arc::clone(&listener), Box::pin(driven))?;
        self.engine.join(Arc::clone(&listener)).inspect_err(|_| {
            // It stopped in between, and its end waits for the task.
            listener.close();
        })?;
        Ok(registration)
    }

    /// Events to be awaited one by one, from what is there now on.
    ///
    /// # Errors
    /// If the informer has stopped.
    pub fn subscribe(&self) -> Result<Subscription<K>, Stopped> {
        self.subscribe_with(HandlerOptions::new())
    }

    /// As [`subscribe`](Self::subscribe), with a name or a resync of its own.
    ///
    /// # Errors
    /// If the informer has stopped.
    pub fn subscribe_with(&self, options: HandlerOptions) -> Result<Subscription<K>, Stopped> {
        let listener = self.engine.listener(options, "subscription", self.resync, false);
        self.engine.join(Arc::clone(&listener))?;
        let registration = Registration::new(listener, &self.engine);
        Ok(Subscription::new(registration, self.lister.clone()))
    }

    /// Adds an index, now or later; what is there is taken in before this returns. One of the same type that is
    /// there already stays.
    ///
    /// # Errors
    /// If it needs the bytes of objects and the informer is resident.
    pub fn add_index<I: Index>(&self, index: I) -> Result<(), InformerError> {
        self.engine
            .cache()
            .add_index(index)
            .map_err(|error| InformerError::Index { resource: self.resource().clone(), error })
    }

    /// Whether the cache has everything that was there when the informer began, and is kept up to date: not any
    /// more when it has stopped.
    pub fn has_synced(&self) -> bool {
        *self.engine.life().borrow() == Life::Synced
    }

    /// Waits until [`has_synced`](Self::has_synced). Cancel safe.
    ///
    /// # Errors
    /// If the informer stops or breaks before.
    pub async fn wait_for_sync(&self) -> Result<(), Stopped> {
        self.engine.wait_for_sync().await
    }

    /// Runs it until `stop` is cancelled, or [`stop`](Self::stop) is called; handlers have finished then. An
    /// informer of a factory is run by that, and any informer runs once.
    ///
    /// # Errors
    /// If it runs already, or did.
    pub async fn run(&self, stop: CancellationToken) -> Result<(), Stopped> {
        let run = self.engine.run();
        tokio::pin!(run);
        tokio::select! {
            ran = &mut run => ran,
            () = stop.cancelled() => {
                self.stop();
                run.await
            }
        }
    }

    /// Stops it for all of its users. What is in the cache stays readable.
    pub fn stop(&self) {
        self.engine.stop();
    }

    /// Tells whether the cache shows what somebody wrote.
    pub fn freshness(&self) -> Freshness {
        Freshness::new(Arc::clone(&self.engine))
    }

    /// How far it is, what went wrong, who is slow.
    pub fn status(&self) -> InformerStatus {
        self.engine.status()
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

// Not derived, because that would ask for the same of `K`.
impl<K> Clone for SharedInformer<K> {
    fn clone(&self) -> Self {
        let (engine, user) = (Arc::clone(&self.engine), Arc::clone(&self.user));
        Self { engine, lister: self.lister.clone(), user, resync: self.resync }
    }
}

impl<K> fmt::Debug for SharedInformer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedInformer({}, {:?})", self.engine.resource(), self.lister)
    }
}
