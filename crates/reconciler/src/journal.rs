//! What happened: the last runs of every key.
//!
//! All of it is bounded: the keys ([`KEYS_MAX`]; beyond that, the key that ran longest ago is
//! forgotten), the runs of each key ([`RUNS_PER_KEY`]), the writes of each run
//! ([`WRITES_PER_RUN`](crate::WRITES_PER_RUN)), its causes (by the queue), and the length of what
//! it ended with.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::time::Instant;
use windlass_indexer::ObjectKey;

use crate::cause::Cause;
use crate::error::Class;
use crate::verdict::Verdict;
use crate::write::{Verb, Write};

/// How many runs of a key are kept.
pub const RUNS_PER_KEY: usize = 8;

/// How many keys are kept.
pub const KEYS_MAX: usize = 10_000;

/// How many bytes of an error message are kept. The log has all of it.
const MESSAGE_MAX: usize = 1_024;

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
    /// Which attempt it was.
    pub attempt: u32,
    /// Why it ran.
    pub causes: Vec<Cause>,
    /// How many causes were left out of these.
    pub causes_omitted: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// What it wrote, as far as the server has answered: the first eight writes and the last eight.
    pub writes: Vec<Write>,
    /// How many writes between them were left out.
    pub writes_omitted: u64,
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

impl Outcome {
    /// What a verdict leads to. When it is tried again is not known before it is settled.
    pub(crate) fn of(verdict: &Verdict) -> Self {
        let retry_in = Duration::ZERO;
        match verdict {
            Verdict::Done => Self::Done,
            Verdict::RequeueAfter(delay) => Self::RequeueAfter(*delay),
            Verdict::Failed {
                class: class @ (Class::Terminal | Class::Undecodable),
                message,
                ..
            } => Self::Terminal { class: *class, message: message.clone() },
            Verdict::Failed { class, message, .. } => {
                Self::Failed { class: *class, message: message.clone(), retry_in }
            }
            Verdict::Panicked(message) => Self::Panicked { message: message.clone(), retry_in },
            Verdict::TimedOut => Self::TimedOut { retry_in },
        }
    }

    /// Cuts what it says to what is kept.
    fn shorten(&mut self) {
        let message = match self {
            Self::Failed { message, .. }
            | Self::Terminal { message, .. }
            | Self::Panicked { message, .. } => message,
            Self::Done | Self::RequeueAfter(_) | Self::TimedOut { .. } => return,
        };
        if message.len() > MESSAGE_MAX {
            message.truncate(message.floor_char_boundary(MESSAGE_MAX));
            message.push('…');
            message.shrink_to_fit();
        }
    }

    /// It was settled when it is tried again.
    pub(crate) fn set_retry(&mut self, delay: Duration) {
        match self {
            Self::Failed { retry_in, .. }
            | Self::Panicked { retry_in, .. }
            | Self::TimedOut { retry_in } => *retry_in = delay,
            Self::Done | Self::RequeueAfter(_) | Self::Terminal { .. } => {}
        }
    }
}

/// The last runs, by key.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    /// Boxed, so that a table that grows moves little.
    runs: HashMap<ObjectKey, Box<Page>, RandomState>,
    /// Keys in the order of their last runs, with the number of that run; stale where it is not the last.
    order: VecDeque<(ObjectKey, u64)>,
    written: u64,
}

/// The runs of a key.
#[derive(Debug)]
struct Page {
    /// The ones before the last: mostly there are none, and so they are apart.
    before: VecDeque<Run>,
    last: Run,
    /// The number of the last one.
    number: u64,
    /// How many runs in a row wrote what the run before had written, and were woken by nothing but that.
    circles: u64,
}

/// What there is to say about a run, among those of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    /// Its number.
    pub(crate) number: u64,
    /// Whether it ended exactly as the one before.
    pub(crate) is_repeated: bool,
    pub(crate) circles: Option<Circles>,
}

/// Runs of a key that wake themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Circles {
    /// How many in a row.
    pub(crate) runs: u64,
    /// What the last one wrote again.
    pub(crate) write: String,
}

impl Journal {
    /// Notes a run.
    pub(crate) fn write(&self, key: &ObjectKey, mut run: Run) -> Noted {
        run.outcome.shorten();
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.written += 1;
        let number = pages.written;
        let (is_repeated, circles) = match pages.runs.entry(key.clone()) {
            Entry::Occupied(page) => page.into_mut().write(run, number),
            Entry::Vacant(place) => {
                let page = Page { before: VecDeque::new(), last: run, number, circles: 0 };
                place.insert(Box::new(page));
                (false, None)
            }
        };
        pages.order.push_back((key.clone(), number));
        let forgotten = pages.trim();
        drop(pages);
        // What it wrote and why it ran is let go of without the lock.
        drop(forgotten);
        Noted { number, is_repeated, circles }
    }

