//! `cargo windlass crds`: the operator knows its definitions, so it is run to print them.

use std::env;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};

/// Runs `cargo run -- crds` in the current folder, and ends as it does.
///
/// # Errors
/// If cargo cannot be started.
pub(crate) fn run() -> Result<ExitCode> {
    let status = Command::new(cargo())
        .args(["run", "--quiet", "--", "crds"])
        .status()
        .context("cargo could not be started: is it in PATH?")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The cargo that called this program, or the one in `PATH`.
pub(crate) fn cargo() -> std::ffi::OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
