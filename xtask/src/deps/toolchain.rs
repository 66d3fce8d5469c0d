//! Whether the `rust-version` that we declare is true.
//!
//! Whoever builds us with that version must be able to build everything below us, so no package may ask
//! for a newer one; and every crate of ours declares the same, or it would not be a promise of the
//! workspace. That our own code compiles with it is shown by the CI, which runs on that version.

use super::Finding;
use super::graph::Graph;

const CHECK: &str = "rust-version";

/// This program inherits the version from the workspace, so it can speak for it.
const SPEAKER: &str = "xtask";

/// One finding per package that asks for a newer Rust than we promise to work with.
pub(super) fn check(graph: &Graph) -> Vec<Finding> {
    let promised = graph.member(SPEAKER).and_then(|(_, package)| package.rust_version.as_ref());
    let Some(promised) = promised else {
        return vec![Finding {
            check: CHECK,
            problem: format!("{SPEAKER} declares no Rust version, so the workspace promises none"),
            remedy: "write `rust-version.workspace = true` in xtask/Cargo.toml".to_owned(),
        }];
    };
    let mut findings = Vec::new();
    for (index, package) in graph.packages.iter().enumerate() {
        let asked = package.rust_version.as_ref();
        if package.is_member && asked != Some(promised) {
            findings.push(Finding {
                check: CHECK,
                problem: format!("{} does not declare the workspace's Rust version", package.name),
                remedy: "write `rust-version.workspace = true` in its manifest".to_owned(),
            });
        } else if let Some(asked) = asked.filter(|asked| *asked > promised) {
            findings.push(Finding {
                check: CHECK,
                problem: format!(
                    "{package} asks for Rust {asked}, and we promise {promised}; it comes by {}",
                    graph.way_from_members(index)
                ),
                remedy: format!(
                    "take an older version of it with `cargo update {}@{} --precise …`, or raise \
                     rust-version in Cargo.toml and say so in CHANGELOG.md",
                    package.name, package.version
                ),
            });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use cargo_metadata::semver::Version;

    use super::super::graph::Package;
    use super::super::graph::made_up::{external, member};
    use super::*;

    fn problems(packages: impl IntoIterator<Item = Package>) -> Vec<String> {
        check(&Graph::of(packages)).into_iter().map(|finding| finding.problem).collect()
    }

    fn asking_for(minor: u64) -> Package {
        Package { rust_version: Some(Version::new(1, minor, 0)), ..external("a", "1.0.0") }
    }

    #[test]
    fn older_equal_and_undeclared_versions_pass() {
        for package in [asking_for(60), asking_for(95), external("a", "1.0.0")] {
            assert_eq!(problems([member("xtask"), package]), [""; 0]);
        }
    }

    #[test]
    fn newer_version_is_a_finding() {
        let problems = problems([member("xtask"), asking_for(96)]);
        assert!(
            problems[0].starts_with("a 1.0.0 asks for Rust 1.96.0, and we promise 1.95.0"),
            "{problems:?}"
        );
    }

    #[test]
    fn own_crate_with_another_version_is_a_finding() {
        let other = Package { rust_version: None, ..member("windlass") };
        assert_eq!(
            problems([member("xtask"), other]),
            ["windlass does not declare the workspace's Rust version"]
        );
    }

    #[test]
    fn missing_promise_is_a_finding() {
        let silent = Package { rust_version: None, ..member("xtask") };
        assert!(problems([silent])[0].contains("declares no Rust version"));
    }
}
