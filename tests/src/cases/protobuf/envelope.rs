//! The envelope around protobuf objects, and malformed bytes.

use http::Method;
use serde_json::json;

use crate::Script;
use crate::fixtures::configmap;
use crate::protobuf::{body, envelope, message};
use crate::request::Request;

pub(in crate::cases) async fn envelope_may_leave_out_the_kind(t: &mut Script) {
    let fields = |name: &str| json!({"metadata": {"name": name}});
    for (name, version, kind) in [("a", "", ""), ("b", "v1", ""), ("c", "", "ConfigMap")] {
        let bytes = envelope(version, kind, &message("v1", "ConfigMap", &fields(name)));
        let shown = format!("version {version:?}, kind {kind:?}, name {name}");
        t.send(Request::new(Method::POST, t.configmaps()).protobuf_bytes(bytes, &shown)).await;
    }
}

pub(in crate::cases) async fn envelope_of_another_kind(t: &mut Script) {
    let raw = message("v1", "ConfigMap", &json!({"metadata": {"name": "a"}}));
    for (version, kind) in
        [("v1", "Secret"), ("v1", "Nonsense"), ("v9", "ConfigMap"), ("apps/v1", "Deployment")]
    {
        let bytes = envelope(version, kind, &raw);
        let shown = format!("version {version:?}, kind {kind:?}");
        t.send(Request::new(Method::POST, t.configmaps()).protobuf_bytes(bytes, &shown)).await;
    }
}

pub(in crate::cases) async fn body_that_is_no_protobuf(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    let whole = body(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}));
    for (bytes, shown) in [
        (Vec::new(), "nothing"),
        (b"{\"kind\":\"ConfigMap\"}".to_vec(), "JSON"),
        (b"k8s".to_vec(), "three of four bytes"),
        (b"k8s\0".to_vec(), "the prefix alone"),
        (b"k8s\0\x0a".to_vec(), "a tag and no length"),
        (b"k8s\0\x08\x01".to_vec(), "a number in place of the type meta"),
        (whole[..whole.len() - 1].to_vec(), "all but the last byte"),
    ] {
        let post = Request::new(Method::POST, t.configmaps());
        t.send(post.protobuf_bytes(bytes.clone(), shown)).await;
        if !bytes.is_empty() {
            t.send(Request::delete(t.configmap("a")).protobuf_bytes(bytes, shown)).await;
        }
    }
}

pub(in crate::cases) async fn message_that_is_broken(t: &mut Script) {
    for (raw, shown) in [
        (&b"\x0a\x05"[..], "metadata that ends too early"),
        (b"\x08\x01", "a number in place of metadata"),
        (b"\x0a\x02\x08\x01", "a number in place of the name"),
        (b"\x0a\x03\x0a\x02a", "a name that ends too early"),
        (b"\x12\x03\x0a\x02a", "an entry of data that ends too early"),
        (b"\x10\x01", "a number in place of data"),
        (b"\x00", "field 0"),
        (b"\x0c", "the end of a group"),
        (b"\x0f", "a wire type that nobody knows"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "a tag without an end"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "a length below zero"),
        (b"\xa3\x06\x08\x01", "an unknown group without an end"),
    ] {
        let bytes = envelope("v1", "ConfigMap", raw);
        t.send(Request::new(Method::POST, t.configmaps()).protobuf_bytes(bytes, shown)).await;
    }
}

pub(in crate::cases) async fn fields_that_nobody_knows_are_skipped(t: &mut Script) {
    let mut raw =
        message("v1", "ConfigMap", &json!({"metadata": {"name": "a"}, "data": {"a": "1"}}));
    // Field 100 in every wire type: a number, eight bytes, four bytes, two bytes with a length, a
    // group.
    raw.extend(b"\xa0\x06\x01\xa1\x06\0\0\0\0\0\0\0\0\xa5\x06\0\0\0\0\xa2\x06\x02hi\xa3\x06\x08\x01\xa4\x06");
    let bytes = envelope("v1", "ConfigMap", &raw);
    let path = format!("{}?fieldValidation=Strict", t.configmaps());
    let shown = "a config map with five fields 100";
    t.send(Request::new(Method::POST, path).protobuf_bytes(bytes, shown)).await;
}

pub(in crate::cases) async fn fields_that_come_twice_are_merged(t: &mut Script) {
    let mut raw = message(
        "v1",
        "Pod",
        &json!({
            "metadata": {"name": "a", "labels": {"l": "1", "k": "1"}, "finalizers": ["example.dev/a"]},
            "spec": {"containers": [{"name": "one", "image": "one:1"}], "restartPolicy": "Always"},
        }),
    );
    raw.extend(message(
        "v1",
        "Pod",
        &json!({
            "metadata": {"name": "b", "labels": {"l": "2"}, "finalizers": ["example.dev/b"]},
            "spec": {"containers": [{"name": "two", "image": "two:1"}], "restartPolicy": "Never"},
        }),
    ));
    let bytes = envelope("v1", "Pod", &raw);
    t.send(Request::new(Method::POST, t.pods()).protobuf_bytes(bytes, "two pods in a row")).await;
}
