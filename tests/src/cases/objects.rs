//! The life of an object from its creation on: fields that the server adds, keeps, drops and
//! counts.

use serde_json::{Value, json};

use crate::Script;
use crate::fixtures::{GADGETS, configmap, gadget, widget, with};
use crate::request::Request;

pub(super) async fn creation_fills_in_what_the_server_decides(t: &mut Script) {
    t.install_widgets().await;
    t.install_gadgets().await;
    t.post(t.configmaps(), configmap("a")).await;
    t.post(t.widgets(), widget("a")).await;
    let name = t.own_name("a");
    t.post(GADGETS, gadget(&name)).await;
    t.get(t.widget("a")).await;
}

pub(super) async fn creation_ignores_what_only_the_server_decides(t: &mut Script) {
    t.install_widgets().await;
    let mut object = widget("a");
    object["metadata"] = json!({
        "name": "a",
        "uid": "x",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 7,
        "generation": 77,
        "selfLink": "/x",
    });
    object["status"] = json!({"replicas": 9});
    t.post(t.widgets(), object).await;
    let mut object = configmap("a");
    object["metadata"]["uid"] = json!("x");
    object["metadata"]["generation"] = json!(77);
    t.post(t.configmaps(), object).await;
}

pub(super) async fn creation_fills_in_the_namespace(t: &mut Script) {
    let ns = t.ns().to_owned();
    t.post(t.configmaps(), with(configmap("a"), "/metadata/namespace", json!(ns))).await;
    t.post(t.configmaps(), with(configmap("b"), "/metadata/namespace", json!(""))).await;
}

pub(super) async fn generated_name_has_five_characters(t: &mut Script) {
    t.install_widgets().await;
    let generated = |object| with(object, "/metadata", json!({"generateName": "g-"}));
    let answer = t.post(t.configmaps(), generated(configmap("a"))).await;
    t.get(t.configmap(&answer.name())).await;
    t.post(t.widgets(), generated(widget("a"))).await;
}

pub(super) async fn generated_name_yields_to_a_given_one(t: &mut Script) {
    let both = json!({"name": "a", "generateName": "g-"});
    t.post(t.configmaps(), with(configmap("a"), "/metadata", both)).await;
}

pub(super) async fn generated_name_from_a_bad_or_long_prefix(t: &mut Script) {
    let prefix = |prefix: &str| with(configmap("a"), "/metadata", json!({"generateName": prefix}));
    t.refused(Request::post(t.configmaps(), prefix("Bad_"))).await;
    let answer = t.look(Request::post(t.configmaps(), prefix(&"x".repeat(100))));
    let length = answer.await.name().len();
    t.note("length of the generated name", &json!(length));
}

pub(super) async fn defaults_of_the_schema_are_stored(t: &mut Script) {
    t.install_widgets().await;
    let mut object = widget("a");
    object["spec"]["endpoint"] = json!({"host": "h"});
    object["spec"]["parts"] = json!([{"name": "x"}, {"name": "y", "unit": "g"}]);
    t.post(t.widgets(), object).await;
    t.merge_patch(t.widget("a"), json!({"spec": {"color": null, "replicas": null}})).await;
}

pub(super) async fn open_parts_of_the_schema_keep_everything(t: &mut Script) {
    t.install_widgets().await;
    let mut object = widget("a");
    object["spec"]["extra"] = json!({"a": {"b": [1, "x", null, true]}, "n": null});
    object["spec"]["options"] = json!({"k": "v"});
    object["spec"]["port"] = json!("http");
    object["spec"]["ratio"] = json!(1.5);
    object["spec"]["since"] = json!("2001-01-01T00:00:00Z");
    t.post(t.widgets(), object).await;
}

