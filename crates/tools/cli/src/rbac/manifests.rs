//! The manifests of an operator, and the rights that they grant.
//!
//! All YAML files of the folder are read: roles, bindings and the Deployment may be in different
//! ones.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::access::{Access, Target, Verb};
use super::document::{Document, documents, is_named_kustomization};
use super::grant::{Grant, granted};
use super::operator::{Bound, Operator};
use super::rules;

/// The built-in `ClusterRole` that grants the reviews for secure metrics.
const AUTH_DELEGATOR: &str = "system:auth-delegator";

/// The content of the manifests.
#[derive(Debug)]
pub(super) struct Manifests {
    pub(super) operator: Operator,
    /// The documents of all files. Those of the file of the Roles come first.
    pub(super) documents: Vec<Document>,
    /// The rights of the operator's account, in the order of the rules.
    pub(super) grants: Vec<Grant>,
    /// Roles that are bound to the account but not defined in the manifests.
    pub(super) unknown_roles: Vec<String>,
}

/// Returns the text of a new file of Roles: only the operator's account, unless another file of the
/// folder has it. The account is the one of the Deployment, or has the name of the package.
///
/// # Errors
/// If another file of the folder cannot be read, or is not valid YAML.
pub(super) fn first(file: &Path, package: &str) -> Result<String> {
    let text = "# Who the operator is, and what it may do: what it does, and nothing more.\n\
                # `cargo windlass rbac --check` compares it with what the tests show.\n";
    let others = beside(file)?;
    let (account, namespace) = match Operator::of(&others) {
        Some(operator) => (operator.account, operator.namespace),
        None => (object_name(package), object_name(package)),
    };
    let is_account = |document: &Document| {
        let value = &document.value;
        value["kind"] == "ServiceAccount" && value["metadata"]["name"] == account
    };
    if others.iter().any(is_account) {
        return Ok(text.to_owned());
    }
    Ok(format!(
        "{text}apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: {account}\n  \
         namespace: {namespace}\n"
    ))
}

/// Converts the name of a package to a valid object name: without `_` or upper-case letters, and
/// without `-` at either end.
fn object_name(package: &str) -> String {
    package.to_lowercase().replace('_', "-").trim_matches('-').to_owned()
}

/// Returns the folder of a file.
pub(super) fn folder_of(file: &Path) -> &Path {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

impl Manifests {
    /// Reads the folder of `file`. `text` is the content of the file itself.
    ///
    /// # Errors
    /// If a file cannot be read, or is not YAML, or there is no account.
    pub(super) fn read(file: &Path, text: &str) -> Result<Self> {
        let mut all = documents(file, text)?;
        all.extend(beside(file)?);
        let operator = Operator::of(&all).with_context(|| {
            format!("no ServiceAccount and no Deployment in {}", folder_of(file).display())
        })?;
        let (mut grants, mut unknown_roles) = (Vec::new(), Vec::new());
        for bound in operator.bound(&all) {
            match all.iter().find(|document| bound.is(&document.value, &operator)) {
                Some(role) if !role.is_aggregated() => grants.extend(grants_of(role, &bound)),
                None if bound.name == AUTH_DELEGATOR => grants.extend(delegated(&bound)),
                _ => unknown_roles.push(bound.to_string()),
            }
        }
        Ok(Self { operator, documents: all, grants, unknown_roles })
    }
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml")
        || is_named_kustomization(path)
}

/// Returns the documents of the other files in the folder of a file.
///
/// # Errors
/// If a file cannot be read, or is not valid YAML.
fn beside(file: &Path) -> Result<Vec<Document>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder_of(file)).into_iter().flatten() {
        paths.push(entry?.path());
    }
    paths.sort();
    let mut all = Vec::new();
    for path in paths.iter().filter(|path| is_manifest(path)) {
        if path.file_name() != file.file_name() {
            let text = fs::read_to_string(path);
            let text = text.with_context(|| format!("in {}", path.display()))?;
            all.extend(documents(path, &text)?);
        }
    }
    Ok(all)
}

/// Returns what a role grants to its subjects.
fn grants_of(role: &Document, bound: &Bound) -> Vec<Grant> {
    let kept = rules::kept(&role.text);
    let mut grants = Vec::new();
    let rules = role.value["rules"].as_array().into_iter().flatten();
    for (index, rule) in rules.enumerate() {
        let is_kept = kept.get(index).copied().unwrap_or_default();
        grants.extend(granted(rule, &bound.scope).into_iter().map(|access| Grant {
            access,
            is_kept,
            role: bound.to_string(),
            file: Some(role.file.clone()),
        }));
    }
    grants
}

/// Returns what [`AUTH_DELEGATOR`] grants.
fn delegated(bound: &Bound) -> Vec<Grant> {
    let reviews = [
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    ];
    let grant = |(group, resource): (&str, &str)| Grant {
        access: Access {
            scope: bound.scope.clone(),
            target: Target::resource(group, resource),
            name: None,
            verb: Verb("create".to_owned()),
        },
        is_kept: false,
        role: bound.to_string(),
        file: None,
    };
    reviews.into_iter().map(grant).collect()
}

