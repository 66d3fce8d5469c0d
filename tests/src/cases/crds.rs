//! Definitions of custom resources: creation, rejections, deletion.

use serde_json::{Value, json};

use crate::Script;
use crate::answer::Answer;
use crate::fixtures::{CRDS, definition, with};
use crate::request::Request;

/// A separate group for the case, so that cases do not see each other's definitions.
fn group(t: &Script) -> String {
    format!("{}.example.dev", t.ns())
}

fn path(plural: &str, group: &str) -> String {
    format!("{CRDS}/{plural}.{group}")
}

/// Whether a definition has this condition with this status.
fn has(answer: &Answer, condition: &str, status: &str) -> bool {
    let conditions = answer.at("/status/conditions");
    let found = |c: &Value| c["type"] == condition && c["status"] == status;
    conditions.as_array().is_some_and(|conditions| conditions.iter().any(found))
}

/// Creates a definition and waits until it is established.
async fn establish(t: &mut Script, definition: Value) {
    let answer = t.given(CRDS, definition).await;
    let path = format!("{CRDS}/{}", answer.name());
    t.wait_picking(path, "established", |answer| has(answer, "Established", "True"), &[]).await;
}

/// Waits until a collection is served.
async fn served(t: &mut Script, collection: &str) {
    t.wait_until(collection, "served", |answer| answer.status == 200).await;
}

pub(super) async fn definition_is_answered_without_conditions(t: &mut Script) {
    let group = group(t);
    t.post(CRDS, definition("things", "Thing", &group)).await;
    t.wait_until(path("things", &group), "established", |answer| {
        has(answer, "Established", "True")
    })
    .await;
    served(t, &format!("/apis/{group}/v1/things")).await;
}

pub(super) async fn definition_is_established_step_by_step(t: &mut Script) {
    let group = group(t);
    let start = t.look(Request::get(CRDS)).await.version();
    let name = format!("fieldSelector=metadata.name%3Dthings.{group}");
    let query = format!("watch=1&timeoutSeconds=60&resourceVersion={start}&{name}");
    let mut watch = t.watch(format!("{CRDS}?{query}")).await;
    t.look(Request::post(CRDS, definition("things", "Thing", &group))).await;
    watch.next_many(3).await;
}

pub(super) async fn definition_serves_nothing_before_it_exists(t: &mut Script) {
    let group = group(t);
    t.get(format!("/apis/{group}/v1/things")).await;
    t.get(path("things", &group)).await;
}

pub(super) async fn definition_shows_up_in_discovery(t: &mut Script) {
    let group = group(t);
    establish(t, definition("things", "Thing", &group)).await;
    t.wait_until(format!("/apis/{group}"), "served", |answer| answer.status == 200).await;
    let resources = format!("/apis/{group}/v1");
    let answer = t.wait_picking(resources, "served", |answer| answer.status == 200, &[]).await;
    t.note("entry", &answer.at("/resources/0"));
}

pub(super) async fn definition_with_the_wrong_name(t: &mut Script) {
    let group = group(t);
    let mut wrong = definition("things", "Thing", &group);
    wrong["metadata"]["name"] = json!(format!("other.{group}"));
    t.post(CRDS, wrong).await;
}

pub(super) async fn definition_with_missing_parts(t: &mut Script) {
    let group = group(t);
    let whole = definition("things", "Thing", &group);
    let without = |pointer: &str| with(whole.clone(), pointer, Value::Null);
    t.post(CRDS, without("/spec/versions")).await;
    t.post(CRDS, without("/spec/scope")).await;
    t.post(CRDS, without("/spec/names/kind")).await;
    let mut no_schema = whole.clone();
    no_schema["spec"]["versions"] = json!([{"name": "v1", "served": true, "storage": true}]);
    t.post(CRDS, no_schema).await;
}

pub(super) async fn definition_with_storage_versions_that_are_not_one(t: &mut Script) {
    let group = group(t);
    let mut object = definition("things", "Thing", &group);
    let version = object["spec"]["versions"][0].clone();
    object["spec"]["versions"] =
        json!([version.clone(), with(version.clone(), "/name", json!("v2"))]);
    // The messages quote the versions in Go's format.
    let parts = ["/reason", "/code", "/details/causes/0/field", "/details/causes/0/reason"];
    t.pick(Request::post(CRDS, object.clone()), &parts).await;
    object["spec"]["versions"] = json!([with(version, "/storage", json!(false))]);
    t.pick(Request::post(CRDS, object), &parts).await;
}

