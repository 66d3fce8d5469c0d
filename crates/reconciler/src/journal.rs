//! The journal of a controller: the last runs of every key, and counts of all runs.
//!
//! Its size is bounded: the keys ([`KEYS_MAX`]; beyond that, the key that ran longest ago is
//! forgotten), the runs of each key ([`RUNS_PER_KEY`]), the writes of each run
//! ([`WRITES_PER_RUN`](crate::WRITES_PER_RUN)) and its events ([`EVENTS_PER_RUN`]), its causes (by
//! the queue), and the length of an error message.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use hashlink::LruCache;
use tokio::time::Instant;
use windlass_indexer::ObjectKey;

use crate::cause::Cause;
use crate::lock::lock;
use crate::run::Run;
use crate::status::Counts;
use crate::write::{Verb, Write};

/// How many runs of a key are kept.
pub const RUNS_PER_KEY: usize = 8;

/// How many keys are kept.
pub const KEYS_MAX: usize = 10_000;

/// How many events of a run are kept.
pub const EVENTS_PER_RUN: usize = 4;

/// How many bytes of an error message are kept. The log has all of it.
pub(crate) const MESSAGE_MAX: usize = 1_024;

/// How many runs in a row that wake themselves are a hot loop.
const HOT_LOOP_AT: u64 = 10;

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
#[derive(Debug)]
pub(crate) struct Journal {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    pages: LruCache<ObjectKey, Page>,
    counts: Counts,
}

/// The runs of a key.
#[derive(Debug, Default)]
struct Page {
    /// The oldest first.
    runs: VecDeque<Arc<Run>>,
    /// How many runs there were since the page began.
    count: u64,
    /// How many runs in a row were caused by nothing but earlier writes of this key, and wrote an
    /// object again that the run before had written.
    self_caused: u64,
}

/// How a run compares to the runs of its key before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    /// Whether it ended exactly like the run before.
    pub(crate) is_repeated: bool,
    /// Set when a hot loop reaches 10, 100, 1,000 … runs, so that a log has few lines about it.
    pub(crate) hot_loop: Option<HotLoop>,
}

/// Runs of a key that wake themselves: each was caused by nothing but the writes of the run before,
/// and changed the same object again. See [`Controller::hot_loops`](crate::Controller::hot_loops).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HotLoop {
    /// How many in a row.
    pub runs: u64,
    /// What the last one wrote again, as in `patch deployments shop/web at 17`.
    pub write: String,
    /// When the last one ended.
    pub ended: Instant,
}

impl Journal {
    pub(crate) fn new() -> Self {
        let state = State { pages: LruCache::new(KEYS_MAX), counts: Counts::default() };
        Self { state: Mutex::new(state) }
    }

    /// Notes a run.
    pub(crate) fn write(&self, key: &ObjectKey, run: Arc<Run>) -> Noted {
        let mut state = lock(&self.state);
        state.counts.add(&run);
        let mut page = state.pages.remove(key).unwrap_or_default();
        let noted = page.write(run);
        if page.self_caused == HOT_LOOP_AT {
            state.counts.hot_loops += 1;
        }
        state.pages.insert(key.clone(), page);
        noted
    }

    /// Marks the causes that earlier runs of the same key have led to. `is_valid` says whether a
    /// write still counts: not if the cluster was restored from a backup since then.
    pub(crate) fn mark_own_causes(
        &self,
        key: &ObjectKey,
        causes: &mut [Cause],
        is_valid: impl Fn(&Write) -> bool,
    ) {
        let state = lock(&self.state);
        let Some(page) = state.pages.peek(key) else { return };
        for cause in causes {
            cause.mark_if_own(page.runs.iter().flat_map(|run| &run.writes), &is_valid);
        }
    }

    /// The last runs of a key, the oldest first.
    pub(crate) fn runs(&self, key: &ObjectKey) -> Vec<Run> {
        let state = lock(&self.state);
        let runs = state.pages.peek(key).into_iter().flat_map(|page| &page.runs);
        runs.map(|run| Run::clone(run)).collect()
    }

    /// How often a key has run since its page began.
    pub(crate) fn run_count(&self, key: &ObjectKey) -> u64 {
        lock(&self.state).pages.peek(key).map_or(0, |page| page.count)
    }

    /// The last runs of all keys, the newest first, at most `limit`.
    pub(crate) fn recent_runs(&self, limit: usize) -> RecentRuns {
        let state = lock(&self.state);
        let known: usize = state.pages.iter().map(|(_, page)| page.runs.len()).sum();
        // The pages are in the order of their last runs. So only the last `limit` pages can have
        // one of the last `limit` runs.
        let runs = newest(state.pages.iter().rev().take(limit), limit, |_| true);
        RecentRuns { omitted: known - runs.len(), runs }
    }

    /// The last runs that wrote something, the newest first, at most `limit`.
    pub(crate) fn writing_runs(&self, limit: usize) -> Vec<(ObjectKey, Run)> {
        newest(lock(&self.state).pages.iter().rev(), limit, |run| !run.writes.is_empty())
    }

    /// The keys that are in a hot loop, those that ran last first, at most `limit`.
    pub(crate) fn hot_loops(&self, limit: usize) -> Vec<(ObjectKey, HotLoop)> {
        let state = lock(&self.state);
        let pages = state.pages.iter().rev();
        let hot = pages.filter_map(|(key, page)| page.hot_loop().map(|hot| (key.clone(), hot)));
        hot.take(limit).collect()
    }

    pub(crate) fn counts(&self) -> Counts {
        lock(&self.state).counts.clone()
    }
}

impl Page {
    fn write(&mut self, run: Arc<Run>) -> Noted {
        let last = self.runs.back();
        let is_repeated = last.is_some_and(|last| last.outcome == run.outcome);
        let is_self_caused = last.is_some_and(|last| written_again(last, &run).is_some());
        self.self_caused = if is_self_caused { self.self_caused + 1 } else { 0 };
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
        if self.self_caused < HOT_LOOP_AT {
            return None;
        }
        let mut newest = self.runs.iter().rev();
        let (last, before) = (newest.next()?, newest.next()?);
        let write = written_again(before, last)?.to_string();
        Some(HotLoop { runs: self.self_caused, write, ended: last.started + last.took })
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

/// The first write of a run that changed what the run before had written, if the run was caused by
/// nothing but writes of its own key.
///
/// A create does not count: the next one makes another object. Nor does a write that is not known
/// to have changed anything, since it does not wake the key again. Of a run with many writes, only
/// the writes that were kept are compared.
fn written_again<'r>(before: &Run, run: &'r Run) -> Option<&'r Write> {
    let woke_itself =
        !run.causes.is_empty() && run.causes_omitted == 0 && run.causes.iter().all(Cause::is_by_us);
    let is_change = |write: &Write| write.has_changed() && write.verb != Verb::Create;
    let is_repeated =
        |write: &Write| before.writes.iter().any(|before| before.is_same_place(write));
    let mut writes = run.writes.iter().filter(|_| woke_itself);
    writes.find(|write| is_change(write) && is_repeated(write))
}

fn is_power_of_ten(number: u64) -> bool {
    number.checked_ilog10().is_some_and(|digits| number == 10_u64.pow(digits))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;

    use super::*;
    use crate::error::Class;
    use crate::run::Outcome;
    use crate::run_id::RunIds;

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
        assert!(!journal.write(&key, run(&long)).is_repeated);
        assert!(journal.write(&key, run(&long)).is_repeated);
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
            journal.write(&name.parse().expect("a key"), run(&number.to_string()));
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
