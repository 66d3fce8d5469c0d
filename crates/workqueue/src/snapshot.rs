//! The state of the keys at one moment, for debugging.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use crate::causes::Causes;
use crate::ledger::ActiveRun;
use crate::priority::Priority;
use crate::slots::{NextRunState, Slot};
use crate::time::Clock;

/// Every key of a queue at one moment.
///
/// `Display` writes a table of at most a hundred keys. A precision sets another limit, as in
/// `{snapshot:.20}`, and `{snapshot:#}` writes all of them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot<K, C = ()> {
    /// The name of the queue.
    pub name: String,
    /// When the snapshot was taken.
    pub taken: Instant,
    /// Whether the queue was shut down.
    pub shut_down: bool,
    /// How far ahead a limiter that all keys share is booked; see
    /// [`Load::retry_debt`](crate::Load::retry_debt).
    pub retry_debt: Duration,
    /// The keys in the order in which people ask about them: the running ones, the longest first;
    /// then those that have failed; then the ready ones, the longest first; then the waiting ones,
    /// the soonest first.
    pub keys: Vec<KeyStatus<K, C>>,
}

/// The state of one key. At least one of `running` and `next_run` is set.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KeyStatus<K, C = ()> {
    /// The key.
    pub key: K,
    /// The run that is under way.
    pub running: Option<Run<C>>,
    /// The next run.
    pub next_run: Option<NextRun<C>>,
    /// How often the key has failed since it last succeeded.
    pub failures: u32,
}

/// A run that is under way.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Run<C> {
    /// When it started.
    pub since: Instant,
    /// Why it runs.
    pub causes: Causes<C>,
}

/// The next run of a key.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NextRun<C> {
    /// Since when it is ready or waiting.
    pub since: Instant,
    /// When it is due, if it waits.
    pub due: Option<Instant>,
    /// Its level: the requested priority, or a higher one after aging.
    pub priority: Priority,
    /// Why it will run. While it waits, this includes the timers that fire when it is due.
    pub causes: Causes<C>,
}

/// A key that was still waiting when its queue was shut down.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingKey<K> {
    /// The key.
    pub key: K,
    /// When it would have become ready.
    pub due: Instant,
}

/// Rows that a table shows by default.
const ROWS: usize = 100;

impl<K, C> KeyStatus<K, C> {
    /// Sorts keys in the order of [`Snapshot::keys`].
    pub(crate) fn rank(&self) -> (u8, Option<Instant>) {
        let next_run = self.next_run.as_ref();
        match (&self.running, next_run.and_then(|run| run.due)) {
            (Some(run), _) => (0, Some(run.since)),
            (None, due) if self.failures > 0 => (1, due),
            (None, None) => (2, next_run.map(|run| run.since)),
            (None, due) => (3, due),
        }
    }
}

impl<K: Clone, C: Clone> KeyStatus<K, C> {
    /// The status of the key in `slot`, without its failures. `run` is its run under way.
    pub(crate) fn of(slot: &Slot<K, C>, run: Option<&ActiveRun<C>>, clock: Clock) -> Self {
        let running =
            run.map(|run| Run { since: clock.instant(run.started), causes: (*run.causes).clone() });
        let next_run = match slot.next_run {
            NextRunState::None => None,
            NextRunState::Waiting { priority, since, due, .. } => {
                Some((priority, since, Some(due)))
            }
            NextRunState::Ready { level, since, .. } => Some((level, since, None)),
        };
        let next_run = next_run.map(|(priority, since, due)| NextRun {
            since: clock.instant(since),
            due: due.map(|due| clock.instant(due)),
            priority,
            causes: match &slot.timers {
                None => slot.causes.clone(),
                Some(timers) => slot.causes.join(timers),
            },
        });
        Self { key: slot.key.clone(), running, next_run, failures: 0 }
    }
}

impl<K: fmt::Debug, C: fmt::Debug> fmt::Display for Snapshot<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |matches: fn(&KeyStatus<K, C>) -> bool| {
            self.keys.iter().filter(|&key| matches(key)).count()
        };
        write!(
            f,
            "{}: {} running, {} ready, {} waiting{}",
            self.name,
            count(|key| key.running.is_some()),
            count(|key| key.next_run.as_ref().is_some_and(|run| run.due.is_none())),
            count(|key| key.next_run.as_ref().is_some_and(|run| run.due.is_some())),
            if self.shut_down { ", shut down" } else { "" },
        )?;
        if !self.retry_debt.is_zero() {
            write!(f, ", retries booked {} ahead", Age(self.retry_debt))?;
        }
        writeln!(f)?;
        if self.keys.is_empty() {
            return Ok(());
        }
        write_row(f, ["STATE", "FOR", "DUE IN", "FAILURES", "PRIO", "KEY"])?;
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
    /// Writes a row for the run under way and one for the next run, each followed by its causes.
    fn write_rows(&self, now: Instant, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failures = self.failures.to_string();
        let key = format!("{:?}", self.key);
        if let Some(run) = &self.running {
            let ran = Age(now.saturating_duration_since(run.since)).to_string();
            write_row(f, ["running", &ran, "", &failures, "", &key])?;
            write_causes(&run.causes, f)?;
        }
        if let Some(next_run) = &self.next_run {
            let state = if next_run.due.is_some() { "waiting" } else { "ready" };
            let held = Age(now.saturating_duration_since(next_run.since)).to_string();
            let due = next_run.due.map(|due| Age(due.saturating_duration_since(now)).to_string());
            let priority = format!("{:?}", next_run.priority).to_lowercase();
            write_row(f, [state, &held, &due.unwrap_or_default(), &failures, &priority, &key])?;
            write_causes(&next_run.causes, f)?;
        }
        Ok(())
    }
}

fn write_row(f: &mut fmt::Formatter<'_>, cells: [&str; 6]) -> fmt::Result {
    let [state, age, due, failures, priority, key] = cells;
    writeln!(f, "{state:<8} {age:>9} {due:>9} {failures:>8}  {priority:<6}  {key}")
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

/// A duration, rounded to about three digits.
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
        f.write_str(&text)
    }
}
