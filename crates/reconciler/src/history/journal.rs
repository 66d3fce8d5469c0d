//! The journal of a controller: the last runs of every key, and counts of all runs.
//!
//! Its size is bounded: the keys ([`KEYS_MAX`]; beyond that, the key that ran longest ago is
//! forgotten), the runs of each key ([`RUNS_PER_KEY`]), the writes of each run
//! ([`WRITES_PER_RUN`](crate::WRITES_PER_RUN)) and its events ([`EVENTS_PER_RUN`]), its causes (by
//! the queue), and the length of an error message.
//!
//! All of that together may be too much. So there is also a budget in bytes
//! ([`JOURNAL_BYTES`]), which the keys that ran last share:
//!
//! ```text
//!  key runs ─▶ recent: whole runs ── over the budget ─▶ older: shortened runs ─▶ forgotten
//!      ▲                                                  (half of the budget)
//!      └──────────────────── it runs again ◀─────────────────────┘
//! ```

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;

use hashlink::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_indexer::ObjectKey;
use windlass_informer::Resource;

use crate::cause::Cause;
use crate::history::counts::Counts;
use crate::history::hot_loop::{HOT_LOOP_AT, HotLoop, is_power_of_ten, repeated_write};
use crate::history::run_record::Run;
use crate::history::size::key_bytes;

/// How many runs of a key are kept.
pub const RUNS_PER_KEY: usize = 8;

/// How many keys are kept.
pub const KEYS_MAX: usize = 10_000;

/// How many events of a run are kept.
pub const EVENTS_PER_RUN: usize = 4;

/// How many bytes of an error message are kept. The log has all of it.
pub(crate) const MESSAGE_MAX: usize = 1_024;

/// How many bytes the journal of a controller may take by default: 16 MiB. That is enough for all
/// runs of a few thousand keys that write two or three objects in each.
pub const JOURNAL_BYTES: usize = 16 << 20;

/// What a key takes besides its texts and its runs, about: its place in a list, and in a hash table
/// that is half full.
const PAGE_BYTES: usize =
    size_of::<(ObjectKey, Page)>() + RUNS_PER_KEY * size_of::<Arc<Run>>() + 4 * size_of::<usize>();

/// How much memory the record of the runs of a controller takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalStatus {
    /// How many bytes it takes, about.
    pub bytes: usize,
    /// How many it [may](crate::ControllerBuilder::journal_bytes) take.
    pub bytes_max: usize,
    /// How many keys it has.
    pub keys: usize,
    /// How many of these have [shortened](Run::is_shortened) runs only.
    pub shortened_keys: usize,
}

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
    bytes_max: usize,
}

