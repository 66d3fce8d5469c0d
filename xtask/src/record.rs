//! Makes the recordings that tests compare with: the answers of a real kube-apiserver, what
//! `cargo windlass` writes, what the compiler says about mistakes, and the protobuf messages of
//! Kubernetes.
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
    /// From the real server: `cases [CASE]`, `roles`, `observed`. What `cargo windlass` writes:
    /// `template`. What the compiler says: `mistakes`. The published `.proto` files as the table
    /// of windlass-protobuf, which needs Go: `messages`.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "WHAT"
    )]
    what: Vec<String>,
}

/// Runs a recorder.
///
/// # Errors
/// If it fails, or if the control plane's binaries are neither found nor built.
pub(crate) fn run(options: &Options) -> Result<()> {
    let arguments = if options.what == ["template"] {
        vec!["run", "--package", "windlass-cli", "--example", "record"]
    } else if options.what == ["messages"] {
        vec!["run", "--package", "windlass-apiserver", "--example", "kinds", "--", "--record"]
    } else {
        if options.what != ["mistakes"] {
            test::ensure_binaries()?;
        }
        let recorder = ["run", "--package", "windlass-tests", "--bin", "record", "--"];
        recorder.into_iter().chain(options.what.iter().map(String::as_str)).collect()
    };
    let command = CommandLine::new("cargo", &arguments);
    println!("==> {command}");
    command.run()?;
    println!("==> recorded; look at the changes with: git diff");
    Ok(())
}
