//! Validation of RBAC roles and bindings.

use serde_json::{Value, json};

use super::values::text;
use crate::field_error::FieldError;
use crate::metadata::NameRule;
use crate::rbac::rule::GROUP;

/// Checks that a role has rules with verbs, and with either resources or paths.
pub(super) fn role(object: &Value, namespaced: bool, errors: &mut Vec<FieldError>) {
    for (at, rule) in items(object, "rules").enumerate() {
        policy_rule(rule, namespaced, &format!("rules[{at}]"), errors);
    }
    let aggregation = object.get("aggregationRule").filter(|rule| rule.is_object());
    if let Some(aggregation) = aggregation
        && !namespaced
        && items(aggregation, "clusterRoleSelectors").next().is_none()
    {
        errors.push(FieldError::required(
            "aggregationRule.clusterRoleSelectors",
            "at least one clusterRoleSelector required if aggregationRule is non-nil",
        ));
    }
}

fn policy_rule(rule: &Value, namespaced: bool, path: &str, errors: &mut Vec<FieldError>) {
    let has = |field: &str| items(rule, field).next().is_some();
    if !has("verbs") {
        let detail = "verbs must contain at least one value";
        errors.push(FieldError::required(format!("{path}.verbs"), detail));
    }
    if has("nonResourceURLs") {
        let mut invalid = |detail: &str| {
            let (field, value) = (format!("{path}.nonResourceURLs"), &rule["nonResourceURLs"]);
            errors.push(FieldError::invalid(field, value, detail));
        };
        if namespaced {
            invalid("namespaced rules cannot apply to non-resource URLs");
        }
        if has("apiGroups") || has("resources") || has("resourceNames") {
            invalid("rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    for (field, detail) in [
        ("apiGroups", "resource rules must supply at least one api group"),
        ("resources", "resource rules must supply at least one resource"),
    ] {
        if !has(field) {
            errors.push(FieldError::required(format!("{path}.{field}"), detail));
        }
    }
}

/// Checks that a binding names a role and valid subjects.
pub(super) fn binding(object: &Value, namespaced: bool, errors: &mut Vec<FieldError>) {
    let role = &object["roleRef"];
    // A missing group has a default.
    if let Some(group) = text(role, "apiGroup").filter(|group| *group != GROUP) {
        errors.push(FieldError::not_supported("roleRef.apiGroup", &json!(group), &[GROUP]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    let kind = text(role, "kind").unwrap_or_default();
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported("roleRef.kind", &json!(kind), kinds));
    }
    match text(role, "name") {
        None => errors.push(FieldError::required("roleRef.name", "")),
        Some(name) => {
            let wrong = NameRule::Path.check(name).into_iter();
            errors.extend(wrong.map(|why| FieldError::invalid_str("roleRef.name", name, &why)));
        }
    }
    for (at, one) in items(object, "subjects").enumerate() {
        subject(one, namespaced, &format!("subjects[{at}]"), errors);
    }
}

fn subject(subject: &Value, namespaced: bool, path: &str, errors: &mut Vec<FieldError>) {
    let field = |name: &str| text(subject, name).unwrap_or_default();
    let (kind, name, group) = (field("kind"), field("name"), field("apiGroup"));
    if name.is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    }
    match kind {
        "ServiceAccount" => {
            let wrong = NameRule::Subdomain.check(name).into_iter().filter(|_| !name.is_empty());
            errors.extend(
                wrong.map(|why| FieldError::invalid_str(format!("{path}.name"), name, &why)),
            );
            if !group.is_empty() {
                let field = format!("{path}.apiGroup");
                errors.push(FieldError::not_supported(field, &json!(group), &[""]));
            }
            if !namespaced && field("namespace").is_empty() {
                errors.push(FieldError::required(format!("{path}.namespace"), ""));
            }
        }
        "User" | "Group" if group == GROUP => {}
        "User" | "Group" => {
            let field = format!("{path}.apiGroup");
            errors.push(FieldError::not_supported(field, &json!(group), &[GROUP]));
        }
        _ => {
            let kinds = ["ServiceAccount", "User", "Group"];
            let field = format!("{path}.kind");
            errors.push(FieldError::not_supported(field, &json!(kind), &kinds));
        }
    }
}

/// Checks that a binding keeps its role.
pub(crate) fn binding_update(old: &Value, new: &Value) -> Option<FieldError> {
    let role = |object: &Value| {
        let field = |name: &str| object["roleRef"][name].as_str().unwrap_or_default().to_owned();
        json!({"APIGroup": field("apiGroup"), "Kind": field("kind"), "Name": field("name")})
    };
    let (old, new) = (role(old), role(new));
    (old != new).then(|| FieldError::invalid("roleRef", &new, "cannot change roleRef"))
}

fn items<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}
