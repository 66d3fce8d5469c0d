//! What a controller has done, and how busy it is.

use std::sync::Arc;
use std::time::Duration;

use crate::controller_core::ControllerCore;
use crate::history::counts::Counts;
use crate::history::inactive::InactiveReason;
use crate::history::journal::JournalStatus;
use crate::recorder::RecorderStatus;
use crate::sources::mapping::status::MapperStatus;

/// The state of a controller.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ControllerStatus {
    /// Its name.
    pub controller: Arc<str>,
    /// How many keys run at once.
    pub workers: usize,
    /// How many workers have a key, which runs or waits for the caches.
    pub active_workers: usize,
    /// How many keys run now.
    pub running: usize,
    /// If no worker is free: for how long at least, which is how long the youngest run has taken.
    pub all_busy_for: Option<Duration>,
    /// Keys that are ready and wait for a worker.
    pub ready: usize,
    /// Keys that do not run because their object is paused.
    pub paused: usize,
    /// Keys that do not run because they were given up.
    pub given_up: usize,
    /// Keys that do not run because their last run ended with a terminal error.
    pub terminal: usize,
    /// How much memory the record of its runs takes.
    pub journal: JournalStatus,
    /// Counts of its runs.
    pub counts: Counts,
    /// What the mappers of [`watches_changes`](crate::ControllerBuilder::watches_changes) do.
    pub mappers: MapperStatus,
    /// Counts of the Kubernetes events that its runs recorded.
    pub events: RecorderStatus,
}

impl ControllerCore {
    pub(crate) fn status(&self) -> ControllerStatus {
        let (load, inactive) = (self.enqueuer.queue.load(), self.inactive.all());
        let count = |why| inactive.iter().filter(|key| key.reason == why).count();
        ControllerStatus {
            controller: Arc::clone(&self.controller),
            workers: self.workers,
            active_workers: load.running,
            running: self.running.keys().len(),
            all_busy_for: self.all_busy_for(),
            ready: load.ready,
            paused: count(InactiveReason::Paused),
            given_up: count(InactiveReason::GivenUp),
            terminal: count(InactiveReason::Terminal),
            journal: self.journal.status(),
            counts: self.journal.counts(),
            mappers: self.mappers.status(),
            events: self.recorder.status(),
        }
    }

    /// If no worker is free: for how long at least.
    pub(crate) fn all_busy_for(&self) -> Option<Duration> {
        let durations = self.running.durations();
        durations.iter().min().copied().filter(|_| durations.len() >= self.workers)
    }
}
