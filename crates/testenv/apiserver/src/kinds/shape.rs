//! The fields of built-in kinds, and how unknown fields and wrong types are handled.
//!
//! The real server decodes a body into Go structs: unknown fields are dropped and reported, and a
//! value of a wrong type is rejected with an error of Go's decoder. Here the structs are data,
//! `shape/shapes.txt`, recorded from a real server by the example `kinds`. [`table`] reads the
//! file, [`walk`] decodes an object, and [`text`] and [`time`] check the types that Go decodes from
//! a string. How fields merge, in server-side apply and in strategic merge patches, is read from
//! the table by [`crate::merge_schema`] and `crate::write::patch`.
//!
//! Unknown fields are reported in the order of the object's fields, as on the real server. But
//! there it is the order of the body, and here fields are sorted by name.

pub(crate) mod table;
mod text;
mod time;
mod walk;

use serde_json::Value;

use self::table::{OBJECT_META, TABLE};
use self::walk::Walk;
use crate::kind::Kind;

/// Changes an object as decoding it into the Go type of its kind would.
///
/// Unknown fields are removed, and their paths are returned, as in `spec.containers[0].bogus`. Null
/// fields are removed as well, and so are empty lists and maps that Go omits. A null item of a list
/// or null value of a map becomes the zero value of its Go type, such as `""`. Untyped values do
/// not change. Custom kinds are left alone, because they have a schema.
///
/// # Errors
/// Returns the error of Go's decoder for the first value of a wrong type. The object is half
/// decoded then.
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

/// Decodes an object by the names of its type, such as `policy/v1` and `Eviction`.
///
/// # Errors
/// Returns the error of Go's decoder for the first value of a wrong type.
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

/// Converts the result of a strategic merge patch to the type of its kind. The real server uses a
/// converter for it, which has its own error texts for wrong types, and no map keys in paths.
///
/// # Errors
/// Returns the error of Go's converter for the first value of a wrong type.
pub(crate) fn convert_builtin(
    kind: &Kind,
    version: &str,
    object: &mut Value,
) -> Result<Vec<String>, String> {
    convert(&kind.api_version(version), &kind.kind, object)
}

/// Converts an object by the names of its type, such as `autoscaling/v1` and `Scale`.
///
/// # Errors
/// Returns the error of Go's converter for the first value of a wrong type.
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

/// Removes unknown fields of `metadata` and returns their paths.
///
/// This is for custom kinds: their schema does not describe metadata. Values of a wrong type are
/// left alone.
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
