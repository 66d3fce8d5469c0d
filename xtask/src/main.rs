//! The project's own commands, run as `cargo xtask <command>`.
//!
//! They are plain Rust, so that a contributor needs only a toolchain to run exactly what the
//! continuous integration runs. Reading order:
//!
//! - [`ci`]: the steps that every change has to pass, cheap ones first;
//! - [`mod@test`]: all tests, or those on a real control plane;
//! - [`conformance`]: compares the embedded API server with recordings of the real one;
//! - [`record`]: makes these recordings;
//! - [`deps`]: checks of the dependencies, by cargo-deny and by rules of our own;
//! - [`image`]: the image of the website operator, built and run without Docker;
//! - [`mod@bench`]: benchmarks of Windlass and its peers, on one machine;
//! - [`browser`]: the dashboard in a real browser;
//! - [`nightly`]: what takes too long for every change;
//! - [`promtool`]: checks of the dashboard and the alert rules;
//! - [`kube`]: a real control plane for tests, built into the cache folder;
//! - [`go_programs`]: our Go programs for tests on a real control plane;
//! - [`identifiers`]: the exported identifiers of our peers, for the comparison page;
//! - [`picture`]: the picture of the demo in the README;
//! - [`cache`]: the folder for tools that take minutes to build;
//! - [`process`]: runs a command, shows it, and reports its failure.

mod bench;
mod browser;
mod cache;
mod ci;
mod conformance;
mod deps;
mod go_programs;
mod identifiers;
mod image;
mod kube;
mod nightly;
mod picture;
mod process;
mod promtool;
mod record;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's own commands.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run what every change has to pass: formatting, lints, tests, documentation, dependencies.
    Ci(ci::Options),
    /// Run the tests of the workspace, or with --real those on a real control plane.
    Test(test::Options),
    /// Compare both API servers with the recordings of the real one.
    Conformance(conformance::Options),
    /// Make the recordings that tests compare with.
    Record(record::Options),
    /// Check the dependencies: cargo-deny with deny.toml, and the edges between our crates.
    Deps,
    /// Run a benchmark beside its peers, and print medians, ratios and bounds.
    Bench(bench::Options),
    /// Build a real kube-apiserver, etcd and kube-controller-manager for tests into the cache
    /// folder.
    Kube(kube::Options),
    /// Test the dashboard in Chromium, draw its pictures, or measure what an open page costs.
    Browser(browser::Options),
    /// Run what takes too long for every change: older versions of Kubernetes, big random tests,
    /// many failovers, promtool, benchmarks.
    Nightly(nightly::Options),
    /// Check the dashboard and the alert rules in docs/monitoring with Prometheus' promtool.
    Promtool,
    /// List what controller-runtime and kube-runtime export, for docs/coming-from.md.
    Identifiers,
    /// Redraw the picture of the demo in the README.
    Picture,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Ci(options) => ci::run(&options),
        Command::Test(options) => test::run(&options),
        Command::Conformance(options) => conformance::run(&options),
        Command::Record(options) => record::run(&options),
        Command::Deps => deps::run(),
        Command::Bench(options) => bench::run(&options),
        Command::Browser(options) => browser::run(&options),
        Command::Kube(options) => kube::run(&options),
        Command::Nightly(options) => nightly::run(&options),
        Command::Promtool => promtool::run(),
        Command::Identifiers => identifiers::run(),
        Command::Picture => picture::run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // A failed check is a fact about the code, not a bug in this program: no backtrace.
        Err(error) => {
            eprintln!("error: {error}");
            error.chain().skip(1).for_each(|cause| eprintln!("  because: {cause}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn options_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }
}
