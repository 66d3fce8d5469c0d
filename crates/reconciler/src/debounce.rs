//! Debouncing: a key runs when nothing has happened to it for a while.
//!
//! An event adds its key with a delay of the quiet period, and the time of the event is noted here.
//! The queue keeps the earliest time of a key. So a worker that takes a key looks here whether
//! there was an event in the quiet period, and if so defers the key.
//!
//! Invariant: a key that is noted is in the queue, so there are no more than the queue has.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::time::Instant;
use windlass_indexer::ObjectKey;
use windlass_workqueue::MAX_DELAY;

use crate::lock::lock;

/// Decides how long keys wait after events.
#[derive(Debug)]
pub(crate) struct Debounce {
    quiet: Duration,
    at_most: Duration,
    /// The keys that wait, with their first and last event.
    events: Mutex<HashMap<ObjectKey, (Instant, Instant), RandomState>>,
}

impl Debounce {
    pub(crate) fn new(quiet: Duration, at_most: Duration) -> Self {
        // Longer ones could not be added to a time, and nobody waits that long.
        let (quiet, at_most) = (quiet.min(MAX_DELAY), at_most.min(MAX_DELAY));
        Self { quiet, at_most, events: Mutex::default() }
    }

    /// Notes an event of a key. Returns after which delay to look at the key.
    pub(crate) fn note(&self, key: &ObjectKey) -> Duration {
        let now = Instant::now();
        lock(&self.events).entry(key.clone()).or_insert((now, now)).1 = now;
        self.quiet.min(self.at_most)
    }

    /// Forgets the events of a key that may run. Returns how much longer another one has to wait.
    pub(crate) fn take_if_due(&self, key: &ObjectKey) -> Option<Duration> {
        let mut events = lock(&self.events);
        let (first, last) = *events.get(key)?;
        let due = (last + self.quiet).min(first + self.at_most);
        let wait = due.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            events.remove(key);
            return None;
        }
        Some(wait)
    }
}
