//! How an informer is to be: what it watches, what it holds, and how it behaves.

use std::any::TypeId;
use std::collections::BTreeSet;
use std::fmt;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use windlass_indexer::{Index, IndexError, Layout, Selector, Store};

use crate::decode::compact::ManagedFields;
use crate::decode::transform::Transform;
use crate::reflect::reflector::ReflectorConfig;
use crate::resource::Resource;
use crate::share::backlog::MERGE_ABOVE;
use crate::share::cache::Cache;
use crate::telemetry::observer::{Observer, Observers};
use crate::transport::source::SourceError;

/// Settings of an informer.
///
/// What it watches (namespaces, selectors), what it makes of objects (transform, managedFields) and the resource
/// are its identity: who asks a factory for the same gets the same informer. Of the rest, a layout must fit that of
/// the others, indexes add up, a resync is for the handlers that are added by who asked for it, and everything else
/// belongs to whoever asks first.
///
/// ```
/// use std::time::Duration;
/// use windlass_informer::InformerOptions;
///
/// let options = InformerOptions::new()
///     .namespaces(["shop", "billing"])
///     .label_selector("app in (web, api)")
///     .resync(Duration::from_secs(60));
/// ```
#[derive(Clone)]
#[must_use]
pub struct InformerOptions {
    pub(crate) namespaces: BTreeSet<String>,
    /// An empty list of namespaces was asked for, which is not the same as all of them.
    pub(crate) is_nowhere: bool,
    pub(crate) labels: String,
    pub(crate) fields: String,
    pub(crate) managed_fields: ManagedFields,
    pub(crate) transform: Option<Transform>,
    pub(crate) layout: Option<LayoutChoice>,
    pub(crate) metadata_only: bool,
    pub(crate) hot_set_bytes: Option<usize>,
    pub(crate) resync: Option<Duration>,
    pub(crate) merge_above: usize,
    pub(crate) reflector: ReflectorConfig,
    pub(crate) seed: Option<u64>,
    pub(crate) frame_max: Option<usize>,
    pub(crate) indexes: Vec<AddIndex>,
    pub(crate) on_error: Option<ErrorHandler>,
    pub(crate) observers: Observers,
}

/// Called with everything that goes wrong between an informer and the server.
pub(crate) type ErrorHandler = Arc<dyn Fn(&Resource, &SourceError) + Send + Sync>;

pub(crate) type AddIndex = Arc<dyn Fn(&Cache) -> Result<(), IndexError> + Send + Sync>;

/// A layout, as often as it is needed.
#[derive(Clone)]
pub(crate) struct LayoutChoice {
    /// The resident type; `None` for compact.
    resident: Option<TypeId>,
    make: Arc<dyn Fn() -> Layout + Send + Sync>,
}

/// Which informer it is: those of the same identity are one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Identity {
    resource: Resource,
    namespaces: BTreeSet<String>,
    labels: String,
    fields: String,
    transform: Option<String>,
    keeps_managed_fields: bool,
    metadata_only: bool,
}

impl Identity {
    /// The same, with whole objects or metadata only.
    pub(crate) fn metadata_only(self, metadata_only: bool) -> Self {
        Self { metadata_only, ..self }
    }
}

impl InformerOptions {
    /// Everything in all namespaces, compact, without resync.
    pub fn new() -> Self {
        Self {
            namespaces: BTreeSet::new(),
            is_nowhere: false,
            labels: String::new(),
            fields: String::new(),
            managed_fields: ManagedFields::Cut,
            transform: None,
            layout: None,
            metadata_only: false,
            hot_set_bytes: None,
            resync: None,
            merge_above: MERGE_ABOVE,
            reflector: ReflectorConfig::default(),
            seed: None,
            frame_max: None,
            indexes: Vec::new(),
            on_error: None,
            observers: Observers::default(),
        }
    }

