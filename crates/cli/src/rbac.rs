//! `cargo windlass rbac`: which rights an operator needs, from what its tests were seen to do.
//!
//! ```text
//!  cargo test ─▶ evidence ─▶ needs ──┐
//!                                    ├─▶ difference ─▶ shown, checked, or written
//!  deploy/*.yaml ─▶ manifests ─▶ grants ┘
//! ```
//!
//! Three things make up what is needed. What controllers watch and what the manager does itself
//! (its Lease, its webhooks, events) is declared, so it is known without a test. What runs and
//! tasks read and write is seen in the tests. And a write stands for what the same helper of
//! Windlass does in other cases, such as reading the object again after a conflict.
//!
//! Reading order: `access` (a right), `evidence` (what is needed), `manifests` (what is granted),
//! `difference`, `rewrite` (the file with the difference made up).

mod access;
mod difference;
mod evidence;
mod manifests;
mod rewrite;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;

use crate::new::say;
use crate::package::cargo;
use difference::Difference;
use manifests::Manifests;

/// The variable by which the tests are told where to note what they see: `Evidence::VARIABLE` of
/// `windlass-informer`.
const VARIABLE: &str = "WINDLASS_RBAC_EVIDENCE";

/// What to do with the difference.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The file of the Roles. The other manifests of the operator are in the same folder: the
    /// Deployment, whose arguments decide what is needed, and the definitions
    #[arg(long, value_name = "FILE", default_value = "deploy/rbac.yaml")]
    file: PathBuf,
    /// Fail if the file grants too much or too little
    #[arg(long, conflicts_with = "write")]
    check: bool,
    /// Change the file so that it grants what is needed. Rules that need no change keep their
    /// comments. If tests fail, as they may because of a missing right, nothing is removed
    #[arg(long)]
    write: bool,
    /// What `cargo test` is called with, as in `-- --all-features`
    #[arg(last = true, value_name = "ARGUMENTS")]
    tests: Vec<OsString>,
}

/// Runs the tests of the operator in the current folder, and shows, checks or writes its Roles.
///
/// # Errors
/// If the tests noted nothing, or a file cannot be read or written. The error says what to do.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let file = options.file.display();
    let here = std::env::current_dir().context("the current folder is gone")?;
    ensure!(here.join("Cargo.toml").is_file(), "no Cargo.toml here: go to the operator's folder");
    let text = match fs::read_to_string(&options.file) {
        Ok(text) => text,
        Err(error) if options.write && error.kind() == io::ErrorKind::NotFound => {
            manifests::first(here.file_name().and_then(|name| name.to_str()).unwrap_or("operator"))
        }
        Err(error) => bail!("cannot read {file}: {error}; --file names another, --write makes one"),
    };
    let manifests = Manifests::read(&options.file, &text)?;
    let folder = tempfile::tempdir().context("no temporary folder can be made")?;
    let have_passed = test(&options.tests, folder.path())?;
    let needs = evidence::needs(folder.path(), &here, &manifests.operator)?;
    ensure!(
        !needs.is_empty(),
        "the tests ran no manager and no controller of this package, so it is not known what it \
         needs: write a test that runs it with `windlass_testing::Cluster::run_manager`"
    );
    let difference = Difference::between(&needs, &manifests.grants);
    say(&difference.to_string());
    for role in &manifests.unknown_roles {
        say(&format!(
            "? {role} is bound to the operator, but {file} does not say what it grants\n"
        ));
    }
    if !have_passed {
        eprintln!("warning: tests have failed, so what they would have shown may be missing");
    }
    if difference.is_empty() && manifests.unknown_roles.is_empty() {
        say(&format!("{file} grants what the operator needs: {} rights\n", needs.len()));
        return Ok(if have_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    if options.write {
        fs::write(&options.file, rewrite::rewrite(&options.file, &text, &needs, have_passed)?)
            .with_context(|| format!("cannot write {file}"))?;
        if have_passed {
            say(&format!("{file} is written\n"));
            return Ok(ExitCode::SUCCESS);
        }
        say(&format!(
            "{file} is written, and nothing is removed: do this again when the tests pass\n"
        ));
        return Ok(ExitCode::FAILURE);
    }
    if options.check {
        eprintln!(
            "error: {file} does not grant what the operator needs, no more and no less: `cargo \
             windlass rbac --write` changes it"
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the tests; what they print goes to the standard error. Returns whether all have passed: a
/// test that runs with the rights of the file fails if one is missing, and still shows which.
fn test(arguments: &[OsString], evidence: &Path) -> Result<bool> {
    let status = Command::new(cargo())
        .args(["test", "--no-fail-fast"])
        .args(arguments)
        .env(VARIABLE, evidence)
        .stdout(Stdio::from(io::stderr()))
        .status()
        .context("cargo could not be started: is it in PATH?")?;
    Ok(status.success())
}
