//! Continuous integration as a closed list of steps.
//!
//! `.ci/run` and the GitHub workflow run exactly these steps, so that a change that passes here
//! passes there. Cheapest first, so that a formatting error is found before the tests run. The
//! first failing step ends the run, and names the command that repeats it alone.

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use crate::process::{CommandLine, Stopwatch};
use crate::{deps, image};

/// Which of the steps to run; all of them by default.
#[derive(Args, Debug, Default)]
pub(crate) struct Options {
    /// Leave this step out; may be given several times.
    #[arg(long, value_name = "STEP", value_delimiter = ',', conflicts_with = "only")]
    skip: Vec<Step>,
    /// Run this step alone; may be given several times.
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    only: Vec<Step>,
}

/// One step, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    /// The code is formatted as rustfmt.toml says.
    Fmt,
    /// rustc and clippy report no lint, in any target.
    Clippy,
    /// The documentation builds without warnings.
    Docs,
    /// The dependency graph is what deny.toml and the crate edges allow.
    Deps,
    /// All tests pass: unit, integration and documentation tests.
    Tests,
    /// The embedded API server works without its features, as operators embed it.
    Features,
    /// The website operator is a static binary that runs in an empty root folder as an unprivileged
    /// user.
    Image,
}

/// The work of a step.
enum Work {
    Command(CommandLine),
    DependencyChecks,
    Image,
}

/// Runs the chosen steps in order, and stops at the first failure.
///
/// # Errors
/// If a step fails, or if the options leave no step.
pub(crate) fn run(options: &Options) -> Result<()> {
    let steps = options.steps();
    ensure!(!steps.is_empty(), "every step is skipped, so there is nothing to check");
    let whole = Stopwatch::start();
    for (index, &step) in steps.iter().enumerate() {
        let work = step.work();
        println!("==> {}/{} {}: {work}", index + 1, steps.len(), step.name());
        let watch = Stopwatch::start();
        work.run().with_context(|| {
            format!(
                "step `{0}` failed; repeat it alone with: cargo xtask ci --only {0}",
                step.name()
            )
        })?;
        println!("    {} passed in {:.1} s", step.name(), watch.elapsed().as_secs_f64());
    }
    let names: Vec<_> = steps.into_iter().map(Step::name).collect();
    println!("==> passed: {} in {:.1} s", names.join(", "), whole.elapsed().as_secs_f64());
    Ok(())
}

impl Options {
    /// Returns the chosen steps in the order of [`Step`], whatever the order of the options.
    fn steps(&self) -> Vec<Step> {
        Step::value_variants()
            .iter()
            .copied()
            .filter(|step| self.only.is_empty() || self.only.contains(step))
            .filter(|step| !self.skip.contains(step))
            .collect()
    }
}

impl Step {
    /// Returns the name with which the step is displayed, skipped and repeated.
    fn name(self) -> &'static str {
        match self {
            Self::Fmt => "fmt",
            Self::Clippy => "clippy",
            Self::Tests => "tests",
            Self::Features => "features",
            Self::Docs => "docs",
            Self::Deps => "deps",
            Self::Image => "image",
        }
    }

    fn work(self) -> Work {
        let cargo = |arguments: &[&str]| CommandLine::new("cargo", arguments);
        Work::Command(match self {
            Self::Fmt => cargo(&["fmt", "--all", "--check"]),
            Self::Clippy => {
                let what = ["clippy", "--workspace", "--all-targets", "--all-features", "--locked"];
                cargo(&[&what[..], &["--", "-D", "warnings"]].concat())
            }
            // Includes the documentation tests: cargo runs them unless there is a target filter.
            Self::Tests => cargo(&["test", "--workspace", "--locked"]),
            // In the step above, other members of the workspace turn the features on.
            Self::Features => {
                let what = ["test", "--package", "windlass-apiserver", "--no-default-features"];
                cargo(
                    &[&what[..], &["--test", "apiserver", "--locked", "without_kubectl"]].concat(),
                )
            }
            Self::Docs => cargo(&["doc", "--workspace", "--no-deps", "--all-features", "--locked"])
                .env("RUSTDOCFLAGS", "-D warnings"),
            Self::Deps => return Work::DependencyChecks,
            Self::Image => return Work::Image,
        })
    }
}

impl Work {
    fn run(&self) -> Result<()> {
        match self {
            Self::Command(command) => command.run(),
            Self::DependencyChecks => deps::run(),
            Self::Image => image::run(),
        }
    }
}

impl std::fmt::Display for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Command(command) => command.fmt(f),
            Self::DependencyChecks => f.write_str("cargo xtask deps"),
            Self::Image => write!(f, "{}, and a look at the binary", image::build()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(options: &Options) -> Vec<&'static str> {
        options.steps().into_iter().map(Step::name).collect()
    }

    #[test]
    fn all_steps_run_by_default_cheapest_first() {
        assert_eq!(
            names(&Options::default()),
            ["fmt", "clippy", "docs", "deps", "tests", "features", "image"]
        );
    }

    #[test]
    fn skipped_steps_are_left_out() {
        let options = Options { skip: vec![Step::Tests], only: Vec::new() };
        assert_eq!(names(&options), ["fmt", "clippy", "docs", "deps", "features", "image"]);
    }

    #[test]
    fn only_the_asked_steps_run_and_in_the_usual_order() {
        let options = Options { skip: Vec::new(), only: vec![Step::Docs, Step::Fmt] };
        assert_eq!(names(&options), ["fmt", "docs"]);
    }

    #[test]
    fn skipping_everything_is_an_error() {
        let options = Options { skip: Step::value_variants().to_vec(), only: Vec::new() };
        let error = run(&options).expect_err("an empty run must not look like a passed one");
        assert!(error.to_string().contains("nothing to check"), "{error:#}");
    }

    #[test]
    fn names_are_the_ones_that_the_command_line_takes() {
        for step in Step::value_variants() {
            let taken = step.to_possible_value().expect("no step must be hidden");
            assert_eq!(taken.get_name(), step.name());
        }
    }

    #[test]
    fn docs_step_shows_the_variable_that_makes_warnings_errors() {
        let shown = Step::Docs.work().to_string();
        assert!(shown.starts_with("RUSTDOCFLAGS='-D warnings' cargo doc"), "{shown}");
    }
}
