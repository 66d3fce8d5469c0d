//! Validation of built-in kinds: the checks that authors of controllers are most likely to hit.
//!
//! The real server has thousands of checks. These are the ones for a wrong selector, a missing
//! image or a negative number, with the texts and in the order of the real server. Anything that is
//! not checked here is accepted. [`immutable`] has the fields that must not change. Metadata is
//! checked elsewhere.

mod change;
mod event;
mod immutable;
mod pod;
mod rbac;
mod values;
mod webhook;
mod workload;

use serde_json::{Map, Value, json};

use self::values::{not_negative, text};
use crate::field_error::FieldError;
use crate::kind::{Kind, Origin};
use crate::rbac::rule::GROUP;

pub(crate) use self::webhook::{check_review_versions, check_service, check_url};

/// The error for a malformed config key.
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
     'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// The longest config key.
const CONFIG_KEY_MAX: usize = 253;

/// Validates an object of a built-in kind, after defaulting and in its stored form.
pub(crate) fn validate_builtin(kind: &Kind, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if kind.origin != Origin::BuiltIn {
        return errors;
    }
    match kind.plural.as_str() {
        "configmaps" => config_map(object, &mut errors),
        "secrets" => secret(object, &mut errors),
        "leases" => lease(&object["spec"], &mut errors),
        "services" => service(&object["spec"], &mut errors),
        "persistentvolumeclaims" => claim(&object["spec"], &mut errors),
        "roles" | "clusterroles" => rbac::role(object, kind.namespaced, &mut errors),
        "rolebindings" | "clusterrolebindings" => {
            rbac::binding(object, kind.namespaced, &mut errors);
        }
        "events" => event::event(kind, object, &mut errors),
        "mutatingwebhookconfigurations" | "validatingwebhookconfigurations" => {
            webhook::configuration(object, &mut errors);
        }
        "pods" => pod::pod_spec(&object["spec"], "spec", &mut errors),
        _ => workload::workload(&kind.plural, object, &mut errors),
    }
    errors
}

/// Validates an update of an object of a built-in kind: the new object, and the change.
pub(crate) fn validate_builtin_update(kind: &Kind, old: &Value, new: &Value) -> Vec<FieldError> {
    let own = validate_builtin(kind, new);
    let (mut errors, comes_first) = immutable::errors(kind, old, new);
    if let (GROUP, "rolebindings" | "clusterrolebindings") = (&*kind.group, &*kind.plural) {
        errors.extend(rbac::binding_update(old, new));
    }
    if comes_first { [errors, own].concat() } else { [own, errors].concat() }
}

/// Requires a string field that is not empty.
fn require(value: &Value, field: &str, path: &str, errors: &mut Vec<FieldError>) {
    if text(value, field).is_none() {
        errors.push(FieldError::required(format!("{path}.{field}"), ""));
    }
}

/// The entries of a map field.
fn entries<'a>(value: &'a Value, field: &str) -> Option<&'a Map<String, Value>> {
    value.get(field).and_then(Value::as_object)
}

/// Checks that no key is in both maps of a config map.
fn config_map(object: &Value, errors: &mut Vec<FieldError>) {
    let binary = entries(object, "binaryData");
    for key in entries(object, "data").into_iter().flat_map(Map::keys) {
        config_key("data", key, errors);
        if binary.is_some_and(|binary| binary.contains_key(key)) {
            let field = format!("data[{key}]");
            errors.push(FieldError::invalid(
                field,
                &json!(key),
                "duplicate of key present in binaryData",
            ));
        }
    }
    for key in binary.into_iter().flat_map(Map::keys) {
        config_key("binaryData", key, errors);
    }
}

/// Checks that a secret has the keys that its type requires.
fn secret(object: &Value, errors: &mut Vec<FieldError>) {
    let data = entries(object, "data");
    for key in data.into_iter().flat_map(Map::keys) {
        config_key("data", key, errors);
    }
    let required: &[&str] = match object["type"].as_str() {
        Some("kubernetes.io/tls") => &["tls.crt", "tls.key"],
        Some("kubernetes.io/dockerconfigjson") => &[".dockerconfigjson"],
        Some("kubernetes.io/dockercfg") => &[".dockercfg"],
        Some("kubernetes.io/ssh-auth") => &["ssh-privatekey"],
        _ => &[],
    };
    for key in required {
        if !data.is_some_and(|data| data.contains_key(*key)) {
            errors.push(FieldError::required(format!("data[{key}]"), ""));
        }
    }
}

