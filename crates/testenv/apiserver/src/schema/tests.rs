//! Tests of whole schemas, and properties of all schemas and objects.

use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn widget() -> Value {
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 0, "maximum": 10},
            "color": {"type": "string", "enum": ["red", "green", "blue"], "default": "red"},
            "replicas": {"type": "integer", "default": 1},
            "immut": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
        }},
        "status": {"type": "object", "properties": {"phase": {"type": "string", "maxLength": 3}}},
    }})
}

#[test]
fn a_recorded_widget_is_pruned_defaulted_and_accepted() {
    let schema = Schema::parse(&widget()).expect("structural");
    let mut object = json!({"apiVersion": "spec.example.dev/v1", "kind": "Widget", "metadata": {"name": "pr"},
        "spec": {"size": 1, "bogus": 1}});
    assert_eq!(schema.prune(&mut object), ["spec.bogus"]);
    schema.default(&mut object);
    assert_eq!(object["spec"], json!({"size": 1, "color": "red", "replicas": 1}));
    assert_eq!(schema.validate(&object), []);
    assert_eq!(schema.check_rules(&object, None, &mut Vec::new()), [""; 0]);
}

#[test]
fn skipped_rules_are_reported_as_recorded() {
    let schema = Schema::parse(&widget()).expect("structural");
    let validate = |object: &Value| {
        let mut errors = schema.validate(object);
        schema.check_rules(object, None, &mut errors);
        errors
    };
    assert_eq!(
        texts(&validate(&json!({"spec": {"color": "red"}}))),
        [
            "spec.size: Required value",
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; \
             correct the existing errors to complete validation",
        ]
    );
    // A value out of bounds does not stop the rules from being checked.
    assert_eq!(validate(&json!({"spec": {"size": 11}})).len(), 1);
}

#[test]
fn status_update_validates_only_the_status() {
    let schema = Schema::parse(&widget()).expect("structural");
    let old = json!({"spec": {"size": 99}, "status": {"phase": "abc"}});
    let new = json!({"spec": {"size": 99}, "status": {"phase": 1}});
    assert_eq!(
        texts(&schema.validate_status_update(&new, &old))[0],
        "status.phase: Invalid value: \"integer\": phase in body must be of type string: \"integer\""
    );
    assert_eq!(schema.validate_status_update(&old, &old), []);
}

#[test]
fn defaults_follow_the_schema() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "integer", "default": "x"},
        "b": {"type": "object", "properties": {"c": {"type": "string"}}, "default": {"d": 1}},
    }});
    assert_eq!(
        texts(&Schema::parse(&schema).expect_err("bad defaults")),
        [
            "openAPIV3Schema.properties[a].default: Invalid value: \"string\":  in body must be of type integer: \
             \"string\"",
            "openAPIV3Schema.properties[b].default: Invalid value: {\"d\":1}: must not have unknown fields",
        ]
    );
}

#[test]
fn a_schema_that_is_no_object_is_refused() {
    for schema in [json!(null), json!([]), json!("x")] {
        assert!(Schema::parse(&schema).is_err());
    }
}

/// Generates any JSON, with few enough keys that schemas and objects share some.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-3_i64..4).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((any_key(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn any_key() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]", Just("metadata".to_owned()), Just("kind".to_owned()), "[a-z.]{0,3}"]
}

/// Generates schemas that are mostly structural.
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        (-3_i64..4, any_json()).prop_map(|(n, default)| json!({
            "type": "integer", "minimum": n, "multipleOf": n, "format": "int32", "default": default})),
        (0..3_i64).prop_map(|n| json!({"type": "string", "maxLength": n, "pattern": "^a", "nullable": n == 1})),
        Just(json!({"x-kubernetes-int-or-string": true, "enum": [1, "a", 1.5, null]})),
        Just(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
        Just(json!({"type": "string", "format": "date-time", "default": "b"})),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let fields = prop::collection::btree_map("[a-c]", inner.clone(), 0..4);
        prop_oneof![
            (fields.clone(), any_json(), any::<bool>()).prop_map(|(fields, default, embedded)| json!({
                "type": "object", "properties": fields, "default": default, "required": ["a"],
                "x-kubernetes-embedded-resource": embedded})),
            fields.prop_map(|fields| json!({
                "type": "object", "properties": fields, "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
                "x-kubernetes-preserve-unknown-fields": true})),
            inner.clone().prop_map(|items| json!({
                "type": "array", "items": items, "maxItems": 2, "x-kubernetes-list-type": "set"})),
            inner.clone().prop_map(|items| json!({
                "type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]})),
            inner.prop_map(|additional| json!({"type": "object", "additionalProperties": additional})),
            Just(json!({"type": "object", "additionalProperties": true})),
        ]
    })
}

/// Reads a schema without the checks of definitions, which would reject many: the properties must
/// hold for all schemas.
fn read(schema: &Value) -> Schema {
    Schema { root: Node::read(schema), rules: None }
}

proptest! {
    #[test]
    fn any_json_is_parsed_or_refused(schema in any_json(), object in any_json()) {
        let _ = Schema::parse(&schema);
        let schema = read(&schema);
        schema.validate(&object);
        schema.validate_status_update(&object, &object);
    }

    #[test]
    fn any_schema_is_parsed_or_refused(schema in any_schema()) {
        let _ = Schema::parse(&schema);
    }

    #[test]
    fn pruning_again_drops_nothing_more(schema in any_schema(), mut object in any_json()) {
        let schema = read(&schema);
        schema.prune(&mut object);
        let once = object.clone();
        prop_assert_eq!(schema.prune(&mut object), Vec::<String>::new());
        prop_assert_eq!(object, once);
    }

    #[test]
    fn defaulting_again_changes_nothing(schema in any_schema(), mut object in any_json()) {
        // Only a valid default has no nulls that would count as missing.
        prop_assume!(Schema::parse(&json!({"type": "object", "properties": {"a": schema}})).is_ok());
        let schema = read(&schema);
        schema.default(&mut object);
        let once = object.clone();
        schema.default(&mut object);
        prop_assert_eq!(object, once);
    }

    #[test]
    fn any_update_is_validated(schema in any_schema(), new in any_json(), old in any_json()) {
        let schema = read(&schema);
        schema.validate_update(&new, &old);
        schema.validate_update(&new, &new);
    }
}
