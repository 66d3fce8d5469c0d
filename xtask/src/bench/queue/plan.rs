//! What one round runs: every case for every queue, each as a process of its own.
//!
//! The queues of a case run directly after one another, so that a comparison within a round compares
//! neighbours. All rounds are the same.

use anyhow::{Result, ensure};
use clap::ValueEnum as _;

use super::super::cases;
use super::super::line::Who;
use super::super::rounds;
use super::super::targets::Target;

/// All cases that every queue runs. `wN` is the number of workers, `p4` stands for four producers
/// instead of one.
const CASES: [&str; 14] = [
    "backlog",
    "distinct-w1",
    "distinct-w4",
    "distinct-w64",
    "dup-w1",
    "dup-w4",
    "delay",
    "backlog-p4",
    "distinct-w1-p4",
    "distinct-w4-p4",
    "distinct-w64-p4",
    "dup-w1-p4",
    "dup-w4-p4",
    "delay-p4",
];

/// What it costs to intern the keys. Only `windlass` has interned keys, so only it runs this.
pub(super) const INTERN: &str = "intern";

/// controller-runtime's queue is slow: with all the keys it would take most of the run's time.
pub(super) const FEWER_KEYS: u32 = 10;

/// The number of keys must be a multiple of this: the dup cases go ten times over a tenth of the keys,
/// and also do so with the fewer keys that controller-runtime gets.
const KEYS_STEP: u32 = 10 * FEWER_KEYS;

/// The runs of one round, in their order.
#[derive(Debug)]
pub(super) struct Plan {
    runs: Vec<Run>,
}

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) case: &'static str,
    pub(super) who: Who,
    pub(super) keys: u32,
}

/// Reads the number of keys from the command line.
///
/// # Errors
/// If it is not a number that every case can work with.
pub(super) fn keys(text: &str) -> Result<u32> {
    let keys = text.parse()?;
    ensure!(
        keys > 0 && keys % KEYS_STEP == 0,
        "it must be a multiple of {KEYS_STEP}, because the dup cases add every key ten times, and \
         controller-runtime gets a tenth of the keys"
    );
    Ok(keys)
}

impl Plan {
    /// The runs with `keys` keys of the cases that contain one of `parts`, for `whos`; of all, if there
    /// are none.
    ///
    /// # Errors
    /// If a part is in no case, or if nothing is left to run.
    pub(super) fn new(keys: u32, parts: &[String], whos: &[Who]) -> Result<Self> {
        let runs: Vec<Run> = cases::chosen(CASES.into_iter().chain([INTERN]), |&case| case, parts)?
            .into_iter()
            .flat_map(|case| queues_of(case).map(move |who| Run::new(case, who, keys)))
            .filter(|run| whos.is_empty() || whos.contains(&run.who))
            .collect();
        ensure!(!runs.is_empty(), "nothing to run: only `windlass` has the case {INTERN}");
        Ok(Self { runs })
    }

    /// The runs of a round, in their order.
    pub(super) fn runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter()
    }

    /// Whether it runs a queue that is written in Go.
    pub(super) fn needs_go(&self) -> bool {
        self.runs.iter().any(|run| run.who.is_go())
    }

    /// Whether it runs a queue of ours.
    pub(super) fn needs_ours(&self) -> bool {
        self.runs.iter().any(|run| !run.who.is_go())
    }

    /// Whether it runs both sides of a target that wants something.
    pub(super) fn measures(&self, target: &Target) -> bool {
        let has = |who| self.runs.iter().any(|run| run.case == target.case && run.who == who);
        target.wanted.is_some() && has(target.who) && target.against.is_none_or(has)
    }
}

impl Run {
    fn new(case: &'static str, who: Who, keys: u32) -> Self {
        let keys = if who == Who::ControllerRuntime { keys / FEWER_KEYS } else { keys };
        Self { case, who, keys }
    }

    /// Whether the keys wait for their time, and so how long it takes says nothing about the queue.
    pub(super) fn is_delayed(&self) -> bool {
        self.case.starts_with("delay")
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
        self.keys
    }
}

fn queues_of(case: &str) -> impl Iterator<Item = Who> + use<> {
    let is_intern = case == INTERN;
    let has_case = move |who: &Who| *who == Who::Windlass || !is_intern;
    Who::value_variants().iter().copied().filter(has_case)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(parts: &[&str], whos: &[Who]) -> Result<Plan> {
        let parts: Vec<_> = parts.iter().map(|&part| part.to_owned()).collect();
        Plan::new(1000, &parts, whos)
    }

    fn shown(plan: &Plan) -> Vec<String> {
        plan.runs().map(|run| format!("{} {} {}", run.case, run.who, run.keys)).collect()
    }

    #[test]
    fn every_queue_runs_every_case_and_interning_comes_last() {
        let plan = plan(&[], &[]).expect("everything");
        let shown = shown(&plan);
        assert_eq!(shown.len(), 14 * 5 + 1);
        assert_eq!(
            shown[..6],
            [
                "backlog client-go 1000",
                "backlog controller-runtime 100",
                "backlog windlass-arcstr 1000",
                "backlog windlass 1000",
                "backlog windlass-full 1000",
                "distinct-w1 client-go 1000",
            ]
        );
        assert_eq!(shown[70], "intern windlass 1000");
    }

    #[test]
    fn cases_and_queues_can_be_chosen() {
        let plan = plan(&["w64", "intern"], &[Who::Windlass, Who::ClientGo]).expect("some");
        assert_eq!(
            shown(&plan),
            [
                "distinct-w64 client-go 1000",
                "distinct-w64 windlass 1000",
                "distinct-w64-p4 client-go 1000",
                "distinct-w64-p4 windlass 1000",
                "intern windlass 1000",
            ]
        );
    }

    #[test]
    fn unknown_case_is_refused_with_the_known_ones() {
        let error = plan(&["backlog", "latency"], &[]).expect_err("there is no such case");
        let shown = error.to_string();
        assert!(shown.starts_with("--case latency: "), "{shown}");
        assert!(shown.contains("backlog, distinct-w1,") && shown.ends_with("intern"), "{shown}");
    }

    #[test]
    fn empty_plan_is_an_error() {
        let error = plan(&["intern"], &[Who::ClientGo]).expect_err("it has no such case");
        assert!(error.to_string().starts_with("nothing to run"), "{error:#}");
    }

    #[test]
    fn keys_must_suit_every_case() {
        assert_eq!(keys("1000000").expect("the default"), 1_000_000);
        for bad in ["0", "150", "1e6", "-100", "5000000000"] {
            assert!(keys(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn targets_of_other_cases_or_queues_are_not_measured() {
        let all = super::super::targets::all();
        let count = |plan: &Plan| all.iter().filter(|target| plan.measures(target)).count();
        assert_eq!(count(&plan(&[], &[]).expect("all")), 23);
        assert_eq!(count(&plan(&["delay"], &[]).expect("delay")), 2);
        assert_eq!(count(&plan(&["delay"], &[Who::Windlass]).expect("one side")), 0);
    }
}
