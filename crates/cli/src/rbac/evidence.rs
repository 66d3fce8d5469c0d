//! What the tests noted, as the rights that the deployed operator needs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::access::{Access, Scope, Verb};
use super::manifests::Operator;

/// Each right that is needed, and what needs it.
pub(super) type Needs = BTreeMap<Access, String>;

/// A line of a file; `Need` in `windlass-informer` writes it.
#[derive(Clone, Debug, Deserialize)]
struct Noted {
    verb: String,
    group: String,
    plural: String,
    subresource: Option<String>,
    place: Place,
    name: Option<String>,
    reason: String,
    when: Option<String>,
    test: Option<String>,
    package: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Place {
    Cluster,
    Watched,
    Own,
}

/// Reads all files of a folder, and keeps what tests of the package in `here` noted.
///
/// # Errors
/// If a file cannot be read, or comes from another version of Windlass.
pub(super) fn needs(folder: &Path, here: &Path, operator: &Operator) -> Result<Needs> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).context("the folder of the evidence cannot be read")? {
        paths.push(entry?.path());
    }
    paths.sort();
    let mut noted = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path)
            .with_context(|| format!("cannot read the evidence in {}", path.display()))?;
        for line in text.lines() {
            let line: Noted = serde_json::from_str(line).context(
                "the evidence cannot be read: is the operator built with another version of \
                 Windlass?",
            )?;
            if line.package.as_ref().is_none_or(|package| is_same(Path::new(package), here)) {
                noted.push(line);
            }
        }
    }
    Ok(needs_of(&noted, operator))
}

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real(one) == real(other)
}

fn needs_of(noted: &[Noted], operator: &Operator) -> Needs {
    let namespaced: BTreeSet<(&str, &str)> = noted
        .iter()
        .filter(|noted| noted.place == Place::Watched)
        .map(|noted| (noted.group.as_str(), noted.plural.as_str()))
        .collect();
    let mut needed: Vec<&Noted> =
        noted.iter().filter(|noted| operator.has(noted.when.as_deref())).collect();
    // Of several reasons the first is shown: those that name a controller come first.
    needed.sort_by_key(|noted| noted.reason.starts_with("the operator"));
    let mut needs = Needs::new();
    for one in needed {
        // Everybody may ask for their own rights.
        if one.group == "authorization.k8s.io" && one.plural.starts_with("selfsubject") {
            continue;
        }
        let mut reason = one.reason.clone();
        if let Some(test) = &one.test
            && reason.contains('`')
        {
            reason = format!("{reason} (in test {test})");
        }
        // A list of all namespaces does not say that its kind has namespaces; other requests do.
        let is_watched =
            one.place == Place::Watched || namespaced.contains(&(&*one.group, &*one.plural));
        let scopes = match one.place {
            Place::Own => vec![Scope::Namespace(operator.namespace.clone())],
            _ if is_watched => operator.watched(),
            _ => vec![Scope::Cluster],
        };
        let resource = match &one.subresource {
            Some(subresource) => format!("{}/{subresource}", one.plural),
            None => one.plural.clone(),
        };
        for scope in scopes {
            let access = Access {
                scope,
                group: one.group.clone(),
                resource: resource.clone(),
                name: one.name.clone(),
                verb: Verb(one.verb.clone()),
            };
            if let Some(verb) = goes_with(one) {
                let other = Access { verb: Verb(verb.to_owned()), ..access.clone() };
                needs.entry(other).or_insert_with(|| reason.clone());
            }
            needs.entry(access).or_insert_with(|| reason.clone());
        }
    }
    // Where all objects are needed, a single one need not be named.
    let unnamed = |access: &Access| Access { name: None, ..access.clone() };
    let narrower: Vec<_> = needs
        .keys()
        .filter(|access| access.name.is_some() && needs.contains_key(&unnamed(access)))
        .cloned()
        .collect();
    for access in narrower {
        needs.remove(&access);
    }
    needs
}

/// The verb that Windlass uses in other cases than the one that was seen.
fn goes_with(noted: &Noted) -> Option<&'static str> {
    match (&*noted.verb, &*noted.group, &*noted.plural) {
        // A server that cannot stream the first list is asked for it.
        ("watch", ..) => Some("list"),
        // An event that repeats is patched.
        ("create", "events.k8s.io", "events") => Some("patch"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(line: &str) -> Noted {
        serde_json::from_str(line).expect("a line")
    }

    fn shown(noted: &[Noted], operator: &Operator) -> Vec<String> {
        needs_of(noted, operator).keys().map(ToString::to_string).collect()
    }

    fn operator(arguments: &[&str]) -> Operator {
        let arguments = arguments.iter().map(|one| (*one).to_owned()).collect();
        Operator { namespace: "shop".to_owned(), arguments, ..Operator::default() }
    }

    const LEASE: &str = r#"{"verb":"get","group":"coordination.k8s.io","plural":"leases",
        "place":"own","reason":"the leader is elected","when":"leader-elect"}"#;
    const REVIEW: &str = r#"{"verb":"create","group":"authentication.k8s.io",
        "plural":"tokenreviews","place":"cluster","reason":"metrics","when":"metrics-secure"}"#;
    const WATCH: &str = r#"{"verb":"watch","group":"apps","plural":"deployments",
        "place":"cluster","reason":"read `watch deployments.apps`"}"#;
    const WRITE: &str = r#"{"verb":"patch","group":"apps","plural":"deployments",
        "subresource":"status","place":"watched","reason":"wrote it"}"#;

    #[test]
    fn arguments_of_the_deployment_decide_what_is_needed() {
        let all = [noted(LEASE), noted(REVIEW)];
        assert_eq!(shown(&all, &operator(&[])), ["get leases.coordination.k8s.io in shop"]);
        let arguments = ["--leader-elect=false", "--metrics-secure"];
        assert_eq!(
            shown(&all, &operator(&arguments)),
            ["create tokenreviews.authentication.k8s.io"]
        );
    }

    #[test]
    fn definition_in_the_manifests_need_not_be_created() {
        let line = r#"{"verb":"create","group":"apiextensions.k8s.io","place":"cluster",
            "plural":"customresourcedefinitions","reason":"","when":"not-installed a.example.com"}"#;
        let mut operator = operator(&[]);
        assert_eq!(shown(&[noted(line)], &operator).len(), 1);
        operator.definitions.push("a.example.com".to_owned());
        assert_eq!(shown(&[noted(line)], &operator), [""; 0]);
    }

    #[test]
    fn event_that_was_created_may_repeat() {
        let line = r#"{"verb":"create","group":"events.k8s.io","place":"watched",
            "plural":"events","reason":"the operator wrote `create events.events.k8s.io in a`"}"#;
        assert_eq!(
            shown(&[noted(line)], &operator(&[])),
            ["create events.events.k8s.io", "patch events.events.k8s.io"]
        );
    }

    #[test]
    fn watched_namespaces_are_those_of_the_deployment() {
        let all = [noted(WATCH), noted(WRITE)];
        assert_eq!(
            shown(&all, &operator(&[])),
            ["list deployments.apps", "watch deployments.apps", "patch deployments.apps/status"]
        );
        assert_eq!(
            shown(&all, &operator(&["--namespace=a"])),
            [
                "list deployments.apps in a",
                "watch deployments.apps in a",
                "patch deployments.apps/status in a"
            ]
        );
    }
}
