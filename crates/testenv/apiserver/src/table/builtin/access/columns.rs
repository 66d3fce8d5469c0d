//! The columns of bindings, as kube-apiserver v1.36.3 defines them.

use crate::table::column::{AGE, Column, NAME, text};

pub(super) const CLUSTERROLEBINDINGS: &[Column] = &[
    NAME,
    text(
        "Role",
        "RoleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot \
         be resolved, the Authorizer must return an error.",
    ),
    AGE,
    text("Users", "Users in the clusterRoleBinding").wide(),
    text("Groups", "Groups in the clusterRoleBinding").wide(),
    text("ServiceAccounts", "ServiceAccounts in the clusterRoleBinding").wide(),
];

pub(super) const ROLEBINDINGS: &[Column] = &[
    NAME,
    text(
        "Role",
        "RoleRef can reference a Role in the current namespace or a ClusterRole in the global \
         namespace. If the RoleRef cannot be resolved, the Authorizer must return an error.",
    ),
    AGE,
    text("Users", "Users in the roleBinding").wide(),
    text("Groups", "Groups in the roleBinding").wide(),
    text("ServiceAccounts", "ServiceAccounts in the roleBinding").wide(),
];
