//! Derives the rights that the deployed operator needs from the evidence of its tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use windlass_evidence::{
    DeclaredRight, Entry, Fact, Outcome, Owner, Request, Right, Scope as RightScope, Sender,
    Target as SeenTarget, Written,
};

use super::access::{Access, Scope, Target, Verb};
use super::operator::Operator;

/// All needed rights.
pub(super) type Needs = BTreeMap<Access, Need>;

/// Why a right is needed, and for which objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Need {
    /// The controller or part that needs it.
    pub(super) reason: String,
    /// The objects of the observed requests. `None` if the right is declared, or if a request was
    /// for no single object.
    pub(super) names: Option<BTreeSet<String>>,
    /// Whether it is only known from requests in tests, and not declared.
    pub(super) is_observed: bool,
}

/// A right that is needed according to an entry.
#[derive(Clone, Debug)]
struct Shown {
    right: Right,
    reason: String,
    /// Whether it comes from a request in a test. Then the name in the right is an example: other
    /// objects may need it as well. Otherwise it is declared, and needed for that object alone.
    is_observed: bool,
    /// Whether the reason names a controller, or the right is declared.
    is_explained: bool,
}

/// Reads all files of a folder. Entries of packages other than the one in `here` are ignored.
///
/// # Errors
/// If a file cannot be read, or was written by another version of Windlass.
pub(super) fn needs(folder: &Path, here: &Path, operator: &Operator) -> Result<Needs> {
    let mut entries = windlass_evidence::read(folder)?;
    entries.retain(|entry| {
        entry.package.as_ref().is_none_or(|package| is_same(Path::new(package), here))
    });
    Ok(needs_of(&entries, operator))
}

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real(one) == real(other)
}

/// Returns the rights that are needed according to an entry.
fn shown(entry: &Entry, operator: &Operator) -> Vec<Shown> {
    match &entry.fact {
        Fact::Declared(DeclaredRight { condition, .. }) if !operator.has(condition) => Vec::new(),
        Fact::Declared(DeclaredRight { right, reason, .. }) => {
            let (right, reason) = (right.clone(), reason.clone());
            vec![Shown { right, reason, is_observed: false, is_explained: true }]
        }
        Fact::Request(request) => of_request(request, entry.test.as_deref()),
    }
}

/// Returns the right that a request needs, and those that go with it. Tests seldom cover every
/// case, so a write implies what the same helper may do in another case.
fn of_request(request: &Request, test: Option<&str>) -> Vec<Shown> {
    let did = match &*request.verb {
        "get" | "list" | "watch" => "read",
        _ => "wrote",
    };
    let sent = format!("{} {did} `{request}`", request.sender);
    let test = test.map(|test| format!(" (in test {test})")).unwrap_or_default();
    let shown = |right: Right, why: &str| Shown {
        right,
        reason: format!("{sent}{why}{test}"),
        is_observed: true,
        is_explained: request.sender != Sender::Operator,
    };
    let right = right_of(&request.target, &request.verb);
    let mut all = vec![shown(right, "")];
    if request.verb == "patch" && request.outcome == Outcome::Answered(201) {
        // An apply that created the object.
        let why = ", which created the object";
        all.push(shown(right_of(&request.target, "create"), why));
    }
    let Written { is_child, is_conditional, owners } = &request.written;
    if *is_child || *is_conditional {
        let why = ", and reads it again after a conflict";
        all.push(shown(right_of(&request.target, "get"), why));
    }
    if *is_child {
        for (verb, why) in [
            ("create", ", and creates it if it is gone"),
            ("delete", ", and deletes such children when they are not wanted any more"),
        ] {
            all.push(shown(Right { name: None, ..right_of(&request.target, verb) }, why));
        }
    }
    for Owner { group, plural, is_namespaced, is_controller, is_blocked } in owners {
        let right = |verb: &str, subresource: Option<&str>| Right {
            verb: verb.to_owned(),
            group: group.clone(),
            plural: plural.clone(),
            subresource: subresource.map(str::to_owned),
            scope: if *is_namespaced { RightScope::Watched } else { RightScope::Cluster },
            name: None,
        };
        if *is_child && *is_controller {
            all.push(shown(right("get", None), ", and reads its owner before it deletes one"));
        }
        if *is_blocked {
            let right = right("update", Some("finalizers"));
            all.push(shown(right, ", which blocks the deletion of its owner"));
        }
    }
    all
}

