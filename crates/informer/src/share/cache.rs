//! The middle of an informer: what arrives is judged, queued, applied to the store and told to the handlers,
//! under one lock.
//!
//! ```text
//! feed ─arrived→ judge → DeltaFifo → Store ─notices→ Listener of each handler
//! ```
//!
//! One lock for all of it is what makes a late handler exact: it is shown the store and joins the others in one
//! step, so that nothing is lost or doubled between. Feeds take the lock once or a few times for each
//! chunk of a body; readers never take it.

mod listing;

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::time::Instant;
use windlass_indexer::{
    HeadParser, Index, IndexError, Object, ObjectKey, Reader, ResourceVersion, Store,
};

use crate::decode::frames::Change;
use crate::decode::ingest::Quarantine;
use crate::error::Stopped;
use crate::share::backlog::Notice;
use crate::share::delta_fifo::{Delta, DeltaFifo, FinalState};
use crate::share::judge::{self, Verdict};
use crate::share::listener::{HandlerStatus, Listener};
use crate::share::lock::lock;
pub(crate) use listing::Listing;

/// The store of an informer, and everyone who hears of its changes.
#[derive(Debug)]
pub(crate) struct Cache {
    state: Mutex<State>,
    reader: Reader,
    pub(crate) quarantine: Quarantine,
}

#[derive(Debug)]
struct State {
    store: Store,
    fifo: DeltaFifo,
    members: Vec<Member>,
    /// Feeds whose first list is not complete.
    unlisted: usize,
    is_closed: bool,
    /// What the handlers are to be told, reused.
    told: Vec<Told>,
}

#[derive(Debug)]
struct Member {
    listener: Arc<Listener>,
    /// When it is to be shown everything again.
    due: Option<Instant>,
}

#[derive(Debug)]
struct Told {
    notice: Notice,
    /// Only for those that are due a resync.
    is_sync: bool,
}

/// An object from a feed.
#[derive(Debug)]
pub(crate) enum Arrived {
    /// An item of a list, or what a streamed list has of an object.
    Item(Object),
    /// A change.
    Change(Change, Object),
    /// A deletion whose object cannot be read, but for its key.
    Gone(ObjectKey),
}

impl Arrived {
    /// How long its JSON is.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Item(object) | Self::Change(_, object) => object.bytes().map_or(0, <[u8]>::len),
            Self::Gone(_) => 0,
        }
    }

    /// See [`Object::move_bytes`].
    pub(crate) fn move_bytes(&mut self) -> Option<Box<[u8]>> {
        match self {
            Self::Item(object) | Self::Change(_, object) => object.move_bytes(),
            Self::Gone(_) => None,
        }
    }
}

/// How a list ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The cache is as the list.
    Applied {
        outcome: Outcome,
        /// The versions of objects went back, twice in a row.
        is_new_epoch: bool,
    },
    /// The version of an object went back, for the first time. Nothing was swept.
    Doubtful,
}

/// How much room for notices is kept between two chunks.
const TOLD_KEPT: usize = 1_024;

/// What came of some objects, or of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) added: u64,
    pub(crate) updated: u64,
    pub(crate) deleted: u64,
    /// Older than what was held, and dropped.
    pub(crate) stale: u64,
    /// Deleted because a complete list no longer had them.
    pub(crate) swept: u64,
    /// What a list had and no watch had told, though it was older than what the watch told last.
    pub(crate) repaired: u64,
}

impl Cache {
    /// With `feeds` that each have to complete a list before it is synced.
    pub(crate) fn new(store: Store, feeds: usize) -> Self {
        let reader = store.reader();
        let state = State {
            store,
            fifo: DeltaFifo::new(),
            members: Vec::new(),
            unlisted: feeds,
            is_closed: false,
            told: Vec::new(),
        };
        Self { state: Mutex::new(state), reader, quarantine: Quarantine::default() }
    }

    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    pub(crate) fn head_parser(&self) -> HeadParser {
        lock(&self.state).store.head_parser()
    }

