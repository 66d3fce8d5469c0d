//! Records data about the built-in kinds for the API server: their shapes (which fields they have,
//! and of which types), and the schemas in their `OpenAPI` documents.
//!
//! `src/kinds/shape/shapes.txt` names the kinds in its first lines; this program writes the rest of
//! the file. Fields and their types come from the `OpenAPI` documents of a running kube-apiserver
//! of the release that `cargo xtask kube` builds ([`openapi`]). Error messages of Go's decoder
//! contain the Go names of types. `OpenAPI` lacks these names, so they come from the sources of the
//! same release ([`golang`]). [`schemas`] writes the second file, `src/openapi/schemas.txt`.
//!
//! The table of `windlass-protobuf` has the protobuf form of all built-in kinds ([`messages`]). It
//! needs no cluster and is compared on every run: `cargo xtask record messages` writes it.
//!
//! To add a kind, add a line `kind apps/v1 Deployment` to the first file and run `cargo run -p
//! windlass-apiserver --example kinds -- --kubeconfig FILE --record`. Without `--record`, the
//! program only compares the files. It needs kubectl and Go. Without `--kubeconfig`, only the
//! messages are recorded or compared.

mod golang;
mod messages;
mod openapi;
mod schemas;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use serde_json::Value;

use golang::{Modules, Sources};
use openapi::Shapes;
use schemas::Schemas;

/// The file with the shapes, in the folder of the crate.
const SHAPES: &str = "src/kinds/shape/shapes.txt";

/// The file with the schemas.
const SCHEMAS: &str = "src/openapi/schemas.txt";

/// The file with the messages of protobuf.
const MESSAGES: &str = "../../support/protobuf/src/messages.txt";

/// The version of Kubernetes' modules that the messages are from: the newest release that
/// k8s-openapi has types for.
const MESSAGES_VERSION: &str = "v0.37.2";

/// Compare the shapes of the built-in kinds with a running cluster, or record them from it.
#[derive(Debug, Parser)]
struct Options {
    /// A kubeconfig of a running cluster of the release that `cargo xtask kube` builds.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Write the file instead of comparing it.
    #[arg(long)]
    record: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    if let Some(kubeconfig) = &options.kubeconfig {
        options.settle_from(&Cluster { kubeconfig })?;
    }
    let messages = messages::table(&mut Sources::new(Modules::Version(MESSAGES_VERSION)))?;
    options.settle(MESSAGES, &(comments(&read(MESSAGES)?) + &messages))
}

/// Returns the whole new file of shapes: its comments, its kinds, and the types that these refer
/// to.
fn shapes(
    old: &str,
    kinds: &BTreeSet<(&str, &str)>,
    documents: &[Value],
    sources: Sources,
) -> Result<String> {
    let mut text = comments(old);
    let mut shapes = Shapes::new(sources);
    for document in documents {
        shapes.add_document(document)?;
    }
    for (version, kind) in kinds {
        let name = shapes.add_kind(version, kind)?;
        writeln!(text, "kind {version} {kind} {name}")?;
    }
    text.push_str(&shapes.finish()?);
    Ok(text)
}

/// Returns the whole new file of schemas.
fn schemas(kinds: &BTreeSet<(&str, &str)>, documents: &[Value]) -> Result<String> {
    let mut schemas = Schemas::default();
    for document in documents {
        schemas.add_document(document)?;
    }
    Ok(comments(&read(SCHEMAS)?) + &schemas.finish(kinds)?)
}

/// Returns the comments at the head of a file.
fn comments(text: &str) -> String {
    text.lines().filter(|line| line.starts_with('#')).flat_map(|line| [line, "\n"]).collect()
}

fn read(file: &str) -> Result<String> {
    let text = fs::read_to_string(crate_folder().join(file));
    text.with_context(|| format!("{file} could not be read"))
}

impl Options {
    /// Writes or compares the files that need a cluster.
    fn settle_from(&self, cluster: &Cluster<'_>) -> Result<()> {
        let old = read(SHAPES)?;
        let sources = Sources::new(Modules::ControlPlane);
        let of_sources = golang::release()?;
        let version = cluster.get("/version")?;
        let release = version["gitVersion"].as_str().unwrap_or_default();
        ensure!(
            release == of_sources,
            "the cluster has release {release}, but the sources have {of_sources}",
        );
        let kinds: BTreeSet<(&str, &str)> = old.lines().filter_map(kind).collect();
        let documents = cluster.documents(&kinds)?;
        self.settle(SHAPES, &shapes(&old, &kinds, &documents, sources)?)?;
        self.settle(SCHEMAS, &schemas(&kinds, &documents)?)
    }

    /// Writes a file, or returns an error if its content differs.
    fn settle(&self, file: &str, new: &str) -> Result<()> {
        if self.record {
            fs::write(crate_folder().join(file), new)
                .with_context(|| format!("{file} could not be written"))?;
            println!("==> {file}: {} bytes", new.len());
            return Ok(());
        }
        ensure!(read(file)? == new, "{file} is out of date: run this again with --record");
        println!("==> {file} is up to date");
        Ok(())
    }
}

/// A running cluster.
struct Cluster<'a> {
    kubeconfig: &'a Path,
}

impl Cluster<'_> {
    /// Returns the `OpenAPI` documents of the versions of these kinds.
    fn documents(&self, kinds: &BTreeSet<(&str, &str)>) -> Result<Vec<Value>> {
        let versions: BTreeSet<&str> = kinds.iter().map(|(version, _)| *version).collect();
        let document = |version: &str| {
            let prefix = if version.contains('/') { "apis" } else { "api" };
            self.get(&format!("/openapi/v3/{prefix}/{version}"))
        };
        versions.into_iter().map(document).collect()
    }

    /// Returns the cluster's answer to a GET of `path`.
    fn get(&self, path: &str) -> Result<Value> {
        let mut kubectl = Command::new("kubectl");
        kubectl.arg("--kubeconfig").arg(self.kubeconfig).args(["get", "--raw", path]);
        serde_json::from_str(&output_of(&mut kubectl)?)
            .with_context(|| format!("the answer at {path} is not JSON"))
    }
}

fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command and returns its standard output.
fn output_of(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?} could not be started"))?;
    ensure!(
        output.status.success(),
        "{command:?} failed: {}",
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    String::from_utf8(output.stdout)
        .with_context(|| format!("the output of {command:?} is not UTF-8"))
}

/// Returns the version and kind of a line that names a kind.
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
