//! Crates that must not occur, crates that must not occur twice, and versions left open.
//!
//! Two versions of one crate cost compile time and make types differ that look the same. What counts is
//! what normal and build dependencies lead to: two versions below dev-dependencies alone reach no user.
//! A version that is listed in `skip` does not count, and an entry that is no longer needed is a finding
//! too, so that the list only ever says what is true.

use std::collections::BTreeMap;

use cargo_metadata::DependencyKind;

use super::Finding;
use super::graph::{Declared, Graph, Package};
use super::policy::{Ban, BanPolicy, Skip};

/// All findings about bans, duplicates and wildcards.
pub(super) fn check(graph: &Graph, policy: &BanPolicy) -> Vec<Finding> {
    let duplicates = duplicates(graph);
    [
        policy.deny.iter().flat_map(|ban| occurrences(graph, ban)).collect(),
        unexpected_duplicates(graph, &duplicates, &policy.skip),
        stale_skips(graph, &duplicates, &policy.skip),
        wildcards(graph),
    ]
    .concat()
}

/// Where a banned crate occurs without a wrapper around it.
fn occurrences(graph: &Graph, ban: &Ban) -> Vec<Finding> {
    let is_banned = |package: &Package| ban.spec.matches(&package.name, &package.version);
    let is_wrapped = |index: usize| {
        !ban.wrappers.is_empty()
            && graph.dependents(index).all(|dependent| ban.wrappers.contains(&dependent.name))
    };
    let indexed = graph.packages.iter().enumerate();
    indexed
        .filter(|&(index, package)| is_banned(package) && !is_wrapped(index))
        .map(|(index, package)| Finding {
            check: "ban",
            problem: format!(
                "{package} is banned ({}); it comes by {}",
                ban.reason,
                graph.way_from_members(index)
            ),
            remedy:
                "remove the dependency, or the feature of the crate before it that brings it in"
                    .to_owned(),
        })
        .collect()
}

/// For every crate that occurs more than once among what counts, the positions of its versions.
fn duplicates(graph: &Graph) -> BTreeMap<&str, Vec<usize>> {
    let counts = graph.reached_without_dev(graph.members().map(|(index, _)| index));
    let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, package) in graph.packages.iter().enumerate() {
        if counts[index] && !is_semver_trick(graph, index) {
            by_name.entry(&package.name).or_default().push(index);
        }
    }
    by_name.retain(|_, versions| versions.len() > 1);
    by_name
}

/// Whether only another version of the same crate uses this one.
///
/// That is how an old version re-exports the types of the new one, which is the cure of duplicates and
/// not the illness.
fn is_semver_trick(graph: &Graph, index: usize) -> bool {
    let name = &graph.packages[index].name;
    let mut dependents = graph.dependents(index).peekable();
    dependents.peek().is_some() && dependents.all(|dependent| dependent.name == *name)
}

fn unexpected_duplicates(
    graph: &Graph,
    duplicates: &BTreeMap<&str, Vec<usize>>,
    skips: &[Skip],
) -> Vec<Finding> {
    let is_skipped = |&index: &usize| {
        let package = &graph.packages[index];
        skips.iter().any(|skip| skip.spec.matches(&package.name, &package.version))
    };
    let mut findings = Vec::new();
    for (name, versions) in duplicates {
        let counted: Vec<usize> =
            versions.iter().copied().filter(|index| !is_skipped(index)).collect();
        if counted.len() < 2 {
            continue;
        }
        let ways: Vec<_> = counted
            .iter()
            .map(|&index| format!("\n      {}", graph.way_from_members(index)))
            .collect();
        let oldest = &graph.packages[counted[0]];
        findings.push(Finding {
            check: "duplicate",
            problem: format!("{} versions of {name} are built:{}", counted.len(), ways.concat()),
            remedy: format!(
                "update the dependency that asks for the older one; if there is no such update yet, add \
                 `{{ crate = \"{}@{}\", reason = \"…\" }}` to [bans] skip in deny.toml",
                oldest.name, oldest.version
            ),
        });
    }
    findings
}

/// Entries that no duplicate needs any more.
fn stale_skips(
    graph: &Graph,
    duplicates: &BTreeMap<&str, Vec<usize>>,
    skips: &[Skip],
) -> Vec<Finding> {
    let is_needed = |skip: &Skip| {
        duplicates.values().flatten().any(|&index| {
            let package = &graph.packages[index];
            skip.spec.matches(&package.name, &package.version)
        })
    };
    let stale = skips.iter().filter(|skip| !is_needed(skip));
    stale
        .map(|skip| Finding {
            check: "duplicate",
            problem: format!(
                "deny.toml skips {} {}, of which there is no duplicate",
                skip.spec.name, skip.spec.versions
            ),
            remedy: "remove the entry from [bans] skip in deny.toml".to_owned(),
        })
        .collect()
}

