//! The search: reference runs, the points of each exploration, and the judgement of each run.

use std::collections::BTreeSet;

use crate::fault::{Failure, Fault, Until};
use crate::judge::{Finding, Reference, judge};
use crate::process::Time;
use crate::report::{Coverage, Failed, Report};
use crate::simulation::{LATENCY, Plan, Simulation};

/// The variable that replays a run: `seed=1;latency=25;faults=crash-after@3`.
pub const REPLAY: &str = "WINDLASS_SIM";

/// How many fault-free runs are the reference.
const REFERENCES: u64 = 5;

/// How long a view is stale that the operator's own writes pass: longer than a run waits for them.
const STALE_FOR: Time = 12_000;

/// The status codes with which a server refuses a write that is in order.
const CODES: [u16; 4] = [409, 429, 500, 503];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Exploration {
    Crashes,
    Writes,
    Past,
    Stale,
    Unseen,
    Down,
}

/// How many runs a search has by default: about a minute of a debug build.
pub const RUNS_MAX: usize = 100;

/// What is explored, and how much of it.
#[derive(Clone, Debug)]
#[must_use]
pub struct Explore {
    explored: BTreeSet<Exploration>,
    random: usize,
    runs_max: usize,
    pub(crate) seed: u64,
}

impl Explore {
    /// Everything: the points of each exploration in turn, then a hundred random mixes; but no more
    /// than [`RUNS_MAX`] runs.
    pub fn all() -> Self {
        use Exploration::{Crashes, Down, Past, Stale, Unseen, Writes};
        Self {
            explored: [Crashes, Writes, Past, Stale, Unseen, Down].into(),
            random: 100,
            runs_max: RUNS_MAX,
            seed: 1,
        }
    }

    /// Nothing yet.
    pub fn nothing() -> Self {
        Self { explored: BTreeSet::new(), random: 0, ..Self::all() }
    }

    /// Adds crashes before and after each write.
    pub fn crashes(self) -> Self {
        self.with(Exploration::Crashes)
    }

    /// Adds writes that fail, and answers that are lost.
    pub fn writes(self) -> Self {
        self.with(Exploration::Writes)
    }

    /// Adds reads with `resourceVersion=0` that show the past.
    pub fn past(self) -> Self {
        self.with(Exploration::Past)
    }

    /// Adds views that are stale, one kind at a time.
    pub fn stale(self) -> Self {
        self.with(Exploration::Stale)
    }

    /// Adds changes that the operator cannot see, one kind at a time.
    pub fn unseen(self) -> Self {
        self.with(Exploration::Unseen)
    }

    /// Adds times at which the operator does not run.
    pub fn down(self) -> Self {
        self.with(Exploration::Down)
    }

    /// Adds so many mixes of two or three faults.
    pub fn random(self, mixes: usize) -> Self {
        Self { random: mixes, ..self }
    }

    /// Ends the search after so many runs, of which each exploration has its share. Default:
    /// [`RUNS_MAX`].
    pub fn runs_max(self, runs: usize) -> Self {
        Self { runs_max: runs, ..self }
    }

