//! The shapes of the built-in kinds: which fields they have and of which types, as data for the API server.
//!
//! `crates/apiserver/src/kinds/shape/shapes.txt` names the kinds in its first lines; this command writes what
//! follows them. Fields and their types come from the `OpenAPI` documents of a running kube-apiserver of the
//! release that `cargo xtask kube` builds ([`openapi`]). The names that Go's decoder has for types, which its
//! error messages tell, are not in there; they come from the sources of the same release ([`golang`]).
//!
//! A new kind is a new line `kind apps/v1 Deployment` in the file, and a run of
//! `cargo xtask kinds --kubeconfig FILE --record`. Without `--record` the file is only compared.

mod golang;
mod openapi;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;

use crate::process::{CommandLine, workspace_root};
use golang::Sources;
use openapi::Shapes;

/// Where the server's data is, in the workspace.
const FILE: &str = "crates/apiserver/src/kinds/shape/shapes.txt";

/// Which cluster to ask, and what to do with what it says.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// A kubeconfig of a running cluster of the release that `cargo xtask kube` builds; needs kubectl.
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// Write the file instead of comparing it.
    #[arg(long)]
    record: bool,
}

/// Makes the shapes and writes them, or fails if they are not what the file says.
///
/// # Errors
/// If the cluster does not answer or is of another release, if Go's sources cannot be read, or if the file differs.
pub(crate) fn run(options: &Options) -> Result<()> {
    let path = workspace_root()?.join(FILE);
    let old = fs::read_to_string(&path).with_context(|| format!("{FILE} could not be read"))?;
    let sources = Sources::open()?;
    let release = options.get("/version")?["gitVersion"].as_str().unwrap_or_default().to_owned();
    ensure!(
        release == sources.release(),
        "the cluster is {release}, the sources are {}",
        sources.release()
    );
    let new = options.shapes(&old, sources)?;
    if options.record {
        fs::write(&path, &new).with_context(|| format!("{FILE} could not be written"))?;
        println!("==> {FILE}: {} bytes", new.len());
        return Ok(());
    }
    ensure!(old == new, "{FILE} is not what the cluster says: run this again with --record");
    println!("==> {FILE} is what the cluster says");
    Ok(())
}

impl Options {
    /// The whole new file: its comments, its kinds, and the types that these reach.
    fn shapes(&self, old: &str, sources: Sources) -> Result<String> {
        let kinds: BTreeSet<(&str, &str)> = old.lines().filter_map(kind).collect();
        let mut text: String = old
            .lines()
            .filter(|line| line.starts_with('#'))
            .flat_map(|line| [line, "\n"])
            .collect();
        let mut shapes = Shapes::new(sources);
        let versions: BTreeSet<&str> = kinds.iter().map(|(version, _)| *version).collect();
        for version in versions {
            let prefix = if version.contains('/') { "apis" } else { "api" };
            shapes.add_document(&self.get(&format!("/openapi/v3/{prefix}/{version}"))?)?;
        }
        for (version, kind) in kinds {
            let name = shapes.add_kind(version, kind)?;
            writeln!(text, "kind {version} {kind} {name}")?;
        }
        text.push_str(&shapes.finish()?);
        Ok(text)
    }

    /// What the cluster answers at a path.
    fn get(&self, path: &str) -> Result<Value> {
        let kubeconfig =
            self.kubeconfig.to_str().context("the path of the kubeconfig is not UTF-8")?;
        let command =
            CommandLine::new("kubectl", &["--kubeconfig", kubeconfig, "get", "--raw", path]);
        serde_json::from_str(&command.capture()?)
            .with_context(|| format!("the answer at {path} is not JSON"))
    }
}

/// The version and kind of a line that names a kind.
fn kind(line: &str) -> Option<(&str, &str)> {
    let mut words = line.strip_prefix("kind ")?.split(' ');
    Some((words.next()?, words.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_with_and_without_their_type() {
        assert_eq!(
            kind("kind apps/v1 Deployment apps.v1.Deployment"),
            Some(("apps/v1", "Deployment"))
        );
        assert_eq!(kind("kind v1 Pod"), Some(("v1", "Pod")));
        assert_eq!(kind("core.v1.Pod"), None);
        assert_eq!(kind("# kind"), None);
    }
}
