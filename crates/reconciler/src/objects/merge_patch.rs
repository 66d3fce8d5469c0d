//! The difference between two states of an object, as a merge patch.
//!
//! A PUT of a typed object would erase the fields that the type does not know. A merge patch
//! changes only what differs. It names the version that it was made from, so that it fails with a
//! conflict instead of undoing what somebody else did. It replaces lists as a whole: see [`lists`].

pub(crate) mod lists;

use serde::Serialize;
use serde_json::{Map, Value};

/// The merge patch that leads from `old` to `new`; `None` if they are equal.
///
/// It has the version of `old`, if there is one, so that the server refuses it if the object has
/// changed since.
///
/// ```
/// use serde_json::json;
/// use windlass_reconciler::merge_patch;
///
/// let version = json!({"resourceVersion": "7"});
/// let old = json!({"metadata": version, "spec": {"replicas": 1, "paused": true}});
/// let new = json!({"metadata": version, "spec": {"replicas": 2}});
/// let patch = json!({"metadata": version, "spec": {"replicas": 2, "paused": null}});
/// assert_eq!(merge_patch(&old, &new)?, Some(patch));
/// assert_eq!(merge_patch(&old, &old)?, None);
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// A merge patch replaces lists as a whole. If a list differs, fields of its elements that the type
/// `K` does not know are erased. [`Live::update`](crate::Live::update) keeps them, because it reads
/// the object first.
///
/// # Errors
/// Returns an error if one of them cannot be converted to JSON.
pub fn merge_patch<K: Serialize>(old: &K, new: &K) -> Result<Option<Value>, serde_json::Error> {
    let (old, new) = (serde_json::to_value(old)?, serde_json::to_value(new)?);
    let Some(mut patch) = merge(&old, &new) else { return Ok(None) };
    if let Some(version) = old.pointer("/metadata/resourceVersion") {
        set_version(&mut patch, version.clone());
    }
    Ok(Some(patch))
}

/// Makes the server refuse the patch of an object that has another version.
pub(crate) fn set_version(patch: &mut Value, version: Value) {
    let Some(patch) = patch.as_object_mut() else { return };
    let metadata = patch.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("resourceVersion".to_owned(), version);
    }
}

/// The inverse of RFC 7396: what has to be merged into `old` to get `new`.
pub(crate) fn merge(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let removed = old.keys().filter(|key| !new.contains_key(*key));
    let mut patch: Map<String, Value> = removed.map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in new {
        let change = match old.get(key) {
            Some(old) => merge(old, value),
            None => Some(value.clone()),
        };
        if let Some(change) = change {
            patch.insert(key.clone(), change);
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_are_replaced_as_a_whole() {
        let old = json!({"spec": {"containers": [{"name": "a"}], "x": 1}});
        let new = json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}], "x": 1}});
        assert_eq!(
            merge_patch(&old, &new).expect("json"),
            Some(json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}))
        );
    }

    #[test]
    fn value_that_becomes_an_object_is_written_whole() {
        assert_eq!(
            merge_patch(&json!({"a": 1}), &json!({"a": {"b": 2}})).expect("json"),
            Some(json!({"a": {"b": 2}}))
        );
    }
}
