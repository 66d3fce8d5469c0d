//! Fields that must keep their values after creation, with the errors of the real server.
//!
//! [`change`](super::change) decides what counts as a change.

use serde_json::{Value, json};

use super::super::defaults::Quantity;
use super::change::{changed, is_empty, is_same_field, with_names};
use super::pod;
use crate::field_error::{FieldError, go_value};
use crate::kind::{Kind, Origin};

/// The error text for most fields.
const FIXED: &str = "field is immutable";

/// The error text for the content of config maps and secrets.
const FIXED_IF_SET: &str = "field is immutable when `immutable` is set";

/// Validates the change of an object. The second value is whether the real server lists these
/// errors before the errors of the new object.
pub(super) fn errors(kind: &Kind, old: &Value, new: &Value) -> (Vec<FieldError>, bool) {
    let mut errors = Vec::new();
    if kind.origin != Origin::BuiltIn {
        return (errors, false);
    }
    let (old_spec, new_spec) = (&old["spec"], &new["spec"]);
    let comes_first = match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "configmaps") => {
            content(old, new, &["data", "binaryData"], &mut errors);
            true
        }
        ("", "secrets") => {
            fixed(old, new, "type", "type", &mut errors);
            content(old, new, &["data"], &mut errors);
            true
        }
        ("", "services") => {
            addresses(old_spec, new_spec, &mut errors);
            true
        }
        ("apps", "daemonsets") => {
            fixed(old_spec, new_spec, "selector", "spec.selector", &mut errors);
            true
        }
        ("apps", "deployments" | "replicasets") => {
            fixed(old_spec, new_spec, "selector", "spec.selector", &mut errors);
            false
        }
        ("apps", "statefulsets") => {
            stateful_set(old_spec, new_spec, &mut errors);
            false
        }
        ("batch", "jobs") => {
            job(old_spec, new_spec, &mut errors);
            false
        }
        ("", "persistentvolumeclaims") => {
            claim(old, new, &mut errors);
            false
        }
        ("", "pods") => {
            pod::spec_update(old_spec, new_spec, &mut errors);
            false
        }
        _ => false,
    };
    (errors, comes_first)
}

/// Checks that a field keeps its value.
fn fixed(old: &Value, new: &Value, field: &str, path: &str, errors: &mut Vec<FieldError>) {
    if !is_same_field(old, new, field) {
        let value = &new[field];
        let shown = if field == "selector" { go_selector(value) } else { go_value(value) };
        errors.push(FieldError::invalid_as(path, &shown, FIXED));
    }
}

/// Formats a label selector with its fields in Go's order.
fn go_selector(selector: &Value) -> String {
    let Some(fields) = selector.as_object() else { return go_value(selector) };
    let parts = ["matchLabels", "matchExpressions"].into_iter().filter_map(|name| {
        let value = fields.get(name)?;
        Some(format!("{name:?}:{}", go_value(value)))
    });
    format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
}

/// Checks that an immutable config map or secret keeps its content, and stays immutable.
fn content(old: &Value, new: &Value, fields: &[&str], errors: &mut Vec<FieldError>) {
    if old["immutable"] != true {
        return;
    }
    if new["immutable"] != true {
        errors.push(FieldError::forbidden("immutable", FIXED_IF_SET));
    }
    for field in fields {
        if !is_same_field(old, new, field) {
            errors.push(FieldError::forbidden(*field, FIXED_IF_SET));
        }
    }
}

/// Checks that a service keeps its addresses, unless it is or becomes an external name, or stays
/// headless.
fn addresses(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let is_name = |spec: &Value| spec["type"] == "ExternalName";
    let is_headless = |spec: &Value| spec["clusterIPs"] == json!(["None"]);
    if is_name(old) || is_name(new) || is_headless(old) && is_headless(new) {
        return;
    }
    let none = Vec::new();
    let list = |spec: &'_ Value| spec["clusterIPs"].as_array().unwrap_or(&none).clone();
    let (old, new) = (list(old), list(new));
    let refused = |index: usize, why: &str| {
        FieldError::invalid(format!("spec.clusterIPs[{index}]"), &json!(new), why)
    };
    if new.is_empty() && !old.is_empty() {
        errors.push(refused(0, "primary clusterIP can not be unset"));
        return;
    }
    // Adding or releasing a second address is allowed; changing one is not.
    let compared = if old.len() == new.len() { old.len() } else { old.len().min(1) };
    for index in (0..compared).filter(|&index| old[index] != new[index]) {
        errors.push(refused(index, "may not change once set"));
    }
}

/// Checks that an update of a stateful set only changes the fields that may change.
fn stateful_set(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    const FREE: [&str; 7] = [
        "replicas",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "ordinals",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    ];
    if changed(old, new, &FREE).next().is_some() {
        errors.push(FieldError::forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
             'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
             'minReadySeconds' are forbidden",
        ));
    }
}

/// Checks the immutable fields of a job. A suspended job may change parts of its template, which is
/// not checked.
fn job(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    if new["completionMode"] != "Indexed" {
        fixed(old, new, "completions", "spec.completions", errors);
    } else if !is_same_field(old, new, "completions") && new["completions"] != new["parallelism"] {
        let detail = "can only be modified in tandem with spec.parallelism";
        errors.push(FieldError::invalid("spec.completions", &new["completions"], detail));
    }
    fixed(old, new, "selector", "spec.selector", errors);
    if old["suspend"] != true {
        fixed(old, new, "template", "spec.template", errors);
    }
    for field in
        ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        fixed(old, new, field, &format!("spec.{field}"), errors);
    }
}

/// Checks that a claim keeps its spec. Only a bound claim may request more storage.
fn claim(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let is_bound = new["status"]["phase"] == "Bound";
    let (old_spec, new_spec) = (&old["spec"], &new["spec"]);
    let mut compared = new_spec.clone();
    let mut keep = |field: &str| compared[field] = old_spec[field].clone();
    if is_empty(&old_spec["volumeName"]) {
        keep("volumeName");
    }
    if old_spec.get("storageClassName").is_none() {
        keep("storageClassName");
    }
    if is_bound {
        keep("volumeAttributesClassName");
        compared["resources"]["requests"]["storage"] =
            old_spec["resources"]["requests"]["storage"].clone();
    }
    let found: Vec<&str> = changed(old_spec, &compared, &[]).collect();
    if !found.is_empty() {
        let words = "spec is immutable after creation except resources.requests and \
                     volumeAttributesClassName for bound claims";
        errors.push(FieldError::forbidden("spec", &with_names(words, &found)));
    }
    let size = |value: &Value| Quantity::parse(value);
    let [before, after] =
        [old_spec, new_spec].map(|spec| size(&spec["resources"]["requests"]["storage"]));
    let capacity = size(&old["status"]["capacity"]["storage"]);
    if after < before && after <= capacity {
        errors.push(FieldError::forbidden(
            "spec.resources.requests.storage",
            "field can not be less than status.capacity",
        ));
    }
    fixed(old_spec, new_spec, "volumeMode", "volumeMode", errors);
}
