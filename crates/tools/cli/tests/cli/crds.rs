//! `cargo windlass crds` and `manifests` as a program. A stand-in for cargo prints the definitions
//! of an operator.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

const DEFINITION: &str = include_str!("../../template-added/deploy/crd.yaml");

/// Creates a folder with the definitions of the last release. The operator prints `now`.
fn operator(now: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("deploy")).expect("a folder");
    fs::write(path("Cargo.toml"), "[package]\nname = \"shop-operator\"\n").expect("written");
    fs::write(path("deploy/crd.yaml"), DEFINITION).expect("written");
    fs::write(path("deploy/namespace.yaml"), "kind: Namespace\n").expect("written");
    fs::write(path("now.yaml"), now).expect("written");
    let program = "#!/bin/sh\n[ \"$*\" = 'run --quiet -- crds' ] && cat now.yaml\n";
    fs::write(path("cargo"), program).expect("written");
    let is_program = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path("cargo"), is_program).expect("permissions");
    folder
}

fn windlass(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(arguments)
        .current_dir(folder)
        .env("CARGO", folder.join("cargo"))
        .output()
        .expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn definitions_are_printed() {
    let folder = operator(DEFINITION);
    assert_eq!(text(&windlass(folder.path(), &["crds"]).stdout), DEFINITION);
}

#[test]
fn compatible_definitions_pass_the_check_and_their_changes_are_listed() {
    let now = DEFINITION.replacen("maxLength: 100", "maxLength: 200", 1);
    let folder = operator(&now);
    // Both a file and a folder are accepted.
    for released in ["deploy/crd.yaml", "deploy"] {
        let output = windlass(folder.path(), &["crds", "--check", released]);
        assert_eq!(
            text(&output.stdout),
            "compatible: shops.example.com v1alpha1 spec.title: maxLength was 100, and is 200\n\
             The CRDs are compatible with those of the last release.\n",
            "{output:?}"
        );
        assert!(output.status.success());
    }
}

#[test]
fn incompatible_definitions_fail_the_check_with_the_path_of_each() {
    let now = DEFINITION.replacen("maxLength: 100", "maxLength: 50", 1).replacen(
        "    served: true",
        "    served: false",
        1,
    );
    let now: Vec<&str> = now.lines().filter(|line| line.trim() != "- Unknown").collect();
    let folder = operator(&(now.join("\n") + "\n"));
    let output = windlass(folder.path(), &["crds", "--check", "deploy"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let shown = text(&output.stdout);
    let shown: Vec<&str> = shown.lines().collect();
    assert_eq!(
        shown[..3],
        [
            "incompatible: shops.example.com v1alpha1: the version is not served any more",
            "incompatible: shops.example.com v1alpha1 spec.title: maxLength was 100, and is 50",
            "incompatible: shops.example.com v1alpha1 status.conditions[].status: the value \
             \"Unknown\" is not allowed any more",
        ]
    );
    assert!(shown.last().is_some_and(|last| last.contains(" incompatible changes: ")), "{shown:?}");
}

#[test]
fn one_incompatible_change_is_one() {
    let folder = operator(&DEFINITION.replacen("maxLength: 100", "maxLength: 50", 1));
    let output = windlass(folder.path(), &["crds", "--check", "deploy"]);
    let shown = text(&output.stdout);
    assert!(shown.contains("\n1 incompatible change: keep "), "{shown}");
}

#[test]
fn release_without_definitions_is_refused_before_anything_is_compiled() {
    let folder = operator(DEFINITION);
    fs::remove_file(folder.path().join("cargo")).expect("removed");
    let output = windlass(folder.path(), &["crds", "--check", "deploy/namespace.yaml"]);
    let error = text(&output.stderr);
    assert!(error.starts_with("error: deploy/namespace.yaml has no Custom"), "{error}");
}

#[test]
fn manifests_are_written_once_and_the_check_says_what_differs() {
    let now = DEFINITION.replacen("maxLength: 100", "maxLength: 200", 1);
    let folder = operator(&now);
    let output = windlass(folder.path(), &["manifests", "--check"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let shown = text(&output.stdout);
    assert!(shown.contains("is out of date: cargo windlass manifests\n"), "{shown}");
    assert!(shown.contains("+                 maxLength: 200\n"), "{shown}");
    let is = || fs::read_to_string(folder.path().join("deploy/crd.yaml")).expect("a file");
    assert_eq!(is(), DEFINITION);

    let output = windlass(folder.path(), &["manifests"]);
    assert!(text(&output.stdout).starts_with("Changed deploy/crd.yaml:\n"), "{output:?}");
    assert_eq!(is(), now);
    for arguments in [&["manifests", "--check"][..], &["manifests"]] {
        let output = windlass(folder.path(), arguments);
        assert_eq!(text(&output.stdout), "deploy/crd.yaml is up to date.\n");
        assert!(output.status.success());
    }
}

#[test]
fn line_endings_of_manifests_are_kept_and_are_no_difference() {
    let folder = operator(DEFINITION);
    let file = folder.path().join("deploy/crd.yaml");
    let with_crlf = |text: &str| text.replace('\n', "\r\n");
    fs::write(&file, with_crlf(DEFINITION)).expect("written");
    let output = windlass(folder.path(), &["manifests", "--check"]);
    assert_eq!(text(&output.stdout), "deploy/crd.yaml is up to date.\n");
    assert!(output.status.success());

    let now = DEFINITION.replacen("maxLength: 100", "maxLength: 200", 1);
    fs::write(folder.path().join("now.yaml"), &now).expect("written");
    assert!(windlass(folder.path(), &["manifests"]).status.success());
    assert_eq!(fs::read_to_string(&file).expect("a file"), with_crlf(&now));
}

#[test]
fn what_is_no_definition_is_neither_written_nor_printed() {
    for printed in ["Hello, world!\n", "", "kind: Namespace\n", "a: [\n", "null\n"] {
        let folder = operator(printed);
        for arguments in [&["manifests"][..], &["crds"], &["crds", "--check", "deploy"]] {
            let output = windlass(folder.path(), arguments);
            assert_eq!(output.status.code(), Some(1), "{printed:?}: {output:?}");
            assert_eq!(text(&output.stdout), "");
            let error = text(&output.stderr);
            assert!(error.contains("something else than CustomResourceDefinitions"), "{error}");
        }
        let is = fs::read_to_string(folder.path().join("deploy/crd.yaml")).expect("a file");
        assert_eq!(is, DEFINITION);
    }
}

#[test]
fn manifests_are_written_in_the_folder_of_the_package_only() {
    let folder = operator(DEFINITION);
    let below = folder.path().join("src");
    fs::create_dir(&below).expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .arg("manifests")
        .current_dir(&below)
        .env("CARGO", folder.path().join("cargo"))
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let error = text(&output.stderr);
    assert!(error.starts_with("error: there is no operator in "), "{error}");
    assert_eq!(fs::read_dir(&below).expect("a folder").count(), 0);
}

#[test]
fn folder_without_a_package_is_refused_before_cargo_is_called() {
    let folder = tempfile::tempdir().expect("a folder");
    for arguments in [&["crds"][..], &["crds", "--check", "deploy"]] {
        let output = windlass(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let error = text(&output.stderr);
        assert!(error.starts_with("error: there is no operator in "), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn definitions_are_printed_below_the_folder_of_the_package_too() {
    let folder = operator(DEFINITION);
    let below = folder.path().join("src");
    fs::create_dir(&below).expect("a folder");
    fs::rename(folder.path().join("now.yaml"), below.join("now.yaml")).expect("moved");
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .arg("crds")
        .current_dir(&below)
        .env("CARGO", folder.path().join("cargo"))
        .output()
        .expect("it runs");
    assert_eq!(text(&output.stdout), DEFINITION, "{output:?}");
}

#[test]
fn operator_that_does_not_build_is_an_error() {
    let folder = operator(DEFINITION);
    fs::write(folder.path().join("cargo"), "#!/bin/sh\nexit 101\n").expect("written");
    let output = windlass(folder.path(), &["manifests"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("error: `cargo run -- crds` failed"), "{output:?}");
}