struct State {
    /// The keys that ran last, the oldest run first.
    recent: LruCache<ObjectKey, Page>,
    /// The keys that ran before those, in the same order. All of their runs are shortened.
    older: LruCache<ObjectKey, Page>,
    /// What the pages of each take.
    recent_bytes: usize,
    older_bytes: usize,
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
    /// The hot loop that its last run is part of.
    hot_loop: Option<HotLoop>,
    /// What its runs take.
    bytes: usize,
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
    /// A journal that takes at most `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let state = State {
            recent: LruCache::new_unbounded(),
            older: LruCache::new_unbounded(),
            recent_bytes: 0,
            older_bytes: 0,
            counts: Counts::default(),
        };
        Self { state: Mutex::new(state), bytes_max }
    }

    /// Notes a run.
    pub(crate) fn record(&self, key: &ObjectKey, run: Arc<Run>) -> Noted {
        let mut state = self.state.lock();
        state.counts.add(&run);
        let mut page = state.remove(key).unwrap_or_default();
        let noted = page.record(run);
        if page.self_caused_runs == HOT_LOOP_AT {
            state.counts.hot_loops += 1;
        }
        state.recent_bytes += page.total_bytes(key);
        state.recent.insert(key.clone(), page);
        state.make_room(self.bytes_max);
        noted
    }

    pub(crate) fn status(&self) -> JournalStatus {
        let state = self.state.lock();
        let shortened_keys = state.older.len();
        JournalStatus {
            bytes: state.bytes(),
            bytes_max: self.bytes_max,
            keys: state.recent.len() + shortened_keys,
            shortened_keys,
        }
    }

    /// Marks the causes that earlier runs of the same key have led to. `is_valid` says whether a
    /// write still counts: not if the cluster was restored from a backup since then.
    pub(crate) fn mark_causes_by_us(
        &self,
        key: &ObjectKey,
        causes: &mut [Cause],
        is_valid: impl Fn(&Resource, &ObjectKey, Instant) -> bool,
    ) {
        let state = self.state.lock();
        let Some(page) = state.page(key) else { return };
        for cause in causes {
            cause.mark_if_by_us(page.runs.iter().map(|run| &**run), &is_valid);
        }
    }

    /// The last runs of a key, the oldest first.
    pub(crate) fn runs(&self, key: &ObjectKey) -> Vec<Run> {
        let state = self.state.lock();
        let runs = state.page(key).into_iter().flat_map(|page| &page.runs);
        runs.map(|run| Run::clone(run)).collect()
    }

    /// How often a key has run since its page began.
    pub(crate) fn run_count(&self, key: &ObjectKey) -> u64 {
        self.state.lock().page(key).map_or(0, |page| page.count)
    }

    /// The last runs of all keys, the newest first, at most `limit`.
    pub(crate) fn recent_runs(&self, limit: usize) -> RecentRuns {
        let state = self.state.lock();
        let known: usize = state.pages().map(|(_, page)| page.runs.len()).sum();
        // The pages are in the order of their last runs. So only the last `limit` pages can have
        // one of the last `limit` runs.
        let runs = newest(state.pages().take(limit), limit, |_| true);
        RecentRuns { omitted: known - runs.len(), runs }
    }

    /// The last runs that wrote something, the newest first, at most `limit`.
    pub(crate) fn writing_runs(&self, limit: usize) -> Vec<(ObjectKey, Run)> {
        newest(self.state.lock().pages(), limit, |run| !run.writes.is_empty())
    }

    /// The keys that are in a hot loop, those that ran last first, at most `limit`.
    pub(crate) fn hot_loops(&self, limit: usize) -> Vec<(ObjectKey, HotLoop)> {
        let state = self.state.lock();
        let of_page =
            |(key, page): (&ObjectKey, &Page)| Some((key.clone(), page.hot_loop.clone()?));
        let hot = state.pages().filter_map(of_page);
        hot.take(limit).collect()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.state.lock().counts.clone()
    }
}

impl State {
    fn page(&self, key: &ObjectKey) -> Option<&Page> {
        self.recent.peek(key).or_else(|| self.older.peek(key))
    }

    /// All pages, those whose last runs are the newest first.
    fn pages(&self) -> impl Iterator<Item = (&ObjectKey, &Page)> {
        self.recent.iter().rev().chain(self.older.iter().rev())
    }

    fn bytes(&self) -> usize {
        self.recent_bytes + self.older_bytes
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Page> {
        if let Some(page) = self.recent.remove(key) {
            self.recent_bytes -= page.total_bytes(key);
            return Some(page);
        }
        let page = self.older.remove(key)?;
        self.older_bytes -= page.total_bytes(key);
        Some(page)
    }

    /// Shortens the runs of the keys that ran longest ago, and forgets such keys. Shortened runs
    /// get half of the room, so that they leave the rest to the keys that run now.
    fn make_room(&mut self, bytes_max: usize) {
        loop {
            let is_too_large = self.bytes() > bytes_max;
            if !is_too_large && self.recent.len() + self.older.len() <= KEYS_MAX {
                return;
            }
            if is_too_large && self.older_bytes <= bytes_max / 2 && self.shorten_oldest() {
                continue;
            }
            let oldest = self.older.iter().chain(self.recent.iter()).next();
            let Some(key) = oldest.map(|(key, _)| key.clone()) else { return };
            self.remove(&key);
        }
    }

    /// Shortens the runs of the key that ran longest ago. Returns `false` if all are short.
    fn shorten_oldest(&mut self) -> bool {
        let Some((key, mut page)) = self.recent.remove_lru() else { return false };
        self.recent_bytes -= page.total_bytes(&key);
        page.shorten();
        self.older_bytes += page.total_bytes(&key);
        self.older.insert(key, page);
        true
    }
}

impl Page {
    /// What it takes, with its key.
    fn total_bytes(&self, key: &ObjectKey) -> usize {
        let hot_loop = self.hot_loop.as_ref().map_or(0, |hot| hot.write.capacity());
        PAGE_BYTES + key_bytes(key) + hot_loop + self.bytes
    }

