//! What rules reject on each kind of write, and the messages.

use serde_json::{Value, json};

use super::{given, group, kind, kind_of, object, thing, things, try_all};
use crate::Script;
use crate::fixtures::with;
use crate::request::Request;
use crate::script::APPLY;

pub(in crate::cases) async fn one_of_two_fields(t: &mut Script) {
    let rules = json!([{"rule": "has(self.inline) != has(self.secretRef)",
        "message": "exactly one of inline and secretRef must be set"}]);
    let properties = json!({"inline": {"type": "string"}, "secretRef": {"type": "object",
        "properties": {"name": {"type": "string"}}}});
    kind(t, object(properties, rules)).await;
    try_all(
        t,
        &[
            json!({"inline": "a"}),
            json!({"secretRef": {"name": "a"}}),
            json!({"inline": "a", "secretRef": {"name": "a"}}),
            json!({}),
        ],
    )
    .await;
}

pub(in crate::cases) async fn range_of_two_fields(t: &mut Script) {
    let rules =
        json!([{"rule": "self.minReplicas <= self.replicas && self.replicas <= self.maxReplicas"}]);
    let number = json!({"type": "integer"});
    let properties = json!({"minReplicas": number, "replicas": number, "maxReplicas": number});
    kind(t, object(properties, rules)).await;
    try_all(
        t,
        &[
            json!({"minReplicas": 1, "replicas": 2, "maxReplicas": 3}),
            json!({"minReplicas": 1, "replicas": 4, "maxReplicas": 3}),
            // An evaluation error: the field is missing.
            json!({"minReplicas": 1, "maxReplicas": 3}),
            // The error does not matter if the other operand decides.
            json!({"minReplicas": 5, "replicas": 4}),
        ],
    )
    .await;
}

pub(in crate::cases) async fn value_that_is_wrong_is_shown(t: &mut Script) {
    let rules = |rule: &str| json!([{"rule": rule, "message": "no"}]);
    let properties = json!({
        "text": {"type": "string", "x-kubernetes-validations": rules("self != 'bad'")},
        "number": {"type": "integer", "x-kubernetes-validations": rules("self != 7")},
        "float": {"type": "number", "x-kubernetes-validations": rules("self < 1.5")},
        "flag": {"type": "boolean", "x-kubernetes-validations": rules("self")},
        "port": {"x-kubernetes-int-or-string": true, "x-kubernetes-validations": rules("self != 'x' && self != 7")},
        "list": {"type": "array", "maxItems": 9, "items": {"type": "string"},
            "x-kubernetes-validations": rules("self.size() < 2")},
        "map": {"type": "object", "maxProperties": 9, "additionalProperties": {"type": "string"},
            "x-kubernetes-validations": rules("self.size() < 2")},
    });
    kind(t, object(properties, json!([]))).await;
    try_all(
        t,
        &[
            json!({"text": "bad"}),
            json!({"number": 7}),
            json!({"float": 2.5}),
            json!({"float": 1}),
            json!({"flag": false}),
            json!({"port": "x"}),
            json!({"port": 7}),
            json!({"list": ["a", "b"]}),
            json!({"map": {"a": "1", "b": "2"}}),
        ],
    )
    .await;
}

pub(in crate::cases) async fn items_of_lists_and_maps_have_rules(t: &mut Script) {
    let port = object(
        json!({"name": {"type": "string"}, "port": {"type": "integer"}}),
        json!([{"rule": "self.port > 1024 || self.name == 'http'", "message": "only http may use a low port"}]),
    );
    let label = json!({"type": "string", "maxLength": 20,
        "x-kubernetes-validations": [{"rule": "self.matches('^[a-z]+$')"}]});
    let properties = json!({
        "ports": {"type": "array", "maxItems": 5, "items": port},
        "labels": {"type": "object", "maxProperties": 5, "additionalProperties": label},
    });
    kind(t, object(properties, json!([]))).await;
    try_all(t, &[
        json!({"ports": [{"name": "http", "port": 80}, {"name": "x", "port": 8080}], "labels": {"a": "b"}}),
        json!({"ports": [{"name": "http", "port": 80}, {"name": "ssh", "port": 22}, {"name": "dns", "port": 53}]}),
        json!({"labels": {"a.b/c": "B"}}),
    ])
    .await;
}

