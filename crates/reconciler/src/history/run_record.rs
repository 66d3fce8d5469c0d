//! The record of a run that has ended, and its id. The journal, the counts, the log, the hook for
//! errors and the subscribers all read this one. The id finds the log lines of the run, its span
//! and its record.

use std::any::Any;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use fastrand::Rng;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Serialize, Serializer};
use tokio::time::Instant;

use crate::cause::Cause;
use crate::error::{Class, Error};
use crate::history::size::ARC_COUNTERS;
use crate::recorder::Occurrence;
use crate::writes::write::{MadeVersion, Write};

/// A run that has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Run {
    /// Its id, which its log lines have as `reconcile_id`.
    pub id: RunId,
    /// When it began.
    pub started: Instant,
    /// How long the key was ready before that.
    pub queued: Duration,
    /// How long it took.
    pub took: Duration,
    /// Which attempt it was since the last success. A run that an event starts before the retry is
    /// due has the number of that retry.
    pub attempt: u32,
    /// Why it ran.
    pub causes: Vec<Cause>,
    /// How many causes were left out of these.
    pub causes_omitted: u64,
    /// Whether a cache [may have lacked](crate::RunContext::cache_behind) what the last run of the
    /// key, or the last leader, had written.
    pub cache_behind: bool,
    /// How it ended.
    pub outcome: Outcome,
    /// After which time a failed run is retried. `None` if there is no retry: the run succeeded,
    /// the error is terminal, the key was given up, or the controller is shutting down.
    pub retry_in: Option<Duration>,
    /// Whether it was the last of the [attempts](crate::ControllerBuilder::max_attempts) that a key
    /// has. It runs again when something changes.
    pub gave_up: bool,
    /// What it wrote, as far as the server has answered: the first eight writes and the last eight.
    pub writes: Vec<Write>,
    /// How many writes between them were left out; all of them, if the run is
    /// [shortened](Self::is_shortened).
    pub writes_omitted: u64,
    /// The first [events](crate::RunContext::event) that it published, at most
    /// [`EVENTS_PER_RUN`](crate::EVENTS_PER_RUN).
    pub events: Vec<Occurrence>,
    /// Whether its writes and events were dropped, because the keys that ran later need the room:
    /// see [`ControllerBuilder::journal_bytes`](crate::ControllerBuilder::journal_bytes).
    pub is_shortened: bool,
    /// What is known of its writes if it is shortened.
    pub(crate) made: Box<[MadeVersion]>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The run succeeded.
    Done,
    /// The run succeeded and asked for another run after this time.
    RequeueAfter(Duration),
    /// The object is [paused](crate::ControllerBuilder::paused_by). The key runs again when it is
    /// not.
    Paused,
    /// The run ended early, because an owner is being deleted and [nothing was made for
    /// it](crate::OwnerDeleted). The key runs again if something changes.
    OwnerDeleted {
        /// What was not made, and for whom.
        message: String,
    },
    /// The run failed. [`Run::retry_in`](crate::Run::retry_in) says when the key is retried.
    Failed {
        /// The class of the error.
        class: Class,
        /// The message of the error.
        message: String,
    },
    /// The run failed, and the key is not retried before something changes.
    Terminal {
        /// The class of the error.
        class: Class,
        /// The message of the error.
        message: String,
    },
    /// The reconciler panicked. The key is retried as after a failure.
    Panicked {
        /// The message of the panic.
        message: String,
    },
    /// The run took too long and was cancelled. The key is retried as after a failure.
    TimedOut,
}

/// The id of a run, as controller-runtime's `reconcileID`. It is shown as a random UUID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(u128);

/// Makes the ids of a controller's runs.
pub(crate) struct RunIds {
    random: Mutex<Rng>,
}

/// The bits of a UUID that say that it is a random one: version 4, variant 1.
const UUID_KIND: u128 = (0x4 << 76) | (0b10 << 62);

/// The bits that [`UUID_KIND`] determines.
const UUID_KIND_MASK: u128 = (0xf << 76) | (0b11 << 62);

impl Run {
    /// The same without what takes most of the memory: of its writes, the uids and the versions are
    /// left, which are needed to recognize what it led to.
    pub(crate) fn shortened(&self) -> Self {
        let made = self.writes.iter().map(Write::made);
        Self {
            causes: self.causes.clone(),
            outcome: self.outcome.clone(),
            writes: Vec::new(),
            writes_omitted: self.writes_omitted + self.writes.len() as u64,
            events: Vec::new(),
            is_shortened: true,
            made: self.made.iter().cloned().chain(made).collect(),
            ..*self
        }
    }

    /// How many bytes it takes in the journal.
    pub(crate) fn allocated_bytes(&self) -> usize {
        let Self { causes, writes, events, made, outcome, .. } = self;
        let lists = causes.capacity() * size_of::<Cause>()
            + writes.capacity() * size_of::<Write>()
            + events.capacity() * size_of::<Occurrence>()
            + size_of_val(&**made);
        let texts = causes.iter().map(Cause::allocated_bytes).sum::<usize>()
            + writes.iter().map(Write::allocated_bytes).sum::<usize>()
            + events.iter().map(Occurrence::allocated_bytes).sum::<usize>()
            + made.iter().map(MadeVersion::allocated_bytes).sum::<usize>();
        // It is in an `Arc`.
        ARC_COUNTERS + size_of::<Self>() + lists + texts + outcome.allocated_bytes()
    }
}

