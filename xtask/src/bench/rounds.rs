//! The rounds of a suite: every run of each, one after the other, with its progress shown.

use anyhow::Result;

use super::line::{Measured, Who};
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

/// Makes all rounds of `runs`, each in the order of that round, and collects what `measure` returns for everyone of
/// a run; `what` is in the heading, unless it is empty.
///
/// # Errors
/// The first of `measure`.
pub(super) fn measure<R: Run>(
    what: &str,
    rounds: u32,
    runs: impl Fn(u32) -> Vec<R>,
    results: &mut Results,
    mut measure: impl FnMut(&R) -> Result<Vec<Measured>>,
) -> Result<()> {
    let count = runs(0).len();
    let blank = if what.is_empty() { "" } else { " " };
    println!("==> measure{blank}{what}: {rounds} × {count} runs, one after the other");
    let mut progress = Progress::start(rounds, count);
    for round in 0..rounds {
        for (index, run) in runs(round).iter().enumerate() {
            let whos = run.whos();
            progress.begins(round, index, run.case(), &whos);
            let watch = Stopwatch::start();
            for (who, measured) in whos.into_iter().zip(measure(run)?) {
                results.add(run.case(), who, run.items(), measured);
            }
            progress.ended(index, watch.elapsed());
        }
    }
    let took = progress.elapsed();
    drop(progress);
    println!("    measured in {:.1} s", took.as_secs_f64());
    Ok(())
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
        measure("", 2, runs, &mut results, |&who| {
            seen.push(who);
            Ok(vec![Measured::from([(Metric::CpuS, 1.0)])])
        })
        .expect("nothing fails");
        assert_eq!(seen, [Who::Windlass, Who::ClientGo, Who::ClientGo, Who::Windlass]);
        let series = results.series("case", Who::ClientGo).expect("it ran");
        assert_eq!((series.keys, series.median(Metric::CpuS)), (7, Some(1.0)));
    }

    #[test]
    fn rounds_are_spoken() {
        assert_eq!([1, 3].map(spoken), ["1 round", "3 rounds"]);
    }
}