    /// Shortens all runs.
    fn shorten(&mut self) {
        for run in &mut self.runs {
            if !run.is_shortened {
                *run = Arc::new(run.shortened());
            }
        }
        self.bytes = self.runs.iter().map(|run| run.allocated_bytes()).sum();
    }

    fn record(&mut self, run: Arc<Run>) -> Noted {
        let last = self.runs.back();
        let is_repeated = last.is_some_and(|last| last.outcome == run.outcome);
        let repeated = last.and_then(|last| repeated_write(last, &run));
        self.self_caused_runs = repeated.map_or(0, |_| self.self_caused_runs + 1);
        self.hot_loop = repeated.filter(|_| self.self_caused_runs >= HOT_LOOP_AT).map(|write| {
            let ended = run.started + run.took;
            HotLoop { runs: self.self_caused_runs, write: write.to_string(), ended }
        });
        if self.runs.len() == RUNS_PER_KEY
            && let Some(oldest) = self.runs.pop_front()
        {
            self.bytes -= oldest.allocated_bytes();
        }
        self.bytes += run.allocated_bytes();
        self.runs.push_back(run);
        self.count += 1;
        let hot_loop = self.hot_loop.clone().filter(|hot| is_power_of_ten(hot.runs));
        Noted { is_repeated, hot_loop }
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
    use std::fmt::Display;
    use std::time::Duration;

    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
    use windlass_indexer::{ResourceVersion, Uid};

    use super::*;
    use crate::cause::Change;
    use crate::error::Class;
    use crate::history::run_record::{Outcome, RunIds};
    use crate::history::size::ARC_COUNTERS;
    use crate::recorder::Occurrence;
    use crate::writes::authorship::WriteEffect;
    use crate::writes::write::{MadeVersion, Verb, Write};

    fn run(message: &str) -> Arc<Run> {
        Arc::new(bare_run(message))
    }

    fn bare_run(message: &str) -> Run {
        let outcome = Outcome::Terminal { class: Class::Other, message: message.to_owned() };
        Run {
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
            is_shortened: false,
            made: Box::default(),
        }
    }

    fn maps() -> Resource {
        Resource::of::<ConfigMap>()
    }

    /// A text as long as texts of this kind can be.
    fn long(start: impl Display, length: usize) -> String {
        format!("{start:x<length$}")
    }

    fn write(name: &str, version: u64) -> Write {
        Write {
            verb: Verb::Patch,
            group: String::new(),
            plural: "configmaps".to_owned(),
            subresource: Some("status".to_owned()),
            effect: WriteEffect::Changed,
            answered: Instant::now(),
            key: ObjectKey::namespaced("shop", name),
            uid: Uid::new(&format!("uid of {name}")),
            version: Some(ResourceVersion::new(&version.to_string())),
        }
    }

    /// The event of a write.
    fn cause(name: &str, version: u64) -> Cause {
        Cause::Changed {
            resource: maps(),
            object: ObjectKey::namespaced("shop", name),
            change: Change::Updated,
            version: ResourceVersion::new(&version.to_string()),
            uid: Uid::new(&format!("uid of {name}")),
            by_us: false,
        }
    }

    /// As large as a run can be.
    fn largest_run(number: u64) -> Run {
        let regarding = ObjectReference {
            name: Some(long("web", 253)),
            namespace: Some(long("shop", 63)),
            uid: Some(long("uid", 36)),
            ..ObjectReference::default()
        };
        let event = Occurrence::warning(regarding, long("Failed", 128), long("because", 1_024));
        let name = |part: u64| long(format!("{number}-{part}-"), 253);
        Run {
            writes: (0..16).map(|part| write(&name(part), number)).collect(),
            causes: (0..16).map(|part| cause(&name(part), number)).collect(),
            events: vec![event; EVENTS_PER_RUN],
            ..bare_run(&long("error", MESSAGE_MAX))
        }
    }

    /// The lengths of all texts of a run.
    fn texts(run: &Run) -> usize {
        let key = |key: &ObjectKey| key.to_string().len() - 1;
        let write = |write: &Write| {
            let subresource = write.subresource.as_ref().map_or(0, String::len);
            let version = write.version.as_ref().map_or(0, |version| version.to_string().len());
            let names = write.group.len() + write.plural.len() + subresource;
            names + key(&write.key) + write.uid.to_string().len() + version
        };
        let cause = |cause: &Cause| match cause {
            Cause::Changed { object, version, uid, .. } => {
                key(object) + version.to_string().len() + uid.to_string().len()
            }
            _ => 0,
        };
        let event = |event: &Occurrence| {
            let of = event.regarding();
            let texts = [of.name.as_deref(), of.namespace.as_deref(), of.uid.as_deref()];
            let reference: usize = texts.into_iter().flatten().map(str::len).sum();
            reference + event.reason().len() + event.note().len() + event.action_name().len()
        };
        let message = run.outcome.failure().map_or(0, |message| message.len());
        message
            + run.writes.iter().map(write).sum::<usize>()
            + run.causes.iter().map(cause).sum::<usize>()
            + run.events.iter().map(event).sum::<usize>()
    }

    /// Whether a journal finds that a run of the key has led to this.
    fn is_by_us(journal: &Journal, key: &ObjectKey, cause: Cause) -> bool {
        let mut causes = [cause];
        journal.mark_causes_by_us(key, &mut causes, |_, _, _| true);
        causes[0].is_by_us()
    }

    #[tokio::test(start_paused = true)]
    async fn estimate_of_a_run_has_all_of_its_texts_and_lists() {
        let run = largest_run(1);
        let lists = size_of::<Run>()
            + 16 * (size_of::<Write>() + size_of::<Cause>())
            + EVENTS_PER_RUN * size_of::<Occurrence>();
        let least = texts(&run) + lists;
        // Counters of shared texts, and a few bytes of capacity.
        let most = least + 100 * ARC_COUNTERS;
        let bytes = run.allocated_bytes();
        assert!((least..=most).contains(&bytes), "{least} <= {bytes} <= {most}");
        assert!(bytes > 18_000, "the largest runs are what the budget is for: {bytes}");

        let short = run.shortened();
        let bytes = short.allocated_bytes();
        let made: usize = short.made.iter().map(MadeVersion::allocated_bytes).sum();
        let lists = size_of::<Run>() + 16 * (size_of::<MadeVersion>() + size_of::<Cause>());
        let least = lists + texts(&short) + made;
        assert!((least..=least + 100 * ARC_COUNTERS).contains(&bytes), "{least} <= {bytes}");
    }

    #[tokio::test(start_paused = true)]
    async fn journal_keeps_to_its_budget_and_keeps_most_of_the_keys_that_ran_last() {
        let journal = Journal::new(1 << 20);
        let key = |number: u64| ObjectKey::namespaced("shop", &format!("web-{number}"));
        for number in 0..2_000 {
            // A few keys run again and again.
            let key = if number % 3 == 0 { key(number % 30) } else { key(number) };
            journal.record(&key, Arc::new(largest_run(number)));
            let status = journal.status();
            assert!(status.bytes <= status.bytes_max, "{status:?}");
        }
        let state = journal.state.lock();
        let bytes: usize = state.pages().map(|(key, page)| page.total_bytes(key)).sum();
        let runs: usize =
            state.pages().flat_map(|(_, page)| &page.runs).map(|run| run.allocated_bytes()).sum();
        let counted = state.pages().map(|(_, page)| page.bytes).sum();
        assert_eq!((state.bytes(), counted), (bytes, runs));
        drop(state);

        let is_whole = |key: &ObjectKey| journal.runs(key).iter().all(|run| !run.is_shortened);
        assert!(is_whole(&key(1_999)) && !journal.runs(&key(1_999)).is_empty());
        let status = journal.status();
        assert!(status.shortened_keys > 0 && status.shortened_keys < status.keys, "{status:?}");
        let (oldest, _) = {
            let state = journal.state.lock();
            let (key, page) = state.pages().last().expect("a key");
            (key.clone(), page.count)
        };
        let run = journal.runs(&oldest).pop().expect("a run");
        assert!(run.is_shortened && run.outcome.is_failure());
        assert_eq!((run.causes.len(), run.writes.len(), run.writes_omitted), (16, 0, 16));
        assert!(run.events.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn shortened_run_still_tells_what_it_led_to() {
        // Enough for one key, and not for the details of two.
        let journal = Journal::new(24_000);
        let (old, new) = ("shop/old".parse().expect("a key"), "shop/new".parse().expect("a key"));
        let writes = Vec::from([write("child", 7), Write { version: None, ..write("gone", 0) }]);
        journal.record(&old, Arc::new(Run { writes, ..bare_run("first") }));
        journal.record(&new, Arc::new(largest_run(1)));
        assert!(journal.runs(&old)[0].is_shortened, "{:?}", journal.status());

        assert!(is_by_us(&journal, &old, cause("child", 7)));
        assert!(!is_by_us(&journal, &old, cause("child", 8)), "somebody else's version");
        assert!(!is_by_us(&journal, &old, cause("other", 7)), "another object");
        let gone = |change| match cause("gone", 9) {
            Cause::Changed { resource, object, version, uid, by_us, .. } => {
                Cause::Changed { resource, object, change, version, uid, by_us }
            }
            other => other,
        };
        assert!(is_by_us(&journal, &old, gone(Change::Deleted)));
        assert!(!is_by_us(&journal, &old, gone(Change::Updated)));
        let mut restored = [cause("child", 7)];
        journal.mark_causes_by_us(&old, &mut restored, |_, _, _| false);
        assert!(!restored[0].is_by_us(), "the cluster was restored since then");
    }

    #[tokio::test(start_paused = true)]
    async fn hot_loop_is_found_if_every_run_before_is_shortened() {
        let journal = Journal::new(32_000);
        let hot: ObjectKey = "shop/hot".parse().expect("a key");
        let mut found = Vec::new();
        for number in 1..=12 {
            let mut causes = Vec::from([cause("child", number - 1)]);
            journal.mark_causes_by_us(&hot, &mut causes, |_, _, _| true);
            let writes = Vec::from([write("child", number)]);
            let run = Run { causes, writes, ..bare_run("again") };
            found.extend(journal.record(&hot, Arc::new(run)).hot_loop.map(|hot| hot.runs));
            let other = ObjectKey::namespaced("shop", &number.to_string());
            journal.record(&other, Arc::new(largest_run(number)));
            assert!(journal.runs(&hot).iter().all(|run| run.is_shortened));
        }
        assert_eq!(found, [10]);
        let hot_loops = journal.hot_loops(9);
        assert_eq!((hot_loops.len(), hot_loops[0].1.runs), (1, 11));
        assert_eq!(hot_loops[0].1.write, "patch configmaps/status shop/child at 12");
        assert_eq!(journal.counts().hot_loops, 1);
    }

    #[test]
    fn long_message_is_cut_between_characters_and_still_known_as_repeated() {
        let (journal, key) = (Journal::new(JOURNAL_BYTES), "shop/web".parse().expect("a key"));
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
        let journal = Journal::new(JOURNAL_BYTES);
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
