//! Runs a suite: builds its programs, runs the rounds, and prints the results.

use std::fs::{self, OpenOptions};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::Common;
use super::line::{self, Measured};
use super::machine::{self, OtherLoad};
use super::programs::{Programs, is_go};
use super::report;
use super::results::{CPU_NS_PER_ITEM, ITEMS, PEAK_TO_RESIDENT, Results};
use super::suite::{Chosen, Column, Driver, Suite};
use crate::process::Stopwatch;

/// Builds and runs a suite, and prints the results.
///
/// # Errors
/// If the options leave nothing to run, if a program does not build or run, if the file for JSON
/// cannot be written, or, with `--check`, if a bound is missed.
pub(super) fn run(suite: &Suite, size: u32, options: &Common) -> Result<()> {
    let chosen = suite.choose(&options.cases, &options.whos)?;
    let rounds = options.rounds.unwrap_or(suite.rounds);
    let with_go = chosen.iter().flat_map(|chosen| &chosen.whos).any(|who| is_go(who));
    println!("==> {}", machine::describe(suite, with_go, size, rounds)?);
    if let Some(path) = &options.json {
        check_writable(path)?;
    }

    let programs = Programs::build(suite.name, suite.packages, with_go)?;
    let mut driver = (suite.start)(programs, size)?;
    let results = measure(suite, &chosen, size, rounds, driver.as_mut())?;
    drop(driver);

    println!();
    for chosen in &chosen {
        println!("{}", report::medians(suite, chosen, &results));
    }
    println!("{}", report::explanation(suite, rounds));
    let (held, missed) = report::score(suite, &results);
    if held + missed > 0 {
        println!("{}", report::bounds(suite, &results, size));
    }
    if let Some(path) = &options.json {
        write_json(path, suite, &results)?;
    }
    println!("==> bounds: {held} held, {missed} missed");
    ensure!(!options.check || held + missed > 0, "--check: no bound was measured");
    if options.check && missed > 0 {
        bail!("{missed} bounds are missed (see above)");
    }
    Ok(())
}

/// Runs all rounds of all sections.
fn measure(
    suite: &Suite,
    chosen: &[Chosen],
    size: u32,
    rounds: u32,
    driver: &mut dyn Driver,
) -> Result<Results> {
    println!("==> measure");
    let watch = Stopwatch::start();
    let mut results = Results::default();
    let mut load = OtherLoad::default();
    for Chosen { section, cases, whos } in chosen {
        for round in 0..rounds {
            // Every round begins with a different contestant: the first may get a colder server.
            let first = round as usize % whos.len();
            let whos = [&whos[first..], &whos[..first]].concat();
            for &case in cases {
                let seconds = watch.elapsed().as_secs();
                eprintln!("    round {}/{rounds}, {case}: {seconds} s so far", round + 1);
                for whos in whos.chunks(if section.at_once { whos.len() } else { 1 }) {
                    let output = load.during(|| driver.run(case, whos));
                    let measured = output
                        .and_then(|output| read(&output, suite, case, whos, section.columns))
                        .with_context(|| failure(suite, size, case, whos))?;
                    for (who, measured) in measured {
                        results.add(case, who, (suite.items)(case, who, size), measured);
                    }
                }
            }
        }
    }
    println!("    measured in {:.1} s; {load}", watch.elapsed().as_secs_f64());
    Ok(results)
}

