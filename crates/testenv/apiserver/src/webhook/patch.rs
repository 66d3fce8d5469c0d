//! Applies the patch of a mutating webhook. Errors have the texts of the real server's library.

use serde_json::Value;

use crate::go_decoder::{go_syntax, go_type};
use crate::json;
use crate::write::patch::Operation;

/// Why a patch was not applied.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PatchError {
    /// It is not a patch. This counts as a failed call.
    Undecodable(String),
    /// It does not fit the object.
    DoesNotApply(String),
}

/// Applies a patch. Returns `None` if it has no operations.
pub(super) fn apply(patch: &[u8], object: &Value) -> Result<Option<Value>, PatchError> {
    let read =
        json::read(patch).map_err(|error| PatchError::Undecodable(go_syntax(&error, patch)))?.value;
    let Value::Array(operations) = read else {
        return Err(PatchError::Undecodable(format!(
            "json: cannot unmarshal {} into Go value of type jsonpatch.Patch",
            go_type(&read)
        )));
    };
    if operations.is_empty() {
        return Ok(None);
    }
    let mut patched = object.clone();
    let mut copied = 0;
    for operation in operations {
        let told = operation.clone();
        let fits = Operation::new(operation)
            .and_then(|operation| operation.apply(&mut patched, &mut copied))
            .is_ok();
        if !fits {
            return Err(PatchError::DoesNotApply(explain(&told)));
        }
    }
    Ok(Some(patched))
}

/// Returns the real server's error for the operations that fail most often.
fn explain(operation: &Value) -> String {
    let text = |field: &str| operation[field].as_str().unwrap_or_default();
    let path = text("path");
    match text("op") {
        op @ ("add" | "remove") => {
            format!("{op} operation does not apply: doc is missing path: {path:?}: missing value")
        }
        "replace" => {
            format!("replace operation does not apply: doc is missing path: {path}: missing value")
        }
        "test" => format!("testing value {path} failed: test failed"),
        op @ ("move" | "copy") => format!(
            "{op} operation does not apply: doc is missing from path: {}: missing value",
            text("from")
        ),
        other => format!("Unexpected kind: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn error_of_an_inapplicable_patch_names_the_path() {
        let object = json!({"data": {"a": "1"}});
        let patch_error = |patch: Value| match apply(patch.to_string().as_bytes(), &object) {
            Err(PatchError::DoesNotApply(why)) => why,
            other => panic!("{patch}: {other:?}"),
        };
        assert_eq!(
            patch_error(json!([{"op": "add", "path": "/a/b", "value": 1}])),
            "add operation does not apply: doc is missing path: \"/a/b\": missing value"
        );
        assert_eq!(patch_error(json!([{"op": "nix", "path": "/a"}])), "Unexpected kind: nix");
        let patch = json!([{"op": "add", "path": "/data/b", "value": "2"}]);
        let patched = apply(patch.to_string().as_bytes(), &object);
        assert_eq!(patched, Ok(Some(json!({"data": {"a": "1", "b": "2"}}))));
        assert_eq!(apply(b"[]", &object), Ok(None));
    }
}
