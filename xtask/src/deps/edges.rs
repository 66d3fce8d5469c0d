//! The edges between our own crates: which may know which, also of those that are still to come.
//!
//! A crate may use those that [`LAYERS`] names for it and no others, in what it ships: a lower crate that
//! could see a higher one would soon need it. Dev-dependencies are free, within what [`super::publish`]
//! can put in an order. Members that are not published (benchmarks, examples, whole-system tests, this
//! program) stand outside: they may use any layer, and no layer may use them.

use super::Finding;
use super::graph::Graph;

const CHECK: &str = "edge";

/// One crate of ours and what it may know.
struct Layer {
    name: &'static str,
    /// Crates of ours that it may depend on.
    uses: &'static [&'static str],
    /// Crates of others that must not be anywhere below it.
    never: &'static [&'static str],
}

/// From the bottom up. A new crate is entered here and in docs/ARCHITECTURE.md together.
const LAYERS: &[Layer] = &[
    Layer { name: "windlass-workqueue", uses: &[], never: KUBERNETES },
    Layer { name: "windlass-indexer", uses: &[], never: CLIENT },
    Layer { name: "windlass-informer", uses: &["windlass-indexer"], never: RUNTIME },
    Layer {
        name: "windlass-reconciler",
        uses: &["windlass-informer", "windlass-indexer", "windlass-workqueue"],
        never: RUNTIME,
    },
    Layer {
        name: "windlass-manager",
        uses: &[
            "windlass-reconciler",
            "windlass-informer",
            "windlass-indexer",
            "windlass-workqueue",
        ],
        never: RUNTIME,
    },
    Layer {
        name: "windlass",
        uses: &[
            "windlass-manager",
            "windlass-reconciler",
            "windlass-informer",
            "windlass-indexer",
            "windlass-workqueue",
        ],
        never: RUNTIME,
    },
    Layer { name: "windlass-apiserver", uses: &[], never: RUNTIME },
    Layer { name: "windlass-testkit", uses: &["windlass-apiserver"], never: RUNTIME },
    Layer { name: "windlass-workloads", uses: &["windlass"], never: RUNTIME },
    Layer {
        name: "windlass-sim",
        uses: &["windlass-testkit", "windlass", "windlass-workloads"],
        never: RUNTIME,
    },
];

/// The runtime that Windlass replaces: with it below us, users would carry both.
const RUNTIME: &[&str] = &["kube-runtime"];

/// The store knows the types of Kubernetes, but never asks a server for anything.
const CLIENT: &[&str] = &["kube-runtime", "kube-client"];

/// The queue is for everyone, also where there is no Kubernetes.
const KUBERNETES: &[&str] =
    &["kube-runtime", "kube-client", "kube-core", "kube-derive", "kube", "k8s-openapi"];

/// One finding per edge that is not in the table, and per published crate that the table lacks.
pub(super) fn check(graph: &Graph) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, package) in graph.members() {
        match LAYERS.iter().find(|layer| layer.name == package.name) {
            Some(layer) => {
                findings.extend(foreign_edges(graph, index, layer));
                findings.extend(forbidden_crates(graph, index, layer));
            }
            None if package.is_published => findings.push(Finding {
                check: CHECK,
                problem: format!(
                    "{} is published, but has no place among the crates",
                    package.name
                ),
                remedy:
                    "give it one in LAYERS in xtask/src/deps/edges.rs and in docs/ARCHITECTURE.md, \
                         or write `publish = false` in its manifest"
                        .to_owned(),
            }),
            None => {}
        }
    }
    findings
}

/// Edges from a layer to crates of ours that it may not know.
fn foreign_edges(graph: &Graph, from: usize, layer: &Layer) -> Vec<Finding> {
    let edges = graph.packages[from].edges.iter().filter(|edge| edge.is_more_than_dev());
    edges
        .map(|edge| &graph.packages[edge.to])
        .filter(|package| package.is_member && !layer.uses.contains(&package.name.as_str()))
        .map(|package| Finding {
            check: CHECK,
            problem: format!("{} depends on {}, which it may not know", layer.name, package.name),
            remedy: format!(
                "move the shared code down to a crate that both may use; {} may use {}",
                layer.name,
                if layer.uses.is_empty() {
                    "no other crate of ours".to_owned()
                } else {
                    layer.uses.join(", ")
                }
            ),
        })
        .collect()
}