pub(in crate::cases) async fn lists_without_doubles(t: &mut Script) {
    let names = json!({"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 20},
        "x-kubernetes-validations": [
            {"rule": "self.all(x, self.exists_one(y, x == y))", "message": "names must be unique"},
            {"rule": "self.isSorted()", "message": "names must be sorted"}]});
    kind(t, object(json!({"names": names}), json!([]))).await;
    try_all(
        t,
        &[
            json!({"names": ["a", "b"]}),
            json!({"names": ["a", "a"]}),
            json!({"names": ["b", "a"]}),
            json!({"names": ["b", "a", "b"]}),
        ],
    )
    .await;
}

pub(in crate::cases) async fn message_of_an_expression(t: &mut Script) {
    let rules = json!([
        {"rule": "self.class != self.parent", "message": "a plain one",
            "messageExpression": "'class ' + self.class + ' is that of the parent' + (self.strict ? '!' : '')"},
    ]);
    let text = json!({"type": "string", "maxLength": 9});
    kind(t, object(json!({"class": text, "parent": text, "strict": {"type": "boolean"}}), rules))
        .await;
    try_all(
        t,
        &[
            json!({"class": "a", "parent": "a", "strict": true}),
            json!({"class": "a", "parent": "a"}),
        ],
    )
    .await;
}

pub(in crate::cases) async fn message_that_cannot_be_made(t: &mut Script) {
    let rules = json!([
        {"rule": "self.a != 1", "message": "a plain one", "messageExpression": "self.b"},
        {"rule": "self.a != 2", "message": "  trimmed  ", "messageExpression": "'  '"},
        {"rule": "self.a != 3", "messageExpression": "'two\\nlines'"},
        {"rule": "self.a != 4", "messageExpression": "'  trimmed too '"},
    ]);
    kind(t, object(json!({"a": {"type": "integer"}, "b": {"type": "string"}}), rules)).await;
    try_all(t, &[json!({"a": 1}), json!({"a": 2}), json!({"a": 3}), json!({"a": 4})]).await;
}

pub(in crate::cases) async fn reasons_of_rules(t: &mut Script) {
    let rule = |number: i64, reason: &str| json!({"rule": format!("self.a != {number}"), "message": "because", "reason": reason});
    let rules = json!([
        rule(1, "FieldValueInvalid"),
        rule(2, "FieldValueForbidden"),
        rule(3, "FieldValueRequired"),
        rule(4, "FieldValueDuplicate"),
    ]);
    let scalar = json!({"type": "string", "x-kubernetes-validations": [
        {"rule": "self != 'x'", "reason": "FieldValueDuplicate"}]});
    kind(t, object(json!({"a": {"type": "integer"}, "b": scalar}), rules)).await;
    let specs: Vec<Value> = (1..5).map(|a| json!({"a": a})).collect();
    try_all(t, &specs).await;
    try_all(t, &[json!({"a": 0, "b": "x"})]).await;
}

pub(in crate::cases) async fn errors_belong_to_the_field_of_a_rule(t: &mut Script) {
    let rules = json!([
        {"rule": "self.a < self.b", "fieldPath": ".a", "reason": "FieldValueForbidden", "message": "a is below b"},
        {"rule": "!('x' in self.labels)", "fieldPath": ".labels['x']", "message": "x is not for you"},
        {"rule": "self.inner.c != 3", "fieldPath": ".inner.c"},
    ]);
    let number = json!({"type": "integer"});
    let properties = json!({"a": number, "b": number, "inner": {"type": "object", "properties": {"c": number}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}}});
    kind(t, object(properties, rules)).await;
    let fine = json!({"a": 1, "b": 2, "labels": {}, "inner": {"c": 1}});
    try_all(
        t,
        &[
            with(fine.clone(), "/a", json!(3)),
            with(fine.clone(), "/labels", json!({"x": "1"})),
            with(fine, "/inner/c", json!(3)),
        ],
    )
    .await;
}

pub(in crate::cases) async fn all_rules_of_a_place_are_told(t: &mut Script) {
    let rules = json!([
        {"rule": "self.a > 1"},
        {"rule": "self.a > 2 && \"x\" != '<'"},
        {"rule": "self.a >\n 0", "message": "over two lines"},
        {"rule": "self.b > 1"},
    ]);
    kind(t, object(json!({"a": {"type": "integer"}, "b": {"type": "integer"}}), rules)).await;
    try_all(t, &[json!({"a": 1}), json!({"a": 0, "b": 2})]).await;
}

