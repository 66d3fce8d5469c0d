//! Whether our crates can be published one after the other.
//!
//! `cargo publish` wants every dependency that has a version to be in the registry already, and that
//! includes dev-dependencies. So a dev-dependency upwards (an example in `windlass-workqueue` that is
//! written against the facade) closes a circle that nobody notices before the first release, unless it is
//! given by path alone: cargo leaves those out of what it publishes.

use cargo_metadata::DependencyKind;

use super::Finding;
use super::graph::{Declared, Graph};

const CHECK: &str = "publish";

/// One finding per dependency that has to be in the registry before a crate and cannot be.
pub(super) fn check(graph: &Graph) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (from, package) in graph.members().filter(|(_, package)| package.is_published) {
        for declared in package.declared.iter().filter(|declared| is_wanted_first(declared)) {
            let Some((to, dependency)) = graph.member(&declared.name) else { continue };
            let problem = if !dependency.is_published {
                format!("{} wants {}, which is not published", package.name, dependency.name)
            } else if graph.reached_without_dev([to])[from] {
                format!(
                    "{} wants {} to be published first, but that in turn wants {}",
                    package.name, dependency.name, package.name
                )
            } else {
                continue;
            };
            findings.push(Finding { check: CHECK, problem, remedy: remedy(declared) });
        }
    }
    findings
}

/// Whether the dependency has to be in the registry before the crate that declares it.
fn is_wanted_first(declared: &Declared) -> bool {
    let left_out = declared.kind == DependencyKind::Development && declared.is_wildcard;
    declared.is_path && !left_out
}

fn remedy(declared: &Declared) -> String {
    match declared.kind {
        DependencyKind::Development => format!(
            "give the dev-dependency by path alone, `{} = {{ path = \"…\" }}`: cargo leaves it out when \
             it publishes",
            declared.name
        ),
        _ => format!("publish {} too, or do without it", declared.name),
    }
}

#[cfg(test)]
mod tests {
    use super::super::graph::Package;
    use super::super::graph::made_up::member;
    use super::*;

    /// The facade uses the queue, and the queue's examples use the facade.
    fn circle() -> Graph {
        Graph::of([member("queue"), member("facade")])
            .edge("facade", "queue")
            .dev_edge("queue", "facade")
    }

    #[test]
    fn circle_through_a_versioned_dev_dependency_is_a_finding() {
        let findings = check(&circle());
        assert_eq!(findings.len(), 1, "{findings:?}");
        let problem = "queue wants facade to be published first, but that in turn wants queue";
        assert_eq!(findings[0].problem, problem);
        assert!(findings[0].remedy.contains("by path alone"), "{findings:?}");
    }

    #[test]
    fn dev_dependency_by_path_alone_closes_no_circle() {
        let mut graph = circle();
        graph.packages[0].declared[0].is_wildcard = true;
        assert_eq!(check(&graph), []);
    }

    #[test]
    fn published_crate_on_an_unpublished_one_is_a_finding() {
        let tests = Package { is_published: false, ..member("tests") };
        let graph = Graph::of([member("queue"), tests]).edge("queue", "tests");
        let findings = check(&graph);
        assert_eq!(findings[0].problem, "queue wants tests, which is not published");
    }

    #[test]
    fn unpublished_crate_may_use_anything() {
        let bench = Package { is_published: false, ..member("bench") };
        assert_eq!(check(&Graph::of([member("queue"), bench]).edge("bench", "queue")), []);
    }
}
