//! Rules in CEL: what they refuse on each way to write, and which of them a definition may have.
//!
//! Most rules are those of operators that people run: fields that cannot change, one of two,
//! ranges, lists without doubles. One place at a time is wrong, since the real server goes through
//! the fields of an object in random order.

use http::Method;
use serde_json::{Value, json};

use crate::Script;
use crate::answer::Answer;
use crate::fixtures::{CRDS, definition, with};
use crate::request::Request;
use crate::script::APPLY;

/// A kind of the case's own, with this schema of `spec`.
async fn kind(t: &mut Script, spec: Value) -> String {
    let schema = json!({"type": "object", "properties": {
        "spec": spec,
        "status": {"type": "object", "properties": {
            "phase": {"type": "string"}, "generation": {"type": "integer"}}},
    }});
    kind_of(t, schema).await
}

/// The same with a whole schema.
async fn kind_of(t: &mut Script, schema: Value) -> String {
    let group = group(t);
    let things = things(t);
    t.install(defining(&group, schema), &[&things]).await;
    things
}

fn group(t: &Script) -> String {
    format!("{}.example.dev", t.ns())
}

fn things(t: &Script) -> String {
    format!("/apis/{}/v1/namespaces/{}/things", group(t), t.ns())
}

fn defining(group: &str, schema: Value) -> Value {
    let whole = definition("things", "Thing", group);
    let mut version = whole["spec"]["versions"][0].clone();
    version["schema"]["openAPIV3Schema"] = schema;
    version["subresources"] = json!({"status": {}});
    with(whole, "/spec/versions", json!([version]))
}

/// An object of that kind.
fn thing(t: &Script, spec: Value) -> Value {
    let mut thing = json!({"kind": "Thing", "metadata": {"name": "a"}});
    thing["apiVersion"] = json!(format!("{}/v1", group(t)));
    thing["spec"] = spec;
    thing
}

/// The schema of an object with these properties and these rules.
fn object(properties: Value, rules: Value) -> Value {
    let mut schema = json!({"type": "object"});
    schema["properties"] = properties;
    schema["x-kubernetes-validations"] = rules;
    schema
}

/// Creates an object that passes.
async fn given(t: &mut Script, spec: Value) -> Answer {
    let thing = thing(t, spec);
    t.given(things(t), thing).await
}

/// Tries to create objects with these specs, one after the other, without storing them.
async fn try_all(t: &mut Script, specs: &[Value]) {
    for spec in specs {
        let thing = thing(t, spec.clone());
        t.send(Request::post(format!("{}?dryRun=All", things(t)), thing)).await;
    }
}

/// Tries a definition with these rules at `spec`, which is not stored.
async fn try_rules(t: &mut Script, properties: Value, rules: &[Value]) {
    for rule in rules {
        let schema = json!({"type": "object", "properties": {
            "spec": object(properties.clone(), json!([rule]))}});
        try_schema(t, schema).await;
    }
}

async fn try_schema(t: &mut Script, schema: Value) {
    let definition = defining(&group(t), schema);
    t.pick(
        Request::post(format!("{CRDS}?dryRun=All"), definition),
        &["/message", "/details", "/reason"],
    )
    .await;
}

pub(super) async fn field_that_cannot_change(t: &mut Script) {
    let class = json!({"type": "string", "x-kubernetes-validations": [
        {"rule": "self == oldSelf", "message": "class is immutable"}]});
    kind(t, object(json!({"class": class, "size": {"type": "integer"}}), json!([]))).await;
    let old = given(t, json!({"class": "gold", "size": 1})).await;
    let path = format!("{}/a", things(t));
    t.merge_patch(&path, json!({"spec": {"class": "silver"}})).await;
    t.merge_patch(&path, json!({"spec": {"size": 2}})).await;
    // A transition needs both ends.
    t.merge_patch(&path, json!({"spec": {"class": null}})).await;
    t.put(&path, with(old.body, "/metadata/resourceVersion", json!("1"))).await;
}

