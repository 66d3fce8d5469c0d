//! The edges between our crates: which may depend on which.
//!
//! A crate may use the crates of ours that [`LAYERS`] lists for it, and no others. Dev-dependencies
//! are not restricted. Unpublished members (benchmarks, examples, whole-system tests, this program)
//! may use every layer, but no layer may use them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use cargo_metadata::{CargoOpt, DependencyKind, Metadata, MetadataCommand};

use crate::process;

/// One of our crates, and its allowed dependencies.
struct Layer {
    name: &'static str,
    /// The crates of ours that it may use.
    uses: &'static [&'static str],
    /// The external crates that it must not use, directly or through another crate.
    never: &'static [&'static str],
}

/// From the bottom up. A new crate is added here and to docs/ARCHITECTURE.md.
const LAYERS: &[Layer] = &[
    Layer { name: "windlass-workqueue", uses: &[], never: KUBERNETES },
    Layer { name: "windlass-evidence", uses: &[], never: KUBERNETES },
    Layer { name: "windlass-indexer", uses: &[], never: CLIENT },
    Layer { name: "windlass-environment", uses: &[], never: KUBERNETES },
    Layer { name: "windlass-nesting", uses: &[], never: KUBERNETES },
    Layer { name: "windlass-protobuf", uses: &[], never: KUBERNETES },
    Layer { name: "windlass-serve", uses: &[], never: KUBERNETES },
    Layer {
        name: "windlass-informer",
        uses: &["windlass-environment", "windlass-indexer", "windlass-nesting"],
        never: &[],
    },
    Layer {
        name: "windlass-reconciler",
        uses: &[
            "windlass-informer",
            "windlass-indexer",
            "windlass-environment",
            "windlass-nesting",
            "windlass-workqueue",
        ],
        never: &[],
    },
    Layer { name: "windlass-webhook", uses: &["windlass-nesting", "windlass-serve"], never: &[] },
    Layer {
        name: "windlass-manager",
        uses: &[
            "windlass-webhook",
            "windlass-reconciler",
            "windlass-informer",
            "windlass-indexer",
            "windlass-workqueue",
            "windlass-environment",
            "windlass-evidence",
            "windlass-serve",
        ],
        never: &[],
    },
    Layer {
        name: "windlass",
        uses: &[
            "windlass-manager",
            "windlass-webhook",
            "windlass-reconciler",
            "windlass-informer",
            "windlass-indexer",
            "windlass-workqueue",
        ],
        never: &[],
    },
    Layer {
        name: "windlass-apiserver",
        uses: &["windlass-nesting", "windlass-protobuf", "windlass-serve"],
        never: &[],
    },
    Layer { name: "windlass-testserver", uses: &["windlass-apiserver"], never: &[] },
    Layer {
        name: "windlass-workloads",
        uses: &["windlass-reconciler", "windlass-informer", "windlass-indexer"],
        never: SERVICE,
    },
    Layer {
        name: "windlass-cluster",
        uses: &["windlass-apiserver", "windlass-workloads", "windlass-informer"],
        never: &[],
    },
    Layer {
        name: "windlass-testing",
        uses: &["windlass-testserver", "windlass", "windlass-workloads", "windlass-evidence"],
        never: &[],
    },
    Layer {
        name: "windlass-sim",
        uses: &["windlass-apiserver", "windlass", "windlass-environment"],
        never: &[],
    },
    Layer { name: "windlass-cli", uses: &["windlass-evidence"], never: &[] },
];

/// The store uses the Kubernetes types, but never calls a server.
const CLIENT: &[&str] = &["kube-client"];

/// Workloads run controllers without a manager, and so without what it serves.
const SERVICE: &[&str] = &["axum", "rcgen"];

/// The queue is also for programs without Kubernetes.
const KUBERNETES: &[&str] = &["kube-client", "kube-core", "kube-derive", "kube", "k8s-openapi"];

/// All crates of the workspace by name, with all features enabled. Several versions of a crate
/// count as one.
#[derive(Debug, Default)]
struct Graph {
    crates: BTreeMap<String, Crate>,
}

#[derive(Debug, Default)]
struct Crate {
    /// Whether it is one of ours.
    is_member: bool,
    is_published: bool,
    /// Its dependencies, without dev-dependencies.
    uses: BTreeSet<String>,
}

/// Checks the edges of the workspace, and prints those that are not allowed.
///
/// # Errors
/// If an edge is not allowed, or if `cargo metadata` fails.
pub(super) fn check() -> Result<()> {
    let metadata = MetadataCommand::new()
        .current_dir(process::workspace_root()?)
        .features(CargoOpt::AllFeatures)
        .other_options(["--locked".to_owned()])
        .exec()
        .context("`cargo metadata --locked` failed")?;
    let problems = problems(&Graph::from_metadata(&metadata)?);
    if problems.is_empty() {
        println!("    edges between our crates ok");
        return Ok(());
    }
    for problem in &problems {
        println!("error[edge]: {problem}");
    }
    bail!("{} edges between crates are not allowed (see above)", problems.len());
}

