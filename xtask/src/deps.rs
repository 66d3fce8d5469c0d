//! What the dependency graph may look like.
//!
//! `deny.toml` holds the decisions (licences, sources, bans, known duplicates). cargo-deny enforces them
//! on GitHub's runners, where it comes ready built; building it takes minutes, so here the same facts are
//! computed from `cargo metadata` in about a second. Both read the same file, and [`policy`] refuses a
//! setting that it does not follow, so the two cannot drift apart in silence. (Security advisories need
//! a database from the network: those are cargo-deny's alone.)
//!
//! What cargo-deny cannot express is checked on top: the edges between our own crates ([`edges`]),
//! whether they can be published in some order ([`publish`]), and the Rust versions ([`toolchain`]).
//!
//! Every check is a pure function from a [`Graph`] and a [`Policy`] to findings, and every finding says
//! what to do about it.

mod bans;
mod edges;
mod graph;
mod licences;
mod policy;
mod publish;
mod sources;
mod toolchain;

use std::fmt;
use std::fs;

use anyhow::{Context, Result, bail};
use cargo_metadata::{CargoOpt, MetadataCommand};

use crate::process;
use graph::Graph;
use policy::Policy;

/// Something in the graph that is not allowed, and the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    /// The check that found it.
    check: &'static str,
    /// What is wrong, naming the crate.
    problem: String,
    /// What to do about it.
    remedy: String,
}

/// Runs all checks on the workspace and prints what they found.
///
/// # Errors
/// If `deny.toml` or the graph cannot be read, or if there is any finding.
pub(crate) fn run() -> Result<()> {
    let policy = read_policy()?;
    let graph = read_graph(&policy)?;
    let findings = check(&graph, &policy);
    if findings.is_empty() {
        println!("    all checks hold for the {} packages of the graph", graph.packages.len());
        return Ok(());
    }
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        1 => bail!("the dependency checks found one problem (above)"),
        many => bail!("the dependency checks found {many} problems (above)"),
    }
}

/// All checks, in the order in which their findings are shown.
fn check(graph: &Graph, policy: &Policy) -> Vec<Finding> {
    [
        licences::check(graph, &policy.licenses),
        sources::check(graph, &policy.sources),
        bans::check(graph, &policy.bans),
        edges::check(graph),
        publish::check(graph),
        toolchain::check(graph),
    ]
    .concat()
}

fn read_policy() -> Result<Policy> {
    let path = process::workspace_root()?.join("deny.toml");
    let text = fs::read_to_string(&path).context("deny.toml could not be read")?;
    Policy::parse(&text).context("deny.toml could not be understood")
}

/// The graph for the targets that the policy names, with all features on: what cargo-deny looks at.
fn read_graph(policy: &Policy) -> Result<Graph> {
    let platforms = policy.graph.targets.iter().flat_map(|target| ["--filter-platform", target]);
    let metadata = MetadataCommand::new()
        .current_dir(process::workspace_root()?)
        .features(CargoOpt::AllFeatures)
        .other_options(
            ["--locked"].into_iter().chain(platforms).map(str::to_owned).collect::<Vec<_>>(),
        )
        .exec()
        .context(
            "`cargo metadata --locked` failed; if Cargo.lock is out of date, run `cargo update \
             --workspace` and commit it",
        )?;
    Graph::from_metadata(&metadata)
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}\n  = to do: {}", self.check, self.problem, self.remedy)
    }
}
