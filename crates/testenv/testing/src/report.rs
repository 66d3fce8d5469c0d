//! The message of a failed test: the line that failed, the state of the controllers, and the causes
//! of their last runs.

use std::error::Error;
use std::fmt::Write as _;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use windlass::prelude::ObjectKey;
use windlass::reconciler::{AnyController, Cause, Outcome, Run};
use windlass::workqueue::KeyStatus;

use crate::part::Runnable;

/// How many keys of a controller are shown.
const KEYS: usize = 10;

/// How many of its last runs are shown.
const RUNS: usize = 5;

/// Ends the test. The line of the test comes last, because the panic itself is in this crate.
#[track_caller]
pub(crate) fn fail(at: &Location<'_>, message: &str) -> ! {
    panic!("{}\n\nin the test at {at}", message.trim_end());
}

/// Returns an error with all of its causes, unless its own text contains them already.
pub(crate) fn causes(error: &dyn Error) -> String {
    let (mut text, mut next) = (error.to_string(), error.source());
    while let Some(error) = next {
        let cause = error.to_string();
        if !text.contains(&cause) {
            let _ = write!(text, ": {cause}");
        }
        next = error.source();
    }
    text
}

/// Describes the state of everything, and its last runs with their causes.
pub(crate) fn state(runnables: &[Arc<Runnable>]) -> String {
    let mut text = String::new();
    for part in runnables {
        if let Some(failure) = part.failure() {
            let _ = writeln!(text, "{failure}");
        }
        if let Some(obstacle) = part.obstacle() {
            let _ = writeln!(text, "{}: {obstacle}", part.name);
        }
        for controller in part.controllers() {
            describe(&mut text, &*controller);
        }
    }
    text
}

fn describe(text: &mut String, controller: &dyn AnyController) {
    let (snapshot, recent) = (controller.queue().snapshot(), controller.recent_runs(RUNS));
    if snapshot.keys.is_empty() && recent.runs.is_empty() {
        return;
    }
    let _ = writeln!(text, "the controller {:?}:", controller.name());
    for status in snapshot.keys.iter().take(KEYS) {
        let _ = writeln!(text, "  {}", describe_key(status));
    }
    if snapshot.keys.len() > KEYS {
        let _ = writeln!(text, "  and {} more keys", snapshot.keys.len() - KEYS);
    }
    if !recent.runs.is_empty() {
        let _ = writeln!(text, "  its last runs, the newest first:");
    }
    for (key, run) in &recent.runs {
        let _ = writeln!(text, "  - {}", describe_run(key, run));
    }
}

/// Describes the state of a key, and its cause.
fn describe_key(status: &KeyStatus<ObjectKey, Cause>) -> String {
    let key = &status.key;
    let mut text = match (&status.running, &status.next_run) {
        (Some(run), _) => format!("{key} runs{}", because(run.causes.iter())),
        (None, Some(run)) => {
            let state = if run.due.is_some() { "waits" } else { "is ready" };
            format!("{key} {state}{}", because(run.causes.iter()))
        }
        (None, None) => key.to_string(),
    };
    if status.failures > 0 {
        let _ = write!(text, ", after {} failures", status.failures);
    }
    text
}

fn describe_run(key: &ObjectKey, run: &Run) -> String {
    let mut text = format!("{key} {}{}", outcome(&run.outcome), because(run.causes.iter()));
    if let Some(retry_in) = run.retry_in {
        let _ = write!(text, ", and is retried after {}", short(retry_in));
    }
    for (number, write) in run.writes.iter().enumerate() {
        let _ = write!(text, "{} {write}", if number == 0 { "; wrote:" } else { "," });
    }
    text
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done => "was done".to_owned(),
        Outcome::RequeueAfter(after) => {
            format!("was done, and asked to run after {}", short(*after))
        }
        Outcome::OwnerDeleted { message } => format!("ended early ({message})"),
        Outcome::Failed { message, .. } => format!("failed ({message})"),
        Outcome::Terminal { message, .. } => format!("failed for good ({message})"),
        Outcome::Panicked { message } => format!("panicked ({message})"),
        Outcome::TimedOut => "took too long".to_owned(),
        other => format!("ended as {other:?}"),
    }
}

fn because<'c>(causes: impl Iterator<Item = &'c Cause>) -> String {
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    if causes.is_empty() { String::new() } else { format!(" because of {}", causes.join("; ")) }
}

/// Formats a duration for people.
pub(crate) fn short(duration: Duration) -> String {
    match duration.as_millis() {
        0..1_000 => format!("{} ms", duration.as_millis()),
        1_000..120_000 => format!("{} s", duration.as_secs_f64()),
        _ => format!("{} min", duration.as_secs() / 60),
    }
}
