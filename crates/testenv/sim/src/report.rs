//! What a search has found, in words.

use std::collections::BTreeMap;
use std::fmt;

use crate::explore::{REPLAY, name_of};
use crate::fault::Fault;
use crate::judge::Finding;
use crate::process::Time;
use crate::simulation::{Outcome, Plan};

/// How many lines of a story are shown: before the first fault, after it, and at the end.
const STORY: [usize; 3] = [120, 200, 60];

/// What a search has found.
#[derive(Clone, Debug)]
pub struct Report {
    coverage: Coverage,
    failed: Option<Failed>,
}

/// A run that went wrong.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    pub(crate) finding: Finding,
    pub(crate) plan: Plan,
    pub(crate) story: Vec<String>,
    /// Whether the run for the story went wrong in the same way.
    pub(crate) is_same: bool,
}

/// What a search has tried.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coverage {
    /// Runs by exploration, and how many of them met their faults.
    runs: BTreeMap<&'static str, (usize, usize)>,
    simulated: Time,
    /// What differs among runs without faults, and so is not judged.
    pub(crate) differs: Vec<(String, String)>,
    /// Where two runs of one seed differ.
    pub(crate) diverges: Option<(String, String)>,
}

impl Coverage {
    pub(crate) fn note(&mut self, faults: &[Fault], outcome: &Outcome) {
        let (runs, struck) = self.runs.entry(name_of(faults)).or_default();
        *runs += 1;
        *struck += usize::from(outcome.unused == 0);
        self.simulated += outcome.took;
    }
}

impl Report {
    pub(crate) fn new(coverage: Coverage, failed: Option<Failed>) -> Self {
        Self { coverage, failed }
    }

    /// What is wrong; `None` if nothing was found.
    pub fn finding(&self) -> Option<&Finding> {
        self.failed.as_ref().map(|failed| &failed.finding)
    }

    /// The faults that show it.
    pub fn faults(&self) -> &[Fault] {
        self.failed.as_ref().map_or(&[], |failed| &failed.plan.faults)
    }

    /// The exploration that has found it; `None` if nothing was found.
    pub fn exploration(&self) -> Option<&'static str> {
        self.failed.as_ref().map(|failed| name_of(&failed.plan.faults))
    }

    /// The story of the run that went wrong.
    pub fn story(&self) -> &[String] {
        self.failed.as_ref().map_or(&[], |failed| &failed.story)
    }

    /// The value of `WINDLASS_SIM` that runs it again.
    pub fn replay(&self) -> Option<String> {
        self.failed.as_ref().map(|failed| failed.plan.to_string())
    }

    /// Where two runs of one seed differ: the operator depends on more than its clock, its seed and
    /// its requests. `None` if they do not.
    pub fn divergence(&self) -> Option<(&str, &str)> {
        let (one, two) = self.coverage.diverges.as_ref()?;
        Some((one, two))
    }

    /// How many runs there were.
    pub fn runs(&self) -> usize {
        self.coverage.runs.values().map(|(runs, _)| runs).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(failed) = &self.failed {
            writeln!(f, "{failed}")?;
        }
        write!(f, "{}", self.coverage)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "FOUND: {}", self.finding)?;
        let faults: Vec<String> = self.plan.faults.iter().map(ToString::to_string).collect();
        let faults = if faults.is_empty() { "none".to_owned() } else { faults.join(", ") };
        writeln!(f, "faults: {faults}")?;
        if !self.is_same {
            writeln!(
                f,
                "The same run again went another way: see below where two runs of one seed differ."
            )?;
        }
        writeln!(f, "\nThe story:")?;
        let (count, [before, after, end]) = (self.story.len(), STORY);
        let fault = self.story.iter().position(|line| line.contains("FAULT")).unwrap_or(count);
        let first = fault.saturating_sub(before);
        let left_out = (fault + after).min(count)..count.saturating_sub(end);
        if first > 0 {
            writeln!(f, "  ({first} lines before)")?;
        }
        for (number, line) in self.story.iter().enumerate().skip(first) {
            if number == left_out.start && !left_out.is_empty() {
                writeln!(f, "  ({} lines)", left_out.len())?;
            }
            if !left_out.contains(&number) {
                writeln!(f, "  {line}")?;
            }
        }
        if let Finding::State { differences, .. } = &self.finding {
            writeln!(f, "\nWhat differs (- without the fault, + with it):")?;
            for difference in differences {
                writeln!(f, "  {difference}")?;
            }
        }
        writeln!(f, "\nAgain: {REPLAY}='{}' cargo test NAME_OF_THE_TEST", self.plan)
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs: usize = self.runs.values().map(|(runs, _)| runs).sum();
        writeln!(f, "{runs} runs, {} s of simulated time", self.simulated / 1_000)?;
        for (name, (runs, struck)) in &self.runs {
            writeln!(f, "  {name:<24} {runs:>5} runs, {struck} met all their faults")?;
        }
        if let Some((one, two)) = &self.diverges {
            writeln!(
                f,
                "Two runs of one seed differ: the operator depends on more than its clock, its \
                 seed and its requests (wall clock, hash order, threads). First at:\n  {one}\n  {two}"
            )?;
        }
        if !self.differs.is_empty() {
            writeln!(f, "not judged, because it differs without faults, too:")?;
            for (object, field) in &self.differs {
                writeln!(f, "  {object} {field}")?;
            }
        }
        Ok(())
    }
}
