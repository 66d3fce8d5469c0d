//! The rounds of a suite: every run of each, one after the other, with its progress shown.

use std::fmt;

use anyhow::Result;

use super::line::{Measured, Who};
use super::machine::Times;
use super::progress::Progress;
use super::results::Results;
use crate::process::Stopwatch;

/// One run of a round: a process, or several at the same time.
pub(super) trait Run {
    /// The case's name.
    fn case(&self) -> &'static str;

    /// Who is measured.
    fn whos(&self) -> Vec<Who>;

    /// How many keys, objects or events it has.
    fn items(&self) -> u32;
}

/// What share of the time that is wanted of the processors others may take during a case that is not repeated.
const CALM: f64 = 0.05;

/// How many rounds there are, and how often a case is repeated at most, because others took the processors' time
/// meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    pub(super) rounds: u32,
    pub(super) patience: u32,
}

/// Makes all rounds of `runs`, each in the order of that round, and collects what `measure` returns for everyone of
/// a run; `what` is in the heading, unless it is empty. A case is repeated with all of its runs, so that nobody gets
/// more attempts than others, and those count during which others took the least.
///
/// # Errors
/// The first of `measure`.
pub(super) fn measure<R: Run>(
    what: &str,
    Rounds { rounds, patience }: Rounds,
    runs: impl Fn(u32) -> Vec<R>,
    results: &mut Results,
    mut measure: impl FnMut(&R) -> Result<Vec<Measured>>,
) -> Result<()> {
    let count = runs(0).len();
    let blank = if what.is_empty() { "" } else { " " };
    println!("==> measure{blank}{what}: {rounds} × {count} runs, one after the other");
    let mut progress = Progress::start(rounds, count);
    let mut taken = Taken::default();
    for round in 0..rounds {
        let runs = runs(round);
        let mut index = 0;
        for case in runs.chunk_by(|one, other| one.case() == other.case()) {
            let measured = taken.calmest(patience, Times::now, || {
                let runs = case.iter().zip(index..);
                let measured = runs.map(|(run, index)| {
                    progress.begins(round, index, run.case(), &run.whos());
                    let watch = Stopwatch::start();
                    let measured = measure(run)?;
                    progress.ended(index, watch.elapsed());
                    Ok(measured)
                });
                measured.collect::<Result<Vec<_>>>()
            })?;
            index += case.len();
            for (run, measured) in case.iter().zip(measured) {
                for (who, measured) in run.whos().into_iter().zip(measured) {
                    results.add(run.case(), who, run.items(), measured);
                }
            }
        }
    }
    let took = progress.elapsed();
    drop(progress);
    println!("    measured in {:.1} s{taken}", took.as_secs_f64());
    Ok(())
}

/// What others took of the processors' time while it was measured.
#[derive(Debug, Default)]
struct Taken {
    /// Of each case of a round that counts, the share.
    shares: Vec<f64>,
    /// How often one was repeated.
    repeated: u32,
}

impl Taken {
    /// Measures until nobody else took much of the time, with patience, and returns what was measured when others took the least.
    fn calmest<M>(
        &mut self,
        patience: u32,
        clock: impl Fn() -> Option<Times>,
        mut measure: impl FnMut() -> Result<M>,
    ) -> Result<M> {
        let mut once = || {
            let before = clock();
            let measured = measure()?;
            let share = clock().zip(before).map(|(after, before)| after.taken_since(before));
            Ok::<_, anyhow::Error>((measured, share.unwrap_or(0.0)))
        };
        let mut best = once()?;
        for _ in 0..patience {
            if best.1 <= CALM {
                break;
            }
            self.repeated += 1;
            let other = once()?;
            if other.1 < best.1 {
                best = other;
            }
        }
        self.shares.push(best.1);
        Ok(best.0)
    }
}

/// Nothing, where nobody took anything.
impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut percents: Vec<f64> = self.shares.iter().map(|share| 100.0 * share).collect();
        percents.sort_by(f64::total_cmp);
        let (Some(median), Some(most)) = (percents.get(percents.len() / 2), percents.last()) else {
            return Ok(());
        };
        if *most < 0.5 && self.repeated == 0 {
            return Ok(());
        }
        write!(f, "; others took {median:.0} % of the time wanted, {most:.0} % at worst")?;
        if self.repeated > 0 {
            write!(f, "; {} cases were repeated for that", self.repeated)?;
        }
        Ok(())
    }
}

/// So many rounds, as a person says it.
pub(super) fn spoken(rounds: u32) -> String {
    match rounds {
        1 => "1 round".to_owned(),
        many => format!("{many} rounds"),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::line::Metric;
    use super::*;

    impl Run for Who {
        fn case(&self) -> &'static str {
            "case"
        }

        fn whos(&self) -> Vec<Who> {
            vec![*self]
        }

        fn items(&self) -> u32 {
            7
        }
    }

    #[test]
    fn every_round_has_its_own_order_and_is_collected() {
        let runs = |round| {
            let mut runs = vec![Who::Windlass, Who::ClientGo];
            runs.rotate_left(round as usize % 2);
            runs
        };
        let mut seen = Vec::new();
        let mut results = Results::default();
        let rounds = Rounds { rounds: 2, patience: 0 };
        measure("", rounds, runs, &mut results, |&who| {
            seen.push(who);
            Ok(vec![Measured::from([(Metric::CpuS, 1.0)])])
        })
        .expect("nothing fails");
        assert_eq!(seen, [Who::Windlass, Who::ClientGo, Who::ClientGo, Who::Windlass]);
        let series = results.series("case", Who::ClientGo).expect("it ran");
        assert_eq!((series.keys, series.median(Metric::CpuS)), (7, Some(1.0)));
    }

    /// Measures while others take so many hundredths; returns which attempt counts, and what is said.
    fn calmest(patience: u32, hundredths: &[u64]) -> (usize, String) {
        let (number, now) = (Cell::new(0), Cell::new((0, 0)));
        let clock = || Some(Times::new(now.get().0, now.get().1));
        let mut taken = Taken::default();
        let counts = taken.calmest(patience, clock, || {
            let (all, taken) = now.get();
            now.set((all + 100, taken + hundredths[number.get()]));
            number.set(number.get() + 1);
            Ok(number.get())
        });
        (counts.expect("nothing fails"), taken.to_string())
    }

    #[test]
    fn case_that_others_disturb_is_repeated_and_the_calmest_counts() {
        let said = |percent: u64, repeated: &str| {
            format!("; others took {percent} % of the time wanted, {percent} % at worst{repeated}")
        };
        assert_eq!(calmest(3, &[0]), (1, String::new()));
        assert_eq!(calmest(3, &[5]), (1, said(5, "")));
        let repeated = "; 2 cases were repeated for that";
        assert_eq!(calmest(3, &[40, 6, 1]), (3, said(1, repeated)));
        assert_eq!(calmest(2, &[40, 6, 20]), (2, said(6, repeated)));
        assert_eq!(calmest(0, &[40]), (1, said(40, "")));
    }

    #[test]
    fn machine_that_does_not_tell_is_calm() {
        let mut taken = Taken::default();
        assert_eq!(taken.calmest(3, || None, || Ok(7)).expect("nothing fails"), 7);
        assert_eq!(taken.to_string(), "");
    }

    #[test]
    fn rounds_are_spoken() {
        assert_eq!([1, 3].map(spoken), ["1 round", "3 rounds"]);
    }
}
