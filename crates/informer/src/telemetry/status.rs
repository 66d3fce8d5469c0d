//! The status of an informer: how far it is, what went wrong, which handler is slow.
//!
//! Invariant: it holds keys, numbers and errors without content, and nothing else of an object.

use std::fmt;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use windlass_indexer::{HeadError, ResourceVersion, StoreStatus};

use crate::resource::Resource;
use crate::transport::source::SourceError;

/// The status of an informer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InformerStatus {
    /// Its resource.
    pub resource: Resource,
    /// Whether it runs, and how far it is.
    pub phase: InformerPhase,
    /// One for each namespace that it watches, or one for all.
    pub feeds: Vec<FeedStatus>,
    /// Its handlers and subscriptions.
    pub handlers: Vec<HandlerStatus>,
    /// Objects whose current version is not in the cache, because its metadata cannot be read. At
    /// most a hundred.
    pub quarantined: Vec<HeadError>,
    /// How often such an object arrived.
    pub quarantined_total: u64,
    /// The size of the cache.
    pub store: StoreStatus,
}

/// What an informer does, on the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InformerPhase {
    /// It does not run yet.
    New,
    /// Its first list is under way.
    Listing,
    /// Its first lists are complete. A watch may be down; see [`InformerStatus::feeds`].
    Synced,
    /// It was stopped.
    Stopped,
    /// It broke, with this message, and has stopped.
    Failed(String),
}

impl InformerPhase {
    /// Changes the phase if it is `from`. Returns whether it was.
    pub(crate) fn transition(phase: &watch::Sender<Self>, from: &Self, to: Self) -> bool {
        phase.send_if_modified(|phase| {
            let is_from = phase == from;
            if is_from {
                *phase = to;
            }
            is_from
        })
    }
}

/// The status of one list and watch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FeedStatus {
    /// The namespace; `None` for all.
    pub namespace: Option<String>,
    /// What it does.
    pub activity: Activity,
    /// Since when.
    pub since: Instant,
    /// The list that is under way, or the last one.
    pub list: Progress,
    /// The version up to which everything is in the cache.
    pub version: Option<ResourceVersion>,
    /// When the last change arrived.
    pub last_event: Option<Instant>,
    /// The last failure, and when it happened.
    pub last_error: Option<(SourceError, Instant)>,
    /// What it has done so far.
    pub counts: Counts,
}

/// What a feed does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It has not begun.
    Starting,
    /// It lists.
    Listing,
    /// It watches.
    Watching,
    /// It waits until this time before it tries again.
    Waiting(Instant),
    /// It has ended.
    Stopped,
}

/// The status of a handler.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HandlerStatus {
    /// Its name, or its type.
    pub name: String,
    /// Whether it has seen the initial state: the first lists or, if it joined later, everything
    /// that was cached then.
    pub synced: bool,
    /// Events that wait for it.
    pub pending: usize,
    /// Whether it handles an event now. A subscriber does from the moment at which it takes an
    /// event until it asks for the next one.
    pub busy: bool,
    /// Events that it was given.
    pub delivered: u64,
    /// Events that merged with others because it was slow.
    pub merged: u64,
    /// Events that it panicked on.
    pub panics: u64,
}

/// How far a list is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Objects so far.
    pub objects: u64,
    /// Bytes so far, as they were sent.
    pub bytes: u64,
    /// Time so far.
    pub elapsed: Duration,
}

/// Sums since a feed began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Lists that were completed.
    pub lists: u64,
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
    /// Versions that the server no longer had: 410.
    pub gone: u64,
    /// Objects that were older than the cached ones.
    pub stale: u64,
    /// Objects that were deleted because a list did not have them.
    pub swept: u64,
    /// Objects that a list had and that an earlier watch should have reported.
    pub repaired: u64,
    /// Times that the cluster was found to be restored from a backup.
    pub restored: u64,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = self.bytes >> 20;
        let seconds = self.elapsed.as_secs();
        let rate = self.objects / seconds.max(1);
        write!(f, "{} objects, {mib} MiB in {seconds} s, {rate} objects/s", self.objects)
    }
}