/// Parses the output of a run, which must have every metric of the columns.
fn read(
    output: &str,
    suite: &Suite,
    case: &str,
    whos: &[&'static str],
    columns: &[Column],
) -> Result<Vec<(&'static str, Measured)>> {
    let all = line::parse(output, suite.name, case, whos)?;
    for (who, measured) in &all {
        for column in columns {
            let is_derived = [ITEMS, CPU_NS_PER_ITEM, PEAK_TO_RESIDENT].contains(&column.metric);
            ensure!(
                is_derived || measured.contains_key(column.metric),
                "the metric `{}` of {who} is missing",
                column.metric
            );
        }
    }
    Ok(all)
}

fn failure(suite: &Suite, size: u32, case: &str, whos: &[&str]) -> String {
    format!(
        "no result of {case} for {}; repeat it with: \
         cargo xtask bench {} --rounds 1 --{} {size} --case {case} --who {}",
        whos.join(", "),
        suite.name,
        suite.unit,
        whos.join(" --who ")
    )
}

/// Fails before the long run if the file cannot be written afterwards. Its content is kept until
/// then.
fn check_writable(path: &Path) -> Result<()> {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.with_context(|| format!("--json: {} cannot be written", path.display()))?;
    Ok(())
}

fn write_json(path: &Path, suite: &Suite, results: &Results) -> Result<()> {
    let mut text = String::new();
    for line in results.medians(suite.name) {
        text += &serde_json::to_string(&line)?;
        text.push('\n');
    }
    fs::write(path, text).with_context(|| format!("{} could not be written", path.display()))?;
    println!("==> medians written to {}", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::super::controller::SUITE;
    use super::*;

    /// Answers every run with the metrics of the suite, and records it.
    #[derive(Default)]
    struct Recorder {
        runs: Vec<String>,
        left_out: Option<&'static str>,
    }

    impl Driver for Recorder {
        fn run(&mut self, case: &str, whos: &[&str]) -> Result<String> {
            self.runs.push(format!("{case}: {}", whos.join(", ")));
            let mut section = SUITE.sections.iter().filter(|section| section.cases.contains(&case));
            let columns = section.next().context("an unknown case")?.columns;
            let mut text = String::new();
            for who in whos {
                for metric in columns.iter().map(|column| column.metric) {
                    if Some(metric) != self.left_out {
                        let name = SUITE.name;
                        writeln!(
                            text,
                            r#"{{"suite":"{name}","case":"{case}","who":"{who}","metric":"{metric}","value":2}}"#
                        )?;
                    }
                }
            }
            Ok(text)
        }
    }

    #[test]
    fn every_round_begins_with_another_contestant() {
        let parts = ["storm", "side"].map(str::to_owned);
        let chosen = SUITE.choose(&parts, &[]).expect("two cases");
        let mut recorder = Recorder::default();
        let results = measure(&SUITE, &chosen, 1000, 2, &mut recorder).expect("good lines");
        assert_eq!(
            recorder.runs,
            [
                "storm: controller-runtime",
                "storm: kube-runtime",
                "storm: windlass",
                "storm: windlass-metrics",
                "storm: kube-runtime",
                "storm: windlass",
                "storm: windlass-metrics",
                "storm: controller-runtime",
                "side-by-side: controller-runtime, kube-runtime, windlass",
                "side-by-side: kube-runtime, windlass, controller-runtime",
            ]
        );
        let ratios = results.ratios("side-by-side", "windlass", "kube-runtime", "p99_us");
        assert_eq!(ratios.map(|ratios| ratios.median), Some(1.0));
    }

    #[test]
    fn missing_metric_is_reported_with_the_command_that_repeats_the_run() {
        let chosen = SUITE.choose(&["storm".to_owned()], &[]).expect("a case");
        let mut recorder = Recorder { left_out: Some("peak_mb"), ..Recorder::default() };
        let error = measure(&SUITE, &chosen, 1000, 1, &mut recorder).expect_err("it is missing");
        assert_eq!(
            format!("{error:#}"),
            "no result of storm for controller-runtime; repeat it with: \
             cargo xtask bench controller --rounds 1 --objects 1000 --case storm \
             --who controller-runtime: the metric `peak_mb` of controller-runtime is missing"
        );
    }

    #[test]
    fn unwritable_json_file_is_refused_before_the_run() {
        let error = check_writable(Path::new("/no/such/folder/queue.json"));
        let error = error.expect_err("the folder does not exist");
        assert_eq!(error.to_string(), "--json: /no/such/folder/queue.json cannot be written");
    }
}
