//! What one round runs: every case for every contestant, each as a process of its own.
//!
//! The contestants of a case run directly after one another, so that a comparison within a round compares
//! neighbours. Every round begins with another of them: who comes first meets the server as it is after
//! another case, or after a restart.

use anyhow::{Context, Result, ensure};

use super::super::line::{Metric, Who};
use super::super::targets::Target;

/// How many pods there are unless told otherwise: enough to see, and quick.
pub(super) const PODS: u32 = 10_000;

/// How many updates a burst has: enough for a 99th percentile.
const UPDATES: u32 = 2000;

/// Every contestant, in the order in which they are shown.
const WHOS: [Who; 6] = [
    Who::ClientGo,
    Who::ControllerRuntime,
    Who::KubeRuntime,
    Who::Windlass,
    Who::WindlassResident,
    Who::WindlassSlim,
];

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    /// A first list of all pods.
    Sync,
    /// The same with a handler that reads every pod.
    SyncRead,
    /// Updates at a steady pace.
    Burst,
    /// A second list, after a watch that cannot be resumed.
    Relist,
}

/// The cases and contestants of a run.
#[derive(Debug)]
pub(super) struct Plan {
    cases: Vec<Case>,
    whos: Vec<Who>,
    pods: u32,
}

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) case: Case,
    pub(super) who: Who,
}

/// Reads the name of a contestant from the command line.
///
/// # Errors
/// If there is none of that name.
pub(super) fn who(text: &str) -> Result<Who> {
    let found = WHOS.into_iter().find(|who| who.name() == text);
    found.with_context(|| format!("it must be one of {}", WHOS.map(Who::name).join(", ")))
}

impl Plan {
    /// The runs with so many pods of the cases that contain one of `parts`, for `whos`; of all, if there are
    /// none.
    ///
    /// # Errors
    /// If a part is in no case.
    pub(super) fn new(pods: u32, parts: &[String], whos: &[Who]) -> Result<Self> {
        for part in parts {
            ensure!(
                Case::ALL.iter().any(|case| case.name().contains(part)),
                "--case {part}: no case has this in its name; the cases are {}",
                Case::ALL.map(Case::name).join(", ")
            );
        }
        let is_asked =
            |case: &Case| parts.is_empty() || parts.iter().any(|part| case.name().contains(part));
        let is_chosen = |who: &Who| whos.is_empty() || whos.contains(who);
        Ok(Self {
            cases: Case::ALL.into_iter().filter(is_asked).collect(),
            whos: WHOS.into_iter().filter(is_chosen).collect(),
            pods,
        })
    }

    /// All runs of a round, in the order in which they are shown.
    pub(super) fn runs(&self) -> impl Iterator<Item = Run> {
        self.cases.iter().flat_map(|&case| self.whos.iter().map(move |&who| Run { case, who }))
    }

    /// All runs of this round, in the order in which they are made.
    pub(super) fn round(&self, round: u32) -> Vec<Run> {
        let mut runs: Vec<_> = self.runs().collect();
        for neighbours in runs.chunks_mut(self.whos.len()) {
            neighbours.rotate_left(round as usize % self.whos.len());
        }
        runs
    }

    /// How many updates a burst has. Every pod gets at most one, so that nobody can merge two.
    pub(super) fn updates(&self) -> u32 {
        UPDATES.min(self.pods / 2)
    }

    /// Whether it runs a contestant that is written in Go.
    pub(super) fn needs_go(&self) -> bool {
        self.whos.iter().any(|who| who.is_go())
    }

    /// Whether it runs both sides of a target that wants something.
    pub(super) fn measures(&self, target: &Target) -> bool {
        let has_case = self.cases.iter().any(|case| case.name() == target.case);
        let has = |who| has_case && self.whos.contains(&who);
        target.wanted.is_some() && has(target.who) && target.against.is_none_or(has)
    }
}

impl Case {
    /// All cases, in the order in which they are run and shown.
    pub(super) const ALL: [Self; 4] = [Self::Sync, Self::SyncRead, Self::Burst, Self::Relist];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::SyncRead => "sync-read",
            Self::Burst => "burst",
            Self::Relist => "relist",
        }
    }

    /// What the stage measures.
    pub(super) fn metrics(self) -> &'static [Metric] {
        match self {
            Self::Sync | Self::SyncRead => &[
                Metric::CpuS,
                Metric::WallS,
                Metric::PeakMb,
                Metric::SettledMb,
                Metric::ResidentMb,
                Metric::BytesPerObject,
            ],
            Self::Burst => {
                &[Metric::CpuS, Metric::CpuUsPerEvent, Metric::P50Us, Metric::P99Us, Metric::PeakMb]
            }
            Self::Relist => &[Metric::CpuS, Metric::PeakMb, Metric::ResidentMb],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(runs: impl IntoIterator<Item = Run>) -> Vec<String> {
        runs.into_iter().map(|run| format!("{} {}", run.case.name(), run.who)).collect()
    }

    #[test]
    fn every_contestant_runs_every_case() {
        let plan = Plan::new(1000, &[], &[]).expect("everything");
        let shown = shown(plan.runs());
        assert_eq!(shown.len(), 4 * 6);
        assert_eq!(shown[5..7], ["sync windlass-slim", "sync-read client-go"]);
        assert!(plan.needs_go());
    }

    #[test]
    fn rounds_begin_with_another_contestant_each() {
        let whos = [Who::ClientGo, Who::Windlass];
        let plan = Plan::new(1000, &["sync".to_owned()], &whos).expect("some");
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
        let error = Plan::new(1000, &["stop".to_owned()], &[]).expect_err("there is no such case");
        assert!(error.to_string().ends_with("sync, sync-read, burst, relist"), "{error:#}");
        let error = who("windlass-arcstr").expect_err("this is a queue");
        assert!(error.to_string().contains("kube-runtime, windlass,"), "{error:#}");
        assert_eq!(who("windlass-slim").expect("a contestant"), Who::WindlassSlim);
    }

    #[test]
    fn pods_get_at_most_one_update() {
        let updates = |pods| Plan::new(pods, &[], &[]).expect("everything").updates();
        assert_eq!((updates(100), updates(50_000)), (50, 2000));
    }

    #[test]
    fn targets_of_others_are_not_measured() {
        let all = super::super::targets::all();
        let count = |parts: &[String], whos: &[Who]| {
            let plan = Plan::new(1000, parts, whos).expect("a plan");
            all.iter().filter(|target| plan.measures(target)).count()
        };
        assert_eq!(count(&[], &[]), 11);
        assert_eq!(count(&["relist".to_owned()], &[Who::Windlass]), 1);
        assert_eq!(count(&["burst".to_owned()], &[Who::Windlass]), 0);
    }
}
