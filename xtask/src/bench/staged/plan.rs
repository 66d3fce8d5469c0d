//! What one round runs: every case for every contestant, each as a process of its own.
//!
//! The contestants of a case run directly after one another, so that a comparison within a round compares
//! neighbours; or, where the case says so, at the same time. Every round begins with another of them: who comes first
//! meets the server as it is after another case, or after a restart.

use anyhow::{Context, Result, ensure};

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
    /// Whether its contestants run at the same time.
    at_once: bool,
}

/// The cases and contestants of a run.
#[derive(Debug)]
pub(in super::super) struct Plan {
    cases: Vec<&'static Case>,
    whos: Vec<Who>,
    /// How many objects there are.
    items: u32,
}

/// A contestant in a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Entry {
    pub(in super::super) case: &'static Case,
    pub(in super::super) who: Who,
}

/// Contestants that run a case at the same time; mostly it is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Run {
    pub(in super::super) case: &'static Case,
    pub(in super::super) whos: Vec<Who>,
    items: u32,
}

impl Case {
    /// A case whose contestants run one after the other.
    pub(in super::super) const fn in_turn(name: &'static str, metrics: &'static [Metric]) -> Self {
        Self { name, metrics, at_once: false }
    }

    /// A case whose contestants run at the same time.
    pub(in super::super) const fn at_once(name: &'static str, metrics: &'static [Metric]) -> Self {
        Self { name, metrics, at_once: true }
    }
}

impl Plan {
    /// The runs with so many objects, of those `cases` that contain one of `parts`, for those of `whos` that are in
    /// `names`; of all, if there are none. Cases whose contestants run at the same time are left out where these are not
    /// all of them.
    ///
    /// # Errors
    /// If a part is in no case, a name is no contestant's, or nothing is left.
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
        let chosen: Vec<_> = whos.iter().copied().filter(is_chosen).collect();
        let mut cases = cases::chosen(cases, |case| case.name, parts)?;
        // With fewer contestants beside it, a contestant would meet another load under the same name.
        cases.retain(|case| !case.at_once || chosen.len() == whos.len());
        ensure!(
            !cases.is_empty(),
            "--who leaves nothing to run: the contestants of these cases run at the same time"
        );
        Ok(Self { cases, whos: chosen, items })
    }

    /// Everyone in every case, in the order in which they are shown.
    pub(in super::super) fn entries(&self) -> impl Iterator<Item = Entry> {
        let all = |&case| self.whos.iter().map(move |&who| Entry { case, who });
        self.cases.iter().flat_map(all)
    }

    /// All runs of this round, in the order in which they are made.
    pub(super) fn round(&self, round: u32) -> Vec<Run> {
        let mut whos = self.whos.clone();
        whos.rotate_left(round as usize % self.whos.len());
        let of = |&case: &&'static Case| {
            let together = if case.at_once { whos.len() } else { 1 };
            let run = |whos: &[Who]| Run { case, whos: whos.to_vec(), items: self.items };
            whos.chunks(together).map(run).collect::<Vec<_>>()
        };
        self.cases.iter().flat_map(of).collect()
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

    fn whos(&self) -> Vec<Who> {
        self.whos.clone()
    }

    fn items(&self) -> u32 {
        self.items
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::line::names;
    use super::*;

    const CASES: &[Case] = &[Case::in_turn("sync", &[]), Case::at_once("beside", &[])];
    const WHOS: &[Who] = &[Who::ClientGo, Who::KubeRuntime, Who::Windlass];

    fn plan(parts: &[&str], names: &[&str]) -> Result<Plan> {
        let [parts, names] =
            [parts, names].map(|words| words.iter().map(ToString::to_string).collect::<Vec<_>>());
        Plan::new((CASES, WHOS), 1000, &parts, &names)
    }

    fn shown(runs: &[Run]) -> Vec<String> {
        runs.iter().map(|run| format!("{}: {}", run.case.name, names(&run.whos))).collect()
    }

    fn entries(plan: &Plan) -> Vec<String> {
        plan.entries().map(|Entry { case, who }| format!("{} {who}", case.name)).collect()
    }

    #[test]
    fn every_contestant_runs_every_case() {
        let plan = plan(&[], &[]).expect("everything");
        let shown = entries(&plan);
        assert_eq!(shown.len(), 2 * 3);
        assert_eq!(shown[2..4], ["sync windlass", "beside client-go"]);
        assert!(plan.needs_go());
    }

    #[test]
    fn rounds_begin_with_another_contestant_each() {
        let plan = plan(&[], &[]).expect("everything");
        let alone = ["sync: client-go", "sync: kube-runtime", "sync: windlass"];
        let beside = ["beside: client-go, kube-runtime, windlass"];
        assert_eq!(shown(&plan.round(0)), [&alone[..], &beside].concat());
        assert_eq!(shown(&plan.round(3)), shown(&plan.round(0)));
        let alone = ["sync: kube-runtime", "sync: windlass", "sync: client-go"];
        let beside = ["beside: kube-runtime, windlass, client-go"];
        assert_eq!(shown(&plan.round(1)), [&alone[..], &beside].concat());
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        let error = plan(&["stop"], &[]).expect_err("there is no such case");
        assert!(error.to_string().ends_with("sync, beside"), "{error:#}");
        let error = plan(&[], &["windlass-arcstr"]).expect_err("this is a queue");
        assert_eq!(
            error.to_string(),
            "--who windlass-arcstr: it must be one of client-go, kube-runtime, windlass"
        );
    }

    #[test]
    fn plan_without_go_needs_none() {
        let plan = plan(&["sync"], &["windlass"]).expect("one");
        assert_eq!(entries(&plan), ["sync windlass"]);
        assert!(!plan.needs_go());
    }

    #[test]
    fn contestants_that_run_at_the_same_time_are_all_there_or_none() {
        let some = plan(&[], &["client-go", "windlass"]).expect("the other case");
        assert_eq!(entries(&some), ["sync client-go", "sync windlass"]);
        let all = plan(&["beside"], &["windlass", "kube-runtime", "client-go"]).expect("all");
        assert_eq!(entries(&all).len(), 3);
        let error = plan(&["beside"], &["windlass"]).expect_err("nothing is left");
        assert!(error.to_string().contains("at the same time"), "{error:#}");
    }
}
