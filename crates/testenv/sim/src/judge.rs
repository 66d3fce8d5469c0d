//! The judgement of a run: what it must have in common with runs without faults.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::record::Record;
use crate::report::Coverage;
use crate::simulation::{Outcome, Plan, Simulation};
use crate::state::{Difference, State, compare};

/// The states that are reached without faults.
pub(crate) struct Reference {
    states: Vec<State>,
    /// The record of the first run, from which the points are taken.
    pub(crate) record: Record,
    /// The most that a run without faults creates and deletes, by kind.
    created: BTreeMap<String, usize>,
    deleted: BTreeMap<String, usize>,
    /// What differs among runs without faults.
    pub(crate) differs: BTreeSet<(String, String)>,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// The cluster is not as it is without the fault.
    State {
        /// The step after which it was compared.
        step: String,
        /// What differs.
        differences: Vec<Difference>,
    },
    /// It does not come to rest.
    Restless {
        /// The step after which it does not.
        step: String,
        /// What still goes on.
        what: String,
    },
    /// It creates or deletes more objects of a kind than without the fault.
    TooMany {
        /// Created or deleted.
        verb: &'static str,
        /// The kind.
        kind: String,
        /// How many.
        count: usize,
        /// How many without faults, at most.
        reference: usize,
    },
    /// Something that must never be was.
    Violation(String),
}

impl Reference {
    /// Runs the story without faults, with other latencies each time.
    pub(crate) fn make(
        simulation: &Simulation,
        first: &Plan,
        count: u64,
        coverage: &mut Coverage,
    ) -> Result<Self, (Plan, Finding)> {
        let mut reference: Option<Self> = None;
        for number in 0..count {
            let plan = Plan { seed: first.seed + number, ..first.clone() };
            let outcome = simulation.run(&plan, false);
            coverage.note(&[], &outcome);
            if let Some(finding) = of_itself(simulation, &outcome) {
                return Err((plan, finding));
            }
            let ended = outcome.record.ended.first();
            if let Some(ended) = ended {
                return Err((plan, Finding::Violation(ended.clone())));
            }
            let states = outcome.states.into_iter().flatten().collect();
            match &mut reference {
                None => {
                    reference = Some(Self {
                        states,
                        created: outcome.record.created.clone(),
                        deleted: outcome.record.deleted.clone(),
                        record: outcome.record,
                        differs: BTreeSet::new(),
                    });
                }
                Some(reference) => reference.add(&states, &outcome.record),
            }
        }
        Ok(reference.expect("there must be a reference"))
    }

    fn add(&mut self, states: &[State], record: &Record) {
        for (one, two) in self.states.iter().zip(states) {
            let differences = compare(one, two, &|_| false);
            self.differs.extend(differences.iter().map(Difference::place));
        }
        for (most, counts) in
            [(&mut self.created, &record.created), (&mut self.deleted, &record.deleted)]
        {
            for (kind, count) in counts {
                let most = most.entry(kind.clone()).or_default();
                *most = (*most).max(*count);
            }
        }
    }
}

/// Judges a run. Returns the first thing that is wrong, the plainest first.
pub(crate) fn judge(
    simulation: &Simulation,
    reference: &Reference,
    outcome: &Outcome,
) -> Option<Finding> {
    of_itself(simulation, outcome)
        .or_else(|| of_states(simulation, reference, outcome))
        .or_else(|| of_counts(reference, &outcome.record))
}

/// What is wrong whatever the reference is.
fn of_itself(simulation: &Simulation, outcome: &Outcome) -> Option<Finding> {
    if let Some((_, violation)) = outcome.record.violations.first() {
        return Some(Finding::Violation(violation.clone()));
    }
    let (step, what) = outcome.restless.as_ref()?;
    let step = simulation.step_name(*step).to_owned();
    Some(Finding::Restless { step, what: what.clone() })
}

fn of_states(simulation: &Simulation, reference: &Reference, outcome: &Outcome) -> Option<Finding> {
    let is_ignored = |difference: &Difference| {
        let is_below = |ignored: &String| {
            let rest = difference.field.strip_prefix(ignored.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        reference.differs.contains(&difference.place()) || simulation.ignored.iter().any(is_below)
    };
    let pairs = reference.states.iter().zip(&outcome.states).enumerate();
    pairs.into_iter().find_map(|(step, (one, two))| {
        let differences = compare(one, two.as_ref()?, &is_ignored);
        let step = simulation.step_name(step).to_owned();
        (!differences.is_empty()).then_some(Finding::State { step, differences })
    })
}

fn of_counts(reference: &Reference, record: &Record) -> Option<Finding> {
    let more = |verb, found: &BTreeMap<String, usize>, most: &BTreeMap<String, usize>| {
        found.iter().find_map(|(kind, count)| {
            let reference = most.get(kind).copied().unwrap_or_default();
            let kind = kind.clone();
            (*count > reference).then_some(Finding::TooMany {
                verb,
                kind,
                count: *count,
                reference,
            })
        })
    };
    more("creates", &record.created, &reference.created)
        .or_else(|| more("deletes", &record.deleted, &reference.deleted))
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State { step, differences } => {
                let objects: BTreeSet<&str> =
                    differences.iter().map(|one| one.object.as_str()).collect();
                let objects: Vec<&str> = objects.into_iter().collect();
                write!(f, "after {step:?}, the cluster is not as it is without the fault: ")?;
                write!(f, "{}", objects.join(", "))
            }
            Self::Restless { step, what } => {
                write!(f, "after {step:?}, the operator does not come to rest: {what}")
            }
            Self::TooMany { verb, kind, count, reference } => {
                write!(f, "the operator {verb} {count} {kind}, and {reference} without the fault")
            }
            Self::Violation(what) => f.write_str(what),
        }
    }
}
