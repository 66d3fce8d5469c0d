//! `cargo windlass crds`: runs the command `crds` of the operator, which prints its CRDs. `--check`
//! compares them with those of the last release.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::compatibility::compare;
use crate::definitions::{Printed, in_files, of_operator};
use crate::new::say;
use crate::package;

/// What to do with the definitions.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Compare them with the CRDs of the last release in this file or folder, and fail if
    /// something that worked with those does not work with these: as in `--check released.yaml`,
    /// after `git show v1.0.0:deploy/crd.yaml > released.yaml`
    #[arg(long, value_name = "FILE|FOLDER")]
    check: Option<PathBuf>,
}

/// Prints the definitions, or what differs from those of the last release.
///
/// # Errors
/// If the operator does not build, or the files cannot be read.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    ensure_package()?;
    // First, so that a wrong path fails before anything is compiled.
    let released = options.check.as_deref().map(in_files).transpose()?;
    let Printed { text, definitions: now } = of_operator()?;
    let Some(released) = released else {
        say(&text);
        return Ok(ExitCode::SUCCESS);
    };
    let findings = compare(&released, &now);
    let (breaking, fine): (Vec<_>, Vec<_>) = findings.iter().partition(|it| it.is_breaking);
    for finding in fine.iter().chain(&breaking) {
        say(&format!("{finding}\n"));
    }
    if breaking.is_empty() {
        say("The CRDs are compatible with those of the last release.\n");
        return Ok(ExitCode::SUCCESS);
    }
    let changes = if breaking.len() == 1 { "change" } else { "changes" };
    say(&format!(
        "{} incompatible {changes}: keep what people and stored objects use, or make the change \
         in a new version (`cargo windlass add version`).\n",
        breaking.len()
    ));
    Ok(ExitCode::FAILURE)
}

/// Checks that cargo finds a package or a workspace from here, also in a parent folder. Its own
/// error would not say what to do.
///
/// # Errors
/// Returns an error if there is none.
fn ensure_package() -> Result<()> {
    let here = env::current_dir().context("the current folder is not known")?;
    let is_found = here.ancestors().any(|folder| folder.join("Cargo.toml").is_file());
    ensure!(is_found, package::no_operator(&here));
    Ok(())
}
