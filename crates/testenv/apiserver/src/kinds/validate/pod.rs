//! Validation of a pod spec, in a pod or in a template.

use serde_json::{Value, json};

use super::change::{changed, with_names};
use super::values::text;
use crate::field_error::FieldError;

/// The error for a malformed container name.
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                     start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
                     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

/// The longest container name.
const LABEL_MAX: usize = 63;

/// What a pod does when a container ends.
const RESTART_POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];

/// Validates the pod spec at `path`.
pub(super) fn pod_spec(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut names: Vec<&str> = Vec::new();
    let volumes: Vec<&str> =
        list(spec, "volumes").iter().filter_map(|volume| text(volume, "name")).collect();
    if list(spec, "containers").is_empty() {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    for field in ["containers", "initContainers"] {
        for (index, container) in list(spec, field).iter().enumerate() {
            let path = format!("{path}.{field}[{index}]");
            self::container(container, &path, &volumes, errors);
            let Some(name) = text(container, "name") else { continue };
            if names.contains(&name) {
                errors.push(FieldError::duplicate(format!("{path}.name"), &json!(name)));
            }
            names.push(name);
        }
    }
    if let Some(policy) = text(spec, "restartPolicy")
        && !RESTART_POLICIES.contains(&policy)
    {
        let field = format!("{path}.restartPolicy");
        errors.push(FieldError::not_supported(field, &json!(policy), &RESTART_POLICIES));
    }
}

/// The fields of a pod spec that may change, as the real server lists them.
const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,\
                         `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
                         tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 \
                         if it was previously negative)";

/// Validates a change of the spec of a pod. The new spec itself is valid.
pub(super) fn spec_update(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    if old == new {
        return;
    }
    for field in ["containers", "initContainers"] {
        if list(old, field).len() != list(new, field).len() {
            let detail = "pod updates may not add or remove containers";
            errors.push(FieldError::forbidden(format!("spec.{field}"), detail));
            return;
        }
        // The real server repeats this error, which it has listed for the new spec already.
        for (index, container) in list(new, field).iter().enumerate() {
            if text(container, "image").is_none() {
                errors.push(FieldError::required(format!("spec.{field}[{index}].image"), ""));
            }
        }
    }
    match deadline(&old["activeDeadlineSeconds"], &new["activeDeadlineSeconds"]) {
        Some((error, Deadline::Increased)) => {
            errors.push(error);
            return;
        }
        Some((error, Deadline::Unset)) => errors.push(error),
        None => {}
    }
    tolerations(old, new, errors);
    gates(old, new, errors);
    let compared = with_updatable(old, new);
    let found: Vec<&str> = changed(old, &compared, &[]).collect();
    if !found.is_empty() {
        let words = format!("pod updates may not change fields other than {UPDATABLE}");
        errors.push(FieldError::forbidden("spec", &with_names(&words, &found)));
    }
}

/// A forbidden change of a deadline.
enum Deadline {
    /// No other fields are checked then.
    Increased,
    Unset,
}

/// Checks a deadline: it may be set once, and then only decrease.
fn deadline(old: &Value, new: &Value) -> Option<(FieldError, Deadline)> {
    let refused = |detail: &str| FieldError::invalid("spec.activeDeadlineSeconds", new, detail);
    match (old.as_i64(), new.as_i64()) {
        (Some(old), Some(new)) if old < new => {
            Some((refused("must be less than or equal to previous value"), Deadline::Increased))
        }
        (Some(_), None) => {
            let detail = "must not update from a positive integer to nil value";
            Some((refused(detail), Deadline::Unset))
        }
        _ => None,
    }
}

/// Checks that tolerations are kept, except for their seconds.
fn tolerations(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let stays = |held: &Value| {
        list(new, "tolerations")
            .iter()
            .any(|given| changed(held, given, &["tolerationSeconds"]).next().is_none())
    };
    if !list(old, "tolerations").iter().all(stays) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(FieldError::forbidden("spec.tolerations", detail));
    }
}

/// Checks that scheduling gates are only removed.
fn gates(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let held: Vec<_> = list(old, "schedulingGates").iter().map(|gate| &gate["name"]).collect();
    for (index, gate) in list(new, "schedulingGates").iter().enumerate() {
        if !held.contains(&&gate["name"]) {
            let name = text(gate, "name").unwrap_or_default();
            let detail =
                format!("only deletion is allowed, but found new scheduling gate '{name}'");
            let field = format!("spec.schedulingGates[{index}].name");
            errors.push(FieldError::forbidden(field, &detail));
        }
    }
}

/// Returns the new spec with the old values of all fields that may change.
fn with_updatable(old: &Value, new: &Value) -> Value {
    let mut compared = new.clone();
    for field in ["containers", "initContainers"] {
        let containers = compared.get_mut(field).and_then(Value::as_array_mut);
        for (container, held) in containers.into_iter().flatten().zip(list(old, field)) {
            container["image"] = held["image"].clone();
        }
    }
    let mut keep = |field: &str| compared[field] = old[field].clone();
    keep("activeDeadlineSeconds");
    keep("tolerations");
    keep("schedulingGates");
    let grace = "terminationGracePeriodSeconds";
    if old[grace].as_i64().is_some_and(|seconds| seconds < 0) && new[grace] == 1 {
        keep(grace);
    }
    // A pod with scheduling gates may change where it is scheduled. The change itself is not
    // checked.
    if !list(old, "schedulingGates").is_empty() {
        keep("nodeSelector");
        compared["affinity"]["nodeAffinity"] = old["affinity"]["nodeAffinity"].clone();
    }
    compared
}

/// Checks that a container has a name and an image, that its ports have numbers, and that its
/// mounts have volumes.
fn container(container: &Value, path: &str, volumes: &[&str], errors: &mut Vec<FieldError>) {
    match text(container, "name") {
        None => errors.push(FieldError::required(format!("{path}.name"), "")),
        Some(name) => container_name(name, path, errors),
    }
    if text(container, "image").is_none() {
        errors.push(FieldError::required(format!("{path}.image"), ""));
    }
    for (index, port) in list(container, "ports").iter().enumerate() {
        let path = format!("{path}.ports[{index}]");
        if port.get("containerPort").is_none_or(|number| *number == 0) {
            errors.push(FieldError::required(format!("{path}.containerPort"), ""));
        } else {
            super::port_number(port, "containerPort", &path, errors);
        }
    }
    for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
        let name = text(mount, "name").unwrap_or_default();
        if !volumes.contains(&name) {
            errors.push(FieldError {
                reason: "FieldValueNotFound",
                message: format!("Not found: {name:?}"),
                field: format!("{path}.volumeMounts[{index}].name"),
            });
        }
    }
}

/// Checks that the name of a container is a label.
fn container_name(name: &str, path: &str, errors: &mut Vec<FieldError>) {
    let mut invalid = |detail: &str| {
        errors.push(FieldError::invalid(format!("{path}.name"), &json!(name), detail));
    };
    if name.len() > LABEL_MAX {
        invalid("must be no more than 63 characters");
    }
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.chars().all(inner) || name.starts_with('-') || name.ends_with('-') {
        invalid(LABEL);
    }
}

/// The items of a list field.
fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
