//! The core of an informer: objects that arrive are compared with the cached ones, queued, applied
//! to the store and sent to the handlers, under one lock.
//!
//! ```text
//! feed ─arrived→ judge → DeltaFifo → Store ─notices→ Listener of each handler
//! ```
//!
//! Because of the single lock, a handler can be added at any time: it gets the content of the store
//! and is registered in one step, so that it misses nothing and gets nothing twice. Feeds take
//! the lock once or a few times for each chunk of a body; readers never take it.

mod listing;
mod members;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_indexer::{Index, IndexError, Object, ObjectKey, Reader, ResourceVersion, Store};

use crate::decode::frames::Change;
use crate::decode::ingest::Quarantine;
use crate::share::backlog::Notice;
use crate::share::delta_fifo::{Delta, DeltaFifo, FinalState, ReplaceList};
use crate::share::judge::{self, ItemVerdict};
use crate::share::lock::lock;
pub(crate) use listing::Listing;
use members::Member;
pub(crate) use members::Task;

/// The store of an informer, and its handlers.
pub(crate) struct Cache {
    state: Mutex<State>,
    pub(crate) reader: Reader,
    pub(crate) quarantine: Quarantine,
    /// Notified after every chunk, for callers that wait until the cache shows a version.
    pub(crate) progress: Notify,
}

struct State {
    store: Store,
    reader: Reader,
    fifo: DeltaFifo,
    /// The handlers and subscriptions.
    members: Vec<Member>,
    /// How many feeds have not completed their first list.
    feeds_not_listed: usize,
    is_closed: bool,
    /// Notices for the handlers. Kept between chunks for its allocation.
    pending_notices: Vec<PendingNotice>,
}

struct PendingNotice {
    notice: Notice,
    /// Only for handlers whose resync is due.
    is_sync: bool,
}

/// An object from a feed.
#[derive(Debug)]
pub(crate) enum Received {
    /// An item of a list, streamed or not.
    Item(Object),
    /// A change.
    Change(Change, Object),
    /// A deletion whose object cannot be read, except for its key.
    Gone(ObjectKey),
}

/// How a list ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListOutcome {
    /// The cache equals the list.
    Applied {
        /// How many objects were deleted because the list did not have them.
        swept: u64,
        /// How many objects of the list were missing from the cache, or different there, although
        /// an earlier watch should have reported them.
        repaired: u64,
        /// The cluster was restored from a backup: versions went back, twice in a row.
        is_restored: bool,
    },
    /// The version of an object went back, for the first time. Nothing was deleted.
    WentBack,
}

/// The capacity for notices that is kept between two chunks.
const NOTICES_KEPT: usize = 1_024;

impl Cache {
    /// `feeds` is the number of feeds. The cache is synced when each has completed a list.
    pub(crate) fn new(store: Store, feeds: usize) -> Self {
        let reader = store.reader();
        let state = State {
            store,
            reader: reader.clone(),
            fifo: DeltaFifo::default(),
            members: Vec::new(),
            feeds_not_listed: feeds,
            is_closed: false,
            pending_notices: Vec::new(),
        };
        Self {
            state: Mutex::new(state),
            reader,
            quarantine: Quarantine::default(),
            progress: Notify::new(),
        }
    }

    /// Adds an index, unless there is one of its type.
    pub(crate) fn add_index<I: Index>(&self, index: I) -> Result<(), IndexError> {
        let mut state = lock(&self.state);
        if state.store.has_index::<I>() { Ok(()) } else { state.store.add_index(index) }
    }

    /// Begins a list of a namespace, or of everything.
    pub(crate) fn begin_list(
        &self,
        namespace: Option<&str>,
        cached_up_to: Option<ResourceVersion>,
        is_after_refused: bool,
    ) -> Listing {
        Listing {
            list: ReplaceList::begin(&self.reader, namespace),
            cached_up_to,
            is_after_refused,
            went_back: false,
            held_back: BTreeMap::new(),
            unreadable: BTreeSet::new(),
        }
    }

    /// Applies what has arrived, in order. Returns how many objects were dropped, because they were
    /// older than the cached ones.
    pub(crate) fn apply(
        &self,
        arrived: impl Iterator<Item = Received>,
        mut listing: Option<&mut Listing>,
        is_initial: bool,
    ) -> u64 {
        let Some(mut state) = self.lock_if_usable() else { return 0 };
        let mut dropped = 0;
        for arrived in arrived {
            let is_stale = state.judge(arrived, listing.as_deref_mut());
            dropped += u64::from(is_stale);
        }
        state.apply_queued(None, is_initial);
        dropped
    }

