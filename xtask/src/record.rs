//! Records the answers of a real kube-apiserver, for comparison with the embedded one.
//!
//! Recordings are made only here, never by hand, so that a difference between the servers is a
//! fact, not an opinion. No test writes one.

use anyhow::Result;
use clap::Args;

use crate::process::CommandLine;
use crate::test;

/// What to record.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// `cases [CASE]` for the conformance suite, `roles`; `--help` lists all.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "WHAT"
    )]
    what: Vec<String>,
}

/// Runs the recorder.
///
/// # Errors
/// If it fails, or if the control plane's binaries are neither found nor built.
pub(crate) fn run(options: &Options) -> Result<()> {
    test::ensure_binaries()?;
    let mut arguments = vec!["run", "--package", "windlass-tests", "--bin", "record", "--"];
    arguments.extend(options.what.iter().map(String::as_str));
    let command = CommandLine::new("cargo", &arguments);
    println!("==> {command}");
    command.run()?;
    println!("==> recorded; look at the changes with: git diff");
    Ok(())
}
