//! Controllers in a report: their queues, and their last runs.

use std::collections::BTreeMap;

use serde::Serialize;
use windlass_indexer::ObjectKey;
use windlass_informer::InformerCache;
use windlass_reconciler::{
    AnyController, Cause, Counts, InactiveKey, InactiveReason, JournalStatus, Outcome,
    RecorderStatus, Run,
};
use windlass_workqueue::{KeyStatus, NextRun, Priority};

use super::camel_case;
use super::clock::{Clock, Time};
use super::select::Selection;
use crate::state::ControllerState;

/// A controller.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ControllerReport {
    /// Its name.
    pub name: String,
    /// The kind that it reconciles, as in `Website`.
    pub kind: String,
    /// Whether it only runs on the leader.
    pub needs_leadership: bool,
    /// Why a cache is not complete, and what to do about it; `None` if all of them are.
    pub trouble: Option<String>,
    /// How many keys run at once.
    pub workers: usize,
    /// How many keys run now.
    pub running: usize,
    /// Since when at least all workers have been busy; `None` if one is free.
    pub all_busy_since: Option<Time>,
    /// The resources that it watches or reads, as in `deployments.v1.apps`.
    pub sources: Vec<String>,
    /// How much memory the record of its runs takes.
    pub journal: JournalReport,
    /// Counts of its runs since the process started.
    pub counts: RunCounts,
    /// Counts of the Kubernetes events that its runs recorded.
    pub events: EventCounts,
    /// Its queue.
    pub queue: QueueReport,
    /// Keys that do not run until something changes, sorted.
    pub inactive: Vec<InactiveReport>,
    /// How many more keys are inactive.
    pub omitted_inactive: usize,
    /// Its last runs, the newest first.
    pub last_runs: Vec<RunReport>,
    /// How many more runs are known.
    pub omitted_runs: usize,
}

/// A key that does not run until something changes.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InactiveReport {
    /// The key, as `namespace/name`.
    pub key: String,
    /// Why it does not run.
    pub why: InactiveCause,
    /// Since when.
    pub since: Time,
}

/// Why a key does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum InactiveCause {
    /// Its object is paused by an annotation.
    Paused,
    /// All of its attempts failed.
    GivenUp,
    /// Its last run ended with a terminal error.
    Terminal,
    /// Another reason.
    Other,
}

/// The record of the runs of a controller.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct JournalReport {
    /// How many bytes it takes, about.
    pub bytes: usize,
    /// How many it may take.
    pub bytes_max: usize,
    /// How many keys it has.
    pub keys: usize,
    /// How many of these have shortened runs only, because there is no room for more.
    pub shortened_keys: usize,
}

/// Counts of runs by their outcome.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RunCounts {
    /// All runs.
    pub runs: u64,
    /// Runs that succeeded and asked for nothing more.
    pub done: u64,
    /// Runs that succeeded and asked for another run.
    pub requeued: u64,
    /// Runs that failed, by the class of the error.
    pub failed: BTreeMap<String, u64>,
    /// Runs that panicked.
    pub panicked: u64,
    /// Runs that were cancelled because they took too long.
    pub timed_out: u64,
    /// Runs that found their object paused.
    pub paused: u64,
    /// Runs that ended early, because an owner is being deleted and nothing is made for it.
    pub owner_deleted: u64,
    /// Keys that were given up, because all of their attempts failed.
    pub given_up: u64,
    /// Runs that began although a cache did not show what the last run had written.
    pub behind: u64,
    /// Hot loops: keys that ran again and again because of their own writes.
    pub hot_loops: u64,
    /// The total duration of all runs.
    pub took_seconds: f64,
}

/// Counts of Kubernetes events.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EventCounts {
    /// Occurrences that were recorded.
    pub recorded: u64,
    /// Occurrences that were added to the count of an event.
    pub merged: u64,
    /// Occurrences that were dropped, because there were too many.
    pub dropped: u64,
    /// Writes that succeeded.
    pub written: u64,
    /// Writes that were given up.
    pub failed: u64,
    /// Writes that wait.
    pub queued: usize,
}