/// Crates of others anywhere below a layer that must not be there.
///
/// Cargo resolves the features of the whole workspace at once, so that a feature which a benchmark
/// switches on shows here as well; the way in the finding tells who it was.
fn forbidden_crates(graph: &Graph, from: usize, layer: &Layer) -> Vec<Finding> {
    let reached = graph.reached_without_dev([from]);
    let indexed = graph.packages.iter().enumerate();
    indexed
        .filter(|&(index, package)| reached[index] && layer.never.contains(&package.name.as_str()))
        .map(|(index, package)| Finding {
            check: CHECK,
            problem: format!(
                "{} must stand without {}, but has it by {}",
                layer.name,
                package.name,
                graph.way_to(&[from], index)
            ),
            remedy:
                "remove the dependency, or the feature that brings it in; for a test, make it a \
                     dev-dependency"
                    .to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::graph::Package;
    use super::super::graph::made_up::{external, member};
    use super::*;

    fn problems(graph: &Graph) -> Vec<String> {
        check(graph).into_iter().map(|finding| finding.problem).collect()
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
    fn table_keeps_the_runtime_out_everywhere() {
        assert!(LAYERS.iter().all(|layer| layer.never.contains(&"kube-runtime")));
    }

    #[test]
    fn allowed_edges_pass() {
        let graph = Graph::of([member("windlass-informer"), member("windlass-indexer")])
            .edge("windlass-informer", "windlass-indexer");
        assert_eq!(problems(&graph), [""; 0]);
    }

    #[test]
    fn edge_upwards_is_a_finding() {
        let graph = Graph::of([member("windlass-workqueue"), member("windlass-indexer")])
            .edge("windlass-workqueue", "windlass-indexer");
        assert_eq!(
            problems(&graph),
            ["windlass-workqueue depends on windlass-indexer, which it may not know"]
        );
    }

    #[test]
    fn dev_dependency_on_any_crate_of_ours_passes() {
        let graph = Graph::of([member("windlass-informer"), member("windlass-testkit")])
            .dev_edge("windlass-informer", "windlass-testkit");
        assert_eq!(problems(&graph), [""; 0]);
    }

    #[test]
    fn layer_may_not_use_an_unpublished_member() {
        let bench = Package { is_published: false, ..member("windlass-bench") };
        let graph = Graph::of([member("windlass"), bench]).edge("windlass", "windlass-bench");
        assert_eq!(problems(&graph), ["windlass depends on windlass-bench, which it may not know"]);
    }

    #[test]
    fn published_crate_without_a_place_is_a_finding() {
        assert_eq!(
            problems(&Graph::of([member("windlass-extra")])),
            ["windlass-extra is published, but has no place among the crates"]
        );
    }

    #[test]
    fn queue_stands_without_kubernetes_at_any_depth() {
        let graph = Graph::of([
            member("windlass-workqueue"),
            external("helper", "1.0.0"),
            external("k8s-openapi", "0.29.0"),
        ])
        .edge("windlass-workqueue", "helper");
        assert_eq!(problems(&graph), [""; 0]);
        assert_eq!(
            problems(&graph.edge("helper", "k8s-openapi")),
            ["windlass-workqueue must stand without k8s-openapi, but has it by \
              windlass-workqueue 0.1.0 → helper 1.0.0 → k8s-openapi 0.29.0"]
        );
    }

    #[test]
    fn replaced_runtime_is_a_finding_except_for_tests() {
        let graph = || Graph::of([member("windlass"), external("kube-runtime", "5.0.0")]);
        assert_eq!(problems(&graph().dev_edge("windlass", "kube-runtime")), [""; 0]);
        let problems = problems(&graph().edge("windlass", "kube-runtime"));
        assert!(
            problems[0].starts_with("windlass must stand without kube-runtime"),
            "{problems:?}"
        );
    }
}
