//! Which fields built-in kinds have, and what becomes of a body that has others.
//!
//! The real server decodes a body into Go structs: what has no field is dropped and told, what has
//! another type is refused in the words of Go's decoder. Here the structs are data,
//! `shape/shapes.txt`, recorded from a real server by the example `kinds`; [`table`] reads it,
//! [`walk`] takes an object through it, and [`text`] and [`time`] are the types that decode
//! themselves from a text. [`patching`] tells strategic merge patches how fields merge; for
//! server-side apply, [`crate::merge_schema`] reads it from the table.
//!
//! Places are told in the order in which the object has its fields. The real server does the same,
//! but has them in the order of the body, and our objects have theirs in the order of the alphabet.

mod patching;
pub(crate) mod table;
mod text;
mod time;
mod walk;

use serde_json::Value;

pub(crate) use self::patching::PatchPlace;
use self::table::{OBJECT_META, TABLE};
use self::walk::Walk;
use crate::kind::Kind;

/// Makes of an object what decoding it into the type of its kind would make.
///
/// Fields that the kind does not have are removed, and their paths returned, as in
/// `spec.containers[0].bogus`. A field that is null is removed as well, and a list or map that is
/// empty where Go leaves it out then; an item or a value of a map that is null becomes what Go
/// takes for it, as in `""`. Inside of what has no type nothing changes. Custom kinds are left
/// alone: they have a schema.
///
/// # Errors
/// What Go's decoder says about the first value of a wrong type. The object is half decoded then.
pub(crate) fn decode_builtin(
    kind: &Kind,
    version: &str,
    object: &mut Value,
) -> Result<Vec<String>, String> {
    if !kind.is_builtin() {
        return Ok(Vec::new());
    }
    decode_type(&kind.api_version(version), &kind.kind, object)
}

/// The same by names, as in `policy/v1` and `Eviction`.
///
/// # Errors
/// What Go's decoder says about the first value of a wrong type.
pub(crate) fn decode_type(
    version: &str,
    kind: &str,
    object: &mut Value,
) -> Result<Vec<String>, String> {
    match TABLE.kind(version, kind) {
        Some(name) => Walk::new(&TABLE).run(name, object),
        None => Ok(Vec::new()),
    }
}

/// The same for an object that a strategic merge patch made. The real server converts it by other
/// means, which have words of their own for a value of a wrong type, and no keys of maps in paths.
///
/// # Errors
/// What Go's converter says about the first value of a wrong type.
pub(crate) fn convert_builtin(
    kind: &Kind,
    version: &str,
    object: &mut Value,
) -> Result<Vec<String>, String> {
    convert(&kind.api_version(version), &kind.kind, object)
}

/// The same by names, as in `autoscaling/v1` and `Scale`.
///
/// # Errors
/// What Go's converter says about the first value of a wrong type.
pub(crate) fn convert(
    version: &str,
    kind: &str,
    object: &mut Value,
) -> Result<Vec<String>, String> {
    match TABLE.kind(version, kind) {
        Some(name) => {
            let mut unknown = Walk::converting(&TABLE).run(name, object)?;
            unknown.sort();
            Ok(unknown)
        }
        None => Ok(Vec::new()),
    }
}

/// Removes the fields of `metadata` that no kind has, and gives their paths.
///
/// Custom kinds need it: their schema says nothing about metadata. Values of a wrong type are left
/// alone.
pub(crate) fn prune_metadata(object: &mut Value) -> Vec<String> {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return Vec::new() };
    let known = TABLE.get(OBJECT_META);
    let unknown: Vec<String> =
        metadata.keys().filter(|name| known.field(name).is_none()).cloned().collect();
    for name in &unknown {
        metadata.remove(name);
    }
    unknown.into_iter().map(|name| format!("metadata.{name}")).collect()
}

#[cfg(test)]
mod tests;
