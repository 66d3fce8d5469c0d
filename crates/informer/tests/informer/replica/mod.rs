//! What the tests of whole informers share: a handler that keeps a copy of its own of everything
//! that it is told, and notes what it should not have been told; and what a server has, to compare
//! with.

#![allow(dead_code, reason = "no test file uses all of it")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use kube::api::{Api, ListParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;
use windlass_indexer::{Cached, ResourceVersion, Uid};
use windlass_informer::{Event, Handler, SharedInformer};

/// Objects by `namespace/name`, as JSON.
pub(crate) type Content = BTreeMap<String, Value>;

/// How long a test waits for what must come: more than any machine needs.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// A handler with its own copy of what it was told. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    name: &'static str,
    notes: Arc<Mutex<Notes>>,
    /// Counts events, so that others can wait for more.
    events: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Notes {
    objects: BTreeMap<String, Held>,
    /// The newest version of each object that was ever told.
    newest: BTreeMap<Uid, ResourceVersion>,
    /// How often the version of an object went back.
    went_back: BTreeMap<Uid, u64>,
    resyncs: u64,
    /// What cannot be, in words.
    broken: Vec<String>,
}

#[derive(Debug)]
struct Held {
    uid: Uid,
    version: ResourceVersion,
    content: Value,
}

impl Replica {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, notes: Arc::default(), events: watch::Sender::new(0) }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Takes an event into the copy.
    pub(crate) fn take<K>(&self, event: &Event<K>)
    where
        K: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        self.notes().take(event);
        self.events.send_modify(|count| *count += 1);
    }

    /// What it has by now.
    pub(crate) fn content(&self) -> Content {
        let notes = self.notes();
        notes.objects.iter().map(|(key, held)| (key.clone(), held.content.clone())).collect()
    }

    /// How many events came.
    pub(crate) fn events(&self) -> u64 {
        *self.events.borrow()
    }

    /// The same, to wait for.
    pub(crate) fn count(&self) -> &watch::Sender<u64> {
        &self.events
    }

    /// How many of them were resyncs.
    pub(crate) fn resyncs(&self) -> u64 {
        self.notes().resyncs
    }

    /// How often the version of one and the same object went back, at most.
    pub(crate) fn went_back(&self) -> u64 {
        self.notes().went_back.values().copied().max().unwrap_or_default()
    }

    /// What it was told that cannot be: an object that came twice, or changed from what it was not.
    pub(crate) fn broken(&self) -> Vec<String> {
        self.notes().broken.clone()
    }

    /// Waits until it has what `wanted` has; says what differs if that does not come.
    pub(crate) async fn becomes(&self, wanted: &Content) {
        self.becomes_within(wanted, PATIENCE).await;
    }

    /// As [`becomes`](Self::becomes), with a patience of its own, for clocks that are paused.
    pub(crate) async fn becomes_within(&self, wanted: &Content, patience: Duration) {
        let mut events = self.events.subscribe();
        let comes = async {
            loop {
                events.borrow_and_update();
                if self.content() == *wanted {
                    return;
                }
                events.changed().await.expect("this holds the sender");
            }
        };
        let arrived = tokio::time::timeout(patience, comes).await.is_ok();
        let differing = || difference(&self.content(), wanted);
        assert!(arrived, "{} differs: {}", self.name, differing());
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().expect("no handler panics")
    }
}

impl<K> Handler<K> for Replica
where
    K: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    fn handle(&mut self, event: Event<K>) {
        self.take(&event);
    }
}

impl Notes {
    fn take<K>(&mut self, event: &Event<K>)
    where
        K: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        self.resyncs += u64::from(event.is_resync());
        let key = event.key().to_string();
        let expects_one = !matches!(event, Event::Added { .. });
        let own = self.objects.get(&key);
        if own.is_some() != expects_one {
            self.broken.push(format!("{event:?} came, and it had {own:?}"));
        }
        if let (Some(own), Event::Updated { old, .. }) = (own, event)
            && (&own.uid, &own.version) != (old.head().uid(), old.head().resource_version())
        {
            self.broken.push(format!("{event:?} is not from what it had: {own:?}"));
        }
        let head = event.object().head();
        let newest = self
            .newest
            .entry(head.uid().clone())
            .or_insert_with(|| head.resource_version().clone());
        if *head.resource_version() < *newest {
            *self.went_back.entry(head.uid().clone()).or_default() += 1;
        }
        *newest = head.resource_version().clone();
        if let Event::Deleted { .. } = event {
            self.objects.remove(&key);
        } else {
            let uid = head.uid().clone();
            let version = head.resource_version().clone();
            let content = content_of(event.object());
            self.objects.insert(key, Held { uid, version, content });
        }
    }
}

/// The object as it is decoded.
pub(crate) fn content_of<K>(object: &Cached<K>) -> Value
where
    K: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let decoded = object.get().expect("it decodes");
    serde_json::to_value(&*decoded).expect("JSON")
}

/// All that an informer has.
pub(crate) fn cache_of<K>(informer: &SharedInformer<K>) -> Content
where
    K: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let list = informer.lister().list();
    list.iter().map(|object| (object.key().to_string(), content_of(&object))).collect()
}

/// All that a server has, as an informer would hold it.
///
/// # Errors
/// If it does not answer.
pub(crate) async fn server_has<K>(api: &Api<K>, params: &ListParams) -> Result<Content, kube::Error>
where
    K: Clone + std::fmt::Debug + Serialize + DeserializeOwned + kube::Resource,
{
    let list = api.list(params).await?;
    Ok(list
        .into_iter()
        .map(|mut object| {
            object.meta_mut().managed_fields = None;
            let meta = object.meta();
            let name = meta.name.clone().unwrap_or_default();
            let key = match &meta.namespace {
                Some(namespace) => format!("{namespace}/{name}"),
                None => name,
            };
            (key, serde_json::to_value(&object).expect("JSON"))
        })
        .collect())
}

/// Waits until the cache has what `wanted` says.
pub(crate) async fn until<K>(
    informer: &SharedInformer<K>,
    wanted: impl Fn(&SharedInformer<K>) -> bool,
) where
    K: DeserializeOwned + Send + Sync + 'static,
{
    let mut events = informer.subscribe().expect("it runs");
    let comes = async {
        while !wanted(informer) {
            events.next().await.expect("it runs");
        }
    };
    let arrived = tokio::time::timeout(PATIENCE, comes).await.is_ok();
    assert!(arrived, "it does not come: {:#?}", informer.status());
}

/// Keys that one has and the other has not, or otherwise.
pub(crate) fn difference(one: &Content, two: &Content) -> String {
    let keys: std::collections::BTreeSet<_> = one.keys().chain(two.keys()).collect();
    let differing: Vec<_> = keys
        .into_iter()
        .filter(|key| one.get(*key) != two.get(*key))
        .map(|key| {
            let version = |content: &Content| match content.get(key) {
                Some(object) => object["metadata"]["resourceVersion"].to_string(),
                None => "nothing".to_owned(),
            };
            format!("{key} is {} and should be {}", version(one), version(two))
        })
        .collect();
    differing.join(", ")
}
