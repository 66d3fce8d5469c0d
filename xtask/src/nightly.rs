//! Checks that take too long for every change: `cargo xtask nightly`, which a scheduled workflow
//! runs.
//!
//! A step is a few commands, which `--list` prints. If a step fails, the others still run; a table
//! at the end shows all results, and the command fails.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::Args;

use crate::kube;
use crate::process::{CommandLine, Stopwatch};

/// How many inputs the random tests draw; `cargo test` draws a few hundred.
const CASES: u32 = 5_000;

/// How many inputs each random test of the API server draws. Protobuf bodies, patches and CEL rules
/// have two tests each, so the server receives a million of each.
const BODIES: u32 = 500_000;

/// How many inputs a test may reject, as `defaulting_again_changes_nothing` does with most random
/// schemas.
const REJECTS: u32 = 20 * CASES;

/// How many seeds the simulations run: those of informers, and those of elections, which are fast.
const INFORMER_RUNS: u32 = 2_000;
const ELECTION_RUNS: u32 = 200_000;

/// How often the leader of three replicas is killed or paused; CI does it three times.
const FAILOVERS: u32 = 30;

/// Tests that pass only on a kube-apiserver of our own version: the recordings of the conformance
/// suite, its version, its default roles, its API documents, that a suspended Job loses its start
/// time, and which empty fields JSON has.
const OUR_VERSION_ALONE: [&str; 6] = [
    "real_server::",
    "both_clusters_have_the_same_version",
    "default_roles_are_those_of_the_real_server",
    "kubectl_reads_our_documents_as_those_of_a_real_server",
    "job_is_suspended_and_resumed",
    "every_field_of_every_served_kind_is_that_of_json",
];

/// The versions that do not enable two features by default that the tests expect: Deployments and
/// replica sets count their terminating pods, and pods get the topology labels of their node. The
/// features are enabled there.
const BEFORE_1_35: [&str; 2] = ["1.34", "1.33"];
const FEATURE_GATES: &str =
    "DeploymentReplicaSetTerminatingReplicas=true,PodTopologyLabelsAdmission=true";

/// Tests that do not pass on those versions either: the message of a CEL rule differs there.
const SINCE_1_35: [&str; 2] =
    ["kubectl_of_this_machine_prints", "kubectl_of_the_same_version_prints"];

const BENCHMARKS: [&str; 4] = ["queue", "informer", "controller", "apiserver"];

/// Which of the steps to run; all of them by default.
#[derive(Args, Debug, Default)]
pub(crate) struct Options {
    /// Run only the steps whose name begins with this; may be given several times.
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    only: Vec<String>,
    /// Print the steps and their commands, and run nothing.
    #[arg(long)]
    list: bool,
    /// Where the simulations begin: each number has seeds of its own.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u32,
}

#[derive(Debug)]
struct Step {
    name: String,
    about: String,
    commands: Vec<CommandLine>,
}

/// The result of a step.
#[derive(Debug)]
struct Finished {
    name: String,
    passed: bool,
    took: Duration,
}

/// Runs all chosen steps, and prints a table.
///
/// # Errors
/// If a step failed, or if no step has such a name.
pub(crate) fn run(options: &Options) -> Result<()> {
    let steps = options.steps()?;
    if options.list {
        for step in &steps {
            print!("{}", step.listed());
        }
        return Ok(());
    }
    let count = steps.len();
    let mut finished = Vec::new();
    for (index, step) in steps.into_iter().enumerate() {
        println!("==> {}/{count} {}: {}", index + 1, step.name, step.about);
        let watch = Stopwatch::start();
        let result = step.run();
        if let Err(error) = &result {
            eprintln!("error: step `{}`: {error:#}", step.name);
        }
        finished.push(Finished { name: step.name, passed: result.is_ok(), took: watch.elapsed() });
    }
    print!("{}", table(&finished));
    verdict(&finished)
}

impl Options {
    /// Returns the chosen steps in their usual order.
    fn steps(&self) -> Result<Vec<Step>> {
        let mut steps = all_steps(self.seed)?;
        for part in &self.only {
            let names: Vec<_> = steps.iter().map(|step| step.name.as_str()).collect();
            ensure!(
                names.iter().any(|name| name.starts_with(part)),
                "no step begins with `{part}`; there are {}",
                names.join(", ")
            );
        }
        steps.retain(|step| {
            self.only.is_empty() || self.only.iter().any(|part| step.name.starts_with(part))
        });
        Ok(steps)
    }
}

