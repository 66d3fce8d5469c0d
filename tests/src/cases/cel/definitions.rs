//! Which rules a definition may have.

use http::Method;
use serde_json::json;

use super::{group, kind, object, thing, try_rules, try_schema};
use crate::Script;
use crate::fixtures::CRDS;
use crate::request::Request;

pub(in crate::cases) async fn defaults_that_break_a_rule(t: &mut Script) {
    let number = json!({"type": "integer", "default": 7, "x-kubernetes-validations": [{"rule": "self < 5"}]});
    try_schema(
        t,
        json!({"type": "object", "properties": {"spec": object(json!({"a": number}), json!([]))}}),
    )
    .await;
}

pub(in crate::cases) async fn definition_with_rules_in_combinations(t: &mut Script) {
    let mut spec = object(json!({"a": {"type": "integer"}}), json!([{"rule": "self.a != 1"}]));
    spec["allOf"] =
        json!([{"x-kubernetes-validations": [{"rule": "self.a != 2", "message": "two"}]}]);
    try_schema(t, json!({"type": "object", "properties": {"spec": spec}})).await;
}

pub(in crate::cases) async fn definition_with_a_rule_that_does_not_parse(t: &mut Script) {
    try_rules(
        t,
        json!({"a": {"type": "integer"}}),
        &[
            json!({"rule": "self.a >"}),
            json!({"rule": "self.a == 1 &&& true"}),
            json!({"rule": "(self.a == 1"}),
            json!({"rule": "self.a = 1"}),
            json!({"rule": "'open"}),
        ],
    )
    .await;
}

pub(in crate::cases) async fn definition_with_a_rule_of_wrong_names_and_types(t: &mut Script) {
    let properties = json!({"a": {"type": "integer"}, "text": {"type": "string", "maxLength": 9},
        "list": {"type": "array", "maxItems": 3, "items": {"type": "integer"}}});
    try_rules(t, properties, &[
        json!({"rule": "self.b == 1"}),
        json!({"rule": "other == 1"}),
        json!({"rule": "self.a == 'x'", "message": "m", "reason": "FieldValueForbidden", "fieldPath": ".a"}),
        json!({"rule": "self.a + 'x' == ''"}),
        json!({"rule": "self.text.nothing()"}),
        json!({"rule": "self.a.startsWith('x')"}),
        json!({"rule": "self.list.all(x, x)"}),
        json!({"rule": "self.list.all(x, x == 'a') && self.b"}),
        json!({"rule": "self.a.all(x, true)"}),
        json!({"rule": "self.text.b == 1"}),
        json!({"rule": "self.a"}),
        json!({"rule": "self.a == 1 ? 'x' : 'y'"}),
        json!({"rule": "[1, 'a'].size() == 2"}),
        json!({"rule": "math.greatest(1, 2) == 2"}),
        json!({"rule": "self.text.matches('[')"}),
        json!({"rule": "duration('x') == duration('1s')"}),
        json!({"rule": "namespace == 'x'"}),
        json!({"rule": "has(self)"}),
        json!({"rule": "self.list.map(1, 2).size() == 0"}),
    ])
    .await;
}

pub(in crate::cases) async fn definition_with_a_message_that_does_not_compile(t: &mut Script) {
    try_rules(
        t,
        json!({"a": {"type": "integer"}}),
        &[
            json!({"rule": "self.a == 1", "messageExpression": "self.b"}),
            json!({"rule": "self.a == 1", "messageExpression": "self.a"}),
            json!({"rule": "self.a == 1", "messageExpression": "'a' +"}),
            json!({"rule": "self.b == 1", "messageExpression": "self.b"}),
        ],
    )
    .await;
}

pub(in crate::cases) async fn definition_with_rules_of_wrong_form(t: &mut Script) {
    try_rules(
        t,
        json!({"a": {"type": "integer"}}),
        &[
            json!({"rule": " "}),
            json!({"rule": "self.a == 1", "message": " "}),
            json!({"rule": "self.a == 1", "message": "two\nlines"}),
            json!({"rule": "self.a\n == 1"}),
            json!({"rule": "self.a == 1", "messageExpression": " "}),
            json!({"rule": "self.a == 1", "reason": "Whim"}),
            json!({"rule": "self.a == 1", "fieldPath": "a"}),
            json!({"rule": "self.a == 1", "fieldPath": ".b"}),
            json!({"rule": "self.a == 1", "fieldPath": ".a[0]"}),
            json!({"rule": "self.a == 1", "optionalOldSelf": true}),
            json!({"rule": "oldSelf.a == 1", "optionalOldSelf": true}),
        ],
    )
    .await;
}

pub(in crate::cases) async fn definition_with_old_values_that_nobody_finds(t: &mut Script) {
    let rule = json!([{"rule": "self == oldSelf"}]);
    let text = json!({"type": "string", "maxLength": 9, "x-kubernetes-validations": rule});
    let list = |kind: &str| json!({"type": "array", "maxItems": 5, "x-kubernetes-list-type": kind, "items": text});
    for list in [list("atomic"), list("set")] {
        try_schema(t, json!({"type": "object", "properties": {"spec": object(json!({"list": list}), json!([]))}})).await;
    }
    // Within a map, old values are found.
    let map = json!({"type": "object", "maxProperties": 5, "additionalProperties": text});
    try_schema(
        t,
        json!({"type": "object", "properties": {"spec": object(json!({"map": map}), json!([]))}}),
    )
    .await;
}

pub(in crate::cases) async fn definition_with_rules_where_there_is_no_type(t: &mut Script) {
    let open = json!({"x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-validations": [{"rule": "self == 1"}]});
    try_schema(
        t,
        json!({"type": "object", "properties": {"spec": object(json!({"open": open}), json!([]))}}),
    )
    .await;
    // Errors of the schema come first, and suppress others.
    let wrong = json!({"type": "array", "x-kubernetes-list-type": "bag", "items": {"type": "string"},
        "x-kubernetes-validations": [{"rule": "self.nothing"}]});
    try_schema(t, json!({"type": "object", "properties": {"spec": object(json!({"list": wrong}), json!([]))}})).await;
}

pub(in crate::cases) async fn update_of_a_definition_brings_its_rules(t: &mut Script) {
    let things =
        kind(t, object(json!({"a": {"type": "integer"}}), json!([{"rule": "self.a < 5"}]))).await;
    let crd = format!("{CRDS}/things.{}", group(t));
    let rule =
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations/0/rule";
    let change = |rule_text: &str| json!([{"op": "replace", "path": rule, "value": rule_text}]);
    let broken = Request::patch(&crd, crate::script::JSON_PATCH, change("self.b < 5"));
    t.pick(broken, &["/message", "/details", "/reason"]).await;
    t.look(Request::patch(&crd, crate::script::JSON_PATCH, change("self.a < 50"))).await;
    let wide =
        Request::new(Method::POST, format!("{things}?dryRun=All")).json(thing(t, json!({"a": 9})));
    t.wait_picking(wide, "the new rule holds", |answer| answer.status == 201, &["/spec"]).await;
}
