//! Tests of both directions: Go's JSON for a message, round trips, and bytes of any kind.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::table::{Message, Repeat, TABLE, Type};
use crate::wire::{WireType, put_bytes, put_tag, put_varint};
use crate::{Deserializer, Envelope, Error, Reason, from_json, from_raw, raw_from_json, to_json};

pub(crate) fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().expect("it is an object")
}

pub(crate) fn encoded(value: &Value) -> Vec<u8> {
    from_json(&object(value)).expect("it fits")
}

/// Encodes a value and decodes it again.
fn there_and_back(value: &Value) -> Value {
    let bytes = encoded(value);
    Envelope::read(&bytes).and_then(|it| it.decode()).expect("what was written can be read")
}

fn why(kind: (&str, &str), raw: &[u8]) -> Reason {
    let outcome: Result<Value, Error> = from_raw(kind.0, kind.1, raw);
    outcome.expect_err("it is broken").reason().clone()
}

/// Returns messages around others, each in the field of that number.
fn wrapped(numbers: &[u32], inner: &[u8]) -> Vec<u8> {
    numbers.iter().rev().fold(inner.to_vec(), |inner, number| {
        let mut outer = Vec::new();
        put_bytes(&mut outer, *number, &inner);
        outer
    })
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
    assert_eq!(spec["template"], json!({"metadata": {}, "spec": {"containers": null}}));
    // A pointer without `omitempty`.
    assert_eq!(spec["selector"], Value::Null);
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
        "minimum": 1,
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
    // A schema within a schema is in the field `not`, number 28. Before the first one come spec,
    // versions, schema, openAPIV3Schema.
    let nested = |depth: usize| wrapped(&[vec![2, 7, 4, 1], vec![28; depth]].concat(), &[]);
    assert_eq!(why(crd, &nested(1000)), Reason::TooDeep);
    let json = to_json(crd.0, crd.1, &nested(crate::DEPTH_MAX - 5)).expect("it is less deep");
    assert!(json.ends_with(b"}"));

    // Containers of two bytes each, in the spec of a pod.
    let pod = wrapped(&[2], &[0x12, 0x00].repeat(1000));
    let deserializer = Deserializer::new("v1", "Pod", &pod).expect("there are pods");
    let outcome: Result<Value, Error> =
        serde::Deserialize::deserialize(deserializer.messages_max(1000));
    let error = outcome.expect_err("there are too many");
    assert_eq!(*error.reason(), Reason::TooManyMessages(1000));
    assert!(error.path().starts_with("spec.containers"), "{error}");
}

#[test]
fn times_that_nobody_can_write_are_refused() {
    let mut time = Vec::new();
    put_tag(&mut time, 1, WireType::Varint);
    put_varint(&mut time, i64::MAX.cast_unsigned());
    assert_eq!(why(("v1", "ConfigMap"), &wrapped(&[1, 8], &time)), Reason::Time);
}

#[test]
fn what_the_table_lacks_is_not_encoded() {
    let error = |value: Value| from_json(&object(&value)).expect_err("it is refused").to_string();
    let widget = json!({"apiVersion": "example.dev/v1", "kind": "Widget"});
    let unknown = "Kubernetes 1.37 has no built-in kind \"Widget\" in version \"example.dev/v1\"";
    assert_eq!(error(widget), unknown);
    let wrong = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": 1}});
    assert_eq!(error(wrong), "data: a value of the wrong type or form");
    let new = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"wings": 2}});
    assert_eq!(
        error(new),
        "spec: field \"wings\" of PodSpec is not in the table of Kubernetes 1.37"
    );
}

/// Generates a message with values of the right types.
pub(crate) fn draw(random: &mut fastrand::Rng, message: &Message, depth: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let odds = if depth > 12 { 0 } else { 30 };
    for field in &message.fields {
        if random.u32(0..100) >= odds {
            continue;
        }
        match field.repeat {
            Repeat::List => {
                for _ in 0..random.usize(1..3) {
                    draw_value(random, field.item, field.number, depth, &mut out);
                }
            }
            Repeat::Map => {
                let mut entry = Vec::new();
                put_bytes(&mut entry, 1, random.choice(["", "a", "b"]).unwrap_or("").as_bytes());
                draw_value(random, field.item, 2, depth, &mut entry);
                put_bytes(&mut out, field.number, &entry);
            }
            Repeat::Once => draw_value(random, field.item, field.number, depth, &mut out),
        }
    }
    out
}

fn draw_value(
    random: &mut fastrand::Rng,
    kind: Type,
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
            let inner = draw(random, TABLE.get(inner), depth + 1);
            put_bytes(out, number, &inner);
        }
    }
}