    /// The seed of latencies and random mixes. Default: 1.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    fn with(mut self, exploration: Exploration) -> Self {
        self.explored.insert(exploration);
        self
    }

    fn has(&self, exploration: Exploration) -> bool {
        self.explored.contains(&exploration)
    }

    /// The points of all explorations in the order in which they are tried: one of each in turn,
    /// so that a search that ends early has seen some of all.
    fn points(&self, reference: &Reference) -> Vec<Vec<Fault>> {
        let record = &reference.record;
        let writes = 0..record.writes.len();
        let mut explorations: Vec<Vec<Fault>> = Vec::new();
        if self.has(Exploration::Crashes) {
            let at = |write| [Fault::CrashAfter { write }, Fault::CrashBefore { write }];
            explorations.push(writes.clone().flat_map(at).collect());
        }
        if self.has(Exploration::Writes) {
            let lost = |write| Fault::Write { write, failure: Failure::AnswerLost };
            explorations.push(writes.clone().map(lost).collect());
            let failures = |write: usize| {
                let is_create = record.writes[write].verb == "create";
                let codes = CODES.into_iter().filter(move |code| !(is_create && *code == 409));
                let codes = codes.map(Failure::Refused);
                codes.chain([Failure::NotSent]).map(move |failure| Fault::Write { write, failure })
            };
            explorations.push(writes.flat_map(failures).collect());
        }
        // A view begins to be stale with a change of its kind: another change would be seen.
        let changes_of = |kinds: &BTreeSet<String>| -> Vec<(usize, String)> {
            let changes = record.changes.iter().map(|change| change.kind.clone()).enumerate();
            changes.filter(|(_, kind)| kinds.contains(kind)).collect()
        };
        let (seen, read) = (changes_of(&record.watched), changes_of(&record.read_past));
        if self.has(Exploration::Past) {
            for until in [Until::Steps(1), Until::After(STALE_FOR)] {
                let of = |(change, kind): &(usize, String)| Fault::Past {
                    kind: kind.clone(),
                    change: *change,
                    until,
                };
                explorations.push(read.iter().map(of).collect());
            }
        }
        if self.has(Exploration::Stale) {
            for until in [Until::Steps(1), Until::After(STALE_FOR)] {
                let of = |(change, kind): &(usize, String)| Fault::Stale {
                    kind: kind.clone(),
                    change: *change,
                    until,
                };
                explorations.push(seen.iter().map(of).collect());
            }
        }
        if self.has(Exploration::Unseen) {
            let until = Until::Steps(1);
            let of = |(change, kind): &(usize, String)| Fault::Unseen {
                kind: kind.clone(),
                change: *change,
                until,
            };
            explorations.push(seen.iter().map(of).collect());
        }
        if self.has(Exploration::Down) {
            let until = Until::Steps(1);
            let of = |change| Fault::Down { change, until };
            explorations.push((0..record.changes.len()).map(of).collect());
        }
        let mut points: Vec<Vec<Fault>> = Vec::new();
        let longest = explorations.iter().map(Vec::len).max().unwrap_or_default();
        for index in 0..longest {
            let at = explorations.iter().filter_map(|faults| faults.get(index));
            points.extend(at.map(|fault| vec![fault.clone()]));
        }
        let all: Vec<Fault> = points.iter().flatten().cloned().collect();
        points.extend(self.mixes(&all));
        points.truncate(self.runs_max);
        points
    }

    /// Random mixes of two or three faults.
    fn mixes(&self, all: &[Fault]) -> Vec<Vec<Fault>> {
        if all.is_empty() {
            return Vec::new();
        }
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mix = |_| {
            let count = random.usize(2..=3);
            let mut faults: Vec<Fault> = Vec::new();
            for _ in 0..count {
                let fault = all[random.usize(..all.len())].clone();
                if !faults.contains(&fault) {
                    faults.push(fault);
                }
            }
            faults
        };
        (0..self.random).map(mix).collect()
    }
}

impl Default for Explore {
    fn default() -> Self {
        Self::all()
    }
}

/// Explores, until something is found.
pub(crate) fn search(simulation: &Simulation) -> Report {
    let plan = Plan { seed: simulation.explore.seed, latency: LATENCY, faults: Vec::new() };
    let mut coverage = Coverage::default();
    let reference = match Reference::make(simulation, &plan, REFERENCES, &mut coverage) {
        Ok(reference) => reference,
        Err((plan, finding)) => return failed(simulation, &plan, &finding, None, coverage),
    };
    coverage.differs = reference.differs.iter().cloned().collect();
    coverage.diverges = divergence(simulation, &plan);
    if let Ok(replay) = std::env::var(REPLAY) {
        let plan = replay.parse::<Plan>().unwrap_or_else(|error| panic!("{REPLAY}: {error}"));
        return replayed(simulation, &plan, &reference, coverage);
    }
    for faults in simulation.explore.points(&reference) {
        let plan = Plan { faults, ..plan.clone() };
        let outcome = simulation.run(&plan, false);
        coverage.note(&plan.faults, &outcome);
        if let Some(finding) = judge(simulation, &reference, &outcome) {
            let (plan, finding) = shrink(simulation, &reference, plan, finding, &mut coverage);
            return failed(simulation, &plan, &finding, Some(&reference), coverage);
        }
    }
    Report::new(coverage, None)
}

