//! Runs all tests, or those on a real control plane.
//!
//! `cargo xtask test` is `cargo test --workspace`. With `--real`, the ignored tests of the packages
//! with a real tier run, after the control plane is built. The test programs are listed by name,
//! and built for the whole workspace: `--package` would select other features of the dependencies,
//! and cargo would build every test program a second time.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use cargo_metadata::{Metadata, MetadataCommand};
use clap::Args;

use crate::go_programs;
use crate::kube;
use crate::process::{CommandLine, workspace_root};

/// The packages that have tests on a real control plane. Their ignored tests are these, and no
/// others.
const REAL_PACKAGES: [&str; 14] = [
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
    "windlass-testserver",
    "windlass-tests",
    "windlass-webhook",
    "windlass-workloads",
];

/// Which tests to run; all that need no control plane by default.
#[derive(Args, Debug, Default)]
pub(crate) struct Options {
    /// Run the tests that need a real kube-apiserver, which are ignored otherwise, and no others.
    #[arg(long)]
    real: bool,
    /// What to hand on to cargo: `--test PROGRAM`, a name to filter by, `-- --nocapture`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    rest: Vec<String>,
}

/// Runs the chosen tests.
///
/// # Errors
/// If a test fails, or if a program that the tests run is neither found nor built.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut command = options.command(&metadata()?);
    if options.real {
        ensure_binaries()?;
        command = command.env(go_programs::VARIABLE, &go_programs::build()?);
    }
    println!("==> {command}");
    command.run()
}

/// Ensures that the binaries of the real control plane exist.
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
    fn command(&self, workspace: &Metadata) -> CommandLine {
        let mut arguments = vec!["test", "--workspace"];
        let names_a_program = self.rest.iter().any(|argument| argument == "--test");
        if self.real && !names_a_program {
            arguments.extend(real_programs(workspace).iter().flat_map(|name| ["--test", *name]));
        }
        let mut rest = self.rest.iter().map(String::as_str);
        arguments.extend(rest.by_ref().take_while(|argument| *argument != "--"));
        if self.real {
            arguments.extend(["--", "--ignored"]);
        } else if self.rest.iter().any(|argument| argument == "--") {
            arguments.push("--");
        }
        arguments.extend(rest);
        CommandLine::new("cargo", &arguments)
    }
}

fn metadata() -> Result<Metadata> {
    MetadataCommand::new()
        .current_dir(workspace_root()?)
        .no_deps()
        .exec()
        .context("`cargo metadata` failed")
}

/// Returns the test programs of [`REAL_PACKAGES`], each name once.
fn real_programs(workspace: &Metadata) -> BTreeSet<&str> {
    let packages =
        workspace.packages.iter().filter(|package| REAL_PACKAGES.contains(&package.name.as_str()));
    let targets = packages.flat_map(|package| &package.targets);
    targets.filter(|target| target.is_test()).map(|target| target.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(real: bool, rest: &[&str]) -> String {
        let rest = rest.iter().map(|&argument| argument.to_owned()).collect();
        Options { real, rest }.command(&metadata().expect("metadata")).to_string()
    }

    #[test]
    fn all_packages_are_tested_by_default_and_without_the_real_tier() {
        assert_eq!(command(false, &[]), "cargo test --workspace");
    }

    #[test]
    fn real_tier_is_the_ignored_tests_of_the_packages_that_have_one() {
        let command = command(true, &["some_test"]);
        assert!(command.starts_with("cargo test --workspace --test "));
        assert!(command.ends_with(" some_test -- --ignored"));
        for program in ["conformance", "whole", "manager", "deployed", "operator"] {
            assert_eq!(command.matches(&format!(" --test {program} ")).count(), 1, "{program}");
        }
        assert!(!command.contains("workqueue"), "the queue needs no server");
    }

    #[test]
    fn every_package_of_the_real_tier_has_test_programs() {
        let workspace = metadata().expect("metadata");
        for name in REAL_PACKAGES {
            let package = workspace.packages.iter().find(|package| package.name == name);
            let targets = &package.unwrap_or_else(|| panic!("no package {name}")).targets;
            assert!(targets.iter().any(cargo_metadata::Target::is_test), "{name}");
        }
    }

    /// A test of the real tier in a package that is not listed would never run.
    #[test]
    fn packages_with_tests_of_the_real_tier_are_listed() {
        let workspace = metadata().expect("metadata");
        for package in &workspace.packages {
            let is_listed = REAL_PACKAGES.contains(&package.name.as_str());
            for target in package.targets.iter().filter(|target| target.is_test()) {
                let folder = target.src_path.parent().expect("a file is in a folder");
                let has_real_tests = sources(folder.as_std_path()).iter().any(|source| {
                    source.contains("needs a real kube-apiserver")
                        || source.contains("on_each_server!(")
                        || source.contains("on_each_cluster!(")
                });
                assert!(is_listed || !has_real_tests, "{}: {}", package.name, target.name);
            }
        }
    }

    /// The texts of all files below a folder.
    fn sources(folder: &std::path::Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).expect("a folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        paths
            .flat_map(|path| {
                if path.is_dir() {
                    sources(&path)
                } else {
                    std::fs::read_to_string(path).into_iter().collect()
                }
            })
            .collect()
    }

    #[test]
    fn program_that_was_named_is_the_only_one() {
        assert_eq!(
            command(true, &["--test", "whole"]),
            "cargo test --workspace --test whole -- --ignored"
        );
        assert_eq!(
            command(true, &["--test", "whole", "--", "--nocapture"]),
            "cargo test --workspace --test whole -- --ignored --nocapture"
        );
        let plain = command(false, &["some_test", "--", "--nocapture"]);
        assert_eq!(plain, "cargo test --workspace some_test -- --nocapture");
    }
}
