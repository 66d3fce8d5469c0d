//! Writes that caches may not show yet, by the key whose runs made them.
//!
//! They are forgotten when the caches show them: when the key runs again, which waits for them, or when there are many.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use tokio::time::Instant;
use windlass_indexer::ObjectKey;

use crate::write::Write;

/// How many keys there are at least before it is looked whose writes have been seen.
const SWEEP_MIN: usize = 1_024;

#[derive(Debug)]
pub(crate) struct Unseen {
    state: Mutex<State>,
    /// How many keys there are, to be looked at without the lock: mostly there are none.
    count: AtomicUsize,
}

#[derive(Debug)]
struct State {
    keys: HashMap<ObjectKey, Pending, RandomState>,
    /// How many keys lead to the next sweep.
    sweep_at: usize,
}

/// What the runs of a key have written.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) writes: Vec<Write>,
    /// Whether a write was perhaps made: its answer was lost.
    pub(crate) has_unknown: bool,
    /// When the last of them was noted.
    pub(crate) since: Instant,
}

impl Unseen {
    pub(crate) fn new() -> Self {
        let state = State { keys: HashMap::default(), sweep_at: SWEEP_MIN };
        Self { state: Mutex::new(state), count: AtomicUsize::new(0) }
    }

    /// A run of `key` has written. `is_seen` tells of a write whether nobody has to wait for it.
    pub(crate) fn put(
        &self,
        key: &ObjectKey,
        writes: &[Write],
        has_unknown: bool,
        is_seen: impl Fn(&Write) -> bool,
    ) {
        if writes.is_empty() && !has_unknown {
            return;
        }
        let mut state = self.lock();
        state.add(key, writes, has_unknown);
        if state.keys.len() >= state.sweep_at {
            let is_wanted =
                |pending: &Pending| pending.has_unknown || !pending.writes.iter().all(&is_seen);
            state.keys.retain(|_, pending| is_wanted(pending));
            state.sweep_at = SWEEP_MIN.max(2 * state.keys.len());
        }
        self.count.store(state.keys.len(), Ordering::Release);
    }

    /// Somebody whom a run has left its client to has written after it.
    pub(crate) fn put_late(&self, key: &ObjectKey, write: Option<&Write>) {
        let writes = write.map_or(&[][..], std::slice::from_ref);
        let mut state = self.lock();
        state.add(key, writes, write.is_none());
        self.count.store(state.keys.len(), Ordering::Release);
    }

    /// What was taken, and is still not seen.
    pub(crate) fn put_back(&self, key: &ObjectKey, pending: Pending) {
        if pending.writes.is_empty() && !pending.has_unknown {
            return;
        }
        let mut state = self.lock();
        let held = state.keys.entry(key.clone()).or_insert_with(|| Pending::new(pending.since));
        held.has_unknown |= pending.has_unknown;
        held.writes.splice(0..0, pending.writes);
        self.count.store(state.keys.len(), Ordering::Release);
    }

    /// What the runs of a key have written since it was asked last.
    pub(crate) fn take(&self, key: &ObjectKey) -> Option<Pending> {
        // A key that is taken after its run has ended sees what that run has put here: the queue's lock is between.
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut state = self.lock();
        let taken = state.keys.remove(key);
        self.count.store(state.keys.len(), Ordering::Release);
        taken
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, key: &ObjectKey, writes: &[Write], has_unknown: bool) {
        let now = Instant::now();
        let pending = self.keys.entry(key.clone()).or_insert_with(|| Pending::new(now));
        pending.writes.extend_from_slice(writes);
        pending.has_unknown |= has_unknown;
        pending.since = now;
    }
}

impl Pending {
    fn new(since: Instant) -> Self {
        Self { writes: Vec::new(), has_unknown: false, since }
    }
}
