//! Decoding of built-in kinds, compared with recordings of a real server (`cargo xtask record
//! observed`).

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::json;

use super::*;
use crate::kinds::builtin;

/// A body that was sent to a real server, and its response.
#[derive(Deserialize)]
struct Observed {
    path: String,
    sent: Value,
    /// The error text after "cannot be handled as a …: ".
    refused: Option<String>,
    /// The paths of unknown fields in its warnings.
    #[serde(default)]
    unknown: Vec<String>,
}

/// An object that was created on a real server, and the object in its response.
#[derive(Deserialize)]
struct Created {
    path: String,
    sent: Value,
    answer: Value,
}

/// Returns the built-in kind with its collection at a path.
fn kind_at(path: &str) -> Kind {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let group = if parts[0] == "api" { "" } else { parts[1] };
    let plural = parts.last().expect("a path must have parts");
    find(group, plural)
}

fn find(group: &str, plural: &str) -> Kind {
    let kinds = builtin();
    let kind = kinds.into_iter().find(|kind| kind.is(group, plural));
    kind.unwrap_or_else(|| panic!("{group}/{plural} must be built in"))
}

fn decode(kind: &Kind, object: &mut Value) -> Result<Vec<String>, String> {
    decode_builtin(kind, &kind.storage().name, object)
}

/// Returns an object without null fields, which decoding removes.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), without_nulls(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

#[test]
fn every_built_in_kind_has_a_shape_in_every_version() {
    for kind in builtin() {
        for version in &kind.versions {
            let version = kind.api_version(&version.name);
            assert!(TABLE.kind(&version, &kind.kind).is_some(), "{version} {}", kind.kind);
        }
    }
}

#[test]
fn bodies_are_refused_and_warned_of_as_by_the_real_server() {
    let observed: Vec<Observed> = serde_json::from_str(include_str!("observed.json"))
        .expect("the observations must be of this form");
    for case in observed {
        let mut object = case.sent.clone();
        let expected = case.refused.map_or(Ok(case.unknown), Err);
        assert_eq!(decode(&kind_at(&case.path), &mut object), expected, "{}", case.sent);
    }
}

#[test]
fn objects_that_the_real_server_returned_are_unchanged() {
    let created: Vec<Created> = serde_json::from_str(include_str!("../defaults/observed.json"))
        .expect("the observations must be of this form");
    for case in created {
        for object in [&case.sent, &case.answer] {
            let mut decoded = object.clone();
            assert_eq!(decode(&kind_at(&case.path), &mut decoded), Ok(Vec::new()), "{object}");
            assert_eq!(without_nulls(&decoded), without_nulls(object));
        }
    }
}

#[test]
fn null_is_absent_in_a_field_and_nothing_in_a_list_or_map() {
    let mut object = json!({
        "metadata": {"name": "x", "labels": {"a": null}, "creationTimestamp": null},
        "spec": {
            "volumes": null,
            "containers": [{
                "command": [null], "image": null, "resources": {"limits": {"cpu": null}},
            }, null],
        },
    });
    assert_eq!(decode(&find("", "pods"), &mut object), Ok(Vec::new()));
    let expected = json!({
        "metadata": {"name": "x", "labels": {"a": ""}},
        "spec": {"containers": [{"command": [""], "resources": {"limits": {"cpu": "0"}}}, {}]},
    });
    assert_eq!(object, expected);
}

#[test]
fn bytes_may_be_a_list_of_numbers_or_have_line_breaks_and_end_up_in_base64() {
    let mut object = json!({"binaryData": {"a": [104, null, 105], "b": "aG\nk="}});
    assert_eq!(decode(&find("", "configmaps"), &mut object), Ok(Vec::new()));
    assert_eq!(object, json!({"binaryData": {"a": "aABp", "b": "aGk="}}));
}

#[test]
fn untyped_values_keep_all_fields() {
    let data = json!({"a": null, "b": [null, {"c": null}], "kind": 5});
    let mut object = json!({"metadata": {"name": "x"}, "revision": 1, "data": data});
    let before = object.clone();
    assert_eq!(decode(&find("apps", "controllerrevisions"), &mut object), Ok(Vec::new()));
    assert_eq!(object, before);
}

#[test]
fn unknown_fields_of_a_nested_schema_are_dropped_without_warning() {
    let schema = |inner: Value| {
        let outer = json!({"type": "array", "items": inner, "default": {"q": null}});
        json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": outer}}]}})
    };
    let mut object = schema(json!({"type": "string", "q": 1, "enum": [null, "a"]}));
    let kind = find("apiextensions.k8s.io", "customresourcedefinitions");
    assert_eq!(decode(&kind, &mut object), Ok(Vec::new()));
    assert_eq!(object, schema(json!({"type": "string", "enum": [null, "a"]})));
}

#[test]
fn unknown_fields_are_removed_and_at_most_a_hundred_reported() {
    let mut object: Value = (0..150)
        .map(|n| (format!("x{n}"), Value::from(n)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let told = decode(&find("", "configmaps"), &mut object).expect("the fields have no type");
    assert_eq!(told.len(), 100);
    assert_eq!(object, json!({}));
}

#[test]
fn body_other_than_an_object_is_refused() {
    let refused = decode(&find("", "pods"), &mut json!([]));
    let expected = "json: cannot unmarshal array into Go value of type v1.Pod";
    assert_eq!(refused, Err(expected.to_owned()));
}

/// Generates any JSON, with field names that exist in the shapes.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        prop::sample::select(vec![
            "1Gi",
            "1x",
            "2026-01-01T00:00:00Z",
            "2026-01-01T00:00:00.000000+",
            "YQ==",
            "Y=",
        ])
        .prop_map(Value::from),
    ];
    let name = prop::sample::select(vec![
        "metadata",
        "spec",
        "status",
        "data",
        "template",
        "containers",
        "versions",
        "schema",
        "openAPIV3Schema",
        "items",
        "properties",
        "additionalProperties",
        "dependencies",
        "default",
        "labels",
        "resources",
        "requests",
        "cpu",
        "livenessProbe",
        "httpGet",
        "port",
        "replicas",
        "creationTimestamp",
        "ownerReferences",
        "renewTime",
        "binaryData",
        "bogus",
    ]);
    leaf.prop_recursive(8, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn anything_is_decoded_or_refused_and_what_was_decoded_stays(
        index in any::<prop::sample::Index>(),
        object in any_json(),
    ) {
        let kinds = builtin();
        let kind = index.get(&kinds);
        let mut once = object;
        if decode(kind, &mut once).is_ok() {
            let mut twice = once.clone();
            prop_assert_eq!(decode(kind, &mut twice), Ok(Vec::new()));
            prop_assert_eq!(twice, once);
        }
    }

    #[test]
    fn any_text_is_a_time_or_refused(text in "[0-9TZ:.,+\\-é ]{0,40}") {
        let _ = time::check(&text, time::SECONDS);
        let _ = time::check(&text, time::MICROSECONDS);
    }
}
