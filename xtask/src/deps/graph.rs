//! The dependency graph, reduced to what the checks look at.
//!
//! Packages are kept in the order of name and version, so that findings come in the same order on every
//! machine. Edges carry the kinds of dependency that they stand for: an edge can be a normal and a
//! dev-dependency at once.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use anyhow::{Context, Result};
use cargo_metadata::semver::Version;
use cargo_metadata::{DependencyKind, Metadata};

/// All packages that the workspace builds, on any of the chosen targets.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// In the order of name, then version.
    pub(super) packages: Vec<Package>,
}

/// One version of one crate.
#[derive(Clone, Debug)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: Version,
    /// The licence expression as declared.
    pub(super) license: Option<String>,
    /// Where cargo got it from; `None` for a folder on this disk.
    pub(super) source: Option<String>,
    pub(super) rust_version: Option<Version>,
    /// Whether it is one of ours.
    pub(super) is_member: bool,
    /// Whether its manifest allows publishing.
    pub(super) is_published: bool,
    /// The resolved dependencies.
    pub(super) edges: Vec<Edge>,
    /// The dependencies as the manifest writes them.
    pub(super) declared: Vec<Declared>,
}

/// A resolved dependency.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    /// Position of the dependency in [`Graph::packages`].
    pub(super) to: usize,
    pub(super) kinds: Vec<DependencyKind>,
}

/// A dependency as written in a manifest.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    pub(super) name: String,
    pub(super) kind: DependencyKind,
    /// Whether any version will do: `*`, or a path without a version.
    pub(super) is_wildcard: bool,
    /// Whether it points to a folder.
    pub(super) is_path: bool,
}

impl Graph {
    /// Reduces the output of `cargo metadata`.
    ///
    /// # Errors
    /// If the output lacks the resolved graph, or if that names a package that it does not describe.
    pub(super) fn from_metadata(metadata: &Metadata) -> Result<Self> {
        let resolve = metadata.resolve.as_ref().context("cargo metadata gave no resolved graph")?;
        let mut described: Vec<_> = metadata.packages.iter().collect();
        described.sort_by(|a, b| (&*a.name, &a.version).cmp(&(&*b.name, &b.version)));
        let position: BTreeMap<_, _> =
            described.iter().enumerate().map(|(index, package)| (&package.id, index)).collect();

        let mut packages: Vec<Package> = described
            .iter()
            .map(|package| Package {
                is_member: metadata.workspace_members.contains(&package.id),
                ..Package::from(*package)
            })
            .collect();
        for node in &resolve.nodes {
            let from = *position.get(&node.id).context("a resolved package is not described")?;
            for dependency in &node.deps {
                let to = *position.get(&dependency.pkg).context("a dependency is not described")?;
                let kinds = dependency.dep_kinds.iter().map(|info| info.kind).collect();
                packages[from].edges.push(Edge { to, kinds });
            }
        }
        Ok(Self { packages })
    }

    /// The packages of the workspace itself.
    pub(super) fn members(&self) -> impl Iterator<Item = (usize, &Package)> {
        self.packages.iter().enumerate().filter(|(_, package)| package.is_member)
    }

    /// The member of this name.
    pub(super) fn member(&self, name: &str) -> Option<(usize, &Package)> {
        self.members().find(|(_, package)| package.name == name)
    }

    /// The packages that depend directly on the one at `index`, by any kind of edge.
    pub(super) fn dependents(&self, index: usize) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(move |package| package.edges.iter().any(|edge| edge.to == index))
    }

    /// For each package, whether normal and build dependencies lead to it from one of `roots`.
    ///
    /// The roots themselves count as reached.
    pub(super) fn reached_without_dev(&self, roots: impl IntoIterator<Item = usize>) -> Vec<bool> {
        let search = self.search(roots, Edge::is_more_than_dev);
        search.into_iter().map(|came_from| came_from.is_some()).collect()
    }

    /// The shortest way from a root to `target`, shown as `a 1.0.0 → b 2.0.0`.
    ///
    /// Prefers a way without dev-dependencies, because that is the one that reaches users.
    pub(super) fn way_to(&self, roots: &[usize], target: usize) -> String {
        let strict = self.search(roots.iter().copied(), Edge::is_more_than_dev);
        let came_from = match strict[target] {
            Some(_) => strict,
            None => self.search(roots.iter().copied(), |_| true),
        };
        let mut way = vec![self.packages[target].to_string()];
        let mut at = target;
        while let Some(previous) = came_from[at].filter(|&previous| previous != at) {
            way.push(self.packages[previous].to_string());
            at = previous;
        }
        way.reverse();
        way.join(" → ")
    }

    /// The shortest way from any member to `target`.
    pub(super) fn way_from_members(&self, target: usize) -> String {
        let roots: Vec<_> = self.members().map(|(index, _)| index).collect();
        self.way_to(&roots, target)
    }

    /// Breadth-first; for each package that was reached, the one it was reached from (a root: itself).
    fn search(
        &self,
        roots: impl IntoIterator<Item = usize>,
        follow: impl Fn(&Edge) -> bool,
    ) -> Vec<Option<usize>> {
        let mut came_from = vec![None; self.packages.len()];
        let mut waiting = VecDeque::new();
        for root in roots {
            came_from[root] = Some(root);
            waiting.push_back(root);
        }
        while let Some(from) = waiting.pop_front() {
            for edge in self.packages[from].edges.iter().filter(|edge| follow(edge)) {
                if came_from[edge.to].is_none() {
                    came_from[edge.to] = Some(from);
                    waiting.push_back(edge.to);
                }
            }
        }
        came_from
    }
}

