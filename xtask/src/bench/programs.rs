//! Building and finding the programs of a suite.

use std::env::consts::EXE_SUFFIX;

use anyhow::{Context, Result};
use cargo_metadata::MetadataCommand;
use cargo_metadata::camino::Utf8PathBuf;

use crate::process::{CommandLine, Stopwatch, workspace_root};

/// The contestants that are written in Go.
const GO: [&str; 2] = ["client-go", "controller-runtime"];

/// The programs of a suite. Their names begin with the name of the suite.
#[derive(Debug)]
pub(super) struct Programs {
    suite: &'static str,
    target: Utf8PathBuf,
}

impl Programs {
    /// Builds the programs in release mode.
    ///
    /// # Errors
    /// If a program does not build.
    pub(super) fn build(
        suite: &'static str,
        packages: &[&'static str],
        with_go: bool,
    ) -> Result<Self> {
        let metadata = MetadataCommand::new()
            .current_dir(workspace_root()?)
            .no_deps()
            .exec()
            .context("`cargo metadata` failed")?;
        let programs = Self { suite, target: metadata.target_directory };
        if with_go {
            let arguments = ["build", "-trimpath", "-o", &programs.go(), "."];
            let folder = go_folder(suite);
            run("the Go side", &CommandLine::new("go", &arguments).in_folder(&folder))?;
        }
        let packages = packages.iter().flat_map(|package| ["-p", *package]);
        let arguments: Vec<_> =
            ["build", "--release", "--locked"].into_iter().chain(packages).collect();
        run("the Rust side", &CommandLine::new("cargo", &arguments))?;
        Ok(programs)
    }

    /// Returns the path of a Rust program, given the last part of its name.
    pub(super) fn rust(&self, name: &str) -> String {
        self.target.join(format!("release/{}-{name}{EXE_SUFFIX}", self.suite)).into_string()
    }

    /// Returns the path of the program that runs a contestant: the Go program or this Rust program.
    pub(super) fn of(&self, who: &str, name: &str) -> String {
        if is_go(who) { self.go() } else { self.rust(name) }
    }

    #[cfg(test)]
    pub(super) fn imagined(suite: &'static str) -> Self {
        Self { suite, target: "/t".into() }
    }

    fn go(&self) -> String {
        self.target.join(format!("bench/{}-go{EXE_SUFFIX}", self.suite)).into_string()
    }
}

/// Returns the folder of the Go module of a suite.
pub(super) fn go_folder(suite: &str) -> String {
    format!("bench/{suite}-go")
}

/// Whether a contestant is written in Go.
pub(super) fn is_go(who: &str) -> bool {
    GO.contains(&who)
}

fn run(side: &str, command: &CommandLine) -> Result<()> {
    println!("==> build {side}: {command}");
    let watch = Stopwatch::start();
    command.run()?;
    println!("    built in {:.1} s", watch.elapsed().as_secs_f64());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contestants_have_the_program_of_their_language() {
        let programs = Programs::imagined("queue");
        assert_eq!(programs.of("client-go", "bench"), format!("/t/bench/queue-go{EXE_SUFFIX}"));
        let rust = format!("/t/release/queue-bench{EXE_SUFFIX}");
        assert_eq!(programs.of("windlass", "bench"), rust);
    }
}
