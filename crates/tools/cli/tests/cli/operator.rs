//! Operators that `cargo windlass new` and `add` create, built and run as their README says. They
//! compile all dependencies again, for many minutes, so only
//! `cargo xtask nightly --only new-operator` runs this.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a command with our standard output and error.
fn run(folder: &Path, program: &str, arguments: &[&str]) {
    println!("==> {program} {}", arguments.join(" "));
    let status = command(folder, program, arguments).status().expect("it must start");
    assert!(status.success(), "{program} {arguments:?}: {status}");
}

fn command(folder: &Path, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    // A separate folder, which both operators and later nights share.
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/new-operator");
    command.args(arguments).current_dir(folder).env("CARGO_TARGET_DIR", target);
    // `cargo windlass` is in the path, so their CI compares their Roles with what their tests show.
    let ours = Path::new(env!("CARGO_BIN_EXE_cargo-windlass")).parent().map(Path::to_owned);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(ours.into_iter().chain(std::env::split_paths(&path)));
    command.env("PATH", path.expect("folders without a colon"));
    // Cargo's variables for this test. Build scripts that depend on them would run again.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    command
}

/// Creates an operator in a folder.
fn new(folder: &Path, arguments: &[&str]) -> PathBuf {
    let program = env!("CARGO_BIN_EXE_cargo-windlass");
    run(folder, program, &[&["windlass", "new"], arguments].concat());
    folder.join(arguments[0])
}

#[test]
#[ignore = "many minutes: `cargo xtask nightly --only new-operator` runs it"]
fn new_and_changed_operators_pass_their_own_ci_and_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let shop = new(folder.path(), &["shop-operator"]);
    run(&shop, "cargo", &["test"]);
    run(&shop, "cargo", &["run", "--", "demo", "--exit"]);
    run(&shop, "bash", &["ci.sh"]);
    // The written definition equals the one that the type produces.
    let program = env!("CARGO_BIN_EXE_cargo-windlass");
    let printed = command(&shop, program, &["windlass", "crds"]).output().expect("it must start");
    assert!(printed.status.success(), "{printed:?}");
    assert!(String::from_utf8_lossy(&printed.stdout).contains("name: shops.example.com"));

    // The additions pass as well. `add kind` is repeated, because the second kind owns other
    // objects.
    for what in [
        &["kind", "Customer", "--owns", "deployments"][..],
        &["kind", "BlogPost", "--owns", "serviceaccounts", "--group", "blog.example.org"],
        &["webhook", "Shop", "--validate", "--default"],
        &["webhook", "BlogPost", "--validate"],
        &["version", "Shop", "v1beta1"],
        &["version", "BlogPost", "v1"],
        &["version", "BlogPost", "v2"],
    ] {
        run(&shop, program, &[&["windlass", "add"], what].concat());
    }
    run(&shop, "bash", &["ci.sh"]);
    run(&shop, "cargo", &["run", "--", "demo", "--exit"]);
    run(&shop, program, &["windlass", "manifests", "--check"]);

    // Other names and kinds, so that other parts of the template are omitted.
    for (name, kind, owns) in [
        ("blog-operator", "BlogPost", "serviceaccounts"),
        ("policy-operator", "Policy", "statefulsets"),
    ] {
        let flags = ["--kind", kind, "--group", "team.example.org", "--owns", owns];
        let operator = new(folder.path(), &[&[name], &flags[..]].concat());
        run(&operator, "bash", &["ci.sh"]);
    }

    // The module of the kind has the name of the crate. Compiling is enough.
    let cache = new(folder.path(), &["cache", "--owns", "configmaps"]);
    run(&cache, "cargo", &["test", "--no-run"]);
}
