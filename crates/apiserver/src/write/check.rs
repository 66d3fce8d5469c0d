//! What an object must pass before it is stored: its metadata, the schema of its kind, and for definitions
//! their own rules. Everything that is wrong is listed, as the real server lists it.

use serde_json::{Map, Value};

use crate::controllers::is_crd;
use crate::crd;
use crate::failure::Failure;
use crate::field_error::FieldError;
use crate::kinds::validate_builtin;
use crate::metadata;
use crate::state::{Target, text};

/// A 422 if there is anything wrong with a new object.
pub(super) fn create(target: &Target, object: &Map<String, Value>) -> Result<(), Failure> {
    let kind = &target.kind;
    let value = Value::Object(object.clone());
    let mut errors = if is_crd(kind) {
        crd::validate::validate(&value)
    } else {
        metadata::validate_create(&value["metadata"], kind.namespaced, kind.rules.names)
    };
    if kind.is_builtin() {
        errors.extend(validate_builtin(kind, &value));
    } else if let Some(schema) = &target.version().schema {
        errors.extend(schema.validate(&value));
        schema.mention_rules(&mut errors);
    }
    refuse_if_any(target, text(object, "name"), &errors)
}

/// A 422 if there is anything wrong with a changed object.
pub(super) fn update(
    target: &Target,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
) -> Result<(), Failure> {
    let kind = &target.kind;
    let (old, new) = (Value::Object(old.clone()), Value::Object(new.clone()));
    // The real server looks at metadata twice, and says twice what it finds.
    let mut errors =
        metadata::validate_update_common(&new["metadata"], &old["metadata"], kind.namespaced);
    if is_crd(kind) {
        errors.extend(crd::validate::validate_update(&new, &old));
    } else {
        errors.extend(metadata::validate_update(&new["metadata"], &old["metadata"]));
    }
    if kind.is_builtin() {
        errors.extend(validate_builtin(kind, &new));
    } else if let Some(schema) = &target.version().schema {
        errors.extend(match target.subresource.as_str() {
            "status" => schema.validate_status_update(&new, &old),
            _ => schema.validate_update(&new, &old),
        });
        schema.mention_rules(&mut errors);
    }
    refuse_if_any(target, &target.name, &errors)
}

fn refuse_if_any(target: &Target, name: &str, errors: &[FieldError]) -> Result<(), Failure> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Failure::invalid(&target.kind.group, &target.kind.kind, name, errors))
}
