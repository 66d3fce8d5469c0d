//! The untyped core of an informer: its feeds, cache and handlers, and how it starts and stops.
//!
//! Tasks: one for each feed, one for each handler, and the one that calls [`Engine::run`], which
//! does the resyncs and supervises the others. A feed that panics fails the whole informer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_indexer::Selector;

use crate::decode::compact::ManagedFields;
use crate::decode::ingest::Ingest;
use crate::error::{InformerError, Stopped};
use crate::reflect::feed::Feed;
use crate::reflect::reflector::{Reflector, ServerFeatures};
use crate::resource::Resource;
use crate::share::backlog::MERGE_ABOVE;
use crate::share::cache::{Cache, Task};
use crate::share::listener::{HandlerOptions, Listener};
use crate::share::lock::lock;
use crate::share::options::{AddIndex, InformerOptions};
use crate::telemetry::feed::FeedTelemetry;
use crate::telemetry::observer::{Observation, StatusHandle};
use crate::telemetry::status::{InformerPhase, InformerStatus};
use crate::transport::source::{KubeListWatch, ListWatch, SelectionError};

/// Where an informer gets its objects from.
pub(crate) enum ObjectSource {
    /// A server, and what all of its informers have learned about it.
    Server(kube::Client, ServerFeatures),
    /// A source of the user.
    Source(Arc<dyn ListWatch>),
}

pub(crate) struct Engine {
    pub(crate) resource: Resource,
    object_source: ObjectSource,
    /// Can change until the informer runs: see [`Engine::want_whole_objects`].
    options: Mutex<InformerOptions>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) stop: CancellationToken,
    phase: watch::Sender<InformerPhase>,
    feeds: Vec<Arc<FeedTelemetry>>,
    /// Where the tasks of handlers run, once the informer runs.
    tasks: OnceLock<(TaskTracker, Handle)>,
    /// Notified when a handler has joined: its resync may be the next one that is due.
    joined: Notify,
}

/// What an informer selects.
pub(crate) struct EngineSelection {
    /// The label selector.
    pub(crate) labels: Selector,
    /// Those of namespaces that have one of their own.
    pub(crate) labels_in: BTreeMap<String, Selector>,
    /// The field selector as it was given.
    pub(crate) fields: String,
}

impl Engine {
    pub(crate) fn new(
        resource: Resource,
        object_source: ObjectSource,
        options: InformerOptions,
        stop: CancellationToken,
    ) -> Result<Arc<Self>, InformerError> {
        let namespaces: Vec<_> = match &options.namespaces {
            Some(names) if names.is_empty() => {
                return Err(InformerError::NoNamespaces { resource });
            }
            Some(names) => names.iter().cloned().map(Some).collect(),
            None => vec![None],
        };
        for namespace in &namespaces {
            object_source
                .source(&resource, &options, namespace.as_deref())
                .map_err(|error| InformerError::Selection { resource: resource.clone(), error })?;
        }
        let observers = options.observers.clone();
        let telemetry =
            |namespace| FeedTelemetry::new(resource.clone(), namespace, observers.clone());
        let feeds: Vec<_> = namespaces.into_iter().map(telemetry).map(Arc::new).collect();
        let indexes = options.indexes.clone();
        let engine = Self {
            object_source,
            cache: Arc::new(Cache::new(options.store(), feeds.len())),
            stop,
            phase: watch::Sender::new(InformerPhase::New),
            feeds,
            tasks: OnceLock::new(),
            joined: Notify::new(),
            options: Mutex::new(options),
            resource,
        };
        engine.add_indexes(&indexes)?;
        let engine = Arc::new(engine);
        let weak = Arc::downgrade(&engine);
        observers.notify(&engine.resource, &Observation::Created(StatusHandle::new(weak)));
        Ok(engine)
    }

    pub(crate) fn phase(&self) -> watch::Receiver<InformerPhase> {
        self.phase.subscribe()
    }

    pub(crate) fn is_new(&self) -> bool {
        *self.phase.borrow() == InformerPhase::New
    }

