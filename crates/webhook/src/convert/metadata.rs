//! The metadata of a converted object.

use serde_json::{Map, Value};

use super::Problem;

/// The API server refuses a converted object in which one of these differs.
const FIXED: [&str; 3] = ["name", "namespace", "uid"];

/// What a converter may change. The API server ignores all else.
const CHANGEABLE: [&str; 2] = ["labels", "annotations"];

/// Gives the converted object the metadata of its source, with its own labels and annotations.
pub(super) fn carry_over(source: &Value, converted: &mut Value) -> Result<(), Problem> {
    let none = Map::new();
    let of = |object: &Value| object.get("metadata").and_then(Value::as_object).cloned();
    let (source, new) = (of(source), of(converted).unwrap_or_default());
    let source = source.as_ref().unwrap_or(&none);
    let is_text = |value: &&Value| value.as_str().is_some_and(|text| !text.is_empty());
    for field in FIXED {
        if source.get(field).filter(is_text) != new.get(field).filter(is_text) {
            return Err(Problem::Metadata(field));
        }
    }
    let mut metadata = source.clone();
    for field in CHANGEABLE {
        match new.get(field).filter(|value| value.is_object()) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
    if let Some(converted) = converted.as_object_mut() {
        converted.insert("metadata".to_owned(), Value::Object(metadata));
    }
    Ok(())
}
