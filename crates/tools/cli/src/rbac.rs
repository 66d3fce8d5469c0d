//! `cargo windlass rbac`: derives the RBAC permissions of an operator, here called rights, from the
//! requests that it sends in its tests.
//!
//! ```text
//!  cargo test ────▶ evidence ──▶ needs ───┐
//!                                         ├─▶ difference ─▶ shown, checked, or written
//!  deploy/*.yaml ─▶ manifests ─▶ grants ──┘
//! ```
//!
//! Needs have three sources:
//!
//! - declared: what controllers watch, and what the manager itself does (its Lease, its webhooks,
//!   events). The manager records these rights when it starts in a test;
//! - observed: what runs and tasks read and write in the tests;
//! - inferred: a write implies the other requests of the same Windlass helper, such as reading the
//!   object again after a conflict.
//!
//! Reading order: `access` (a right), `needs` (what is needed), `document` (the manifests as
//! YAML), `operator` (how it is deployed), `grant`, `manifests` (what is granted), `difference`,
//! `rules` (the rules of a role as text), `new_role`, `rewrite` (the file, changed so that it
//! grants exactly what is needed).

mod access;
mod difference;
mod document;
mod grant;
mod manifests;
mod needs;
mod new_role;
mod operator;
mod rewrite;
mod rules;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;

use crate::new::say;
use crate::package::{self, cargo};
use difference::Difference;
use manifests::Manifests;
use needs::Needs;
use windlass_evidence::VARIABLE;

/// What to do with the difference.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The file of the Roles. The other manifests of the operator are in the same folder: the
    /// Deployment, whose arguments decide what is needed, the definitions, and perhaps bindings
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
/// If the tests recorded nothing, or a file cannot be read or written. The error says what to do.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let file = options.file.display();
    let here = std::env::current_dir().context("the current folder is gone")?;
    let package = package_in(&here)?;
    let text = match fs::read_to_string(&options.file) {
        Ok(text) => text,
        Err(error) if options.write && error.kind() == io::ErrorKind::NotFound => {
            manifests::first(&options.file, &package)?
        }
        Err(error) => bail!("cannot read {file}: {error}; --file names another, --write makes one"),
    };
    if options.write {
        ensure_writable(&options.file)?;
    }
    let manifests = Manifests::read(&options.file, &text)?;
    let folder = tempfile::tempdir().context("no temporary folder can be made")?;
    let have_passed = test(&options.tests, folder.path())?;
    let needs = needs::needs(folder.path(), &here, &manifests.operator)?;
    ensure!(
        have_passed || !needs.is_empty(),
        "`cargo test` failed before a manager or a controller of this package ran, so it is not \
         known what it needs: correct what is reported above"
    );
    ensure!(
        !needs.is_empty(),
        "the tests ran no manager and no controller of this package, so it is not known what it \
         needs: write a test that runs it with `windlass_testing::TestCluster::run_manager`"
    );
    let is_right = settle(options, &text, &manifests, &needs, have_passed)?;
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the name of the package in a folder.
///
/// # Errors
/// If the folder is not that of a package: only the evidence of this package counts.
fn package_in(folder: &Path) -> Result<String> {
    let has_manifest = folder.join("Cargo.toml").is_file();
    ensure!(has_manifest, "no Cargo.toml here: go to the operator's folder");
    package::name_in(folder).ok().context(
        "the Cargo.toml here is that of a workspace: go to the folder of the operator's package",
    )
}

/// Makes the folder of a file if it is missing, and checks that the file can be written. This is
/// done before the tests run, which may take minutes.
///
/// # Errors
/// If the folder cannot be made, or the file cannot be written.
fn ensure_writable(file: &Path) -> Result<()> {
    let folder = manifests::folder_of(file);
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let opened = if file.exists() {
        fs::OpenOptions::new().append(true).open(file)
    } else {
        tempfile::tempfile_in(folder)
    };
    opened.map(drop).with_context(|| format!("cannot write {}", file.display()))
}

/// Shows the difference, and checks or writes the file. Returns whether the command succeeds: with
/// `--check` and `--write`, whether the file now grants what is needed.
fn settle(
    options: &Options,
    text: &str,
    manifests: &Manifests,
    needs: &Needs,
    have_passed: bool,
) -> Result<bool> {
    let file = options.file.display();
    let difference = Difference::between(needs, &manifests.grants);
    say(&difference.to_string());
    for role in &manifests.unknown_roles {
        say(&format!(
            "? {role} is bound to the operator, but the manifests do not say what it grants\n"
        ));
    }
    if !have_passed {
        eprintln!("warning: tests have failed, so what they would have shown may be missing");
    }
    let is_known = manifests.unknown_roles.is_empty();
    if difference.is_empty() && is_known {
        let rights = if needs.len() == 1 { "right" } else { "rights" };
        say(&format!("{file} grants what the operator needs: {} {rights}\n", needs.len()));
        return Ok(have_passed);
    }
    if difference.is_empty() && (options.check || options.write) {
        eprintln!(
            "error: it is not known what the operator is granted (see above): bind roles whose rules \
             are in the manifests"
        );
        return Ok(false);
    }
    if options.write {
        return Ok(write(options, text, needs, have_passed)? && have_passed && is_known);
    }
    if options.check {
        eprintln!(
            "error: {file} grants too much or too little (see above); `cargo windlass rbac --write` \
             corrects it"
        );
        return Ok(false);
    }
    Ok(have_passed)
}

