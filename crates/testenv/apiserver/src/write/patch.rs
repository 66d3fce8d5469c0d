//! Patches: a body and its media type become an edit of an object.

mod operations;
#[cfg_attr(not(feature = "kubectl"), path = "patch/no_strategic.rs")]
mod strategic;

use serde_json::{Map, Value};

use super::decode::Decoder;
use crate::failure::Failure;
use crate::go_decoder::{go_syntax, go_type};
use crate::json;
use crate::target::Target;
pub(crate) use operations::Operation;
use strategic::StrategicPatch;

/// The patch type, from the media type of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchType {
    /// RFC 6902.
    Operations,
    /// RFC 7386.
    Merge,
    /// The default patch of kubectl and client-go for built-in kinds.
    Strategic,
    /// Server-side apply: [`super::apply`].
    Apply,
}

/// A parsed patch.
#[derive(Debug)]
pub(crate) enum Patch {
    Operations(Vec<Operation>),
    Merge(Value),
    Strategic(StrategicPatch),
}

/// The limit on operations in one JSON patch, as on the real server.
const OPERATIONS_MAX: usize = 10_000;

/// The accepted media types of patches of custom resources, as the real server lists them.
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
        let prefix = if patch_type == PatchType::Strategic { "" } else { "error decoding patch: " };
        let read = json::read(body).map_err(|error| {
            Failure::bad_request(format!("{prefix}{}", go_syntax(&error, body)))
        })?;
        match patch_type {
            PatchType::Operations => operations(read.value),
            PatchType::Merge => merge(read.value).map(Self::Merge),
            PatchType::Strategic => StrategicPatch::parse(read).map(Self::Strategic),
            PatchType::Apply => Err(Failure::unsupported_body(
                "server-side apply of a scale",
                "send application/merge-patch+json or application/json-patch+json",
            )),
        }
    }

    /// Applies the patch to an object, and checks the result.
    pub(crate) fn apply(
        &self,
        decoder: &Decoder<'_>,
        object: Map<String, Value>,
    ) -> Result<Map<String, Value>, Failure> {
        if let Self::Strategic(patch) = self {
            return patch.apply(decoder, object);
        }
        match self.apply_value(Value::Object(object))? {
            Value::Object(object) => decoder.patched(object),
            _ => Err(Failure::rejected_patch()),
        }
    }

    /// Applies the patch to a scale, which is not a stored object.
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
            Self::Strategic(patch) => value = patch.apply_to_scale(value)?,
        }
        Ok(value)
    }
}

/// Applies a merge patch (RFC 7386): members replace members, and null removes them.
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
