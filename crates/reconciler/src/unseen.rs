//! Writes that caches may not show yet, by the key whose run made them.
//!
//! They are forgotten when the key runs again and has waited for them, and otherwise once the caches show them. A key
//! whose caches do not come after runs every five seconds at most, so that what is remembered of it grows slowly.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use foldhash::fast::RandomState;
use windlass_indexer::ObjectKey;

use crate::write::Write;

/// How many keys there are at least before it is looked whose writes have been seen.
const SWEEP_MIN: usize = 1_024;

#[derive(Debug)]
pub(crate) struct Unseen {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    writes: HashMap<ObjectKey, Vec<Write>, RandomState>,
    /// How many keys lead to the next sweep.
    sweep_at: usize,
}

impl Unseen {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State { writes: HashMap::default(), sweep_at: SWEEP_MIN }) }
    }

    /// A run of `key` has written. `is_seen` tells of a write whether nobody has to wait for it.
    pub(crate) fn put(&self, key: &ObjectKey, writes: &[Write], is_seen: impl Fn(&Write) -> bool) {
        if writes.is_empty() {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.writes.entry(key.clone()).or_default().extend_from_slice(writes);
        if state.writes.len() >= state.sweep_at {
            state.writes.retain(|_, writes| !writes.iter().all(&is_seen));
            state.sweep_at = SWEEP_MIN.max(2 * state.writes.len());
        }
    }

    /// What was taken, and is still not seen.
    pub(crate) fn put_back(&self, key: &ObjectKey, writes: Vec<Write>) {
        if writes.is_empty() {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.writes.entry(key.clone()).or_default().splice(0..0, writes);
    }

    /// What the runs of a key have written since it was asked last.
    pub(crate) fn take(&self, key: &ObjectKey) -> Vec<Write> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.writes.is_empty() {
            return Vec::new();
        }
        state.writes.remove(key).unwrap_or_default()
    }
}
