//! Why the controller ran, in words: its journal, read as long as it lasts.
//!
//! The journal keeps the last few runs of each key, so it has to be [read](Told::read) now and
//! then; [`lines`](Told::lines) then words what was read since the last time. Runs that found
//! nothing to do share a line, and so do tries that failed alike: a controller looks far more often
//! than it acts.

use std::collections::BTreeMap;

use tokio::time::Instant;
use windlass::indexer::ObjectKey;
use windlass::reconciler::{Controller, Outcome, Run};

use crate::foo::Foo;

/// What was read of the journal, and what of that was told.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// When the last run that was read began, of every Foo that ever was.
    read: BTreeMap<ObjectKey, Instant>,
    /// Read, and not told yet.
    new: Vec<(ObjectKey, Run)>,
}

impl Told {
    /// Reads what is new of Foos in the journal: of those that are there, and those that were.
    pub(crate) fn read(&mut self, controller: &Controller<Foo>) {
        let there = controller.lister().list();
        let mut keys: Vec<ObjectKey> = there.iter().map(|foo| foo.key().clone()).collect();
        keys.extend(self.read.keys().cloned());
        for key in keys {
            for run in controller.runs(&key) {
                if self.read.get(&key).is_none_or(|last| run.started > *last) {
                    self.read.insert(key.clone(), run.started);
                    self.new.push((key.clone(), run));
                }
            }
        }
    }

    /// What is to be said of the runs that were not told yet.
    pub(crate) fn lines(&mut self) -> Vec<String> {
        let mut runs = std::mem::take(&mut self.new);
        runs.sort_by(|(foo, one), (other, next)| (foo, one.started).cmp(&(other, next.started)));
        runs.chunk_by(|(foo, one), (other, next)| foo == other && are_alike(one, next))
            .map(line)
            .collect()
    }
}

/// Whether two runs in a row are worth one line.
fn are_alike(one: &Run, next: &Run) -> bool {
    match (&one.outcome, &next.outcome) {
        (Outcome::Done, Outcome::Done) => one.writes.is_empty() && next.writes.is_empty(),
        (Outcome::Failed { message: one, .. }, Outcome::Failed { message: next, .. }) => {
            one == next
        }
        _ => false,
    }
}

/// What is to be said of runs that are alike.
fn line(runs: &[(ObjectKey, Run)]) -> String {
    let (Some((foo, first)), Some((_, last))) = (runs.first(), runs.last()) else {
        return String::new();
    };
    let times = if runs.len() > 1 { format!(" {} times", runs.len()) } else { String::new() };
    let mut because = causes(first);
    if causes(last) != because {
        because = format!("{because} … {}", causes(last));
    }
    let mut steps = vec![format!("{foo} ran{times}, because: {because}")];
    steps.extend(last.writes.iter().map(ToString::to_string));
    steps.push(match &last.outcome {
        Outcome::Done if last.writes.is_empty() => "nothing to do".to_owned(),
        Outcome::Done => format!("done in {:.1?}", last.took),
        Outcome::Failed { message, .. } => match last.retry_in {
            Some(delay) => format!("{message}; to be tried again in {delay:.0?}"),
            None => format!("{message}; not tried again, because the controller stops"),
        },
        Outcome::Terminal { message, .. } => format!("{message}; no retry helps"),
        outcome => format!("{outcome:?}"),
    });
    steps.join(" → ")
}

fn causes(run: &Run) -> String {
    let mut causes: Vec<String> = run.causes.iter().map(ToString::to_string).collect();
    // A change may count for what the object was and for what it is.
    causes.dedup();
    causes.join("; ")
}
