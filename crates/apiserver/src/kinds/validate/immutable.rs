//! Which fields of an object keep the values that they were created with, in the words of the real
//! server.
//!
//! Values are compared as Go compares them: a field that is missing and one that is empty are the
//! same, and so are quantities of the same amount. A pointer to an empty value cannot be told from
//! none here, so a change from one to the other is accepted.

use serde_json::{Map, Value, json};

use super::super::defaults::Quantity;
use super::super::{Kind, Origin};
use super::pod;
use crate::field_error::{FieldError, go_value};

/// What the real server says of most fields.
const FIXED: &str = "field is immutable";

/// The same for the content of config maps and secrets.
const FIXED_IF_SET: &str = "field is immutable when `immutable` is set";

/// Fields with a map whose keys are up to the user: an entry that is empty is not none.
const MAPS: [&str; 6] =
    ["annotations", "binaryData", "data", "labels", "matchLabels", "nodeSelector"];

/// Fields that are, or consist of, quantities.
const AMOUNTS: [&str; 6] = ["capacity", "divisor", "limits", "overhead", "requests", "sizeLimit"];

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

/// Words about a spec with the fields that have changed. The real server shows a diff there.
pub(super) fn with_names(words: &str, fields: &[&str]) -> String {
    let named: Vec<String> = fields.iter().map(|field| format!("spec.{field}")).collect();
    format!("{words}\nchanged: {}", named.join(", "))
}

/// The fields of two objects that differ, but for those that may.
pub(super) fn changed<'a>(
    old: &'a Value,
    new: &'a Value,
    free: &'a [&str],
) -> impl Iterator<Item = &'a str> {
    let names = |value: &'a Value| value.as_object().into_iter().flatten().map(|(name, _)| name);
    let added = names(new).filter(|name| old.get(name.as_str()).is_none());
    let all = names(old).chain(added).map(String::as_str).filter(|name| !free.contains(name));
    all.filter(|name| !is_same_field(old, new, name))
}

fn is_same_field(one: &Value, other: &Value, name: &str) -> bool {
    let (one, other) = (&one[name], &other[name]);
    if MAPS.contains(&name) {
        let is_none = |value: &Value| value.as_object().is_none_or(Map::is_empty);
        return one == other || is_none(one) && is_none(other);
    }
    if AMOUNTS.contains(&name) { is_same_amount(one, other) } else { is_same(one, other) }
}

/// Whether two values are the same to Go.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (one, other) if one == other => true,
        (Value::Object(_), Value::Object(_)) => changed(one, other, &[]).next().is_none(),
        (Value::Array(ones), Value::Array(others)) => {
            ones.len() == others.len()
                && ones.iter().zip(others).all(|(one, other)| is_same(one, other))
        }
        (one, other) => is_empty(one) && is_empty(other),
    }
}

/// Whether two quantities, or maps of them, are of the same amounts.
fn is_same_amount(one: &Value, other: &Value) -> bool {
    match (one.as_object(), other.as_object()) {
        (Some(ones), Some(others)) => {
            let equals = |(name, one)| others.get(name).is_some_and(|o| is_same_amount(one, o));
            ones.len() == others.len() && ones.iter().all(equals)
        }
        (None, None) => {
            let (amount, same) = (Quantity::parse(one), Quantity::parse(other));
            one == other || amount.is_some() && amount == same
        }
        _ => is_empty(one) && is_empty(other),
    }
}

/// What Go leaves out of JSON, or could.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_empty_are_the_same_and_so_are_equal_amounts() {
        for (one, other) in [
            (json!({"a": {}}), json!({})),
            (json!({"a": null, "b": [], "c": "", "d": false, "e": 0}), json!({})),
            (
                json!({"limits": {"memory": "1Gi", "cpu": "500m"}}),
                json!({"limits": {"memory": "1024Mi", "cpu": 0.5}}),
            ),
            (json!([{"a": 1, "b": {}}]), json!([{"a": 1}])),
        ] {
            assert!(is_same(&one, &other) && is_same(&other, &one), "{one} {other}");
        }
        for (one, other) in [
            (json!({"a": 1}), json!({})),
            (json!({"a": "x"}), json!({"a": "y"})),
            (json!([1]), json!([1, 2])),
            (json!({"a": {"b": true}}), json!({"a": {}})),
            (json!("x"), json!("")),
            (json!({"data": {"a": ""}}), json!({"data": {}})),
            (json!({"data": {"a": "1"}}), json!({"data": {"a": "1.0"}})),
            (json!({"limits": {"cpu": 1}}), json!({"limits": {"cpu": 2}})),
        ] {
            assert!(!is_same(&one, &other) && !is_same(&other, &one), "{one} {other}");
        }
    }

    #[test]
    fn changed_fields_are_named_once() {
        let (old, new) = (json!({"a": 1, "b": 1, "c": 1}), json!({"b": 2, "c": 1, "d": 1}));
        assert_eq!(changed(&old, &new, &[]).collect::<Vec<_>>(), ["a", "b", "d"]);
        assert_eq!(changed(&old, &new, &["a", "d"]).collect::<Vec<_>>(), ["b"]);
    }
}
