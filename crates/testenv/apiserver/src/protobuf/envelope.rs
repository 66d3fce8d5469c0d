//! The envelope of every object: a prefix of four bytes, the type meta, and the message as bytes
//! (`runtime.Unknown` in Go).

use serde_json::{Map, Value};

use super::decode::Decoding;
use super::encode;
use super::table::TABLE;
use super::wire::{Reader, put_bytes};
use crate::go_decoder::not_registered;
use crate::json::{self, DEPTH_MAX};

/// The prefix of every body.
const PREFIX: &[u8] = b"k8s\0";

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
    let refused =
        |type_meta: Option<&TypeMeta>, why: String| Refused { type_meta: type_meta.cloned(), why };
    let unknown = Unknown::read(body).map_err(|why| refused(None, why))?;
    let type_meta = unknown.type_meta.or(expected);
    let Some(message) = TABLE.kind(&type_meta.api_version, &type_meta.kind) else {
        let why = not_registered(&type_meta.kind, &type_meta.api_version);
        return Err(refused(Some(&type_meta), why));
    };
    let object = Decoding::new(&TABLE).object(message, unknown.raw);
    let mut object = object.map_err(|why| refused(Some(&type_meta), why))?;
    object.insert("kind".into(), type_meta.kind.as_str().into());
    object.insert("apiVersion".into(), type_meta.api_version.as_str().into());
    let value = Value::Object(object);
    if json::depth(&value) > DEPTH_MAX {
        let why = format!(
            "the body is nested deeper than {DEPTH_MAX} levels, which this embedded API server does \
             not read"
        );
        return Err(refused(Some(&type_meta), why));
    }
    Ok(value)
}

/// Encodes an object with type meta. Returns `None` if its kind has no message.
///
/// # Errors
/// Returns the error of a field that cannot be encoded.
pub(crate) fn write(object: &Map<String, Value>) -> Option<Result<Vec<u8>, String>> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let message = TABLE.kind(api_version, kind)?;
    Some(encode::object(&TABLE, message, object).map(|raw| {
        let mut type_meta = Vec::new();
        put_bytes(&mut type_meta, 1, api_version.as_bytes());
        put_bytes(&mut type_meta, 2, kind.as_bytes());
        let mut out = PREFIX.to_vec();
        put_bytes(&mut out, 1, &type_meta);
        put_bytes(&mut out, 2, &raw);
        // The encoding and type of the content are empty.
        put_bytes(&mut out, 3, b"");
        put_bytes(&mut out, 4, b"");
        out
    }))
}

/// A body without its prefix, split into its parts.
struct Unknown<'a> {
    type_meta: TypeMeta,
    raw: &'a [u8],
}

impl<'a> Unknown<'a> {
    fn read(body: &'a [u8]) -> Result<Self, String> {
        let Some(message) = body.strip_prefix(PREFIX) else {
            return Err(if body.is_empty() {
                "empty data".to_owned()
            } else {
                "provided data does not appear to be a protobuf message, expected prefix \
                 [107 56 115 0]"
                    .to_owned()
            });
        };
        if message.is_empty() {
            return Err("empty body".to_owned());
        }
        let mut unknown = Self { type_meta: TypeMeta::default(), raw: &[] };
        each_bytes("Unknown", message, UNKNOWN_FIELDS, |number, bytes| {
            match number {
                1 => unknown.type_meta.merge(bytes)?,
                2 => unknown.raw = bytes,
                _ => {}
            }
            Ok(())
        })?;
        Ok(unknown)
    }
}

/// The fields of `runtime.Unknown`, by their numbers.
const UNKNOWN_FIELDS: &[&str] = &["TypeMeta", "Raw", "ContentEncoding", "ContentType"];

impl TypeMeta {
    /// Fills empty fields from `expected`.
    fn or(mut self, expected: &Self) -> Self {
        if self.kind.is_empty() {
            self.kind.clone_from(&expected.kind);
        }
        if self.api_version.is_empty() {
            self.api_version.clone_from(&expected.api_version);
        }
        self
    }

    fn merge(&mut self, bytes: &[u8]) -> Result<(), String> {
        each_bytes("TypeMeta", bytes, &["APIVersion", "Kind"], |number, bytes| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            *(if number == 1 { &mut self.api_version } else { &mut self.kind }) = text;
            Ok(())
        })
    }
}

/// Calls `each` for the fields of a message that has only fields of bytes. `names` are their names,
/// from number 1 up.
fn each_bytes<'a>(
    message: &str,
    bytes: &'a [u8],
    names: &[&str],
    mut each: impl FnMut(u32, &'a [u8]) -> Result<(), String>,
) -> Result<(), String> {
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        let tag = reader.tag(message)?;
        match names.get(tag.number as usize - 1) {
            None => reader.skip(tag)?,
            Some(_) if tag.wire_type == 2 => each(tag.number, reader.bytes()?)?,
            Some(name) => {
                return Err(format!("proto: wrong wireType = {} for field {name}", tag.wire_type));
            }
        }
    }
    Ok(())
}
