//! The handler: one line for each pod that comes, changes or goes.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use tokio::time::Instant;
use windlass::indexer::{Cached, Lister};
use windlass::informer::{Event, FinalState, Handler};

use crate::describe::{change, condition};

/// Where lines go: to `tracing` in the program, into a list in tests.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// Logs every event. See [`Handler`].
pub struct PodLogger {
    log: Log,
    pods: Lister<Pod>,
    resync: Duration,
    /// When the resync under way, or the last one, began.
    resynced: Option<Instant>,
    tally: SharedTally,
}

/// How many events of each kind there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Pods that came.
    pub added: u64,
    /// Changes of pods.
    pub updated: u64,
    /// Pods that were shown again, unchanged.
    pub resynced: u64,
    /// Pods that went.
    pub deleted: u64,
}

/// The tally of a handler that is at work.
#[derive(Clone, Default)]
pub(crate) struct SharedTally(Arc<Mutex<Tally>>);

impl PodLogger {
    /// Logs to `log`. The others are for what it says about a resync.
    pub fn new(log: Log, pods: Lister<Pod>, resync: Duration) -> Self {
        Self { log, pods, resync, resynced: None, tally: SharedTally::default() }
    }

    pub(crate) fn tally(&self) -> SharedTally {
        self.tally.clone()
    }

    fn added(&self, pod: &Cached<Pod>) {
        let note = decoded(pod, |pod| condition(&pod));
        (self.log)(&format!("New Pod Added to Store: {} ({note})", pod.key()));
    }

    fn updated(&self, old: &Cached<Pod>, new: &Cached<Pod>) {
        let note = match (old.get(), new.get()) {
            (Ok(old), Ok(new)) => change(&old, &new),
            (_, Err(error)) | (Err(error), _) => error.to_string(),
        };
        (self.log)(&format!("Pod Updated: {} ({note})", new.key()));
    }

    fn deleted(&self, pod: &Cached<Pod>, state: FinalState) {
        let note = match state {
            FinalState::Final => "",
            // client-go's `DeletedFinalStateUnknown`. Here it is not another type that a handler
            // has to expect.
            FinalState::LastKnown => " (while nobody watched: this is how it was last seen)",
        };
        (self.log)(&format!("Pod Deleted from Store: {}{note}", pod.key()));
    }

    /// Every pod is shown again, in one go. One line for all of them is enough.
    fn resynced(&mut self) {
        let now = Instant::now();
        let is_under_way = self.resynced.is_some_and(|began| now < began + self.resync / 2);
        if !is_under_way {
            self.resynced = Some(now);
            let held = self.pods.len();
            (self.log)(&format!(
                "Resync: the cache shows all of its pods again ({held}). None has changed, and the server was not asked."
            ));
        }
    }
}

impl Handler<Pod> for PodLogger {
    fn handle(&mut self, event: Event<Pod>) {
        let is_resync = event.is_resync();
        self.tally.count(&event);
        match event {
            Event::Added { object, .. } => self.added(&object),
            Event::Updated { .. } if is_resync => self.resynced(),
            Event::Updated { old, new, .. } => self.updated(&old, &new),
            Event::Deleted { object, state } => self.deleted(&object, state),
        }
    }
}

/// Something of the decoded pod, or why it does not decode.
fn decoded(pod: &Cached<Pod>, show: impl FnOnce(Arc<Pod>) -> String) -> String {
    pod.get().map_or_else(|error| error.to_string(), show)
}

impl SharedTally {
    fn count(&self, event: &Event<Pod>) {
        let mut tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = match event {
            Event::Added { .. } => &mut tally.added,
            Event::Updated { .. } if event.is_resync() => &mut tally.resynced,
            Event::Updated { .. } => &mut tally.updated,
            Event::Deleted { .. } => &mut tally.deleted,
        };
        *number += 1;
    }

    pub(crate) fn read(&self) -> Tally {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for PodLogger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodLogger").field("resync", &self.resync).finish_non_exhaustive()
    }
}
