//! `cargo windlass rbac --check` for the operators of this repository: their Roles grant exactly
//! what their tests do.
//!
//! `cargo test` runs within `cargo test` here, and for the whole workspace, as outside, so that
//! nothing is compiled again. A few tests are enough to exercise all requests of an operator.
//! `cargo xtask nightly --only rbac` checks the same with all tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Tests of the operators that send all of their requests.
const SOME: [&str; 10] = [
    "--",
    "--workspace",
    "--test",
    "operator",
    "--test",
    "reconcile*",
    "--",
    "website_becomes_three_objects_and_ready",
    "deleted_website_frees_its_host_and_takes_its_objects_along",
    "objects_are_made_and_the_status_says_ready",
];

const WEBSITE: &str = "../../../examples/website-operator";
const ITS_ROLES: &str = "deploy/rbac.yaml";

/// The recorded output of `cargo windlass add`, with webhooks and two versions.
const ADDED: &str = "template-added";

const TEMPLATE: &str = "template-check";
const ROLES_OF_THE_TEMPLATE: &str = "../template/deploy/rbac.yaml";

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Runs `cargo windlass rbac --check` in a folder, for a file of Roles.
fn check(operator: &str, file: &Path, tests: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-windlass"));
    command.args(["windlass", "rbac", "--check", "--file"]).arg(file).args(tests);
    command.current_dir(folder(operator));
    // Cargo's variables for this test. Build scripts that depend on them would run again.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command.output().expect("the program must start")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn assert_equal(operator: &str, file: &str, tests: &[&str]) {
    let output = check(operator, Path::new(file), tests);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{shown}\n{}", text(&output.stderr));
    assert!(shown.starts_with(&format!("{file} grants what the operator needs: ")), "{shown}");
}

#[test]
fn roles_of_the_website_operator_are_what_its_tests_show() {
    assert_equal(WEBSITE, ITS_ROLES, &SOME);
}

#[test]
fn roles_of_the_template_are_what_its_tests_show() {
    assert_equal(TEMPLATE, ROLES_OF_THE_TEMPLATE, &SOME);
}

#[test]
fn roles_that_add_made_are_what_the_tests_show() {
    assert_equal(ADDED, ITS_ROLES, &SOME);
}

#[test]
#[ignore = "minutes: `cargo xtask nightly --only rbac` runs it"]
fn roles_are_what_all_tests_of_the_operators_show() {
    assert_equal(WEBSITE, ITS_ROLES, &[]);
    assert_equal(TEMPLATE, ROLES_OF_THE_TEMPLATE, &[]);
    assert_equal(ADDED, ITS_ROLES, &[]);
}

#[test]
fn verb_that_is_taken_away_fails_the_check_and_the_write_is_named() {
    let copy = tempfile::tempdir().expect("a folder");
    for entry in fs::read_dir(folder(WEBSITE).join("deploy")).expect("manifests") {
        let path = entry.expect("a file").path();
        fs::copy(&path, copy.path().join(path.file_name().expect("a name"))).expect("a copy");
    }
    let file = copy.path().join("rbac.yaml");
    let before = fs::read_to_string(&file).expect("a file");
    let rule = "resources: [deployments]\n    verbs: [get, list, watch, create, ";
    let after = before.replace(&format!("{rule}patch, "), rule);
    assert_ne!(before, after);
    fs::write(&file, after).expect("written");

    let output = check(WEBSITE, &file, &SOME);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let shown = text(&output.stdout);
    let start = "+ patch deployments.apps is missing: controller website wrote `patch \
                 deployments.apps ";
    assert!(shown.starts_with(start), "{shown}");
    assert!(shown.contains(" (in test operator reconcile::"), "{shown}");
    assert_eq!(shown.lines().count(), 1, "{shown}");
}