    /// Only objects in this namespace.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        self.namespaces([namespace])
    }

    /// Only objects in these namespaces, each with a watch of its own.
    pub fn namespaces<T: Into<String>>(mut self, namespaces: impl IntoIterator<Item = T>) -> Self {
        self.namespaces = namespaces.into_iter().map(Into::into).collect();
        self.is_nowhere = self.namespaces.is_empty();
        self
    }

    /// Only objects with such labels, as in `app=web,!canary`.
    pub fn label_selector(mut self, selector: impl Into<String>) -> Self {
        self.labels = selector.into();
        self
    }

    /// Only objects with such fields, as in `spec.nodeName=node-1`.
    pub fn field_selector(mut self, selector: impl Into<String>) -> Self {
        self.fields = selector.into();
        self
    }

    /// Whether objects keep `metadata.managedFields`. By default they are cut.
    pub fn managed_fields(mut self, managed_fields: ManagedFields) -> Self {
        self.managed_fields = managed_fields;
        self
    }

    /// Changes every object before it is held.
    pub fn transform(mut self, transform: Transform) -> Self {
        self.transform = Some(transform);
        self
    }

    /// Holds bytes and decodes what is read. The default, unless another user of the informer asks otherwise.
    pub fn compact(mut self) -> Self {
        self.layout = Some(LayoutChoice { resident: None, make: Arc::new(Layout::compact) });
        self
    }

    /// Holds objects decoded as `K`, and not their bytes: for types that are small and read all the time, and
    /// for those of your own with the few fields that you need. What is held is a clone of what was decoded, which
    /// has no spare room.
    pub fn resident<K: DeserializeOwned + Clone + Send + Sync + 'static>(mut self) -> Self {
        let make = Arc::new(Layout::resident::<K>);
        self.layout = Some(LayoutChoice { resident: Some(TypeId::of::<K>()), make });
        self
    }

    /// What decoded objects may take, for each type that a compact informer is read as. Default: 64 MiB.
    pub fn hot_set_bytes(mut self, bytes: usize) -> Self {
        self.hot_set_bytes = Some(bytes);
        self
    }

    /// An index from the beginning; one of the same type that is there already stays.
    pub fn index<I: Index + Clone>(mut self, index: I) -> Self {
        self.indexes.push(Arc::new(move |cache| cache.add_index(index.clone())));
        self
    }

    /// Shows handlers everything again each time after `period`, unless they ask otherwise. That comes from the
    /// cache, and the server is asked for nothing: a resync repairs nothing that a watch has missed. It is for
    /// handlers that want to look again at what they have seen. Zero for never, which is the default.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period).filter(|period| !period.is_zero());
        self
    }

    /// Lists everything anew each time after `period`, compares it with the cache and repairs that: for servers
    /// whose watches are not to be trusted. By default never.
    pub fn audit(mut self, period: Duration) -> Self {
        self.reflector = self.reflector.audit(Some(period));
        self
    }

    /// How many events wait for a slow handler before those of the same object merge. Default: 1,024.
    pub fn merge_above(mut self, events: usize) -> Self {
        self.merge_above = events;
        self
    }

    /// How it lists, watches and waits.
    pub fn reflector(mut self, config: ReflectorConfig) -> Self {
        self.reflector = config;
        self
    }

    /// What jitter and timeouts are drawn from. By default every process has its own, so that those of a fleet
    /// do not wait for the same times; tests give one.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The largest object that is taken, in bytes as they are sent. Default: 64 MiB.
    pub fn object_bytes_max(mut self, bytes: usize) -> Self {
        self.frame_max = Some(bytes);
        self
    }

    /// Called with everything that goes wrong between the informer and the server, beside being logged and
    /// shown in the status.
    pub fn on_error(
        mut self,
        handler: impl Fn(&Resource, &SourceError) + Send + Sync + 'static,
    ) -> Self {
        self.on_error = Some(Arc::new(handler));
        self
    }

    /// Hears of all that the informer does, for metrics.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers = Observers::of(observer);
        self
    }

    pub(crate) fn identity(&self, resource: &Resource) -> Identity {
        Identity {
            resource: resource.clone(),
            namespaces: self.namespaces.clone(),
            labels: normal_form(&self.labels),
            fields: self.fields.clone(),
            transform: self.transform.as_ref().map(|transform| transform.name().to_owned()),
            keeps_managed_fields: self.managed_fields == ManagedFields::Keep,
            metadata_only: self.metadata_only,
        }
    }

    /// The seed of one feed: another one for each.
    pub(crate) fn seed_for(&self, resource: &Resource, feed: usize) -> u64 {
        let seed = self.seed.unwrap_or_else(process_seed);
        #[expect(clippy::disallowed_types, reason = "it mixes a seed, and is the hash of no table")]
        foldhash::fast::FixedState::with_seed(seed).hash_one((resource, feed))
    }

    /// Whether the bytes of objects are held.
    pub(crate) fn is_compact(&self) -> bool {
        LayoutChoice::is_same(self.layout.as_ref(), None)
    }

    pub(crate) fn store(&self) -> Store {
        let mut store = Store::builder();
        if let Some(layout) = &self.layout {
            store = store.layout((layout.make)());
        }
        if let Some(bytes) = self.hot_set_bytes {
            store = store.hot_set_bytes(bytes);
        }
        store.build()
    }
}

/// A label selector in the form that is the same for all that mean the same; what is none stays as it is, to be
/// complained about.
fn normal_form(labels: &str) -> String {
    labels.parse::<Selector>().map_or_else(|_| labels.to_owned(), |selector| selector.to_string())
}

/// A number that other processes do not have.
fn process_seed() -> u64 {
    #[expect(clippy::disallowed_types, reason = "jitter of a fleet must differ; tests give a seed")]
    std::hash::RandomState::new().hash_one(0)
}

impl Default for InformerOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl LayoutChoice {
    /// Whether it holds objects in the same form. Nobody's choice is compact.
    pub(crate) fn is_same(one: Option<&Self>, two: Option<&Self>) -> bool {
        let resident = |choice: Option<&Self>| choice.and_then(|choice| choice.resident);
        resident(one) == resident(two)
    }

    /// For people.
    pub(crate) fn describe(choice: Option<&Self>) -> String {
        match choice.and_then(|choice| (choice.make)().resident_type()) {
            Some(name) => format!("resident as {name}"),
            None => "compact".to_owned(),
        }
    }
}

impl fmt::Debug for InformerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerOptions")
            .field("namespaces", &self.namespaces)
            .field("labels", &self.labels)
            .field("fields", &self.fields)
            .field("layout", &LayoutChoice::describe(self.layout.as_ref()))
            .field("resync", &self.resync)
            .finish_non_exhaustive()
    }
}