    /// Adds an index, unless one of its type is there.
    pub(crate) fn add_index<I: Index>(&self, index: I) -> Result<(), IndexError> {
        let mut state = lock(&self.state);
        if state.store.has_index::<I>() { Ok(()) } else { state.store.add_index(index) }
    }

    /// Begins a list of a namespace, or of everything.
    pub(crate) fn begin_list(
        &self,
        namespace: Option<&str>,
        high_water: Option<ResourceVersion>,
        is_second: bool,
    ) -> Listing {
        let state = lock(&self.state);
        let list = state.fifo.begin_replace(&self.reader, namespace);
        Listing::new(list, high_water, is_second)
    }

    /// Takes in what has arrived, in its order. What is `initial` is of a feed's first list.
    pub(crate) fn take(
        &self,
        arrived: impl Iterator<Item = Arrived>,
        mut listing: Option<&mut Listing>,
        initial: bool,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let Some(mut state) = self.whole() else { return outcome };
        for arrived in arrived {
            state.judge(arrived, listing.as_deref_mut(), &self.reader, &mut outcome);
        }
        state.settle(None, initial, &mut outcome);
        outcome
    }

    /// Ends a list that is complete. If a new epoch begins with it, it is right whatever was held.
    ///
    /// That an object's version went back within a consistent list is a sign of a restored cluster, too, even if
    /// the version of the list itself has overtaken the old one meanwhile.
    pub(crate) fn end_list(&self, listing: Listing, is_new_epoch: bool, initial: bool) -> Ended {
        let mut outcome = Outcome::default();
        let Some(mut state) = self.whole() else {
            return Ended::Applied { outcome, is_new_epoch: false };
        };
        if listing.went_back {
            return Ended::Doubtful;
        }
        let went_back = listing.held_back.values().any(|object| {
            let held = state.held(object.head().key(), &self.reader);
            held.is_some_and(|held| judge::goes_back(held.head(), object.head()))
        });
        let is_new_epoch = is_new_epoch || went_back;
        let mut list = listing.list;
        self.quarantine.sweep(list.namespace(), &listing.unreadable);
        for object in listing.held_back.into_values() {
            if !is_new_epoch && state.holds_version_of(&object, &self.reader) {
                continue;
            }
            outcome.repaired += u64::from(!is_new_epoch);
            state.fifo.replace(&mut list, object);
        }
        outcome.swept = state.fifo.end_replace(list, &self.reader) as u64;
        state.settle(None, initial, &mut outcome);
        Ended::Applied { outcome, is_new_epoch }
    }

    /// A feed has completed its first list. Returns whether all have.
    pub(crate) fn note_first_list(&self) -> bool {
        let mut state = lock(&self.state);
        state.unlisted = state.unlisted.saturating_sub(1);
        let is_synced = state.unlisted == 0;
        if is_synced {
            for member in &state.members {
                member.listener.push(std::iter::once(Notice::Synced));
            }
        }
        is_synced
    }

    /// Shows the store to a listener, and lets it join the others.
    pub(crate) fn join(&self, listener: Arc<Listener>, now: Instant) -> Result<(), Stopped> {
        let mut state = lock(&self.state);
        if state.is_closed {
            return Err(Stopped);
        }
        let moment = self.reader.snapshot().all();
        let replay =
            moment.iter().map(|object| Notice::Added { object: Arc::clone(object), initial: true });
        listener.push(replay.chain((state.unlisted == 0).then_some(Notice::Synced)));
        let due = listener.resync_after(now);
        state.members.push(Member { listener, due });
        Ok(())
    }

    /// A listener is told nothing any more.
    pub(crate) fn forget(&self, listener: &Arc<Listener>) {
        let mut state = lock(&self.state);
        state.members.retain(|member| !Arc::ptr_eq(&member.listener, listener));
    }

