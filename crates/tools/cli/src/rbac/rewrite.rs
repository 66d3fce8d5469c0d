//! Edits the file of the Roles so that it grants exactly what is needed.
//!
//! The file is edited as text, rule by rule; see `rules`. A rule with excess rights is rewritten
//! below its comments, or removed if nothing remains. A wildcard is narrowed to the needed rights
//! that no other rule grants. Rights that are still missing become new rules at the end of a role.
//! Other files of the folder are only read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::access::{Access, Scope};
use super::difference::{Difference, Excess};
use super::document::Document;
use super::grant::Grant;
use super::manifests::Manifests;
use super::needs::Needs;
use super::new_role::new_role;
use super::rules;

/// The result of [`rewrite`].
#[derive(Debug)]
pub(super) struct Written {
    /// The text of the file.
    pub(super) text: String,
    /// Roles in other files that must change, as in `ClusterRole shop`, and the files.
    pub(super) elsewhere: BTreeSet<(String, PathBuf)>,
}

/// Edits the text of `file` so that it grants what is needed, and nothing else if `removes`.
///
/// # Errors
/// If the file cannot be read, or has a form that cannot be edited.
pub(super) fn rewrite(file: &Path, text: &str, needs: &Needs, removes: bool) -> Result<Written> {
    let by_hand = || {
        let file = file.display();
        format!(
            "{file} is written in a way that this cannot change: change it by hand, as shown above"
        )
    };
    let before = Manifests::read(file, text)?;
    let mut excess = Difference::between(needs, &before.grants).excess;
    excess.retain(|_| removes);
    let is_elsewhere = |path: &Option<PathBuf>| path.as_ref().is_some_and(|path| path != file);
    let mut elsewhere: BTreeSet<(String, PathBuf)> = excess
        .iter()
        .filter(|excess| is_elsewhere(&excess.grant.file))
        .filter_map(|excess| Some((excess.grant.role.clone(), excess.grant.file.clone()?)))
        .collect();

    let of_file = before.documents.iter().filter(|document| document.file == file);
    let mut parts: Vec<String> = of_file.map(|document| document.text.clone()).collect();
    // The documents of the file come first, so an index into `parts` is also one into
    // `before.documents`.
    let roles = roles(&before);
    let mut wanted = wanted(needs, &before.grants, &excess);
    for (index, part) in parts.iter_mut().enumerate() {
        if let Some((scope, ..)) = roles.iter().find(|(_, role, _)| *role == index) {
            *part = rules::without(part, scope, &excess, &mut wanted);
        }
    }
    let smaller = Manifests::read(file, &parts.concat()).with_context(by_hand)?;
    let missing = missing(needs, &smaller.grants);
    let mut by_scope: BTreeMap<&Scope, Vec<Access>> = BTreeMap::new();
    for access in &missing {
        by_scope.entry(&access.scope).or_default().push(access.clone());
    }
    let mut scopes_elsewhere = BTreeSet::new();
    let own = parts.len();
    for (scope, missing) in by_scope {
        // Prefers a role of this file, which has the lowest index.
        let role = roles.iter().filter(|(its, ..)| its == scope).min_by_key(|(_, index, _)| *index);
        match role {
            Some((_, index, _)) if *index < own => {
                parts[*index] = rules::with(&parts[*index], &missing);
            }
            Some((_, index, name)) => {
                elsewhere.insert((name.clone(), before.documents[*index].file.clone()));
                scopes_elsewhere.insert(scope.clone());
            }
            None => parts.extend(new_role(&before, scope, &missing)),
        }
    }
    // The result is parsed again: an edit without the intended effect is not written.
    let written = parts.concat();
    let after = Manifests::read(file, &written).with_context(by_hand)?;
    let mut left = Difference::between(needs, &after.grants);
    left.missing.retain(|(access, _)| !scopes_elsewhere.contains(&access.scope));
    left.excess.retain(|excess| removes && !is_elsewhere(&excess.grant.file));
    ensure!(left.is_empty(), by_hand());
    let ending = if text.contains("\r\n") { "\r\n" } else { "\n" };
    Ok(Written { text: written.replace('\n', ending), elsewhere })
}

/// Returns what would be missing if everything in `excess` was removed, except for the parts of
/// rules that name an object: these are kept in any case.
fn wanted(needs: &Needs, grants: &[Grant], excess: &[Excess]) -> BTreeSet<Access> {
    let is_excess = |grant: &&Grant| excess.iter().any(|excess| excess.grant == **grant);
    let mut left: Vec<Grant> = grants.iter().filter(|grant| !is_excess(grant)).cloned().collect();
    for Excess { grant, used } in excess {
        let parts = used.iter().filter(|used| used.is_within(&grant.access));
        left.extend(parts.map(|access| Grant { access: access.clone(), ..grant.clone() }));
    }
    missing(needs, &left)
}