/// Returns the first place at which two runs of the same plan differ.
fn divergence(simulation: &Simulation, plan: &Plan) -> Option<(String, String)> {
    let story = || simulation.run(plan, true).record.story();
    let (one, two) = (story(), story());
    let length = one.len().max(two.len());
    let end = || "(the end)".to_owned();
    let line = |story: &[String], index| story.get(index).cloned().unwrap_or_else(end);
    (0..length).map(|index| (line(&one, index), line(&two, index))).find(|(one, two)| one != two)
}

/// Leaves out the faults without which the same is found.
fn shrink(
    simulation: &Simulation,
    reference: &Reference,
    mut plan: Plan,
    mut finding: Finding,
    coverage: &mut Coverage,
) -> (Plan, Finding) {
    while plan.faults.len() > 1 {
        let without = |index: usize| {
            let mut faults = plan.faults.clone();
            faults.remove(index);
            Plan { faults, ..plan.clone() }
        };
        let smaller = (0..plan.faults.len()).find_map(|index| {
            let smaller = without(index);
            let outcome = simulation.run(&smaller, false);
            coverage.note(&smaller.faults, &outcome);
            judge(simulation, reference, &outcome).map(|finding| (smaller, finding))
        });
        match smaller {
            Some(smaller) => (plan, finding) = smaller,
            None => break,
        }
    }
    (plan, finding)
}

/// Runs a plan once more, for its story.
fn replayed(
    simulation: &Simulation,
    plan: &Plan,
    reference: &Reference,
    coverage: Coverage,
) -> Report {
    let outcome = simulation.run(plan, true);
    let finding = judge(simulation, reference, &outcome);
    let failed = finding.map(|finding| Failed {
        finding,
        plan: plan.clone(),
        story: outcome.record.story(),
        is_same: true,
    });
    Report::new(coverage, failed)
}

fn failed(
    simulation: &Simulation,
    plan: &Plan,
    finding: &Finding,
    reference: Option<&Reference>,
    coverage: Coverage,
) -> Report {
    let outcome = simulation.run(plan, true);
    let again = reference.and_then(|reference| judge(simulation, reference, &outcome));
    let is_same = reference.is_none() || again.as_ref() == Some(finding);
    let story = outcome.record.story();
    let finding = finding.clone();
    Report::new(coverage, Some(Failed { finding, plan: plan.clone(), story, is_same }))
}

impl std::str::FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut plan = Self { seed: 1, latency: LATENCY, faults: Vec::new() };
        for part in text.split(';').filter(|part| !part.is_empty()) {
            let (name, value) =
                part.split_once('=').ok_or_else(|| format!("{part:?} has no value"))?;
            let number = || value.parse().map_err(|_| format!("{value:?} is no number"));
            match name {
                "seed" => plan.seed = number()?,
                "latency" => plan.latency = number()?,
                "faults" => {
                    let faults = value.split(',').filter(|fault| !fault.is_empty());
                    plan.faults = faults.map(str::parse).collect::<Result<_, _>>()?;
                }
                _ => return Err(format!("{name:?} is unknown")),
            }
        }
        Ok(plan)
    }
}

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let faults: Vec<String> = self.faults.iter().map(ToString::to_string).collect();
        write!(f, "seed={};latency={};faults={}", self.seed, self.latency, faults.join(","))
    }
}

/// The kinds of a set of faults, for the coverage.
pub(crate) fn name_of(faults: &[Fault]) -> &'static str {
    match faults {
        [] => "without faults",
        [one] => one.exploration(),
        _ => "random",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_is_read_as_it_is_written() {
        let faults = vec![
            Fault::CrashAfter { write: 3 },
            Fault::Write { write: 4, failure: Failure::NotSent },
        ];
        let plan = Plan { seed: 7, latency: 30, faults };
        assert_eq!(plan.to_string(), "seed=7;latency=30;faults=crash-after@3,unsent@4");
        assert_eq!(plan.to_string().parse(), Ok(plan));
        assert!("seed=x".parse::<Plan>().is_err());
    }
}
