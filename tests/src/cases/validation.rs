//! Well-formed objects that are rejected: by the schema of a custom resource, or by the rules for
//! all metadata.

use serde_json::{Value, json};

use crate::Script;
use crate::fixtures::{OTHER_UID, configmap, namespace, widget, with};
use crate::request::Request;

/// Creates a widget with this spec.
async fn create(t: &mut Script, spec: Value) {
    t.post(t.widgets(), with(widget("a"), "/spec", spec)).await;
}

pub(super) async fn schema_bounds_and_choices(t: &mut Script) {
    t.install_widgets().await;
    create(t, json!({"size": 99})).await;
    create(t, json!({"size": 0})).await;
    create(t, json!({"size": 1, "ratio": 0})).await;
    create(t, json!({"size": 1, "color": "pink"})).await;
}

pub(super) async fn schema_errors_are_reported_together(t: &mut Script) {
    t.install_widgets().await;
    let spec = json!({"size": 99, "color": "pink", "label": "ABC"});
    let request = Request::post(t.widgets(), with(widget("a"), "/spec", spec));
    let answer = t.pick(request, &["/reason", "/code", "/details/kind", "/details/name"]).await;
    // The real server finds them in the random order of a Go map.
    let causes = answer.at("/details/causes");
    let mut causes: Vec<_> = causes.as_array().into_iter().flatten().cloned().collect();
    causes.sort_by_key(|cause| cause["field"].to_string());
    t.note("causes", &json!(causes));
}

pub(super) async fn schema_required_fields(t: &mut Script) {
    t.install_widgets().await;
    create(t, json!({"color": "red"})).await;
    create(t, json!({"size": 1, "endpoint": {}})).await;
    let mut object = widget("a");
    object.as_object_mut().expect("a widget must be an object").remove("spec");
    t.post(t.widgets(), object).await;
}

pub(super) async fn schema_types(t: &mut Script) {
    t.install_widgets().await;
    create(t, json!({"size": "x"})).await;
    create(t, json!({"size": 1, "tags": "x"})).await;
    create(t, json!({"size": 1, "endpoint": []})).await;
    create(t, json!({"size": 1, "port": true})).await;
}

pub(super) async fn schema_texts_and_lists(t: &mut Script) {
    t.install_widgets().await;
    create(t, json!({"size": 1, "label": "ABC"})).await;
    create(t, json!({"size": 1, "label": "abcdefghi"})).await;
    create(t, json!({"size": 1, "tags": ["a", "b", "c", "d"]})).await;
    create(t, json!({"size": 1, "tags": ["a", ""]})).await;
    create(t, json!({"size": 1, "parts": [{"name": "x"}, {"name": "y", "weight": -1}]})).await;
    create(t, json!({"size": 1, "parts": [{"name": "x"}, {}]})).await;
    create(t, json!({"size": 1, "options": {"x": 1}})).await;
    create(t, json!({"size": 1, "since": "yesterday"})).await;
}

pub(super) async fn schema_nulls(t: &mut Script) {
    t.install_widgets().await;
    create(t, json!({"size": 1, "note": null, "color": null})).await;
    t.post(t.widgets(), with(widget("b"), "/spec", json!({"size": null}))).await;
    t.post(t.widgets(), with(widget("c"), "/spec", json!({"size": 1, "label": null}))).await;
}

pub(super) async fn schema_holds_for_updates_and_status(t: &mut Script) {
    t.install_widgets().await;
    let read = t.given(t.widgets(), widget("a")).await;
    t.put(t.widget("a"), read.edited(|object| object["spec"]["size"] = json!(11))).await;
    t.merge_patch(t.widget("a"), json!({"spec": {"size": 11}})).await;
    t.merge_patch(format!("{}/status", t.widget("a")), json!({"status": {"phase": "Odd"}})).await;
    t.merge_patch(t.widget("a"), json!({"spec": null})).await;
}

pub(super) async fn name_that_is_not_allowed(t: &mut Script) {
    t.install_widgets().await;
    t.post(t.configmaps(), configmap("Bad_Name")).await;
    t.post(t.widgets(), widget("Bad_Name")).await;
    t.post(t.configmaps(), configmap(&"x".repeat(254))).await;
    t.post("/api/v1/namespaces", namespace("with.dot")).await;
}

pub(super) async fn name_that_is_missing(t: &mut Script) {
    t.install_widgets().await;
    t.post(t.configmaps(), with(configmap("a"), "/metadata", json!({}))).await;
    t.post(t.widgets(), with(widget("a"), "/metadata", json!({}))).await;
}

pub(super) async fn labels_and_annotations_that_are_not_allowed(t: &mut Script) {
    t.install_widgets().await;
    for labels in [json!({"bad key": "x"}), json!({"a": "bad value"}), json!({"/a": "x"})] {
        t.post(t.configmaps(), with(configmap("a"), "/metadata/labels", labels)).await;
    }
    let annotations = json!({"bad key": "x"});
    t.post(t.widgets(), with(widget("a"), "/metadata/annotations", annotations)).await;
}

pub(super) async fn finalizer_that_is_not_allowed(t: &mut Script) {
    t.install_widgets().await;
    for (name, finalizer) in [("unqualified", "nodomain"), ("broken", "bad name/x")] {
        let finalizers = json!([finalizer]);
        let held = |object| with(object, "/metadata/finalizers", finalizers.clone());
        t.post(t.configmaps(), held(configmap(name))).await;
        t.post(t.widgets(), held(widget(name))).await;
    }
}

pub(super) async fn owner_references_that_are_not_allowed(t: &mut Script) {
    let owner = |name: &str, uid: &str| json!({"apiVersion": "v1", "kind": "A", "name": name, "uid": uid, "controller": true});
    let references = json!([owner("a", OTHER_UID), owner("b", "2")]);
    t.post(t.configmaps(), with(configmap("a"), "/metadata/ownerReferences", references)).await;
    let references = json!([{"apiVersion": "v1", "kind": "A", "name": "", "uid": ""}]);
    t.post(t.configmaps(), with(configmap("a"), "/metadata/ownerReferences", references)).await;
    let references = json!([{"apiVersion": "v1", "kind": "Event", "name": "a", "uid": "1"}]);
    t.post(t.configmaps(), with(configmap("a"), "/metadata/ownerReferences", references)).await;
}

pub(super) async fn version_on_creation(t: &mut Script) {
    t.install_widgets().await;
    t.post(t.configmaps(), with(configmap("a"), "/metadata/resourceVersion", json!("1"))).await;
    t.post(t.widgets(), with(widget("a"), "/metadata/resourceVersion", json!("1"))).await;
}

pub(super) async fn immutable_metadata_is_kept_or_defended(t: &mut Script) {
    t.install_widgets().await;
    let read = t.given(t.widgets(), widget("a")).await;
    let old = json!("2001-01-01T00:00:00Z");
    t.put(t.widget("a"), read.edited(|o| o["metadata"]["creationTimestamp"] = old.clone())).await;
    t.put(t.widget("a"), read.edited(|o| o["metadata"]["generation"] = json!(77))).await;
    t.put(t.widget("a"), read.edited(|o| o["metadata"]["deletionTimestamp"] = old.clone())).await;
    t.put(t.widget("a"), read.edited(|o| o["metadata"]["selfLink"] = json!("/x"))).await;
    t.merge_patch(t.widget("a"), json!({"metadata": {"generateName": "g-"}})).await;
    t.merge_patch(t.widget("a"), json!({"metadata": {"uid": null}})).await;
}