/// Writes the file. Returns `false` if roles in other files must change, too.
fn write(options: &Options, text: &str, needs: &Needs, have_passed: bool) -> Result<bool> {
    let file = options.file.display();
    let written = rewrite::rewrite(&options.file, text, needs, have_passed)?;
    if written.text != text {
        fs::write(&options.file, written.text).with_context(|| format!("cannot write {file}"))?;
        say(&if have_passed {
            format!("{file} is written\n")
        } else {
            format!(
                "{file} is written, and nothing is removed: do this again when the tests pass\n"
            )
        });
    }
    for (role, other) in &written.elsewhere {
        let other = other.display();
        eprintln!(
            "error: {role} in {other} must change: `cargo windlass rbac --write --file {other}` \
             corrects it"
        );
    }
    Ok(written.elsewhere.is_empty())
}

/// Runs the tests, with their output on the standard error. Returns whether all have passed.
/// Failures do not end the command: a test that runs with the Roles of the file fails if a right is
/// missing, but its evidence contains the request.
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

#[cfg(test)]
mod tests {
    use super::access::{Access, Scope, Target, Verb};
    use super::needs::Need;
    use super::*;

    const ACCOUNT: &str = "kind: ServiceAccount\nmetadata: {name: shop, namespace: shop}\n";
    const BINDING: &str = "kind: ClusterRoleBinding\nroleRef: {kind: ClusterRole, name: shop}\n\
        subjects: [{kind: ServiceAccount, name: shop, namespace: shop}]\n";
    const ROLE: &str = "kind: ClusterRole\nmetadata: {name: shop}\nrules:\n- apiGroups: ['']\n  \
        resources: [pods]\n  verbs: [get, list]\n";

    /// Runs `--check` or `--write` in a folder in which `get pods` is needed. Returns the result,
    /// and the first file afterwards.
    fn settled(files: &[(&str, &str)], write: bool) -> (bool, String) {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            fs::write(folder.path().join(name), text).expect("written");
        }
        let (name, text) = files[0];
        let file = folder.path().join(name);
        let manifests = Manifests::read(&file, text).expect("manifests");
        let get = Access {
            scope: Scope::Cluster,
            target: Target::resource("", "pods"),
            name: None,
            verb: Verb("get".to_owned()),
        };
        let needs = Needs::from([(get, Need::default())]);
        let options = Options { file, check: !write, write, tests: Vec::new() };
        let is_right = settle(&options, text, &manifests, &needs, true).expect("no error");
        (is_right, fs::read_to_string(&options.file).expect("the file"))
    }

    #[test]
    fn check_fails_until_the_file_is_written() {
        let file = format!("{ACCOUNT}---\n{BINDING}---\n{ROLE}");
        assert!(!settled(&[("rbac.yaml", &file)], false).0);
        let (is_right, written) = settled(&[("rbac.yaml", &file)], true);
        assert!(is_right && written.ends_with("verbs: [get]\n"), "{written}");
        assert!(settled(&[("rbac.yaml", &written)], false).0);
    }

    #[test]
    fn unknown_role_cannot_be_corrected_by_writing() {
        let needed = ROLE.replace(", list", "");
        let other = BINDING.replace("name: shop}\n", "name: other}\n");
        let file = format!("{ACCOUNT}---\n{BINDING}---\n{needed}---\n{other}");
        for is_write in [false, true] {
            assert_eq!(settled(&[("rbac.yaml", &file)], is_write), (false, file.clone()));
        }
        // What can be corrected is corrected, and the rest still fails.
        let file = file.replace("verbs: [get]", "verbs: [get, list]");
        let (is_right, written) = settled(&[("rbac.yaml", &file)], true);
        assert!(!is_right && written.contains("verbs: [get]\n"), "{written}");
    }

    #[test]
    fn role_in_another_file_is_not_written() {
        let file = format!("{ACCOUNT}---\n{BINDING}");
        let (is_right, written) = settled(&[("binding.yaml", &file), ("role.yaml", ROLE)], true);
        assert_eq!((is_right, written), (false, file.clone()));
        let (is_right, written) = settled(&[("role.yaml", ROLE), ("binding.yaml", &file)], true);
        assert!(is_right && written.ends_with("verbs: [get]\n"), "{written}");
    }

    #[test]
    fn workspace_without_a_package_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let manifest = folder.path().join("Cargo.toml");
        fs::write(&manifest, "[workspace]\nmembers = [\"shop\"]\n").expect("written");
        let error = package_in(folder.path()).expect_err("no package").to_string();
        assert!(error.ends_with("go to the folder of the operator's package"), "{error}");
        fs::write(&manifest, "[package]\nname = \"shop\"\n").expect("written");
        assert_eq!(package_in(folder.path()).expect("a package"), "shop");
    }
}
