//! Writes and reads protobuf bodies for cases, independently of the servers: with the published
//! `.proto` files, compiled by `examples/descriptors.rs`, and a library that does not know
//! Kubernetes.
//!
//! A case writes a message in protobuf's own JSON mapping, so that every field has its name from
//! the `.proto` file: a quantity is `{"string": "1Gi"}`, and a volume has a `volumeSource`. An
//! answer is shown in the same form, with exactly the fields on the wire; only times are converted
//! to texts.

use std::sync::LazyLock;

use prost_reflect::prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, SerializeOptions};
use serde_json::{Value, json};

/// The media type.
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The prefix of every body.
const PREFIX: &[u8] = b"k8s\0";

/// The package of the types that all groups share.
const META: &str = "k8s.io.apimachinery.pkg.apis.meta.v1";

/// The envelope of every object.
const UNKNOWN: &str = "k8s.io.apimachinery.pkg.runtime.Unknown";

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(include_bytes!("protobuf/descriptors.bin").as_slice())
        .expect("the compiled descriptors must be valid")
});

/// Returns the bytes of an object: `apiVersion` and `kind` go into the envelope, the rest is the
/// message.
pub(crate) fn body(object: &Value) -> Vec<u8> {
    let mut fields = object.clone();
    let type_meta = ["apiVersion", "kind"].map(|field| {
        let text = fields.as_object_mut().and_then(|fields| fields.remove(field));
        text.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
    });
    let [api_version, kind] = &type_meta;
    envelope(api_version, kind, &message(api_version, kind, &fields))
}

/// Returns the bytes of a message without its envelope.
pub(crate) fn message(api_version: &str, kind: &str, fields: &Value) -> Vec<u8> {
    let descriptor = descriptor(&full_name(api_version, kind)).expect("the message must exist");
    let message = DynamicMessage::deserialize(descriptor, fields.clone());
    message.expect("the fields must be those of the message").encode_to_vec()
}

/// Returns an envelope around any bytes.
pub(crate) fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    use base64::Engine as _;
    let raw = base64::prelude::BASE64_STANDARD.encode(raw);
    let fields = json!({"typeMeta": {"apiVersion": api_version, "kind": kind}, "raw": raw});
    let unknown = descriptor(UNKNOWN).expect("the message must exist");
    let unknown = DynamicMessage::deserialize(unknown, fields).expect("the fields must fit");
    [PREFIX, &unknown.encode_to_vec()].concat()
}

/// Reads an answer: the message, with `apiVersion` and `kind` from its envelope.
pub(crate) fn read(body: &[u8]) -> Option<Value> {
    let unknown = descriptor(UNKNOWN)?;
    let unknown = DynamicMessage::decode(unknown, body.strip_prefix(PREFIX)?).ok()?;
    let type_meta = unknown.get_field_by_name("typeMeta")?.as_message()?.clone();
    let text = |name: &str| Some(type_meta.get_field_by_name(name)?.as_str()?.to_owned());
    let (api_version, kind) = (text("apiVersion")?, text("kind")?);
    let raw = unknown.get_field_by_name("raw")?.as_bytes()?.clone();
    let message = descriptor(&full_name(&api_version, &kind))?;
    let message = DynamicMessage::decode(message, raw).ok()?;
    let mut shown = shown(&message)?;
    shown["apiVersion"] = api_version.into();
    shown["kind"] = kind.into();
    Some(shown)
}

/// Returns the first event of a watch in these bytes, if it is complete, and its length with its
/// frame.
pub(crate) fn event(bytes: &[u8]) -> Option<(Value, usize)> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let event = descriptor(&format!("{META}.WatchEvent"))?;
    let event = DynamicMessage::decode(event, rest.get(..length)?).ok()?;
    let object = event.get_field_by_name("object")?.as_message()?.clone();
    let object = object.get_field_by_name("raw")?.as_bytes()?.clone();
    let kind = event.get_field_by_name("type")?.as_str()?.to_owned();
    Some((json!({"type": kind, "object": read(&object)?}), 4 + length))
}

fn shown(message: &DynamicMessage) -> Option<Value> {
    let options = SerializeOptions::new().skip_default_fields(true).use_proto_field_name(true);
    let mut value = message.serialize_with_options(serde_json::value::Serializer, &options).ok()?;
    show_times(&mut value);
    Some(value)
}

/// Converts times from two numbers to texts, which the normaliser can replace.
fn show_times(value: &mut Value) {
    let number = |value: &Value, field: &str| {
        let field = value.get(field)?;
        field.as_i64().or_else(|| field.as_str()?.parse().ok())
    };
    if let (Some(seconds), Some(nanos)) = (number(value, "seconds"), number(value, "nanos"))
        && let Ok(time) = jiff::Timestamp::new(seconds, i32::try_from(nanos).unwrap_or(0))
    {
        *value = time.to_string().into();
        return;
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(show_times),
        Value::Object(fields) => fields.values_mut().for_each(show_times),
        _ => {}
    }
}

fn descriptor(name: &str) -> Option<MessageDescriptor> {
    POOL.get_message_by_name(name)
}

/// The full name of the message of a kind.
fn full_name(api_version: &str, kind: &str) -> String {
    let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
    let shared = ["DeleteOptions", "Status", "APIGroupList", "APIResourceList", "APIVersions"];
    match group.split('.').next().unwrap_or(group) {
        _ if shared.contains(&kind) => format!("{META}.{kind}"),
        "meta" => format!("{META}.{kind}"),
        "apiextensions" => {
            format!("k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.{version}.{kind}")
        }
        group => format!("k8s.io.api.{group}.{version}.{kind}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "1"},
        });
        assert_eq!(read(&body(&object)), Some(object));
    }
}
