//! Patches: from a body and its media type to an edit of an object.

use serde_json::{Map, Value};

use super::decode::{self, Decoded, go_syntax};
use crate::failure::Failure;
use crate::query::FieldValidation;
use crate::state::Target;

/// A change to an object, understood but not yet applied.
#[derive(Debug)]
pub(crate) enum Patch {
    /// RFC 6902.
    Operations(json_patch::Patch),
    /// RFC 7386.
    Merge(Value),
}

/// Operations that one JSON patch may have, as on the real server.
const OPERATIONS_MAX: usize = 10_000;

/// Media types that patches of custom resources may have, as the real server lists them.
const ACCEPTED: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

impl Patch {
    pub(crate) fn parse(
        target: &Target,
        body: &[u8],
        content_type: Option<&str>,
    ) -> Result<Self, Failure> {
        let builtin = target.kind.is_builtin();
        let media = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        match media {
            "application/json-patch+json" => operations(body),
            "application/merge-patch+json" => json(body).map(Self::Merge),
            "application/strategic-merge-patch+json" if builtin => strategic(json(body)?),
            "application/apply-patch+yaml" | "application/apply-patch+cbor" => {
                Err(Failure::unsupported_body(
                    "server-side apply",
                    "send application/merge-patch+json or application/json-patch+json",
                ))
            }
            _ if builtin => Err(Failure::unsupported_patch_type()),
            _ => Err(Failure::unsupported_media_type(ACCEPTED)),
        }
    }

    /// The object as it is after the patch.
    pub(crate) fn apply(
        &self,
        target: &Target,
        object: Map<String, Value>,
        validation: &FieldValidation,
    ) -> Result<Decoded, Failure> {
        match self.apply_value(Value::Object(object))? {
            Value::Object(object) => decode::checked(target, object, validation),
            _ => Err(Failure::rejected_patch()),
        }
    }

    /// The same for something that is not a stored object.
    pub(crate) fn apply_value(&self, mut value: Value) -> Result<Value, Failure> {
        match self {
            Self::Operations(operations) => {
                json_patch::patch(&mut value, operations).map_err(|_| Failure::rejected_patch())?;
            }
            Self::Merge(patch) => json_patch::merge(&mut value, patch),
        }
        Ok(value)
    }
}

fn json(body: &[u8]) -> Result<Value, Failure> {
    let value: Value = serde_json::from_slice(body).map_err(|error| {
        Failure::bad_request(format!("error decoding patch: {}", go_syntax(&error, body)))
    })?;
    match value {
        Value::Object(_) => Ok(value),
        other => Err(Failure::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_type(&other)
        ))),
    }
}

fn operations(body: &[u8]) -> Result<Patch, Failure> {
    let value: Value = serde_json::from_slice(body).map_err(|error| {
        Failure::bad_request(format!("error decoding patch: {}", go_syntax(&error, body)))
    })?;
    let Value::Array(list) = &value else {
        return Err(Failure::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
            go_type(&value)
        )));
    };
    if list.len() > OPERATIONS_MAX {
        return Err(Failure::new(
            http::StatusCode::PAYLOAD_TOO_LARGE,
            Some("RequestEntityTooLarge"),
            format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is \
                 {OPERATIONS_MAX}, got {}",
                list.len()
            ),
        ));
    }
    // The shape is a list of something; what is wrong with an operation shows when it is applied.
    serde_json::from_value(value).map(Patch::Operations).map_err(|_| Failure::rejected_patch())
}

/// A strategic merge patch that says nothing about lists is a merge patch. How lists merge is told by the
/// types of Kubernetes, which this server does not have: such a patch is refused, never misapplied.
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

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