/// Checks a key of a config map or secret, which becomes a file name or an environment variable.
fn config_key(map: &str, key: &str, errors: &mut Vec<FieldError>) {
    let mut invalid = |detail: &str| {
        errors.push(FieldError::invalid(format!("{map}[{key}]"), &json!(key), detail));
    };
    if key.len() > CONFIG_KEY_MAX {
        invalid("must be no more than 253 characters");
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if key.is_empty() || !key.chars().all(allowed) {
        invalid(CONFIG_KEY);
    } else if key == "." {
        invalid("must not be '.'");
    } else if key == ".." {
        invalid("must not be '..'");
    } else if key.starts_with("..") {
        invalid("must not start with '..'");
    }
}

/// Checks that the duration of a lease is positive.
fn lease(spec: &Value, errors: &mut Vec<FieldError>) {
    if let Some(duration) = spec.get("leaseDurationSeconds")
        && duration.as_i64().is_some_and(|seconds| seconds <= 0)
    {
        errors.push(FieldError::invalid(
            "spec.leaseDurationSeconds",
            duration,
            "must be greater than 0",
        ));
    }
    not_negative(spec, "leaseTransitions", "spec", errors);
}

/// Checks that a service has ports unless it is headless or an external name, and that several
/// ports have names.
fn service(spec: &Value, errors: &mut Vec<FieldError>) {
    let none = Vec::new();
    let ports = spec["ports"].as_array().unwrap_or(&none);
    let needs_none = spec["clusterIP"] == "None" || spec["type"] == "ExternalName";
    if ports.is_empty() && !needs_none {
        errors.push(FieldError::required("spec.ports", ""));
    }
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        if ports.len() > 1 {
            require(port, "name", &path, errors);
        }
        for field in ["port", "targetPort"] {
            port_number(port, field, &path, errors);
        }
    }
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if let Some(kind) = spec.get("type")
        && !kinds.iter().any(|known| kind == known)
    {
        errors.push(FieldError::not_supported("spec.type", kind, &kinds));
    }
}

/// Checks that a port number is in range. Named ports pass.
fn port_number(port: &Value, field: &str, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(number) = port.get(field)
        && number.as_i64().is_some_and(|number| !(1..=65535).contains(&number))
    {
        let field = format!("{path}.{field}");
        errors.push(FieldError::invalid(field, number, "must be between 1 and 65535, inclusive"));
    }
}

/// Checks that a claim has access modes and a storage request.
fn claim(spec: &Value, errors: &mut Vec<FieldError>) {
    if spec["accessModes"].as_array().is_none_or(Vec::is_empty) {
        errors.push(FieldError::required("spec.accessModes", "at least 1 access mode is required"));
    }
    if spec["resources"]["requests"].get("storage").is_none() {
        errors.push(FieldError::required("spec.resources[storage]", ""));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{Registry, default_builtin};

    /// Objects that were sent to kube-apiserver v1.36.3, and the causes with which it rejected
    /// them, which `cargo xtask record observed` records.
    fn observed() -> Vec<Value> {
        serde_json::from_str(include_str!("validate/observed.json"))
            .expect("the observations must be JSON")
    }

    #[test]
    fn objects_are_refused_with_the_messages_of_the_real_server() {
        let registry = Registry::new();
        for case in observed() {
            let path = case["path"].as_str().unwrap_or_default();
            let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
            let (group, version) =
                if parts[0] == "api" { ("", parts[1]) } else { (parts[1], parts[2]) };
            let resource = registry
                .resource(group, version, parts[parts.len() - 1])
                .expect("the kind must be built in");
            let mut object = case["sent"].clone();
            resource.entry.versions[resource.index].to_stored(&mut object);
            default_builtin(&resource.entry, &mut object, true);
            let causes: Vec<Value> = validate_builtin(&resource.entry, &object)
                .into_iter()
                .map(|error| json!({"reason": error.reason, "message": error.message, "field": error.field}))
                .collect();
            assert_eq!(json!(causes), case["causes"], "{}", case["sent"]);
        }
    }
}
