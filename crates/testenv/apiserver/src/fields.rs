//! Access to the fields of any object that the server itself reads and writes, mostly in its
//! metadata.

use serde_json::{Map, Value};

use crate::kind::Kind;

/// Returns `metadata`, creating it if it is missing.
pub(crate) fn metadata_mut(object: &mut Map<String, Value>) -> &mut Map<String, Value> {
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut().expect("metadata was just made an object")
}

/// Returns a text field of `metadata`, or an empty text.
pub(crate) fn text<'a>(object: &'a Map<String, Value>, field: &str) -> &'a str {
    let value = object.get("metadata").and_then(|metadata| metadata.get(field));
    value.and_then(Value::as_str).unwrap_or_default()
}

/// Returns `metadata.finalizers`.
pub(crate) fn finalizers(object: &Map<String, Value>) -> Vec<&str> {
    let list = object.get("metadata").and_then(|metadata| metadata.get("finalizers"));
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Sets the finalizers. An empty list removes the field.
pub(crate) fn set_finalizers(object: &mut Map<String, Value>, finalizers: &[String]) {
    let metadata = metadata_mut(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), finalizers.into());
    }
}

/// Returns whether the object has a deletion timestamp.
pub(crate) fn is_terminating(object: &Map<String, Value>) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

/// Returns whether a terminating object can be removed: it has no finalizer and no grace period.
///
/// A namespace also has finalizers in its spec, until it is empty.
pub(crate) fn nothing_holds(kind: &Kind, object: &Map<String, Value>) -> bool {
    let metadata = &object["metadata"];
    let grace = metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
    let in_spec = object.get("spec").and_then(|spec| spec.get("finalizers"));
    let in_spec = in_spec.and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    finalizers(object).is_empty() && grace == 0 && !(in_spec && kind.is("", "namespaces"))
}
