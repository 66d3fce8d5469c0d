//! Settings of an informer: what it watches, what it caches, and how it behaves.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;

use windlass_indexer::{Index, IndexError, Layout, ObjectType, Selector, Store};

use crate::cache::Cache;
use crate::decode::compact::ManagedFields;
use crate::decode::frames::FrameOptions;
use crate::decode::transform::Transform;
use crate::reflector::ReflectorConfig;
use crate::resource::Resource;
use crate::telemetry::observer::{Observation, Observer, Observers};
use crate::transport::source::SourceError;

/// Settings of an informer.
///
/// The resource, what the informer watches (namespaces, selectors) and how it changes objects
/// (transform, managedFields) identify it: a factory returns the same informer to everyone who asks
/// for the same. Of the rest, the layout must be the same for all users, indexes add up, a resync
/// applies to the handlers that are added by the user who asked for it, and everything else is set
/// by the first user.
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
#[derive(Clone, Default)]
#[must_use]
pub struct InformerOptions {
    pub(crate) namespaces: Namespaces,
    pub(crate) labels: String,
    pub(crate) fields: String,
    pub(crate) managed_fields: ManagedFields,
    pub(crate) transform: Option<Transform>,
    pub(crate) layout: Option<Layout>,
    pub(crate) hot_set_bytes: Option<usize>,
    /// Zero for never.
    pub(crate) resync: Duration,
    pub(crate) merge_above: Option<usize>,
    pub(crate) reflector: ReflectorConfig,
    pub(crate) seed: Option<u64>,
    pub(crate) frame_max: Option<usize>,
    pub(crate) indexes: Vec<AddIndex>,
    pub(crate) observers: Observers,
}

/// The watched namespaces, some with a label selector of their own. `None` for all.
type Namespaces = Option<BTreeMap<String, Option<String>>>;

pub(crate) type AddIndex = Arc<dyn Fn(&Cache) -> Result<(), IndexError> + Send + Sync>;

/// Identifies an informer of a factory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) resource: Resource,
    pub(crate) namespaces: Namespaces,
    pub(crate) labels: String,
    pub(crate) fields: String,
    pub(crate) transform: Option<String>,
    pub(crate) keeps_managed_fields: bool,
    pub(crate) metadata_only: bool,
}

