//! Keeps what a version cannot express in an annotation.
//!
//! The annotation holds the whole top-level field of the source, for example `spec` of `v1`,
//! because single list elements could not be put back into a list that has changed. On the way
//! back, two values are compared: `before`, the kept field converted to the other version and back,
//! and
//! `after`, the field of the object as it converts now. Their difference is what somebody changed
//! in the meantime. It is applied to the kept field.
//!
//! Whoever may write an object may write its annotations, and so what is restored from them. That
//! is no more than they may write anyway, with one exception: `status` has a right of its own. So
//! it is never kept and never restored.

use serde_json::{Map, Value};
use windlass_nesting::{DEPTH_MAX, SHALLOW_MAX, has_large_stack};

use super::{Problem, Versions};
use crate::overlay::overlay;
use crate::serve::memory::Memory;

/// The annotation is this prefix and the version whose fields it keeps.
const PREFIX: &str = "kept-fields.windlass.dev/";

/// The server takes 256 KiB of annotations in total; half of it is left to others.
const BYTES_MAX: usize = 128 * 1024;

/// Fields that are neither kept nor restored: those that the server and the conversion take care
/// of, and `status`, which an annotation could forge.
const NOT_KEPT: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];

type Fields = Map<String, Value>;

/// Converts an object, restores what was kept of the version `to`, and keeps what is lost of the
/// version `from`.
pub(super) fn convert(
    versions: &Versions,
    mut source: Value,
    from: &str,
    to: &str,
    memory: &mut Memory,
) -> Result<Value, Problem> {
    let kept = take(&mut source, to);
    // What is kept of the source's own version would be older than the source.
    drop(take(&mut source, from));
    let mut converted = versions.step(&source, from, to, memory)?;
    if let Some(kept) = kept {
        restore(versions, &mut converted, kept, (from, to), memory)?;
    }
    let lost = lost(versions, &source, &converted, (from, to), memory)?;
    if !lost.is_empty() {
        put(versions, &mut converted, from, lost);
    }
    Ok(converted)
}

/// How deep an object will be nested when what its annotations keep is restored, and how much
/// memory that takes.
pub(crate) fn measure(object: &Value) -> (usize, usize) {
    let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
    let kept = annotations.into_iter().flatten().filter(|(key, _)| key.starts_with(PREFIX));
    let texts = kept.filter_map(|(_, text)| text.as_str()).filter(|text| text.len() <= BYTES_MAX);
    let measured = texts.map(|text| windlass_nesting::measure(text.as_bytes()));
    // What is deeper is not restored.
    let measured = measured.filter(|measured| measured.depth <= DEPTH_MAX);
    measured.fold((0, 0), |(depth, memory), one| (depth.max(one.depth), memory + one.memory))
}

/// Removes the annotation of a version, and returns the fields that it keeps.
fn take(object: &mut Value, version: &str) -> Option<Fields> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let kept = annotations.remove(&format!("{PREFIX}{version}"))?;
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    let kept = kept.as_str()?;
    // Anybody may have written the annotation. Fields that do not decode, or are too deep for this
    // stack, are not restored.
    let depth = windlass_nesting::depth(kept.as_bytes());
    if kept.len() > BYTES_MAX || depth > DEPTH_MAX || depth > SHALLOW_MAX && !has_large_stack() {
        return None;
    }
    let mut kept: Fields = windlass_nesting::from_slice(kept.as_bytes()).ok()?;
    kept.retain(|field, _| !NOT_KEPT.contains(&field.as_str()));
    Some(kept)
}

fn put(versions: &Versions, object: &mut Value, version: &str, kept: Fields) {
    let text = Value::Object(kept).to_string();
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let annotations = metadata.get("annotations").and_then(Value::as_object).into_iter().flatten();
    let others = annotations.filter(|(key, _)| key.starts_with(PREFIX));
    let others: usize = others.filter_map(|(_, value)| value.as_str()).map(str::len).sum();
    if others + text.len() > BYTES_MAX {
        if let Some(line) = versions.log.line("too large") {
            let left_out = line.left_out;
            let message = "fields of an object are lost: they are too large to be kept";
            tracing::warn!(version, left_out, "{message}");
        }
        return;
    }
    let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(format!("{PREFIX}{version}"), Value::from(text));
    }
}

/// Puts kept fields back, with the changes that were made since. If the kept fields cannot be
/// converted there and back, the object is left as it was converted: an error would make it
/// unreadable. Only a lack of memory is one: otherwise, the fields would be lost.
fn restore(
    versions: &Versions,
    converted: &mut Value,
    kept: Fields,
    (from, to): (&str, &str),
    memory: &mut Memory,
) -> Result<(), Problem> {
    let mut then = converted.clone();
    let Some(fields) = then.as_object_mut() else { return Ok(()) };
    fields.extend(kept.clone());
    let there = versions.step(&then, to, from, memory);
    let before = match there.and_then(|there| versions.step(&there, from, to, memory)) {
        Ok(before) => before,
        Err(error @ Problem::Memory(_)) => return Err(error),
        Err(_) => {
            if let Some(line) = versions.log.line("not convertible") {
                let left_out = line.left_out;
                let message = "kept fields are not restored: they do not convert any more";
                tracing::warn!(version = to, left_out, "{message}");
            }
            return Ok(());
        }
    };
    let Some(fields) = converted.as_object_mut() else { return Ok(()) };
    for (field, raw) in kept {
        let of = |object: &Value| object.get(&field).cloned().unwrap_or(Value::Null);
        let after = fields.get(&field).cloned().unwrap_or(Value::Null);
        match overlay(&raw, &of(&before), &after) {
            Ok(Value::Null) => drop(fields.remove(&field)),
            Ok(value) => drop(fields.insert(field, value)),
            Err(error) => {
                if let Some(line) = versions.log.line("not restored") {
                    let left_out = line.left_out;
                    tracing::warn!(version = to, left_out, "kept fields are not restored: {error}");
                }
            }
        }
    }
    Ok(())
}

/// The top-level fields of the source that do not come back whole.
fn lost(
    versions: &Versions,
    source: &Value,
    converted: &Value,
    (from, to): (&str, &str),
    memory: &mut Memory,
) -> Result<Fields, Problem> {
    let back = match versions.step(converted, to, from, memory) {
        Ok(back) => back,
        Err(error @ Problem::Memory(_)) => return Err(error),
        // If there is no way back, there is nothing that could be restored on it.
        Err(_) => return Ok(Fields::new()),
    };
    let fields = source.as_object().into_iter().flatten();
    let lost = fields.filter(|(field, value)| {
        !NOT_KEPT.contains(&field.as_str())
            && !is_within(value, back.get(field.as_str()).unwrap_or(&Value::Null))
    });
    Ok(lost.map(|(field, value)| (field.clone(), value.clone())).collect())
}

/// Whether all of `value` is in `whole`, which may have more fields.
fn is_within(value: &Value, whole: &Value) -> bool {
    match (value, whole) {
        (Value::Null, _) => true,
        (Value::Object(value), Value::Object(whole)) => value
            .iter()
            .all(|(key, value)| is_within(value, whole.get(key).unwrap_or(&Value::Null))),
        (Value::Array(value), Value::Array(whole)) => {
            value.len() == whole.len()
                && value.iter().zip(whole).all(|(value, whole)| is_within(value, whole))
        }
        (value, whole) => value == whole,
    }
}