/// Returns one text for every edge that is not allowed, and for every published crate that is
/// missing in [`LAYERS`].
fn problems(graph: &Graph) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, member) in graph.crates.iter().filter(|(_, member)| member.is_member) {
        let Some(layer) = LAYERS.iter().find(|layer| layer.name == name) else {
            if member.is_published {
                problems.push(format!(
                    "{name} is published but not listed: add it to LAYERS in \
                     xtask/src/deps/edges.rs and to docs/ARCHITECTURE.md, or set `publish = false`"
                ));
            }
            continue;
        };
        for used in &member.uses {
            if graph.crates[used].is_member && !layer.uses.contains(&used.as_str()) {
                problems.push(format!("{name} must not depend on {used}"));
            }
        }
        let all = graph.all_below(name);
        for never in layer.never.iter().filter(|never| all.contains(**never)) {
            problems.push(format!(
                "{name} must not depend on {never}, not even through another crate: see \
                 `cargo tree -p {name} --all-features -e no-dev -i {never}`"
            ));
        }
    }
    problems
}

impl Graph {
    /// # Errors
    /// If the metadata has no resolved graph, or if the graph names an unknown package.
    fn from_metadata(metadata: &Metadata) -> Result<Self> {
        let mut graph = Self::default();
        for package in &metadata.packages {
            let entry = graph.crates.entry(package.name.to_string()).or_default();
            entry.is_member |= metadata.workspace_members.contains(&package.id);
            entry.is_published = package.publish.as_ref().is_none_or(|to| !to.is_empty());
        }
        let names: BTreeMap<_, _> =
            metadata.packages.iter().map(|package| (&package.id, &package.name)).collect();
        let name = |id| names.get(id).context("cargo metadata does not describe a package");
        let resolve = metadata.resolve.as_ref().context("cargo metadata resolved nothing")?;
        for node in &resolve.nodes {
            let entry = graph.crates.entry(name(&node.id)?.to_string()).or_default();
            for dependency in &node.deps {
                let mut kinds = dependency.dep_kinds.iter();
                if kinds.any(|info| info.kind != DependencyKind::Development) {
                    entry.uses.insert(name(&dependency.pkg)?.to_string());
                }
            }
        }
        Ok(graph)
    }

    /// Returns the names of all crates that `name` uses, directly or through other crates.
    fn all_below(&self, name: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut waiting = vec![name];
        while let Some(name) = waiting.pop() {
            for used in &self.crates[name].uses {
                if found.insert(used.as_str()) {
                    waiting.push(used);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a graph of published members, and of one external crate for every name that ends in
    /// `*`.
    fn graph(crates: &[(&str, &[&str])]) -> Graph {
        let mut graph = Graph::default();
        for (name, uses) in crates {
            let is_member = !name.ends_with('*');
            let uses = uses.iter().map(ToString::to_string).collect();
            let name = name.trim_end_matches('*').to_owned();
            graph.crates.insert(name, Crate { is_member, is_published: is_member, uses });
        }
        graph
    }

    #[test]
    fn table_uses_only_crates_further_down() {
        for (index, layer) in LAYERS.iter().enumerate() {
            for used in layer.uses {
                assert!(
                    LAYERS[..index].iter().any(|lower| lower.name == *used),
                    "{} uses {used}, which must come before it in the table",
                    layer.name
                );
            }
        }
    }

    #[test]
    fn edge_downwards_passes_and_edge_upwards_is_reported() {
        let down: &[(&str, &[&str])] =
            &[("windlass-informer", &["windlass-indexer"]), ("windlass-indexer", &[])];
        assert_eq!(problems(&graph(down)), [""; 0]);
        let up: &[(&str, &[&str])] =
            &[("windlass-informer", &[]), ("windlass-indexer", &["windlass-informer"])];
        let expected = ["windlass-indexer must not depend on windlass-informer"];
        assert_eq!(problems(&graph(up)), expected);
    }

    #[test]
    fn layer_must_not_use_an_unpublished_member() {
        let mut graph = graph(&[("windlass", &["windlass-bench"]), ("windlass-bench", &[])]);
        graph.crates.get_mut("windlass-bench").expect("just added").is_published = false;
        assert_eq!(problems(&graph), ["windlass must not depend on windlass-bench"]);
    }

    #[test]
    fn published_crate_that_is_not_listed_is_reported() {
        let problems = problems(&graph(&[("windlass-extra", &[])]));
        assert!(problems[0].starts_with("windlass-extra is published but not listed"));
    }

    #[test]
    fn queue_does_without_kubernetes_at_any_depth() {
        let problems = problems(&graph(&[
            ("windlass-workqueue", &["helper"]),
            ("helper*", &["k8s-openapi"]),
            ("k8s-openapi*", &[]),
        ]));
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with("windlass-workqueue must not depend on k8s-openapi"));
    }
}
