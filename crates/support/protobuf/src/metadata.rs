//! The metadata of an object without the rest of it. All kinds have it in the same field.

use crate::error::{Error, Reason};
use crate::wire::{Reader, Tag, WireType, put_bytes};

/// The number of `metadata` in every kind that has one.
pub(crate) const METADATA: u32 = 1;

/// The number of `managedFields` in the metadata.
pub(crate) const MANAGED_FIELDS: u32 = 17;

/// Returns the metadata of an object: one part, or more if it is scattered.
pub(crate) fn parts(raw: &[u8]) -> Result<Vec<&[u8]>, Error> {
    let mut parts = Vec::new();
    let mut reader = Reader::new(raw);
    while !reader.is_empty() {
        let tag = reader.tag("Object")?;
        if tag.number == METADATA {
            parts.push(content(tag, &mut reader)?);
        } else {
            reader.skip(tag)?;
        }
    }
    Ok(parts)
}

/// Appends an object without its managed fields. The other bytes stay as they are.
///
/// # Errors
/// Returns an error if the bytes are no message. What was appended until then is removed again.
pub fn cut_managed_fields(raw: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let start = out.len();
    let outcome = cut(raw, out);
    if outcome.is_err() {
        out.truncate(start);
    }
    outcome
}

fn cut(raw: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let mut reader = Reader::new(raw);
    while !reader.is_empty() {
        let start = raw.len() - reader.left();
        let tag = reader.tag("Object")?;
        if tag.number == METADATA {
            let metadata = content(tag, &mut reader)?;
            put_bytes(out, METADATA, &without(metadata, MANAGED_FIELDS)?);
        } else {
            reader.skip(tag)?;
            out.extend_from_slice(&raw[start..raw.len() - reader.left()]);
        }
    }
    Ok(())
}

/// Returns a message without a field.
fn without(message: &[u8], number: u32) -> Result<Vec<u8>, Error> {
    let mut kept = Vec::with_capacity(message.len());
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        let start = message.len() - reader.left();
        let tag = reader.tag("ObjectMeta")?;
        reader.skip(tag)?;
        if tag.number != number {
            kept.extend_from_slice(&message[start..message.len() - reader.left()]);
        }
    }
    Ok(kept)
}

fn content<'a>(tag: Tag, reader: &mut Reader<'a>) -> Result<&'a [u8], Error> {
    if tag.is(WireType::Bytes) {
        return reader.bytes();
    }
    let field = "ObjectMeta".to_owned();
    Err(Reason::WrongWireType { wire_type: tag.wire_type, field }.into())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{from_raw, raw_from_json, table::TABLE};

    fn pod(managed_fields: &Value) -> Vec<u8> {
        let pod = json!({
            "metadata": {"name": "a", "labels": {"app": "b"}, "managedFields": managed_fields},
            "spec": {"containers": [{"name": "c", "image": "d"}], "nodeName": "e"},
        });
        raw_from_json("v1", "Pod", pod.as_object().expect("an object")).expect("it is a pod")
    }

    #[test]
    fn managed_fields_are_cut_and_nothing_else() {
        let fields = json!([
            {"manager": "x", "operation": "Apply", "fieldsV1": {"f:spec": {}}},
            {"manager": "y", "operation": "Update", "fieldsV1": {"f:status": {}}},
        ]);
        let mut cut = b"before".to_vec();
        cut_managed_fields(&pod(&fields), &mut cut).expect("it is a message");
        assert_eq!(cut, [b"before", pod(&Value::Null).as_slice()].concat());
    }

    #[test]
    fn broken_bytes_leave_nothing_behind() {
        let mut whole = pod(&Value::Null);
        whole.pop();
        let mut out = b"before".to_vec();
        cut_managed_fields(&whole, &mut out).expect_err("the end is missing");
        assert_eq!(out, b"before");
    }

    #[test]
    fn metadata_is_read_alone() {
        #[derive(Debug, PartialEq, serde::Deserialize)]
        struct Head<'a> {
            name: &'a str,
            labels: std::collections::BTreeMap<&'a str, &'a str>,
        }
        let bytes = pod(&Value::Null);
        let head: Head<'_> = crate::metadata_from_raw(&bytes).expect("it has metadata");
        assert_eq!(head, Head { name: "a", labels: [("app", "b")].into() });
    }

    #[test]
    fn scattered_metadata_is_merged() {
        let (mut first, mut second, mut raw) = (Vec::new(), Vec::new(), Vec::new());
        put_bytes(&mut first, 1, b"a");
        put_bytes(&mut second, 3, b"n");
        put_bytes(&mut raw, METADATA, &first);
        put_bytes(&mut raw, METADATA, &second);
        let expected = json!({"name": "a", "namespace": "n"});
        let metadata: Value = crate::metadata_from_raw(&raw).expect("it has metadata");
        assert_eq!(metadata, expected);
        let whole: Value = from_raw("v1", "ConfigMap", &raw).expect("it is an object");
        assert_eq!(whole["metadata"], expected);
    }

    #[test]
    fn every_kind_has_its_metadata_in_the_same_field() {
        for (api_version, kind) in TABLE.kinds() {
            let message = TABLE.kind(api_version, kind).expect("a kind has a message");
            let metadata = message.fields.iter().find(|field| field.name == "metadata");
            assert!(metadata.is_none_or(|it| it.number == METADATA), "{api_version} {kind}");
        }
        let metadata = TABLE.named("meta.v1", "ObjectMeta").expect("there is such a message");
        let field = metadata.field(MANAGED_FIELDS).map(|field| field.name);
        assert_eq!(field, Some("managedFields"));
    }
}
