//! The informers beside those of client-go, controller-runtime and kube-runtime.
//!
//! [`plan`] says what one round runs and [`targets`] what is wanted of it; [`stage`] is the process that
//! holds the filled server and measures contestants on it; [`report`] makes the tables. Here is the flow
//! between them: look for Go, build everything, fill the server, run the rounds, print.

mod plan;
mod report;
mod stage;
mod targets;

use std::env::consts::EXE_SUFFIX;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::go::Module;
use super::line::{self, Who};
use super::progress::Progress;
use super::results::Results;
use super::table::grouped;
use super::targets::Score;
use super::{json, machine, program};
use crate::process::{CommandLine, Stopwatch};
use plan::{Plan, Run};
use stage::Stage;

/// The suite's name in every line of JSON.
const SUITE: &str = "informer";

/// The Go side.
const PEER: Module = Module { folder: "bench/informer-go" };

/// What to measure, and what to do with it; everything, three times, by default.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// How often to run everything.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How many pods the server has.
    #[arg(long, value_name = "N", default_value_t = plan::PODS, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pods: u32,
    /// Run only the cases whose name contains this; may be given several times.
    #[arg(long = "case", value_name = "PART")]
    cases: Vec<String>,
    /// Run only this contestant; may be given several times. Ratios are to client-go.
    #[arg(long = "who", value_name = "NAME", value_parser = plan::who)]
    whos: Vec<Who>,
    /// Write the medians to this file, one metric per line.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Fail if a target is missed.
    #[arg(long)]
    check: bool,
}

/// The programs of the suite.
#[derive(Debug)]
struct Programs {
    /// Holds the server.
    stage: String,
    /// client-go and controller-runtime.
    go: String,
    /// kube-runtime and ours.
    rust: String,
}

/// Builds and runs everything, and prints what came out.
///
/// # Errors
/// If the options leave nothing to run, if Go or the programs of the real server are missing, if something
/// does not build or run, if the file for JSON cannot be written, or, with `--check`, if a target is missed.
pub(crate) fn run(options: &Options) -> Result<()> {
    let plan = Plan::new(options.pods, &options.cases, &options.whos)?;
    let targets = targets::all();
    ensure!(
        !options.check || targets.iter().any(|target| plan.measures(target)),
        "--check has nothing to check: no target compares what --case and --who leave"
    );
    println!("==> {}", machine_line(&plan, options)?);
    if let Some(path) = &options.json {
        json::make_sure_of(path)?;
    }

    let programs = Programs::locate()?;
    programs.build(&plan)?;
    println!("==> fill a kube-apiserver: {} pods, two writes each", grouped(options.pods));
    let mut stage = Stage::start(&programs.stage, options.pods, plan.updates())?;
    let results = measure(&plan, &mut stage, &programs, options)?;
    drop(stage);

    println!("\n{}", report::medians(&plan, &results, options.rounds));
    println!("{}", report::targets(&targets, &results, options.pods));
    if let Some(path) = &options.json {
        json::write(path, SUITE, plan.runs().map(|run| (run.case.name(), run.who)), &results)?;
        println!("==> medians written to {}", path.display());
    }
    Score::of(&targets, &results).conclude(options.check)
}

/// What a reader has to know of the run; asking for it also finds out whether Go is there.
fn machine_line(plan: &Plan, options: &Options) -> Result<String> {
    let mut parts = vec![machine::processor()];
    if plan.needs_go() {
        parts.push(PEER.toolchain()?);
    }
    parts.push(machine::rustc()?);
    parts.push(format!("{} pods", grouped(options.pods)));
    parts.push(match options.rounds {
        1 => "1 round".to_owned(),
        many => format!("{many} rounds"),
    });
    Ok(parts.join("; "))
}

/// Runs every round and collects what the stage measured.
fn measure(
    plan: &Plan,
    stage: &mut Stage,
    programs: &Programs,
    options: &Options,
) -> Result<Results> {
    let (rounds, count) = (options.rounds, plan.runs().count());
    println!("==> measure: {rounds} × {count} processes, one after the other");
    let mut results = Results::default();
    let mut progress = Progress::start(rounds, count);
    for round in 0..rounds {
        for (index, run) in plan.round(round).into_iter().enumerate() {
            progress.begins(round, index, run.case.name(), run.who);
            let watch = Stopwatch::start();
            let asked = (SUITE, run.case.name(), run.who);
            let outcome = stage.measure(run, programs.of(run.who));
            let outcome = outcome.and_then(|text| line::parse(&text, asked, run.case.metrics()));
            let measured = outcome.with_context(|| repeat(run, options))?;
            results.add(run.case.name(), run.who, options.pods, measured);
            progress.ended(index, watch.elapsed());
        }
    }
    let took = progress.elapsed();
    drop(progress);
    println!("    measured in {:.1} s", took.as_secs_f64());
    Ok(results)
}

/// What to say of a run that failed.
fn repeat(run: Run, options: &Options) -> String {
    let (case, who, pods) = (run.case.name(), run.who, options.pods);
    format!(
        "{who} gave no result for {case}; repeat it alone with: \
         cargo xtask bench informer --rounds 1 --pods {pods} --case {case} --who {who}"
    )
}

impl Programs {
    /// Where they are after building.
    fn locate() -> Result<Self> {
        let target = program::target_folder()?;
        let path = |name: &str| target.join(format!("{name}{EXE_SUFFIX}")).into_string();
        Ok(Self {
            stage: path("release/informer-stage"),
            go: path("bench/informer-go"),
            rust: path("release/informer-contestant"),
        })
    }

    fn build(&self, plan: &Plan) -> Result<()> {
        if plan.needs_go() {
            program::build("the Go side", &PEER.build(&self.go))?;
        }
        let arguments = ["build", "--release", "--locked", "-p", "windlass-bench-informer"];
        program::build("the stage and the Rust side", &CommandLine::new("cargo", &arguments))
    }

    fn of(&self, who: Who) -> &str {
        if who.is_go() { &self.go } else { &self.rust }
    }
}
