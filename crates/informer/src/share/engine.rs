//! An informer without types: its feeds, its cache, its handlers, and how it starts and stops.
//!
//! Tasks: one for each feed, one for each handler, and the one that [`Engine::run`] is called in, which keeps the
//! resyncs and watches over the others. A feed that panics fails the informer, visibly; nothing lives on behind
//! a dead one.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_indexer::{ResourceVersion, Selector};

use crate::decode::ingest::Ingest;
use crate::error::{InformerError, Stopped};
use crate::reflect::feed::Feed;
use crate::reflect::reflector::ServerTraits;
use crate::resource::Resource;
use crate::share::cache::Cache;
use crate::share::listener::{HandlerOptions, Listener, Resync};
use crate::share::lock::lock;
use crate::share::options::{AddIndex, InformerOptions, LayoutChoice};
use crate::telemetry::observer::Probe;
use crate::telemetry::status::{InformerStatus, Life};
use crate::telemetry::vitals::Vitals;
use crate::transport::source::{KubeListWatch, ListWatch, SelectionError};

/// Where an informer gets its objects from.
#[derive(Clone)]
pub(crate) enum Origin {
    /// A server, with what all informers of it know about it.
    Server(kube::Client, ServerTraits),
    /// Something else.
    Source(Arc<dyn ListWatch>),
}

pub(crate) struct Engine {
    resource: Resource,
    origin: Origin,
    /// Behind a lock, because an informer that does not run yet can still be asked for more.
    options: Mutex<InformerOptions>,
    cache: Arc<Cache>,
    stop: CancellationToken,
    life: watch::Sender<Life>,
    handlers: Mutex<Handlers>,
    vitals: Vec<Arc<Vitals>>,
    /// A handler with a resync of its own has joined.
    joined: Notify,
    /// The cache may have come further.
    progress: Notify,
}

/// A handler's task, before it runs.
type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where the tasks of handlers go.
enum Handlers {
    /// They wait for the informer to run.
    Waiting(Vec<(Arc<Listener>, Task)>),
    Running(TaskTracker, tokio::runtime::Handle),
    Stopped,
}

impl Engine {
    pub(crate) fn new(
        resource: Resource,
        origin: Origin,
        options: InformerOptions,
        stop: CancellationToken,
    ) -> Result<Arc<Self>, InformerError> {
        if options.is_nowhere {
            return Err(InformerError::NoNamespaces { resource });
        }
        check(&origin, &resource, &options)
            .map_err(|error| InformerError::Selection { resource: resource.clone(), error })?;
        let now = Instant::now();
        let named = options.namespaces.iter().cloned().map(Some);
        let all = options.namespaces.is_empty().then_some(None);
        let namespaces = named.chain(all);
        let vitals: Vec<_> =
            namespaces.map(|namespace| Arc::new(Vitals::new(namespace, now))).collect();
        let cache = Arc::new(Cache::new(options.store(), vitals.len()));
        let (indexes, observers) = (options.indexes.clone(), options.observers.clone());
        let engine = Self {
            resource,
            origin,
            cache,
            stop,
            life: watch::Sender::new(Life::New),
            handlers: Mutex::new(Handlers::Waiting(Vec::new())),
            vitals,
            joined: Notify::new(),
            progress: Notify::new(),
            options: Mutex::new(options),
        };
        engine.add_indexes(&indexes)?;
        let engine = Arc::new(engine);
        observers.tell(|observer| observer.attached(&engine.resource, Probe::new(&engine)));
        Ok(engine)
    }

    pub(crate) fn resource(&self) -> &Resource {
        &self.resource
    }

    pub(crate) fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    pub(crate) fn token(&self) -> &CancellationToken {
        &self.stop
    }

