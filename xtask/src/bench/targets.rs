//! What the project wants of its ratios, and of a few values as they are; and whether it got it.
//!
//! A target is data; judging it is a pure function of the [`Results`]. A target whose two sides were not
//! both measured (a filtered run) is neither held nor missed.

use std::fmt;

use anyhow::{Result, bail};

use super::line::Who;
use super::results::{Measure, Ratio, Results};
use super::table::{Column, NOTHING, Table, grouped, number};

/// One wanted ratio or value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Target {
    pub(super) measure: Measure,
    pub(super) case: &'static str,
    pub(super) who: Who,
    /// Whom it is compared with; `None` for a value that is bounded by itself.
    pub(super) against: Option<Who>,
    /// `None` for a ratio that is shown beside the others and wants nothing.
    pub(super) wanted: Option<Wanted>,
}

/// What a ratio has to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wanted {
    /// For what should be large, like throughput.
    AtLeast(f64),
    /// For what should be small, like memory.
    AtMost(f64),
}

/// How a target stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    Held,
    /// By this share of what was wanted: 0.1 is ten percent.
    MissedBy(f64),
    /// One of the two sides was left out.
    NotMeasured,
    /// Nothing was wanted.
    Information,
}

/// How the targets stand that were measured, with a word on how to read that. If the run was of another size than
/// they are meant for, `sizes` has the one that is meant, the one that it had, and of what.
pub(super) fn explained(
    targets: &[Target],
    results: &Results,
    sizes: Option<(u32, u32, &str)>,
) -> String {
    let Some(table) = table(targets, results) else {
        return "No target is about what was measured.\n".to_owned();
    };
    let other_size = sizes.map_or_else(String::new, |(meant, had, what)| {
        let (meant, had) = (grouped(meant), grouped(had));
        format!("The targets are meant for {meant} {what}; this run had {had}.\n")
    });
    format!(
        "{table}
is: the median of the rounds, a ratio where there is something against; rounds: the lowest and the highest.
{other_size}"
    )
}

/// The targets that were measured, each with its value and what that means; `None` if there are none.
fn table(targets: &[Target], results: &Results) -> Option<Table> {
    let mut table = Table::new(&[
        Column::Left("target"),
        Column::Left("case"),
        Column::Left("who"),
        Column::Left("against"),
        Column::Right("wanted"),
        Column::Right("is"),
        Column::Right("rounds"),
        Column::Left("verdict"),
    ]);
    let mut case = None;
    for target in targets {
        let (value, verdict) = target.judge(results);
        let Some(value) = value else { continue };
        if case.replace(target.case) != Some(target.case) {
            table.gap();
        }
        table.row(vec![
            target.measure.name().to_owned(),
            target.case.to_owned(),
            target.who.to_string(),
            target.against.map_or_else(|| NOTHING.to_owned(), |who| who.to_string()),
            target.wanted.as_ref().map_or_else(|| NOTHING.to_owned(), Wanted::to_string),
            number(Some(value.median), 2),
            format!("{:.2} to {:.2}", value.lowest, value.highest),
            verdict.to_string(),
        ]);
    }
    case.map(|_| table)
}

/// How many targets stand how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Score {
    pub(super) held: usize,
    pub(super) missed: usize,
    pub(super) not_measured: usize,
}

impl Target {
    /// The ratio and what it means; the ratio is `None` if it was not measured.
    pub(super) fn judge(&self, results: &Results) -> (Option<Ratio>, Verdict) {
        let ratio = match self.against {
            Some(other) => results.ratio(self.measure, self.case, self.who, other),
            None => results.spread(self.measure, self.case, self.who),
        };
        let verdict = match (ratio, self.wanted) {
            (None, _) => Verdict::NotMeasured,
            (Some(_), None) => Verdict::Information,
            (Some(ratio), Some(wanted)) => wanted.judge(ratio.median),
        };
        (ratio, verdict)
    }
}

impl Wanted {
    fn judge(self, ratio: f64) -> Verdict {
        let missing = match self {
            Self::AtLeast(bound) => (bound - ratio) / bound,
            Self::AtMost(bound) => (ratio - bound) / bound,
        };
        if missing > 0.0 { Verdict::MissedBy(missing) } else { Verdict::Held }
    }
}

