//! Tests of the rules, also against a naive model, and of the index against a scan.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::coverage::{missing, steps};
use super::index::Index;
use super::rule::{AccessTarget, Attributes, PolicyRule};
use super::{MASTERS, Rbac, aggregate};
use crate::kind::Kind;
use crate::kinds::{builtin, default_builtin, validate_builtin};
use crate::object::Key;
use crate::user::User;

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> PolicyRule {
    PolicyRule {
        verbs: texts(verbs),
        api_groups: texts(groups),
        resources: texts(resources),
        resource_names: texts(names),
        non_resource_urls: Vec::new(),
    }
}

fn on<'a>(verb: &'a str, group: &'a str, resource: &'a str, name: &'a str) -> Attributes<'a> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    Attributes {
        verb,
        on: AccessTarget::Resource { group, resource, subresource, namespace: "n", name },
    }
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn kind(plural: &str) -> Kind {
    let found = builtin().into_iter().find(|kind| kind.is(super::rule::GROUP, plural));
    found.expect("the kinds of rbac must be built in")
}

#[test]
fn a_rule_allows_what_it_names_and_nothing_else() {
    let get_pods = rule(&["get"], &[""], &["pods"], &[]);
    assert!(get_pods.allows(&on("get", "", "pods", "a")));
    assert!(get_pods.allows(&on("get", "", "pods", "")));
    assert!(!get_pods.allows(&on("list", "", "pods", "")));
    assert!(!get_pods.allows(&on("get", "apps", "pods", "a")));
    assert!(!get_pods.allows(&on("get", "", "secrets", "a")));
    assert!(!get_pods.allows(&on("get", "", "pods/status", "a")));
    assert!(!get_pods.allows(&Attributes { verb: "get", on: AccessTarget::Path("pods") }));
    assert!(!PolicyRule::default().allows(&on("", "", "", "")));
}

#[test]
fn rule_with_names_does_not_allow_unnamed_requests() {
    let named = rule(&["get", "list", "create"], &[""], &["pods"], &["a"]);
    assert!(named.allows(&on("get", "", "pods", "a")));
    assert!(!named.allows(&on("get", "", "pods", "b")));
    assert!(!named.allows(&on("create", "", "pods", "")));
}

#[test]
fn subresource_wildcard_does_not_match_the_resource() {
    let scales = rule(&["get"], &["*"], &["*/scale"], &[]);
    assert!(scales.allows(&on("get", "apps", "deployments/scale", "a")));
    assert!(!scales.allows(&on("get", "apps", "deployments", "a")));
    assert!(!scales.allows(&on("get", "apps", "deployments/status", "a")));
    // Kubernetes has no such pattern.
    let parts = rule(&["get"], &["*"], &["deployments/*"], &[]);
    assert!(!parts.allows(&on("get", "apps", "deployments/scale", "a")));
}

#[test]
fn a_path_matches_itself_or_a_prefix_with_a_star() {
    let urls = PolicyRule {
        verbs: texts(&["get"]),
        non_resource_urls: texts(&["/a", "/b/*", "/c*"]),
        ..PolicyRule::default()
    };
    let allows = |path| urls.allows(&Attributes { verb: "get", on: AccessTarget::Path(path) });
    for path in ["/a", "/b/", "/b/x/y", "/c", "/cd"] {
        assert!(allows(path), "{path}");
    }
    for path in ["/", "/a/", "/b", "/ab"] {
        assert!(!allows(path), "{path}");
    }
}

#[test]
fn missing_rights_are_listed_by_resource_with_all_verbs() {
    let held = [rule(&["get"], &[""], &["pods"], &[])];
    let wanted = [rule(&["get", "list", "watch"], &[""], &["pods", "secrets"], &[])];
    assert_eq!(
        missing(&held, &wanted).lines,
        [
            r#"{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}"#,
            r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list" "watch"]}"#,
        ]
    );
    let all = [rule(&["*"], &["*"], &["*"], &[])];
    assert!(missing(&all, &wanted).is_empty());
    assert_eq!(missing(&wanted, &all).lines.len(), 1);
}