/// A queue.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct QueueReport {
    /// Keys that are ready and wait for a worker.
    pub ready: usize,
    /// Keys whose delay is not over.
    pub waiting: usize,
    /// About how long a key that fails now waits because of the retries of other keys.
    pub retry_debt_seconds: f64,
    /// Its keys: the running ones, the longest first; then those that have failed; then the ready
    /// ones, the longest first; then the waiting ones, the soonest first.
    pub keys: Vec<KeyReport>,
    /// How many more keys it has.
    pub omitted_keys: usize,
}

/// A key of a queue.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct KeyReport {
    /// The key, as `namespace/name`.
    pub key: String,
    /// Which attempt its run is, or will be.
    pub attempt: u32,
    /// How many failures in a row are counted for it.
    pub failures: u32,
    /// Its current state.
    #[serde(flatten)]
    pub now: StateReport,
    /// The next run of a running key, if it was added again.
    pub again: Option<StateReport>,
}

/// The state of a key, and why it runs.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct StateReport {
    /// Its state.
    pub state: KeyState,
    /// Since when.
    pub since: Time,
    /// When it runs, if it waits. A ready key runs as soon as a worker is free.
    pub next_run: Option<Time>,
    /// How urgent it is: `low`, `normal` or `high`. `None` if it runs.
    pub priority: Option<&'static str>,
    /// Why it runs, the oldest cause first.
    pub causes: Vec<String>,
    /// How many causes between the oldest and the newest were left out.
    pub omitted_causes: u64,
}

/// The state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum KeyState {
    /// A worker has it.
    Running,
    /// It waits for a worker.
    Ready,
    /// Its delay is not over.
    Waiting,
}

/// A run that has ended.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RunReport {
    /// The key, as `namespace/name`.
    pub key: String,
    /// Its id, which its log lines have as `reconcile_id`.
    pub id: String,
    /// When it began.
    pub started: Time,
    /// How long the key was ready before that.
    pub queued_seconds: f64,
    /// How long it took.
    pub took_seconds: f64,
    /// Which attempt it was.
    pub attempt: u32,
    /// Why it ran, the oldest cause first.
    pub causes: Vec<String>,
    /// How many causes between the oldest and the newest were left out.
    pub omitted_causes: u64,
    /// How it ended.
    pub outcome: RunOutcome,
    /// The class of the error, if it failed.
    pub class: Option<String>,
    /// The message of the error or of the panic, as it was logged; or what was not made, if an
    /// owner is being deleted.
    pub message: Option<String>,
    /// When the key is retried, or runs again because the run asked for it.
    pub next_run: Option<Time>,
    /// What it wrote, as in `patch deployments/status shop/web at 17`. It ends with `, no change`
    /// if the write changed nothing, and with `, perhaps no change` if that is not known.
    pub writes: Vec<String>,
    /// How many writes between the first and the last ones were left out.
    pub omitted_writes: u64,
    /// The first events that it published, as in `Normal Ready of Website shop/web: it answers`.
    pub events: Vec<String>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum RunOutcome {
    /// It succeeded.
    Done,
    /// It succeeded and asked for another run.
    Requeued,
    /// The object is paused.
    Paused,
    /// It ended early, because an owner is being deleted and nothing is made for it. No failure.
    OwnerDeleted,
    /// It failed. `nextRun` says when the key is retried.
    Failed,
    /// It failed, and the key is not retried before something changes.
    Terminal,
    /// It panicked, and the key is retried.
    Panicked,
    /// It took too long and was cancelled, and the key is retried.
    TimedOut,
    /// Another outcome.
    Other,
}

