//! The command line of the program.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::inspect::Inspect;
use crate::{crds, new, rbac};

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
    /// Print the definitions of the operator in this folder as YAML: `cargo run -- crds`
    Crds,
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
            Command::Crds => crds::run(),
            Command::Rbac(options) => rbac::run(options),
            Command::Inspect(question) => {
                print!("{}", question.answer()?);
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

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
