//! What follows a run, once:
//!
//! 1. A retry or a delayed run is scheduled.
//! 2. What the run has written is stored, for the next run to wait until the caches show it.
//! 3. The run is noted in the journal, logged, and shown to the user.
//! 4. The key is released.
//!
//! The release is the last step, because from then on the key may run on another worker: that run
//! must find its retry superseded, the writes to wait for, and the journal up to date.

use std::sync::Arc;
use std::time::Duration;

use windlass_indexer::ObjectKey;
use windlass_workqueue::{Add, Lease, MAX_DELAY, Priority};

use crate::cause::Cause;
use crate::controller_core::ControllerCore;
use crate::error::{Class, Error};
use crate::guard::{PANIC_ADVICE, caught};
use crate::history::finished::FailedRun;
use crate::history::inactive::InactiveReason;
use crate::history::journal::MESSAGE_MAX;
use crate::history::run_record::{Outcome, Run};
use crate::run::context::RunContext;
use crate::worker::call::RunResult;

/// The lease of a key that a worker has taken.
pub(crate) type KeyLease = Lease<ObjectKey, Cause>;

/// What follows a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The key runs again if something changes, or after the delay of `RequeueAfter`.
    NoRetry,
    Retry(Duration),
    /// The key would be retried, but this was its last attempt.
    GiveUp,
}

impl ControllerCore {
    /// Ends a run that has taken this long.
    pub(crate) fn settle(
        &self,
        mut lease: KeyLease,
        cx: &mut RunContext,
        result: RunResult,
        took: Duration,
    ) {
        let next = self.schedule(&mut lease, cx.attempt, &result);
        let kept = cx.close_write_log();
        let outcome = &result.outcome;
        if let (Some(open), Some(writes)) = (self.plan.get(), &cx.plan) {
            open.plan.lock().note(&cx.key, writes, outcome);
        }
        let run = Arc::new(Run {
            id: cx.id,
            started: cx.started,
            queued: lease.queued(),
            took,
            attempt: cx.attempt,
            causes: std::mem::take(&mut cx.causes),
            causes_omitted: cx.causes_omitted,
            cache_behind: cx.cache_behind(),
            outcome: outcome.shortened(MESSAGE_MAX),
            retry_in: match next {
                // During a shutdown no worker takes the retry, so none is reported.
                Next::Retry(delay) if !cx.shutdown.has_begun() => Some(delay),
                _ => None,
            },
            gave_up: next == Next::GiveUp,
            writes: kept.writes,
            writes_omitted: kept.omitted,
            events: std::mem::take(&mut cx.events.lock()),
            is_shortened: false,
            made: Box::default(),
        });
        let noted = self.journal.record(&cx.key, Arc::clone(&run));
        self.log_end(&cx.key, &run, outcome, &noted);
        self.notify_users(&cx.key, &run, result.error);
        self.release(lease, &run, cx);
    }

    /// Adds the key again if the outcome asks for it; it runs after the lease has ended.
    fn schedule(&self, lease: &mut KeyLease, attempt: u32, result: &RunResult) -> Next {
        let RunResult { outcome, error, delay, priority } = result;
        if let Some(priority) =
            error.as_ref().and_then(|error| self.priority_of_retry(lease.key(), error))
        {
            lease.set_priority(priority);
        }
        let delay = delay.map(|delay| delay.after(attempt - 1).min(MAX_DELAY));
        match (outcome, delay) {
            (
                Outcome::Done
                | Outcome::Paused
                | Outcome::OwnerDeleted { .. }
                | Outcome::Terminal { .. },
                _,
            ) => Next::NoRetry,
            (Outcome::RequeueAfter(delay), _) => {
                let (key, add) = (lease.key().clone(), Add::after((*delay).min(MAX_DELAY)));
                self.enqueuer.add(key, add, Cause::Timer, *priority);
                Next::NoRetry
            }
            // The key is not to blame, so no failure of it is counted. Here and below,
            // scheduling fails only after shut-down, when the key does not run again.
            (Outcome::Failed { class: Class::NotLeader | Class::StaleRead, .. }, Some(delay)) => {
                lease.schedule_defer(delay).map_or(Next::NoRetry, |()| Next::Retry(delay))
            }
            _ if self.max_attempts.is_some_and(|max| attempt >= max) => Next::GiveUp,
            (_, delay) => lease.schedule_retry(delay).map_or(Next::NoRetry, Next::Retry),
        }
    }

    /// What the user's policy says about the priority of a retry.
    fn priority_of_retry(&self, key: &ObjectKey, error: &Error) -> Option<Priority> {
        let policy = self.retry_priority.as_ref()?;
        let priority = caught(|| policy(key, error));
        if priority.is_none() {
            let controller = &*self.controller;
            tracing::error!(
                controller,
                %key,
                "the policy for the priority of retries panicked; {PANIC_ADVICE}"
            );
        }
        priority
    }

    /// Calls the hook for errors, and sends the run to the subscribers of finished runs.
    fn notify_users(&self, key: &ObjectKey, run: &Arc<Run>, error: Option<Error>) {
        let controller = &*self.controller;
        if let Some(hook) = self.on_error.as_ref().filter(|_| run.outcome.is_failure()) {
            let failed = FailedRun { controller, key, run, error: error.as_ref() };
            if caught(|| hook(&failed)).is_none() {
                tracing::error!(controller, %key, "the hook for errors panicked; {PANIC_ADVICE}");
            }
        }
        // Dropping an error is user code, too.
        let _ = caught(|| drop(error));
        self.subscribers.send(key, run);
    }

    /// Ends the lease, as the last step: then the key may run again on another worker. Finishing it
    /// forgets the failures of the key; dropping it keeps their count.
    fn release(&self, lease: KeyLease, run: &Run, cx: &RunContext) {
        let inactive = match &run.outcome {
            Outcome::Paused => Some(InactiveReason::Paused),
            // The hook made nothing, but the object is left alone all the same.
            Outcome::OwnerDeleted { .. } if cx.is_paused => Some(InactiveReason::Paused),
            Outcome::Terminal { .. } => Some(InactiveReason::Terminal),
            _ => run.gave_up.then_some(InactiveReason::GivenUp),
        };
        if let Some(why) = inactive {
            self.inactive.insert(lease.key(), why, cx.is_paused);
        }
        self.run_again_if_pause_changed(cx);
        // A key that was given up has all of its attempts again. A terminal error may persist, so
        // its failures are kept.
        let forgets_failures = match &run.outcome {
            Outcome::Done
            | Outcome::RequeueAfter(_)
            | Outcome::Paused
            | Outcome::OwnerDeleted { .. } => true,
            _ => run.gave_up,
        };
        if forgets_failures {
            lease.finish();
        }
    }

    /// Adds a key again if its object was paused during the run, or its pause has ended. The event
    /// may have come before the key was noted as paused, and a predicate may have ignored it.
    fn run_again_if_pause_changed(&self, cx: &RunContext) {
        let Some(object) = self.objects.get(&cx.key) else { return };
        let is_as_before = cx.object.as_ref().is_some_and(|before| Arc::ptr_eq(before, &object));
        if !is_as_before && self.pause.is_paused(&object) != cx.is_paused {
            let cause = Cause::updated(&self.primary, object.head());
            self.enqueuer.add(cx.key.clone(), Add::now(), cause, None);
        }
    }
}
