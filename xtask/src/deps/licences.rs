//! Whether every licence in the graph is one that we decided to accept.
//!
//! A crate's expression is evaluated as SPDX means it: of an `OR` we may choose, of an `AND` we must
//! accept all, and a licence `WITH` an exception is a different one from the licence alone. Development
//! dependencies count as well, because we run and distribute their output.

use spdx::{Expression, Licensee, ParseMode};

use super::Finding;
use super::graph::{Graph, Package};
use super::policy::LicensePolicy;

const CHECK: &str = "licence";

/// As SPDX says, but with the slash of old manifests for `OR` and with identifiers that were renamed
/// since: a crate's author may have fixed both long ago without our being able to use the new version.
const TOLERANT: ParseMode =
    ParseMode { allow_slash_as_or_operator: true, allow_deprecated: true, ..ParseMode::STRICT };

/// One finding per entry of the policy that is no licence, and per package that has no accepted one.
pub(super) fn check(graph: &Graph, policy: &LicensePolicy) -> Vec<Finding> {
    let mut findings = Vec::new();
    let allowed = accepted(&policy.allow, &mut findings);
    for (index, package) in graph.packages.iter().enumerate() {
        let mut accepted_here = allowed.clone();
        for exception in &policy.exceptions {
            if exception.spec.matches(&package.name, &package.version) {
                accepted_here.extend(accepted(&exception.allow, &mut findings));
            }
        }
        if let Err(problem) = judge(package, &accepted_here) {
            findings.push(Finding {
                check: CHECK,
                problem: format!(
                    "{package} {problem}; it comes by {}",
                    graph.way_from_members(index)
                ),
                remedy: remedy(package),
            });
        }
    }
    findings
}

/// The licences of an allow list; what is no SPDX identifier becomes a finding.
fn accepted(identifiers: &[String], findings: &mut Vec<Finding>) -> Vec<Licensee> {
    let mut licensees = Vec::new();
    for identifier in identifiers {
        match Licensee::parse(identifier) {
            Ok(licensee) => licensees.push(licensee),
            Err(error) => findings.push(Finding {
                check: CHECK,
                problem: format!("deny.toml allows `{identifier}`: {}", error.reason),
                remedy: "write the identifier as in the list on https://spdx.org/licenses"
                    .to_owned(),
            }),
        }
    }
    licensees
}

/// Says what is wrong with the licence of a package, if anything is.
fn judge(package: &Package, accepted: &[Licensee]) -> Result<(), String> {
    let text = package.license.as_deref().ok_or("declares no licence")?;
    let expression = Expression::parse_mode(text, TOLERANT).map_err(|error| {
        format!("declares `{text}`, which is no licence expression: {}", error.reason)
    })?;
    expression
        .evaluate_with_failures(|wanted| accepted.iter().any(|licensee| licensee.satisfies(wanted)))
        .map_err(|failed| {
            let refused: Vec<_> = failed.iter().map(|failure| failure.req.to_string()).collect();
            format!("is under `{text}`, of which {} is not accepted", refused.join(", "))
        })
}

fn remedy(package: &Package) -> String {
    if package.is_member {
        return "write `license.workspace = true` in its manifest".to_owned();
    }
    "use another crate; or, if the project decides to accept this licence, add it to [licenses] allow \
     (any crate) or exceptions (this crate) in deny.toml"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::graph::made_up::{external, member};
    use super::*;

    fn judged(license: &str) -> Result<(), String> {
        let allow = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"];
        let allow = allow.map(|text| Licensee::parse(text).expect("the test's list must be SPDX"));
        judge(&Package { license: Some(license.to_owned()), ..external("a", "1.0.0") }, &allow)
    }

    #[test]
    fn of_an_or_one_accepted_licence_is_enough() {
        judged("GPL-3.0-only OR MIT").expect("MIT may be chosen");
        judged("MIT/Apache-2.0").expect("the slash of old manifests is an OR");
        let problem = judged("GPL-3.0-only OR MPL-2.0").expect_err("neither is accepted");
        assert!(problem.contains("GPL-3.0-only, MPL-2.0 is not accepted"), "{problem}");
    }

    #[test]
    fn of_an_and_all_licences_must_be_accepted() {
        judged("(MIT OR Apache-2.0) AND Unicode-3.0").expect("both sides are accepted");
        let problem =
            judged("(MIT OR Apache-2.0) AND OpenSSL").expect_err("OpenSSL is not accepted");
        assert!(problem.contains("OpenSSL is not accepted"), "{problem}");
    }

    #[test]
    fn licence_with_an_exception_is_one_of_its_own() {
        judged("Apache-2.0 WITH LLVM-exception").expect("this pair is accepted");
        judged("MIT WITH LLVM-exception").expect_err("this pair is not");
    }

    #[test]
    fn missing_and_unreadable_licences_are_named() {
        let unlicensed = Package { license: None, ..external("a", "1.0.0") };
        assert_eq!(judge(&unlicensed, &[]), Err("declares no licence".to_owned()));
        let problem = judged("Apache 2").expect_err("this is no SPDX");
        assert!(
            problem.starts_with("declares `Apache 2`, which is no licence expression"),
            "{problem}"
        );
    }

    fn policy(allow: &[&str], exceptions: &str) -> LicensePolicy {
        let text = format!(
            "include-dev = true\nunused-allowed-license = 'allow'\nallow = {allow:?}\n{exceptions}"
        );
        toml::from_str(&text).expect("the test's policy must be understood")
    }

    #[test]
    fn finding_names_the_way_by_which_the_crate_came() {
        let copyleft =
            Package { license: Some("GPL-3.0-only".to_owned()), ..external("b", "2.0.0") };
        let graph = Graph::of([member("ours"), external("a", "1.0.0"), copyleft])
            .edge("ours", "a")
            .dev_edge("a", "b");
        let findings = check(&graph, &policy(&["Apache-2.0"], ""));
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].problem.ends_with("it comes by ours 0.1.0 → a 1.0.0 → b 2.0.0"));

        let exception = "exceptions = [{ crate = 'b@2.0.0', allow = ['GPL-3.0-only'] }]";
        assert_eq!(check(&graph, &policy(&["Apache-2.0"], exception)), []);
    }

    #[test]
    fn misspelt_identifier_in_the_policy_is_a_finding() {
        let findings = check(&Graph::default(), &policy(&["Apache2"], ""));
        assert!(findings[0].problem.starts_with("deny.toml allows `Apache2`"), "{findings:?}");
    }

    #[test]
    fn own_crate_without_a_licence_is_told_how_to_get_it() {
        let graph = Graph::of([Package { license: None, ..member("ours") }]);
        let findings = check(&graph, &policy(&["MIT"], ""));
        assert_eq!(findings[0].remedy, "write `license.workspace = true` in its manifest");
    }
}
