//! Whether every package comes from a place that we decided to trust.
//!
//! A path dependency is fine inside the workspace only: outside of it, nobody else could build us.

use super::Finding;
use super::graph::{Graph, Package};
use super::policy::SourcePolicy;

/// One finding per package from anywhere else.
pub(super) fn check(graph: &Graph, policy: &SourcePolicy) -> Vec<Finding> {
    let finding = |(index, package): (usize, &Package)| {
        judge(package, policy).err().map(|problem| Finding {
            check: "source",
            problem: format!("{package} {problem}; it comes by {}", graph.way_from_members(index)),
            remedy:
                "use a release from crates.io; if that cannot be, add the place to [sources] in \
                     deny.toml with a comment that says until when"
                    .to_owned(),
        })
    };
    graph.packages.iter().enumerate().filter_map(finding).collect()
}

/// Says what is wrong with where a package comes from, if anything is.
fn judge(package: &Package, policy: &SourcePolicy) -> Result<(), String> {
    let Some(source) = &package.source else {
        let outside = "is a folder outside of the workspace";
        return if package.is_member { Ok(()) } else { Err(outside.to_owned()) };
    };
    let (kind, url, allowed) = if let Some(url) = source.strip_prefix("git+") {
        // `git+https://host/repository?branch=main#commit`
        let repository = url.split(['?', '#']).next().unwrap_or(url);
        ("git repository", repository, &policy.allow_git)
    } else {
        let url = source.strip_prefix("registry+").unwrap_or(source);
        ("registry", url, &policy.allow_registry)
    };
    let normal = |url: &str| url.trim_end_matches('/').trim_end_matches(".git").to_owned();
    if allowed.iter().any(|allowed| normal(allowed) == normal(url)) {
        return Ok(());
    }
    Err(format!("is from the {kind} {url}, which is not in the allow list"))
}

#[cfg(test)]
mod tests {
    use super::super::graph::made_up::{external, member};
    use super::*;

    fn judged(package: Package) -> Option<String> {
        let policy: SourcePolicy = toml::from_str(
            "unknown-registry = 'deny'\nunknown-git = 'deny'\nallow-git = ['https://example.com/fork']\n\
             allow-registry = ['https://github.com/rust-lang/crates.io-index']",
        )
        .expect("the test's policy must be understood");
        let findings = check(&Graph::of([package]), &policy);
        findings.into_iter().next().map(|finding| finding.problem)
    }

    fn from(source: &str) -> Package {
        Package { source: Some(source.to_owned()), ..external("a", "1.0.0") }
    }

    #[test]
    fn our_crates_and_allowed_places_pass() {
        assert_eq!(judged(member("ours")), None);
        assert_eq!(judged(external("a", "1.0.0")), None);
        assert_eq!(judged(from("git+https://example.com/fork.git?rev=abc#abc")), None);
    }

    #[test]
    fn other_registry_is_a_finding() {
        let problem = judged(from("sparse+https://example.com/index/")).expect("it is not allowed");
        assert!(
            problem.contains("is from the registry sparse+https://example.com/index/"),
            "{problem}"
        );
    }

    #[test]
    fn other_git_repository_is_a_finding() {
        let problem = judged(from("git+https://example.com/other?branch=main#abc"));
        let problem = problem.expect("it is not allowed");
        assert!(
            problem.contains("is from the git repository https://example.com/other,"),
            "{problem}"
        );
    }

    #[test]
    fn folder_outside_of_the_workspace_is_a_finding() {
        let problem = judged(Package { source: None, ..external("a", "1.0.0") });
        assert!(problem.expect("it is not allowed").contains("a folder outside of the workspace"));
    }
}