impl Score {
    /// Counts the targets that want something.
    pub(super) fn of(targets: &[Target], results: &Results) -> Self {
        let mut score = Self::default();
        for target in targets.iter().filter(|target| target.wanted.is_some()) {
            match target.judge(results).1 {
                Verdict::Held => score.held += 1,
                Verdict::MissedBy(_) => score.missed += 1,
                Verdict::NotMeasured | Verdict::Information => score.not_measured += 1,
            }
        }
        score
    }
}

impl Score {
    /// Prints the score, the last line of a run.
    ///
    /// # Errors
    /// If a target is missed and that is to `check`.
    pub(super) fn conclude(self, check: bool) -> Result<()> {
        println!("==> targets: {self}");
        match self.missed {
            1 if check => bail!("one target is missed (above)"),
            many if check && many > 0 => bail!("{many} targets are missed (above)"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(bound) => write!(f, ">= {bound:.2}"),
            Self::AtMost(bound) => write!(f, "<= {bound:.2}"),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held => f.write_str("held"),
            Self::MissedBy(share) if *share < 0.001 => f.write_str("missed by less than 0.1 %"),
            Self::MissedBy(share) => write!(f, "missed by {:.1} %", share * 100.0),
            Self::NotMeasured => f.write_str("not measured"),
            Self::Information => f.write_str("(for information)"),
        }
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} held", self.held, self.held + self.missed)?;
        if self.missed > 0 {
            write!(f, ", {} missed", self.missed)?;
        }
        if self.not_measured > 0 {
            write!(f, ", {} not measured", self.not_measured)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::{Measured, Metric};
    use super::*;

    const TARGET: Target = Target {
        measure: Measure::Throughput,
        case: "backlog",
        who: Who::Windlass,
        against: Some(Who::ClientGo),
        wanted: Some(Wanted::AtLeast(4.0)),
    };

    fn results(throughputs: &[(Who, f64)]) -> Results {
        let mut results = Results::default();
        for &(who, value) in throughputs {
            results.add("backlog", who, 10, Measured::from([(Metric::Throughput, value)]));
        }
        results
    }

    #[test]
    fn target_is_held_at_its_bound_and_missed_below_it() {
        let at = |ours| {
            let results = results(&[(Who::ClientGo, 10.0), (Who::Windlass, ours)]);
            TARGET.judge(&results).1.to_string()
        };
        assert_eq!(at(41.0), "held");
        assert_eq!(at(40.0), "held");
        assert_eq!(at(39.99), "missed by less than 0.1 %");
        assert_eq!(at(30.0), "missed by 25.0 %");
    }

    #[test]
    fn upper_bound_is_missed_above_it() {
        let wanted = Wanted::AtMost(0.25);
        assert_eq!(wanted.judge(0.25), Verdict::Held);
        assert_eq!(wanted.judge(0.1), Verdict::Held);
        assert_eq!(wanted.judge(0.375), Verdict::MissedBy(0.5));
        assert_eq!(Verdict::MissedBy(0.5).to_string(), "missed by 50.0 %");
    }

    #[test]
    fn target_without_its_other_side_is_not_measured() {
        let (ratio, verdict) = TARGET.judge(&results(&[(Who::Windlass, 1.0)]));
        assert_eq!((ratio, verdict), (None, Verdict::NotMeasured));
    }

    #[test]
    fn value_without_another_side_is_judged_as_it_is() {
        let alone = Target { against: None, ..TARGET };
        let verdict = |ours| alone.judge(&results(&[(Who::Windlass, ours)])).1;
        assert_eq!(verdict(4.0), Verdict::Held);
        assert_eq!(verdict(3.0), Verdict::MissedBy(0.25));
    }

    #[test]
    fn score_counts_what_wants_something() {
        let results = results(&[(Who::ClientGo, 10.0), (Who::Windlass, 40.0)]);
        let targets = [
            TARGET,
            Target { wanted: Some(Wanted::AtLeast(5.0)), ..TARGET },
            Target { case: "delay", ..TARGET },
            Target { wanted: None, ..TARGET },
        ];
        let score = Score::of(&targets, &results);
        assert_eq!(score, Score { held: 1, missed: 1, not_measured: 1 });
        assert_eq!(score.to_string(), "1 of 2 held, 1 missed, 1 not measured");
        assert_eq!(Score { held: 3, ..Score::default() }.to_string(), "3 of 3 held");
    }
}
