//! The file of the Roles with the difference made up.
//!
//! It is changed as text, rule by rule: what needs no change stays as it is, with its comments. A
//! rule of which something is too much is written anew under its comments, or left out if nothing
//! is left of it. What is missing becomes new rules at the end of a role.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::Value;

use super::access::{Access, Scope, Verb};
use super::difference::Difference;
use super::evidence::Needs;
use super::manifests::{Manifests, Operator, documents, granted};

/// Changes the text of `file` so that it grants what is needed, and nothing else if `removes`.
///
/// # Errors
/// If the file cannot be read, or is written in a way that this cannot change.
pub(super) fn rewrite(file: &Path, text: &str, needs: &Needs, removes: bool) -> Result<String> {
    let before = Manifests::read(file, text)?;
    let excess = Difference::between(needs, &before.grants).excess;
    let excess: Vec<Access> =
        excess.into_iter().map(|(access, _)| access).filter(|_| removes).collect();
    let of_file = documents(text)?;
    let bound = before.operator.bound(&of_file);
    let mut parts: Vec<String> = split(text);
    // The role of each scope that gets what is missing.
    let mut first: BTreeMap<Scope, usize> = BTreeMap::new();
    for (index, part) in parts.iter_mut().enumerate() {
        let Ok(document) = serde_saphyr::from_str::<Value>(part) else { continue };
        let Some(role) = bound.iter().find(|role| role.is(&document, &before.operator)) else {
            continue;
        };
        first.entry(role.scope.clone()).or_insert(index);
        if granted(&document["rules"], &role.scope).iter().any(|grant| excess.contains(grant)) {
            *part = without(part, &role.scope, &excess);
        }
    }
    let smaller = Manifests::read(file, &parts.join("---\n"))?;
    let missing = Difference::between(needs, &smaller.grants).missing;
    let mut by_scope: BTreeMap<Scope, Vec<Access>> = BTreeMap::new();
    for (access, _) in missing {
        by_scope.entry(access.scope.clone()).or_default().push(access);
    }
    for (scope, missing) in by_scope {
        match first.get(&scope) {
            Some(index) => parts[*index] = with(&parts[*index], &missing),
            None => parts.extend(new_role(&before.operator, &scope, &missing)),
        }
    }
    let written = parts.join("---\n");
    let after = Manifests::read(file, &written)?;
    let left = Difference::between(needs, &after.grants);
    ensure!(
        left.missing.is_empty() && (left.excess.is_empty() || !removes),
        "{} is written in a way that this cannot change: change it by hand, as shown above",
        file.display()
    );
    Ok(written)
}

/// The documents of a file as text, without the lines between them.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in text.lines() {
        if line.trim_end() == "---" {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push_str(line);
            part.push('\n');
        }
    }
    parts
}

/// A role in three parts: up to `rules:`, its rules, and what follows.
fn around_rules(role: &str) -> Option<(Vec<&str>, Vec<&str>, Vec<&str>)> {
    let lines: Vec<&str> = role.lines().collect();
    let begin = lines.iter().position(|line| line.trim_end() == "rules:")? + 1;
    let is_next = |line: &&str| !line.is_empty() && !line.starts_with([' ', '-', '#']);
    let length = lines[begin..].iter().position(is_next).unwrap_or(lines.len() - begin);
    let (head, rest) = lines.split_at(begin);
    let (rules, tail) = rest.split_at(length);
    Some((head.to_vec(), rules.to_vec(), tail.to_vec()))
}

/// The rules of a role, each with the comments before it.
fn chunks(rules: &[&str]) -> Vec<(Vec<String>, Vec<String>)> {
    let mut chunks: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    let mut comments = Vec::new();
    for line in rules {
        let trimmed = line.trim_start();
        if trimmed.starts_with('#') || trimmed.is_empty() {
            comments.push((*line).to_owned());
        } else if trimmed.starts_with("- ") && line.contains(':') {
            chunks.push((std::mem::take(&mut comments), vec![(*line).to_owned()]));
        } else if let Some((_, body)) = chunks.last_mut() {
            body.append(&mut comments);
            body.push((*line).to_owned());
        }
    }
    if !comments.is_empty() {
        chunks.push((comments, Vec::new()));
    }
    chunks
}

/// A role without what is too much.
fn without(role: &str, scope: &Scope, excess: &[Access]) -> String {
    let Some((head, rules, tail)) = around_rules(role) else { return role.to_owned() };
    let mut lines: Vec<String> = head.into_iter().map(str::to_owned).collect();
    for (comments, body) in chunks(&rules) {
        let parsed: Value = serde_saphyr::from_str(&body.join("\n")).unwrap_or_default();
        let grants = granted(&parsed, scope);
        let kept: Vec<Access> =
            grants.iter().filter(|grant| !excess.contains(grant)).cloned().collect();
        if kept.len() == grants.len() {
            lines.extend(comments.into_iter().chain(body));
        } else if !kept.is_empty() {
            lines.extend(comments);
            lines.extend(rendered(&kept));
        }
    }
    lines.extend(tail.into_iter().map(str::to_owned));
    lines.join("\n") + "\n"
}