    /// Stops it; one that does not run yet never will.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
        let was_new = self.life.send_if_modified(|life| {
            let is_new = *life == Life::New;
            if is_new {
                *life = Life::Stopped;
            }
            is_new
        });
        if was_new {
            self.end_handlers();
        }
    }

    /// Ends all handlers. What they hold is the users', and so is dropped without a lock.
    fn end_handlers(&self) {
        let handlers = std::mem::replace(&mut *lock(&self.handlers), Handlers::Stopped);
        self.cache.close();
        drop(handlers);
    }

    /// A handler is told nothing any more. If it has never run, nothing is left of it.
    pub(crate) fn forget(&self, listener: &Arc<Listener>) {
        self.cache.forget(listener);
        let waiting = match &mut *lock(&self.handlers) {
            Handlers::Waiting(tasks) => {
                let place = tasks.iter().position(|(of, _)| Arc::ptr_eq(of, listener));
                place.map(|place| tasks.swap_remove(place))
            }
            Handlers::Running(..) | Handlers::Stopped => None,
        };
        drop(waiting);
    }

    /// Waits until its cache is complete, or never will be. Returns which. Cancel safe.
    pub(crate) async fn wait_for_sync(&self) -> Result<(), Stopped> {
        let mut life = self.life();
        let settled = life.wait_for(|life| !matches!(life, Life::New | Life::Listing));
        tokio::select! {
            biased;
            settled = settled => match settled.as_deref() {
                Ok(Life::Synced) => Ok(()),
                _ => Err(Stopped),
            },
            // It may never have run, and then nothing else ends.
            () = self.stop.cancelled() => Err(Stopped),
        }
    }

    /// Somebody wants whole objects of an informer that was to have metadata only. Returns whether it is not too
    /// late.
    pub(crate) fn wants_whole_objects(&self) -> bool {
        let is_new = self.is_new();
        if is_new {
            lock(&self.options).metadata_only = false;
        }
        is_new
    }

    pub(crate) fn is_new(&self) -> bool {
        *self.life.borrow() == Life::New
    }

    /// Another user asks for it. What it wants beside its identity must fit what is there.
    pub(crate) fn require_same_options(
        &self,
        wanted: &InformerOptions,
    ) -> Result<(), InformerError> {
        let held = lock(&self.options);
        let is_same = LayoutChoice::is_same(held.layout.as_ref(), wanted.layout.as_ref());
        if wanted.layout.is_some() && !is_same {
            return Err(InformerError::Layout {
                resource: self.resource.clone(),
                held: LayoutChoice::describe(held.layout.as_ref()),
                wanted: LayoutChoice::describe(wanted.layout.as_ref()),
            });
        }
        drop(held);
        self.add_indexes(&wanted.indexes)
    }

    fn add_indexes(&self, indexes: &[AddIndex]) -> Result<(), InformerError> {
        for add in indexes {
            add(&self.cache)
                .map_err(|error| InformerError::Index { resource: self.resource.clone(), error })?;
        }
        Ok(())
    }

    /// A listener, with the settings of whoever asked for the informer where it has none of its own.
    pub(crate) fn listener(
        &self,
        wanted: HandlerOptions,
        default_name: &str,
        default_resync: Option<Duration>,
        is_driven: bool,
    ) -> Arc<Listener> {
        let merge_above = lock(&self.options).merge_above;
        let resync = match wanted.resync {
            None => default_resync,
            Some(Resync::Never) => None,
            Some(Resync::Every(period)) => Some(period),
        };
        let name = wanted.name.unwrap_or_else(|| default_name.to_owned());
        Arc::new(Listener::new(name, is_driven, resync, merge_above))
    }

    /// Adds a listener to the cache.
    pub(crate) fn join(&self, listener: Arc<Listener>) -> Result<(), Stopped> {
        let has_resync = listener.has_resync();
        self.cache.join(listener, Instant::now())?;
        if has_resync {
            self.joined.notify_one();
        }
        Ok(())
    }

    /// Adds the task of a handler.
    pub(crate) fn spawn(&self, listener: Arc<Listener>, task: Task) -> Result<(), Stopped> {
        match &mut *lock(&self.handlers) {
            Handlers::Waiting(tasks) => tasks.push((listener, task)),
            Handlers::Running(tracker, runtime) => drop(tracker.spawn_on(task, runtime)),
            Handlers::Stopped => return Err(Stopped),
        }
        Ok(())
    }

    /// What is watched of the resource: by labels, and by fields as they were given.
    pub(crate) fn selection(&self) -> (Selector, String) {
        let options = lock(&self.options);
        // A source of the user's has its own ways, and need not know selectors.
        let labels = options.labels.parse().unwrap_or_default();
        (labels, options.fields.clone())
    }

    /// Whether everything up to a version has arrived, or never will, because the namespace is not watched.
    pub(crate) fn has_passed(&self, namespace: Option<&str>, version: &ResourceVersion) -> bool {
        self.feed_of(namespace).is_none_or(|vitals| {
            vitals.note(|notes| notes.version.as_ref().is_some_and(|reached| reached >= version))
        })
    }

    /// Whether a list that began after `then` found the cluster to be restored. It is complete.
    pub(crate) fn is_restored_since(&self, namespace: Option<&str>, then: Instant) -> bool {
        self.feed_of(namespace).is_some_and(|vitals| {
            vitals.note(|notes| notes.restored.is_some_and(|restored| restored > then))
        })
    }

    /// The feed that watches a namespace, if there is one.
    fn feed_of(&self, namespace: Option<&str>) -> Option<&Arc<Vitals>> {
        self.vitals
            .iter()
            .find(|vitals| vitals.namespace().is_none_or(|watched| Some(watched) == namespace))
    }

    /// Resolves when more has arrived.
    pub(crate) fn progress(&self) -> Notified<'_> {
        self.progress.notified()
    }

    /// More has arrived, and is in the cache.
    pub(crate) fn progressed(&self) {
        self.progress.notify_waiters();
    }

    pub(crate) fn life(&self) -> watch::Receiver<Life> {
        self.life.subscribe()
    }

    pub(crate) fn status(&self) -> InformerStatus {
        let now = Instant::now();
        InformerStatus {
            resource: self.resource.clone(),
            life: self.life.borrow().clone(),
            feeds: self.vitals.iter().map(|vitals| vitals.status(now)).collect(),
            handlers: self.cache.handlers(),
            quarantined: self.cache.quarantine.list(),
            quarantined_total: self.cache.quarantine.total(),
            store: self.cache.reader().status(),
        }
    }

    /// Runs it until it is stopped, or breaks. It runs once.
    pub(crate) async fn run(self: &Arc<Self>) -> Result<(), Stopped> {
        let is_first = self.life.send_if_modified(|life| {
            let is_new = *life == Life::New;
            if is_new {
                *life = Life::Listing;
            }
            is_new
        });
        if !is_first {
            return Err(Stopped);
        }
        let running = Running(self);
        let tracker = TaskTracker::new();
        self.start_handlers(&tracker);
        let mut feeds = self.start_feeds();
        let failure = self.watch_over(&mut feeds).await;
        feeds.shutdown().await;
        if let Some(failure) = failure {
            tracing::error!(resource = %self.resource, failure, "an informer broke");
            self.life.send_replace(Life::Failed(failure));
        }
        // Handlers finish the event that they are at.
        drop(running);
        tracker.close();
        tracker.wait().await;
        Ok(())
    }

    fn start_handlers(&self, tracker: &TaskTracker) {
        let mut handlers = lock(&self.handlers);
        let running = Handlers::Running(tracker.clone(), tokio::runtime::Handle::current());
        if let Handlers::Waiting(tasks) = std::mem::replace(&mut *handlers, running) {
            for (_, task) in tasks {
                tracker.spawn(task);
            }
        }
    }

    fn start_feeds(self: &Arc<Self>) -> JoinSet<()> {
        let options = lock(&self.options).clone();
        let mut feeds = JoinSet::new();
        for (number, vitals) in self.vitals.iter().enumerate() {
            let (source, server) = self.source(&options, vitals.namespace());
            let ingest =
                Ingest::new(self.cache.head_parser(), &self.resource, options.transform.clone());
            let feed = Feed::new(
                Arc::clone(self),
                Arc::clone(vitals),
                source,
                ingest,
                &options,
                server,
                options.seed_for(&self.resource, number),
            );
            feeds.spawn(feed.run(self.stop.clone()));
        }
        feeds
    }

    /// Waits for the end, and shows everything again to handlers that are due. Returns what broke, if anything.
    async fn watch_over(&self, feeds: &mut JoinSet<()>) -> Option<String> {
        loop {
            let next = self.cache.resync(Instant::now());
            let resync = async {
                match next {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.stop.cancelled() => return None,
                Some(ended) = feeds.join_next() => match ended {
                    // Feeds end when they are stopped, and only then.
                    Ok(()) => return None,
                    Err(error) => return Some(describe(&error)),
                },
                () = self.joined.notified() => {}
                () = resync => {}
            }
        }
    }

    /// A first list is complete.
    pub(crate) fn note_first_list(&self) {
        if self.cache.note_first_list() {
            self.life.send_if_modified(|life| {
                let is_first = *life == Life::Listing;
                if is_first {
                    *life = Life::Synced;
                }
                is_first
            });
            // An observer may ask for the informer, and so must not be told under its lock.
            let observers = lock(&self.options).observers.clone();
            observers.tell(|observer| observer.synced(&self.resource));
        }
    }

    fn source(
        &self,
        options: &InformerOptions,
        namespace: Option<&str>,
    ) -> (Arc<dyn ListWatch>, ServerTraits) {
        match &self.origin {
            Origin::Source(source) => (Arc::clone(source), ServerTraits::default()),
            Origin::Server(client, server) => {
                let source = kube_source(client, &self.resource, options, namespace)
                    .expect("the selection must have been checked when the informer was made");
                (Arc::new(source), server.clone())
            }
        }
    }
}

