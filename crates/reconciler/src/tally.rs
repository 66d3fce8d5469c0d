//! What a controller has done so far, counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::error::Class;
use crate::journal::Outcome;

/// What a controller has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Runs that went well and asked for nothing more.
    pub done: u64,
    /// Runs that went well and asked for another.
    pub requeued: u64,
    /// Runs that failed, by class, terminal ones among them. Conflicts are here, though they are nobody's mistake.
    pub failed: Vec<(Class, u64)>,
    /// Runs that panicked.
    pub panicked: u64,
    /// Runs that were cancelled because they took too long.
    pub timed_out: u64,
    /// Runs that began though a cache did not show what the last run had written.
    pub behind: u64,
    /// Keys that were found to wake themselves.
    pub hot_loops: u64,
    /// How long all runs took together.
    pub took: Duration,
}

const CLASSES: [Class; 7] = [
    Class::Conflict,
    Class::Throttled,
    Class::Forbidden,
    Class::Transient,
    Class::Undecodable,
    Class::Terminal,
    Class::Other,
];

#[derive(Debug, Default)]
pub(crate) struct Tally {
    done: AtomicU64,
    requeued: AtomicU64,
    failed: [AtomicU64; CLASSES.len()],
    panicked: AtomicU64,
    timed_out: AtomicU64,
    behind: AtomicU64,
    hot_loops: AtomicU64,
    took_micros: AtomicU64,
}

impl Tally {
    pub(crate) fn count(&self, outcome: &Outcome, took: Duration, is_behind: bool) {
        let number = match outcome {
            Outcome::Done => &self.done,
            Outcome::RequeueAfter(_) => &self.requeued,
            Outcome::Panicked { .. } => &self.panicked,
            Outcome::TimedOut { .. } => &self.timed_out,
            Outcome::Failed { class, .. } | Outcome::Terminal { class, .. } => {
                let place = CLASSES.iter().position(|of| of == class);
                &self.failed[place.expect("every class must be in the list")]
            }
        };
        number.fetch_add(1, Ordering::Relaxed);
        self.behind.fetch_add(u64::from(is_behind), Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.took_micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(crate) fn hot_loop(&self) {
        self.hot_loops.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Counts {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let failed = CLASSES.into_iter().zip(self.failed.iter().map(read));
        Counts {
            done: read(&self.done),
            requeued: read(&self.requeued),
            failed: failed.filter(|(_, number)| *number > 0).collect(),
            panicked: read(&self.panicked),
            timed_out: read(&self.timed_out),
            behind: read(&self.behind),
            hot_loops: read(&self.hot_loops),
            took: Duration::from_micros(read(&self.took_micros)),
        }
    }
}

impl Counts {
    /// All runs.
    pub fn runs(&self) -> u64 {
        let failed: u64 = self.failed.iter().map(|(_, number)| number).sum();
        self.done + self.requeued + failed + self.panicked + self.timed_out
    }

    /// Runs that failed with this class.
    pub fn failed_with(&self, class: Class) -> u64 {
        self.failed.iter().find(|(of, _)| *of == class).map_or(0, |(_, number)| *number)
    }
}
