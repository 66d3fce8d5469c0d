//! Patches: from a body and its media type to an edit of an object.

mod operations;

use serde_json::{Map, Value};

use super::decode::{Decoder, go_syntax, go_type};
use crate::failure::Failure;
use crate::json;
use crate::target::Target;
use operations::Operation;

/// Which patch a request is, by its media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchType {
    /// RFC 6902.
    Operations,
    /// RFC 7386.
    Merge,
    /// What kubectl and client-go send for built-ins.
    Strategic,
    /// Server-side apply: [`super::apply`].
    Apply,
}

/// A change to an object, understood but not yet applied.
#[derive(Debug)]
pub(crate) enum Patch {
    Operations(Vec<Operation>),
    Merge(Value),
}

/// Operations that one JSON patch may have, as on the real server.
const OPERATIONS_MAX: usize = 10_000;

/// Media types that patches of custom resources may have, as the real server lists them.
const ACCEPTED: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

impl PatchType {
    pub(crate) fn of(target: &Target, content_type: Option<&str>) -> Result<Self, Failure> {
        let builtin = target.kind.is_builtin();
        let media = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        match media {
            "application/json-patch+json" => Ok(Self::Operations),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if builtin => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ if builtin => Err(Failure::unsupported_patch_type()),
            _ => Err(Failure::unsupported_media_type(ACCEPTED)),
        }
    }
}

impl Patch {
    pub(crate) fn parse(patch_type: PatchType, body: &[u8]) -> Result<Self, Failure> {
        let read = json::read(body).map_err(|error| {
            Failure::bad_request(format!("error decoding patch: {}", go_syntax(&error, body)))
        })?;
        match patch_type {
            PatchType::Operations => operations(read.value),
            PatchType::Merge => merge(read.value).map(Self::Merge),
            PatchType::Strategic => strategic(merge(read.value)?),
            PatchType::Apply => Err(Failure::unsupported_body(
                "server-side apply of a scale",
                "send application/merge-patch+json or application/json-patch+json",
            )),
        }
    }

    /// The object as it is after the patch.
    pub(crate) fn apply(
        &self,
        decoder: &Decoder<'_>,
        object: Map<String, Value>,
    ) -> Result<Map<String, Value>, Failure> {
        match self.apply_value(Value::Object(object))? {
            Value::Object(object) => decoder.patched(object),
            _ => Err(Failure::rejected_patch()),
        }
    }

    /// The same for something that is not a stored object.
    pub(crate) fn apply_value(&self, mut value: Value) -> Result<Value, Failure> {
        match self {
            Self::Operations(operations) => {
                let mut copied = 0;
                for operation in operations {
                    operation
                        .apply(&mut value, &mut copied)
                        .map_err(|_| Failure::rejected_patch())?;
                }
            }
            Self::Merge(patch) => apply_merge(&mut value, patch),
        }
        Ok(value)
    }
}

/// RFC 7386: members replace members, null removes them.
fn apply_merge(value: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let fields = value.as_object_mut().expect("the value was just made an object");
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            apply_merge(fields.entry(name.as_str()).or_insert(Value::Null), change);
        }
    }
}

fn merge(patch: Value) -> Result<Value, Failure> {
    match patch {
        Value::Object(_) => Ok(patch),
        Value::Null => Err(Failure::bad_request("Invalid JSON Patch")),
        other => Err(Failure::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_type(&other)
        ))),
    }
}

fn operations(patch: Value) -> Result<Patch, Failure> {
    let list = match patch {
        Value::Array(list) => list,
        Value::Null => Vec::new(),
        other => {
            return Err(Failure::bad_request(format!(
                "error decoding patch: json: cannot unmarshal {} into Go value of type \
                 []handlers.jsonPatchOp",
                go_type(&other)
            )));
        }
    };
    if list.len() > OPERATIONS_MAX {
        let count = list.len();
        return Err(Failure::too_large(&format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {count}"
        )));
    }
    let operations = list.into_iter().map(Operation::new).collect::<Result<_, _>>();
    operations.map(Patch::Operations).map_err(|_| Failure::rejected_patch())
}

/// A strategic merge patch that says nothing about lists is a merge patch. How lists merge is told
/// by the types of Kubernetes: such a patch is refused, never misapplied.
fn strategic(patch: Value) -> Result<Patch, Failure> {
    if is_plain(&patch) {
        return Ok(Patch::Merge(patch));
    }
    Err(Failure::unsupported_body(
        "strategic merge patches with lists or $ directives",
        "send application/merge-patch+json or application/json-patch+json",
    ))
}

fn is_plain(patch: &Value) -> bool {
    match patch {
        Value::Array(_) => false,
        Value::Object(fields) => {
            fields.iter().all(|(name, value)| !name.starts_with('$') && is_plain(value))
        }
        _ => true,
    }
}