#[cfg(test)]
mod tests {
    use super::super::document::KUSTOMIZATIONS;
    use super::*;

    const ROLE: &str = "kind: ClusterRole\nmetadata: {name: manager-role}\nrules:\n\
        - {apiGroups: [''], resources: [pods], verbs: [get]}\n";
    const ACCOUNT: &str = "kind: ServiceAccount\nmetadata: {name: manager, namespace: system}\n";

    fn binding(kind: &str, role: &str, subject: &str) -> String {
        format!(
            "kind: {kind}Binding\nmetadata: {{name: b, namespace: system}}\n\
             roleRef: {{kind: {kind}, name: {role}}}\nsubjects: [{subject}]\n"
        )
    }

    /// Returns the rights and the unknown roles in a folder with these files. Roles are in the
    /// first.
    fn read(files: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            fs::write(folder.path().join(name), text).expect("written");
        }
        let (name, text) = files[0];
        let read = Manifests::read(&folder.path().join(name), text).expect("manifests");
        let grants = read.grants.iter().map(|grant| grant.access.to_string());
        (grants.collect(), read.unknown_roles)
    }

    fn granted(files: &[(&str, &str)]) -> Vec<String> {
        read(files).0
    }

    #[test]
    fn roles_bindings_and_accounts_may_be_in_different_files() {
        let subject = "{kind: ServiceAccount, name: manager, namespace: system}";
        let binding = binding("ClusterRole", "manager-role", subject);
        let account = ("service_account.yaml", ACCOUNT);
        let (role, binding) = (("role.yaml", ROLE), ("role_binding.yaml", &*binding));
        assert_eq!(granted(&[role, binding, account]), ["get pods"]);
        assert_eq!(granted(&[binding, role, account]), ["get pods"]);
    }

    #[test]
    fn account_may_be_bound_as_a_user_or_by_its_groups() {
        for (kind, name, is_bound) in [
            ("User", "system:serviceaccount:system:manager", true),
            ("User", "system:serviceaccount:other:manager", false),
            ("Group", "system:serviceaccounts", true),
            ("Group", "system:serviceaccounts:system", true),
            ("Group", "system:serviceaccounts:other", false),
        ] {
            let subject = format!("{{kind: {kind}, name: '{name}'}}");
            let binding = binding("ClusterRole", "manager-role", &subject);
            let file = format!("{ACCOUNT}---\n{ROLE}---\n{binding}");
            assert_eq!(granted(&[("rbac.yaml", &file)]).len(), usize::from(is_bound), "{name}");
        }
    }

    #[test]
    fn namespace_of_a_kustomization_is_that_of_all_objects() {
        let role = ROLE.replace("ClusterRole", "Role").replace("name: ", "namespace: a, name: ");
        let subject = "{kind: ServiceAccount, name: manager, namespace: system}";
        let binding = binding("Role", "manager-role", subject);
        let file = format!("{ACCOUNT}---\n{role}---\n{binding}");
        let file = ("rbac.yaml", &*file);
        assert_eq!(granted(&[file]), [""; 0], "the role is in another namespace");
        for kind in ["", "kind: Kustomization\n"] {
            for name in KUSTOMIZATIONS {
                let text = format!("{kind}namespace: shop\nresources: [rbac.yaml]\n");
                assert_eq!(granted(&[file, (name, &text)]), ["get pods in shop"], "{name}");
            }
        }
        assert_eq!(granted(&[file, ("values.yaml", "namespace: shop\n")]), [""; 0]);
    }

    #[test]
    fn role_that_is_not_there_or_is_aggregated_is_unknown() {
        let subject = "{kind: ServiceAccount, name: manager}";
        let binding = binding("ClusterRole", "manager-role", subject);
        let unknown = (Vec::new(), vec!["ClusterRole manager-role".to_owned()]);
        assert_eq!(read(&[("rbac.yaml", &format!("{ACCOUNT}---\n{binding}"))]), unknown);
        let aggregated = format!("{ROLE}aggregationRule: {{clusterRoleSelectors: []}}\n");
        let file = format!("{ACCOUNT}---\n{aggregated}---\n{binding}");
        assert_eq!(read(&[("rbac.yaml", &file)]), unknown);
    }

    #[test]
    fn comments_and_directives_are_no_documents() {
        let text = "%YAML 1.2\n---\n# Nothing.\n--- # More.\na: b\n---\n";
        let documents = documents(Path::new("a.yaml"), text).expect("documents");
        let is_there = documents.iter().filter(|document| !document.value.is_null());
        assert_eq!(is_there.count(), 1);
        assert_eq!(documents.iter().map(|one| one.text.as_str()).collect::<String>(), text);
    }
}
