//! Informers in a report: lists and watches, handlers, and the memory of caches.

use serde::Serialize;
use windlass_indexer::StoreStatus;
use windlass_informer::{
    Activity, Counts, FeedStatus, HandlerStatus, InformerPhase, InformerStatus,
};

use super::clock::{Clock, Time};

/// An informer.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InformerReport {
    /// Its resource, as in `deployments.v1.apps`.
    pub resource: String,
    /// Its state.
    pub state: InformerState,
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// One for each namespace that it watches, or one for all.
    pub feeds: Vec<FeedReport>,
    /// Its handlers and subscriptions.
    pub handlers: Vec<HandlerReport>,
    /// Objects whose current version is not in the cache, because its metadata cannot be read: the
    /// key, and what is wrong. At most a hundred.
    pub quarantined: Vec<String>,
    /// How often such an object arrived.
    pub quarantined_total: u64,
    /// The size of its cache.
    pub memory: MemoryReport,
}

/// The state of an informer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum InformerState {
    /// It does not run yet.
    New,
    /// Its first list is under way.
    Listing,
    /// Its cache is complete and kept up to date.
    Synced,
    /// It was stopped.
    Stopped,
    /// It failed.
    Failed,
}

/// A list and watch.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FeedReport {
    /// The namespace; `None` for all.
    pub namespace: Option<String>,
    /// What it does.
    pub activity: FeedActivity,
    /// Since when.
    pub since: Time,
    /// When it tries again, if it waits.
    pub next_try: Option<Time>,
    /// The list that is under way, or the last one.
    pub list: ListReport,
    /// The version up to which everything is in the cache.
    pub version: Option<String>,
    /// When the last change arrived.
    pub last_event: Option<Time>,
    /// The last failure.
    pub last_error: Option<FeedError>,
    /// What it has done so far.
    pub counts: FeedCounts,
}

/// What a list and watch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum FeedActivity {
    /// It has not begun.
    Starting,
    /// It lists.
    Listing,
    /// It watches.
    Watching,
    /// It waits before it tries again.
    Waiting,
    /// It has ended.
    Stopped,
}

/// The progress of a list.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListReport {
    /// Objects so far.
    pub objects: u64,
    /// Bytes so far, as they were sent.
    pub bytes: u64,
    /// Time so far.
    pub took_seconds: f64,
}

/// A failure of a list or watch.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FeedError {
    /// What went wrong.
    pub message: String,
    /// When.
    pub time: Time,
}

/// Totals since a list and watch began.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FeedCounts {
    /// Lists that were completed.
    pub lists: u64,
    /// Lists after the first one.
    pub relists: u64,
    /// Watches that were opened.
    pub watches: u64,
    /// Changes of watches: additions.
    pub added: u64,
    /// Changes of watches: new versions.
    pub modified: u64,
    /// Changes of watches: deletions.
    pub deleted: u64,
    /// Bookmarks.
    pub bookmarks: u64,
    /// Failures of lists and watches.
    pub errors: u64,
    /// Failures because the server no longer had the version: 410.
    pub gone: u64,
    /// Objects that were older than the cached ones.
    pub stale: u64,
    /// Objects that were deleted because a list did not have them.
    pub swept: u64,
    /// Objects that a list had and that an earlier watch should have reported.
    pub repaired: u64,
    /// How often the cluster was restored from a backup.
    pub restored: u64,
}

/// A handler of an informer.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HandlerReport {
    /// Its name, or its type.
    pub name: String,
    /// Whether it has seen everything that was cached when it joined.
    pub synced: bool,
    /// Events that wait for it.
    pub pending: usize,
    /// Events that were delivered to it.
    pub delivered: u64,
    /// Events that merged with others because it was slow.
    pub merged: u64,
    /// Events that it panicked on.
    pub panics: u64,
}

/// The size of a cache. Bytes are those taken from the allocator.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MemoryReport {
    /// The number of objects.
    pub objects: usize,
    /// What the objects take.
    pub object_bytes: usize,
    /// What the map, the order and the indexes take.
    pub structure_bytes: usize,
    /// What interned texts take. Caches share them, so do not add these up.
    pub interned_bytes: usize,
    /// One for each type that the cache was read as.
    pub types: Vec<TypeReport>,
    /// One for each index.
    pub indexes: Vec<IndexReport>,
}

