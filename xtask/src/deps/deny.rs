//! Runs a pinned version of cargo-deny, and installs it into the cache folder if it is missing.

use std::env::consts::EXE_SUFFIX;

use anyhow::{Context, Result};

use crate::cache;
use crate::process::CommandLine;

/// Pinned, so that every machine checks the same rules.
const VERSION: &str = "0.20.2";

/// The checks to run. Advisories are not among them because their database needs the network; the
/// GitHub workflow checks them.
const CHECKS: [&str; 3] = ["bans", "licenses", "sources"];

/// Checks the workspace against `deny.toml`.
///
/// # Errors
/// If cargo-deny cannot be installed or reports an error.
pub(super) fn check() -> Result<()> {
    let root = cache::folder()?.join(format!("cargo-deny-{VERSION}"));
    let program = root.join(format!("bin/cargo-deny{EXE_SUFFIX}"));
    if !program.exists() {
        let root = root.to_str().context("the path of the cache folder is not UTF-8")?;
        let package = format!("cargo-deny@{VERSION}");
        let install = CommandLine::new("cargo", &["install", "--locked", "--root", root, &package]);
        println!("    installing cargo-deny, which takes a few minutes once: {install}");
        install.run()?;
    }
    let program = program.to_str().context("the path of the cache folder is not UTF-8")?;
    let arguments = [&["--locked", "check"], &CHECKS[..]].concat();
    CommandLine::new(program, &arguments).run()
}
