//! `cargo windlass rbac` as a program. A stand-in for cargo records what a test would have
//! recorded.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A test that has sent one request.
const SEEN: &str = r#"#!/bin/sh
echo '{"version":1,"kind":"request","verb":"get","target":{"group":"","plural":"pods",
"namespace":"a"},"sender":"operator","outcome":"unanswered"}' | tr -d '\n' \
    > "$WINDLASS_RBAC_EVIDENCE/evidence.jsonl"
"#;

/// A package that does not compile.
const BROKEN: &str = "#!/bin/sh\nexit 101\n";

const DEPLOYMENT: &str = "kind: Deployment\nmetadata: {name: shop, namespace: shops}\n\
    spec: {template: {spec: {serviceAccountName: keeper, containers: [{name: shop}]}}}\n";

/// The folder of a package without manifests.
fn operator(cargo: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("Cargo.toml"), "[package]\nname = \"shop_operator\"\n").expect("written");
    fs::write(path("cargo"), cargo).expect("written");
    let is_program = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path("cargo"), is_program).expect("permissions");
    folder
}

fn rbac(folder: &Path, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windlass"))
        .arg("rbac")
        .args(options)
        .current_dir(folder)
        .env("CARGO", folder.join("cargo"))
        .output()
        .expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the file that `--write` creates in a folder with these manifests.
fn written(manifests: &[(&str, &str)]) -> String {
    let folder = operator(SEEN);
    for (name, text) in manifests {
        fs::create_dir_all(folder.path().join("deploy")).expect("a folder");
        fs::write(folder.path().join("deploy").join(name), text).expect("written");
    }
    let output = rbac(folder.path(), &["--write"]);
    assert!(output.status.success(), "{output:?}");
    let output = rbac(folder.path(), &["--check"]);
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stdout).ends_with(" what the operator needs: 1 right\n"), "{output:?}");
    fs::read_to_string(folder.path().join("deploy/rbac.yaml")).expect("a file")
}

#[test]
fn without_manifests_the_account_has_the_name_of_the_package() {
    let written = written(&[]);
    let account = "kind: ServiceAccount\nmetadata:\n  name: shop-operator\n  \
                   namespace: shop-operator\n";
    assert!(written.contains(account), "{written}");
    assert!(written.contains("    resources: [pods]\n    verbs: [get]\n"), "{written}");
}

#[test]
fn account_is_that_of_the_deployment() {
    let made = written(&[("operator.yaml", DEPLOYMENT)]);
    let account = "kind: ServiceAccount\nmetadata:\n  name: keeper\n  namespace: shops\n";
    assert!(made.contains(account), "{made}");
    assert!(!made.contains("shop-operator"), "{made}");

    // It is not created twice.
    let account = "kind: ServiceAccount\nmetadata: {name: keeper, namespace: shops}\n";
    let made = written(&[("operator.yaml", DEPLOYMENT), ("account.yaml", account)]);
    assert!(!made.contains("kind: ServiceAccount\nmetadata"), "{made}");
    assert!(made.contains("  - kind: ServiceAccount\n    name: keeper\n"), "{made}");
}

#[test]
fn file_that_cannot_be_written_is_refused_before_the_tests_run() {
    let folder = operator("#!/bin/sh\ntouch has_run\n");
    symlink("nowhere", folder.path().join("deploy")).expect("a link");
    let output = rbac(folder.path(), &["--write"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let error = text(&output.stderr);
    assert!(error.starts_with("error: cannot make deploy: "), "{error}");
    assert!(!folder.path().join("has_run").exists());
}

#[test]
fn package_that_does_not_compile_is_not_said_to_need_a_test() {
    for (cargo, expected) in [
        (BROKEN, "error: `cargo test` failed before "),
        ("#!/bin/sh\n", "error: the tests ran no manager "),
    ] {
        let folder = operator(cargo);
        let output = rbac(folder.path(), &["--write"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let error = text(&output.stderr);
        assert!(error.starts_with(expected), "{error}");
        assert!(!folder.path().join("deploy/rbac.yaml").exists());
    }
}

#[test]
fn evidence_of_another_version_is_refused_with_what_to_do() {
    let other = SEEN.replace(r#""version":1"#, r#""version":2"#);
    let output = rbac(operator(&other).path(), &["--write"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let error = text(&output.stderr);
    assert!(error.contains("has version 2, and this program reads version 1: "), "{error}");
    assert!(error.contains("install the `cargo windlass` of that version"), "{error}");
}
