//! Checks of a pod spec, in a pod or in a template.

use serde_json::{Value, json};

use super::text;
use crate::field_error::FieldError;

/// What the name of a container must look like.
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                     start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
                     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

/// The longest name of a container.
const LABEL_MAX: usize = 63;

/// What a pod does when a container ends.
const RESTART_POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];

/// Checks a pod spec that is found at `path`.
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

/// A container has a name and an image, its ports have numbers, and what it mounts exists.
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

/// The name of a container is a label.
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