impl Outcome {
    fn allocated_bytes(&self) -> usize {
        match self {
            Self::Failed { message, .. }
            | Self::Terminal { message, .. }
            | Self::OwnerDeleted { message }
            | Self::Panicked { message } => message.capacity(),
            Self::Done | Self::RequeueAfter(_) | Self::Paused | Self::TimedOut => 0,
        }
    }

    /// The outcome of a run that returned an error.
    ///
    /// Formatting an error is user code, which may panic. So the caller must catch panics of this
    /// function, too.
    pub(crate) fn of_error(error: &Error) -> Self {
        let (class, message) = (error.class(), error.to_string());
        match class {
            Class::Terminal | Class::Undecodable => Self::Terminal { class, message },
            Class::OwnerDeleted => Self::OwnerDeleted { message },
            _ => Self::Failed { class, message },
        }
    }

    /// Whether the run did not do what it should.
    pub fn is_failure(&self) -> bool {
        !matches!(
            self,
            Self::Done | Self::RequeueAfter(_) | Self::Paused | Self::OwnerDeleted { .. }
        )
    }

    /// What went wrong, if something did.
    pub(crate) fn failure(&self) -> Option<String> {
        match self {
            Self::Done | Self::RequeueAfter(_) | Self::Paused | Self::OwnerDeleted { .. } => None,
            Self::Failed { message, .. } | Self::Terminal { message, .. } => Some(message.clone()),
            Self::Panicked { message } => Some(format!("the reconciler panicked: {message}")),
            Self::TimedOut => Some("the reconciler took too long, and was cancelled".to_owned()),
        }
    }

    /// The outcome of a run that panicked.
    pub(crate) fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self::Panicked { message: text.unwrap_or("the panic has no message").to_owned() }
    }

    /// The same, with the message cut to at most `max` bytes.
    pub(crate) fn shortened(&self, max: usize) -> Self {
        let mut outcome = self.clone();
        if let Self::Failed { message, .. }
        | Self::Terminal { message, .. }
        | Self::OwnerDeleted { message }
        | Self::Panicked { message } = &mut outcome
            && message.len() > max
        {
            message.truncate(message.floor_char_boundary(max));
            message.push('…');
            message.shrink_to_fit();
        }
        outcome
    }
}

impl RunIds {
    /// The ids of a controller that was built at this time. The time tells the ids of a process
    /// from those of the process before it, whose controllers had the same names.
    pub(crate) fn of(controller: &str, instance: &str, built: Timestamp) -> Self {
        let mut hasher = DefaultHasher::new();
        (controller, instance, built.as_nanosecond()).hash(&mut hasher);
        Self { random: Mutex::new(Rng::with_seed(hasher.finish())) }
    }

    pub(crate) fn next(&self) -> RunId {
        let random = self.random.lock().u128(..);
        RunId((random & !UUID_KIND_MASK) | UUID_KIND)
    }
}

impl RunId {
    /// A seed for what is random within the run.
    pub(crate) fn seed(self) -> u64 {
        let [_, _, _, _, _, _, _, _, seed @ ..] = self.0.to_be_bytes();
        u64::from_be_bytes(seed)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |shift: u32, bits: u32| (self.0 >> shift) & ((1 << bits) - 1);
        write!(f, "{:08x}-{:04x}-", part(96, 32), part(80, 16))?;
        write!(f, "{:04x}-{:04x}-{:012x}", part(64, 16), part(48, 16), part(0, 48))
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for RunId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn id_is_written_as_a_random_uuid() {
        let id = RunId(0x0123_4567_89ab_4def_8123_4567_89ab_cdef);
        assert_eq!(id.to_string(), "01234567-89ab-4def-8123-456789abcdef");
        for _ in 0..100 {
            let text = RunIds::of("web", "web-0", Timestamp::UNIX_EPOCH).next().to_string();
            assert_eq!((text.len(), &text[14..15]), (36, "4"), "{text}");
            assert!("89ab".contains(&text[19..20]), "{text}");
        }
    }

    #[test]
    fn ids_differ_between_runs_controllers_replicas_and_processes() {
        let (now, later) = (Timestamp::UNIX_EPOCH, Timestamp::from_nanosecond(1).expect("a time"));
        let sources = [("a", "0", now), ("b", "0", now), ("a", "1", now), ("a", "0", later)];
        let ids = sources.map(|(controller, instance, built)| {
            let ids = RunIds::of(controller, instance, built);
            [ids.next(), ids.next()]
        });
        let different: BTreeSet<_> = ids.into_iter().flatten().collect();
        assert_eq!(different.len(), 8);
    }
}