pub(in crate::cases) async fn rules_at_the_root_know_name_and_type(t: &mut Script) {
    let schema = json!({"type": "object",
    "properties": {"spec": {"type": "object", "properties": {"owner": {"type": "string"}}}},
    "x-kubernetes-validations": [
        {"rule": "self.metadata.name.startsWith(self.spec.owner)", "message": "the name starts with the owner"},
        {"rule": "self.kind == 'Thing' && self.apiVersion.endsWith('/v1')"},
        {"rule": "!has(self.metadata.generateName)", "fieldPath": ".spec.owner"},
    ]});
    kind_of(t, schema).await;
    try_all(t, &[json!({"owner": "a"}), json!({"owner": "b"})]).await;
    let mut generated = thing(t, json!({"owner": "a"}));
    generated["metadata"] = json!({"generateName": "a-"});
    let request = Request::post(format!("{}?dryRun=All", things(t)), generated);
    t.pick(request, &["/details/causes", "/reason"]).await;
}

pub(in crate::cases) async fn rules_hold_on_every_way_to_write(t: &mut Script) {
    kind(t, object(json!({"a": {"type": "integer"}}), json!([{"rule": "self.a < 5"}]))).await;
    let old = given(t, json!({"a": 1})).await;
    let path = format!("{}/a", things(t));
    t.post(things(t), with(thing(t, json!({"a": 9})), "/metadata/name", json!("b"))).await;
    t.put(&path, with(old.body.clone(), "/spec/a", json!(9))).await;
    t.merge_patch(&path, json!({"spec": {"a": 9}})).await;
    t.json_patch(&path, json!([{"op": "replace", "path": "/spec/a", "value": 9}])).await;
    let config = thing(t, json!({"a": 9}));
    t.apply_by_force(&path, "me", config.clone()).await;
    t.apply(format!("{}/c", things(t)), "me", with(config, "/metadata/name", json!("c"))).await;
    t.get(&path).await;
}

pub(in crate::cases) async fn rules_of_the_status(t: &mut Script) {
    let schema = json!({"type": "object",
        "properties": {
            "spec": object(json!({"a": {"type": "integer"}}), json!([])),
            "status": object(json!({"phase": {"type": "string"}, "size": {"type": "integer"}}), json!([
                {"rule": "self.phase != 'Done' || has(self.size)", "message": "a size comes with Done"},
                {"rule": "oldSelf.phase != 'Done' || self.phase == 'Done'", "message": "Done is the end"}])),
        },
        "x-kubernetes-validations": [
            {"rule": "!has(self.status) || !has(self.status.size) || self.status.size <= self.spec.a"}],
    });
    kind_of(t, schema).await;
    given(t, json!({"a": 3})).await;
    let path = format!("{}/a/status", things(t));
    t.merge_patch(&path, json!({"status": {"phase": "Done"}})).await;
    t.merge_patch(&path, json!({"status": {"phase": "Done", "size": 9}})).await;
    t.merge_patch(&path, json!({"status": {"phase": "Done", "size": 3}})).await;
    t.merge_patch(&path, json!({"status": {"phase": "Again"}})).await;
    let config = json!({"apiVersion": format!("{}/v1", group(t)), "kind": "Thing", "metadata": {"name": "a"},
        "status": {"size": 4}});
    t.send(Request::patch(format!("{path}?fieldManager=me&force=true"), APPLY, config)).await;
    // A rule at the root applies to spec and status.
    t.merge_patch(format!("{}/a", things(t)), json!({"spec": {"a": 2}})).await;
}

pub(in crate::cases) async fn errors_of_the_schema_keep_rules_from_being_checked(t: &mut Script) {
    let properties = json!({"a": {"type": "integer", "maximum": 5}, "b": {"type": "string", "maxLength": 3},
        "c": {"type": "string", "enum": ["x"]}});
    let rules = json!([{"rule": "self.a != 9"}]);
    kind(t, with(object(properties, rules), "/required", json!(["a"]))).await;
    try_all(
        t,
        &[
            // A value out of bounds does not prevent the evaluation of rules.
            json!({"a": 9}),
            json!({"a": 1, "b": "long"}),
            json!({"a": 1, "c": "y"}),
            json!({"a": "9"}),
            json!({}),
        ],
    )
    .await;
}

pub(in crate::cases) async fn defaults_come_before_rules(t: &mut Script) {
    let properties =
        json!({"mode": {"type": "string", "default": "auto"}, "size": {"type": "integer"}});
    let rules =
        json!([{"rule": "self.mode != 'auto' || !has(self.size)", "message": "auto has no size"}]);
    kind(t, object(properties, rules)).await;
    try_all(t, &[json!({}), json!({"size": 1}), json!({"mode": "manual", "size": 1})]).await;
}