impl ControllerReport {
    pub(super) fn of(shown: &ControllerState, selection: &Selection<'_>, clock: Clock) -> Self {
        let controller = &*shown.controller;
        let status = controller.status();
        let (runs, omitted_runs) = last_runs(controller, selection);
        let runs = runs.iter().map(|(key, run)| RunReport::of(key, run, clock));
        // The first is what the controller reconciles.
        let caches = controller.caches();
        let reconciled = caches.first().map(|cache| cache.resource().kind());
        let (inactive, omitted_inactive) = if selection.is_without_keys() {
            (Vec::new(), status.paused + status.given_up + status.terminal)
        } else {
            let mut inactive = controller.inactive();
            inactive.retain(|of| selection.key.as_ref().is_none_or(|key| *key == of.key));
            let omitted = inactive.len().saturating_sub(selection.keys_max);
            inactive.truncate(selection.keys_max);
            (inactive, omitted)
        };
        Self {
            name: controller.name().to_owned(),
            kind: reconciled.unwrap_or_default().to_owned(),
            needs_leadership: shown.needs_leadership,
            trouble: controller.trouble(),
            workers: status.workers,
            running: status.running,
            all_busy_since: status.all_busy_for.map(|busy| clock.ago(busy)),
            sources: texts(caches.iter().map(InformerCache::resource)),
            journal: JournalReport::of(&status.journal),
            counts: RunCounts::of(&status.counts),
            events: EventCounts::of(&status.events),
            queue: QueueReport::of(controller, selection, clock),
            inactive: inactive.iter().map(|of| InactiveReport::of(of, clock)).collect(),
            omitted_inactive,
            last_runs: runs.collect(),
            omitted_runs,
        }
    }
}

impl InactiveReport {
    pub(crate) fn of(inactive: &InactiveKey, clock: Clock) -> Self {
        let why = match inactive.reason {
            InactiveReason::Paused => InactiveCause::Paused,
            InactiveReason::GivenUp => InactiveCause::GivenUp,
            InactiveReason::Terminal => InactiveCause::Terminal,
            _ => InactiveCause::Other,
        };
        Self { key: inactive.key.to_string(), why, since: clock.time(inactive.since) }
    }
}

/// The runs to show, and how many others there are.
fn last_runs(
    controller: &dyn AnyController,
    selection: &Selection<'_>,
) -> (Vec<(ObjectKey, Run)>, usize) {
    let Some(key) = &selection.key else {
        let recent = controller.recent_runs(selection.runs_max);
        return (recent.runs, recent.omitted);
    };
    let mut runs = controller.runs(key);
    runs.reverse();
    let omitted = runs.len().saturating_sub(selection.runs_max);
    runs.truncate(selection.runs_max);
    (runs.into_iter().map(|run| (key.clone(), run)).collect(), omitted)
}

impl JournalReport {
    fn of(status: &JournalStatus) -> Self {
        let JournalStatus { bytes, bytes_max, keys, shortened_keys, .. } = *status;
        Self { bytes, bytes_max, keys, shortened_keys }
    }
}

impl RunCounts {
    fn of(counts: &Counts) -> Self {
        let failed = counts.failed.iter();
        Self {
            runs: counts.runs(),
            done: counts.done,
            requeued: counts.requeued,
            failed: failed.map(|(class, count)| (camel_case(&class.to_string()), *count)).collect(),
            panicked: counts.panicked,
            timed_out: counts.timed_out,
            paused: counts.paused,
            owner_deleted: counts.owner_deleted,
            given_up: counts.given_up,
            behind: counts.behind,
            hot_loops: counts.hot_loops,
            took_seconds: counts.took.as_secs_f64(),
        }
    }
}

impl EventCounts {
    fn of(status: &RecorderStatus) -> Self {
        Self {
            recorded: status.recorded,
            merged: status.merged,
            dropped: status.dropped,
            written: status.written,
            failed: status.failed,
            queued: status.queued,
        }
    }
}

