//! The untyped core of an informer: its feeds, cache and handlers, and how it starts and stops.
//!
//! Tasks: one for each feed, one for each handler, and the one that calls [`Engine::run`], which
//! does the resyncs and supervises the others. One that panics fails the whole informer.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, Once, OnceLock, Weak};

use futures::FutureExt as _;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cache::backlog::MERGE_ABOVE;
use crate::cache::listener::{HandlerOptions, Listener};
use crate::cache::{Cache, Task};
use crate::decode::ingest::Ingest;
use crate::error::{InformerError, Stopped};
use crate::lock::lock;
use crate::reflector::{Reflector, ServerFeatures};
use crate::resource::Resource;
use crate::share::feed::{Feed, FeedHandle};
use crate::share::informer_cache::SelectionCheck;
use crate::share::options::{AddIndex, InformerOptions};
use crate::share::position::FeedPosition;
use crate::telemetry::feed::FeedTelemetry;
use crate::telemetry::observer::{HasStatus, Observation, StatusHandle};
use crate::telemetry::status::{InformerPhase, InformerStatus};
use crate::transport::source::{KubeListWatch, ListWatch, SelectionError};

/// Where an informer gets its objects from.
pub(crate) enum ObjectSource {
    /// A server, and what all of its informers have learned about it.
    Server(kube::Client, ServerFeatures),
    /// A source of the user.
    Custom(Arc<dyn ListWatch>),
}

pub(crate) struct Engine {
    pub(crate) resource: Resource,
    object_source: ObjectSource,
    pub(crate) options: InformerOptions,
    /// Whether the server is asked for nothing but metadata. Can change until the informer runs:
    /// see [`Engine::want_whole_objects`].
    metadata_only: Mutex<bool>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) stop: CancellationToken,
    pub(crate) phase: watch::Sender<InformerPhase>,
    pub(crate) feeds: Vec<FeedHandle>,
    /// Where the tasks of handlers run, once the informer runs.
    tasks: OnceLock<(TaskTracker, Handle)>,
    /// Whether the observers were told that the informer exists.
    created: Once,
    /// Cancelled when the task of a handler panics.
    handler_has_panicked: CancellationToken,
    /// Notified when a handler has joined: its resync may be the next one that is due.
    joined: Notify,
}

impl Engine {
    pub(crate) fn new(
        resource: Resource,
        object_source: ObjectSource,
        options: InformerOptions,
        metadata_only: bool,
        stop: CancellationToken,
    ) -> Result<Arc<Self>, InformerError> {
        let namespaces: Vec<_> = match &options.namespaces {
            Some(names) if names.is_empty() => {
                return Err(InformerError::NoNamespaces { resource });
            }
            Some(names) => names.keys().cloned().map(Some).collect(),
            None => vec![None],
        };
        // Validates the selectors now. The sources are made again in `start_feeds`, because
        // `metadata_only` may change until then.
        for namespace in &namespaces {
            object_source
                .list_watch(&resource, &options, metadata_only, namespace.as_deref())
                .map_err(|error| InformerError::Selection { resource: resource.clone(), error })?;
        }
        let feed = |namespace: Option<String>| FeedHandle {
            position: Arc::new(FeedPosition::new(namespace.clone())),
            telemetry: Arc::new(FeedTelemetry::new(
                resource.clone(),
                namespace,
                options.observers.clone(),
            )),
        };
        let feeds: Vec<_> = namespaces.into_iter().map(feed).collect();
        let engine = Arc::new(Self {
            object_source,
            cache: Arc::new(Cache::new(options.store(), feeds.len())),
            stop,
            phase: watch::Sender::new(InformerPhase::New),
            feeds,
            tasks: OnceLock::new(),
            created: Once::new(),
            handler_has_panicked: CancellationToken::new(),
            joined: Notify::new(),
            options,
            metadata_only: Mutex::new(metadata_only),
            resource,
        });
        engine.add_indexes(&engine.options.indexes)?;
        Ok(engine)
    }

    /// Tells the observers that the informer exists, unless they were told. The caller must hold no
    /// lock.
    pub(crate) fn report_created(self: &Arc<Self>) {
        self.created.call_once(|| self.notify_created());
    }

    fn notify_created(self: &Arc<Self>) {
        let informer: Weak<Self> = Arc::downgrade(self);
        let created = Observation::Created(StatusHandle::new(informer));
        self.options.observers.notify(&self.resource, &created);
    }

    pub(crate) fn is_new(&self) -> bool {
        *self.phase.borrow() == InformerPhase::New
    }

