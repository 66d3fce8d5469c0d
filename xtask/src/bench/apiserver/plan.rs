//! What is run: groups of cases, each in rounds, for the servers that have the case.
//!
//! The servers of a case run directly after one another, so that a comparison within a round compares
//! neighbours. A group goes through all of its rounds before the next begins, so that the filled servers
//! that the lists need are not there beside other cases.

use anyhow::Result;

use super::super::cases;
use super::super::line::{Metric, Who};
use super::super::rounds;
use super::super::targets::Target;

/// How many changes are made while one or a hundred watch.
const UPDATES: u32 = 1000;

/// How many changes are made while a thousand watch.
const UPDATES_FOR_MANY: u32 = 200;

/// Every case, in the order in which it is run and shown.
const CASES: [Case; 6] = [
    Case { name: "start", part: Part::Start },
    Case { name: "list", part: Part::List { paged: false } },
    Case { name: "list-paged", part: Part::List { paged: true } },
    Case { name: "fanout-w1", part: Part::Fanout { watchers: 1, updates: UPDATES } },
    Case { name: "fanout-w100", part: Part::Fanout { watchers: 100, updates: UPDATES } },
    Case { name: "fanout-w1000", part: Part::Fanout { watchers: 1000, updates: UPDATES_FOR_MANY } },
];

/// What is measured, under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    name: &'static str,
    part: Part,
}

/// What a case does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// From nothing to the first answered list.
    Start,
    /// All objects of a server that was filled before.
    List {
        /// In pages instead of at once.
        paged: bool,
    },
    /// Changes on their way to watchers.
    Fanout {
        /// How many watch.
        watchers: u32,
        /// How many changes there are.
        updates: u32,
    },
}

/// Cases that are run together, and shown in one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Start,
    List,
    Fanout,
}

/// The runs of a round of every group, in their order.
#[derive(Debug)]
pub(super) struct Plan {
    runs: Vec<Run>,
}

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) case: &'static str,
    pub(super) part: Part,
    pub(super) who: Who,
    /// How many objects are listed, or events delivered.
    pub(super) items: u32,
}

impl Plan {
    /// The runs with `objects` objects of the cases that contain one of `parts`; of all, if there are none.
    ///
    /// # Errors
    /// If a part is in no case.
    pub(super) fn new(objects: u32, parts: &[String]) -> Result<Self> {
        let cases = cases::chosen(CASES, |case| case.name, parts)?;
        let runs = cases.into_iter().flat_map(|case| {
            let items = case.part.items(objects);
            let run = move |&who| Run { case: case.name, part: case.part, who, items };
            case.part.servers().iter().map(run)
        });
        Ok(Self { runs: runs.collect() })
    }

    /// All runs, in their order.
    pub(super) fn runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter()
    }

    /// The runs of a group, in their order.
    pub(super) fn of(&self, group: Group) -> Vec<Run> {
        self.runs.iter().filter(|run| run.part.group() == group).copied().collect()
    }

    /// Whether it runs both sides of a target that wants something.
    pub(super) fn measures(&self, target: &Target) -> bool {
        let has = |who| self.runs.iter().any(|run| run.case == target.case && run.who == who);
        target.wanted.is_some() && has(target.who) && target.against.is_none_or(has)
    }
}

impl Group {
    pub(super) const ALL: [Self; 3] = [Self::Start, Self::List, Self::Fanout];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::List => "list",
            Self::Fanout => "fanout",
        }
    }
}

impl rounds::Run for Run {
    fn case(&self) -> &'static str {
        self.case
    }

    fn whos(&self) -> Vec<Who> {
        vec![self.who]
    }

    fn items(&self) -> u32 {
        self.items
    }
}

impl Part {
    fn group(self) -> Group {
        match self {
            Self::Start => Group::Start,
            Self::List { .. } => Group::List,
            Self::Fanout { .. } => Group::Fanout,
        }
    }

    /// Who has the case; a measured server without a process of its own has only the start.
    fn servers(self) -> &'static [Who] {
        match self {
            Self::Start => &[Who::Real, Who::Embedded, Who::InProcess],
            Self::List { .. } | Self::Fanout { .. } => &[Who::Real, Who::Embedded],
        }
    }

    fn items(self, objects: u32) -> u32 {
        match self {
            Self::Start => 1,
            Self::List { .. } => objects,
            Self::Fanout { watchers, updates } => watchers * updates,
        }
    }

    /// What its process prints.
    pub(super) fn metrics(self) -> &'static [Metric] {
        match self {
            Self::Start => &[Metric::FirstMs, Metric::MedianMs, Metric::MaxMs],
            Self::List { .. } => &[
                Metric::WallS,
                Metric::CpuS,
                Metric::CpuAllS,
                Metric::ClientCpuS,
                Metric::PeakMb,
                Metric::PeakAllMb,
            ],
            Self::Fanout { .. } => &[
                Metric::WallS,
                Metric::LagS,
                Metric::CpuS,
                Metric::CpuAllS,
                Metric::ClientCpuS,
                Metric::PeakMb,
                Metric::PeakAllMb,
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(runs: &[Run]) -> Vec<String> {
        runs.iter().map(|run| format!("{} {} {}", run.case, run.who, run.items)).collect()
    }

    #[test]
    fn both_servers_run_every_case_and_starts_have_a_third() {
        let plan = Plan::new(500, &[]).expect("everything");
        assert_eq!(plan.runs().count(), 3 + 4 + 6);
        assert_eq!(
            shown(&plan.of(Group::Start)),
            ["start real 1", "start embedded 1", "start in-process 1"]
        );
        assert_eq!(
            shown(&plan.of(Group::List))[1..3],
            ["list embedded 500", "list-paged real 500"]
        );
        assert_eq!(shown(&plan.of(Group::Fanout))[4], "fanout-w1000 real 200000");
    }

    #[test]
    fn cases_can_be_chosen() {
        let plan = Plan::new(500, &["w100".to_owned(), "paged".to_owned()]).expect("some");
        assert_eq!(plan.of(Group::Start), []);
        assert_eq!(plan.of(Group::List).len(), 2);
        assert_eq!(plan.of(Group::Fanout).len(), 4);
    }

    #[test]
    fn unknown_case_is_refused_with_the_known_ones() {
        let error = Plan::new(500, &["stop".to_owned()]).expect_err("there is no such case");
        let shown = error.to_string();
        assert!(shown.starts_with("--case stop: "), "{shown}");
        assert!(shown.contains("start, list, list-paged,"), "{shown}");
    }

    #[test]
    fn targets_of_other_cases_are_not_measured() {
        let all = super::super::targets::all();
        let count = |parts: &[String]| {
            let plan = Plan::new(500, parts).expect("a plan");
            all.iter().filter(|target| plan.measures(target)).count()
        };
        assert_eq!(count(&[]), 5);
        assert_eq!(count(&["start".to_owned()]), 3);
        assert_eq!(count(&["fanout".to_owned()]), 0);
    }
}