/// Returns what is missing, without rights that other missing ones include.
fn missing(needs: &Needs, grants: &[Grant]) -> BTreeSet<Access> {
    let missing = Difference::between(needs, grants).missing;
    let is_included =
        |access: &Access| missing.iter().any(|(other, _)| other != access && other.covers(access));
    let accesses = missing.iter().map(|(access, _)| access);
    accesses.filter(|access| !is_included(access)).cloned().collect()
}

/// Returns the editable roles that are bound to the operator: their scope, the index of their
/// document, and their names.
fn roles(manifests: &Manifests) -> Vec<(Scope, usize, String)> {
    let Manifests { operator, documents, .. } = manifests;
    let mut roles = Vec::new();
    for bound in operator.bound(documents) {
        let is_role = |one: &Document| bound.is(&one.value, operator) && !one.is_aggregated();
        if let Some(index) = documents.iter().position(is_role) {
            roles.push((bound.scope.clone(), index, bound.to_string()));
        }
    }
    roles
}

#[cfg(test)]
mod tests {
    use super::super::access::{Target, Verb};
    use super::super::needs::Need;
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
            target: Target::resource(group, resource),
            name: None,
            verb: Verb(verb.to_owned()),
        }
    }

    fn need(reason: &str) -> Need {
        Need { reason: reason.to_owned(), ..Need::default() }
    }

    fn needs(wanted: &[(&str, &str, &[&str])]) -> Needs {
        let mut needs = Needs::new();
        for (group, resource, verbs) in wanted {
            for verb in *verbs {
                let reason = format!("controller shop wrote `{verb} {resource} a/b` in test t");
                needs.insert(access(&Scope::Cluster, group, resource, verb), need(&reason));
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

    fn rewrite_of(text: &str, needs: &Needs, removes: bool) -> String {
        let written = rewrite(Path::new("nowhere/rbac.yaml"), text, needs, removes);
        written.expect("a file").text
    }

    fn rewritten(needs: &Needs) -> String {
        rewrite_of(FILE, needs, true)
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
            "- * deployments.apps is too much: only `get deployments.apps`, `list \
             deployments.apps`, `watch deployments.apps` are needed\n"
        );
        assert_eq!(rewrite_of(&text, &as_granted(), true), FILE, "its comment stays");
    }

    #[test]
    fn of_several_wildcards_the_first_is_narrowed_to_what_no_other_rule_grants() {
        let wildcard =
            "  # For now.\n  - apiGroups: ['*']\n    resources: ['*']\n    verbs: ['*']\n";
        let both = FILE.replace("rules:\n", &format!("rules:\n{wildcard}{wildcard}"));
        assert_eq!(rewrite_of(&both, &as_granted(), true), FILE);
        let mut needs = as_granted();
        needs.insert(access(&Scope::Cluster, "", "secrets", "get"), need(""));
        let narrowed =
            "  # For now.\n  - apiGroups: [\"\"]\n    resources: [secrets]\n    verbs: [get]\n";
        let expected = FILE.replace("rules:\n", &format!("rules:\n{narrowed}"));
        assert_eq!(rewrite_of(&both, &needs, true), expected);
    }

    #[test]
    fn wildcard_for_the_cluster_is_not_narrowed_to_a_right_in_a_namespace() {
        let text = FILE.replace("[get, list, watch]", "['*']");
        let own = Scope::Namespace("shop".to_owned());
        let mut needs = Needs::from([(access(&own, "apps", "deployments", "get"), need(""))]);
        for resource in ["services", "configmaps"] {
            for verb in ["patch", "delete"] {
                needs.insert(access(&Scope::Cluster, "", resource, verb), need(""));
            }
        }
        let written = rewrite_of(&text, &needs, true);
        assert!(Difference::between(&needs, &read(&written).grants).is_empty(), "{written}");
        assert!(!written.contains("# What a shop owns."), "{written}");
    }

    #[test]
    fn wildcard_is_not_narrowed_to_what_a_rule_with_names_grants() {
        let named = "  - apiGroups: [\"\"]\n    resources: [secrets]\n    resourceNames: [db]\n";
        let named = format!("{named}    verbs: [get]\n");
        let wildcard = "  - apiGroups: [\"\"]\n    resources: [secrets]\n    verbs: ['*']\n";
        let text = FILE.replace("rules:\n", &format!("rules:\n{named}{wildcard}"));
        let mut needs = as_granted();
        let seen =
            Need { names: Some(["db".to_owned()].into()), is_observed: true, ..Need::default() };
        needs.insert(access(&Scope::Cluster, "", "secrets", "get"), seen);
        assert_eq!(rewrite_of(&text, &needs, true), text.replace(wildcard, ""));
    }

    #[test]
    fn only_the_rules_that_change_are_written_anew() {
        let mut needs = as_granted();
        needs.remove(&access(&Scope::Cluster, "", "services", "delete"));
        needs.insert(access(&Scope::Cluster, "apps", "deployments", "patch"), need(""));
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
        let written = rewrite_of(FILE, &needs, false);
        let added = "  - apiGroups: [\"\"]\n    resources: [secrets]\n    verbs: [get]\n";
        assert_eq!(written.replace(added, ""), FILE);
        assert_ne!(written, FILE);
    }

    #[test]
    fn right_in_one_namespace_gets_a_role_there() {
        let mut needs = as_granted();
        let own = Scope::Namespace("shop".to_owned());
        needs.insert(access(&own, "coordination.k8s.io", "leases", "get"), need(""));
        let written = rewritten(&needs);
        assert!(written.starts_with(FILE), "{written}");
        assert!(
            written.contains("kind: Role\nmetadata:\n  name: shop\n  namespace: shop\nrules:\n")
        );
        // Cluster-wide, it would be too much.
        let text = FILE.replace("[deployments]", "[deployments, x]");
        needs.insert(access(&own, "apps", "x", "get"), need(""));
        let shown = Difference::between(&needs, &read(&text).grants).to_string();
        assert!(
            shown.contains("- get x.apps is too much: only `get x.apps in shop` is needed"),
            "{shown}"
        );
    }

    #[test]
    fn operator_without_roles_gets_them() {
        let first = super::super::manifests::first(Path::new("nowhere/rbac.yaml"), "shop");
        let text = first.expect("a file");
        let written = rewrite_of(&text, &as_granted(), true);
        assert!(Difference::between(&as_granted(), &read(&written).grants).is_empty());
    }

    #[test]
    fn rules_are_indented_as_those_before_them() {
        let text = FILE.replace("\n  - api", "\n- api").replace("\n    resources", "\n  resources");
        let text = text.replace("\n    verbs", "\n  verbs");
        let mut needs = as_granted();
        needs.remove(&access(&Scope::Cluster, "", "services", "delete"));
        needs.insert(access(&Scope::Cluster, "", "secrets", "get"), need(""));
        let written = rewrite_of(&text, &needs, true);
        let rule = "\n- apiGroups: [\"\"]\n  resources: [services]\n  verbs: [patch]\n- api";
        assert!(written.contains(rule), "{written}");
    }

    #[test]
    fn lines_end_as_before() {
        let mut needs = as_granted();
        needs.insert(access(&Scope::Cluster, "", "secrets", "get"), need(""));
        let written = rewrite_of(&FILE.replace('\n', "\r\n"), &needs, true);
        assert_eq!(written, rewrite_of(FILE, &needs, true).replace('\n', "\r\n"));
    }

    #[test]
    fn file_that_cannot_be_changed_is_to_be_changed_by_hand() {
        let mut needs = as_granted();
        needs.insert(access(&Scope::Cluster, "", "secrets", "get"), need(""));
        let (head, rest) = FILE.split_once("rules:").expect("rules");
        let (_, tail) = rest.split_once("---").expect("a document");
        let in_a_line = "rules: [{apiGroups: [''], resources: [secrets], verbs: [list]}]\n---";
        let on_its_own = "rules:\n  [{apiGroups: [''], resources: [secrets], verbs: [list]}]\n---";
        // Without the first rule, the second is not valid YAML.
        let with_an_alias = "rules:\n- apiGroups: ['']\n  resources: [secrets]\n  verbs: &all \
             [list]\n- apiGroups: [apps]\n  resources: [deployments]\n  verbs: *all\n---";
        for rules in [in_a_line, on_its_own, with_an_alias] {
            let text = format!("{head}{rules}{tail}");
            let error = rewrite(Path::new("nowhere/rbac.yaml"), &text, &needs, true);
            let error = error.expect_err("it cannot be changed").to_string();
            assert!(error.ends_with("change it by hand, as shown above"), "{error}");
        }
    }

    #[test]
    fn rule_that_names_an_object_is_not_replaced_by_one_for_all() {
        let rule = "  - apiGroups: [\"\"]\n    resources: [secrets]\n    resourceNames: [db]\n";
        let text = FILE.replace("rules:\n", &format!("rules:\n{rule}    verbs: [get]\n"));
        let mut needs = as_granted();
        let seen =
            Need { names: Some(["db".to_owned()].into()), is_observed: true, ..Need::default() };
        needs.insert(access(&Scope::Cluster, "", "secrets", "get"), seen);
        assert_eq!(rewrite_of(&text, &needs, true), text);
        // It is still narrowed to what is needed.
        let broad = text.replace("verbs: [get]", "verbs: [\"*\"]");
        assert_eq!(rewrite_of(&broad, &needs, true), text);
    }

    #[test]
    fn rule_with_a_comment_that_says_so_stays() {
        let rule = "  # windlass: keep, creates RoleBindings\n  - apiGroups: \
                    [rbac.authorization.k8s.io]\n    resources: [roles]\n    verbs: [bind]\n";
        let text = FILE.replace("rules:\n", &format!("rules:\n{rule}"));
        let mut needs = as_granted();
        assert!(Difference::between(&needs, &read(&text).grants).is_empty());
        needs.remove(&access(&Scope::Cluster, "", "services", "delete"));
        let written = rewrite_of(&text, &needs, true);
        assert!(written.contains(rule), "{written}");
        let other = text.replace("windlass: keep", "please keep");
        assert!(!Difference::between(&needs, &read(&other).grants).is_empty());
    }

    #[test]
    fn rule_of_urls_grants_no_resource() {
        for verbs in ["[get]", "['*']"] {
            let rule = "  # windlass: keep\n  - nonResourceURLs: ['*']\n    verbs: ";
            let text = FILE.replace("rules:\n", &format!("rules:\n{rule}{verbs}\n"));
            let mut needs = as_granted();
            assert!(Difference::between(&needs, &read(&text).grants).is_empty());
            needs.insert(access(&Scope::Cluster, "", "secrets", "get"), need("a run"));
            let shown = Difference::between(&needs, &read(&text).grants).to_string();
            assert_eq!(shown, "+ get secrets is missing: a run\n");
        }
        // Without the comment, the rule is reported and removed like others.
        let rule = "  - nonResourceURLs: ['/metrics', '/debug/*']\n    verbs: [get]\n";
        let text = FILE.replace("rules:\n", &format!("rules:\n{rule}"));
        let shown = Difference::between(&as_granted(), &read(&text).grants).to_string();
        assert_eq!(
            shown,
            "- get /debug/* is too much: nothing needs it\n\
             - get /metrics is too much: nothing needs it\n"
        );
        assert_eq!(rewrite_of(&text, &as_granted(), true), FILE);
    }

    #[test]
    fn comments_after_the_rules_stay_after_new_rules() {
        let comment =
            "  # Not yet:\n  # windlass: keep\n  # - apiGroups: [batch]\n# The binding.\n";
        let end = "    verbs: [patch, delete]\n";
        let text = FILE.replace(end, &format!("{end}{comment}"));
        let mut needs = as_granted();
        needs.insert(access(&Scope::Cluster, "", "secrets", "get"), need(""));
        let written = rewrite_of(&text, &needs, true);
        let added = "  - apiGroups: [\"\"]\n    resources: [secrets]\n    verbs: [get]\n";
        assert_eq!(written, FILE.replace(end, &format!("{end}{added}{comment}")));
        // So the new rule is not kept when it is no longer needed.
        assert_eq!(rewrite_of(&written, &as_granted(), true), text);
    }

    #[test]
    fn aggregated_role_gets_no_rules() {
        let text =
            FILE.replace("rules:\n", "aggregationRule: {clusterRoleSelectors: []}\nrules:\n");
        let written = rewrite_of(&text, &as_granted(), true);
        assert!(written.starts_with(&text), "{written}");
        assert!(written.len() > text.len(), "{written}");
    }

    #[test]
    fn manifests_of_this_repository_can_be_read_and_stay_as_they_are() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        for folder in ["../../../examples/website-operator", "template", "template-added"] {
            let file = here.join(folder).join("deploy/rbac.yaml");
            let text = std::fs::read_to_string(&file).expect("a file");
            let read = Manifests::read(&file, &text).expect("manifests");
            assert_eq!(read.unknown_roles, [""; 0]);
            let needs = read.grants.into_iter().map(|grant| (grant.access, need(""))).collect();
            assert_eq!(rewrite(&file, &text, &needs, true).expect("a file").text, text);
        }
    }
}