    /// Stops the informer. If it does not run yet, it never will.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
        if InformerPhase::change(&self.phase, &InformerPhase::New, InformerPhase::Stopped) {
            self.cache.close();
        }
    }

    /// Waits until its cache is complete. Cancel safe.
    pub(crate) async fn wait_for_sync(&self) -> Result<(), Stopped> {
        let mut phase = self.phase();
        let settled =
            phase.wait_for(|phase| !matches!(phase, InformerPhase::New | InformerPhase::Listing));
        tokio::select! {
            biased;
            settled = settled => match settled.as_deref() {
                Ok(InformerPhase::Synced) => Ok(()),
                _ => Err(Stopped),
            },
            // The phase of an informer that never ran does not change.
            () = self.stop.cancelled() => Err(Stopped),
        }
    }

    /// Makes an informer that caches only metadata cache whole objects, if it does not run yet.
    /// Returns whether this was possible.
    pub(crate) fn want_whole_objects(&self) -> bool {
        // Locked first: an informer that begins to run reads the options after its phase has
        // changed.
        let mut options = lock(&self.options);
        let is_new = self.is_new();
        if is_new {
            options.metadata_only = false;
        }
        is_new
    }

    /// Another user asks for this informer. Checks the layout and adds the indexes.
    pub(crate) fn add_user(&self, wanted: &InformerOptions) -> Result<(), InformerError> {
        let held = lock(&self.options);
        if wanted.layout.is_some() && held.resident_type() != wanted.resident_type() {
            return Err(InformerError::Layout {
                resource: self.resource.clone(),
                held: held.describe_layout(),
                wanted: wanted.describe_layout(),
            });
        }
        drop(held);
        self.add_indexes(&wanted.indexes)
    }

    /// Checks that the bytes of objects are cached.
    pub(crate) fn require_bytes(&self, reader: &'static str) -> Result<(), InformerError> {
        let options = lock(&self.options);
        if options.resident_type().is_none() {
            return Ok(());
        }
        let (resource, held) = (self.resource.clone(), options.describe_layout());
        Err(InformerError::NoBytes { resource, held, reader })
    }

    fn add_indexes(&self, indexes: &[AddIndex]) -> Result<(), InformerError> {
        for add in indexes {
            add(&self.cache)
                .map_err(|error| InformerError::Index { resource: self.resource.clone(), error })?;
        }
        Ok(())
    }

    pub(crate) fn new_listener(
        &self,
        options: HandlerOptions,
        default_name: &str,
        is_handler: bool,
    ) -> Arc<Listener> {
        let merge_above = lock(&self.options).merge_above.unwrap_or(MERGE_ABOVE);
        let name = options.name.unwrap_or_else(|| default_name.to_owned());
        Arc::new(Listener::new(name, is_handler, options.resync.unwrap_or_default(), merge_above))
    }

    /// Adds a listener, and its task if it has one.
    pub(crate) fn join(&self, listener: Arc<Listener>, task: Option<Task>) -> Result<(), Stopped> {
        self.cache.join(listener, task)?;
        self.start_handlers();
        self.joined.notify_one();
        Ok(())
    }

    /// Starts the handlers that are not started yet, if the informer runs.
    fn start_handlers(&self) {
        if let Some((tracker, runtime)) = self.tasks.get() {
            for task in self.cache.take_tasks() {
                tracker.spawn_on(task, runtime);
            }
        }
    }

    /// What it selects.
    pub(crate) fn selection(&self) -> EngineSelection {
        let options = lock(&self.options);
        // A source of the user need not support selectors.
        let parse = |labels: &str| labels.parse::<Selector>().unwrap_or_default();
        EngineSelection {
            labels: parse(&options.labels),
            labels_in: options.watched_labels_in(parse),
            fields: options.fields.clone(),
        }
    }

    /// Converts JSON to objects in the form in which they are cached.
    pub(crate) fn ingest(&self) -> Ingest {
        let transform = lock(&self.options).transform.clone();
        Ingest::new(self.cache.reader.head_parser(), &self.resource, transform)
    }

    /// What the cache holds of an object: how it treats managedFields, and whether it has only
    /// metadata.
    pub(crate) fn extent(&self) -> (ManagedFields, bool) {
        let options = lock(&self.options);
        (options.managed_fields, options.metadata_only)
    }

    /// Whether the cache has more than metadata, and no transform changes it.
    pub(crate) fn caches_whole_objects(&self) -> bool {
        let options = lock(&self.options);
        !options.metadata_only && options.transform.is_none()
    }

    pub(crate) fn feeds(&self) -> &[Arc<FeedTelemetry>] {
        &self.feeds
    }

    /// The feed that watches a namespace, if there is one.
    pub(crate) fn feed_of(&self, namespace: Option<&str>) -> Option<&Arc<FeedTelemetry>> {
        self.feeds
            .iter()
            .find(|feed| feed.namespace().is_none_or(|watched| Some(watched) == namespace))
    }

    /// Runs the informer until it is stopped or breaks. It runs once.
    pub(crate) async fn run(self: &Arc<Self>) -> Result<(), Stopped> {
        if !InformerPhase::change(&self.phase, &InformerPhase::New, InformerPhase::Listing) {
            return Err(Stopped);
        }
        let stop_on_drop = StopOnDrop(self);
        let tracker = TaskTracker::new();
        let _ = self.tasks.set((tracker.clone(), Handle::current()));
        self.start_handlers();
        let mut feeds = self.start_feeds();
        let failure = self.supervise(&mut feeds).await;
        feeds.shutdown().await;
        if let Some(failure) = failure {
            tracing::error!(resource = %self.resource, failure, "an informer broke");
            self.phase.send_replace(InformerPhase::Failed(failure));
        }
        // Closes the listeners. Handlers finish their current event.
        drop(stop_on_drop);
        tracker.close();
        tracker.wait().await;
        Ok(())
    }

    fn start_feeds(&self) -> JoinSet<()> {
        let options = lock(&self.options).clone();
        let server = match &self.object_source {
            ObjectSource::Server(_, server) => server.clone(),
            ObjectSource::Source(_) => ServerFeatures::default(),
        };
        let mut feeds = JoinSet::new();
        for (number, telemetry) in self.feeds.iter().enumerate() {
            let source = self
                .object_source
                .source(&self.resource, &options, telemetry.namespace())
                .expect("the selection must have been checked when the informer was made");
            let seed = options.seed_for(&self.resource, number);
            let feed = Feed::new(
                Arc::clone(&self.cache),
                self.phase.clone(),
                Arc::clone(telemetry),
                source,
                Reflector::new(options.reflector.clone(), server.clone(), seed),
                self.ingest(),
                options.frame_options(),
            );
            feeds.spawn(feed.run(self.stop.clone()));
        }
        feeds
    }

    /// Does the resyncs until the informer is stopped or a feed ends. Returns what broke, if
    /// anything.
    async fn supervise(&self, feeds: &mut JoinSet<()>) -> Option<String> {
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
                Some(ended) = feeds.join_next() => {
                    // Only a runtime that ends cancels a feed, and that is no failure.
                    let panicked = ended.is_err_and(|error| error.is_panic());
                    return panicked.then(|| FEED_PANICKED.to_owned());
                }
                () = self.joined.notified() => {}
                () = resync => {}
            }
        }
    }

    pub(crate) fn status(&self) -> InformerStatus {
        InformerStatus {
            resource: self.resource.clone(),
            phase: self.phase.borrow().clone(),
            feeds: self.feeds.iter().map(|feed| feed.status()).collect(),
            handlers: self.cache.handlers(),
            quarantined: self.cache.quarantine.list(),
            quarantined_total: self.cache.quarantine.total(),
            store: self.cache.reader.status(),
        }
    }
}

