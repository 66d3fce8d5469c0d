//! What happened: the last runs of every key.
//!
//! Bounded twice: so many runs for each key, and so many keys; beyond that, the key that ran longest ago is
//! forgotten.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::time::Instant;
use windlass_indexer::ObjectKey;

use crate::cause::Cause;
use crate::error::Class;
use crate::write::Write;

/// How many runs of a key are kept.
pub const RUNS_PER_KEY: usize = 8;

/// How many keys are kept.
pub const KEYS_MAX: usize = 10_000;

/// A run that has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Run {
    /// When it began.
    pub started: Instant,
    /// How long the key was ready before that.
    pub queued: Duration,
    /// How long it took.
    pub took: Duration,
    /// The how-manieth try it was.
    pub attempt: u32,
    /// Why it ran.
    pub causes: Vec<Cause>,
    /// How it ended.
    pub outcome: Outcome,
    /// What it wrote, as far as the server has answered.
    pub writes: Vec<Write>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Well.
    Done,
    /// Well, and is to be repeated.
    RequeueAfter(Duration),
    /// With an error, after which it is tried again.
    Failed {
        /// Which kind.
        class: Class,
        /// What it says.
        message: String,
        /// When it is tried again.
        retry_in: Duration,
    },
    /// With an error, after which it is not tried again before something changes.
    Terminal {
        /// Which kind.
        class: Class,
        /// What it says.
        message: String,
    },
    /// By a panic, after which it is tried again.
    Panicked {
        /// What it said.
        message: String,
        /// When it is tried again.
        retry_in: Duration,
    },
    /// It took too long, and was cancelled; it is tried again.
    TimedOut {
        /// When it is tried again.
        retry_in: Duration,
    },
}

/// The last runs, by key.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    runs: HashMap<ObjectKey, Page, RandomState>,
    /// Keys in the order of their last runs, with the number of that run; stale where it is not the last.
    order: VecDeque<(ObjectKey, u64)>,
    written: u64,
}

#[derive(Debug)]
struct Page {
    runs: VecDeque<Run>,
    /// The number of the last one.
    last: u64,
    /// How many runs in a row wrote something, and were woken by nothing but that.
    circles: u64,
}

impl Journal {
    /// Notes a run. Returns how many runs of the key in a row have written something, and were woken by nothing but
    /// what the runs before them wrote.
    pub(crate) fn write(&self, key: &ObjectKey, run: Run) -> u64 {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.written += 1;
        let number = pages.written;
        let page = pages.runs.entry(key.clone()).or_insert_with(|| Page {
            runs: VecDeque::with_capacity(1),
            last: 0,
            circles: 0,
        });
        if page.runs.len() == RUNS_PER_KEY {
            page.runs.pop_front();
        }
        let is_circle = !run.writes.is_empty()
            && !run.causes.is_empty()
            && run.causes.iter().all(Cause::is_by_us);
        page.circles = if is_circle { page.circles + 1 } else { 0 };
        let circles = page.circles;
        page.runs.push_back(run);
        page.last = number;
        pages.order.push_back((key.clone(), number));
        pages.trim();
        circles
    }

    /// Marks the causes that runs of the same key have led to.
    pub(crate) fn ascribe(&self, key: &ObjectKey, causes: &mut [Cause]) {
        let pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(page) = pages.runs.get(key) else { return };
        for cause in causes {
            cause.ascribe(page.runs.iter().flat_map(|run| &run.writes));
        }
    }

    pub(crate) fn read(&self, key: &ObjectKey) -> Vec<Run> {
        let pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.runs.get(key).map(|page| page.runs.iter().cloned().collect()).unwrap_or_default()
    }
}

impl Pages {
    fn trim(&mut self) {
        while self.runs.len() > KEYS_MAX || self.order.len() > 2 * KEYS_MAX {
            let Some((key, number)) = self.order.pop_front() else { return };
            if self.runs.get(&key).is_some_and(|page| page.last == number) {
                if self.runs.len() > KEYS_MAX {
                    self.runs.remove(&key);
                } else {
                    self.order.push_back((key, number));
                }
            }
        }
    }
}