pub(super) async fn definition_with_a_schema_that_is_not_structural(t: &mut Script) {
    let group = group(t);
    for schema in [
        json!({"type": "object", "properties": {"spec": {"properties": {"a": {"type": "string"}}}}}),
        json!({"type": "array", "items": {"type": "string"}}),
        json!({"type": "object", "properties": {"spec": {"type": "nonsense"}}}),
        json!({"type": "object", "properties": {"a": {"type": "string", "default": 1}}}),
        json!({"type": "object", "properties": {"a": {"type": "array"}}}),
    ] {
        let mut object = definition("things", "Thing", &group);
        object["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
        t.post(CRDS, object).await;
    }
}

pub(super) async fn definition_whose_kind_is_taken(t: &mut Script) {
    let group = group(t);
    establish(t, definition("things", "Thing", &group)).await;
    let second = t.given(CRDS, definition("others", "Thing", &group)).await.name();
    let parts = ["/status/conditions", "/status/acceptedNames"];
    let refused = |answer: &Answer| has(answer, "NamesAccepted", "False");
    t.wait_picking(format!("{CRDS}/{second}"), "refused", refused, &parts).await;
    t.get(format!("/apis/{group}/v1/others")).await;
}

pub(super) async fn version_that_is_not_served(t: &mut Script) {
    let group = group(t);
    let mut object = definition("things", "Thing", &group);
    let version = object["spec"]["versions"][0].clone();
    let hidden = with(with(version.clone(), "/name", json!("v2")), "/served", json!(false));
    object["spec"]["versions"] = json!([version, with(hidden, "/storage", json!(false))]);
    establish(t, object).await;
    served(t, &format!("/apis/{group}/v1/things")).await;
    t.get(format!("/apis/{group}/v2/things")).await;
}

pub(super) async fn versions_are_listed_by_priority(t: &mut Script) {
    let group = group(t);
    let mut object = definition("things", "Thing", &group);
    let version = object["spec"]["versions"][0].clone();
    let named = |name: &str, storage: bool| {
        with(with(version.clone(), "/name", json!(name)), "/storage", json!(storage))
    };
    object["spec"]["versions"] = json!([
        named("v1alpha1", false),
        named("v1beta1", true),
        named("odd", false),
        named("v2", false),
        named("v10", false),
    ]);
    establish(t, object).await;
    t.wait_until(format!("/apis/{group}"), "served", |answer| answer.status == 200).await;
}

pub(super) async fn deleted_definition_takes_its_objects_with_it(t: &mut Script) {
    let group = group(t);
    establish(t, definition("things", "Thing", &group)).await;
    let collection = format!("/apis/{group}/v1/namespaces/{}/things", t.ns());
    served(t, &collection).await;
    let version = format!("{group}/v1");
    let thing = json!({"apiVersion": version, "kind": "Thing", "metadata": {"name": "a"}});
    t.given(&collection, thing).await;
    let parts = ["/metadata/finalizers", "/metadata/deletionTimestamp", "/kind"];
    t.pick(Request::delete(path("things", &group)), &parts).await;
    t.wait_gone(path("things", &group)).await;
    t.wait_gone(collection).await;
    t.wait_gone(format!("/apis/{group}")).await;
}

pub(super) async fn deleted_definition_can_come_back_empty(t: &mut Script) {
    let group = group(t);
    let collection = format!("/apis/{group}/v1/namespaces/{}/things", t.ns());
    establish(t, definition("things", "Thing", &group)).await;
    served(t, &collection).await;
    let version = format!("{group}/v1");
    let thing = json!({"apiVersion": version, "kind": "Thing", "metadata": {"name": "a"}});
    t.given(&collection, thing).await;
    t.look(Request::delete(path("things", &group))).await;
    t.wait_gone(path("things", &group)).await;
    establish(t, definition("things", "Thing", &group)).await;
    served(t, &collection).await;
}

pub(super) async fn definition_that_changes_its_schema(t: &mut Script) {
    let group = group(t);
    let mut object = definition("things", "Thing", &group);
    let schema = |bound: i64| {
        let size = json!({"type": "integer", "maximum": bound});
        json!({"type": "object", "properties": {"size": size}})
    };
    object["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema(10);
    establish(t, object).await;
    let collection = format!("/apis/{group}/v1/namespaces/{}/things", t.ns());
    served(t, &collection).await;
    let replaced = json!([{
        "op": "replace",
        "path": "/spec/versions/0/schema/openAPIV3Schema",
        "value": schema(20),
    }]);
    let patch = Request::patch(path("things", &group), crate::script::JSON_PATCH, replaced);
    t.pick(patch, &["/metadata/generation", "/spec/versions/0/schema"]).await;
}

pub(super) async fn definition_keeps_its_scope_and_kind(t: &mut Script) {
    let group = group(t);
    establish(t, definition("things", "Thing", &group)).await;
    let path = path("things", &group);
    t.merge_patch(&path, json!({"spec": {"scope": "Cluster"}})).await;
    t.merge_patch(&path, json!({"spec": {"group": "other.example.dev"}})).await;
}
