//! Go programs of ours that tests on a real control plane run, built into the cache folder.
//!
//! Each is a module in `tests/`. Go's own cache detects changes, so building an up-to-date program
//! takes a second. A variable passes the folder to tests: `windlass_testserver::go_program`.

use std::fs;

use anyhow::{Context, Result};

use crate::cache;
use crate::process::{CommandLine, Stopwatch};

/// The folders in `tests/`, and the names of the programs.
const PROGRAMS: [&str; 3] = ["clients-go", "election-go", "metrics-go"];

/// The variable that passes the folder of the programs to tests.
pub(crate) const VARIABLE: &str = "WINDLASS_GO_PROGRAMS";

/// Builds all programs, and returns their folder.
///
/// # Errors
/// If a program does not build, or if the folder cannot be written.
pub(crate) fn build() -> Result<String> {
    let folder = cache::folder()?.join("go-programs");
    fs::create_dir_all(&folder)
        .with_context(|| format!("{} could not be created", folder.display()))?;
    let folder = folder.into_os_string().into_string();
    let folder = folder.ok().context("the path of the cache folder is not UTF-8")?;
    for program in PROGRAMS {
        let watch = Stopwatch::start();
        let command = command(program, &folder);
        println!("==> {command}");
        let failed =
            || format!("the Go program {program} was not built: it needs Go 1.26 or newer");
        command.run().with_context(failed)?;
        println!("    {program} took {:.0} s", watch.elapsed().as_secs_f64());
    }
    Ok(folder)
}

/// Returns a command without Go settings from the environment, as for the control plane.
fn command(program: &str, folder: &str) -> CommandLine {
    let path = format!("{folder}/{program}");
    CommandLine::new("go", &["build", "-trimpath", "-o", &path, "."])
        .in_folder(&module(program))
        .env("GOFLAGS", "-mod=readonly")
        .env("GOWORK", "off")
        .env("GOOS", "")
        .env("GOARCH", "")
        .env("CGO_ENABLED", "0")
}

/// Returns the folder of a program's module.
fn module(program: &str) -> String {
    format!("tests/{program}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::workspace_root;

    #[test]
    fn programs_are_built_in_their_modules_with_what_their_go_sums_cover() {
        let shown = command("election-go", "/c").to_string();
        assert!(shown.starts_with("cd tests/election-go && GOFLAGS=-mod=readonly "), "{shown}");
        assert!(shown.ends_with("go build -trimpath -o /c/election-go ."), "{shown}");
        let root = workspace_root().expect("tests run under cargo");
        for program in PROGRAMS {
            let manifest = root.join(module(program)).join("go.mod");
            let manifest = fs::read_to_string(manifest).expect("a module");
            assert!(manifest.contains("\ngo 1.26"), "the advice asks for this version");
        }
    }
}
