//! Why the controller ran, in words: the journal, as far as it was not told yet.

use std::collections::BTreeMap;

use tokio::time::Instant;
use windlass::indexer::ObjectKey;
use windlass::reconciler::{Controller, Outcome, Run};

use crate::foo::Foo;

/// Which runs were told.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// When the last one that was told of a Foo began.
    last: BTreeMap<ObjectKey, Instant>,
}

impl Told {
    /// A line for each run of a Foo that was not told yet; those that failed alike share theirs.
    pub(crate) fn news(&mut self, controller: &Controller<Foo>, foo: &ObjectKey) -> Vec<String> {
        let last = self.last.get(foo).copied();
        let mut runs = controller.runs(foo);
        runs.retain(|run| last.is_none_or(|last| run.started > last));
        if let Some(newest) = runs.last() {
            self.last.insert(foo.clone(), newest.started);
        }
        runs.chunk_by(failed_alike).map(|runs| line(foo, runs)).collect()
    }
}

fn failed_alike(one: &Run, next: &Run) -> bool {
    match (&one.outcome, &next.outcome) {
        (Outcome::Failed { message: one, .. }, Outcome::Failed { message: next, .. }) => {
            one == next
        }
        _ => false,
    }
}

/// What is to be said of runs that ended alike.
fn line(foo: &ObjectKey, runs: &[Run]) -> String {
    let (Some(first), Some(last)) = (runs.first(), runs.last()) else { return String::new() };
    let causes: Vec<String> = first.causes.iter().map(ToString::to_string).collect();
    let ended = match &last.outcome {
        Outcome::Done => format!("done in {:.1?}", last.took),
        Outcome::Failed { message, retry_in, .. } => {
            format!("try {} failed: {message}; the next one comes in {retry_in:.0?}", last.attempt)
        }
        Outcome::Terminal { message, .. } => format!("failed, and no retry helps: {message}"),
        outcome => format!("{outcome:?}"),
    };
    let mut steps = vec![format!("{foo} ran, because: {}", causes.join("; "))];
    steps.extend(last.writes.iter().map(ToString::to_string));
    steps.push(ended);
    steps.join(" → ")
}
