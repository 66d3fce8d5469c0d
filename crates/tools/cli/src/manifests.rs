//! `cargo windlass manifests`: writes what is derived from the code into `deploy/`.

use std::env;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::definitions::of_operator;
use crate::new::say;
use crate::{diff, package};

/// The CRDs: the only manifest that is derived from the code so far.
const DEFINITIONS: &str = "deploy/crd.yaml";

/// How the manifests are written.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Write nothing, and fail if something is out of date
    #[arg(long)]
    check: bool,
}

/// Writes the manifests, and reports what changed.
///
/// # Errors
/// Returns an error if the current folder is not that of an operator, if the operator does not
/// build or prints no definitions, or if a file cannot be written.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    // cargo would also find a package in a parent folder, but `deploy/` is relative to this one.
    package::name_in(&env::current_dir().context("the current folder is not known")?)?;
    let new = of_operator()?.text;
    let is_there = Path::new(DEFINITIONS).exists();
    let old = if is_there {
        fs::read_to_string(DEFINITIONS).with_context(|| format!("cannot read {DEFINITIONS}"))?
    } else {
        String::new()
    };
    // Lines are compared without their endings, which git may have changed.
    let hunks = diff::hunks(&old, &new);
    if is_there && hunks.is_empty() {
        say(&format!("{DEFINITIONS} is up to date.\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let differences: String = hunks.iter().map(diff::Hunk::to_string).collect();
    if options.check {
        say(&format!("{DEFINITIONS} is out of date: cargo windlass manifests\n{differences}"));
        return Ok(ExitCode::FAILURE);
    }
    if let Some(folder) = Path::new(DEFINITIONS).parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let new = if old.contains("\r\n") { new.replace('\n', "\r\n") } else { new };
    fs::write(DEFINITIONS, new).with_context(|| format!("cannot write {DEFINITIONS}"))?;
    let verb = if is_there { "Changed" } else { "Made" };
    say(&format!("{verb} {DEFINITIONS}:\n{differences}"));
    Ok(ExitCode::SUCCESS)
}
