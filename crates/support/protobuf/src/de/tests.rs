//! What types get, and what is refused.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, Secret};
use proptest::prelude::*;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::table::TABLE;
use crate::tests::{draw, encoded, object};
use crate::wire::{WireType, put_bytes, put_tag, put_varint};
use crate::{Deserializer, Envelope, Error, Reason, from_raw, raw_from_json};

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "a", "labels": {"app": "b", "tier": "c"}, "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "nodeName": "n",
            "containers": [{
                "name": "c", "image": "i",
                "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}},
                "readinessProbe": {"httpGet": {"port": "http"}, "periodSeconds": 5},
                "ports": [{"containerPort": 80}],
            }],
        },
        "status": {"phase": "Running"},
    })
}

fn raw(value: &Value) -> Vec<u8> {
    let text = |name: &str| value[name].as_str().expect("it is there").to_owned();
    raw_from_json(&text("apiVersion"), &text("kind"), &object(value)).expect("it fits")
}

/// Returns a field with a string.
fn field(number: u32, text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, number, text.as_bytes());
    out
}

#[test]
fn types_of_k8s_openapi_decode_as_from_json() {
    let from_json: Pod = serde_json::from_value(pod()).expect("it is a pod");
    assert_eq!(from_raw::<Pod>("v1", "Pod", &raw(&pod())), Ok(from_json.clone()));
    let body = encoded(&pod());
    assert_eq!(Envelope::read(&body).and_then(|it| it.decode()), Ok(from_json));

    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": {"a": "AP8="}});
    let decoded: Secret = from_raw("v1", "Secret", &raw(&secret)).expect("it is a secret");
    assert_eq!(decoded.data.expect("it has data")["a"].0, [0, 255]);
}

#[test]
fn small_structs_borrow_what_they_need() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Slim<'a> {
        #[serde(borrow)]
        metadata: Metadata<'a>,
        spec: Spec<'a>,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Metadata<'a> {
        name: &'a str,
        #[serde(borrow)]
        labels: BTreeMap<&'a str, &'a str>,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec<'a> {
        node_name: &'a str,
        host_network: Option<bool>,
    }
    let raw = raw(&pod());
    let slim: Slim<'_> = from_raw("v1", "Pod", &raw).expect("it has these fields");
    let labels = BTreeMap::from([("app", "b"), ("tier", "c")]);
    let spec = Spec { node_name: "n", host_network: None };
    assert_eq!(slim, Slim { metadata: Metadata { name: "a", labels }, spec });
}