#[test]
fn a_right_is_held_by_one_rule_as_a_whole() {
    // Each part is held, but by different rules.
    let held = [rule(&["get"], &[""], &["pods"], &["a"]), rule(&["list"], &[""], &["nodes"], &[])];
    let line = |resources: &str, rest: &str| {
        vec![format!(r#"{{APIGroups:[""], Resources:["{resources}"], {rest}}}"#)]
    };
    let wanted = [rule(&["list"], &[""], &["pods"], &[])];
    assert_eq!(missing(&held, &wanted).lines, line("pods", r#"Verbs:["list"]"#));
    let wanted = [rule(&["get"], &[""], &["pods"], &["a", "b"])];
    let named = r#"ResourceNames:["b"], Verbs:["get"]"#;
    assert_eq!(missing(&held, &wanted).lines, line("pods", named));
    assert!(missing(&held, &[rule(&["list"], &[""], &["nodes"], &["b"])]).is_empty());
    assert!(!missing(&held, &[rule(&["get"], &[""], &["pods"], &[])]).is_empty());
    let scales = [rule(&["get"], &["*"], &["*/scale"], &[])];
    assert!(missing(&scales, &[rule(&["get"], &["apps"], &["x/scale"], &[])]).is_empty());
    assert!(!missing(&scales, &[rule(&["get"], &["apps"], &["x"], &[])]).is_empty());
}

#[test]
fn paths_are_held_by_patterns() {
    let urls = |verbs: &[&str], urls: &[&str]| PolicyRule {
        verbs: texts(verbs),
        non_resource_urls: texts(urls),
        ..PolicyRule::default()
    };
    let held = [urls(&["get"], &["/a", "/b/*"])];
    assert!(missing(&held, &[urls(&["get"], &["/a", "/b/c"])]).is_empty());
    assert_eq!(
        missing(&held, &[urls(&["get", "put"], &["/a", "/c"])]).lines,
        [
            r#"{NonResourceURLs:["/a"], Verbs:["put"]}"#,
            r#"{NonResourceURLs:["/c"], Verbs:["get"]}"#,
            r#"{NonResourceURLs:["/c"], Verbs:["put"]}"#,
        ]
    );
}

#[test]
fn a_list_of_missing_rights_is_bounded() {
    let numbered = |prefix: &str| (0..300).map(|at| format!("{prefix}{at}")).collect::<Vec<_>>();
    let wanted = PolicyRule {
        verbs: numbered("verb"),
        api_groups: numbered("group"),
        resources: texts(&["pods"]),
        ..PolicyRule::default()
    };
    let found = missing(&[], std::slice::from_ref(&wanted));
    assert_eq!(found.lines.len() + found.unlisted, 300);
    let text = found.describe();
    assert!(text.len() < 100_000, "{}", text.len());
    assert!(
        text.ends_with(&format!("\nand {} more", found.unlisted)),
        "{}",
        &text[text.len() - 99..]
    );
    // A long text in many combinations is not copied for each of them.
    let wanted =
        PolicyRule { verbs: vec!["v".repeat(1 << 20)], api_groups: numbered("group"), ..wanted };
    assert_eq!(missing(&[], &[wanted]).unlisted, 300);
}

#[test]
fn the_steps_of_a_comparison_grow_with_both_sides() {
    let wanted = [rule(&["get", "list"], &[""], &["pods", "nodes"], &[])];
    let held = vec![rule(&["get"], &[""], &["pods"], &[]); 10];
    assert_eq!(steps(&held, &wanted), 10 * (4 + 5));
}

#[test]
fn duplicate_errors_are_listed_once() {
    let some = |list: &[&str]| aggregate(texts(list));
    assert_eq!(some(&[]), None);
    assert_eq!(some(&["a", "a"]).as_deref(), Some("a"));
    assert_eq!(some(&["a", "b", "a"]).as_deref(), Some("[a, b]"));
}

#[test]
fn members_of_masters_may_do_everything() {
    let master = User::named("root").group(MASTERS);
    let decision = Rbac::default().decide(&master, &on("dance", "x", "y", ""));
    assert!(decision.allowed);
    assert!(!Rbac::default().decide(&User::named("bob"), &on("get", "", "pods", "")).allowed);
}

#[test]
fn default_roles_are_valid_and_complete() {
    for (plural, object) in super::defaults::recorded() {
        let (kind, mut value) = (kind(plural), Value::Object(object));
        assert_eq!(validate_builtin(&kind, &value), [], "{value}");
        let before = value.clone();
        default_builtin(&kind, &mut value, true);
        if before.get("aggregationRule").is_none() {
            assert_eq!(value, before);
        }
    }
}

/// A literal implementation of the documentation: some verb, some group and some resource of the
/// rule match those of the request, and so does some name if the rule has any.
fn naive(rule: &PolicyRule, verb: &str, group: &str, resource: &str, name: &str) -> bool {
    let is = |pattern: &String, text: &str| pattern == "*" || pattern == text;
    let (whole, part) = resource.split_once('/').unwrap_or((resource, ""));
    let mut patterns = vec!["*".to_owned(), resource.to_owned()];
    if !part.is_empty() {
        patterns.push(format!("*/{part}"));
        assert!(!whole.is_empty());
    }
    let mut found = false;
    for a_verb in &rule.verbs {
        for a_group in &rule.api_groups {
            for a_resource in &rule.resources {
                found |= is(a_verb, verb) && is(a_group, group) && patterns.contains(a_resource);
            }
        }
    }
    found && (rule.resource_names.is_empty() || rule.resource_names.contains(&name.to_owned()))
}

const VERBS: &[&str] = &["get", "list", "*"];
const GROUPS: &[&str] = &["", "apps", "*"];
const RESOURCES: &[&str] = &["pods", "pods/status", "nodes", "*", "*/status", "pods/*"];
const NAMES: &[&str] = &["a", "b"];
const REQUESTED: &[&str] = &["pods", "pods/status", "nodes", "nodes/status"];

fn some(of: &'static [&'static str], most: usize) -> impl Strategy<Value = Vec<String>> {
    let one = proptest::sample::select(of).prop_map(str::to_owned);
    proptest::collection::vec(one, 0..=most)
}

fn any_rule() -> impl Strategy<Value = PolicyRule> {
    (some(VERBS, 2), some(GROUPS, 2), some(RESOURCES, 3), some(NAMES, 2)).prop_map(
        |(verbs, api_groups, resources, resource_names)| PolicyRule {
            verbs,
            api_groups,
            resources,
            resource_names,
            non_resource_urls: Vec::new(),
        },
    )
}

/// All requests with these few verbs, groups, resources and names.
fn requests() -> impl Iterator<Item = (&'static str, &'static str, &'static str, &'static str)> {
    let verbs = ["get", "list", "watch"].into_iter();
    verbs.flat_map(|verb| {
        ["", "apps", "batch"].into_iter().flat_map(move |group| {
            REQUESTED.iter().flat_map(move |resource| {
                ["", "a", "b", "c"].into_iter().map(move |name| (verb, group, *resource, name))
            })
        })
    })
}

/// A change of roles and bindings.
#[derive(Debug, Clone)]
enum Step {
    Role(usize, Vec<PolicyRule>),
    Bind(usize, usize, Vec<usize>),
    Remove(&'static str, usize),
}

/// The users of the index test, as subjects of bindings.
const SUBJECTS: [(&str, &str); 3] = [("User", "u"), ("Group", "g"), ("ServiceAccount", "s")];

fn any_step() -> impl Strategy<Value = Step> {
    let rules = || proptest::collection::vec(any_rule(), 0..2);
    prop_oneof![
        (0..2usize, rules()).prop_map(|(name, rules)| Step::Role(name, rules)),
        (0..3usize, 0..2usize, proptest::collection::vec(0..SUBJECTS.len(), 0..3))
            .prop_map(|(name, role, who)| Step::Bind(name, role, who)),
        (proptest::sample::select(&["roles", "rolebindings"][..]), 0..3usize)
            .prop_map(|(plural, name)| Step::Remove(plural, name)),
    ]
}

fn rule_value(rule: &PolicyRule) -> Value {
    json!({
        "verbs": rule.verbs,
        "apiGroups": rule.api_groups,
        "resources": rule.resources,
        "resourceNames": rule.resource_names,
    })
}

proptest! {
    #[test]
    fn rules_agree_with_the_naive_model(rule in any_rule()) {
        for (verb, group, resource, name) in requests() {
            let expected = naive(&rule, verb, group, resource, name);
            let got = rule.allows(&on(verb, group, resource, name));
            prop_assert_eq!(got, expected, "{} {} {} {}", verb, group, resource, name);
        }
    }

    #[test]
    fn nothing_is_missing_only_if_everything_is_held(
        held in proptest::collection::vec(any_rule(), 0..4),
        wanted in any_rule(),
    ) {
        let wanted = [wanted];
        if missing(&held, &wanted).is_empty() {
            for (verb, group, resource, name) in requests() {
                let request = on(verb, group, resource, name);
                let needs = wanted[0].allows(&request);
                prop_assert!(!needs || held.iter().any(|rule| rule.allows(&request)));
            }
        }
    }

    /// After all steps, the index decides as a scan of the remaining roles and bindings does.
    #[test]
    fn the_index_agrees_with_a_scan(steps in proptest::collection::vec(any_step(), 0..24)) {
        let mut index = Index::default();
        let (roles_kind, bindings_kind) = (kind("roles"), kind("rolebindings"));
        let mut roles: Vec<Option<Vec<PolicyRule>>> = vec![None; 3];
        let mut bindings: Vec<Option<(usize, Vec<usize>)>> = vec![None; 3];
        for step in steps {
            match step {
                Step::Role(at, rules) => {
                    let values: Vec<Value> = rules.iter().map(rule_value).collect();
                    let key = Key::new("n", &at.to_string());
                    index.note(&roles_kind, &key, &object(&json!({"rules": values})));
                    roles[at] = Some(rules);
                }
                Step::Bind(at, role, who) => {
                    let subjects: Vec<Value> = who
                        .iter()
                        .map(|at| json!({"kind": SUBJECTS[*at].0, "name": SUBJECTS[*at].1}))
                        .collect();
                    let binding = json!({
                        "roleRef": {"kind": "Role", "name": role.to_string()},
                        "subjects": subjects,
                    });
                    index.note(&bindings_kind, &Key::new("n", &at.to_string()), &object(&binding));
                    bindings[at] = Some((role, who));
                }
                Step::Remove("roles", at) => {
                    index.forget(&roles_kind, &Key::new("n", &at.to_string()));
                    roles[at] = None;
                }
                Step::Remove(_, at) => {
                    index.forget(&bindings_kind, &Key::new("n", &at.to_string()));
                    bindings[at] = None;
                }
            }
        }
        let users =
            [User::named("u"), User::named("x").group("g"), User::service_account("n", "s")];
        for (at, user) in users.iter().enumerate() {
            let bound = bindings.iter().flatten().filter(|(_, who)| who.contains(&at));
            let expected: Vec<_> = bound.map(|(role, _)| roles[*role].clone()).collect();
            let got: Vec<_> =
                index.grants(user, "n").map(|grant| grant.rules.ok().map(<[_]>::to_vec)).collect();
            prop_assert_eq!(got, expected);
            prop_assert_eq!(index.grants(user, "").count(), 0);
            prop_assert_eq!(index.grants(user, "other").count(), 0);
        }
    }
}