pub(super) async fn field_that_cannot_be_removed(t: &mut Script) {
    let rules = json!([
        {"rule": "!has(oldSelf.name) || has(self.name)", "message": "name cannot be removed"},
        {"rule": "has(oldSelf.name) || !has(self.name)", "message": "name cannot be added"},
    ]);
    kind(t, object(json!({"name": {"type": "string"}}), rules)).await;
    given(t, json!({"name": "x"})).await;
    let path = format!("{}/a", things(t));
    t.merge_patch(&path, json!({"spec": {"name": null}})).await;
    t.merge_patch(&path, json!({"spec": {"name": "y"}})).await;
}

pub(super) async fn one_of_two_fields(t: &mut Script) {
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

pub(super) async fn range_of_two_fields(t: &mut Script) {
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
            // An error of the evaluation: the field is not there.
            json!({"minReplicas": 1, "maxReplicas": 3}),
            // A side that decides alone makes up for it.
            json!({"minReplicas": 5, "replicas": 4}),
        ],
    )
    .await;
}

pub(super) async fn value_that_is_wrong_is_shown(t: &mut Script) {
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

pub(super) async fn items_of_lists_and_maps_have_rules(t: &mut Script) {
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

pub(super) async fn lists_without_doubles(t: &mut Script) {
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

pub(super) async fn message_of_an_expression(t: &mut Script) {
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

pub(super) async fn message_that_cannot_be_made(t: &mut Script) {
    let rules = json!([
        {"rule": "self.a != 1", "message": "a plain one", "messageExpression": "self.b"},
        {"rule": "self.a != 2", "message": "  trimmed  ", "messageExpression": "'  '"},
        {"rule": "self.a != 3", "messageExpression": "'two\\nlines'"},
        {"rule": "self.a != 4", "messageExpression": "'  trimmed too '"},
    ]);
    kind(t, object(json!({"a": {"type": "integer"}, "b": {"type": "string"}}), rules)).await;
    try_all(t, &[json!({"a": 1}), json!({"a": 2}), json!({"a": 3}), json!({"a": 4})]).await;
}

pub(super) async fn reasons_of_rules(t: &mut Script) {
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

pub(super) async fn errors_belong_to_the_field_of_a_rule(t: &mut Script) {
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

pub(super) async fn all_rules_of_a_place_are_told(t: &mut Script) {
    let rules = json!([
        {"rule": "self.a > 1"},
        {"rule": "self.a > 2 && \"x\" != '<'"},
        {"rule": "self.a >\n 0", "message": "over two lines"},
        {"rule": "self.b > 1"},
    ]);
    kind(t, object(json!({"a": {"type": "integer"}, "b": {"type": "integer"}}), rules)).await;
    try_all(t, &[json!({"a": 1}), json!({"a": 0, "b": 2})]).await;
}

pub(super) async fn rules_at_the_root_know_name_and_type(t: &mut Script) {
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

pub(super) async fn rules_hold_on_every_way_to_write(t: &mut Script) {
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

pub(super) async fn rules_of_the_status(t: &mut Script) {
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
    // A rule at the root holds for spec and status together.
    t.merge_patch(format!("{}/a", things(t)), json!({"spec": {"a": 2}})).await;
}

pub(super) async fn what_was_wrong_before_and_has_not_changed_is_warned_of(t: &mut Script) {
    let group = group(t);
    let number = json!({"type": "integer"});
    let open = |rules: Value| {
        let inner = object(json!({"x": number}), rules.clone());
        let list = json!({"type": "array", "maxItems": 5, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"], "items": {"type": "object", "required": ["name"],
                "properties": {"name": {"type": "string", "maxLength": 9}, "x": {"type": "integer"}},
                "x-kubernetes-validations": rules}});
        json!({"type": "object", "properties": {"spec": object(
            json!({"inner": inner, "list": list, "size": number}), json!([]))}})
    };
    let things = things(t);
    t.install(defining(&group, open(json!([]))), &[&things]).await;
    given(t, json!({"size": 1, "inner": {"x": 9}, "list": [{"name": "a", "x": 9}, {"name": "b", "x": 1}]})).await;
    let crd = format!("{CRDS}/things.{group}");
    let strict = defining(&group, open(json!([{"rule": "self.x < 5", "message": "x is small"}])));
    let versions = strict["spec"]["versions"].clone();
    t.unrecorded(&Request::patch(
        crd,
        crate::script::MERGE_PATCH,
        json!({"spec": {"versions": versions}}),
    ))
    .await;
    let path = format!("{things}/a");
    let probe = with(thing(t, json!({"inner": {"x": 9}})), "/metadata/name", json!("probe"));
    let probe = Request::post(format!("{things}?dryRun=All"), probe);
    t.wait_picking(probe, "the new rules hold", |answer| answer.status == 422, &[]).await;
    t.merge_patch(&path, json!({"spec": {"size": 2}})).await;
    t.merge_patch(&path, json!({"spec": {"inner": {"x": 8}}})).await;
    let list = json!([{"name": "c", "x": 2}, {"name": "a", "x": 9}]);
    t.merge_patch(&path, json!({"spec": {"list": list}})).await;
    t.merge_patch(&path, json!({"spec": {"list": [{"name": "a", "x": 7}]}})).await;
    t.merge_patch(&path, json!({"spec": {"inner": {"x": 1}, "list": [{"name": "a", "x": 1}]}}))
        .await;
}

pub(super) async fn items_are_found_again_by_their_keys(t: &mut Script) {
    let item = json!({"type": "object", "required": ["name"],
        "properties": {"name": {"type": "string", "maxLength": 9}, "size": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.size >= oldSelf.size", "message": "volumes do not shrink"}]});
    let list = json!({"type": "array", "maxItems": 9, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"], "items": item});
    kind(t, object(json!({"volumes": list}), json!([]))).await;
    given(t, json!({"volumes": [{"name": "a", "size": 5}, {"name": "b", "size": 5}]})).await;
    let path = format!("{}/a", things(t));
    let volumes = |list: Value| json!({"spec": {"volumes": list}});
    t.merge_patch(&path, volumes(json!([{"name": "b", "size": 6}, {"name": "a", "size": 4}])))
        .await;
    t.merge_patch(&path, volumes(json!([{"name": "c", "size": 1}, {"name": "b", "size": 6}])))
        .await;
}

pub(super) async fn order_of_sets_and_keyed_lists_does_not_count(t: &mut Script) {
    let frozen = json!([{"rule": "self == oldSelf", "message": "frozen"}]);
    let text = json!({"type": "string", "maxLength": 9});
    let properties = json!({
        "set": {"type": "array", "maxItems": 9, "x-kubernetes-list-type": "set", "items": text,
            "x-kubernetes-validations": frozen},
        "keyed": {"type": "array", "maxItems": 9, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["n"], "x-kubernetes-validations": frozen,
            "items": {"type": "object", "required": ["n"], "properties": {"n": text, "v": text}}},
        "plain": {"type": "array", "maxItems": 9, "items": text, "x-kubernetes-validations": frozen},
    });
    kind(t, object(properties, json!([]))).await;
    let keyed = json!([{"n": "a", "v": "1"}, {"n": "b"}]);
    given(t, json!({"set": ["a", "b"], "keyed": keyed, "plain": ["a", "b"]})).await;
    let path = format!("{}/a", things(t));
    t.merge_patch(&path, json!({"spec": {"set": ["b", "a"]}})).await;
    t.merge_patch(&path, json!({"spec": {"keyed": [{"n": "b"}, {"n": "a", "v": "1"}]}})).await;
    t.merge_patch(&path, json!({"spec": {"keyed": [{"n": "b"}, {"n": "a", "v": "2"}]}})).await;
    t.merge_patch(&path, json!({"spec": {"plain": ["b", "a"]}})).await;
    t.merge_patch(&path, json!({"spec": {"set": ["b", "c"]}})).await;
}

pub(super) async fn old_value_that_may_be_missing(t: &mut Script) {
    let class = json!({"type": "string", "x-kubernetes-validations": [
        {"rule": "oldSelf.hasValue() || self != 'gold'", "optionalOldSelf": true, "message": "gold is earned"},
        {"rule": "oldSelf.orValue('none') != 'gold' || self == 'gold'", "optionalOldSelf": true,
            "message": "gold stays gold"}]});
    kind(t, object(json!({"class": class}), json!([]))).await;
    try_all(t, &[json!({"class": "gold"})]).await;
    given(t, json!({"class": "tin"})).await;
    let path = format!("{}/a", things(t));
    t.merge_patch(&path, json!({"spec": {"class": "gold"}})).await;
    t.merge_patch(&path, json!({"spec": {"class": "tin"}})).await;
}

pub(super) async fn names_of_fields_are_escaped(t: &mut Script) {
    let text = json!({"type": "string"});
    let rules = json!([{"rule": "self.__namespace__ == 'a' && self.a__dot__b == 'a' && self.a__dash__b == 'a' \
        && self.a__slash__b == 'a' && self.a__underscores__b == 'a' && self.a_b == 'a' && self.__if__ == 'a'"}]);
    let properties = json!({"namespace": text, "a.b": text, "a-b": text, "a/b": text, "a__b": text, "a_b": text,
        "if": text});
    kind(t, object(properties, rules)).await;
    let fine = json!({"namespace": "a", "a.b": "a", "a-b": "a", "a/b": "a", "a__b": "a", "a_b": "a", "if": "a"});
    try_all(t, &[fine.clone(), with(fine, "/a-b", json!("x"))]).await;
}

pub(super) async fn keys_of_maps_are_not_escaped(t: &mut Script) {
    let rules = json!([
        {"rule": "!('a.b/c-d' in self) || self['a.b/c-d'] == 'x'", "message": "an x"},
        {"rule": "self.all(k, k.startsWith('a'))", "message": "keys start with a"},
        {"rule": "!has(self.alone) || self.alone != ''", "message": "not alone"},
    ]);
    let labels = json!({"type": "object", "maxProperties": 5, "additionalProperties": {"type": "string", "maxLength": 9},
        "x-kubernetes-validations": rules});
    kind(t, object(json!({"labels": labels}), json!([]))).await;
    try_all(
        t,
        &[
            json!({"labels": {"a.b/c-d": "x"}}),
            json!({"labels": {"a.b/c-d": "y"}}),
            json!({"labels": {"b": "y"}}),
            json!({"labels": {"alone": ""}}),
        ],
    )
    .await;
}

pub(super) async fn formats_of_texts_have_types(t: &mut Script) {
    let text = |format: &str| json!({"type": "string", "format": format});
    let rules = json!([
        {"rule": "self.end - self.start >= self.least", "message": "too short"},
        {"rule": "self.day.getDayOfWeek() != 0", "message": "no Sundays"},
        {"rule": "self.raw.size() == 3", "message": "three bytes"},
        {"rule": "self.start.getFullYear() >= 2020", "message": "not so old"},
    ]);
    let properties = json!({"start": text("date-time"), "end": text("date-time"), "least": text("duration"),
        "day": text("date"), "raw": text("byte")});
    kind(t, object(properties, rules)).await;
    let fine = json!({"start": "2024-01-01T00:00:00Z", "end": "2024-01-01T03:00:00+01:00", "least": "1h30m",
        "day": "2024-01-01", "raw": "YWJj"});
    try_all(
        t,
        &[
            fine.clone(),
            with(fine.clone(), "/least", json!("3h")),
            with(fine.clone(), "/day", json!("2024-01-07")),
            with(fine.clone(), "/raw", json!("YWI=")),
            with(fine, "/start", json!("2019-12-31T23:59:59.5Z")),
        ],
    )
    .await;
}

pub(super) async fn number_or_text(t: &mut Script) {
    let rules = json!([
        {"rule": "type(self.port) == int ? self.port > 0 : self.port.endsWith('%')", "message": "a share or a number"},
        {"rule": "self.limit < 5"},
    ]);
    let either = json!({"x-kubernetes-int-or-string": true});
    kind(t, object(json!({"port": either, "limit": either}), rules)).await;
    try_all(
        t,
        &[
            json!({"port": 5, "limit": 1}),
            json!({"port": "5%", "limit": 1}),
            json!({"port": "5", "limit": 1}),
            json!({"port": 0, "limit": 1}),
            json!({"port": 5, "limit": "1"}),
        ],
    )
    .await;
}

pub(super) async fn libraries_of_kubernetes(t: &mut Script) {
    let rules = json!([
        {"rule": "isQuantity(self.memory) && quantity(self.memory).compareTo(quantity('64Mi')) >= 0", "message": "memory"},
        {"rule": "isIP(self.address) && ip(self.address).family() == 4 && !ip(self.address).isLoopback()", "message": "address"},
        {"rule": "isCIDR(self.network) && cidr(self.network).containsIP(self.address)", "message": "network"},
        {"rule": "isURL(self.url) && url(self.url).getScheme() == 'https' && url(self.url).getHostname() == 'example.com'", "message": "url"},
        {"rule": "isSemver(self.version) && semver(self.version).isGreaterThan(semver('1.0.0'))", "message": "version"},
        {"rule": "!format.dns1123Label().validate(self.label).hasValue()", "message": "label"},
        {"rule": "self.label.matches('^[a-z]+$') && self.label.find('[a-m]+') != ''", "message": "pattern"},
    ]);
    let text = json!({"type": "string", "maxLength": 64});
    let properties = json!({"memory": text, "address": text, "network": text, "url": text, "version": text, "label": text});
    kind(t, object(properties, rules)).await;
    let fine = json!({"memory": "1Gi", "address": "10.0.0.7", "network": "10.0.0.0/8", "label": "abc",
        "url": "https://example.com:8443/x?y=z", "version": "1.2.3-rc.1"});
    try_all(
        t,
        &[
            fine.clone(),
            with(fine.clone(), "/memory", json!("1Mi")),
            with(fine.clone(), "/memory", json!("lots")),
            with(fine.clone(), "/address", json!("11.0.0.1")),
            with(fine.clone(), "/address", json!("::1")),
            with(fine.clone(), "/url", json!("http://example.com")),
            with(fine.clone(), "/version", json!("1.0.0")),
            with(fine.clone(), "/version", json!("v1.0")),
            with(fine, "/label", json!("xyz")),
        ],
    )
    .await;
}

pub(super) async fn macros_and_texts(t: &mut Script) {
    let rules = json!([
        {"rule": "self.names.map(n, n.size()).sum() < 10", "message": "sum"},
        {"rule": "self.names.filter(n, n.startsWith('x')).size() <= 1", "message": "filter"},
        {"rule": "self.names.all(i, n, i == 0 || n != self.names[i - 1])", "message": "neighbours"},
        {"rule": "self.names.join('-') != 'b-a'", "message": "join"},
        {"rule": "self.?other.orValue('z') != 'y' && self.names[?5].orValue('') == ''", "message": "optional"},
        {"rule": "'%s of %d'.format([self.names[0], size(self.names)]) != 'q of 1'", "message": "format"},
        {"rule": "self.names.transformList(i, n, n.startsWith('k') ? i : 9).exists(i, i == 0) == false", "message": "transform"},
        {"rule": "sets.intersects(self.names, ['s', 't']) == false", "message": "sets"},
        {"rule": "self.names.distinct().size() == self.names.size() || self.names.indexOf('d') < 0", "message": "distinct"},
        {"rule": "self.names[0].split('.').size() < 3 && self.names[0].replace('o', '0') != 'f00'", "message": "split"},
    ]);
    let properties = json!({"names": {"type": "array", "maxItems": 6, "items": {"type": "string", "maxLength": 12}},
        "other": {"type": "string", "maxLength": 9}});
    kind(t, object(properties, rules)).await;
    let specs = [
        json!(["a", "b"]),
        json!(["abcdef", "ghijkl"]),
        json!(["x1", "x2"]),
        json!(["a", "a"]),
        json!(["b", "a"]),
        json!(["q"]),
        json!(["k"]),
        json!(["s"]),
        json!(["d", "c", "d"]),
        json!(["a.b.c"]),
        json!(["foo"]),
    ];
    let specs: Vec<Value> = specs.into_iter().map(|names| json!({"names": names})).collect();
    try_all(t, &specs).await;
    try_all(t, &[json!({"names": ["a"], "other": "y"})]).await;
}

pub(super) async fn errors_of_an_evaluation(t: &mut Script) {
    let rules = json!([
        {"rule": "self.a != 1 || 10 / (self.a - 1) > 0"},
        {"rule": "self.a != 2 || [1, 2][self.a] > 0"},
        {"rule": "self.a != 3 || {'x': 1}[self.text] > 0", "message": "named by its message"},
        {"rule": "self.a != 4 || self.a * 9223372036854775807 > 0"},
        {"rule": "self.a != 5 || int(self.text) > 0"},
        {"rule": "self.a != 6 || self.nested.deep == 1"},
        {"rule": "self.a != 7 || 10 % (self.a - 7) > 0"},
    ]);
    let properties = json!({"a": {"type": "integer"}, "text": {"type": "string", "maxLength": 9},
        "nested": {"type": "object", "properties": {"deep": {"type": "integer"}}}});
    kind(t, object(properties, rules)).await;
    let specs: Vec<Value> = (1..8).map(|a| json!({"a": a, "text": "y", "nested": {}})).collect();
    try_all(t, &specs).await;
}

pub(super) async fn errors_of_the_schema_keep_rules_from_being_checked(t: &mut Script) {
    let properties = json!({"a": {"type": "integer", "maximum": 5}, "b": {"type": "string", "maxLength": 3},
        "c": {"type": "string", "enum": ["x"]}});
    let rules = json!([{"rule": "self.a != 9"}]);
    kind(t, with(object(properties, rules), "/required", json!(["a"]))).await;
    try_all(
        t,
        &[
            // A value out of bounds does not keep rules from being checked.
            json!({"a": 9}),
            json!({"a": 1, "b": "long"}),
            json!({"a": 1, "c": "y"}),
            json!({"a": "9"}),
            json!({}),
        ],
    )
    .await;
}

pub(super) async fn defaults_come_before_rules(t: &mut Script) {
    let properties =
        json!({"mode": {"type": "string", "default": "auto"}, "size": {"type": "integer"}});
    let rules =
        json!([{"rule": "self.mode != 'auto' || !has(self.size)", "message": "auto has no size"}]);
    kind(t, object(properties, rules)).await;
    try_all(t, &[json!({}), json!({"size": 1}), json!({"mode": "manual", "size": 1})]).await;
}

pub(super) async fn defaults_that_break_a_rule(t: &mut Script) {
    let number = json!({"type": "integer", "default": 7, "x-kubernetes-validations": [{"rule": "self < 5"}]});
    try_schema(
        t,
        json!({"type": "object", "properties": {"spec": object(json!({"a": number}), json!([]))}}),
    )
    .await;
}

pub(super) async fn null_is_no_value(t: &mut Script) {
    let properties = json!({"a": {"type": "string", "nullable": true,
        "x-kubernetes-validations": [{"rule": "self != 'x'"}]}});
    kind(t, object(properties, json!([{"rule": "has(self.a)", "message": "a must be there"}])))
        .await;
    try_all(t, &[json!({"a": "x"}), json!({"a": null}), json!({})]).await;
}

pub(super) async fn fields_that_are_kept_unknown(t: &mut Script) {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"known": {"type": "string"}},
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "frozen, whatever it holds"}]});
    kind(t, object(json!({"open": open}), json!([]))).await;
    given(t, json!({"open": {"known": "a", "other": 1}})).await;
    let path = format!("{}/a", things(t));
    t.merge_patch(&path, json!({"spec": {"open": {"other": 2}}})).await;
    t.merge_patch(&path, json!({"spec": {"open": {"third": 1}}})).await;
    t.merge_patch(&path, json!({"spec": {"open": {"known": "b"}}})).await;
    try_rules(
        t,
        json!({"open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}),
        &[json!({"rule": "self.open.anything == 1"})],
    )
    .await;
}

pub(super) async fn embedded_resources_have_a_name(t: &mut Script) {
    let template = json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-validations": [
            {"rule": "self.kind == 'Pod' && self.metadata.name == 'x'", "message": "a pod named x"}]});
    kind(t, object(json!({"template": template}), json!([]))).await;
    let pod = |name: &str| json!({"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}});
    try_all(t, &[pod("x"), pod("y")]).await;
}

pub(super) async fn definition_with_rules_in_combinations(t: &mut Script) {
    let mut spec = object(json!({"a": {"type": "integer"}}), json!([{"rule": "self.a != 1"}]));
    spec["allOf"] =
        json!([{"x-kubernetes-validations": [{"rule": "self.a != 2", "message": "two"}]}]);
    try_schema(t, json!({"type": "object", "properties": {"spec": spec}})).await;
}

pub(super) async fn definition_with_a_rule_that_does_not_parse(t: &mut Script) {
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

pub(super) async fn definition_with_a_rule_of_wrong_names_and_types(t: &mut Script) {
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

pub(super) async fn definition_with_a_message_that_does_not_compile(t: &mut Script) {
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

pub(super) async fn definition_with_rules_of_wrong_form(t: &mut Script) {
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

pub(super) async fn definition_with_old_values_that_nobody_finds(t: &mut Script) {
    let rule = json!([{"rule": "self == oldSelf"}]);
    let text = json!({"type": "string", "maxLength": 9, "x-kubernetes-validations": rule});
    let list = |kind: &str| json!({"type": "array", "maxItems": 5, "x-kubernetes-list-type": kind, "items": text});
    for list in [list("atomic"), list("set")] {
        try_schema(t, json!({"type": "object", "properties": {"spec": object(json!({"list": list}), json!([]))}})).await;
    }
    // In a map they are found.
    let map = json!({"type": "object", "maxProperties": 5, "additionalProperties": text});
    try_schema(
        t,
        json!({"type": "object", "properties": {"spec": object(json!({"map": map}), json!([]))}}),
    )
    .await;
}

pub(super) async fn definition_with_rules_where_there_is_no_type(t: &mut Script) {
    let open = json!({"x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-validations": [{"rule": "self == 1"}]});
    try_schema(
        t,
        json!({"type": "object", "properties": {"spec": object(json!({"open": open}), json!([]))}}),
    )
    .await;
    // Errors of the schema come first, and alone.
    let wrong = json!({"type": "array", "x-kubernetes-list-type": "bag", "items": {"type": "string"},
        "x-kubernetes-validations": [{"rule": "self.nothing"}]});
    try_schema(t, json!({"type": "object", "properties": {"spec": object(json!({"list": wrong}), json!([]))}})).await;
}

pub(super) async fn update_of_a_definition_brings_its_rules(t: &mut Script) {
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