    /// It was settled when the key is tried again, if that run is still the last one.
    pub(crate) fn set_retry(&self, key: &ObjectKey, number: u64, delay: Duration) {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(page) = pages.runs.get_mut(key)
            && page.number == number
        {
            page.last.outcome.set_retry(delay);
        }
    }

    /// Marks the causes that runs of the same key have led to, by writes that are still valid.
    pub(crate) fn ascribe(
        &self,
        key: &ObjectKey,
        causes: &mut [Cause],
        is_valid: impl Fn(&Write) -> bool,
    ) {
        let pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(page) = pages.runs.get(key) else { return };
        for cause in causes {
            cause.ascribe(page.runs().flat_map(|run| &run.writes), &is_valid);
        }
    }

    pub(crate) fn read(&self, key: &ObjectKey) -> Vec<Run> {
        let pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.runs.get(key).map(|page| page.runs().cloned().collect()).unwrap_or_default()
    }
}

/// What a run changed again that the run before it had written, if it was woken by nothing but writes
/// of its own key. What is created is not written again: the next one is another object. A write that
/// is not known to have changed anything does not wake the key again. Of a run with many writes, only
/// those that are kept are compared.
fn written_again<'r>(before: &Run, run: &'r Run) -> Option<&'r Write> {
    let woke_itself =
        !run.causes.is_empty() && run.causes_omitted == 0 && run.causes.iter().all(Cause::is_by_us);
    let is_change = |write: &Write| write.has_changed && write.verb != Verb::Create;
    let is_repeated =
        |write: &Write| before.writes.iter().any(|before| before.is_same_place(write));
    let mut writes = run.writes.iter().filter(|_| woke_itself);
    writes.find(|write| is_change(write) && is_repeated(write))
}

impl Page {
    /// Notes another run. Returns whether it ended as the last one did, and how often it has gone in circles.
    fn write(&mut self, run: Run, number: u64) -> (bool, Option<Circles>) {
        let is_repeated = self.last.outcome == run.outcome;
        let again = written_again(&self.last, &run).map(Write::to_string);
        self.circles = if again.is_some() { self.circles + 1 } else { 0 };
        if self.before.len() == RUNS_PER_KEY - 1 {
            self.before.pop_front();
        }
        if self.before.len() == self.before.capacity() {
            // By itself it would take room for four, and most keys run rarely.
            self.before.reserve_exact(self.before.len().max(1));
        }
        self.before.push_back(std::mem::replace(&mut self.last, run));
        self.number = number;
        (is_repeated, again.map(|write| Circles { runs: self.circles, write }))
    }

    /// The oldest first.
    fn runs(&self) -> impl Iterator<Item = &Run> {
        self.before.iter().chain([&self.last])
    }
}

impl Pages {
    /// Forgets the key that ran longest ago, if there are too many. Returns what was known of it.
    fn trim(&mut self) -> Option<Box<Page>> {
        if self.order.len() > 2 * KEYS_MAX {
            let runs = &self.runs;
            self.order
                .retain(|(key, number)| runs.get(key).is_some_and(|page| page.number == *number));
        }
        while self.runs.len() > KEYS_MAX {
            let (key, number) = self.order.pop_front()?;
            if let Entry::Occupied(page) = self.runs.entry(key)
                && page.get().number == number
            {
                return Some(page.remove());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(message: &str) -> Run {
        Run {
            started: Instant::now(),
            queued: Duration::ZERO,
            took: Duration::ZERO,
            attempt: 1,
            causes: Vec::new(),
            causes_omitted: 0,
            outcome: Outcome::Terminal { class: Class::Other, message: message.to_owned() },
            writes: Vec::new(),
            writes_omitted: 0,
        }
    }

    #[test]
    fn long_message_is_cut_between_characters_and_still_known_as_repeated() {
        let (journal, key) = (Journal::default(), "shop/web".parse().expect("a key"));
        let long = format!("x{}", "ä".repeat(MESSAGE_MAX));
        assert!(!journal.write(&key, run(&long)).is_repeated);
        assert!(journal.write(&key, run(&long)).is_repeated);
        for kept in journal.read(&key) {
            let Outcome::Terminal { message, .. } = kept.outcome else { panic!("another outcome") };
            assert!(message.len() <= MESSAGE_MAX + '…'.len_utf8(), "{} bytes", message.len());
            assert!(message.ends_with("ä…"));
        }
    }
}
