//! The log lines of a controller about its runs.
//!
//! A line says what is wrong, for which object, and what to do or what happens next.

use windlass_indexer::ObjectKey;

use crate::controller_core::ControllerCore;
use crate::error::{Class, list};
use crate::history::hot_loop::HotLoop;
use crate::history::journal::Noted;
use crate::history::run_record::{Outcome, Run};
use crate::history::watchdog::LongRun;

impl ControllerCore {
    /// Logs how a run ended. The outcome of `run` is shortened; `outcome` has the whole message.
    pub(crate) fn log_end(&self, key: &ObjectKey, run: &Run, outcome: &Outcome, noted: &Noted) {
        let controller = &*self.controller;
        let Run { id: reconcile_id, attempt, took, .. } = *run;
        let next = match run.retry_in {
            Some(_) => "is retried",
            None if run.gave_up => {
                "is given up: this was its last attempt, and it does not run before something \
                 changes"
            }
            None => "is not retried, because the controller is shutting down",
        };
        let retry_in = run.retry_in.map(tracing::field::debug);
        match outcome {
            Outcome::Done | Outcome::RequeueAfter(_) => {
                tracing::debug!(
                    controller, %key, %reconcile_id, attempt, ?took, ?outcome,
                    causes = %list(&run.causes), writes = %list(&run.writes), "reconciled"
                );
            }
            Outcome::Paused => {
                let annotation = self.pause.annotation().unwrap_or_default();
                tracing::info!(
                    controller, %key, %reconcile_id,
                    "the object is paused by its annotation {annotation}, and is not reconciled"
                );
            }
            // Said once: while an owner goes, each child that goes runs it.
            Outcome::OwnerDeleted { message } if noted.is_repeated => {
                tracing::debug!(controller, %key, %reconcile_id, "reconcile ended early: {message}");
            }
            Outcome::OwnerDeleted { message } => {
                tracing::info!(controller, %key, %reconcile_id, "reconcile ended early: {message}");
            }
            // Somebody else wrote first, which is not an error of the controller.
            Outcome::Failed { class: Class::Conflict, message } => {
                tracing::info!(
                    controller, %key, %reconcile_id, attempt, retry_in,
                    "reconcile met a conflict, and {next}: {message}"
                );
            }
            Outcome::Failed { class: Class::NotLeader | Class::StaleRead, message } => {
                tracing::info!(controller, %key, attempt, "reconcile stopped: {message}");
            }
            Outcome::Failed { class, message } => {
                tracing::warn!(
                    controller, %key, %reconcile_id, attempt, %class, retry_in,
                    "reconcile failed, and {next}: {message}{}", advice(*class)
                );
            }
            // Reported once, however often the object is seen again.
            Outcome::Terminal { class, message } if noted.is_repeated => {
                tracing::debug!(
                    controller, %key, %reconcile_id, attempt, %class, "reconcile failed as before: {message}"
                );
            }
            Outcome::Terminal { class, message } => {
                tracing::error!(
                    controller, %key, %reconcile_id, attempt, %class,
                    "reconcile failed, and is not retried before the object changes: {message}{}",
                    advice(*class)
                );
            }
            Outcome::Panicked { message } => {
                tracing::error!(
                    controller, %key, %reconcile_id, attempt, retry_in,
                    "the reconciler panicked, which is a bug in it, and {next} (the message of the \
                     panic hook, by default on standard error, says where): {message}"
                );
            }
            Outcome::TimedOut => {
                tracing::error!(
                    controller, %key, %reconcile_id, attempt, ?took, retry_in,
                    "the reconciler took too long, was cancelled, and {next}: look for what it \
                     awaits without a limit, or allow more time with ControllerBuilder::timeout"
                );
            }
        }
        if let Some(HotLoop { runs, write, .. }) = &noted.hot_loop {
            tracing::warn!(
                controller, %key, %reconcile_id, runs, write,
                "a hot loop: every run writes something that wakes the key again; write only what \
                 differs (no current time, no counter), or ignore the event with a predicate"
            );
        }
    }

    /// Warns that a run takes long. Without a timeout, nothing else would show it.
    pub(crate) fn log_long_run(&self, run: &LongRun) {
        let LongRun { key, id: reconcile_id, attempt, took } = run;
        let controller = &*self.controller;
        tracing::warn!(
            controller, %key, %reconcile_id, attempt,
            "the reconciler has been running for {} s, and keeps a worker busy: if it awaits \
             something without a limit, set one with ControllerBuilder::timeout; if it blocks its \
             thread (by std::thread::sleep, a blocking lock or call, a long computation), move \
             that to tokio::task::spawn_blocking",
            took.as_secs()
        );
    }
}

/// What to do about errors of a class.
fn advice(class: Class) -> &'static str {
    match class {
        Class::Forbidden => {
            "; grant the controller's account this right with a Role and a RoleBinding, or a \
             ClusterRole and its binding for cluster-scoped objects; if the status is 401 \
             (unauthorized), its credentials are invalid"
        }
        Class::Undecodable => "; fix the object, or its type in the controller",
        _ => "",
    }
}
