//! What the rules of roles grant.

use std::path::PathBuf;

use serde_json::Value;

use super::access::{Access, Scope, Target, Verb};
use super::document::text;

/// A right that a role grants to the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) access: Access,
    /// Whether a comment says that the rule is kept, whatever is needed.
    pub(super) is_kept: bool,
    /// The role, as in `ClusterRole shop`.
    pub(super) role: String,
    /// The file of the role; `None` if it is part of Kubernetes.
    pub(super) file: Option<PathBuf>,
}

/// Returns what a rule grants: one right for each verb on each resource or URL.
pub(super) fn granted(rule: &Value, scope: &Scope) -> Vec<Access> {
    let list = |field: &str| -> Vec<String> {
        rule[field].as_array().into_iter().flatten().map(text).collect()
    };
    let names = list("resourceNames");
    let names = if names.is_empty() { vec![None] } else { names.into_iter().map(Some).collect() };
    let mut grants = Vec::new();
    let mut grant = |target: &Target, name: &Option<String>| {
        for verb in list("verbs") {
            let (scope, target, name) = (scope.clone(), target.clone(), name.clone());
            grants.push(Access { scope, target, name, verb: Verb(verb) });
        }
    };
    for group in list("apiGroups") {
        for resource in list("resources") {
            for name in &names {
                grant(&Target::resource(&group, &resource), name);
            }
        }
    }
    for url in list("nonResourceURLs") {
        grant(&Target::Url(url), &None);
    }
    grants
}

#[cfg(test)]
impl From<Access> for Grant {
    fn from(access: Access) -> Self {
        Self { access, is_kept: false, role: String::new(), file: None }
    }
}
