//! Suites whose contestants are measured on a stage: a process of ours that holds a filled kube-apiserver.
//!
//! A [`Suite`] is data: its cases and contestants, its tables and targets. [`plan`] says what one round runs;
//! [`stage`] is the process, which measures; [`tables`] shows what it measured. Here is the flow between them: look
//! for Go, build everything, fill the server, run the rounds, print.

mod plan;
mod stage;
mod tables;

use std::env::consts::EXE_SUFFIX;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::go::Module;
use super::line::{self, Measured, Who};
use super::results::Results;
use super::rounds::{self, Rounds};
use super::table::grouped;
use super::targets::{self, Score, Target};
use super::{json, machine, program};
use crate::process::CommandLine;
use plan::Run;
pub(super) use plan::{Case, Plan};
use stage::Stage;
#[cfg(test)]
pub(super) use tables::imagined;
pub(super) use tables::{Cell, Section};

/// A suite.
#[derive(Debug)]
pub(super) struct Suite {
    /// Its name: of the subcommand, in every line of JSON, and what the names of its programs begin with.
    pub(super) name: &'static str,
    /// The Go side.
    pub(super) peer: Module,
    /// What the server is filled with, which is also the name of the option for how many.
    pub(super) items: &'static str,
    /// How that is done.
    pub(super) filling: &'static str,
    /// How many of them change at most.
    pub(super) changes_max: u32,
    /// In the order in which they are run and shown.
    pub(super) cases: &'static [Case],
    /// In the order in which they are shown.
    pub(super) whos: &'static [Who],
    /// Whom ratios in the tables are to.
    pub(super) base: Who,
    /// The tables.
    pub(super) sections: &'static [Section],
    /// What is wanted, and of how many objects.
    pub(super) targets: fn() -> Vec<Target>,
    pub(super) meant_for: u32,
}

/// The options that these suites have in common.
#[derive(Args, Debug)]
pub(super) struct Common {
    /// How often to run everything.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How often to repeat a case during which others took more than 5 % of the processors' time that was wanted; the
    /// calmest counts.
    #[arg(long, value_name = "N", default_value_t = 0)]
    patience: u32,
    /// Run only the cases whose name contains this; may be given several times.
    #[arg(long = "case", value_name = "PART")]
    cases: Vec<String>,
    /// Run only this contestant; may be given several times. Leaves out what runs all of them at the same time.
    #[arg(long = "who", value_name = "NAME")]
    whos: Vec<String>,
    /// Write the medians to this file, one metric per line.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Fail if a target is missed.
    #[arg(long)]
    check: bool,
}

/// The programs of a suite.
#[derive(Debug)]
struct Programs {
    /// Holds the server.
    stage: String,
    /// Contestants in Go.
    go: String,
    /// Contestants in Rust.
    rust: String,
}

impl Suite {
    /// Builds and runs everything with so many objects, and prints what came out.
    ///
    /// # Errors
    /// If the options leave nothing to run, if Go or the programs of the real server are missing, if something
    /// does not build or run, if the file for JSON cannot be written, or, with `--check`, if a target is missed.
    pub(super) fn run(&self, items: u32, options: &Common) -> Result<()> {
        let plan = self.plan(items, &options.cases, &options.whos)?;
        let targets = (self.targets)();
        ensure!(
            !options.check || targets.iter().any(|target| plan.measures(target)),
            "--check has nothing to check: no target compares what --case and --who leave"
        );
        let go = plan.needs_go().then_some(self.peer);
        let size = format!("{} {}", grouped(items), self.items);
        println!("==> {}", machine::line(go, &size, options.rounds)?);
        if let Some(path) = &options.json {
            json::make_sure_of(path)?;
        }

        let programs = self.programs()?;
        self.build(&programs, &plan)?;
        println!("==> fill a kube-apiserver: {size}, {}", self.filling);
        let mut stage = Stage::start(&programs.stage, items, self.changes(items))?;
        let mut results = Results::default();
        let one = |run: &Run| self.measure(run, &mut stage, &programs, items);
        let rounds = Rounds { rounds: options.rounds, patience: options.patience };
        rounds::measure("", rounds, |round| plan.round(round), &mut results, one)?;
        drop(stage);

        println!("\n{}", self.medians(&plan, &results, options.rounds, items));
        println!("{}", self.judged(&targets, &results, items));
        if let Some(path) = &options.json {
            json::write(
                path,
                self.name,
                plan.entries().map(|entry| (entry.case.name, entry.who)),
                &results,
            )?;
        }
        Score::of(&targets, &results).conclude(options.check)
    }