/// A role with more rules.
fn with(role: &str, missing: &[Access]) -> String {
    let role = role.replace("rules: []\n", "rules:\n");
    let Some((head, rules, tail)) = around_rules(&role) else { return role };
    let mut lines: Vec<String> = head.into_iter().chain(rules).map(str::to_owned).collect();
    lines.extend(rendered(missing));
    lines.extend(tail.into_iter().map(str::to_owned));
    lines.join("\n") + "\n"
}

/// A role and its binding, for a scope that has none.
fn new_role(operator: &Operator, scope: &Scope, missing: &[Access]) -> [String; 2] {
    let account = &operator.account;
    let (kind, binding, place) = match scope {
        Scope::Cluster => ("ClusterRole", "ClusterRoleBinding", String::new()),
        Scope::Namespace(name) => ("Role", "RoleBinding", format!("  namespace: {name}\n")),
    };
    let api = "rbac.authorization.k8s.io";
    let begin = |kind: &str| {
        format!("apiVersion: {api}/v1\nkind: {kind}\nmetadata:\n  name: {account}\n{place}")
    };
    let rules = rendered(missing).join("\n");
    let subject = format!("name: {account}\n    namespace: {}", operator.namespace);
    [
        format!("{}rules:\n{rules}\n", begin(kind)),
        format!(
            "{}roleRef:\n  apiGroup: {api}\n  kind: {kind}\n  name: {account}\nsubjects:\n  - kind: \
             ServiceAccount\n    {subject}\n",
            begin(binding)
        ),
    ]
}

/// Rules that grant this, as lines. Resources of a group with the same verbs share one.
fn rendered(grants: &[Access]) -> Vec<String> {
    /// The group, the name if it is limited to one, the resources and the verbs.
    type Rule<'a> = (&'a str, &'a Option<String>, Vec<&'a str>, Vec<&'a Verb>);

    let mut verbs: BTreeMap<(&str, &Option<String>, &str), Vec<&Verb>> = BTreeMap::new();
    for Access { group, resource, name, verb, .. } in grants {
        verbs.entry((group, name, resource)).or_default().push(verb);
    }
    let mut rules: Vec<Rule<'_>> = Vec::new();
    for ((group, name, resource), mut verbs) in verbs {
        verbs.sort();
        verbs.dedup();
        let same =
            rules.iter_mut().find(|rule| (rule.0, rule.1) == (group, name) && rule.3 == verbs);
        match same {
            Some(rule) => rule.2.push(resource),
            None => rules.push((group, name, vec![resource], verbs)),
        }
    }
    let mut lines = Vec::new();
    for (group, name, resources, verbs) in rules {
        lines.push(format!("  - apiGroups: {}", list(&[group])));
        lines.push(format!("    resources: {}", list(&resources)));
        if let Some(name) = name {
            lines.push(format!("    resourceNames: {}", list(&[name])));
        }
        let verbs: Vec<&str> = verbs.iter().map(|verb| verb.0.as_str()).collect();
        lines.push(format!("    verbs: {}", list(&verbs)));
    }
    lines
}

