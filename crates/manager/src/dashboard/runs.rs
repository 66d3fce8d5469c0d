//! One page of the last runs, of one controller or of all.
//!
//! The journals are locked while the runs are copied. So the copy is shared by all pages and
//! filters for a while.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use windlass_indexer::ObjectKey;
use windlass_reconciler::Run;

use super::kept::refresh_seconds;
use super::keys::KeyFilter;
use super::{Shared, page_limit, paged};
use crate::http::report::{Clock, RunOutcome, RunReport, Time, Unknown};
use crate::state::State;

/// How many of the last runs of each controller are listed.
const RUNS_MAX: usize = 5_000;

/// The outcomes that are errors. The share of failed runs that the page shows counts the same ones.
const ERRORS: &[RunOutcome] =
    &[RunOutcome::Failed, RunOutcome::Terminal, RunOutcome::Panicked, RunOutcome::TimedOut];

/// What `/api/runs` is asked for. An empty text stands for all.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RunsQuery {
    controller: String,
    namespace: String,
    search: String,
    outcome: String,
    offset: usize,
    limit: Option<usize>,
}

/// What `/api/runs` answers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunsPage {
    time: Time,
    /// How many runs the filters select.
    total: usize,
    offset: usize,
    /// The newest first.
    runs: Vec<RunRow>,
    /// When to ask again.
    refresh_seconds: u64,
}

#[derive(Serialize)]
struct RunRow {
    controller: String,
    kind: String,
    #[serde(flatten)]
    run: RunReport,
}

/// A run of a controller.
pub(super) struct KnownRun {
    controller: String,
    kind: String,
    key: ObjectKey,
    run: Run,
}

impl KnownRun {
    /// The last runs of all controllers, the newest first.
    fn all(state: &State) -> Vec<Self> {
        let mut known = Vec::new();
        for shown in state.controllers() {
            let controller = shown.controller.name();
            let kind = shown.reconciled().map_or_else(String::new, |of| of.kind().to_owned());
            let runs = shown.controller.recent_runs(RUNS_MAX).runs.into_iter();
            known.extend(runs.map(|(key, run)| Self {
                controller: controller.to_owned(),
                kind: kind.clone(),
                key,
                run,
            }));
        }
        known.sort_by_key(|of| Reverse(of.run.started + of.run.took));
        known
    }
}

impl RunsPage {
    pub(super) fn new(shared: &Shared, query: &RunsQuery) -> Result<Self, Unknown> {
        let controller = Some(query.controller.as_str()).filter(|name| !name.is_empty());
        if let Some(name) = controller {
            shared.controller(name)?;
        }
        let outcomes = match query.outcome.as_str() {
            "" | "all" => None,
            name => Some(parse(name)?),
        };
        let clock = Clock::now();
        let (known, cost) = shared.runs.get(|| KnownRun::all(&shared.state));
        let filtering = Instant::now();
        let mut filter = KeyFilter::new(&query.namespace, &query.search);
        let selected = known.iter().filter(|of| {
            controller.is_none_or(|name| of.controller == name)
                && outcomes.is_none_or(|any| any.contains(&RunOutcome::of(&of.run.outcome)))
                && filter.selects(&of.key)
        });
        let (runs, total) = paged(selected, query.offset, page_limit(query.limit));
        let rows = runs.into_iter().map(|of| RunRow {
            controller: of.controller.clone(),
            kind: of.kind.clone(),
            run: RunReport::of(&of.key, &of.run, clock),
        });
        Ok(Self {
            time: clock.now_as_time(),
            total,
            offset: query.offset,
            runs: rows.collect(),
            refresh_seconds: refresh_seconds(cost + filtering.elapsed()),
        })
    }
}

/// The outcomes that a filter selects: one by its name in a report, or all errors.
fn parse(name: &str) -> Result<&'static [RunOutcome], Unknown> {
    let outcomes: &'static [RunOutcome] = match name {
        "errors" => ERRORS,
        "done" => &[RunOutcome::Done],
        "requeued" => &[RunOutcome::Requeued],
        "paused" => &[RunOutcome::Paused],
        "ownerDeleted" => &[RunOutcome::OwnerDeleted],
        "failed" => &[RunOutcome::Failed],
        "terminal" => &[RunOutcome::Terminal],
        "panicked" => &[RunOutcome::Panicked],
        "timedOut" => &[RunOutcome::TimedOut],
        _ => {
            let known = "all, errors, done, requeued, paused, ownerDeleted, failed, terminal, \
                         panicked, timedOut";
            return Err(Unknown::Value { what: "outcome", value: name.to_owned(), known });
        }
    };
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use serde_json::to_value;

    use super::*;

    #[test]
    fn outcomes_are_selected_by_their_names_in_a_report() {
        use RunOutcome::{
            Done, Failed, OwnerDeleted, Panicked, Paused, Requeued, Terminal, TimedOut,
        };
        for outcome in [Done, Requeued, Paused, OwnerDeleted, Failed, Terminal, Panicked, TimedOut]
        {
            let name = to_value(outcome).expect("an outcome must be JSON");
            let selected = parse(name.as_str().expect("a text")).ok();
            assert_eq!(selected, Some(&[outcome][..]), "{name}");
        }
        assert_eq!(parse("errors").ok(), Some(&[Failed, Terminal, Panicked, TimedOut][..]));
    }
}