    /// Shows everything again to those that are due. Returns when the next one is.
    pub(crate) fn resync(&self, now: Instant) -> Option<Instant> {
        let mut state = self.whole()?;
        let is_due = |member: &Member| member.due.is_some_and(|due| due <= now);
        if state.members.iter().any(is_due) {
            state.fifo.resync(&self.reader);
            state.settle(Some(now), false, &mut Outcome::default());
            for member in state.members.iter_mut().filter(|member| is_due(member)) {
                member.due = member.listener.resync_after(now);
            }
        }
        state.members.iter().filter_map(|member| member.due).min()
    }

    /// The state, unless a panic has left it half changed: then nothing of it may reach a handler, and the informer
    /// is about to end.
    fn whole(&self) -> Option<MutexGuard<'_, State>> {
        self.state.lock().ok()
    }

    /// Ends all handlers.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.is_closed = true;
        state.fifo.close();
        for member in state.members.drain(..) {
            member.listener.close();
        }
    }

    /// Those that have a task of their own.
    pub(crate) fn driven_listeners(&self) -> Vec<Arc<Listener>> {
        let state = lock(&self.state);
        let listeners = state.members.iter().map(|member| &member.listener);
        listeners.filter(|listener| listener.is_driven()).cloned().collect()
    }

    pub(crate) fn handlers(&self) -> Vec<HandlerStatus> {
        lock(&self.state).members.iter().map(|member| member.listener.status()).collect()
    }
}

impl State {
    /// The newest that is known of a key, queued or held; `None` if it is gone.
    fn held(&self, key: &ObjectKey, reader: &Reader) -> Option<Arc<Object>> {
        match self.fifo.newest(key) {
            Some(delta) if delta.is_deleted() => None,
            Some(delta) => Some(Arc::clone(delta.object())),
            None => reader.get(key),
        }
    }

    /// Whether this version of an object is held, decoded and without its bytes.
    fn holds_version_of(&self, object: &Object, reader: &Reader) -> bool {
        self.held(object.head().key(), reader).is_some_and(|held| {
            let (old, new) = (held.head(), object.head());
            held.bytes().is_none()
                && old.uid() == new.uid()
                && old.resource_version() == new.resource_version()
        })
    }

    fn judge(
        &mut self,
        arrived: Arrived,
        listing: Option<&mut Listing>,
        reader: &Reader,
        outcome: &mut Outcome,
    ) {
        match (arrived, listing) {
            (Arrived::Item(object), Some(listing)) => self.judge_item(object, listing, reader),
            // The end of a list was lost: without one there is nothing to mark.
            (Arrived::Item(object), None) => {
                self.judge_change(Change::Modified, object, reader, outcome);
            }
            (Arrived::Change(change, object), listing) => {
                if let Some(listing) = listing {
                    listing.overtaken(object.head().key());
                    if change == Change::Deleted {
                        listing.list.unmark(object.head().key());
                    }
                }
                self.judge_change(change, object, reader, outcome);
            }
            (Arrived::Gone(key), listing) => {
                if let Some(listing) = listing {
                    listing.overtaken(&key);
                    listing.list.unmark(&key);
                }
                if let Some(held) = self.held(&key, reader) {
                    self.fifo.bury(held);
                }
            }
        }
    }

    fn judge_item(&mut self, object: Object, listing: &mut Listing, reader: &Reader) {
        let key = object.head().key();
        let held = self.held(key, reader);
        let held_head = held.as_ref().map(|held| held.head());
        let verdict = judge::item(held_head, object.head(), listing.high_water.as_ref());
        // Some servers give no versions, and then the bytes tell whether anything has changed.
        let is_unchanged = object.head().resource_version().is_empty()
            && held
                .as_ref()
                .is_some_and(|held| held.bytes().is_some() && held.bytes() == object.bytes());
        let verdict = if is_unchanged { Verdict::Same } else { verdict };
        listing.overtaken(key);
        // Without bytes nobody can tell, and what may be another counts as one.
        let is_doubtful = listing.is_second
            && verdict == Verdict::Same
            && held
                .as_ref()
                .is_some_and(|held| held.bytes().is_none_or(|bytes| Some(bytes) != object.bytes()));
        match if is_doubtful { Verdict::Contradiction } else { verdict } {
            Verdict::Apply => self.fifo.replace(&mut listing.list, Arc::new(object)),
            // The key of the held object, because the mark shares its text.
            Verdict::Same | Verdict::Stale => {
                listing.list.mark(held_head.map_or(key, |head| head.key()));
            }
            Verdict::Contradiction
                if !listing.is_second
                    && held_head.is_some_and(|held| judge::goes_back(held, object.head())) =>
            {
                listing.went_back = true;
            }
            Verdict::Contradiction => {
                listing.list.mark(key);
                listing.held_back.insert(key.clone(), Arc::new(object));
            }
        }
    }

