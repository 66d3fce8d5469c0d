//! The exported identifiers of our peers, one on a line: `docs/coming-from/*.txt`.
//!
//! `docs/coming-from.md` has a row for each; `tests/tests/coming_from.rs` checks that. A Go program
//! in the module of the controller benchmark lists controller-runtime. [`rust`] reads the sources
//! of kube-runtime. The versions are those of the benchmarks.

mod rust;

use std::fs;

use anyhow::{Context, Result};
use cargo_metadata::MetadataCommand;

use crate::process::{CommandLine, workspace_root};

/// The Go module that pins the version of controller-runtime and contains the program.
const MODULE: &str = "bench/controller-go";

/// Writes both lists.
///
/// # Errors
/// If Go is missing, or a source cannot be read or parsed.
pub(crate) fn run() -> Result<()> {
    let go = |arguments: &[&str]| CommandLine::new("go", arguments).in_folder(MODULE).capture();
    let version = go(&["list", "-m", "sigs.k8s.io/controller-runtime"])?;
    write("controller-runtime", version.trim_end(), &go(&["run", "./identifiers"])?)?;

    let metadata = MetadataCommand::new().current_dir(workspace_root()?).exec()?;
    let kube_runtime = metadata.packages.iter().find(|package| package.name == "kube-runtime");
    let kube_runtime = kube_runtime.context("the workspace does not use kube-runtime")?;
    let folder = kube_runtime.manifest_path.parent().context("a manifest must be in a folder")?;
    let lines = rust::identifiers(folder.join("src").as_std_path())?.join("\n") + "\n";
    write("kube-runtime", &format!("kube-runtime {}", kube_runtime.version), &lines)
}

/// Writes a list with its version, which a test compares with the used version.
fn write(peer: &str, version: &str, lines: &str) -> Result<()> {
    let path = format!("docs/coming-from/{peer}.txt");
    fs::write(workspace_root()?.join(&path), format!("# {version}\n{lines}"))
        .with_context(|| format!("cannot write {path}"))?;
    println!("{path} has {} identifiers", lines.lines().count());
    Ok(())
}