/// A list in one line.
fn list(items: &[&str]) -> String {
    let is_plain = |item: &str| {
        item.starts_with(|first: char| first.is_ascii_alphabetic())
            && item.chars().all(|one| one.is_ascii_alphanumeric() || "-./".contains(one))
    };
    let mut text = String::from("[");
    for (index, item) in items.iter().enumerate() {
        let sign = if index == 0 { "" } else { ", " };
        // A string of JSON is one of YAML.
        let item = if is_plain(item) { (*item).to_owned() } else { format!("{item:?}") };
        let _ = write!(text, "{sign}{item}");
    }
    text + "]"
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# The account.
apiVersion: v1
kind: ServiceAccount
metadata:
  name: shop
  namespace: shop
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: shop
rules:
  # What a shop owns.
  - apiGroups: [apps]
    resources: [deployments]
    verbs: [get, list, watch]
  # Services come and go.
  - apiGroups: [\"\"]
    resources: [services, configmaps]
    verbs: [patch, delete]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: shop
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: shop
subjects:
  - kind: ServiceAccount
    name: shop
    namespace: shop
";

    fn access(scope: &Scope, group: &str, resource: &str, verb: &str) -> Access {
        Access {
            scope: scope.clone(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            name: None,
            verb: Verb(verb.to_owned()),
        }
    }

    fn needs(wanted: &[(&str, &str, &[&str])]) -> Needs {
        let mut needs = Needs::new();
        for (group, resource, verbs) in wanted {
            for verb in *verbs {
                let reason = format!("controller shop wrote `{verb} {resource} a/b` in test t");
                needs.insert(access(&Scope::Cluster, group, resource, verb), reason);
            }
        }
        needs
    }

    fn as_granted() -> Needs {
        needs(&[
            ("apps", "deployments", &["get", "list", "watch"]),
            ("", "services", &["patch", "delete"]),
            ("", "configmaps", &["patch", "delete"]),
        ])
    }

    fn read(text: &str) -> Manifests {
        Manifests::read(Path::new("nowhere/rbac.yaml"), text).expect("manifests")
    }

    fn rewritten(needs: &Needs) -> String {
        rewrite(Path::new("nowhere/rbac.yaml"), FILE, needs, true).expect("a file")
    }

    #[test]
    fn file_that_grants_what_is_needed_stays_as_it_is() {
        let needs = as_granted();
        assert!(Difference::between(&needs, &read(FILE).grants).is_empty());
        assert_eq!(rewritten(&needs), FILE);
    }

    #[test]
    fn verb_that_was_taken_away_is_missing_and_the_write_is_named() {
        let text = FILE.replace("[patch, delete]", "[delete]");
        let shown = Difference::between(&as_granted(), &read(&text).grants).to_string();
        assert_eq!(
            shown,
            "+ patch configmaps is missing: controller shop wrote `patch configmaps a/b` in test t\n\
             + patch services is missing: controller shop wrote `patch services a/b` in test t\n"
        );
    }

    #[test]
    fn verb_that_nothing_needs_is_too_much() {
        let mut needs = as_granted();
        needs.remove(&access(&Scope::Cluster, "", "services", "delete"));
        let shown = Difference::between(&needs, &read(FILE).grants).to_string();
        assert_eq!(shown, "- delete services is too much: nothing needs it\n");
    }

    #[test]
    fn wildcard_is_too_much_although_it_grants_what_is_needed() {
        let text = FILE.replace("[get, list, watch]", "['*']");
        let shown = Difference::between(&as_granted(), &read(&text).grants).to_string();
        assert_eq!(
            shown,
            "- * deployments.apps is too much: all that is needed of it is `get deployments.apps`, \
             `list deployments.apps`, `watch deployments.apps`\n"
        );
        let written =
            rewrite(Path::new("nowhere/rbac.yaml"), &text, &as_granted(), true).expect("a file");
        assert!(written.contains("resources: [deployments]\n    verbs: [get, list, watch]\n"));
    }

    #[test]
    fn only_the_rules_that_change_are_written_anew() {
        let mut needs = as_granted();
        needs.remove(&access(&Scope::Cluster, "", "services", "delete"));
        needs.insert(access(&Scope::Cluster, "apps", "deployments", "patch"), String::new());
        let written = rewritten(&needs);
        let rules = "\
rules:
  # What a shop owns.
  - apiGroups: [apps]
    resources: [deployments]
    verbs: [get, list, watch]
  # Services come and go.
  - apiGroups: [\"\"]
    resources: [configmaps]
    verbs: [patch, delete]
  - apiGroups: [\"\"]
    resources: [services]
    verbs: [patch]
  - apiGroups: [apps]
    resources: [deployments]
    verbs: [patch]
---
";
        assert!(written.contains(rules), "{written}");
        assert!(written.starts_with("# The account.\n"), "{written}");
    }

    #[test]
    fn nothing_is_removed_while_tests_fail() {
        let needs = needs(&[("", "secrets", &["get"])]);
        let written = rewrite(Path::new("nowhere/rbac.yaml"), FILE, &needs, false).expect("a file");
        let added = "  - apiGroups: [\"\"]\n    resources: [secrets]\n    verbs: [get]\n";
        assert_eq!(written.replace(added, ""), FILE);
        assert_ne!(written, FILE);
    }

    #[test]
    fn right_in_one_namespace_gets_a_role_there() {
        let mut needs = as_granted();
        let own = Scope::Namespace("shop".to_owned());
        needs.insert(access(&own, "coordination.k8s.io", "leases", "get"), String::new());
        let written = rewritten(&needs);
        assert!(written.starts_with(FILE), "{written}");
        assert!(
            written.contains("kind: Role\nmetadata:\n  name: shop\n  namespace: shop\nrules:\n")
        );
        // In the whole cluster it would be too much.
        let text = FILE.replace("[deployments]", "[deployments, x]");
        needs.insert(access(&own, "apps", "x", "get"), String::new());
        let shown = Difference::between(&needs, &read(&text).grants).to_string();
        assert!(
            shown.contains(
                "- get x.apps is too much: all that is needed of it is `get x.apps in shop`"
            ),
            "{shown}"
        );
    }

    #[test]
    fn operator_without_roles_gets_them() {
        let text = super::super::manifests::first("shop");
        let written =
            rewrite(Path::new("nowhere/rbac.yaml"), &text, &as_granted(), true).expect("a file");
        assert!(Difference::between(&as_granted(), &read(&written).grants).is_empty());
    }
}
