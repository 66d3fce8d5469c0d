//! Which fields of an object keep the values that they were created with, in the words of the real
//! server.
//!
//! What counts as a change is said in [`change`](super::change).

use serde_json::{Value, json};

use super::super::defaults::Quantity;
use super::change::{changed, is_empty, is_same_field, with_names};
use super::pod;
use crate::field_error::{FieldError, go_value};
use crate::kind::{Kind, Origin};

/// What the real server says of most fields.
const FIXED: &str = "field is immutable";

/// The same for the content of config maps and secrets.
const FIXED_IF_SET: &str = "field is immutable when `immutable` is set";

/// What is wrong with a change of an object, and whether the real server says it before it says
/// what is wrong with the new object itself.
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

/// A field that keeps its value.
fn fixed(old: &Value, new: &Value, field: &str, path: &str, errors: &mut Vec<FieldError>) {
    if !is_same_field(old, new, field) {
        let value = &new[field];
        let shown = if field == "selector" { go_selector(value) } else { go_value(value) };
        errors.push(FieldError::invalid_as(path, &shown, FIXED));
    }
}

/// A label selector with its fields in the order in which Go has them.
fn go_selector(selector: &Value) -> String {
    let Some(fields) = selector.as_object() else { return go_value(selector) };
    let parts = ["matchLabels", "matchExpressions"].into_iter().filter_map(|name| {
        let value = fields.get(name)?;
        Some(format!("{name:?}:{}", go_value(value)))
    });
    format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
}

/// The content of a config map or secret that is marked as immutable; so is the mark.
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

/// A service keeps its address, unless it is only a name, or becomes one or another one.
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
    // One that is added or released is another matter than one that changes.
    let compared = if old.len() == new.len() { old.len() } else { old.len().min(1) };
    for index in (0..compared).filter(|&index| old[index] != new[index]) {
        errors.push(refused(index, "may not change once set"));
    }
}

/// Most of a stateful set was used to make its pods and claims.
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

/// A job counts the pods of one template. That of a suspended job may change in part, which is not
/// checked.
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

/// A claim keeps its spec; only one that is bound may ask for more.
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