/// Returns all steps, ordered by how much they find for their time.
fn all_steps(seed: u32) -> Result<Vec<Step>> {
    let mut steps = vec![
        Step::new("promtool", "alert rules and dashboard", [xtask(&["promtool"])]),
        Step::new(
            "browser",
            "the dashboard in Chromium, and what an open page costs",
            [xtask(&["browser"]), xtask(&["browser", "cost"])],
        ),
        Step::new("random", "random tests and simulations with many inputs", [random(seed)]),
        Step::new("bodies", "what the API server does with random bodies and rules", [bodies()]),
        Step::new(
            "new-operator",
            "operators that `cargo windlass new` and `add` make pass their own CI, and run",
            [ignored_of_cli("operator")],
        ),
        Step::new(
            "rbac",
            "the Roles of the examples are what all of their tests show",
            [ignored_of_cli("rbac")],
        ),
        Step::new(
            "failovers",
            "the leader of three replicas is killed or paused, many times",
            [xtask(&["test", "--real", "failovers_under_load"])
                .env("WINDLASS_FAILOVERS", &FAILOVERS.to_string())],
        ),
    ];
    for minor in kube::OLDER_MINORS {
        let is_before_1_35 = BEFORE_1_35.contains(&minor);
        let more: &[&str] = if is_before_1_35 { &SINCE_1_35 } else { &[] };
        let skips = OUR_VERSION_ALONE.iter().chain(more).flat_map(|name| ["--skip", name]);
        let real: Vec<_> =
            ["test", "--real", "--no-fail-fast", "--"].into_iter().chain(skips).collect();
        let assets = kube::older_folder(minor)?;
        let mut tests = xtask(&real).env("KUBEBUILDER_ASSETS", &assets);
        if is_before_1_35 {
            tests = tests.env("WINDLASS_FEATURE_GATES", FEATURE_GATES);
        }
        steps.push(Step::new(
            &format!("kube-{minor}"),
            &format!("the tests on a real kube-apiserver, on Kubernetes {minor}"),
            [xtask(&["kube", "--version", minor]), tests],
        ));
    }
    for suite in BENCHMARKS {
        steps.push(Step::new(
            &format!("bench-{suite}"),
            &format!("the benchmark `{suite}`, once"),
            [xtask(&["bench", suite, "--rounds", "1"])],
        ));
    }
    Ok(steps)
}

fn xtask(arguments: &[&str]) -> CommandLine {
    CommandLine::new("cargo", &[&["xtask"], arguments].concat())
}

/// Returns the command for ignored tests of the CLI, which compile everything that an operator
/// uses.
fn ignored_of_cli(test: &str) -> CommandLine {
    let module = format!("{test}::");
    let arguments = ["test", "--package", "windlass-cli", "--test", "cli", &module];
    CommandLine::new("cargo", &[&arguments[..], &["--", "--ignored", "--nocapture"]].concat())
}

/// Returns the command for tests that send random requests to the API server; optimized, because
/// there are so many.
fn bodies() -> CommandLine {
    let package = ["--package", "windlass-apiserver", "--test", "apiserver"];
    let tests = ["--", "fuzz::", "fuzz_protobuf::", "strategic::"];
    let arguments = [&["test", "--release", "--no-fail-fast"], &package[..], &tests].concat();
    CommandLine::new("cargo", &arguments).env("PROPTEST_CASES", &BODIES.to_string())
}

/// Returns the command for the packages with random tests, with all variables that set the number
/// of inputs.
fn random(seed: u32) -> CommandLine {
    let packages =
        ["protobuf", "workqueue", "indexer", "informer", "reconciler", "apiserver", "manager"];
    let packages = packages.map(|package| format!("windlass-{package}"));
    let packages = packages.iter().flat_map(|package| ["--package", package]);
    let arguments: Vec<_> =
        ["test", "--no-fail-fast", "--lib", "--tests"].into_iter().chain(packages).collect();
    let first = |runs: u32| (u64::from(seed) * u64::from(runs)).to_string();
    CommandLine::new("cargo", &arguments)
        .env("PROPTEST_CASES", &CASES.to_string())
        .env("PROPTEST_MAX_GLOBAL_REJECTS", &REJECTS.to_string())
        .env("WINDLASS_MODEL_SEED", &first(INFORMER_RUNS))
        .env("WINDLASS_MODEL_RUNS", &INFORMER_RUNS.to_string())
        .env("WINDLASS_ELECTION_SEED", &first(ELECTION_RUNS))
        .env("WINDLASS_ELECTION_RUNS", &ELECTION_RUNS.to_string())
}