    fn judge_change(
        &mut self,
        change: Change,
        object: Object,
        reader: &Reader,
        outcome: &mut Outcome,
    ) {
        let held = self.held(object.head().key(), reader);
        match judge::change(change, held.as_ref().map(|held| held.head()), object.head()) {
            Verdict::Apply => match change {
                Change::Added => self.fifo.add(Arc::new(object)),
                Change::Modified => self.fifo.update(Arc::new(object)),
                Change::Deleted => self.fifo.delete(Arc::new(object), reader),
            },
            Verdict::Same => {}
            Verdict::Stale | Verdict::Contradiction => outcome.stale += 1,
        }
    }

    /// Applies what is queued and tells the handlers; of those that are due at `resync`, about syncs as well.
    fn settle(&mut self, resync: Option<Instant>, initial: bool, outcome: &mut Outcome) {
        while let Some(deltas) = self.fifo.pop() {
            for delta in deltas {
                self.apply(delta, initial, outcome);
            }
        }
        for member in &self.members {
            let is_due = resync.is_some_and(|now| member.due.is_some_and(|due| due <= now));
            let told = self.told.iter().filter(|told| is_due || !told.is_sync);
            member.listener.push(told.map(|told| told.notice.clone()));
        }
        self.told.clear();
        // A resync may have been large.
        self.told.shrink_to(TOLD_KEPT);
    }

    fn apply(&mut self, delta: Delta, initial: bool, outcome: &mut Outcome) {
        match delta {
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) => {
                self.put(object, initial, outcome);
            }
            Delta::Deleted { object, state } => {
                let Some(removed) = self.store.delete(object.head().key()) else { return };
                outcome.deleted += 1;
                // What went is not what was held: between them were changes that nobody told.
                let is_held = removed.head().uid() == object.head().uid();
                let (object, state) =
                    if is_held { (object, state) } else { (removed, FinalState::LastKnown) };
                self.tell(Notice::Deleted { object, state });
            }
            Delta::Sync(object) => {
                let notice = Notice::Updated { old: Arc::clone(&object), new: object };
                self.told.push(Told { notice, is_sync: true });
            }
        }
    }

    fn put(&mut self, object: Arc<Object>, initial: bool, outcome: &mut Outcome) {
        let put = self.store.put(object);
        let new = put.current;
        match put.previous {
            Some(old) if old.head().uid() == new.head().uid() => {
                outcome.updated += 1;
                self.tell(Notice::Updated { old, new });
            }
            // Deleted, and another one made under the same name.
            Some(old) => {
                outcome.deleted += 1;
                outcome.added += 1;
                self.tell(Notice::Deleted { object: old, state: FinalState::LastKnown });
                self.tell(Notice::Added { object: new, initial: false });
            }
            None => {
                outcome.added += 1;
                self.tell(Notice::Added { object: new, initial });
            }
        }
    }

    fn tell(&mut self, notice: Notice) {
        if !self.members.is_empty() {
            self.told.push(Told { notice, is_sync: false });
        }
    }
}

impl std::ops::AddAssign for Outcome {
    fn add_assign(&mut self, other: Self) {
        self.added += other.added;
        self.updated += other.updated;
        self.deleted += other.deleted;
        self.stale += other.stale;
        self.swept += other.swept;
        self.repaired += other.repaired;
    }
}
