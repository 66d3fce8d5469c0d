//! JSON patch (RFC 6902), as lenient as the real server: a missing member can be replaced, equals
//! null, and is copied as null. The text before the first slash of a path is ignored.
//!
//! The crate `json-patch` is not used: it follows the RFC, so it refuses what the real server
//! accepts, and it has no limit on what `copy` adds to a document.

use serde_json::{Map, Value};

use crate::json;

/// One operation of a patch, as it was sent.
#[derive(Debug, Clone)]
pub(crate) struct Operation(Map<String, Value>);

/// The patch does not apply to the object. The real server gives no reason either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PatchNotApplicable;

impl Operation {
    pub(crate) fn new(operation: Value) -> Result<Self, PatchNotApplicable> {
        match operation {
            Value::Object(fields) => Ok(Self(fields)),
            _ => Err(PatchNotApplicable),
        }
    }

    /// Applies the operation. After an error the document must not be used. `copied` counts the
    /// bytes that the patch has copied: without a limit, a few copies grow a document to gigabytes.
    pub(crate) fn apply(
        &self,
        document: &mut Value,
        copied: &mut usize,
    ) -> Result<(), PatchNotApplicable> {
        let path = self.text("path")?;
        match self.text("op")? {
            "add" => add(document, path, self.value()),
            "remove" => remove(document, path).map(drop),
            "replace" => replace(document, path, self.value()),
            "move" => {
                let moved = remove(document, self.text("from")?)?;
                add(document, path, moved)
            }
            "copy" => {
                let value = get(document, self.text("from")?)?;
                *copied += value.map_or(0, size);
                if *copied > COPIED_MAX {
                    return Err(PatchNotApplicable);
                }
                let value = value.cloned().unwrap_or_default();
                add(document, path, value)
            }
            "test" => {
                let wanted = self.value();
                let held = get(document, path)?.cloned().unwrap_or_default();
                if held == wanted { Ok(()) } else { Err(PatchNotApplicable) }
            }
            _ => Err(PatchNotApplicable),
        }
    }

    fn text(&self, field: &str) -> Result<&str, PatchNotApplicable> {
        self.0.get(field).and_then(Value::as_str).ok_or(PatchNotApplicable)
    }

    fn value(&self) -> Value {
        self.0.get("value").cloned().unwrap_or_default()
    }
}

/// Returns the parent of the value at a path, and the last segment of the path.
fn parent<'a>(
    document: &'a mut Value,
    path: &str,
) -> Result<(&'a mut Value, String), PatchNotApplicable> {
    let segments: Vec<String> = path
        .split('/')
        .skip(1)
        .map(|segment| segment.replace("~1", "/").replace("~0", "~"))
        .collect();
    let (name, parents) = segments.split_last().ok_or(PatchNotApplicable)?;
    let mut at = document;
    for segment in parents {
        at = match at {
            Value::Object(fields) => fields.get_mut(segment).ok_or(PatchNotApplicable)?,
            Value::Array(list) => list.get_mut(index(segment)?).ok_or(PatchNotApplicable)?,
            _ => return Err(PatchNotApplicable),
        };
    }
    Ok((at, name.clone()))
}

fn index(segment: &str) -> Result<usize, PatchNotApplicable> {
    segment.parse().map_err(|_| PatchNotApplicable)
}

/// Returns the value at a path. A missing member of an object is `None`, but a missing element of a
/// list is an error.
fn get<'a>(document: &'a mut Value, path: &str) -> Result<Option<&'a Value>, PatchNotApplicable> {
    match parent(document, path)? {
        (Value::Object(fields), name) => Ok(fields.get(&name)),
        (Value::Array(list), name) => list.get(index(&name)?).map(Some).ok_or(PatchNotApplicable),
        _ => Err(PatchNotApplicable),
    }
}

/// The limit on bytes that one patch may copy: the largest body.
const COPIED_MAX: usize = 3 * 1024 * 1024;

