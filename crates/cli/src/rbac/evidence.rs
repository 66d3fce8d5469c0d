//! Reads the evidence of the tests, as the rights that the deployed operator needs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::access::{Access, Scope, Target, Verb};
use super::operator::Operator;

/// Each right that is needed.
pub(super) type Needs = BTreeMap<Access, Need>;

/// Why and for what a right is needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Need {
    /// What needs it.
    pub(super) reason: String,
    /// The objects of the observed requests. `None` if one of them was for no single object, or if
    /// the right is declared.
    pub(super) names: Option<BTreeSet<String>>,
    /// Whether only requests of tests show that it is needed: it is not declared.
    pub(super) is_observed: bool,
}

/// A line of a file; `Need` in `windlass-informer` writes it.
#[derive(Clone, Debug, Deserialize)]
struct Noted {
    verb: String,
    group: String,
    plural: String,
    subresource: Option<String>,
    place: RightScope,
    /// The object of an observed request. For a declared right, the only object that it is needed
    /// for.
    name: Option<String>,
    /// Whether it is a request of a test. Otherwise the right is declared.
    #[serde(default)]
    observed: bool,
    reason: String,
    when: Option<String>,
    test: Option<String>,
    package: Option<String>,
}

/// Where a right is needed: `RightScope` of `windlass-informer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RightScope {
    Cluster,
    Watched,
    Own,
}

/// Reads all files of a folder. Lines of other packages than the one in `here` are left out.
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
        .filter(|noted| noted.place == RightScope::Watched)
        .map(|noted| (noted.group.as_str(), noted.plural.as_str()))
        .collect();
    let mut needed: Vec<&Noted> =
        noted.iter().filter(|noted| operator.has(noted.when.as_deref())).collect();
    // Of several reasons the first is shown: those that name a controller come first.
    needed.sort_by_key(|noted| noted.reason.starts_with("the operator"));
    let mut needs = Needs::new();
    for one in needed {
        // Every account may ask for its own rights.
        if one.group == "authorization.k8s.io" && one.plural.starts_with("selfsubject") {
            continue;
        }
        let mut reason = one.reason.clone();
        if let Some(test) = &one.test
            && reason.contains('`')
        {
            reason = format!("{reason} (in test {test})");
        }
        // The path of a list over all namespaces does not tell whether the kind has namespaces;
        // other requests for the kind do.
        let is_watched =
            one.place == RightScope::Watched || namespaced.contains(&(&*one.group, &*one.plural));
        let scopes = match one.place {
            RightScope::Own => vec![Scope::Namespace(operator.namespace_of_own(&one.plural))],
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
                target: Target::resource(&one.group, &resource),
                name: one.name.clone().filter(|_| !one.observed),
                verb: Verb(one.verb.clone()),
            };
            if let Some(verb) = goes_with(one) {
                let other = Access { verb: Verb(verb.to_owned()), ..access.clone() };
                add(&mut needs, other, &reason, one.observed, None);
            }
            add(&mut needs, access, &reason, one.observed, one.object());
        }
    }
    // A right for one object is redundant if the same right is needed for all objects.
    let is_for_all = |access: &Access| {
        let unnamed = Access { name: None, ..access.clone() };
        needs.get(&unnamed).is_some_and(|need| need.names.is_none())
    };
    let narrower: Vec<_> = needs
        .keys()
        .filter(|access| access.name.is_some() && is_for_all(access))
        .cloned()
        .collect();
    for access in narrower {
        needs.remove(&access);
    }
    needs
}

/// Adds a right. `object` is that of an observed request; `None` stands for all objects.
fn add(needs: &mut Needs, access: Access, reason: &str, is_observed: bool, object: Option<&str>) {
    let names = Some(BTreeSet::new());
    let first = || Need { reason: reason.to_owned(), names, is_observed: true };
    let need = needs.entry(access).or_insert_with(first);
    need.is_observed &= is_observed;
    match object {
        Some(object) => need.names.iter_mut().for_each(|names| {
            names.insert(object.to_owned());
        }),
        None => need.names = None,
    }
}

impl Noted {
    /// The object of an observed request. Rules cannot limit other verbs to names.
    fn object(&self) -> Option<&str> {
        let has_name = matches!(&*self.verb, "get" | "update" | "patch" | "delete");
        self.name.as_deref().filter(|_| self.observed && has_name)
    }
}

/// Another verb that the same code of Windlass uses in other cases.
fn goes_with(noted: &Noted) -> Option<&'static str> {
    match (&*noted.verb, &*noted.group, &*noted.plural) {
        // If the server cannot stream the initial list in the watch, it is asked for a list.
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
        let mut operator = Operator::default();
        (operator.namespace, operator.arguments) = ("shop".to_owned(), arguments);
        operator
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

    const READ: &str = r#"{"verb":"get","group":"","plural":"secrets","place":"watched",
        "name":"db","observed":true,"reason":"the operator read `get secrets a/db`"}"#;

    fn names(noted: &[Noted]) -> Vec<(String, Option<Vec<String>>)> {
        let needs = needs_of(noted, &operator(&[])).into_iter();
        needs
            .map(|(access, need)| {
                (access.to_string(), need.names.map(|names| names.into_iter().collect()))
            })
            .collect()
    }

    #[test]
    fn requests_for_single_objects_are_one_need_that_remembers_them() {
        let other = READ.replace("db", "cache");
        let both = Some(vec!["cache".to_owned(), "db".to_owned()]);
        let seen = [noted(READ), noted(&other), noted(READ)];
        assert_eq!(names(&seen), [("get secrets".to_owned(), both)]);
        // Lines without `observed`, and without a name, are for all objects.
        let all = noted(&READ.replace(r#""name":"db","observed":true,"#, ""));
        let for_all = [("get secrets".to_owned(), None)];
        assert_eq!(names(&[noted(READ), all.clone()]), for_all);
        assert_eq!(names(&[all, noted(READ)]), for_all);
    }

    #[test]
    fn declared_name_restricts_and_stays_beside_requests_for_other_objects() {
        let declared = READ.replace(r#""observed":true,"#, "").replace("db", "tls");
        let seen = Some(vec!["db".to_owned()]);
        assert_eq!(
            names(&[noted(&declared), noted(READ)]),
            [("get secrets".to_owned(), seen), ("get secrets tls".to_owned(), None)]
        );
    }

    #[test]
    fn creating_cannot_be_limited_to_a_name() {
        let create = noted(&READ.replace("get", "create"));
        assert_eq!(names(&[create]), [("create secrets".to_owned(), None)]);
    }

    #[test]
    fn lease_and_secret_are_where_the_arguments_say() {
        let secret = LEASE.replace("coordination.k8s.io", "").replace("leases", "secrets");
        let all = [noted(LEASE), noted(&secret)];
        let elsewhere = ["--leader-election-namespace=locks", "--webhook-namespace", "hooks"];
        assert_eq!(
            shown(&all, &operator(&elsewhere)),
            ["get secrets in hooks", "get leases.coordination.k8s.io in locks"]
        );
        let empty = ["--leader-election-namespace=", "--webhook-namespace="];
        assert_eq!(
            shown(&all, &operator(&empty)),
            ["get secrets in shop", "get leases.coordination.k8s.io in shop"]
        );
    }
}
