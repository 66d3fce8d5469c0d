//! Tests of both directions: Go's JSON for a message, and round trips.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::envelope::write;
use super::table::{Message, TABLE, Type};
use super::wire::{WireType, put_bytes, put_tag, put_varint};
use super::{TypeMeta, read};

/// Kinds that use every type of the table.
const KINDS: [(&str, &str); 12] = [
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("apps/v1", "ControllerRevision"),
    ("apps/v1", "StatefulSet"),
    ("authorization.k8s.io/v1", "SubjectAccessReview"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("coordination.k8s.io/v1", "Lease"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("v1", "ConfigMap"),
    ("v1", "DeleteOptions"),
    ("v1", "PodList"),
    ("v1", "Secret"),
    ("v1", "Status"),
];

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().expect("it is an object")
}

fn bytes(value: &Value) -> Vec<u8> {
    write(&object(value)).expect("the kind has a message").expect("it fits")
}

/// Encodes a value and decodes it again.
fn there_and_back(value: &Value) -> Value {
    read(&bytes(value), &TypeMeta::default()).expect("what was written can be read")
}

/// Returns a body with a message in its envelope.
fn envelope((api_version, kind): (&str, &str), raw: &[u8]) -> Vec<u8> {
    let mut type_meta = Vec::new();
    put_bytes(&mut type_meta, 1, api_version.as_bytes());
    put_bytes(&mut type_meta, 2, kind.as_bytes());
    let mut out = b"k8s\0".to_vec();
    put_bytes(&mut out, 1, &type_meta);
    put_bytes(&mut out, 2, raw);
    out
}

fn why(kind: (&str, &str), raw: &[u8]) -> String {
    read(&envelope(kind, raw), &TypeMeta::default()).expect_err("it is broken").why
}

#[test]
fn empty_is_left_out_unless_go_holds_a_pointer() {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "spec": {"replicas": 0, "paused": false, "minReadySeconds": 0},
    });
    let spec = &there_and_back(&deployment)["spec"];
    assert_eq!(spec["replicas"], 0);
    assert_eq!(spec.get("paused"), None);
    assert_eq!(spec.get("minReadySeconds"), None);
    assert_eq!(spec["template"], json!({"metadata": {}, "spec": {}}));
}

#[test]
fn types_of_their_own_come_back() {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "a", "creationTimestamp": "1969-12-31T23:59:59Z"},
        "spec": {
            "acquireTime": "1969-12-31T23:59:59.000001Z",
            "renewTime": "2026-01-01T00:00:00.000000Z",
            "leaseTransitions": -1,
        },
    });
    assert_eq!(there_and_back(&lease), lease);
    let schema = json!({
        "type": "object", "default": {"a": [null, 1.5]}, "enum": ["x", null], "maximum": 2.5,
        "items": [{"type": "string"}],
        "additionalProperties": false, "additionalItems": {"type": "string"},
        "dependencies": {"a": ["b"], "c": {"type": "string"}},
        "x-kubernetes-int-or-string": true,
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]},
    });
    let back = there_and_back(&definition);
    assert_eq!(back["spec"]["versions"][0]["schema"]["openAPIV3Schema"], schema);
}

#[test]
fn fields_of_embedded_structs_stand_beside_the_others() {
    let volume = json!({"name": "v", "configMap": {"name": "c", "optional": false}});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {},
        "spec": {"containers": [{"name": "a", "resources": {}}], "volumes": [volume]},
        "status": {},
    });
    assert_eq!(there_and_back(&pod), pod);
}

#[test]
fn depth_and_number_of_messages_have_bounds() {
    let crd = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    // A schema within a schema is in the field `not`, number 28.
    let mut schema = Vec::new();
    for _ in 0..1000 {
        let mut outer = Vec::new();
        put_bytes(&mut outer, 28, &schema);
        schema = outer;
    }
    let wrap = |number: u32, inner: &[u8]| {
        let mut outer = Vec::new();
        put_bytes(&mut outer, number, inner);
        outer
    };
    // spec, versions, schema, openAPIV3Schema
    let raw = wrap(2, &wrap(7, &wrap(4, &wrap(1, &schema))));
    assert!(why(crd, &raw).contains("nested deeper than 127 levels"));

    // Containers of two bytes each, in the spec of a pod.
    let containers = [0x12, 0x00].repeat(super::decode::MESSAGES_MAX);
    let error = why(("v1", "Pod"), &wrap(2, &containers));
    assert!(error.contains("more than 200000 messages"), "{error}");
}

#[test]
fn times_that_nobody_can_write_are_refused() {
    let mut time = Vec::new();
    put_tag(&mut time, 1, WireType::Varint);
    put_varint(&mut time, i64::MAX.cast_unsigned());
    let (mut metadata, mut raw) = (Vec::new(), Vec::new());
    put_bytes(&mut metadata, 8, &time);
    put_bytes(&mut raw, 1, &metadata);
    let error = why(("v1", "ConfigMap"), &raw);
    assert_eq!(error, "a time is outside of the years 1 to 9999");
}

