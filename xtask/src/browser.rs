//! The dashboard in a real browser: tests, pictures, and the cost of an open page.
//!
//! The tests are a separate workspace, `tests/browser`, so that `cargo test --workspace` needs only
//! Rust. This builds the operators that the tests use, and installs what is missing: Chromium from
//! Debian, and axe-core, which checks accessibility, from npm into the cache folder.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use crate::cache;
use crate::process::{CommandLine, workspace_root};

/// The npm package.
const AXE: &str = "axe-core@4.14.0";

const CHROMIUM: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// What to do in the browser.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// What to do
    #[arg(value_enum, default_value_t = Job::Test)]
    job: Job,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Job {
    /// Click through every view of live operators
    Test,
    /// Redraw the pictures in docs/dashboard
    Pictures,
    /// Measure the CPU time of an operator with the page open and without
    Cost,
}

/// Installs what is missing, builds the operators, and does the job.
///
/// # Errors
/// If something cannot be installed or built, or if a test fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    install_chromium()?;
    let axe = install_axe()?;
    let build = CommandLine::new("cargo", options.job.build());
    println!("==> {build}");
    build.run()?;
    let folder = if options.job == Job::Cost { "release" } else { "debug" };
    let programs = target()?.join(folder);
    let job = options.job.command().env("WINDLASS_AXE", text(&axe)?);
    let job = job.env("WINDLASS_PROGRAMS", text(&programs)?).in_folder("tests/browser");
    println!("==> {job}");
    job.run()
}

impl Job {
    /// How the operators are built.
    fn build(self) -> &'static [&'static str] {
        match self {
            // The whole workspace, as its own tests build it: a single package would have
            // dependencies with other features, which takes minutes to build again.
            Self::Test | Self::Pictures => &["build", "--locked", "--workspace", "--bins"],
            Self::Cost => &["build", "--locked", "--release", "--package", "dashboard-load"],
        }
    }

    fn command(self) -> CommandLine {
        let arguments: &[&str] = match self {
            Self::Test => &["test", "--locked"],
            Self::Pictures => &["run", "--locked", "--bin", "pictures"],
            Self::Cost => &["run", "--locked", "--bin", "cost"],
        };
        CommandLine::new("cargo", arguments)
    }
}

fn install_chromium() -> Result<()> {
    let is_there = |program: &&str| CommandLine::new(program, &["--version"]).capture().is_ok();
    if CHROMIUM.iter().any(is_there) {
        return Ok(());
    }
    for arguments in [&["update"][..], &["install", "--yes", "chromium"]] {
        let install = CommandLine::new("apt-get", arguments);
        println!("==> {install}");
        if let Err(error) = install.run() {
            bail!(
                "there is no Chromium, and it cannot be installed ({error}); install it yourself"
            );
        }
    }
    Ok(())
}

/// Returns the folder of axe-core.
fn install_axe() -> Result<PathBuf> {
    let folder = cache::folder()?.join(AXE.replace('@', "-"));
    if !folder.join("node_modules/axe-core/axe.min.js").exists() {
        let flags = ["--no-save", "--no-audit", "--no-fund", "--ignore-scripts"];
        let arguments = [&["install", "--prefix", text(&folder)?, AXE], &flags[..]].concat();
        let install = CommandLine::new("npm", &arguments);
        println!("==> {install}");
        install.run().context("axe-core comes from npm; install Node.js")?;
    }
    Ok(folder)
}

/// Returns cargo's target folder.
fn target() -> Result<PathBuf> {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => Ok(workspace_root()?.join(folder)),
        None => Ok(workspace_root()?.join("target")),
    }
}

fn text(path: &std::path::Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}