    /// Ends a list that is complete. With `is_new_epoch`, the list replaces the cache even where
    /// the cache has higher versions.
    ///
    /// A restored cluster is also recognized by an object with a lower version than the cached one,
    /// if the list before was refused for that reason. The version of the list itself may be higher
    /// again by then.
    pub(crate) fn end_list(
        &self,
        listing: Listing,
        is_new_epoch: bool,
        is_initial: bool,
    ) -> ListOutcome {
        let Some(mut state) = self.lock_if_usable() else {
            return ListOutcome::Applied { swept: 0, repaired: 0, is_restored: false };
        };
        if listing.went_back {
            return ListOutcome::WentBack;
        }
        let went_back = listing.held_back.values().any(|object| {
            let held = state.held(object.head().key());
            held.is_some_and(|held| judge::goes_back(held.head(), object.head()))
        });
        let is_restored = is_new_epoch || went_back;
        let mut list = listing.list;
        self.quarantine.sweep(list.namespace(), &listing.unreadable);
        let mut repaired = 0;
        for object in listing.held_back.into_values() {
            if !is_restored && state.is_resident_version(&object) {
                continue;
            }
            repaired += u64::from(!is_restored);
            state.fifo.replace(&mut list, object);
        }
        let swept = state.fifo.end_replace(list, &self.reader) as u64;
        state.apply_queued(None, is_initial);
        ListOutcome::Applied { swept, repaired, is_restored }
    }

    /// A feed has completed its first list. Returns whether all have.
    pub(crate) fn note_first_list(&self) -> bool {
        let mut state = lock(&self.state);
        state.feeds_not_listed = state.feeds_not_listed.saturating_sub(1);
        let is_synced = state.feeds_not_listed == 0;
        if is_synced {
            for member in &state.members {
                member.listener.push(std::iter::once(Notice::Synced));
            }
        }
        is_synced
    }

    /// Locks the state, unless the cache is closed or a panic has poisoned the lock. A state that
    /// is half changed must not reach a handler, and the informer is about to end.
    fn lock_if_usable(&self) -> Option<MutexGuard<'_, State>> {
        self.state.lock().ok().filter(|state| !state.is_closed)
    }

    /// Closes all listeners. The cache does not change any more.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.is_closed = true;
        let members = std::mem::take(&mut state.members);
        drop(state);
        for member in &members {
            member.listener.close();
        }
        // Last, because the drop of a handler may panic.
        drop(members);
    }
}

impl State {
    /// The newest version of an object, queued or stored; `None` if there is none.
    fn held(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        match self.fifo.newest(key) {
            Some(delta) if delta.is_deleted() => None,
            Some(delta) => Some(Arc::clone(delta.object())),
            None => self.reader.get(key),
        }
    }

    /// Whether this version of an object is in the cache, decoded and without its bytes.
    fn is_resident_version(&self, object: &Object) -> bool {
        self.held(object.head().key()).is_some_and(|held| {
            let (old, new) = (held.head(), object.head());
            held.bytes().is_none()
                && old.uid() == new.uid()
                && old.resource_version() == new.resource_version()
        })
    }

    /// Queues an object if it is new. Returns whether it was older than the cached one.
    fn judge(&mut self, arrived: Received, listing: Option<&mut Listing>) -> bool {
        match arrived {
            Received::Item(object) => {
                let listing = listing.expect("an item must belong to a list");
                self.judge_item(object, listing);
                false
            }
            Received::Change(change, object) => {
                if let Some(listing) = listing {
                    listing.held_back.remove(object.head().key());
                    if change == Change::Deleted {
                        listing.list.unmark(object.head().key());
                    }
                }
                self.judge_change(change, object)
            }
            Received::Gone(key) => {
                if let Some(listing) = listing {
                    listing.held_back.remove(&key);
                    listing.list.unmark(&key);
                }
                if let Some(held) = self.held(&key) {
                    self.fifo.push(Delta::tombstone(held));
                }
                false
            }
        }
    }

    fn judge_item(&mut self, object: Object, listing: &mut Listing) {
        let key = object.head().key();
        let held = self.held(key);
        let held_head = held.as_ref().map(|held| held.head());
        let held_bytes = held.as_ref().and_then(|held| held.bytes());
        let has_same_bytes = held_bytes.is_some() && held_bytes == object.bytes();
        let verdict = match judge::item(held_head, object.head(), listing.cached_up_to.as_ref()) {
            // Some servers set no resource versions. Then the bytes are compared.
            _ if object.head().resource_version().is_empty() && has_same_bytes => ItemVerdict::Same,
            // After a restore, the same version may belong to a different object.
            ItemVerdict::Same if listing.is_after_refused && !has_same_bytes => {
                ItemVerdict::Contradiction
            }
            verdict => verdict,
        };
        listing.held_back.remove(key);
        match verdict {
            ItemVerdict::Apply => self.fifo.replace(&mut listing.list, Arc::new(object)),
            // With the key of the held object, so that the mark shares its text.
            ItemVerdict::Same => {
                listing.list.mark(held_head.map_or(key, |head| head.key()));
            }
            ItemVerdict::Contradiction
                if !listing.is_after_refused
                    && held_head.is_some_and(|held| judge::goes_back(held, object.head())) =>
            {
                listing.went_back = true;
            }
            ItemVerdict::Contradiction => {
                listing.list.mark(key);
                listing.held_back.insert(key.clone(), Arc::new(object));
            }
        }
    }

