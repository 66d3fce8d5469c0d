//! What one round runs: every case for every contestant, each as a process of its own.
//!
//! The contestants of a case run directly after one another, so that a comparison within a round compares
//! neighbours. Every round begins with another of them: who comes first meets the server as it is after
//! another case, or after a restart.

use anyhow::{Context, Result};

use super::super::cases;
use super::super::line::{Metric, Who};
use super::super::rounds;
use super::super::targets::Target;

/// What is measured.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Case {
    pub(in super::super) name: &'static str,
    /// What the stage measures.
    pub(in super::super) metrics: &'static [Metric],
}

/// The cases and contestants of a run.
#[derive(Debug)]
pub(in super::super) struct Plan {
    cases: Vec<&'static Case>,
    whos: Vec<Who>,
    /// How many objects there are.
    items: u32,
}

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Run {
    pub(in super::super) case: &'static Case,
    pub(in super::super) who: Who,
    items: u32,
}

impl Plan {
    /// The runs with so many objects, of those `cases` that contain one of `parts`, for those of `whos` that are in
    /// `names`; of all, if there are none.
    ///
    /// # Errors
    /// If a part is in no case, or a name is no contestant's.
    pub(in super::super) fn new(
        (cases, whos): (&'static [Case], &[Who]),
        items: u32,
        parts: &[String],
        names: &[String],
    ) -> Result<Self> {
        for name in names {
            whos.iter().find(|who| who.name() == name).with_context(|| {
                let known: Vec<_> = whos.iter().map(|who| who.name()).collect();
                format!("--who {name}: it must be one of {}", known.join(", "))
            })?;
        }
        let is_chosen = |who: &Who| names.is_empty() || names.iter().any(|name| name == who.name());
        Ok(Self {
            cases: cases::chosen(cases, |case| case.name, parts)?,
            whos: whos.iter().copied().filter(is_chosen).collect(),
            items,
        })
    }

    /// All runs of a round, in the order in which they are shown.
    pub(in super::super) fn runs(&self) -> impl Iterator<Item = Run> {
        let items = self.items;
        let all = move |&case| self.whos.iter().map(move |&who| Run { case, who, items });
        self.cases.iter().flat_map(all)
    }

    /// All runs of this round, in the order in which they are made.
    pub(super) fn round(&self, round: u32) -> Vec<Run> {
        let mut runs: Vec<_> = self.runs().collect();
        for neighbours in runs.chunks_mut(self.whos.len()) {
            neighbours.rotate_left(round as usize % self.whos.len());
        }
        runs
    }

    /// Whether it runs a contestant that is written in Go.
    pub(super) fn needs_go(&self) -> bool {
        self.whos.iter().any(|who| who.is_go())
    }

    /// Whether it runs both sides of a target that wants something.
    pub(in super::super) fn measures(&self, target: &Target) -> bool {
        let has_case = self.cases.iter().any(|case| case.name == target.case);
        let has = |who| has_case && self.whos.contains(&who);
        target.wanted.is_some() && has(target.who) && target.against.is_none_or(has)
    }
}

impl rounds::Run for Run {
    fn case(&self) -> &'static str {
        self.case.name
    }

    fn who(&self) -> Who {
        self.who
    }

    fn items(&self) -> u32 {
        self.items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASES: &[Case] =
        &[Case { name: "sync", metrics: &[] }, Case { name: "sync-read", metrics: &[] }];
    const WHOS: &[Who] = &[Who::ClientGo, Who::KubeRuntime, Who::Windlass];

    fn plan(parts: &[&str], names: &[&str]) -> Result<Plan> {
        let [parts, names] =
            [parts, names].map(|words| words.iter().map(ToString::to_string).collect::<Vec<_>>());
        Plan::new((CASES, WHOS), 1000, &parts, &names)
    }

    fn shown(runs: impl IntoIterator<Item = Run>) -> Vec<String> {
        runs.into_iter().map(|run| format!("{} {}", run.case.name, run.who)).collect()
    }

    #[test]
    fn every_contestant_runs_every_case() {
        let plan = plan(&[], &[]).expect("everything");
        let shown = shown(plan.runs());
        assert_eq!(shown.len(), 2 * 3);
        assert_eq!(shown[2..4], ["sync windlass", "sync-read client-go"]);
        assert!(plan.needs_go());
    }

    #[test]
    fn rounds_begin_with_another_contestant_each() {
        let plan = plan(&[], &["client-go", "windlass"]).expect("some");
        let first =
            ["sync client-go", "sync windlass", "sync-read client-go", "sync-read windlass"];
        assert_eq!(shown(plan.round(0)), first);
        let second =
            ["sync windlass", "sync client-go", "sync-read windlass", "sync-read client-go"];
        assert_eq!(shown(plan.round(1)), second);
        assert_eq!(shown(plan.round(2)), first);
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        let error = plan(&["stop"], &[]).expect_err("there is no such case");
        assert!(error.to_string().ends_with("sync, sync-read"), "{error:#}");
        let error = plan(&[], &["windlass-arcstr"]).expect_err("this is a queue");
        assert_eq!(
            error.to_string(),
            "--who windlass-arcstr: it must be one of client-go, kube-runtime, windlass"
        );
    }

    #[test]
    fn plan_without_go_needs_none() {
        let plan = plan(&["read"], &["windlass"]).expect("one");
        assert_eq!(shown(plan.runs()), ["sync-read windlass"]);
        assert!(!plan.needs_go());
    }
}
