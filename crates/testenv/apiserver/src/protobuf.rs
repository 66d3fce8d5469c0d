//! Protobuf for the built-in kinds: bodies are decoded to the JSON objects that the rest of the
//! server reads, and its JSON answers are encoded for clients that only accept protobuf.
//!
//! `windlass-protobuf` converts objects; this module has the bounds and the error texts of a
//! server, and [`answer`] converts JSON responses.
//!
//! Invariants: for any bytes, decoding returns an error or an object, nested at most
//! [`DEPTH_MAX`] levels and made of at most [`MESSAGES_MAX`] messages.

use serde::Deserialize as _;
use serde_json::{Map, Value};
use windlass_protobuf::{Deserializer, Envelope, Error, Reason};

use crate::go_decoder::not_registered;
use crate::json::{self, DEPTH_MAX, too_deep};

pub(crate) mod answer;

pub(crate) use windlass_protobuf::MEDIA_TYPE;

/// The limit on messages in one body. An empty message has two bytes in protobuf and hundreds in
/// memory. No object that etcd would store has more.
const MESSAGES_MAX: usize = 200_000;

/// The kind and version of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TypeMeta {
    pub(crate) api_version: String,
    pub(crate) kind: String,
}

/// Why a body cannot be decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The type meta of the body, if it was decoded.
    pub(crate) type_meta: Option<TypeMeta>,
    /// The error of Go's decoder.
    pub(crate) why: String,
}

/// Decodes a body. If it has no type meta, the object gets that of `expected`.
pub(crate) fn read(body: &[u8], expected: &TypeMeta) -> Result<Value, Refused> {
    let envelope = Envelope::read(body);
    let envelope = envelope.map_err(|error| Refused { type_meta: None, why: go_text(&error) })?;
    let or = |own: &str, expected: &String| {
        if own.is_empty() { expected.clone() } else { own.to_owned() }
    };
    let type_meta = TypeMeta {
        api_version: or(&envelope.api_version, &expected.api_version),
        kind: or(&envelope.kind, &expected.kind),
    };
    let refused = |why: String| Refused { type_meta: Some(type_meta.clone()), why };
    let value = decoded(&type_meta, envelope.raw);
    let mut value = value.map_err(|error| refused(go_text(&error)))?;
    json::integers_from_floats(&mut value);
    if json::depth(&value) > DEPTH_MAX {
        return Err(refused(too_deep(DEPTH_MAX)));
    }
    Ok(value)
}

fn decoded(type_meta: &TypeMeta, raw: &[u8]) -> Result<Value, Error> {
    let deserializer = Deserializer::new(&type_meta.api_version, &type_meta.kind, raw)?;
    Value::deserialize(deserializer.messages_max(MESSAGES_MAX).skip_unknown())
}

/// Encodes an object with type meta. Returns `None` if its kind has no message.
///
/// # Errors
/// Returns the error of a field that cannot be encoded.
pub(crate) fn write(object: &Map<String, Value>) -> Option<Result<Vec<u8>, String>> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let is_known = windlass_protobuf::is_known(text("apiVersion"), text("kind"));
    is_known.then(|| windlass_protobuf::from_json(object).map_err(|error| error.to_string()))
}

/// Returns the text that the real server has for an error, if it has one.
fn go_text(error: &Error) -> String {
    match error.reason() {
        Reason::UnknownKind { api_version, kind } => not_registered(kind, api_version),
        Reason::TooDeep => too_deep(DEPTH_MAX),
        Reason::TooManyMessages(messages_max) => format!(
            "the body consists of more than {messages_max} messages, which this embedded API \
             server does not read"
        ),
        reason => reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_kind_has_a_message() {
        for kind in crate::kinds::builtin() {
            for version in &kind.versions {
                let version = kind.api_version(&version.name);
                assert!(
                    windlass_protobuf::is_known(&version, &kind.kind),
                    "{version} {}",
                    kind.kind
                );
            }
        }
    }

    #[test]
    fn missing_type_meta_is_that_of_the_request() {
        let expected = TypeMeta { api_version: "v1".to_owned(), kind: "ConfigMap".to_owned() };
        let body = Envelope::new("", "", b"").to_bytes();
        let value = read(&body, &expected).expect("it is a config map");
        assert_eq!((&value["apiVersion"], &value["kind"]), (&"v1".into(), &"ConfigMap".into()));
    }
}