impl Step {
    fn new(name: &str, about: &str, commands: impl IntoIterator<Item = CommandLine>) -> Self {
        let commands = commands.into_iter().collect();
        Self { name: name.to_owned(), about: about.to_owned(), commands }
    }

    fn run(&self) -> Result<()> {
        self.commands.iter().try_for_each(|command| {
            println!("    {command}");
            command.run()
        })
    }

    fn listed(&self) -> String {
        let mut listed = format!("{}: {}\n", self.name, self.about);
        for command in &self.commands {
            let _ = writeln!(listed, "    {command}");
        }
        listed
    }
}

fn table(finished: &[Finished]) -> String {
    let width = finished.iter().map(|step| step.name.len()).max().unwrap_or_default();
    let mut table = format!("\n{:width$}  result  minutes\n", "step");
    for Finished { name, passed, took } in finished {
        let result = if *passed { "passed" } else { "FAILED" };
        let _ = writeln!(table, "{name:width$}  {result}  {:7.1}", took.as_secs_f64() / 60.0);
    }
    table
}

fn verdict(finished: &[Finished]) -> Result<()> {
    let failed: Vec<_> =
        finished.iter().filter(|step| !step.passed).map(|step| step.name.as_str()).collect();
    if failed.is_empty() {
        return Ok(());
    }
    bail!(
        "{} of {} steps failed; repeat them with: cargo xtask nightly --only {}",
        failed.len(),
        finished.len(),
        failed.join(",")
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::process::workspace_root;

    fn names(only: &[&str]) -> Vec<String> {
        let only = only.iter().map(|&part| part.to_owned()).collect();
        let steps = Options { only, ..Options::default() }.steps().expect("known steps");
        steps.into_iter().map(|step| step.name).collect()
    }

    #[test]
    fn steps_are_chosen_by_how_their_names_begin() {
        assert_eq!(names(&[]).len(), 14);
        assert_eq!(names(&["kube"]), ["kube-1.35", "kube-1.34", "kube-1.33"]);
        assert_eq!(names(&["random", "promtool"]), ["promtool", "random"]);
    }

    #[test]
    fn unknown_step_is_refused_with_those_that_there_are() {
        let options = Options { only: vec!["nothing".to_owned()], ..Options::default() };
        let error = options.steps().expect_err("there is no such step").to_string();
        assert!(error.contains("`nothing`; there are promtool, browser"), "{error}");
    }

    #[test]
    fn scheduled_workflow_runs_every_step() {
        let path = workspace_root().expect("tests run under cargo");
        let path = path.join(".github/workflows/nightly.yml");
        let workflow = fs::read_to_string(path).expect("the workflow must be there");
        let jobs: Vec<_> =
            workflow.lines().filter_map(|line| line.strip_prefix("          - ")).collect();
        for name in names(&[]) {
            assert!(jobs.iter().any(|job| name.starts_with(job)), "{name} is in none of {jobs:?}");
        }
        for job in jobs {
            names(&[job]);
        }
    }

    #[test]
    fn step_of_an_older_version_tests_with_what_it_has_built() {
        let steps = all_steps(0).expect("the steps");
        let step = steps.iter().find(|step| step.name == "kube-1.34").expect("a step");
        let shown = step.listed();
        assert!(shown.contains("\n    cargo xtask kube --version 1.34\n"), "{shown}");
        assert!(shown.contains("KUBEBUILDER_ASSETS=/"), "{shown}");
        assert!(shown.contains("/kube-1.34."), "{shown}");
        assert!(shown.contains("WINDLASS_FEATURE_GATES=Deployment"), "{shown}");
    }

    #[test]
    fn each_seed_has_seeds_of_its_own() {
        let shown = random(3).to_string();
        assert!(shown.contains("WINDLASS_MODEL_SEED=6000 WINDLASS_MODEL_RUNS=2000"), "{shown}");
    }

    #[test]
    fn step_that_fails_is_in_the_table_and_in_the_verdict() {
        let step = |name: &str, passed| Finished {
            name: name.to_owned(),
            passed,
            took: Duration::from_secs(90),
        };
        let finished = [step("random", true), step("bench-queue", false)];
        assert_eq!(
            table(&finished),
            "\nstep         result  minutes\nrandom       passed      1.5\n\
             bench-queue  FAILED      1.5\n"
        );
        let error = verdict(&finished).expect_err("one failed").to_string();
        assert!(
            error.ends_with(
                "1 of 2 steps failed; repeat them with: cargo xtask nightly --only bench-queue"
            ),
            "{error}"
        );
        verdict(&finished[..1]).expect("all passed");
    }
}
