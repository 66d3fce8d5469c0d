//! The journal of a controller: the last runs of every key, and counts of all runs.
//!
//! Its size is bounded: the keys ([`KEYS_MAX`]; beyond that, the key that ran longest ago is
//! forgotten), the runs of each key ([`RUNS_PER_KEY`]), the writes of each run
//! ([`WRITES_PER_RUN`](crate::WRITES_PER_RUN)) and its events ([`EVENTS_PER_RUN`]), its causes (by
//! the queue), and the length of an error message.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;

use hashlink::LruCache;
use parking_lot::Mutex;
use windlass_indexer::ObjectKey;

use crate::cause::Cause;
use crate::history::counts::Counts;
use crate::history::hot_loop::{HOT_LOOP_AT, HotLoop, is_power_of_ten, repeated_write};
use crate::history::run_record::Run;
use crate::writes::write::Write;

/// How many runs of a key are kept.
pub const RUNS_PER_KEY: usize = 8;

/// How many keys are kept.
pub const KEYS_MAX: usize = 10_000;

/// How many events of a run are kept.
pub const EVENTS_PER_RUN: usize = 4;

/// How many bytes of an error message are kept. The log has all of it.
pub(crate) const MESSAGE_MAX: usize = 1_024;

/// The last runs of a controller, whatever their keys.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RecentRuns {
    /// The runs with their keys, the newest first.
    pub runs: Vec<(ObjectKey, Run)>,
    /// How many more runs are known.
    pub omitted: usize,
}

/// The last runs of every key, and counts of all runs.
pub(crate) struct Journal {
    state: Mutex<State>,
}

struct State {
    pages: LruCache<ObjectKey, Page>,
    counts: Counts,
}

/// The runs of a key.
#[derive(Default)]
struct Page {
    /// The oldest first.
    runs: VecDeque<Arc<Run>>,
    /// How many runs there were since the page began.
    count: u64,
    /// How many of the last runs in a row are self-caused, and wrote again what the run before had
    /// written.
    self_caused_runs: u64,
}

/// How a run compares to the runs of its key before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    /// Whether it ended exactly like the run before.
    pub(crate) is_repeated: bool,
    /// Set when a hot loop reaches 10, 100, 1,000 … runs, so that a log has few lines about it.
    pub(crate) hot_loop: Option<HotLoop>,
}

impl Journal {
    pub(crate) fn new() -> Self {
        let state = State { pages: LruCache::new(KEYS_MAX), counts: Counts::default() };
        Self { state: Mutex::new(state) }
    }

    /// Notes a run.
    pub(crate) fn record(&self, key: &ObjectKey, run: Arc<Run>) -> Noted {
        let mut state = self.state.lock();
        state.counts.add(&run);
        let mut page = state.pages.remove(key).unwrap_or_default();
        let noted = page.record(run);
        if page.self_caused_runs == HOT_LOOP_AT {
            state.counts.hot_loops += 1;
        }
        state.pages.insert(key.clone(), page);
        noted
    }

    /// Marks the causes that earlier runs of the same key have led to. `is_valid` says whether a
    /// write still counts: not if the cluster was restored from a backup since then.
    pub(crate) fn mark_causes_by_us(
        &self,
        key: &ObjectKey,
        causes: &mut [Cause],
        is_valid: impl Fn(&Write) -> bool,
    ) {
        let state = self.state.lock();
        let Some(page) = state.pages.peek(key) else { return };
        for cause in causes {
            cause.mark_if_by_us(page.runs.iter().flat_map(|run| &run.writes), &is_valid);
        }
    }

    /// The last runs of a key, the oldest first.
    pub(crate) fn runs(&self, key: &ObjectKey) -> Vec<Run> {
        let state = self.state.lock();
        let runs = state.pages.peek(key).into_iter().flat_map(|page| &page.runs);
        runs.map(|run| Run::clone(run)).collect()
    }

    /// How often a key has run since its page began.
    pub(crate) fn run_count(&self, key: &ObjectKey) -> u64 {
        self.state.lock().pages.peek(key).map_or(0, |page| page.count)
    }

    /// The last runs of all keys, the newest first, at most `limit`.
    pub(crate) fn recent_runs(&self, limit: usize) -> RecentRuns {
        let state = self.state.lock();
        let known: usize = state.pages.iter().map(|(_, page)| page.runs.len()).sum();
        // The pages are in the order of their last runs. So only the last `limit` pages can have
        // one of the last `limit` runs.
        let runs = newest(state.pages.iter().rev().take(limit), limit, |_| true);
        RecentRuns { omitted: known - runs.len(), runs }
    }

    /// The last runs that wrote something, the newest first, at most `limit`.
    pub(crate) fn writing_runs(&self, limit: usize) -> Vec<(ObjectKey, Run)> {
        newest(self.state.lock().pages.iter().rev(), limit, |run| !run.writes.is_empty())
    }