/// Returns the approximate size of a value in bytes.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(list) => list.iter().map(|value| size(value) + 1).sum::<usize>() + 2,
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| name.len() + size(value) + 4).sum::<usize>() + 2
        }
        _ => 8,
    }
}

/// Rejects a value that would nest the document deeper than a body may be.
fn check_depth(path: &str, value: &Value) -> Result<(), PatchNotApplicable> {
    if path.matches('/').count() + json::depth(value) > json::depth_max() {
        Err(PatchNotApplicable)
    } else {
        Ok(())
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Result<(), PatchNotApplicable> {
    check_depth(path, &value)?;
    match parent(document, path)? {
        (Value::Object(fields), name) => {
            fields.insert(name, value);
        }
        (Value::Array(list), name) if name == "-" => list.push(value),
        (Value::Array(list), name) => {
            let at = index(&name)?;
            if at > list.len() {
                return Err(PatchNotApplicable);
            }
            list.insert(at, value);
        }
        _ => return Err(PatchNotApplicable),
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str) -> Result<Value, PatchNotApplicable> {
    match parent(document, path)? {
        (Value::Object(fields), name) => fields.remove(&name).ok_or(PatchNotApplicable),
        (Value::Array(list), name) => {
            let at = index(&name)?;
            if at < list.len() { Ok(list.remove(at)) } else { Err(PatchNotApplicable) }
        }
        _ => Err(PatchNotApplicable),
    }
}

fn replace(document: &mut Value, path: &str, value: Value) -> Result<(), PatchNotApplicable> {
    check_depth(path, &value)?;
    match parent(document, path)? {
        (Value::Object(fields), name) => {
            fields.insert(name, value);
        }
        (Value::Array(list), name) => {
            *list.get_mut(index(&name)?).ok_or(PatchNotApplicable)? = value;
        }
        _ => return Err(PatchNotApplicable),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(patch: &Value) -> Result<Value, PatchNotApplicable> {
        let mut document = json!({"a": {"b": 1}, "list": ["x", "y"], "s/l~": 1});
        for operation in patch.as_array().cloned().unwrap_or_default() {
            Operation::new(operation)?.apply(&mut document, &mut 0)?;
        }
        Ok(document)
    }

    #[test]
    fn lists_are_changed_by_index() {
        let document = patched(&json!([
            {"op": "add", "path": "/list/0", "value": "w"},
            {"op": "add", "path": "/list/-", "value": "z"},
            {"op": "remove", "path": "/list/1"},
            {"op": "replace", "path": "/list/1", "value": "Y"},
        ]));
        assert_eq!(document.expect("it must fit")["list"], json!(["w", "Y", "z"]));
        assert_eq!(
            patched(&json!([{"op": "add", "path": "/list/9", "value": 1}])),
            Err(PatchNotApplicable)
        );
    }

    #[test]
    fn members_move_copy_and_have_escaped_names() {
        let document = patched(&json!([
            {"op": "move", "from": "/s~1l~0", "path": "/a/moved"},
            {"op": "copy", "from": "/a/b", "path": "/a/copied"},
        ]));
        assert_eq!(document.expect("it must fit")["a"], json!({"b": 1, "moved": 1, "copied": 1}));
    }

    #[test]
    fn a_missing_member_equals_null_and_can_be_replaced_but_not_removed() {
        assert!(patched(&json!([{"op": "test", "path": "/a/no", "value": null}])).is_ok());
        assert!(patched(&json!([{"op": "replace", "path": "/a/no", "value": 1}])).is_ok());
        assert_eq!(patched(&json!([{"op": "remove", "path": "/a/no"}])), Err(PatchNotApplicable));
        assert_eq!(
            patched(&json!([{"op": "add", "path": "/no/deeper", "value": 1}])),
            Err(PatchNotApplicable)
        );
    }
}