/// A type that a cache is read as.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TypeReport {
    /// The type.
    pub name: &'static str,
    /// What the decoded objects that are kept take, as an estimate.
    pub hot_bytes: usize,
    /// The number of decoded objects that are kept.
    pub hot_entries: usize,
    /// Reads that found the object decoded.
    pub hits: u64,
    /// Reads that had to decode.
    pub misses: u64,
    /// The number of objects that are known not to decode.
    pub undecodable: usize,
    /// The first of them: the key, and where the problem is. At most a hundred.
    pub undecodable_first: Vec<String>,
}

/// An index of a cache.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct IndexReport {
    /// The type of the index.
    pub name: &'static str,
    /// The number of entries.
    pub entries: usize,
    /// The number of objects that are not in the index, because they do not decode.
    pub undecodable: usize,
    /// The first of them: the key, and where the problem is. At most a hundred.
    pub undecodable_first: Vec<String>,
}

/// How many undecodable objects of an index are named.
const NAMED_MAX: usize = 100;

impl InformerReport {
    pub(super) fn of(status: &InformerStatus, clock: Clock) -> Self {
        let (state, failure) = match &status.phase {
            InformerPhase::New => (InformerState::New, None),
            InformerPhase::Listing => (InformerState::Listing, None),
            InformerPhase::Synced => (InformerState::Synced, None),
            InformerPhase::Stopped => (InformerState::Stopped, None),
            InformerPhase::Failed(message) => (InformerState::Failed, Some(message.clone())),
        };
        Self {
            resource: status.resource.to_string(),
            state,
            failure,
            feeds: status.feeds.iter().map(|feed| FeedReport::of(feed, clock)).collect(),
            handlers: status.handlers.iter().map(HandlerReport::of).collect(),
            quarantined: status.quarantined.iter().map(ToString::to_string).collect(),
            quarantined_total: status.quarantined_total,
            memory: MemoryReport::of(&status.store),
        }
    }
}

impl FeedReport {
    fn of(status: &FeedStatus, clock: Clock) -> Self {
        let (activity, next_try) = match status.activity {
            Activity::Starting => (FeedActivity::Starting, None),
            Activity::Listing => (FeedActivity::Listing, None),
            Activity::Watching => (FeedActivity::Watching, None),
            Activity::Waiting(until) => (FeedActivity::Waiting, Some(clock.time(until))),
            Activity::Stopped => (FeedActivity::Stopped, None),
        };
        Self {
            namespace: status.namespace.clone(),
            activity,
            since: clock.time(status.since),
            next_try,
            list: ListReport {
                objects: status.list.objects,
                bytes: status.list.bytes,
                took_seconds: status.list.elapsed.as_secs_f64(),
            },
            version: status.version.as_ref().map(ToString::to_string),
            last_event: status.last_event.map(|event| clock.time(event)),
            last_error: status
                .last_error
                .as_ref()
                .map(|(error, at)| FeedError { message: error.to_string(), time: clock.time(*at) }),
            counts: FeedCounts::of(&status.counts),
        }
    }
}

impl FeedCounts {
    fn of(counts: &Counts) -> Self {
        Self {
            lists: counts.lists,
            relists: counts.lists.saturating_sub(1),
            watches: counts.watches,
            added: counts.added,
            modified: counts.modified,
            deleted: counts.deleted,
            bookmarks: counts.bookmarks,
            errors: counts.errors,
            gone: counts.gone,
            stale: counts.stale,
            swept: counts.swept,
            repaired: counts.repaired,
            restored: counts.restored,
        }
    }
}

impl HandlerReport {
    fn of(status: &HandlerStatus) -> Self {
        Self {
            name: status.name.clone(),
            synced: status.synced,
            pending: status.pending,
            delivered: status.delivered,
            merged: status.merged,
            panics: status.panics,
        }
    }
}

impl MemoryReport {
    fn of(status: &StoreStatus) -> Self {
        let types = status.types.iter().map(|it| TypeReport {
            name: it.name,
            hot_bytes: it.hot_bytes,
            hot_entries: it.hot_entries,
            hits: it.hits,
            misses: it.misses,
            undecodable: it.undecodable,
            undecodable_first: it.undecodable_first.iter().map(ToString::to_string).collect(),
        });
        let indexes = status.indexes.iter().map(|it| {
            let first = it.undecodable.iter().take(NAMED_MAX);
            IndexReport {
                name: it.name,
                entries: it.entries,
                undecodable: it.undecodable.len(),
                undecodable_first: first.map(ToString::to_string).collect(),
            }
        });
        Self {
            objects: status.objects,
            object_bytes: status.object_bytes,
            structure_bytes: status.structure_bytes,
            interned_bytes: status.interned_bytes,
            types: types.collect(),
            indexes: indexes.collect(),
        }
    }
}
