//! Counts of what a controller has done.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::Class;
use crate::history::run_record::{Outcome, Run};

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
    /// Runs that ended early, because an owner is [being deleted](crate::OwnerDeleted).
    pub owner_deleted: u64,
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

impl Counts {
    /// Counts a run.
    pub(crate) fn add(&mut self, run: &Run) {
        let count = match &run.outcome {
            Outcome::Done => &mut self.done,
            Outcome::RequeueAfter(_) => &mut self.requeued,
            Outcome::Paused => &mut self.paused,
            Outcome::OwnerDeleted { .. } => &mut self.owner_deleted,
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
        self.done + self.requeued + self.failures() + self.paused + self.owner_deleted
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
