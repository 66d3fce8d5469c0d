//! `cargo windlass new` as a program: its output, and its refusals.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::recorded;

const PROGRAM: &str = env!("CARGO_BIN_EXE_cargo-windlass");

fn windlass(folder: &Path, arguments: &[&str]) -> Output {
    recorded::windlass(Path::new(PROGRAM), folder, arguments)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the error of a refused `new`, and checks that nothing was written.
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let entries = || {
        let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("one"));
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        paths
    };
    let before = entries();
    let output = windlass(folder, arguments);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(entries(), before, "{arguments:?} has written something");
    text(&output.stderr)
}

#[test]
fn operator_is_written_with_the_defaults_and_the_next_steps_are_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = windlass(folder.path(), &["new", "shop-operator"]);
    assert!(output.status.success(), "{output:?}");
    let shown = text(&output.stdout);
    for expected in [
        "--kind Shop ",
        "--group example.com ",
        "--owns configmaps,deployments,services ",
        "Made shop-operator: a Shop (example.com/v1alpha1) owns configmaps, deployments, services.",
        "  cd shop-operator\n  cargo test ",
        "\n  cargo run ",
    ] {
        assert!(shown.contains(expected), "no {expected:?} in {shown}");
    }
    let operator = folder.path().join("shop-operator");
    for path in ["Cargo.toml", "Cargo.lock", "src/shop.rs", "src/shop/children/service.rs", "ci.sh"]
    {
        assert!(operator.join(path).is_file(), "{path}");
    }
    assert!(!operator.join("src/shop/children/stateful_set.rs").exists());
}

#[test]
fn blog_operator_is_as_recorded() {
    let recording =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/blog-operator.txt");
    let recorded = fs::read_to_string(&recording).expect("a recording");
    let made = recorded::blog(Path::new(PROGRAM));
    let differing = made.lines().zip(recorded.lines()).find(|(now, then)| now != then);
    assert!(
        made == recorded,
        "the first line that differs: {differing:?}. If this is as it should be: cargo xtask record \
         template"
    );
}

#[test]
fn dependencies_are_those_that_the_template_is_tested_with() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = windlass(folder.path(), &["new", "shop-operator", "--owns", "services"]);
    assert!(output.status.success(), "{output:?}");
    let made = dependencies(&folder.path().join("shop-operator/Cargo.toml"), "shop-operator");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tested = dependencies(&here.join("template-check/Cargo.toml"), "gadget-operator");
    assert_eq!(made, tested);
}

/// Returns what a manifest says about each dependency, with the path of Windlass.
fn dependencies(manifest: &Path, package: &str) -> Vec<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--manifest-path"])
        .arg(manifest)
        .output()
        .expect("cargo must start");
    assert!(output.status.success(), "{output:?}");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let package = packages.iter().find(|found| found["name"] == package).expect("the package");
    let mut shown: Vec<String> = Vec::new();
    for used in package["dependencies"].as_array().expect("dependencies") {
        let fields = ["name", "kind", "uses_default_features", "features", "optional", "path"];
        let said = fields.map(|field| used[field].to_string());
        // A dependency in the workspace has the version of the next release, too.
        let version = if used["path"].is_null() { used["req"].to_string() } else { String::new() };
        shown.push(format!("{} {version}", said.join(" ")));
    }
    shown.sort();
    shown
}

#[test]
fn folder_with_something_in_it_is_not_touched() {
    let folder = tempfile::tempdir().expect("a folder");
    let operator = folder.path().join("shop-operator");
    fs::create_dir(&operator).expect("a folder");
    fs::write(operator.join("notes"), "").expect("a file");
    fs::write(folder.path().join("a-file"), "").expect("a file");
    for name in ["shop-operator", "a-file"] {
        assert_eq!(
            refused(folder.path(), &["new", name]),
            format!(
                "error: {name} exists already, and is not an empty folder: choose another name, or \
                 move it away\n"
            )
        );
    }
    assert_eq!(fs::read_dir(&operator).expect("a folder").count(), 1);
}

#[test]
fn empty_folder_is_filled() {
    let folder = tempfile::tempdir().expect("a folder");
    let operator = folder.path().join("shop-operator");
    fs::create_dir(&operator).expect("a folder");
    let output = windlass(folder.path(), &["new", "shop-operator"]);
    assert!(output.status.success(), "{output:?}");
    assert!(operator.join("src/shop.rs").is_file());
}

#[test]
fn operator_is_a_repository_unless_it_is_in_one() {
    if !Command::new("git").arg("--version").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no git");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    if folder.path().ancestors().any(|one| one.join(".git").exists()) {
        println!("skipped: temporary folders are in a repository");
        return;
    }
    let new = |name: &str| {
        let output = windlass(folder.path(), &["new", name]);
        assert!(output.status.success(), "{output:?}");
        folder.path().join(name).join(".git").exists()
    };
    assert!(new("shop-operator"));
    fs::create_dir(folder.path().join(".git")).expect("a folder");
    assert!(!new("blog-operator"));
}

#[test]
fn kind_with_a_vowel_has_the_article_of_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = windlass(folder.path(), &["new", "invoice-operator"]);
    let shown = text(&output.stdout);
    assert!(shown.contains("Made invoice-operator: an Invoice (example.com/v1"), "{shown}");
}

#[test]
fn invalid_answers_are_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    for (arguments, expected) in [
        (&["new", "Shop"][..], "such as shop-operator"),
        (&["new", "shop-operator", "--kind", "shop"], "is not in CamelCase"),
        (&["new", "shop-operator", "--kind", "Lib"], "such as CustomLib"),
        (&["new", "2nd"], "Begin with a letter"),
        (&["new", "shop-operator", "--group", "shop"], "is not a DNS name"),
        (&["new", "shop-operator", "--owns", "pods"], "There are configmaps, deployments, "),
        (&["new", "shop-operator", "--windlass", "nowhere"], "is not a clone of Windlass"),
    ] {
        let error = refused(folder.path(), arguments);
        assert!(error.starts_with("error: ") && error.contains(expected), "{error}");
    }
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[test]
fn help_names_every_kind_that_can_be_owned() {
    let shown = text(&windlass(Path::new("."), &["new", "--help"]).stdout);
    for kind in ["configmaps", "deployments", "services", "serviceaccounts", "statefulsets"] {
        assert!(shown.contains(kind), "{shown}");
    }
    assert!(shown.contains("Usage: cargo windlass new"), "{shown}");
}
