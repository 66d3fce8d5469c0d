//! The Go program that compares our metrics with controller-runtime's, for the real tier.
//!
//! Go builds only what has changed, so it is asked every time.

use std::fs;

use anyhow::{Context, Result};

use crate::cache;
use crate::process::CommandLine;

/// Tells `crates/manager/tests/metrics_compare.rs` where the program is.
pub(crate) const VARIABLE: &str = "WINDLASS_METRICS_GO";

const FOLDER: &str = "tests/metrics-go";

/// Builds the program into the cache folder, and returns its path.
///
/// # Errors
/// If there is no Go, if the program does not build, or if the folder cannot be written.
pub(crate) fn build() -> Result<String> {
    let folder = cache::folder()?;
    fs::create_dir_all(&folder)
        .with_context(|| format!("{} could not be created", folder.display()))?;
    let path = folder.join("metrics-go");
    let path = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    let command = command(path);
    println!("==> {command}");
    command.run().context("the program that compares metrics needs Go 1.26 or newer")?;
    Ok(path.to_owned())
}

/// Free of what a person may have set for other projects, as the control plane is built.
fn command(path: &str) -> CommandLine {
    CommandLine::new("go", &["build", "-trimpath", "-o", path, "."])
        .in_folder(FOLDER)
        .env("GOFLAGS", "-mod=readonly")
        .env("GOWORK", "off")
        .env("GOOS", "")
        .env("GOARCH", "")
        .env("CGO_ENABLED", "0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::workspace_root;

    #[test]
    fn program_is_built_in_its_module_with_what_its_go_sum_covers() {
        let command = command("/tmp/out").to_string();
        assert!(command.starts_with("cd tests/metrics-go && GOFLAGS=-mod=readonly "), "{command}");
        assert!(command.ends_with("go build -trimpath -o /tmp/out ."), "{command}");
        let root = workspace_root().expect("tests run under cargo");
        let manifest = fs::read_to_string(root.join(FOLDER).join("go.mod")).expect("a module");
        assert!(manifest.contains("\ngo 1.26"), "the advice asks for this version");
    }
}