/// Ends everything, however `run` ends.
struct Running<'a>(&'a Arc<Engine>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let engine = self.0;
        engine.stop.cancel();
        engine.end_handlers();
        engine.life.send_if_modified(|life| {
            let has_failed = matches!(life, Life::Failed(_));
            if !has_failed {
                *life = Life::Stopped;
            }
            !has_failed
        });
    }
}

impl Drop for Engine {
    /// It may never have run, and still have handlers that somebody waits for.
    fn drop(&mut self) {
        self.cache.close();
    }
}

/// Whether a server would understand what is to be watched. Other sources have their own ways.
fn check(
    origin: &Origin,
    resource: &Resource,
    options: &InformerOptions,
) -> Result<(), SelectionError> {
    let Origin::Server(client, _) = origin else { return Ok(()) };
    let namespaces = options.namespaces.iter().map(|namespace| Some(namespace.as_str()));
    std::iter::once(None)
        .chain(namespaces)
        .try_for_each(|namespace| kube_source(client, resource, options, namespace).map(drop))
}

fn kube_source(
    client: &kube::Client,
    resource: &Resource,
    options: &InformerOptions,
    namespace: Option<&str>,
) -> Result<KubeListWatch, SelectionError> {
    let source = KubeListWatch::new(client.clone(), resource.clone())
        .label_selector(&options.labels)?
        .field_selector(&options.fields)?
        .metadata_only(options.metadata_only);
    match namespace {
        Some(namespace) => source.namespace(namespace),
        None => Ok(source),
    }
}

/// What a task ended with. What a panic says is not repeated: it may be of an object.
fn describe(error: &JoinError) -> String {
    let end = if error.is_panic() { "panicked, as its own message says" } else { "was cancelled" };
    format!("a task of the informer {end}")
}
