//! The work queue beside those of client-go and controller-runtime.
//!
//! [`plan`] says what one round runs and [`targets`] what is wanted of it; [`report`] makes the tables.
//! Here is the flow between them: look for Go, build both sides, run the rounds, print.

mod plan;
mod report;
mod targets;

use std::env::consts::EXE_SUFFIX;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::go::Module;
use super::json;
use super::line::{Measured, Metric, Who};
use super::machine;
use super::program;
use super::results::Results;
use super::rounds::{self, Rounds};
use super::table::grouped;
use super::targets::Score;
use crate::process::CommandLine;
use plan::{Plan, Run};

/// The suite's name in every line of JSON.
const SUITE: &str = "queue";

/// The Go side.
const PEER: Module = Module { folder: "bench/queue-go" };

/// What both programs print for every case.
const METRICS: [Metric; 4] = [Metric::Throughput, Metric::CpuS, Metric::WallS, Metric::PeakMb];

/// What to measure, and what to do with it; everything, five times, by default.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// How often to run everything.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How many keys to give each queue, a multiple of 100; controller-runtime gets a tenth.
    #[arg(long, value_name = "N", default_value_t = targets::KEYS, value_parser = plan::keys)]
    keys: u32,
    /// Run only the cases whose name contains this; may be given several times.
    #[arg(long = "case", value_name = "PART")]
    cases: Vec<String>,
    /// Run only this queue; may be given several times. Ratios are to client-go.
    #[arg(long = "who", value_name = "NAME")]
    whos: Vec<Who>,
    /// Write the medians to this file, one metric per line.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Fail if a target is missed.
    #[arg(long)]
    check: bool,
}

/// The two programs that run the cases.
#[derive(Debug)]
struct Programs {
    /// client-go and controller-runtime.
    go: String,
    /// The windlass variants.
    ours: String,
}

/// Builds and runs both sides, and prints what came out.
///
/// # Errors
/// If the options leave nothing to run, if Go is missing, if a side does not build or run, if the file
/// for JSON cannot be written, or, with `--check`, if a target is missed.
pub(crate) fn run(options: &Options) -> Result<()> {
    let plan = Plan::new(options.keys, &options.cases, &options.whos)?;
    let targets = targets::all();
    ensure!(
        !options.check || targets.iter().any(|target| plan.measures(target)),
        "--check has nothing to check: no target compares what --case and --who leave"
    );
    let go = plan.needs_go().then_some(PEER);
    let size = format!("{} keys", grouped(options.keys));
    println!("==> {}", machine::line(go, &size, options.rounds)?);
    if let Some(path) = &options.json {
        json::make_sure_of(path)?;
    }

    let programs = Programs::locate()?;
    programs.build(&plan)?;
    let mut results = Results::default();
    let runs = |_| plan.runs().copied().collect();
    let one = |run: &Run| measure_one(&programs.command(run), run);
    let rounds = Rounds { rounds: options.rounds, patience: 0 };
    rounds::measure("", rounds, runs, &mut results, one)?;

    println!("\n{}", report::medians(&plan, &results, options.rounds));
    println!("{}", report::targets(&targets, &results, options.keys));
    if let Some(path) = &options.json {
        json::write(path, SUITE, plan.runs().map(|run| (run.case, run.who)), &results)?;
    }
    Score::of(&targets, &results).conclude(options.check)
}

/// Runs one process and reads what it printed.
fn measure_one(command: &CommandLine, run: &Run) -> Result<Vec<Measured>> {
    Ok(vec![program::read(command, (SUITE, run.case, run.who), &METRICS)?])
}

impl Programs {
    /// Where the programs are once they are built: in cargo's target folder, wherever that is.
    fn locate() -> Result<Self> {
        let target = program::target_folder()?;
        Ok(Self {
            go: target.join(format!("bench/queue-go{EXE_SUFFIX}")).into_string(),
            ours: target.join(format!("release/queue-bench{EXE_SUFFIX}")).into_string(),
        })
    }

    /// Builds those that the plan runs.
    fn build(&self, plan: &Plan) -> Result<()> {
        if plan.needs_go() {
            program::build("the Go side", &PEER.build(&self.go))
                .context("the Go side does not build; its first build needs the network")?;
        }
        if plan.needs_ours() {
            let arguments = ["build", "--release", "--locked", "-p", "windlass-bench-queue"];
            program::build("our side", &CommandLine::new("cargo", &arguments))?;
        }
        Ok(())
    }

    /// The command of one run.
    fn command(&self, run: &Run) -> CommandLine {
        let program = if run.who.is_go() { &self.go } else { &self.ours };
        let keys = run.keys.to_string();
        let arguments = ["--who", run.who.name(), "--case", run.case, "--keys", &keys];
        CommandLine::new(program, &arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: Run = Run { case: "backlog", who: Who::Windlass, keys: 1000 };

    #[test]
    fn each_queue_is_asked_from_its_own_program() {
        let programs = Programs { go: "/t/queue-go".to_owned(), ours: "/t/queue-bench".to_owned() };
        let shown = |who| programs.command(&Run { who, ..RUN }).to_string();
        let ours = "/t/queue-bench --who windlass --case backlog --keys 1000";
        assert_eq!(shown(Who::Windlass), ours);
        let go = "/t/queue-go --who client-go --case backlog --keys 1000";
        assert_eq!(shown(Who::ClientGo), go);
    }
}
