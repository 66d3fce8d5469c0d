//! Old values: rules about changes, and unchanged values that are not validated again.

use serde_json::{Value, json};

use super::{defining, given, group, kind, object, thing, things, try_all};
use crate::Script;
use crate::fixtures::{CRDS, with};
use crate::request::Request;

pub(in crate::cases) async fn field_that_cannot_change(t: &mut Script) {
    let class = json!({"type": "string", "x-kubernetes-validations": [
        {"rule": "self == oldSelf", "message": "class is immutable"}]});
    kind(t, object(json!({"class": class, "size": {"type": "integer"}}), json!([]))).await;
    let old = given(t, json!({"class": "gold", "size": 1})).await;
    let path = format!("{}/a", things(t));
    t.merge_patch(&path, json!({"spec": {"class": "silver"}})).await;
    t.merge_patch(&path, json!({"spec": {"size": 2}})).await;
    // A transition rule needs an old and a new value.
    t.merge_patch(&path, json!({"spec": {"class": null}})).await;
    t.put(&path, with(old.body, "/metadata/resourceVersion", json!("1"))).await;
}

pub(in crate::cases) async fn field_that_cannot_be_removed(t: &mut Script) {
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

pub(in crate::cases) async fn what_was_wrong_before_and_has_not_changed_is_warned_of(
    t: &mut Script,
) {
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

pub(in crate::cases) async fn items_are_found_again_by_their_keys(t: &mut Script) {
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

pub(in crate::cases) async fn order_of_sets_and_keyed_lists_does_not_count(t: &mut Script) {
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

pub(in crate::cases) async fn old_value_that_may_be_missing(t: &mut Script) {
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