impl Edge {
    /// Whether the edge is more than a dev-dependency, so that it reaches the users of a crate.
    pub(super) fn is_more_than_dev(&self) -> bool {
        self.kinds.iter().any(|kind| *kind != DependencyKind::Development)
    }
}

impl From<&cargo_metadata::Package> for Package {
    fn from(package: &cargo_metadata::Package) -> Self {
        let declared = package.dependencies.iter().map(|dependency| Declared {
            name: dependency.name.clone(),
            kind: dependency.kind,
            is_wildcard: dependency.req.comparators.is_empty(),
            is_path: dependency.path.is_some(),
        });
        Self {
            name: package.name.to_string(),
            version: package.version.clone(),
            license: package.license.clone(),
            source: package.source.as_ref().map(|source| source.repr.clone()),
            rust_version: package.rust_version.clone(),
            is_member: false,
            is_published: package.publish.as_ref().is_none_or(|registries| !registries.is_empty()),
            edges: Vec::new(),
            declared: declared.collect(),
        }
    }
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// Made-up graphs for the tests of the checks.
#[cfg(test)]
pub(super) mod made_up {
    use super::*;

    /// A package of ours: published, licensed, on the workspace's Rust version.
    pub(in super::super) fn member(name: &str) -> Package {
        Package {
            source: None,
            is_member: true,
            license: Some("Apache-2.0".to_owned()),
            rust_version: Some(Version::new(1, 95, 0)),
            ..external(name, "0.1.0")
        }
    }

    /// A package from crates.io with nothing wrong about it.
    pub(in super::super) fn external(name: &str, version: &str) -> Package {
        Package {
            name: name.to_owned(),
            version: version.parse().expect("a test's version must be one"),
            license: Some("MIT OR Apache-2.0".to_owned()),
            source: Some("registry+https://github.com/rust-lang/crates.io-index".to_owned()),
            rust_version: None,
            is_member: false,
            is_published: true,
            edges: Vec::new(),
            declared: Vec::new(),
        }
    }

    impl Graph {
        /// A graph of these packages, still without edges.
        pub(in super::super) fn of(packages: impl IntoIterator<Item = Package>) -> Self {
            Self { packages: packages.into_iter().collect() }
        }

        /// Adds an edge between packages given by `name` or `name@version`.
        #[must_use]
        pub(in super::super) fn edge(self, from: &str, to: &str) -> Self {
            self.edge_of_kind(from, to, DependencyKind::Normal)
        }

        /// As [`Self::edge`], as a dev-dependency.
        #[must_use]
        pub(in super::super) fn dev_edge(self, from: &str, to: &str) -> Self {
            self.edge_of_kind(from, to, DependencyKind::Development)
        }

        fn edge_of_kind(mut self, from: &str, to: &str, kind: DependencyKind) -> Self {
            let (from, to) = (self.position(from), self.position(to));
            let is_path = self.packages[to].source.is_none();
            let name = self.packages[to].name.clone();
            self.packages[from].edges.push(Edge { to, kinds: vec![kind] });
            self.packages[from].declared.push(Declared { name, kind, is_wildcard: false, is_path });
            self
        }

        fn position(&self, wanted: &str) -> usize {
            let is_wanted =
                |p: &Package| p.name == wanted || format!("{}@{}", p.name, p.version) == wanted;
            self.packages.iter().position(is_wanted).expect("a test's edge must name its packages")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::made_up::{external, member};
    use super::*;

    fn diamond() -> Graph {
        Graph::of([
            member("ours"),
            external("a", "1.0.0"),
            external("b", "1.0.0"),
            external("c", "1.0.0"),
        ])
        .edge("ours", "a")
        .edge("a", "c")
        .dev_edge("ours", "b")
        .dev_edge("ours", "c")
    }

    #[test]
    fn packages_behind_dev_dependencies_are_not_reached_without_them() {
        assert_eq!(diamond().reached_without_dev([0]), [true, true, false, true]);
    }

    #[test]
    fn way_prefers_what_reaches_users() {
        assert_eq!(diamond().way_from_members(3), "ours 0.1.0 → a 1.0.0 → c 1.0.0");
        assert_eq!(diamond().way_from_members(2), "ours 0.1.0 → b 1.0.0");
    }

    #[test]
    fn way_to_a_member_is_the_member_itself() {
        assert_eq!(diamond().way_from_members(0), "ours 0.1.0");
    }
}
