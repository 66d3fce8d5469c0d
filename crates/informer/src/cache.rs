//! The cache of an informer, and its handlers. Under one lock, objects that arrive are compared
//! with the cached ones, queued, applied to the store and sent to the handlers.
//!
//! ```text
//! feed ─arrived→ judge → DeltaFifo → Store ─notices→ Listener of each handler
//! ```
//!
//! Because of the single lock, a handler can be added at any time: it gets the content of the store
//! and is registered in one step, so that it misses nothing and gets nothing twice. Feeds take
//! the lock once or a few times for each chunk of a body; readers never take it.
//!
//! # Lock order
//!
//! The state of the cache, then either the quarantine, or the state of a listener and then the
//! listener's `synced`. No lock is held while a handler or an observer is called.

pub(crate) mod backlog;
pub(crate) mod delta_fifo;
pub(crate) mod event;
pub(crate) mod judge;
pub(crate) mod listener;
pub(crate) mod listing;
mod recipients;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;
use windlass_indexer::{Index, IndexError, Reader, Store};

use crate::cache::backlog::Notice;
use crate::cache::delta_fifo::{Delta, DeltaFifo, FinalState};
use crate::cache::judge::{Judge, ListOutcome, Received};
use crate::cache::listing::Listing;
use crate::decode::ingest::Quarantine;
use crate::lock::lock;
use recipients::Recipient;
pub(crate) use recipients::Task;

/// The store of an informer, and its handlers.
pub(crate) struct Cache {
    /// Lock it with `lock_if_usable` to change objects, or to send them to a handler. `lock` is
    /// only for the recipients and counters, which no panic leaves half changed, and for a new
    /// index, whose panic is caught.
    state: Mutex<State>,
    pub(crate) reader: Reader,
    pub(crate) quarantine: Quarantine,
    /// Notified after every chunk, for callers that wait until the cache shows a version.
    pub(crate) progress: Notify,
}

struct State {
    store: Store,
    /// The handlers and subscriptions.
    recipients: Vec<Recipient>,
    /// How many feeds have not completed their first list.
    feeds_not_listed: usize,
    is_closed: bool,
}

impl Cache {
    /// `feeds` is the number of feeds. The cache is synced when each has completed a list.
    pub(crate) fn new(store: Store, feeds: usize) -> Self {
        let reader = store.reader();
        let state =
            State { store, recipients: Vec::new(), feeds_not_listed: feeds, is_closed: false };
        Self {
            state: Mutex::new(state),
            reader,
            quarantine: Quarantine::default(),
            progress: Notify::new(),
        }
    }

    /// Adds an index, unless there is an equal one.
    pub(crate) fn add_index<I: Index>(&self, index: I) -> Result<(), IndexError> {
        let mut state = lock(&self.state);
        // The store of an index that panics is unchanged. So the panic is the caller's alone: it
        // must not poison the lock, which would end all changes of the cache.
        let added = catch_unwind(AssertUnwindSafe(|| state.store.add_index(index)));
        drop(state);
        added.unwrap_or_else(|panic| resume_unwind(panic))
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
        let mut judge = Judge::new(&self.reader);
        let mut dropped = 0;
        for arrived in arrived {
            dropped += u64::from(judge.judge(arrived, listing.as_deref_mut()));
        }
        state.apply(judge.fifo, is_initial);
        dropped
    }

    /// Ends a list that is complete: see [`Judge::end_list`].
    pub(crate) fn end_list(
        &self,
        mut listing: Listing,
        is_restored: bool,
        is_initial: bool,
    ) -> ListOutcome {
        let Some(mut state) = self.lock_if_usable() else {
            return ListOutcome::Applied { swept: 0, repaired: 0, is_restored: false };
        };
        let mut judge = Judge::new(&self.reader);
        let outcome = judge.end_list(&mut listing, is_restored);
        if outcome != ListOutcome::WentBack {
            self.quarantine.sweep(listing.namespace.as_deref(), &listing.unreadable);
        }
        state.apply(judge.fifo, is_initial);
        outcome
    }

    /// A feed has completed its first list. Returns whether all have.
    pub(crate) fn note_first_list(&self) -> bool {
        let mut state = lock(&self.state);
        state.feeds_not_listed = state.feeds_not_listed.saturating_sub(1);
        let is_synced = state.feeds_not_listed == 0;
        if is_synced {
            for recipient in &state.recipients {
                recipient.listener.push_synced();
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
        let recipients = std::mem::take(&mut state.recipients);
        drop(state);
        for recipient in &recipients {
            recipient.listener.close();
        }
        // Last, because the drop of a handler may panic.
        drop(recipients);
    }
}

impl State {
    /// Applies what is queued to the store, and notifies the handlers.
    fn apply(&mut self, mut fifo: DeltaFifo, is_initial: bool) {
        let mut notices = Vec::new();
        while let Some(deltas) = fifo.pop() {
            for delta in deltas {
                self.apply_delta(delta, is_initial, &mut notices);
                if self.recipients.is_empty() {
                    // So that replaced versions are freed at once.
                    notices.clear();
                }
            }
        }
        for recipient in &self.recipients {
            recipient.listener.push(notices.iter().cloned());
        }
    }

    fn apply_delta(&mut self, delta: Delta, is_initial: bool, notices: &mut Vec<Notice>) {
        match delta {
            Delta::Changed(object) => {
                let put = self.store.put(object);
                let new = put.current;
                match put.previous {
                    Some(old) if old.head().uid() == new.head().uid() => {
                        notices.push(Notice::Updated { old, new, merged: false });
                    }
                    // Deleted and created again under the same name.
                    Some(old) => {
                        notices.push(Notice::Deleted { object: old, state: FinalState::LastKnown });
                        notices.push(Notice::Added { object: new, initial: false });
                    }
                    None => notices.push(Notice::Added { object: new, initial: is_initial }),
                }
            }
            Delta::Deleted { object, state } => {
                let Some(removed) = self.store.delete(object.head().key()) else { return };
                // If the stored object has another uid, the handlers know only that one. Its
                // deletion was missed.
                let is_held = removed.head().uid() == object.head().uid();
                let (object, state) =
                    if is_held { (object, state) } else { (removed, FinalState::LastKnown) };
                notices.push(Notice::Deleted { object, state });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;
    use windlass_indexer::{HeadParser, Object};

    use super::*;

    fn item(name: &str) -> Received {
        let json = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"1"}}}}"#);
        let head = HeadParser::default().parse(json.as_bytes()).expect("a head");
        Received::Item(Object::new(head, json.into_bytes()))
    }

    #[test]
    fn a_closed_cache_does_not_change() {
        let cache = Cache::new(Store::new(), 1);
        let mut first = Listing::begin(&cache.reader, None, None, false);
        cache.apply([item("a")].into_iter(), Some(&mut first), true);
        assert_eq!(cache.reader.len(), 1);
        // This list would delete it.
        let mut second = Listing::begin(&cache.reader, None, None, false);
        cache.close();
        cache.apply([item("b")].into_iter(), Some(&mut second), false);
        cache.end_list(second, false, false);
        assert_eq!(cache.reader.len(), 1);
        assert!(cache.reader.get("a").is_some());
        assert_eq!(cache.resync(Instant::now()), None);
    }
}
