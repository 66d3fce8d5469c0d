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
    rounds: Rounds,
    runs: impl Fn(u32) -> Vec<R>,
    results: &mut Results,
    measure: impl FnMut(&R) -> Result<Vec<Measured>>,
) -> Result<()> {
    measure_by(Times::now, what, rounds, runs, results, measure)
}

fn measure_by<R: Run>(
    clock: impl Fn() -> Option<Times>,
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
            let measured = taken.calmest(patience, || {
                let mut worst: f64 = 0.0;
                let runs = case.iter().zip(index..);
                let measured = runs.map(|(run, index)| {
                    progress.begins(round, index, run.case(), &run.whos());
                    let watch = Stopwatch::start();
                    let before = clock();
                    let measured = measure(run)?;
                    let share = clock().zip(before).map(|(now, before)| now.taken_since(before));
                    worst = worst.max(share.unwrap_or(0.0));
                    progress.ended(index, watch.elapsed());
                    Ok(measured)
                });
                let measured = measured.collect::<Result<Vec<_>>>()?;
                Ok((measured, worst))
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
    /// Of each case of a round that counts, the largest share of its runs.
    shares: Vec<f64>,
    /// How often one was repeated.
    repeated: u32,
}

impl Taken {
    /// Measures until nobody else took much of the time, with patience. What is measured comes with the share that others took,
    /// and is returned of the attempt in which that was the least.
    fn calmest<M>(
        &mut self,
        patience: u32,
        mut measure: impl FnMut() -> Result<(M, f64)>,
    ) -> Result<M> {
        let mut best = measure()?;
        for _ in 0..patience {
            if best.1 <= CALM {
                break;
            }
            self.repeated += 1;
            let other = measure()?;
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
            write!(f, "; cases were repeated {} times for that", self.repeated)?;
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
    fn calmest(patience: u32, hundredths: &[u32]) -> (usize, String) {
        let mut taken = Taken::default();
        let mut attempts = hundredths.iter().enumerate();
        let counts = taken.calmest(patience, || {
            let (number, share) = attempts.next().expect("no more attempts than these");
            Ok((number + 1, f64::from(*share) / 100.0))
        });
        (counts.expect("nothing fails"), taken.to_string())
    }

    #[test]
    fn case_that_others_disturb_is_repeated_and_the_calmest_counts() {
        let said = |percent: u32, repeated: &str| {
            format!("; others took {percent} % of the time wanted, {percent} % at worst{repeated}")
        };
        assert_eq!(calmest(3, &[0]), (1, String::new()));
        assert_eq!(calmest(3, &[5]), (1, said(5, "")));
        let repeated = "; cases were repeated 2 times for that";
        assert_eq!(calmest(3, &[40, 6, 1]), (3, said(1, repeated)));
        assert_eq!(calmest(2, &[40, 6, 20]), (2, said(6, repeated)));
        assert_eq!(calmest(0, &[40]), (1, said(40, "")));
    }

    #[test]
    fn case_is_repeated_for_all_who_run_it_and_measured_by_the_worst_of_them() {
        // What others take of each hundred, run after run.
        let shares = [0, 20, 0, 3];
        let (mut seen, number, now) = (Vec::new(), Cell::new(0), Cell::new((0, 0)));
        let clock = || Some(Times::new(now.get().0, now.get().1));
        let mut results = Results::default();
        let rounds = Rounds { rounds: 1, patience: 5 };
        let runs = |_| vec![Who::Windlass, Who::ClientGo];
        measure_by(clock, "", rounds, runs, &mut results, |&who| {
            let (wanted, taken) = now.get();
            now.set((wanted + 100, taken + shares[number.get()]));
            number.set(number.get() + 1);
            seen.push(who);
            Ok(vec![Measured::from([(Metric::CpuS, f64::from(u8::try_from(number.get())?))])])
        })
        .expect("nothing fails");
        assert_eq!(seen, [Who::Windlass, Who::ClientGo, Who::Windlass, Who::ClientGo]);
        let median = |who| results.series("case", who).and_then(|s| s.median(Metric::CpuS));
        assert_eq!([Who::Windlass, Who::ClientGo].map(median), [Some(3.0), Some(4.0)]);
    }

    #[test]
    fn machine_that_does_not_tell_is_calm() {
        let mut results = Results::default();
        let rounds = Rounds { rounds: 1, patience: 5 };
        let mut count = 0;
        measure_by(
            || None,
            "",
            rounds,
            |_| vec![Who::Windlass],
            &mut results,
            |_| {
                count += 1;
                Ok(vec![Measured::from([(Metric::CpuS, 1.0)])])
            },
        )
        .expect("nothing fails");
        assert_eq!(count, 1);
    }

    #[test]
    fn rounds_are_spoken() {
        assert_eq!([1, 3].map(spoken), ["1 round", "3 rounds"]);
    }
}
