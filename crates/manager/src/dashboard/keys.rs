//! One page of the keys of a controller.
//!
//! The queue is locked while its keys are copied. So a copy of them, the [`Listing`], is shared by
//! all pages and filters for a while. The objects are read from the cache as it is now, which costs
//! no lock.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use windlass_indexer::ObjectKey;
use windlass_informer::InformerCache;
use windlass_reconciler::{Cause, InactiveKey};
use windlass_workqueue::KeyStatus;

use super::kept::refresh_seconds;
use super::{Shared, page_limit, paged};
use crate::http::report::{Clock, InactiveReport, KeyReport, Time, Unknown};
use crate::state::ControllerState;

/// What `/api/keys` is asked for. An empty text stands for all.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct KeysQuery {
    controller: String,
    state: String,
    namespace: String,
    search: String,
    offset: usize,
    limit: Option<usize>,
}

/// What `/api/keys` answers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KeysPage {
    time: Time,
    /// How many keys the filters select.
    total: usize,
    offset: usize,
    keys: Vec<KeyRow>,
    /// When to ask again.
    refresh_seconds: u64,
}

/// A key, with what is known about it.
#[derive(Serialize)]
#[serde(untagged)]
enum KeyRow {
    Queued(KeyReport),
    Resting {
        state: &'static str,
        #[serde(flatten)]
        inactive: InactiveReport,
    },
    Idle {
        key: String,
        state: &'static str,
    },
}

/// Which keys are listed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    /// All objects in the order of their keys, then the queued keys without an object.
    All,
    /// Those in this state, in the order of the queue.
    Running,
    Ready,
    Waiting,
    Failed,
    /// Those that do not run until something changes: paused, given up, or with a terminal error.
    Resting,
}

impl Which {
    fn parse(text: &str) -> Result<Self, Unknown> {
        Ok(match text {
            "" | "all" => Self::All,
            "running" => Self::Running,
            "ready" => Self::Ready,
            "waiting" => Self::Waiting,
            "failed" => Self::Failed,
            "resting" => Self::Resting,
            _ => {
                let known = "all, running, ready, waiting, failed, resting";
                return Err(Unknown::Value { what: "state", value: text.to_owned(), known });
            }
        })
    }

    fn has(self, status: &KeyStatus<ObjectKey, Cause>) -> bool {
        let is_delayed = status.next_run.as_ref().is_some_and(|run| run.due.is_some());
        match self {
            Self::All => true,
            Self::Running => status.running.is_some(),
            Self::Ready => status.running.is_none() && !is_delayed,
            Self::Waiting => status.running.is_none() && is_delayed,
            Self::Failed => status.failures > 0,
            Self::Resting => false,
        }
    }
}

/// The keys in the queue of a controller, and those that rest.
pub(super) struct Listing {
    /// In the order of the queue.
    queued: Vec<KeyStatus<ObjectKey, Cause>>,
    /// Where a key is in `queued`.
    places: HashMap<ObjectKey, usize>,
    resting: BTreeMap<ObjectKey, InactiveKey>,
    /// The keys in the queue that have no object, sorted.
    without_object: Vec<ObjectKey>,
}

impl Listing {
    fn of(shown: &ControllerState) -> Self {
        let caches = shown.controller.caches();
        let objects = caches.first().map(InformerCache::reader);
        let queued = shown.controller.queue().snapshot().keys;
        let places = queued.iter().enumerate().map(|(place, status)| (status.key.clone(), place));
        let has_no_object =
            |key: &&ObjectKey| objects.is_none_or(|objects| objects.get(*key).is_none());
        let keys = queued.iter().map(|status| &status.key);
        let mut without_object: Vec<_> = keys.filter(has_no_object).cloned().collect();
        without_object.sort();
        let resting = shown.controller.inactive().into_iter();
        Self {
            places: places.collect(),
            resting: resting.map(|inactive| (inactive.key.clone(), inactive)).collect(),
            without_object,
            queued,
        }
    }