    /// The keys that are in a hot loop, those that ran last first, at most `limit`.
    pub(crate) fn hot_loops(&self, limit: usize) -> Vec<(ObjectKey, HotLoop)> {
        let state = self.state.lock();
        let pages = state.pages.iter().rev();
        let hot = pages.filter_map(|(key, page)| page.hot_loop().map(|hot| (key.clone(), hot)));
        hot.take(limit).collect()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.state.lock().counts.clone()
    }
}

impl Page {
    fn record(&mut self, run: Arc<Run>) -> Noted {
        let last = self.runs.back();
        let is_repeated = last.is_some_and(|last| last.outcome == run.outcome);
        let is_self_caused = last.is_some_and(|last| repeated_write(last, &run).is_some());
        self.self_caused_runs = if is_self_caused { self.self_caused_runs + 1 } else { 0 };
        if self.runs.len() == RUNS_PER_KEY {
            self.runs.pop_front();
        }
        self.runs.push_back(run);
        self.count += 1;
        let hot_loop = self.hot_loop().filter(|hot| is_power_of_ten(hot.runs));
        Noted { is_repeated, hot_loop }
    }

    /// The hot loop that its last run is part of.
    fn hot_loop(&self) -> Option<HotLoop> {
        if self.self_caused_runs < HOT_LOOP_AT {
            return None;
        }
        let mut newest = self.runs.iter().rev();
        let (last, before) = (newest.next()?, newest.next()?);
        let write = repeated_write(before, last)?.to_string();
        Some(HotLoop { runs: self.self_caused_runs, write, ended: last.started + last.took })
    }
}

/// The newest of the runs that `is_wanted` accepts, with their keys.
fn newest<'p>(
    pages: impl Iterator<Item = (&'p ObjectKey, &'p Page)>,
    limit: usize,
    is_wanted: impl Fn(&Run) -> bool,
) -> Vec<(ObjectKey, Run)> {
    let runs = pages.flat_map(|(key, page)| page.runs.iter().rev().map(move |run| (key, run)));
    let mut runs: Vec<_> = runs.filter(|(_, run)| is_wanted(run)).collect();
    runs.sort_by_key(|(_, run)| Reverse(run.started + run.took));
    runs.truncate(limit);
    runs.into_iter().map(|(key, run)| (key.clone(), Run::clone(run))).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use tokio::time::Instant;

    use super::*;
    use crate::error::Class;
    use crate::history::run_record::Outcome;
    use crate::history::run_record::RunIds;

    fn run(message: &str) -> Arc<Run> {
        let outcome = Outcome::Terminal { class: Class::Other, message: message.to_owned() };
        Arc::new(Run {
            id: RunIds::of("web", "", Timestamp::UNIX_EPOCH).next(),
            started: Instant::now(),
            queued: Duration::ZERO,
            took: Duration::ZERO,
            attempt: 1,
            causes: Vec::new(),
            causes_omitted: 0,
            cache_behind: false,
            outcome: outcome.shortened(MESSAGE_MAX),
            retry_in: None,
            gave_up: false,
            writes: Vec::new(),
            writes_omitted: 0,
            events: Vec::new(),
        })
    }

    #[test]
    fn long_message_is_cut_between_characters_and_still_known_as_repeated() {
        let (journal, key) = (Journal::new(), "shop/web".parse().expect("a key"));
        let long = format!("x{}", "ä".repeat(MESSAGE_MAX));
        assert!(!journal.record(&key, run(&long)).is_repeated);
        assert!(journal.record(&key, run(&long)).is_repeated);
        for kept in journal.runs(&key) {
            let Outcome::Terminal { message, .. } = kept.outcome else { panic!("another outcome") };
            assert!(message.len() <= MESSAGE_MAX + '…'.len_utf8(), "{} bytes", message.len());
            assert!(message.ends_with("ä…"));
        }
        assert_eq!(journal.run_count(&key), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn recent_runs_are_the_newest_of_all_keys() {
        let journal = Journal::new();
        // Each key runs three times, but for the last one, which runs once at the end.
        for (number, name) in ["a", "b", "c", "a", "b", "c", "a", "b", "c", "d"].iter().enumerate()
        {
            tokio::time::advance(Duration::from_secs(1)).await;
            journal.record(&name.parse().expect("a key"), run(&number.to_string()));
        }
        let messages = |limit| {
            let RecentRuns { runs, omitted } = journal.recent_runs(limit);
            let message = |(_, run): (ObjectKey, Run)| match run.outcome {
                Outcome::Terminal { message, .. } => message,
                _ => panic!("another outcome"),
            };
            (runs.into_iter().map(message).collect::<Vec<_>>().join(" "), omitted)
        };
        assert_eq!(messages(20), ("9 8 7 6 5 4 3 2 1 0".to_owned(), 0));
        assert_eq!(messages(5), ("9 8 7 6 5".to_owned(), 5));
        assert_eq!(messages(0), (String::new(), 10));
    }
}
