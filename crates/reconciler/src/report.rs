//! The log lines of a controller: one for each run, and one for each loop.
//!
//! A line says what is wrong, for which object, and what to do or what follows by itself.

use std::time::Duration;

use windlass_indexer::ObjectKey;

use crate::error::Class;
use crate::journal::{Circles, Outcome};

/// How many runs in a row that wake themselves are a loop, for the first time; then each ten times as many.
const LOOP_AT: u64 = 10;

/// Which run a line is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunOf<'a> {
    pub(crate) controller: &'a str,
    pub(crate) key: &'a ObjectKey,
    pub(crate) attempt: u32,
}

impl RunOf<'_> {
    /// How it ended. A failure that is final is told once, however often the object is shown again.
    pub(crate) fn report(self, outcome: &Outcome, took: Duration, is_repeated: bool) {
        let Self { controller, key, attempt } = self;
        match outcome {
            Outcome::Done | Outcome::RequeueAfter(_) => {
                tracing::debug!(controller, %key, attempt, ?took, ?outcome, "reconciled");
            }
            // Somebody else was first, which is nobody's mistake.
            Outcome::Failed { class: Class::Conflict, message, retry_in } => {
                tracing::info!(
                    controller, %key, attempt, ?retry_in,
                    "reconcile met a conflict, and starts anew: {message}"
                );
            }
            Outcome::Failed { class, message, retry_in } => {
                tracing::warn!(
                    controller, %key, attempt, %class, ?retry_in,
                    "reconcile failed: {message}{}", advice(*class)
                );
            }
            Outcome::Terminal { class, message } if is_repeated => {
                tracing::debug!(controller, %key, attempt, %class, "reconcile failed as before: {message}");
            }
            Outcome::Terminal { class, message } => {
                tracing::error!(
                    controller, %key, attempt, %class,
                    "reconcile failed, and is not tried again before the object changes: {message}{}",
                    advice(*class)
                );
            }
            Outcome::Panicked { message, retry_in } => {
                tracing::error!(
                    controller, %key, attempt, ?retry_in,
                    "the reconciler panicked, which is a bug in it to be mended (the panic's own message says where, on the \
                     standard error output unless there is a hook), and is tried again: {message}"
                );
            }
            Outcome::TimedOut { retry_in } => {
                tracing::error!(
                    controller, %key, attempt, ?took, ?retry_in,
                    "the reconciler took too long, was cancelled, and is tried again: look for what it awaits without a \
                     limit, or give it more by ControllerBuilder::timeout"
                );
            }
        }
    }

    /// It takes long. Nothing else would tell, if it has no timeout.
    pub(crate) fn report_long(self, took: Duration) {
        let Self { controller, key, attempt } = self;
        tracing::warn!(
            controller, %key, attempt,
            "the reconciler has been running for {} s, and keeps a worker busy: if it awaits \
             something without a limit, set one with ControllerBuilder::timeout; if it blocks its \
             thread (by std::thread::sleep, a blocking lock or call, a long computation), move \
             that to tokio::task::spawn_blocking",
            took.as_secs()
        );
    }

    /// A key that its own writes wake. Returns whether it is a loop from now on.
    pub(crate) fn report_circles(self, circles: &Circles) -> bool {
        let Self { controller, key, .. } = self;
        let (runs, write) = (circles.runs, &*circles.write);
        if runs >= LOOP_AT && is_power_of_ten(runs) {
            tracing::warn!(
                controller, %key, runs, write,
                "a hot loop: every run writes something that wakes the key again; write only what differs (no time of \
                 now, no counter), or pass the event over by a predicate"
            );
        }
        runs == LOOP_AT
    }
}

/// What to do about a class of errors.
fn advice(class: Class) -> &'static str {
    match class {
        Class::Forbidden => {
            "; give the controller's account the right by a Role and a RoleBinding, or a ClusterRole and its \
             binding for what is in no namespace; if it is unauthorized (401), its credentials are not valid"
        }
        Class::Undecodable => "; mend the object, or its type in the controller",
        _ => "",
    }
}

fn is_power_of_ten(mut number: u64) -> bool {
    while number >= 10 && number.is_multiple_of(10) {
        number /= 10;
    }
    number == 1
}