impl ObjectSource {
    /// The source of a namespace, or of all.
    fn source(
        &self,
        resource: &Resource,
        options: &InformerOptions,
        namespace: Option<&str>,
    ) -> Result<Arc<dyn ListWatch>, SelectionError> {
        let client = match self {
            Self::Source(source) => return Ok(Arc::clone(source)),
            Self::Server(client, _) => client,
        };
        let mut source = KubeListWatch::new(client.clone(), resource.clone())
            .label_selector(options.labels_of(namespace))?
            .field_selector(&options.fields)?
            .metadata_only(options.metadata_only);
        if let Some(namespace) = namespace {
            source = source.namespace(namespace)?;
        }
        Ok(Arc::new(source))
    }
}

/// Stops the informer when `run` ends, also if it is cancelled.
struct StopOnDrop<'a>(&'a Engine);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop.cancel();
        self.0.cache.close();
        let has_failed = matches!(*self.0.phase.borrow(), InformerPhase::Failed(_));
        if !has_failed {
            self.0.phase.send_replace(InformerPhase::Stopped);
        }
    }
}

impl Drop for Engine {
    /// If the informer never ran, its listeners are still open, and callers may wait for them.
    fn drop(&mut self) {
        self.cache.close();
    }
}

/// The message of the panic is not repeated, because it may show an object.
const FEED_PANICKED: &str = "a task of the informer panicked, as its own message says";
