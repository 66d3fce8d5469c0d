//! The embedded API server beside kube-apiserver with etcd.
//!
//! [`plan`] says what is run and [`targets`] what is wanted of it; [`held`] is a server that is filled once
//! for many lists; [`report`] makes the tables. Here is the flow between them: build, run the groups of
//! cases in rounds, print. Everything that knows a cluster is in the program `apiserver-bench`.

mod held;
mod plan;
mod report;
mod targets;

use std::env::consts::EXE_SUFFIX;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;

use super::results::Results;
use super::rounds::{self, Rounds};
use super::table::grouped;
use super::targets::Score;
use super::{json, machine, program};
use crate::process::CommandLine;
use held::Held;
use plan::{Group, Part, Plan, Run};

/// The suite's name in every line of JSON.
const SUITE: &str = "apiserver";

/// What to measure, and what to do with it; everything, three times, by default.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// How often to run everything.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How many `ConfigMaps` to list.
    #[arg(long, value_name = "N", default_value_t = targets::OBJECTS, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    objects: u32,
    /// Run only the cases whose name contains this; may be given several times.
    #[arg(long = "case", value_name = "PART")]
    cases: Vec<String>,
    /// Write the medians to this file, one metric per line.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Fail if a target is missed.
    #[arg(long)]
    check: bool,
}

/// Builds and runs both servers, and prints what came out.
///
/// # Errors
/// If the options leave nothing to run, if the programs of the real server are missing, if a server does not
/// build or run, if the file for JSON cannot be written, or, with `--check`, if a target is missed.
pub(crate) fn run(options: &Options) -> Result<()> {
    let plan = Plan::new(options.objects, &options.cases)?;
    let targets = targets::all();
    ensure!(
        !options.check || targets.iter().any(|target| plan.measures(target)),
        "--check has nothing to check: no target is about what --case leaves"
    );
    let size = format!("{} objects", grouped(options.objects));
    println!("==> {}", machine::line(None, &size, options.rounds)?);
    if let Some(path) = &options.json {
        json::make_sure_of(path)?;
    }

    let path = program::target_folder()?.join(format!("release/apiserver-bench{EXE_SUFFIX}"));
    let packages = ["-p", "windlass-apiserver", "-p", "windlass-bench-apiserver"];
    let build = [&["build", "--release", "--locked"], &packages[..]].concat();
    program::build("both programs", &CommandLine::new("cargo", &build))?;
    let results = measure(&plan, path.as_str(), options)?;

    println!("\n{}", report::medians(&plan, &results, options.rounds));
    println!("{}", report::targets(&targets, &results, options.objects));
    if let Some(path) = &options.json {
        json::write(path, SUITE, plan.runs().map(|run| (run.case, run.who)), &results)?;
    }
    Score::of(&targets, &results).conclude(options.check)
}

/// Runs every round of every group and collects what its processes printed.
fn measure(plan: &Plan, program: &str, options: &Options) -> Result<Results> {
    let mut results = Results::default();
    for group in Group::ALL {
        let runs = plan.of(group);
        if runs.is_empty() {
            continue;
        }
        let held = hold(group, &runs, program, options.objects)?;
        let one = |run: &Run| {
            let asked = (SUITE, run.case, run.who);
            let command = command(program, run, &held);
            Ok(vec![program::read(&command, asked, run.part.metrics())?])
        };
        let rounds = Rounds { rounds: options.rounds, patience: 0 };
        rounds::measure(group.name(), rounds, |_| runs.clone(), &mut results, one)?;
    }
    Ok(results)
}

/// The filled servers that a group needs, if it needs any.
fn hold(group: Group, runs: &[Run], program: &str, objects: u32) -> Result<Vec<Held>> {
    if group != Group::List {
        return Ok(Vec::new());
    }
    println!("==> fill the servers: {} ConfigMaps each", grouped(objects));
    let mut held: Vec<Held> = Vec::new();
    for run in runs {
        if held.iter().all(|server| server.who != run.who) {
            held.push(Held::start(program, run.who, objects)?);
        }
    }
    Ok(held)
}

/// The command of one run.
fn command(program: &str, run: &Run, held: &[Held]) -> CommandLine {
    let mut arguments = vec!["--who".to_owned(), run.who.name().to_owned()];
    let part = match run.part {
        Part::Start => "start",
        Part::List { paged } => {
            arguments.extend(["--objects".to_owned(), run.items.to_string()]);
            arguments.extend(paged.then(|| "--paged".to_owned()));
            let server = held.iter().find(|server| server.who == run.who);
            arguments.extend(server.into_iter().flat_map(|server| server.access.arguments()));
            "list"
        }
        Part::Fanout { watchers, updates } => {
            let (watchers, updates) = (watchers.to_string(), updates.to_string());
            arguments.extend(["--watchers".to_owned(), watchers, "--updates".to_owned(), updates]);
            "fanout"
        }
    };
    let arguments: Vec<&str> =
        std::iter::once(part).chain(arguments.iter().map(String::as_str)).collect();
    CommandLine::new(program, &arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_has_its_command() {
        let plan = Plan::new(1000, &[]).expect("everything");
        let shown: Vec<_> =
            plan.runs().map(|run| command("/t/bench", run, &[]).to_string()).collect();
        assert_eq!(shown[2], "/t/bench start --who in-process");
        assert_eq!(shown[3], "/t/bench list --who real --objects 1000");
        assert_eq!(shown[6], "/t/bench list --who embedded --objects 1000 --paged");
        assert_eq!(shown[12], "/t/bench fanout --who embedded --watchers 1000 --updates 200");
    }
}
