//! `cargo windlass rbac --check` for the operators of this repository: their Roles grant what their
//! tests were seen to do, no more and no less.
//!
//! `cargo test` runs within `cargo test` here: of the whole workspace, as outside, so that nothing
//! is compiled anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What is run of each operator: enough to see it do everything.
const TESTS: [&str; 6] = ["--", "--workspace", "--test", "reconcile", "--test", "deployed"];

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// `cargo windlass rbac --check` in a folder, about a file of Roles.
fn check(operator: &Path, file: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-windlass"));
    command.args(["windlass", "rbac", "--check", "--file"]).arg(file).args(TESTS);
    command.current_dir(operator);
    // What cargo says of this test. Build scripts that look at it would run anew.
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

/// What the check prints. It must pass.
fn passed(output: &Output) -> String {
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{shown}\n{}", text(&output.stderr));
    shown
}

#[test]
fn roles_of_the_website_operator_are_what_its_tests_show() {
    let website = folder("../../examples/website-operator");
    let shown = passed(&check(&website, Path::new("deploy/rbac.yaml")));
    assert!(shown.starts_with("deploy/rbac.yaml grants what the operator needs: "), "{shown}");
}

#[test]
fn roles_of_the_template_are_what_its_tests_show() {
    let file = Path::new("../template/deploy/rbac.yaml");
    let shown = passed(&check(&folder("template-check"), file));
    assert!(shown.contains(" grants what the operator needs: "), "{shown}");
}

#[test]
fn verb_that_is_taken_away_fails_the_check_and_the_write_is_named() {
    let website = folder("../../examples/website-operator");
    let copy = tempfile::tempdir().expect("a folder");
    for entry in fs::read_dir(website.join("deploy")).expect("manifests") {
        let path = entry.expect("a file").path();
        fs::copy(&path, copy.path().join(path.file_name().expect("a name"))).expect("a copy");
    }
    let file = copy.path().join("rbac.yaml");
    let before = fs::read_to_string(&file).expect("a file");
    let rule = "resources: [deployments]\n    verbs: [get, list, watch, create, ";
    let after = before.replace(&format!("{rule}patch, "), rule);
    assert_ne!(before, after);
    fs::write(&file, after).expect("written");

    let output = check(&website, &file);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let shown = text(&output.stdout);
    let start = "+ patch deployments.apps is missing: controller website wrote `patch \
                 deployments.apps ";
    assert!(shown.starts_with(start), "{shown}");
    assert!(shown.contains(" (in test reconcile "), "{shown}");
    assert_eq!(shown.lines().count(), 1, "{shown}");
}