    /// What is run.
    ///
    /// # Errors
    /// If a part or a name is unknown, or if they leave nothing.
    pub(super) fn plan(&self, items: u32, parts: &[String], whos: &[String]) -> Result<Plan> {
        Plan::new((self.cases, self.whos), items, parts, whos)
    }

    /// How many changes there are. Every object gets at most one, so that nobody can merge two.
    fn changes(&self, items: u32) -> u32 {
        self.changes_max.min(items / 2)
    }

    /// The tables of what was measured with so many objects.
    pub(super) fn medians(
        &self,
        plan: &Plan,
        results: &Results,
        rounds: u32,
        items: u32,
    ) -> String {
        let changes = grouped(self.changes(items));
        tables::medians(self.sections, plan, results, (self.base, rounds, &changes))
    }

    /// How the targets stand that a run with so many objects measured.
    pub(super) fn judged(&self, all: &[Target], results: &Results, items: u32) -> String {
        let meant = self.meant_for;
        targets::explained(all, results, (items != meant).then_some((meant, items, self.items)))
    }

    /// Lets the stage make one run.
    fn measure(
        &self,
        Run { case, whos, .. }: &Run,
        stage: &mut Stage,
        programs: &Programs,
        items: u32,
    ) -> Result<Vec<Measured>> {
        let text = stage.measure(case.name, whos.iter().map(|&who| (who, programs.of(who))));
        let asked = (self.name, case.name, whos.as_slice());
        text.and_then(|text| line::parse_all(&text, asked, case.metrics)).with_context(|| {
            let only: Vec<_> = whos.iter().map(|who| format!("--who {who}")).collect();
            format!(
                "{} gave no result for {}; repeat it alone with: \
                 cargo xtask bench {} --rounds 1 --{} {items} --case {} {}",
                line::names(whos),
                case.name,
                self.name,
                self.items,
                case.name,
                only.join(" ")
            )
        })
    }

    /// Where the programs are after building.
    fn programs(&self) -> Result<Programs> {
        let target = program::target_folder()?;
        let name = self.name;
        let path = |path: String| target.join(path + EXE_SUFFIX).into_string();
        Ok(Programs {
            stage: path(format!("release/{name}-stage")),
            go: path(format!("bench/{name}-go")),
            rust: path(format!("release/{name}-contestant")),
        })
    }

    fn build(&self, programs: &Programs, plan: &Plan) -> Result<()> {
        if plan.needs_go() {
            program::build("the Go side", &self.peer.build(&programs.go))?;
        }
        let package = format!("windlass-bench-{}", self.name);
        let arguments = ["build", "--release", "--locked", "-p", &package];
        program::build("the stage and the Rust side", &CommandLine::new("cargo", &arguments))
    }
}

impl Programs {
    fn of(&self, who: Who) -> &str {
        if who.is_go() { &self.go } else { &self.rust }
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command};

    use super::super::{controller, informer};

    #[test]
    fn options_do_not_contradict_each_other() {
        informer::Options::augment_args(Command::new("informer")).debug_assert();
        controller::Options::augment_args(Command::new("controller")).debug_assert();
    }

    #[test]
    fn objects_change_at_most_once() {
        let changes = |items| informer::SUITE.changes(items);
        assert_eq!((changes(100), changes(50_000)), (50, 2000));
        assert_eq!(controller::SUITE.changes(50_000), 10_000);
    }

    #[test]
    fn every_case_is_in_one_table_and_every_target_has_its_case() {
        for suite in [&informer::SUITE, &controller::SUITE] {
            for case in suite.cases {
                let tables = suite.sections.iter().filter(|s| s.cases.contains(&case.name));
                assert_eq!(tables.count(), 1, "{} {}", suite.name, case.name);
            }
            let plan = suite.plan(1000, &[], &[]).expect("everything");
            for target in (suite.targets)().iter().filter(|target| target.wanted.is_some()) {
                assert!(plan.measures(target), "{target:?}");
            }
        }
    }
}