pub(super) async fn numbers_are_kept_as_they_are(t: &mut Script) {
    t.install_widgets().await;
    let extra =
        json!({"big": 9_007_199_254_740_993_i64, "negative": -1, "float": 0.25, "whole": 2.0});
    let mut object = widget("a");
    object["spec"]["extra"] = extra;
    t.post(t.widgets(), object).await;
    t.get(t.widget("a")).await;
}

pub(super) async fn put_replaces_all_but_the_servers_fields(t: &mut Script) {
    t.install_widgets().await;
    let mut object = widget("a");
    object["metadata"]["labels"] = json!({"l": "1"});
    object["metadata"]["annotations"] = json!({"n": "1"});
    object["spec"]["tags"] = json!(["x"]);
    let read = t.given(t.widgets(), object).await;
    let mut replacement = widget("a");
    replacement["metadata"]["resourceVersion"] = json!(read.version());
    t.put(t.widget("a"), replacement).await;
}

pub(super) async fn put_that_changes_nothing_keeps_the_version(t: &mut Script) {
    t.install_widgets().await;
    let read = t.given(t.widgets(), widget("a")).await;
    t.put(t.widget("a"), read.body.clone()).await;
    t.put(t.widget("a"), read.edited(|object| object["spec"]["replicas"] = Value::Null)).await;
    t.given(t.configmaps(), configmap("a")).await;
    t.put(t.configmap("a"), configmap("a")).await;
    t.get(t.configmap("a")).await;
}

pub(super) async fn patch_that_changes_nothing_keeps_the_version(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), widget("a")).await;
    t.merge_patch(t.widget("a"), json!({"spec": {"size": 1}})).await;
    t.merge_patch(t.widget("a"), json!({})).await;
    t.json_patch(t.widget("a"), json!([])).await;
    t.merge_patch(t.widget("a"), json!({"metadata": {"labels": {"absent": null}}})).await;
    t.get(t.widget("a")).await;
}

pub(super) async fn generation_counts_changes_of_the_spec(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), widget("a")).await;
    t.merge_patch(t.widget("a"), json!({"spec": {"size": 2}})).await;
    t.merge_patch(t.widget("a"), json!({"metadata": {"labels": {"l": "1"}}})).await;
    t.merge_patch(t.widget("a"), json!({"metadata": {"annotations": {"n": "1"}}})).await;
    t.merge_patch(t.widget("a"), json!({"metadata": {"finalizers": ["example.dev/f"]}})).await;
    t.merge_patch(t.widget("a"), json!({"spec": {"size": 2}})).await;
    t.merge_patch(t.widget("a"), json!({"metadata": {"finalizers": null}})).await;
}

pub(super) async fn generation_counts_everything_without_a_status_subresource(t: &mut Script) {
    t.install_gadgets().await;
    let path = format!("{GADGETS}/{}", t.own_name("a"));
    t.given(GADGETS, gadget(&t.own_name("a"))).await;
    t.merge_patch(&path, json!({"any": {"x": [2]}})).await;
    t.merge_patch(&path, json!({"status": {"ready": true}})).await;
    t.merge_patch(&path, json!({"metadata": {"labels": {"l": "1"}}})).await;
}

pub(super) async fn one_object_in_two_versions(t: &mut Script) {
    t.install_widgets().await;
    t.post(t.widgets(), widget("a")).await;
    let in_v2 = format!("{}/a", t.widgets_v2());
    t.get(&in_v2).await;
    t.merge_patch(&in_v2, json!({"spec": {"size": 2}})).await;
    t.get(t.widget("a")).await;
    let of_v2 = with(widget("b"), "/apiVersion", json!("conformance.windlass.dev/v2"));
    t.post(t.widgets_v2(), of_v2).await;
    t.get(t.widgets()).await;
    t.get(t.widgets_v2()).await;
}

pub(super) async fn deleted_and_created_again_is_another_object(t: &mut Script) {
    t.post(t.configmaps(), configmap("a")).await;
    t.delete(t.configmap("a")).await;
    t.post(t.configmaps(), configmap("a")).await;
}
