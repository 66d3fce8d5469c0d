//! What a controller has done, and how busy it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::controller_core::ControllerCore;
use crate::error::Class;
use crate::history::inactive::InactiveReason;
use crate::history::run_record::{Outcome, Run};
use crate::recorder::RecorderStatus;

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
    /// Counts of its runs.
    pub counts: Counts,
    /// Counts of the Kubernetes events that its runs recorded.
    pub events: RecorderStatus,
}

/// Counts of what a controller has done since it was built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Runs that succeeded and asked for nothing more.
    pub done: u64,
    /// Runs that succeeded and asked for another run.
    pub requeued: u64,
    /// Runs that failed, by class. Terminal errors and conflicts are included.
    pub failed: BTreeMap<Class, u64>,
    /// Runs that panicked.
    pub panicked: u64,
    /// Runs that were cancelled because they took too long.
    pub timed_out: u64,
    /// Runs that found their object paused, once for each time that it was.
    pub paused: u64,
    /// Keys that were given up, because all of their
    /// [attempts](crate::ControllerBuilder::max_attempts) failed.
    pub given_up: u64,
    /// Runs that began although a cache did not show what the last run had written.
    pub behind: u64,
    /// Keys that woke themselves again and again.
    pub hot_loops: u64,
    /// The total duration of all runs.
    pub took: Duration,
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
            counts: self.journal.counts(),
            events: self.recorder.status(),
        }
    }

    /// If no worker is free: for how long at least.
    pub(crate) fn all_busy_for(&self) -> Option<Duration> {
        let durations = self.running.durations();
        durations.iter().min().copied().filter(|_| durations.len() >= self.workers)
    }
}

impl Counts {
    /// Counts a run.
    pub(crate) fn add(&mut self, run: &Run) {
        let count = match &run.outcome {
            Outcome::Done => &mut self.done,
            Outcome::RequeueAfter(_) => &mut self.requeued,
            Outcome::Paused => &mut self.paused,
            Outcome::Panicked { .. } => &mut self.panicked,
            Outcome::TimedOut => &mut self.timed_out,
            Outcome::Failed { class, .. } | Outcome::Terminal { class, .. } => {
                self.failed.entry(*class).or_default()
            }
        };
        *count += 1;
        self.behind += u64::from(run.cache_behind);
        self.given_up += u64::from(run.gave_up);
        self.took += run.took;
    }

    /// All runs.
    pub fn runs(&self) -> u64 {
        self.done + self.requeued + self.failures() + self.paused
    }

    /// Runs that returned an error, panicked or took too long.
    pub(crate) fn failures(&self) -> u64 {
        self.failed.values().sum::<u64>() + self.panicked + self.timed_out
    }

    /// Runs that failed with this class.
    pub fn failed_with(&self, class: Class) -> u64 {
        self.failed.get(&class).copied().unwrap_or_default()
    }
}