    /// Stops the informer. If it does not run yet, it never will.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
        if InformerPhase::transition(&self.phase, &InformerPhase::New, InformerPhase::Stopped) {
            self.cache.close();
        }
    }

    /// Waits until its cache is complete. Cancel safe.
    pub(crate) async fn wait_for_sync(&self) -> Result<(), Stopped> {
        let mut phase = self.phase.subscribe();
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
        // Locked first: an informer that begins to run reads this after its phase has changed.
        let mut metadata_only = lock(&self.metadata_only);
        let is_new = self.is_new();
        if is_new {
            *metadata_only = false;
        }
        is_new
    }

    /// Whether objects are cached with nothing but their metadata.
    pub(crate) fn is_metadata_only(&self) -> bool {
        *lock(&self.metadata_only)
    }

    /// Another user asks for this informer. Checks the layout and adds the indexes.
    pub(crate) fn add_user(&self, wanted: &InformerOptions) -> Result<(), InformerError> {
        let held = &self.options;
        if wanted.layout.is_some() && held.layout() != wanted.layout() {
            return Err(InformerError::Layout {
                resource: self.resource.clone(),
                held: held.describe_layout(),
                wanted: wanted.describe_layout(),
            });
        }
        self.add_indexes(&wanted.indexes)
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
        let merge_above = self.options.merge_above.unwrap_or(MERGE_ABOVE);
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
                // The handler is called behind a guard of its own, so this is a panic of the task.
                let has_panicked = self.handler_has_panicked.clone();
                let task = AssertUnwindSafe(task).catch_unwind();
                let task = task.map(move |ended| {
                    if let Err(panic) = ended {
                        has_panicked.cancel();
                        // Dropping it may panic again.
                        std::mem::forget(panic);
                    }
                });
                tracker.spawn_on(task, runtime);
            }
        }
    }

    /// Converts JSON to objects in the form in which they are cached.
    pub(crate) fn ingest(&self) -> Ingest {
        let transform = self.options.transform.clone();
        Ingest::new(self.cache.reader.head_parser(), &self.resource, transform)
    }

    /// What lists the metadata of the objects in a namespace, or all.
    pub(crate) fn metadata_source(&self, namespace: Option<&str>) -> Arc<dyn ListWatch> {
        self.object_source
            .list_watch(&self.resource, &self.options, true, namespace)
            .expect("the selection must have been checked when the informer was made")
    }

    /// The position of the feed that watches a namespace, if there is one.
    pub(crate) fn position_of(&self, namespace: Option<&str>) -> Option<&FeedPosition> {
        let mut positions = self.feeds.iter().map(|feed| &*feed.position);
        positions.find(|position| position.covers(namespace))
    }

    /// Runs the informer until it is stopped or breaks. It runs once.
    ///
    /// # Errors
    /// If it did not start: it runs already, or was stopped before.
    pub(crate) async fn run(self: &Arc<Self>) -> Result<(), Stopped> {
        if !InformerPhase::transition(&self.phase, &InformerPhase::New, InformerPhase::Listing) {
            return Err(Stopped);
        }
        let stop_on_drop = StopOnDrop(self);
        // Another thread may be about to report it, and this must come before everything else.
        self.report_created();
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
        let options = &self.options;
        let metadata_only = self.is_metadata_only();
        let server = match &self.object_source {
            ObjectSource::Server(_, server) => server.clone(),
            ObjectSource::Custom(_) => ServerFeatures::default(),
        };
        let mut feeds = JoinSet::new();
        for (number, handle) in self.feeds.iter().enumerate() {
            let source = self
                .object_source
                .list_watch(&self.resource, options, metadata_only, handle.position.namespace())
                .expect("the selection must have been checked when the informer was made");
            let seed = options.seed_for(&self.resource, number);
            let feed = Feed::new(
                Arc::clone(&self.cache),
                self.phase.clone(),
                handle.clone(),
                source,
                Reflector::new(options.reflector.clone(), server.clone(), seed),
                self.ingest(),
                options.frame_options(),
            );
            let feed = feed.selecting(SelectionCheck::of(options, handle.position.namespace()));
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
                biased;
                () = self.stop.cancelled() => return None,
                Some(ended) = feeds.join_next() => {
                    // Only a runtime that ends cancels a feed, and that is no failure.
                    let panicked = ended.is_err_and(|error| error.is_panic());
                    return panicked.then(|| TASK_PANICKED.to_owned());
                }
                () = self.handler_has_panicked.cancelled() => return Some(TASK_PANICKED.to_owned()),
                () = self.joined.notified() => {}
                () = resync => {}
            }
        }
    }

    pub(crate) fn status(&self) -> InformerStatus {
        InformerStatus {
            resource: self.resource.clone(),
            phase: self.phase.borrow().clone(),
            feeds: self.feeds.iter().map(|feed| feed.telemetry.status()).collect(),
            handlers: self.cache.handlers(),
            quarantined: self.cache.quarantine.list(),
            quarantined_total: self.cache.quarantine.total(),
            store: self.cache.reader.status(),
        }
    }
}

impl HasStatus for Engine {
    fn status(&self) -> InformerStatus {
        Self::status(self)
    }
}

impl ObjectSource {
    /// What lists and watches a namespace, or all.
    fn list_watch(
        &self,
        resource: &Resource,
        options: &InformerOptions,
        metadata_only: bool,
        namespace: Option<&str>,
    ) -> Result<Arc<dyn ListWatch>, SelectionError> {
        let client = match self {
            Self::Custom(list_watch) => return Ok(Arc::clone(list_watch)),
            Self::Server(client, _) => client,
        };
        let mut source = KubeListWatch::new(client.clone(), resource.clone())
            .label_selector(options.labels_of(namespace))?
            .field_selector(&options.fields)?
            .metadata_only(metadata_only);
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
const TASK_PANICKED: &str = "a task of the informer panicked, as its own message says";
