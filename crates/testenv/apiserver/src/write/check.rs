//! Checks an object before it is stored: its metadata, the schema of its kind, and the rules for
//! definitions. All errors are listed, as on the real server.

use serde_json::{Map, Value};

use crate::crd;
use crate::failure::Failure;
use crate::field_error::FieldError;
use crate::fields::{finalizers, text};
use crate::kind::Version;
use crate::kinds::{validate_builtin, validate_builtin_update};
use crate::metadata;
use crate::schema::Schema;
use crate::target::Target;

/// Returns a 422 if a new object is invalid, or a 500 if it cannot be validated.
pub(super) fn create(
    target: &Target,
    object: &Map<String, Value>,
    warnings: &mut Vec<String>,
) -> Result<(), Failure> {
    let kind = &target.kind;
    let value = Value::Object(object.clone());
    let mut errors = if kind.is_crd() {
        crd::validate::validate(&value)
    } else {
        metadata::validate_create(&value["metadata"], kind.namespaced, kind.rules.names)
    };
    if kind.is_builtin() {
        errors.extend(finalizer_errors(object));
        errors.extend(validate_builtin(kind, &value));
    } else if let Some(schema) = usable_schema(target.version())? {
        errors.extend(schema.validate(&value));
        errors.extend(scale_errors(target, &value));
        warnings.extend(schema.check_rules(&typed(target, &value), None, &mut errors));
    }
    refuse_if_any(target, text(object, "name"), &errors)
}

/// Returns a 422 if a changed object is invalid, or a 500 if it cannot be validated.
pub(super) fn update(
    target: &Target,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    warnings: &mut Vec<String>,
) -> Result<(), Failure> {
    let kind = &target.kind;
    let (old, new) = (Value::Object(old.clone()), Value::Object(new.clone()));
    // The real server validates metadata twice, and reports each error twice.
    let mut errors =
        metadata::validate_update_common(&new["metadata"], &old["metadata"], kind.namespaced);
    if kind.is_crd() {
        errors.extend(crd::validate::validate_update(&new, &old));
    } else {
        errors.extend(metadata::validate_update(&new["metadata"], &old["metadata"]));
    }
    if kind.is_builtin() {
        errors.extend(validate_builtin_update(kind, &old, &new));
        // The data of a revision never changes.
        if kind.is("apps", "controllerrevisions") && new["data"] != old["data"] {
            errors.push(FieldError::invalid("data", &new["data"], "field is immutable"));
        }
    } else if let Some(schema) = usable_schema(target.version())? {
        errors.extend(match target.subresource.as_str() {
            "status" => schema.validate_status_update(&new, &old),
            _ => schema.validate_update(&new, &old),
        });
        errors.extend(scale_errors(target, &new));
        let (old, new) = (typed(target, &old), typed(target, &new));
        warnings.extend(schema.check_rules(&new, Some(&old), &mut errors));
    }
    refuse_if_any(target, &target.name, &errors)
}

/// Returns the schema of a version, if it has one.
///
/// # Errors
/// Returns a 500 if the schema cannot be used: an object that cannot be validated is not written.
fn usable_schema(version: &Version) -> Result<Option<&Schema>, Failure> {
    match &version.declared_schema {
        None => Ok(None),
        Some(Ok(schema)) => Ok(Some(schema)),
        Some(Err(why)) => Err(Failure::internal_error(&format!(
            "the schema of version {} cannot be used, so its objects cannot be written: {why}",
            version.name
        ))),
    }
}

/// Returns the object with its type meta, which rules may use.
fn typed(target: &Target, object: &Value) -> Value {
    let mut object = object.clone();
    object["kind"] = target.kind.kind.as_str().into();
    object["apiVersion"] = target.kind.api_version(&target.version().name).into();
    object
}

fn refuse_if_any(target: &Target, name: &str, errors: &[FieldError]) -> Result<(), Failure> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Failure::invalid(&target.kind.group, &target.kind.kind, name, errors))
}

/// The finalizers of Kubernetes itself. All others need a domain.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

fn finalizer_errors(object: &Map<String, Value>) -> Vec<FieldError> {
    let named = finalizers(object).into_iter().enumerate();
    let vague =
        named.filter(|(_, name)| !name.contains('/') && !STANDARD_FINALIZERS.contains(name));
    vague
        .map(|(at, name)| {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            FieldError::invalid(format!("metadata.finalizers[{at}]"), &name.into(), detail)
        })
        .collect()
}

/// Checks that the replica counts that `/scale` would show are not negative numbers.
fn scale_errors(target: &Target, object: &Value) -> Vec<FieldError> {
    let Some(scale) = &target.version().scale else { return Vec::new() };
    [&scale.spec_replicas, &scale.status_replicas]
        .into_iter()
        .filter_map(|path| scale_error(object, path))
        .collect()
}

fn scale_error(object: &Value, path: &str) -> Option<FieldError> {
    let mut at = object;
    for name in path.trim_start_matches('.').split('.') {
        if !at.is_object() {
            let detail = format!(
                "{path} accessor error: {} is of the type {}, expected map[string]interface{{}}",
                go_shown(at),
                go_kind(at)
            );
            return Some(FieldError::invalid(path, &0.into(), &detail));
        }
        at = at.get(name)?;
    }
    match at.as_i64() {
        Some(number) if number < 0 => {
            Some(FieldError::invalid(path, at, "should be a non-negative integer"))
        }
        Some(_) => None,
        None => {
            let detail = format!(
                "{path} accessor error: {} is of the type {}, expected int64",
                go_shown(at),
                go_kind(at)
            );
            Some(FieldError::invalid(path, &0.into(), &detail))
        }
    }
}

/// Formats a value as Go's `%v` does.
fn go_shown(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(list) => {
            let shown: Vec<String> = list.iter().map(go_shown).collect();
            format!("[{}]", shown.join(" "))
        }
        Value::Object(map) => {
            let shown: Vec<String> =
                map.iter().map(|(k, v)| format!("{k}:{}", go_shown(v))).collect();
            format!("map[{}]", shown.join(" "))
        }
        other => other.to_string(),
    }
}

fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::json;

    use super::*;
    use crate::kinds::Registry;

    /// A definition can get into the store although its rules do not compile.
    #[test]
    fn objects_are_not_written_without_the_schema_that_their_definition_asks_for() {
        let schema =
            json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.nothing"}]});
        let definition = json!({"spec": {
            "group": "example.dev", "scope": "Cluster",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}],
        }});
        let kind = crd::kind_of(definition.as_object().expect("an object")).expect("a kind");
        let mut registry = Registry::new();
        let id = registry.put(kind).expect("the name is free");
        let target = Target {
            kind: registry.by_id(id).expect("the kind was put").clone(),
            version: 0,
            namespace: String::new(),
            name: "a".to_owned(),
            subresource: String::new(),
        };
        let object = json!({"metadata": {"name": "a", "resourceVersion": "1", "uid": "u"}});
        let object = object.as_object().expect("an object");
        let warnings = &mut Vec::new();
        for refused in
            [create(&target, object, warnings), update(&target, object, object, warnings)]
        {
            let failure = refused.expect_err("nothing may be written");
            assert_eq!(failure.code, StatusCode::INTERNAL_SERVER_ERROR);
            let why = format!("{failure:?}");
            assert!(why.contains("the schema of version v1 cannot be used"), "{why}");
            assert!(why.contains("undefined field 'nothing'"), "{why}");
        }
    }
}