impl InformerOptions {
    /// All namespaces, compact, without resync.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only objects in this namespace.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        self.namespaces([namespace])
    }

    /// Only objects in these namespaces, each with a watch of its own. Default: all namespaces. An
    /// empty list is an error. A namespace that is among the watched ones already keeps its label
    /// selector; one that this removes loses it.
    pub fn namespaces<T: Into<String>>(mut self, namespaces: impl IntoIterator<Item = T>) -> Self {
        let known = self.namespaces.unwrap_or_default();
        let with_labels = |name: String| {
            let labels = known.get(&name).cloned().flatten();
            (name, labels)
        };
        self.namespaces = Some(namespaces.into_iter().map(Into::into).map(with_labels).collect());
        self
    }

    /// Adds a namespace to the watched ones, with a label selector of its own, which holds there
    /// instead of [`label_selector`](Self::label_selector).
    ///
    /// ```
    /// use windlass_informer::InformerOptions;
    ///
    /// let options = InformerOptions::new()
    ///     .namespace_selector("shop", "app=web")
    ///     .namespace_selector("billing", "app in (api, worker)");
    /// # drop(options);
    /// ```
    pub fn namespace_selector(
        mut self,
        namespace: impl Into<String>,
        labels: impl Into<String>,
    ) -> Self {
        let namespaces = self.namespaces.get_or_insert_default();
        namespaces.insert(namespace.into(), Some(labels.into()));
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

    /// Whether objects keep `metadata.managedFields`. Default: they are removed.
    pub fn managed_fields(mut self, managed_fields: ManagedFields) -> Self {
        self.managed_fields = managed_fields;
        self
    }

    /// Changes every object before it is cached.
    pub fn transform(mut self, transform: Transform) -> Self {
        self.transform = Some(transform);
        self
    }

    /// Caches the bytes of objects, and decodes what is read. This is the default, unless another
    /// user of the informer asked for [`resident`](Self::resident).
    pub fn compact(mut self) -> Self {
        self.layout = Some(Layout::compact());
        self
    }

    /// Caches objects decoded as `K`, without their bytes: for types that are small and read all
    /// the time, such as your own ones with the few fields that you need. The cache holds a clone
    /// of what was decoded, because a clone has no spare capacity.
    pub fn resident<K: ObjectType + Clone>(mut self) -> Self {
        self.layout = Some(Layout::resident::<K>());
        self
    }

    /// How many bytes of decoded objects a compact informer keeps for each type that it is read as.
    /// Default: 64 MiB.
    pub fn hot_set_bytes(mut self, bytes: usize) -> Self {
        self.hot_set_bytes = Some(bytes);
        self
    }

    /// Adds an index, unless an equal one is there. One of the same type with other settings is an
    /// error when the informer is made.
    pub fn index<I: Index + Clone>(mut self, index: I) -> Self {
        self.indexes.push(Arc::new(move |cache| cache.add_index(index.clone())));
        self
    }

    /// Shows handlers everything again after each `period`, unless they ask otherwise. That comes
    /// from the cache and sends no request: it repairs nothing that a watch has missed. It is for
    /// handlers that want to look again at objects they have seen. Default: zero, which means
    /// never.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = period;
        self
    }

    /// Lists everything after each `period`, compares it with the cache and repairs the cache: for
    /// servers whose watches cannot be trusted. Default: never.
    pub fn audit(mut self, period: Duration) -> Self {
        self.reflector.audit = Some(period);
        self
    }

    /// How many events wait for a slow handler before those of the same object merge. Default:
    /// 1,024.
    pub fn merge_above(mut self, events: usize) -> Self {
        self.merge_above = Some(events);
        self
    }

    /// How it lists, watches and retries.
    pub fn reflector(mut self, config: ReflectorConfig) -> Self {
        self.reflector = config;
        self
    }

    /// The seed of jitter and timeouts, for tests. Default: random for each process, so that the
    /// processes of a fleet do not act at the same times.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The largest object that is accepted, in bytes as they are sent. Default: 64 MiB.
    pub fn object_bytes_max(mut self, bytes: usize) -> Self {
        self.frame_max = Some(bytes);
        self
    }

    /// Calls `handler` with every failure of a list or watch. Failures are also logged and shown in
    /// the status.
    pub fn on_error(
        self,
        handler: impl Fn(&Resource, &SourceError) + Send + Sync + 'static,
    ) -> Self {
        self.observer(Arc::new(move |resource: &Resource, observation: &Observation<'_>| {
            if let Observation::Failed { error, .. } = observation {
                handler(resource, error);
            }
        }))
    }

    /// Adds an observer, for metrics. Those of a factory's defaults stay: an observer that counts
    /// must not be added again for a single informer, or it counts twice.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    pub(crate) fn identity(&self, resource: &Resource, metadata_only: bool) -> Identity {
        Identity {
            resource: resource.clone(),
            namespaces: self.namespaces.as_ref().map(normalized_in),
            labels: normalized(&self.labels),
            fields: self.fields.clone(),
            transform: self.transform.as_ref().map(|transform| transform.name().to_owned()),
            keeps_managed_fields: self.managed_fields == ManagedFields::Keep,
            metadata_only,
        }
    }

    /// The label selector of a namespace.
    pub(crate) fn labels_of(&self, namespace: Option<&str>) -> &str {
        let own =
            namespace.and_then(|namespace| self.namespaces.as_ref()?.get(namespace)?.as_ref());
        own.unwrap_or(&self.labels)
    }

    /// The seed of one feed.
    pub(crate) fn seed_for(&self, resource: &Resource, feed: usize) -> u64 {
        let seed = self.seed.unwrap_or_else(windlass_environment::random);
        #[expect(clippy::disallowed_types, reason = "it mixes a seed, and is the hash of no table")]
        foldhash::fast::FixedState::with_seed(seed).hash_one((resource, feed))
    }

    pub(crate) fn frame_options(&self) -> FrameOptions {
        FrameOptions {
            managed_fields: self.managed_fields,
            frame_max: self.frame_max.unwrap_or(FrameOptions::FRAME_MAX_DEFAULT),
        }
    }

    /// The layout, compact by default.
    pub(crate) fn layout(&self) -> Layout {
        self.layout.unwrap_or(Layout::compact())
    }

    /// Whether objects are cached decoded, without their bytes.
    pub(crate) fn is_resident(&self) -> bool {
        self.layout().resident_type().is_some()
    }

    /// The layout as text for an error.
    pub(crate) fn describe_layout(&self) -> String {
        match self.layout().resident_type() {
            Some(name) => format!("resident as {name}"),
            None => "compact".to_owned(),
        }
    }

    pub(crate) fn store(&self) -> Store {
        let mut store = Store::builder().layout(self.layout());
        if let Some(bytes) = self.hot_set_bytes {
            store = store.hot_set_bytes(bytes);
        }
        store.build()
    }
}

/// A label selector in a form that is the same for all that mean the same. An invalid one stays as
/// it is: it becomes an error when the informer is made.
fn normalized(labels: &str) -> String {
    let selector = labels.parse::<Selector>();
    selector.map_or_else(|_| labels.to_owned(), |selector| selector.to_string())
}

fn normalized_in(
    namespaces: &BTreeMap<String, Option<String>>,
) -> BTreeMap<String, Option<String>> {
    let normalized = |labels: &Option<String>| labels.as_deref().map(normalized);
    namespaces.iter().map(|(name, labels)| (name.clone(), normalized(labels))).collect()
}

impl fmt::Debug for InformerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerOptions")
            .field("namespaces", &self.namespaces)
            .field("labels", &self.labels)
            .field("fields", &self.fields)
            .field("layout", &self.describe_layout())
            .field("resync", &self.resync)
            .finish_non_exhaustive()
    }
}
