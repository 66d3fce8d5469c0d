//! Adds keys to the queue of a controller: with a priority that depends on the cause, and with a
//! delay if events are debounced.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_indexer::ObjectKey;
use windlass_workqueue::{Add, MAX_DELAY, Priority, WorkQueue};

use crate::cause::Cause;
use crate::error::Error;
use crate::guard::{PANIC_ADVICE, caught};

/// The queue of a controller.
pub(crate) type Queue = WorkQueue<ObjectKey, Cause>;

/// Decides how urgent a key is.
pub(crate) type PriorityPolicy = Arc<dyn Fn(&ObjectKey, &Cause) -> Priority + Send + Sync>;

/// Decides how urgent the retry after an error is.
pub(crate) type RetryPriority = Arc<dyn Fn(&ObjectKey, &Error) -> Priority + Send + Sync>;

/// Adds keys to the queue of a controller.
#[derive(Clone)]
pub(crate) struct Enqueuer {
    pub(crate) queue: Queue,
    pub(crate) controller: Arc<str>,
    pub(crate) priority: PriorityPolicy,
    /// `None` if keys run at once.
    pub(crate) debounce: Option<Arc<Debounce>>,
}

/// Decides how long keys wait after events: a key runs when nothing has happened to it for a while.
///
/// An event adds its key with a delay of the quiet period, and the time of the event is noted here.
/// The queue keeps the earliest time of a key. So a worker that takes a key looks here whether
/// there was an event in the quiet period, and if so defers the key.
///
/// Invariant: a key that is noted is in the queue, so there are no more than the queue has.
pub(crate) struct Debounce {
    quiet: Duration,
    at_most: Duration,
    /// The keys that wait, with their first and last event.
    events: Mutex<HashMap<ObjectKey, (Instant, Instant), RandomState>>,
}

impl Enqueuer {
    /// Adds a key because something has happened, with the delay of the debounce.
    pub(crate) fn enqueue(&self, key: ObjectKey, cause: Cause) {
        let add = match &self.debounce {
            // Only new events wait: initial objects and resyncs are not bursts of one object.
            Some(debounce) if cause.is_new_event() => Add::after(debounce.note(&key)),
            _ => Add::now(),
        };
        self.add(key, add, cause, None);
    }

    /// Adds a key, with this priority or with that of the policy. A queue that is shut down ignores
    /// it: the controller has stopped.
    pub(crate) fn add(
        &self,
        key: ObjectKey,
        add: Add<Cause>,
        cause: Cause,
        priority: Option<Priority>,
    ) {
        let priority = priority.unwrap_or_else(|| self.priority_of(&key, &cause));
        let _ = self.queue.add_with(key, add.priority(priority).cause(cause));
    }

    fn priority_of(&self, key: &ObjectKey, cause: &Cause) -> Priority {
        caught(|| (self.priority)(key, cause)).unwrap_or_else(|| {
            tracing::error!(
                controller = &*self.controller, %key, %cause,
                "the priority policy panicked; the key gets the normal priority; {PANIC_ADVICE}"
            );
            Priority::Normal
        })
    }
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
        self.events.lock().entry(key.clone()).or_insert((now, now)).1 = now;
        self.quiet.min(self.at_most)
    }

    /// How much longer a key has to wait. `None` if it may run now: then its events are forgotten.
    pub(crate) fn wait_left(&self, key: &ObjectKey) -> Option<Duration> {
        let mut events = self.events.lock();
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

/// The default policy: low for objects that existed before and for resyncs, because nothing has
/// just happened to them.
pub(crate) fn default_priority(_: &ObjectKey, cause: &Cause) -> Priority {
    if cause.is_new_event() { Priority::Normal } else { Priority::Low }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn flood_of_events_leaves_one_entry_for_each_key_and_none_when_it_runs() {
        let (quiet, at_most) = (Duration::from_secs(1), Duration::from_secs(10));
        let debounce = Debounce::new(quiet, at_most);
        let keys: Vec<_> =
            (0..1_000).map(|number| ObjectKey::cluster(&format!("key-{number}"))).collect();
        for _ in 0..100 {
            for key in &keys {
                assert_eq!(debounce.note(key), quiet);
            }
        }
        assert_eq!(debounce.events.lock().len(), keys.len());
        assert!(keys.iter().all(|key| debounce.wait_left(key) == Some(quiet)));
        tokio::time::advance(quiet).await;
        assert!(keys.iter().all(|key| debounce.wait_left(key).is_none()));
        assert!(debounce.events.lock().is_empty());
    }
}