    /// Queues a change if it is new. Returns whether it was older than the cached object.
    fn judge_change(&mut self, change: Change, object: Object) -> bool {
        let held = self.held(object.head().key());
        if held.as_ref().is_some_and(|held| judge::is_stale(change, held.head(), object.head())) {
            return true;
        }
        let object = Arc::new(object);
        match change {
            Change::Added => self.fifo.push(Delta::Added(object)),
            Change::Modified => self.fifo.push(Delta::Updated(object)),
            Change::Deleted if held.is_some() => {
                self.fifo.push(Delta::Deleted { object, state: FinalState::Final });
            }
            // Its deletion was reported before, for instance by a list.
            Change::Deleted => {}
        }
        false
    }

    /// Applies what is queued and notifies the handlers. Syncs go only to handlers whose resync is
    /// due at `resync`.
    fn apply_queued(&mut self, resync: Option<Instant>, is_initial: bool) {
        while let Some(deltas) = self.fifo.pop() {
            for delta in deltas {
                self.apply(delta, is_initial);
            }
        }
        for member in &self.members {
            let is_due = resync.is_some_and(|now| member.due.is_some_and(|due| due <= now));
            let pending = self.pending_notices.iter().filter(|it| is_due || !it.is_sync);
            member.listener.push(pending.map(|it| it.notice.clone()));
        }
        self.pending_notices.clear();
        // A resync may have been large.
        self.pending_notices.shrink_to(NOTICES_KEPT);
    }

    fn apply(&mut self, delta: Delta, is_initial: bool) {
        match delta {
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) => {
                self.put(object, is_initial);
            }
            Delta::Deleted { object, state } => {
                let Some(removed) = self.store.delete(object.head().key()) else { return };
                // If the stored object has another uid, the handlers know only that one. Its
                // deletion was missed.
                let is_held = removed.head().uid() == object.head().uid();
                let (object, state) =
                    if is_held { (object, state) } else { (removed, FinalState::LastKnown) };
                self.push_notice(Notice::Deleted { object, state });
            }
            Delta::Sync(object) => {
                let notice = Notice::Updated { old: Arc::clone(&object), new: object };
                self.pending_notices.push(PendingNotice { notice, is_sync: true });
            }
        }
    }

    fn put(&mut self, object: Arc<Object>, is_initial: bool) {
        let put = self.store.put(object);
        let new = put.current;
        match put.previous {
            Some(old) if old.head().uid() == new.head().uid() => {
                self.push_notice(Notice::Updated { old, new });
            }
            // Deleted and created again under the same name.
            Some(old) => {
                self.push_notice(Notice::Deleted { object: old, state: FinalState::LastKnown });
                self.push_notice(Notice::Added { object: new, initial: false });
            }
            None => self.push_notice(Notice::Added { object: new, initial: is_initial }),
        }
    }

    fn push_notice(&mut self, notice: Notice) {
        if !self.members.is_empty() {
            self.pending_notices.push(PendingNotice { notice, is_sync: false });
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_indexer::{HeadParser, Interner};

    use super::*;

    fn object(name: &str) -> Object {
        let json = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"1"}}}}"#);
        let head = HeadParser::new(Interner::new()).parse(json.as_bytes()).expect("a head");
        Object::new(head, json.into_bytes())
    }

    fn item(name: &str) -> Received {
        Received::Item(object(name))
    }

    #[test]
    fn an_object_is_deleted_once_and_an_unknown_one_never() {
        let cache = Cache::new(Store::new(), 1);
        let mut list = cache.begin_list(None, None, false);
        cache.apply([item("a")].into_iter(), Some(&mut list), true);
        let mut state = lock(&cache.state);
        for name in ["a", "a", "unknown"] {
            let deletion = Received::Change(Change::Deleted, object(name));
            assert!(!state.judge(deletion, None), "it does not count as stale");
        }
        let gone = ObjectKey::cluster("a");
        assert!(!state.judge(Received::Gone(gone), None));
        assert_eq!(state.fifo.pop().map(|deltas| deltas.len()), Some(1));
        assert!(state.fifo.pop().is_none());
    }

    #[test]
    fn a_closed_cache_does_not_change() {
        let cache = Cache::new(Store::new(), 1);
        let mut first = cache.begin_list(None, None, false);
        cache.apply([item("a")].into_iter(), Some(&mut first), true);
        assert_eq!(cache.reader.len(), 1);
        // This list would delete it.
        let mut second = cache.begin_list(None, None, false);
        cache.close();
        cache.apply([item("b")].into_iter(), Some(&mut second), false);
        cache.end_list(second, false, false);
        assert_eq!(cache.reader.len(), 1);
        assert!(cache.reader.get("a").is_some());
        assert_eq!(cache.resync(Instant::now()), None);
    }
}
