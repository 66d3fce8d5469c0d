//! All tests, or those that ask a real control plane.
//!
//! `cargo xtask test` is `cargo test --workspace`. With `--real`, the packages that have a real
//! tier are tested once more with that tier switched on, after the programs for it were built.

use anyhow::Result;
use clap::Args;

use crate::go_programs;
use crate::kube;
use crate::process::CommandLine;

/// Switches the tests of the real tier on; without it they pass by saying that they are skipped.
pub(crate) const REAL_TIER: (&str, &str) = ("WINDLASS_TEST_REAL", "1");

/// The packages that have tests on a real control plane.
const REAL_PACKAGES: [&str; 13] = [
    "config-restarter",
    "gadget-operator",
    "object-sync",
    "sample-controller",
    "shop-operator",
    "website-operator",
    "windlass-informer",
    "windlass-manager",
    "windlass-reconciler",
    "windlass-testing",
    "windlass-testkit",
    "windlass-tests",
    "windlass-workloads",
];

/// Which tests to run; all that need no control plane by default.
#[derive(Args, Debug, Default)]
pub(crate) struct Options {
    /// Run the packages that have tests on a real kube-apiserver, with those tests switched on.
    #[arg(long)]
    real: bool,
    /// What to hand on to cargo: a name to filter by, or `-- --nocapture`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    rest: Vec<String>,
}

/// Runs the chosen tests.
///
/// # Errors
/// If a test fails, or if a program that the tests run cannot be had.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut command = options.command();
    if options.real {
        ensure_binaries()?;
        command = command.env(go_programs::VARIABLE, &go_programs::build()?);
    }
    println!("==> {command}");
    command.run()
}

/// Makes sure that the binaries of the real control plane are there.
///
/// # Errors
/// If they can neither be found nor built.
pub(crate) fn ensure_binaries() -> Result<()> {
    if std::env::var_os("KUBEBUILDER_ASSETS").is_some() {
        return Ok(());
    }
    kube::run(&kube::Options::default())
}

impl Options {
    fn command(&self) -> CommandLine {
        let packages: Vec<&str> = if self.real {
            REAL_PACKAGES.iter().flat_map(|package| ["--package", *package]).collect()
        } else {
            vec!["--workspace"]
        };
        let rest = self.rest.iter().map(String::as_str);
        let arguments: Vec<&str> = ["test"].into_iter().chain(packages).chain(rest).collect();
        let command = CommandLine::new("cargo", &arguments);
        if self.real { command.env(REAL_TIER.0, REAL_TIER.1) } else { command }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_packages_are_tested_by_default_and_without_the_real_tier() {
        assert_eq!(Options::default().command().to_string(), "cargo test --workspace");
    }

    #[test]
    fn real_tier_is_switched_on_for_the_packages_that_have_one() {
        let options = Options { real: true, rest: vec!["some_test".to_owned()] };
        assert_eq!(
            options.command().to_string(),
            "WINDLASS_TEST_REAL=1 cargo test --package config-restarter --package gadget-operator \
             --package object-sync --package sample-controller --package shop-operator \
             --package website-operator --package windlass-informer --package windlass-manager \
             --package windlass-reconciler --package windlass-testing \
             --package windlass-testkit --package windlass-tests --package windlass-workloads \
             some_test"
        );
    }
}