    fn row(&self, key: &ObjectKey, clock: Clock) -> KeyRow {
        let queued = self.places.get(key).map(|place| &self.queued[*place]);
        if let Some(report) = queued.and_then(|status| KeyReport::of(status, clock)) {
            return KeyRow::Queued(report);
        }
        match self.resting.get(key) {
            Some(inactive) => KeyRow::resting(inactive, clock),
            None => KeyRow::Idle { key: key.to_string(), state: "idle" },
        }
    }
}

impl KeyRow {
    fn resting(inactive: &InactiveKey, clock: Clock) -> Self {
        Self::Resting { state: "resting", inactive: InactiveReport::of(inactive, clock) }
    }
}

impl KeysPage {
    pub(super) fn new(shared: &Shared, query: &KeysQuery) -> Result<Self, Unknown> {
        let (shown, which) = (shared.controller(&query.controller)?, Which::parse(&query.state)?);
        let clock = Clock::now();
        let objects = shown.controller.caches().first().map(|cache| cache.reader().snapshot());
        let kept = shared.listing(shown);
        let (listing, cost) = kept.get(|| Listing::of(shown));
        let filtering = Instant::now();
        let mut filter = KeyFilter::new(&query.namespace, &query.search);
        let (offset, limit) = (query.offset, page_limit(query.limit));
        let (keys, total) = match which {
            Which::All => {
                let objects = objects.as_ref();
                let selected = objects.map(|objects| match query.namespace.as_str() {
                    "" => objects.all(),
                    namespace => objects.all().in_namespace(namespace),
                });
                let known = selected.iter().flatten().map(|object| object.head().key());
                // An object may have been created since the listing was made.
                let has_no_object =
                    |key: &&ObjectKey| objects.is_none_or(|objects| objects.get(*key).is_none());
                let others = listing.without_object.iter().filter(has_no_object);
                let keys = known.chain(others).filter(|key| filter.selects(key));
                let (keys, total) = paged(keys, offset, limit);
                (keys.into_iter().map(|key| listing.row(key, clock)).collect(), total)
            }
            Which::Resting => {
                let resting = listing.resting.values().filter(|of| filter.selects(&of.key));
                let (resting, total) = paged(resting, offset, limit);
                (resting.into_iter().map(|of| KeyRow::resting(of, clock)).collect(), total)
            }
            _ => {
                let queued = listing.queued.iter();
                let queued = queued.filter(|of| which.has(of) && filter.selects(&of.key));
                let (queued, total) = paged(queued, offset, limit);
                let rows = queued.into_iter().filter_map(|of| KeyReport::of(of, clock));
                (rows.map(KeyRow::Queued).collect(), total)
            }
        };
        let refresh_seconds = refresh_seconds(cost + filtering.elapsed());
        Ok(Self { time: clock.now_as_time(), total, offset, keys, refresh_seconds })
    }
}

/// Selects keys by their namespace, and by a text in them, in any case.
pub(super) struct KeyFilter {
    namespace: Option<String>,
    search: String,
    /// The text of a key, in a buffer that is used again for the next one.
    text: String,
}

impl KeyFilter {
    pub(super) fn new(namespace: &str, search: &str) -> Self {
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        Self {
            namespace: namespace.map(str::to_owned),
            search: search.trim().to_ascii_lowercase(),
            text: String::new(),
        }
    }

    pub(super) fn selects(&mut self, key: &ObjectKey) -> bool {
        if self.namespace.is_some() && key.namespace() != self.namespace.as_deref() {
            return false;
        }
        if self.search.is_empty() {
            return true;
        }
        self.text.clear();
        if let Some(namespace) = key.namespace() {
            self.text.push_str(namespace);
            self.text.push('/');
        }
        self.text.push_str(key.name());
        self.text.make_ascii_lowercase();
        self.text.contains(&self.search)
    }
}
