//! A new role, for rights in a scope without an editable role of the operator.

use super::access::{Access, Scope};
use super::manifests::Manifests;
use super::operator::Operator;
use super::rules::{self, DEFAULT_INDENTATION};

/// Returns a role with these rights, and its binding, as YAML documents.
pub(super) fn new_role(manifests: &Manifests, scope: &Scope, missing: &[Access]) -> [String; 2] {
    let Operator { account, namespace, .. } = &manifests.operator;
    let (kind, binding, place) = match scope {
        Scope::Cluster => ("ClusterRole", "ClusterRoleBinding", String::new()),
        Scope::Namespace(name) => ("Role", "RoleBinding", format!("  namespace: {name}\n")),
    };
    let is_used = |name: &String| {
        manifests.documents.iter().map(|document| &document.value).any(|value| {
            (value["kind"] == kind || value["kind"] == binding)
                && value["metadata"]["name"] == *name
        })
    };
    let mut name = account.clone();
    while is_used(&name) {
        name.push_str("-rights");
    }
    let api = "rbac.authorization.k8s.io";
    let begin = |kind: &str| {
        format!("---\napiVersion: {api}/v1\nkind: {kind}\nmetadata:\n  name: {name}\n{place}")
    };
    let rules = rules::rendered(missing, DEFAULT_INDENTATION).join("\n");
    let subject = format!("name: {account}\n    namespace: {namespace}");
    [
        format!("{}rules:\n{rules}\n", begin(kind)),
        format!(
            "{}roleRef:\n  apiGroup: {api}\n  kind: {kind}\n  name: {name}\nsubjects:\n  - kind: \
             ServiceAccount\n    {subject}\n",
            begin(binding)
        ),
    ]
}
