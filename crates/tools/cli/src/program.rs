//! The command line of the program.

use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::add::Add;
use crate::inspect::Inspect;
use crate::{add, crds, manifests, new, rbac};

/// As cargo calls it: `cargo-windlass windlass new …`.
#[derive(Debug, Parser)]
#[command(name = "cargo", bin_name = "cargo", disable_help_subcommand = true)]
enum Cargo {
    Windlass(Program),
}

/// Starts a Kubernetes operator that is written with Windlass, and looks inside a running one.
#[derive(Debug, Parser)]
#[command(name = "windlass", version, arg_required_else_help = true)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make an operator that builds, passes its tests and runs
    New(new::Options),
    /// Change the operator in this folder: add a kind, webhooks or a version
    #[command(subcommand)]
    Add(Add),
    /// Print the CRDs of the operator in this folder, or check that they are compatible with the
    /// last release
    Crds(crds::Options),
    /// Write deploy/crd.yaml of the operator in this folder again, or check that it is up to date
    Manifests(manifests::Options),
    /// Run the tests of the operator in this folder, and compare what it does with its Roles
    Rbac(rbac::Options),
    #[command(flatten)]
    Inspect(Inspect),
}

/// The program under the name `windlass`.
pub fn main() -> ExitCode {
    Program::parse().run()
}

/// The program under the name `cargo-windlass`, as cargo calls it for `cargo windlass`.
pub fn cargo_main() -> ExitCode {
    let Cargo::Windlass(program) = Cargo::parse();
    program.run()
}

/// The program under the name `kubectl-windlass`, as kubectl calls it for `kubectl windlass`.
pub fn kubectl_main() -> ExitCode {
    let matches = Program::command().bin_name("kubectl windlass").get_matches();
    match Program::from_arg_matches(&matches) {
        Ok(program) => program.run(),
        Err(error) => error.exit(),
    }
}

impl Program {
    fn run(&self) -> ExitCode {
        match self.execute() {
            Ok(code) => code,
            Err(error) => {
                eprintln!("error: {error:#}");
                ExitCode::FAILURE
            }
        }
    }

    fn execute(&self) -> Result<ExitCode> {
        match &self.command {
            Command::New(options) => new::run(options).map(|()| ExitCode::SUCCESS),
            Command::Add(what) => add::run(what).map(|()| ExitCode::SUCCESS),
            Command::Crds(options) => crds::run(options),
            Command::Manifests(options) => manifests::run(options),
            Command::Rbac(options) => rbac::run(options),
            Command::Inspect(question) => {
                new::say(&question.answer()?);
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_names_take_the_same_commands() {
        Cargo::command().debug_assert();
        let arguments = ["new", "shop-operator", "--owns", "services,configmaps"];
        Program::try_parse_from([&["windlass"][..], &arguments].concat()).expect("a command");
        Cargo::try_parse_from([&["cargo-windlass", "windlass"][..], &arguments].concat())
            .expect("a command");
    }
}