#[test]
fn enums_decode_from_their_names() {
    #[derive(Debug, PartialEq, Deserialize)]
    enum Phase {
        Running,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Status {
        phase: Phase,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Slim {
        status: Status,
    }
    let slim: Result<Slim, Error> = from_raw("v1", "Pod", &raw(&pod()));
    assert_eq!(slim, Ok(Slim { status: Status { phase: Phase::Running } }));
}

#[test]
fn a_field_that_the_table_lacks_is_refused_where_all_are_wanted() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Spec {
        #[serde(flatten)]
        rest: BTreeMap<String, Value>,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Flat {
        spec: Spec,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Name {
        metadata: BTreeMap<String, Value>,
    }
    let mut newer = raw(&pod());
    put_bytes(&mut newer, 2, &field(999, "new"));
    let refused = |error: Error| {
        let reason = Reason::UnknownNumber { message: "PodSpec", number: 999 };
        assert_eq!((error.path(), error.reason()), ("spec", &reason));
    };
    refused(from_raw::<Value>("v1", "Pod", &newer).expect_err("it wants all"));
    refused(from_raw::<Flat>("v1", "Pod", &newer).expect_err("it wants all of the spec"));
    refused(crate::to_json("v1", "Pod", &newer).expect_err("it wants all"));
    // Who does not ask for the spec, or has a type for it, misses nothing.
    from_raw::<Name>("v1", "Pod", &newer).expect("it wants metadata alone");
    from_raw::<Pod>("v1", "Pod", &newer).expect("the type has no such field either");
    from_raw::<IgnoredAny>("v1", "Pod", &newer).expect("it wants nothing");
    // A server leaves it out.
    let deserializer = Deserializer::new("v1", "Pod", &newer).expect("there are pods");
    let value = Value::deserialize(deserializer.skip_unknown()).expect("it is left out");
    assert_eq!(value, from_raw::<Value>("v1", "Pod", &raw(&pod())).expect("it is a pod"));
}

#[test]
fn a_struct_with_a_field_that_the_table_lacks_is_refused() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Newer {
        metadata: IgnoredAny,
        #[serde(default)]
        wings: u32,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Outer {
        spec: Spec,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Spec {
        #[serde(default)]
        kind: String,
    }
    let error = from_raw::<Newer>("v1", "Pod", &raw(&pod())).expect_err("pods have none");
    let expected = "field \"wings\" of Pod is not in the table of Kubernetes 1.37";
    assert_eq!(error.to_string(), expected);
    // Parts of an object have no kind.
    let error = from_raw::<Outer>("v1", "Pod", &raw(&pod())).expect_err("a spec has none");
    assert!(error.to_string().starts_with("spec: field \"kind\" of PodSpec"), "{error}");
}

#[test]
fn errors_name_the_field_and_show_no_value() {
    #[derive(Debug, Deserialize)]
    struct Wrong {
        #[serde(rename = "spec")]
        _spec: Spec,
    }
    #[derive(Debug, Deserialize)]
    struct Spec {
        #[serde(rename = "nodeName")]
        _node_name: u32,
    }
    let error = from_raw::<Wrong>("v1", "Pod", &raw(&pod())).expect_err("it is a string");
    assert_eq!(error.to_string(), "spec.nodeName: a value of the wrong type or form");
    assert_eq!(format!("{error:?}"), format!("Error({error})"));
    assert!(error.message_of_type().is_some_and(|text| text.contains("\"n\"")), "{error}");
}

#[test]
fn invalid_utf8_is_replaced() {
    let mut map = Vec::new();
    for part in [[0x0a, 1, 0xff], [0x12, 1, 0xfe]] {
        map.extend(part);
    }
    let mut raw = Vec::new();
    put_bytes(&mut raw, 2, &map);
    let value: Value = from_raw("v1", "ConfigMap", &raw).expect("Go reads it");
    assert_eq!(value["data"], json!({"\u{fffd}": "\u{fffd}"}));
}

#[test]
fn the_last_value_wins_lists_grow_and_messages_merge() {
    let spec = |fields: &[Vec<u8>]| {
        let mut out = Vec::new();
        put_bytes(&mut out, 2, &fields.concat());
        out
    };
    let container = |name: &str| {
        let mut out = Vec::new();
        put_bytes(&mut out, 2, &field(1, name));
        out
    };
    let raw = [
        spec(&[container("a"), field(10, "first"), container("b")]),
        spec(&[field(10, "second"), container("c"), field(16, "host")]),
    ]
    .concat();
    let value: Value = from_raw("v1", "Pod", &raw).expect("Go reads it");
    let spec = &value["spec"];
    assert_eq!((&spec["nodeName"], &spec["hostname"]), (&json!("second"), &json!("host")));
    let names: Vec<_> = spec["containers"].as_array().expect("a list").iter().collect();
    let names: Vec<_> = names.iter().map(|it| it["name"].as_str().unwrap_or_default()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    // A field that is empty in the end is left out.
    let config = |value: u64| {
        let mut out = Vec::new();
        put_tag(&mut out, 4, WireType::Varint);
        put_varint(&mut out, value);
        out
    };
    let value: Value =
        from_raw("v1", "ConfigMap", &[config(1), config(0)].concat()).expect("it is");
    assert_eq!(value["immutable"], json!(false), "Go holds a pointer");
}

#[test]
fn entries_of_maps_come_once_whatever_their_order() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Data {
        a: String,
        b: String,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Config {
        data: Data,
    }
    let entry = |key: &str, value: &str| {
        let mut out = Vec::new();
        put_bytes(&mut out, 2, &[field(1, key), field(2, value)].concat());
        out
    };
    let raw = [entry("b", "1"), entry("a", "2"), entry("b", "3")].concat();
    let config: Config = from_raw("v1", "ConfigMap", &raw).expect("no field comes twice");
    assert_eq!(config.data, Data { a: "2".to_owned(), b: "3".to_owned() });
}

#[test]
fn packed_numbers_are_a_list() {
    // `supplementalGroups` of the security context of a pod.
    let mut context = Vec::new();
    put_bytes(&mut context, 4, &[1, 0x80, 1, 3]);
    let (mut spec, mut raw) = (Vec::new(), Vec::new());
    put_bytes(&mut spec, 14, &context);
    put_bytes(&mut raw, 2, &spec);
    let value: Value = from_raw("v1", "Pod", &raw).expect("Go reads it");
    assert_eq!(value["spec"]["securityContext"]["supplementalGroups"], json!([1, 128, 3]));
}

#[test]
fn tags_may_be_longer_than_they_need_to_be() {
    // `metadata`, `data` and `containers`, with a needless byte or two.
    let raw = [0x8a, 0x00, 0, 0x92, 0x80, 0x00, 5, 0x0a, 1, b'a', 0x12, 0];
    let value: Value = from_raw("v1", "ConfigMap", &raw).expect("Go reads it");
    assert_eq!(value["data"], json!({"a": ""}));
    let spec = [0x92, 0x00, 0, 0x12, 0];
    let mut raw = Vec::new();
    put_bytes(&mut raw, 2, &spec);
    let value: Value = from_raw("v1", "Pod", &raw).expect("Go reads it");
    assert_eq!(value["spec"]["containers"].as_array().map(Vec::len), Some(2));
}

#[test]
fn groups_and_lengths_beyond_the_end_are_errors() {
    let why = |raw: &[u8]| {
        let outcome: Result<Pod, Error> = from_raw("v1", "Pod", raw);
        outcome.expect_err("it is broken").reason().clone()
    };
    // A group that is not in the table is skipped; one that does not end is not.
    from_raw::<Pod>("v1", "Pod", &[0x9b, 0x06, 0x08, 1, 0x9c, 0x06]).expect("it is skipped");
    assert_eq!(why(&[0x9b, 0x06, 0x08, 1]), Reason::Short);
    assert_eq!(why(&[0x9c, 0x06]), Reason::EndOfGroup("Pod"));
    assert_eq!(why(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x07, 0]), Reason::Short);
    let field = "ObjectMeta".to_owned();
    assert_eq!(why(&[0x08, 1]), Reason::WrongWireType { wire_type: 0, field });
}

#[test]
fn copies_of_scattered_fields_have_a_bound() {
    // `not` in a schema, whose fields are out of order on each level.
    let mut schema = field(1, "id");
    for _ in 0..40 {
        let mut outer = Vec::new();
        put_bytes(&mut outer, 28, &schema);
        outer.extend(field(1, "id"));
        schema = outer;
    }
    for number in [1, 4, 7, 2] {
        let mut outer = Vec::new();
        put_bytes(&mut outer, number, &schema);
        schema = outer;
    }
    let (version, kind) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let error = from_raw::<Value>(version, kind, &schema).expect_err("it copies too much");
    assert_eq!(*error.reason(), Reason::TooScattered);
}

/// A typed pod, and what `serde_json` makes of the JSON of the same bytes.
fn check_pod(raw: &[u8]) {
    let Ok(json) = crate::to_json("v1", "Pod", raw) else { return };
    let of_json: Result<Pod, _> = serde_json::from_slice(&json);
    let of_raw: Result<Pod, Error> = from_raw("v1", "Pod", raw);
    match (of_json, of_raw) {
        (Ok(of_json), Ok(of_raw)) => assert_eq!(of_raw, of_json),
        (Err(_), Err(_)) => {}
        (of_json, of_raw) => panic!("{of_json:?} {of_raw:?}"),
    }
}

proptest! {
    #[test]
    fn typed_pods_are_those_of_json(seed in any::<u64>()) {
        let message = TABLE.kind("v1", "Pod").expect("there are pods");
        check_pod(&draw(&mut fastrand::Rng::with_seed(seed), message, 0));
    }

    #[test]
    fn typed_pods_with_changed_bytes_are_those_of_json(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut raw = raw(&pod());
        for (place, byte) in changes {
            let place = place.index(raw.len());
            raw[place] = byte;
        }
        check_pod(&raw);
    }
}