/// Dependencies of ours that would take any version.
///
/// A path without a version is fine where it is never published: in a private crate, and for
/// dev-dependencies, which cargo leaves out when it publishes.
fn wildcards(graph: &Graph) -> Vec<Finding> {
    let is_open = |package: &Package, declared: &Declared| {
        let unpublished = !package.is_published || declared.kind == DependencyKind::Development;
        declared.is_wildcard && !(declared.is_path && unpublished)
    };
    let mut findings = Vec::new();
    for (_, package) in graph.members() {
        for declared in package.declared.iter().filter(|declared| is_open(package, declared)) {
            findings.push(Finding {
                check: "wildcard",
                problem: format!("{} takes any version of {}", package.name, declared.name),
                remedy: format!(
                    "name the version in [workspace.dependencies] and write `{}.workspace = true`",
                    declared.name
                ),
            });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::graph::made_up::{external, member};
    use super::*;

    fn policy(lists: &str) -> BanPolicy {
        let levels = "multiple-versions = 'deny'\nmultiple-versions-include-dev = false\n\
                      wildcards = 'deny'\nallow-wildcard-paths = true\n";
        toml::from_str(&format!("{levels}{lists}")).expect("the test's policy must be understood")
    }

    fn problems(graph: &Graph, lists: &str) -> Vec<String> {
        check(graph, &policy(lists)).into_iter().map(|finding| finding.problem).collect()
    }

    /// Two versions of `twice`, one of them behind another crate.
    fn twice() -> Graph {
        let packages =
            [external("a", "1.0.0"), external("twice", "1.0.0"), external("twice", "2.0.0")];
        Graph::of([member("ours")].into_iter().chain(packages))
            .edge("ours", "a")
            .edge("a", "twice@1.0.0")
    }

    #[test]
    fn two_versions_that_reach_users_are_a_finding_with_both_ways() {
        let problems = problems(&twice().edge("ours", "twice@2.0.0"), "");
        assert_eq!(
            problems,
            ["2 versions of twice are built:\
              \n      ours 0.1.0 → a 1.0.0 → twice 1.0.0\
              \n      ours 0.1.0 → twice 2.0.0"]
        );
    }

    #[test]
    fn version_below_dev_dependencies_alone_does_not_count() {
        assert_eq!(problems(&twice().dev_edge("ours", "twice@2.0.0"), ""), [""; 0]);
    }

    #[test]
    fn skipped_version_does_not_count() {
        let skip = "skip = [{ crate = 'twice@1.0.0', reason = 'a test' }]";
        assert_eq!(problems(&twice().edge("ours", "twice@2.0.0"), skip), [""; 0]);
    }

    #[test]
    fn skip_that_is_no_longer_needed_is_a_finding() {
        let skip = "skip = [{ crate = 'a', reason = 'a test' }]";
        assert_eq!(
            problems(&twice(), skip),
            ["deny.toml skips a *, of which there is no duplicate"]
        );
    }

    #[test]
    fn old_version_that_only_re_exports_the_new_one_is_no_duplicate() {
        let graph = twice().edge("twice@1.0.0", "twice@2.0.0");
        assert_eq!(problems(&graph, ""), [""; 0]);
    }

    #[test]
    fn banned_crate_is_a_finding_with_the_reason() {
        let ban = "deny = [{ crate = 'twice:<2', reason = 'once is enough' }]";
        assert_eq!(
            problems(&twice(), ban),
            [
                "twice 1.0.0 is banned (once is enough); it comes by ours 0.1.0 → a 1.0.0 → twice 1.0.0"
            ]
        );
    }

    #[test]
    fn banned_crate_is_fine_below_its_wrappers_only() {
        let ban = "deny = [{ crate = 'twice@1.0.0', wrappers = ['a'], reason = 'a test' }]";
        assert_eq!(problems(&twice(), ban), [""; 0]);
        assert_eq!(problems(&twice().edge("ours", "twice@1.0.0"), ban).len(), 1);
    }

    fn with_declared(kind: DependencyKind, is_path: bool, is_published: bool) -> Graph {
        let declared = Declared { name: "a".to_owned(), kind, is_wildcard: true, is_path };
        Graph::of([Package { declared: vec![declared], is_published, ..member("ours") }])
    }

    #[test]
    fn dependency_on_any_version_is_a_finding() {
        let graph = with_declared(DependencyKind::Normal, false, false);
        assert_eq!(problems(&graph, ""), ["ours takes any version of a"]);
        let graph = with_declared(DependencyKind::Normal, true, true);
        assert_eq!(problems(&graph, ""), ["ours takes any version of a"]);
    }

    #[test]
    fn path_without_a_version_is_fine_where_it_is_not_published() {
        assert_eq!(problems(&with_declared(DependencyKind::Normal, true, false), ""), [""; 0]);
        assert_eq!(problems(&with_declared(DependencyKind::Development, true, true), ""), [""; 0]);
    }
}