/// Returns a right with this verb on the target of a request.
fn right_of(target: &SeenTarget, verb: &str) -> Right {
    let SeenTarget { group, plural, subresource, namespace, name } = target.clone();
    let scope = if namespace.is_some() { RightScope::Watched } else { RightScope::Cluster };
    let name = name.filter(|_| can_be_limited(verb));
    Right { verb: verb.to_owned(), group, plural, subresource, scope, name }
}

/// Whether a rule can restrict a verb to names.
fn can_be_limited(verb: &str) -> bool {
    matches!(verb, "get" | "update" | "patch" | "delete")
}

fn needs_of(entries: &[Entry], operator: &Operator) -> Needs {
    let mut all: Vec<Shown> = entries.iter().flat_map(|entry| shown(entry, operator)).collect();
    // Among several reasons, the first is shown.
    all.sort_by_key(|shown| !shown.is_explained);
    let namespaced: BTreeSet<(String, String)> = all
        .iter()
        .filter(|shown| shown.right.scope == RightScope::Watched)
        .map(|shown| (shown.right.group.clone(), shown.right.plural.clone()))
        .collect();
    let mut needs = Needs::new();
    for Shown { right, reason, is_observed, .. } in all {
        let Right { verb, group, plural, subresource, scope, name } = &right;
        // Every account may query its own rights.
        if group == "authorization.k8s.io" && plural.starts_with("selfsubject") {
            continue;
        }
        // The path of a list over all namespaces does not show whether the kind is namespaced;
        // other requests for the kind do.
        let is_watched =
            *scope == RightScope::Watched || namespaced.contains(&(group.clone(), plural.clone()));
        let scopes = match scope {
            RightScope::Own => vec![Scope::Namespace(operator.namespace_of_own(plural))],
            _ if is_watched => operator.watched(),
            _ => vec![Scope::Cluster],
        };
        let resource = match subresource {
            Some(subresource) => format!("{plural}/{subresource}"),
            None => plural.clone(),
        };
        for scope in scopes {
            let access = Access {
                scope,
                target: Target::resource(group, &resource),
                name: name.clone().filter(|_| !is_observed),
                verb: Verb(verb.clone()),
            };
            if let Some(verb) = goes_with(&right) {
                let other = Access { verb: Verb(verb.to_owned()), ..access.clone() };
                add(&mut needs, other, &reason, is_observed, None);
            }
            let object = name.as_deref().filter(|_| is_observed);
            add(&mut needs, access, &reason, is_observed, object);
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

/// Adds a right. `object` is the object of an observed request; `None` means all objects.
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

/// Returns another verb that the same Windlass code uses in other cases.
fn goes_with(right: &Right) -> Option<&'static str> {
    match (&*right.verb, &*right.group, &*right.plural) {
        // If the server cannot stream the initial list in the watch, a list request is sent.
        ("watch", ..) => Some("list"),
        // An event that repeats is patched.
        ("create", "events.k8s.io", "events") => Some("patch"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use windlass_evidence::Condition;

    use super::*;

    fn right(verb: &str, group: &str, plural: &str, scope: RightScope) -> Right {
        let [verb, group, plural] = [verb, group, plural].map(str::to_owned);
        Right { verb, group, plural, subresource: None, scope, name: None }
    }

    fn declared(right: Right, condition: Condition) -> Entry {
        let reason = "the operator says so".to_owned();
        Entry::new(Fact::Declared(DeclaredRight { right, reason, condition }), None, None)
    }

    /// A request of the operator. The object is given as `a/db` or `a/`.
    fn request(verb: &str, group: &str, plural: &str, object: Option<&str>) -> Request {
        let object = object.and_then(|object| object.split_once('/'));
        Request {
            verb: verb.to_owned(),
            target: SeenTarget {
                group: group.to_owned(),
                plural: plural.to_owned(),
                subresource: None,
                namespace: object.map(|(namespace, _)| namespace.to_owned()),
                name: object.map(|(_, name)| name.to_owned()).filter(|name| !name.is_empty()),
            },
            sender: Sender::Operator,
            outcome: Outcome::Answered(200),
            written: Written::default(),
        }
    }

    fn seen(request: Request) -> Entry {
        Entry::new(Fact::Request(request), Some("program test".to_owned()), None)
    }

    fn accesses(entries: &[Entry], operator: &Operator) -> Vec<String> {
        needs_of(entries, operator).keys().map(ToString::to_string).collect()
    }

    fn operator(arguments: &[&str]) -> Operator {
        let arguments = arguments.iter().map(|one| (*one).to_owned()).collect();
        let mut operator = Operator::default();
        (operator.namespace, operator.arguments) = ("shop".to_owned(), arguments);
        operator
    }

    fn lease() -> Entry {
        let right = right("get", "coordination.k8s.io", "leases", RightScope::Own);
        declared(right, Condition::LeaderElect)
    }

    #[test]
    fn arguments_of_the_deployment_decide_what_is_needed() {
        let review = right("create", "authentication.k8s.io", "tokenreviews", RightScope::Cluster);
        let all = [lease(), declared(review, Condition::MetricsSecure)];
        assert_eq!(accesses(&all, &operator(&[])), ["get leases.coordination.k8s.io in shop"]);
        let arguments = ["--leader-elect=false", "--metrics-secure"];
        assert_eq!(
            accesses(&all, &operator(&arguments)),
            ["create tokenreviews.authentication.k8s.io"]
        );
    }

    #[test]
    fn definition_in_the_manifests_need_not_be_created() {
        let right = right(
            "create",
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            RightScope::Cluster,
        );
        let entry = declared(right, Condition::NotInstalled("a.example.com".to_owned()));
        let mut operator = operator(&[]);
        assert_eq!(accesses(std::slice::from_ref(&entry), &operator).len(), 1);
        operator.definitions.push("a.example.com".to_owned());
        assert_eq!(accesses(&[entry], &operator), [""; 0]);
    }

    #[test]
    fn event_that_was_created_may_repeat() {
        let event = request("create", "events.k8s.io", "events", Some("a/"));
        assert_eq!(
            accesses(&[seen(event)], &operator(&[])),
            ["create events.events.k8s.io", "patch events.events.k8s.io"]
        );
    }

    #[test]
    fn watched_namespaces_are_those_of_the_deployment() {
        let watch = request("watch", "apps", "deployments", None);
        let mut write = request("patch", "apps", "deployments", Some("a/web"));
        write.target.subresource = Some("status".to_owned());
        let all = [seen(watch), seen(write)];
        assert_eq!(
            accesses(&all, &operator(&[])),
            ["list deployments.apps", "watch deployments.apps", "patch deployments.apps/status"]
        );
        assert_eq!(
            accesses(&all, &operator(&["--namespace=a"])),
            [
                "list deployments.apps in a",
                "watch deployments.apps in a",
                "patch deployments.apps/status in a"
            ]
        );
    }

    /// `get secrets a/NAME`.
    fn read(name: &str) -> Request {
        request("get", "", "secrets", Some(&format!("a/{name}")))
    }

    fn names(entries: &[Entry]) -> Vec<(String, Option<Vec<String>>)> {
        let needs = needs_of(entries, &operator(&[])).into_iter();
        needs
            .map(|(access, need)| {
                (access.to_string(), need.names.map(|names| names.into_iter().collect()))
            })
            .collect()
    }

    #[test]
    fn requests_for_single_objects_are_one_need_that_remembers_them() {
        let both = Some(vec!["cache".to_owned(), "db".to_owned()]);
        let all = [seen(read("db")), seen(read("cache")), seen(read("db"))];
        assert_eq!(names(&all), [("get secrets".to_owned(), both)]);
        // A declared right without a name is for all objects.
        let all = declared(right("get", "", "secrets", RightScope::Watched), Condition::Always);
        let for_all = [("get secrets".to_owned(), None)];
        assert_eq!(names(&[seen(read("db")), all.clone()]), for_all);
        assert_eq!(names(&[all, seen(read("db"))]), for_all);
    }

    #[test]
    fn declared_name_restricts_and_stays_beside_requests_for_other_objects() {
        let mut tls = right("get", "", "secrets", RightScope::Watched);
        tls.name = Some("tls".to_owned());
        assert_eq!(
            names(&[declared(tls, Condition::Always), seen(read("db"))]),
            [
                ("get secrets".to_owned(), Some(vec!["db".to_owned()])),
                ("get secrets tls".to_owned(), None)
            ]
        );
    }

    #[test]
    fn creating_cannot_be_limited_to_a_name() {
        let create = request("create", "", "secrets", Some("a/db"));
        assert_eq!(names(&[seen(create)]), [("create secrets".to_owned(), None)]);
    }

    #[test]
    fn lease_and_secret_are_where_the_arguments_say() {
        let secret = right("get", "", "secrets", RightScope::Own);
        let all = [lease(), declared(secret, Condition::LeaderElect)];
        let elsewhere = ["--leader-election-namespace=locks", "--webhook-namespace", "hooks"];
        assert_eq!(
            accesses(&all, &operator(&elsewhere)),
            ["get secrets in hooks", "get leases.coordination.k8s.io in locks"]
        );
        let empty = ["--leader-election-namespace=", "--webhook-namespace="];
        assert_eq!(
            accesses(&all, &operator(&empty)),
            ["get secrets in shop", "get leases.coordination.k8s.io in shop"]
        );
    }

    #[test]
    fn write_stands_for_what_the_same_helper_does_in_other_cases() {
        let reasons = |request: &Request| {
            let needs = needs_of(&[seen(request.clone())], &operator(&[]));
            needs
                .into_iter()
                .map(|(access, need)| (access.to_string(), need.reason))
                .collect::<Vec<_>>()
        };
        let mut child = request("patch", "apps", "deployments", Some("a/web"));
        child.sender = Sender::Controller("website".to_owned());
        let sent = "controller website wrote `patch deployments.apps a/web`";
        let reason = |why: &str| format!("{sent}{why} (in test program test)");
        assert_eq!(reasons(&child), [("patch deployments.apps".to_owned(), reason(""))]);

        child.outcome = Outcome::Answered(201);
        let created = ("create deployments.apps".to_owned(), reason(", which created the object"));
        assert_eq!(reasons(&child)[0], created);

        child.outcome = Outcome::Unanswered;
        child.written.is_conditional = true;
        let again = ", and reads it again after a conflict";
        let again = ("get deployments.apps".to_owned(), reason(again));
        assert_eq!(reasons(&child)[0], again);

        let (group, plural) = ("example.com".to_owned(), "websites".to_owned());
        let (is_namespaced, is_controller, is_blocked) = (true, true, true);
        let owner = Owner { group, plural, is_namespaced, is_controller, is_blocked };
        child.written = Written { is_child: true, is_conditional: false, owners: vec![owner] };
        let unwanted = ", and deletes such children when they are not wanted any more";
        let expected = [
            again,
            ("create deployments.apps".to_owned(), reason(", and creates it if it is gone")),
            ("patch deployments.apps".to_owned(), reason("")),
            ("delete deployments.apps".to_owned(), reason(unwanted)),
            (
                "get websites.example.com".to_owned(),
                reason(", and reads its owner before it deletes one"),
            ),
            (
                "update websites.example.com/finalizers".to_owned(),
                reason(", which blocks the deletion of its owner"),
            ),
        ];
        assert_eq!(reasons(&child), expected);
    }

    #[test]
    fn reason_that_names_a_controller_is_shown_first() {
        let mut by_controller = read("db");
        by_controller.sender = Sender::Controller("the operator".to_owned());
        let needs = needs_of(&[seen(read("db")), seen(by_controller)], &operator(&[]));
        let reason = &needs.values().next().expect("a need").reason;
        assert!(reason.starts_with("controller the operator read "), "{reason}");
    }
}
