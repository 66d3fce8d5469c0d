//! What is known of the keys at one moment, for a person to look at.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use crate::Priority;
use crate::causes::Causes;
use crate::clock::Clock;
use crate::ledger::Ledger;
use crate::running;
use crate::slots::{Pending, SlotId};

/// Every key of a queue at one moment.
///
/// Displays as a table of at most a hundred keys. A precision sets another limit, as in `{snapshot:.20}`,
/// and `{snapshot:#}` shows them all.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot<K, C = ()> {
    /// The queue's name.
    pub name: String,
    /// The moment.
    pub taken: Instant,
    /// Whether the queue was shut down.
    pub shut_down: bool,
    /// How far ahead a limiter that all keys share is booked; see
    /// [`Load::retry_debt`](crate::Load::retry_debt).
    pub retry_debt: Duration,
    /// The keys, those that a person asks about first: the running ones, the longest first; then those that have failed;
    /// then the ready and last the waiting ones, the longest or soonest first. Where times are not kept, the running and
    /// the ready ones are in no particular order.
    pub keys: Vec<KeyStatus<K, C>>,
}

/// What is known of one key. At least one of `running` and `ahead` is there.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KeyStatus<K, C = ()> {
    /// The key.
    pub key: K,
    /// The run that is under way.
    pub running: Option<Run<C>>,
    /// The run that is ahead.
    pub ahead: Option<Ahead<C>>,
    /// The failures that the key is charged with.
    pub failures: u32,
}

/// A run that is under way.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Run<C> {
    /// When it started, if the queue [keeps times](crate::Builder::keep_times).
    pub since: Option<Instant>,
    /// Why it runs.
    pub causes: Causes<C>,
}

/// A run that is ahead.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ahead<C> {
    /// Since when it is ready or waiting, if the queue [keeps times](crate::Builder::keep_times).
    pub since: Option<Instant>,
    /// If it waits: until when.
    pub due: Option<Instant>,
    /// How urgent it is.
    pub priority: Priority,
    /// Why it will run. While it waits, that includes what will have happened only at its time.
    pub causes: Causes<C>,
}

/// A key that was still waiting for its time when its queue was shut down.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting<K> {
    /// The key.
    pub key: K,
    /// When it would have been ready.
    pub due: Instant,
}

/// Rows of a table that a person still reads.
const ROWS: usize = 100;

impl<K, C> KeyStatus<K, C> {
    /// Sorts keys as [`Snapshot::keys`] says.
    pub(crate) fn rank(&self) -> (u8, Option<Instant>) {
        let ahead = self.ahead.as_ref();
        match (&self.running, ahead.and_then(|ahead| ahead.due)) {
            (Some(run), _) => (0, run.since),
            (None, due) if self.failures > 0 => (1, due),
            (None, None) => (2, ahead.and_then(|ahead| ahead.since)),
            (None, due) => (3, due),
        }
    }
}

impl<K: Clone, C: Clone> KeyStatus<K, C> {
    /// `run` is the slot's run under way, if there is one.
    pub(crate) fn of(
        id: SlotId,
        run: Option<&running::Run<C>>,
        ledger: &Ledger<K, C>,
        clock: &Clock,
    ) -> Self {
        let slot = ledger.slot(id);
        let running = run.map(|run| Run {
            since: ledger.keeps_times().then(|| clock.instant(run.started)),
            causes: run.causes.as_deref().cloned().unwrap_or_default(),
        });
        let ahead = (slot.pending != Pending::None).then(|| Ahead {
            since: ledger.since(id).map(|since| clock.instant(since)),
            due: (slot.pending == Pending::Waiting).then(|| clock.instant(slot.at)),
            priority: slot.priority,
            causes: ledger.causes(id),
        });
        Self { key: slot.key().clone(), running, ahead, failures: 0 }
    }
}

impl<K: fmt::Debug, C: fmt::Debug> fmt::Display for Snapshot<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count =
            |is: fn(&KeyStatus<K, C>) -> bool| self.keys.iter().filter(|&key| is(key)).count();
        write!(
            f,
            "{}: {} running, {} ready, {} waiting{}",
            self.name,
            count(|key| key.running.is_some()),
            count(|key| key.ahead.as_ref().is_some_and(|ahead| ahead.due.is_none())),
            count(|key| key.ahead.as_ref().is_some_and(|ahead| ahead.due.is_some())),
            if self.shut_down { ", shut down" } else { "" },
        )?;
        if !self.retry_debt.is_zero() {
            write!(f, ", retries booked {} ahead", Age(self.retry_debt))?;
        }
        writeln!(f)?;
        if self.keys.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "{:<8} {:>9} {:>9} {:>8}  {:<6}  KEY",
            "STATE", "FOR", "DUE IN", "FAILURES", "PRIO"
        )?;
        let limit = if f.alternate() { usize::MAX } else { f.precision().unwrap_or(ROWS) };
        let shown = limit.min(self.keys.len());
        self.keys[..shown].iter().try_for_each(|key| key.write_rows(self.taken, f))?;
        if shown < self.keys.len() {
            writeln!(f, "and {} more keys", self.keys.len() - shown)?;
        }
        Ok(())
    }
}

impl<K: fmt::Debug, C: fmt::Debug> KeyStatus<K, C> {
    /// A row for the run under way, a row for the run ahead, and the causes of each below it.
    fn write_rows(&self, now: Instant, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(run) = &self.running {
            let ran = age(run.since, now);
            writeln!(
                f,
                "{:<8} {ran:>9} {:>9} {:>8}  {:<6}  {:?}",
                "running", "", self.failures, "", self.key
            )?;
            write_causes(&run.causes, f)?;
        }
        let Some(ahead) = &self.ahead else { return Ok(()) };
        let state = if ahead.due.is_some() { "waiting" } else { "ready" };
        let held = age(ahead.since, now);
        let due = ahead.due.map(|due| Age(due.saturating_duration_since(now)).to_string());
        writeln!(
            f,
            "{state:<8} {held:>9} {:>9} {:>8}  {:<6}  {:?}",
            due.unwrap_or_default(),
            self.failures,
            format!("{:?}", ahead.priority).to_lowercase(),
            self.key
        )?;
        write_causes(&ahead.causes, f)
    }
}

fn write_causes<C: fmt::Debug>(causes: &Causes<C>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for cause in causes.iter() {
        writeln!(f, "{:<8} because {cause:?}", "")?;
    }
    if causes.omitted() > 0 {
        let causes = causes.omitted();
        let noun = if causes == 1 { "cause" } else { "causes" };
        writeln!(f, "{:<8} and {causes} {noun} between", "")?;
    }
    Ok(())
}

/// How long ago it was, or nothing if that is not known.
fn age(since: Option<Instant>, now: Instant) -> String {
    since.map_or_else(String::new, |since| Age(now.saturating_duration_since(since)).to_string())
}

/// A duration in the three digits that a person reads.
struct Age(Duration);

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        let text = match self.0.as_secs() {
            0 => format!("{:.0}ms", seconds * 1e3),
            1..100 => format!("{seconds:.1}s"),
            100..6_000 => format!("{:.0}m", seconds / 60.0),
            6_000..360_000 => format!("{:.0}h", seconds / 3_600.0),
            _ => format!("{:.0}d", seconds / 86_400.0),
        };
        f.pad(&text)
    }
}