/// Splits a message into its fields, puts them into another order, keeping those of one number in
/// theirs, and splits messages among several occurrences: Go decodes the same.
fn scattered(random: &mut fastrand::Rng, message: &Message, bytes: &[u8]) -> Vec<u8> {
    let mut fields: Vec<(u32, Vec<u8>)> = Vec::new();
    let mut reader = crate::wire::Reader::new(bytes);
    while !reader.is_empty() {
        let start = bytes.len() - reader.left();
        let tag = reader.tag("").expect("it is a message");
        let field = message.field(tag.number).expect("it is a field");
        let whole = match field.item {
            Type::Message(inner) if field.repeat != Repeat::Map => {
                let content = reader.bytes().expect("it is a message");
                let inner = TABLE.get(inner);
                let is_struct = inner.form == crate::table::Form::Struct;
                let content =
                    if is_struct { scattered(random, inner, content) } else { content.to_vec() };
                if is_struct && field.repeat == Repeat::Once {
                    // One occurrence for each field of it.
                    let mut parts = crate::wire::Reader::new(&content);
                    while !parts.is_empty() {
                        let start = content.len() - parts.left();
                        let tag = parts.tag("").expect("it is a message");
                        parts.skip(tag).expect("it is a message");
                        let part = &content[start..content.len() - parts.left()];
                        let mut out = Vec::new();
                        put_bytes(&mut out, field.number, part);
                        fields.push((field.number, out));
                    }
                    if content.is_empty() {
                        let mut out = Vec::new();
                        put_bytes(&mut out, field.number, &[]);
                        fields.push((field.number, out));
                    }
                    continue;
                }
                let mut out = Vec::new();
                put_bytes(&mut out, field.number, &content);
                out
            }
            _ => {
                reader.skip(tag).expect("it is a message");
                bytes[start..bytes.len() - reader.left()].to_vec()
            }
        };
        fields.push((tag.number, whole));
    }
    // Merges the fields of all numbers, one after the other, by chance.
    let mut out = Vec::new();
    while !fields.is_empty() {
        let number = fields[random.usize(..fields.len())].0;
        let place = fields.iter().position(|field| field.0 == number).expect("it is there");
        out.extend(fields.remove(place).1);
    }
    out
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

fn any_kind() -> impl Strategy<Value = (&'static str, &'static str)> {
    prop::sample::select(crate::kinds().collect::<Vec<_>>())
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().filter(|(_, value)| !value.is_null());
            members.map(|(name, value)| (name, without_nulls(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

/// Checks that a message that can be decoded comes back, in both ways to JSON.
fn check_round_trip((api_version, kind): (&str, &str), raw: &[u8]) {
    let Ok(value) = from_raw::<Value>(api_version, kind, raw) else { return };
    let json = to_json(api_version, kind, raw).expect("it was decoded");
    let json: Value = serde_json::from_slice(&json).expect("it is JSON");
    assert_eq!(json, value);
    let back = raw_from_json(api_version, kind, &object(&value)).expect("it was decoded");
    let back: Value = from_raw(api_version, kind, &back).expect("it was encoded");
    // A pointer to a time that is zero is null in JSON, and so is none.
    assert_eq!(without_nulls(back), without_nulls(value));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(2000)))]

    #[test]
    fn what_can_be_read_comes_back(kind in any_kind(), raw in message()) {
        check_round_trip(kind, &raw);
    }

    #[test]
    fn messages_of_the_right_types_come_back(kind in any_kind(), seed in any::<u64>()) {
        let message = TABLE.kind(kind.0, kind.1).expect("the kind has a message");
        let raw = draw(&mut fastrand::Rng::with_seed(seed), message, 0);
        // Only a value that Go could not write as JSON is rejected.
        if let Err(error) = from_raw::<Value>(kind.0, kind.1, &raw) {
            prop_assert_eq!(error.reason(), &Reason::IntOrString);
        }
        check_round_trip(kind, &raw);
    }

    #[test]
    fn scattered_fields_mean_the_same(kind in any_kind(), seed in any::<u64>()) {
        let message = TABLE.kind(kind.0, kind.1).expect("the kind has a message");
        let mut random = fastrand::Rng::with_seed(seed);
        let raw = draw(&mut random, message, 8);
        let scattered = scattered(&mut random, message, &raw);
        match from_raw::<Value>(kind.0, kind.1, &raw) {
            Ok(value) => {
                let outcome: Result<Value, Error> = from_raw(kind.0, kind.1, &scattered);
                prop_assert_eq!(outcome, Ok(value));
            }
            Err(error) => prop_assert_eq!(error.reason(), &Reason::IntOrString),
        }
    }

    #[test]
    fn no_bytes_are_too_strange(kind in any_kind(), raw in prop::collection::vec(any::<u8>(), 0..64)) {
        check_round_trip(kind, &raw);
        let _ = Envelope::read(&[b"k8s\0", raw.as_slice()].concat());
        let _ = crate::WatchEvent::read(&raw);
        let _ = crate::split_frame(&raw);
        let _ = crate::cut_managed_fields(&raw, &mut Vec::new());
        let _ = crate::metadata_from_raw::<Value>(&raw);
        let body = [b"k8s\0", raw.as_slice()].concat();
        let (mut parser, mut rest) = (crate::ListParser::new(), body.as_slice());
        while let Ok(Some(_)) = parser.next(&mut rest) {}
    }
}