impl QueueReport {
    fn of(controller: &dyn AnyController, selection: &Selection<'_>, clock: Clock) -> Self {
        let queue = controller.queue();
        let load = queue.load();
        let keys = match &selection.key {
            // A snapshot copies every key while the queue is locked.
            None if selection.is_without_keys() => Vec::new(),
            None => queue.snapshot().keys,
            Some(key) => queue.status(key).into_iter().collect(),
        };
        let known = if selection.is_without_keys() { load.keys } else { keys.len() };
        let shown = keys.iter().take(selection.keys_max);
        Self {
            ready: load.ready,
            waiting: load.waiting,
            retry_debt_seconds: load.retry_debt.as_secs_f64(),
            keys: shown.filter_map(|status| KeyReport::of(status, clock)).collect(),
            omitted_keys: known.saturating_sub(selection.keys_max),
        }
    }
}

impl KeyReport {
    /// `None` if the key does nothing, which a queue does not return.
    pub(crate) fn of(status: &KeyStatus<ObjectKey, Cause>, clock: Clock) -> Option<Self> {
        let running = status.running.as_ref().map(|run| StateReport {
            state: KeyState::Running,
            since: clock.time(run.since),
            next_run: None,
            priority: None,
            causes: texts(run.causes.iter()),
            omitted_causes: run.causes.omitted(),
        });
        let next_run = status.next_run.as_ref().map(|run| StateReport::of_next(run, clock));
        let (now, again) = match running {
            Some(running) => (running, next_run),
            None => (next_run?, None),
        };
        let (key, failures) = (status.key.to_string(), status.failures);
        Some(Self { key, attempt: failures.saturating_add(1), failures, now, again })
    }
}

impl StateReport {
    fn of_next(run: &NextRun<Cause>, clock: Clock) -> Self {
        Self {
            state: if run.due.is_some() { KeyState::Waiting } else { KeyState::Ready },
            since: clock.time(run.since),
            next_run: run.due.map(|due| clock.time(due)),
            priority: Some(match run.priority {
                Priority::Low => "low",
                Priority::Normal => "normal",
                Priority::High => "high",
            }),
            causes: texts(run.causes.iter()),
            omitted_causes: run.causes.omitted(),
        }
    }
}

impl RunOutcome {
    pub(crate) fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Done => Self::Done,
            Outcome::RequeueAfter(_) => Self::Requeued,
            Outcome::Paused => Self::Paused,
            Outcome::OwnerDeleted { .. } => Self::OwnerDeleted,
            Outcome::Failed { .. } => Self::Failed,
            Outcome::Terminal { .. } => Self::Terminal,
            Outcome::Panicked { .. } => Self::Panicked,
            Outcome::TimedOut => Self::TimedOut,
            _ => Self::Other,
        }
    }
}

impl RunReport {
    pub(crate) fn of(key: &ObjectKey, run: &Run, clock: Clock) -> Self {
        let (class, message) = match &run.outcome {
            Outcome::Failed { class, message } | Outcome::Terminal { class, message } => {
                (Some(class), Some(message))
            }
            Outcome::Panicked { message } | Outcome::OwnerDeleted { message } => {
                (None, Some(message))
            }
            _ => (None, None),
        };
        let next_run = match run.outcome {
            Outcome::RequeueAfter(delay) => Some(delay),
            _ => run.retry_in,
        };
        let ended = run.started + run.took;
        // A delay that overflows the clock means never.
        let next_run = next_run.and_then(|delay| ended.checked_add(delay));
        Self {
            key: key.to_string(),
            id: run.id.to_string(),
            started: clock.time(run.started),
            queued_seconds: run.queued.as_secs_f64(),
            took_seconds: run.took.as_secs_f64(),
            attempt: run.attempt,
            causes: texts(run.causes.iter()),
            omitted_causes: run.causes_omitted,
            outcome: RunOutcome::of(&run.outcome),
            class: class.map(|class| camel_case(&class.to_string())),
            message: message.cloned(),
            next_run: next_run.map(|next| clock.time(next)),
            writes: texts(run.writes.iter()),
            omitted_writes: run.writes_omitted,
            events: texts(run.events.iter()),
        }
    }
}

fn texts<T: ToString>(items: impl Iterator<Item = T>) -> Vec<String> {
    items.map(|item| item.to_string()).collect()
}