#[test]
fn kinds_without_a_message_are_not_written() {
    let widget = json!({"apiVersion": "example.dev/v1", "kind": "Widget"});
    assert!(write(&object(&widget)).is_none());
    let wrong = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": 1}});
    let outcome = write(&object(&wrong)).expect("the kind has a message");
    assert_eq!(outcome, Err("ConfigMap.Data: the value is of another type".to_owned()));
}

/// Generates a message with values of the right types.
fn draw(random: &mut fastrand::Rng, message: &Message, depth: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let odds = if depth > 12 { 0 } else { 30 };
    for field in &message.fields {
        if random.u32(0..100) >= odds {
            continue;
        }
        match &field.kind {
            Type::List(item) => {
                for _ in 0..random.usize(1..3) {
                    draw_value(random, item, field.number, depth, &mut out);
                }
            }
            Type::Map(value) => {
                let mut entry = Vec::new();
                put_bytes(&mut entry, 1, random.choice(["", "a", "b"]).unwrap_or("").as_bytes());
                draw_value(random, value, 2, depth, &mut entry);
                put_bytes(&mut out, field.number, &entry);
            }
            kind => draw_value(random, kind, field.number, depth, &mut out),
        }
    }
    out
}

fn draw_value(
    random: &mut fastrand::Rng,
    kind: &Type,
    number: u32,
    depth: usize,
    out: &mut Vec<u8>,
) {
    match kind {
        Type::String => {
            let text = random.choice(["", "a", "25%", "1Gi", "ü"]).unwrap_or("");
            put_bytes(out, number, text.as_bytes());
        }
        Type::Bytes => {
            let text = random.choice(["", "null", "{\"a\":[1,null]}", "1.5", "\"x\""]);
            put_bytes(out, number, text.unwrap_or("").as_bytes());
        }
        Type::Bool | Type::Int32 | Type::Int64 => {
            let value = random.choice([0, 1, 1, u64::MAX, 978_307_200]).unwrap_or(0);
            put_tag(out, number, WireType::Varint);
            put_varint(out, value);
        }
        Type::Double => {
            let value = random.choice([0.0, 1.5, -2.0]).unwrap_or(0.0);
            put_tag(out, number, WireType::Fixed64);
            out.extend_from_slice(&f64::to_le_bytes(value));
        }
        Type::Message(inner) => {
            let inner = draw(random, TABLE.get(*inner), depth + 1);
            put_bytes(out, number, &inner);
        }
        Type::List(_) | Type::Map(_) => unreachable!("lists do not hold lists"),
    }
}

/// Generates bytes that look like a message: fields with low numbers, and messages in them.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let text = prop_oneof![
        "[a-z0-9.:%-]{0,8}".prop_map(String::into_bytes),
        prop::sample::select(vec!["1Gi", "{\"a\":[1]}", "25%", "null", "[]"])
            .prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..6),
    ];
    text.prop_recursive(7, 40, 5, |inner| {
        let number = || 1_u32..30;
        let varint = (number(), prop_oneof![0_u64..4, any::<u64>()]).prop_map(|(number, value)| {
            let mut out = Vec::new();
            put_tag(&mut out, number, WireType::Varint);
            put_varint(&mut out, value);
            out
        });
        let nested = (number(), inner).prop_map(|(number, value)| {
            let mut out = Vec::new();
            put_bytes(&mut out, number, &value);
            out
        });
        let fields = prop_oneof![1 => varint, 3 => nested];
        prop::collection::vec(fields, 1..5).prop_map(|fields| fields.concat())
    })
}

fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(4000)))]

    #[test]
    fn what_can_be_read_comes_back(
        kind in prop::sample::select(KINDS.to_vec()),
        raw in message(),
    ) {
        if let Ok(value) = read(&envelope(kind, &raw), &TypeMeta::default()) {
            prop_assert_eq!(there_and_back(&value), value);
        }
    }

    #[test]
    fn messages_of_the_right_types_come_back(
        kind in prop::sample::select(KINDS.to_vec()),
        seed in any::<u64>(),
    ) {
        let message = TABLE.kind(kind.0, kind.1).expect("the kind has a message");
        let raw = draw(&mut fastrand::Rng::with_seed(seed), message, 0);
        // Only a value that Go could not write as JSON is rejected.
        match read(&envelope(kind, &raw), &TypeMeta::default()) {
            Ok(value) => prop_assert_eq!(there_and_back(&value), value),
            Err(refused) => prop_assert_eq!(refused.why, "impossible IntOrString.Type"),
        }
    }

    #[test]
    fn no_bytes_are_too_strange(raw in prop::collection::vec(any::<u8>(), 0..64)) {
        for kind in KINDS {
            if let Ok(value) = read(&envelope(kind, &raw), &TypeMeta::default()) {
                prop_assert_eq!(there_and_back(&value), value);
            }
        }
        let _ = read(&raw, &TypeMeta::default());
        let _ = read(&[b"k8s\0", raw.as_slice()].concat(), &TypeMeta::default());
    }
}
