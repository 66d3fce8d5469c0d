//! Deletion: options, preconditions, finalizers, collections.

use serde_json::json;

use crate::Script;
use crate::fixtures::{GADGETS, OTHER_UID, configmap, gadget, labelled_configmap, widget, with};
use crate::request::Request;

/// The finalizer of these cases.
const FINALIZER: &str = "example.dev/f";

fn held(object: serde_json::Value) -> serde_json::Value {
    with(object, "/metadata/finalizers", json!([FINALIZER]))
}

pub(super) async fn deletion_answers_with_the_uid(t: &mut Script) {
    t.install_widgets().await;
    t.install_gadgets().await;
    t.given(t.configmaps(), configmap("a")).await;
    t.given(t.widgets(), widget("a")).await;
    let name = t.own_name("a");
    t.given(GADGETS, gadget(&name)).await;
    t.delete(t.configmap("a")).await;
    t.delete(t.widget("a")).await;
    t.delete(format!("{GADGETS}/{name}")).await;
    t.get(t.widget("a")).await;
    t.delete(t.widget("a")).await;
}

pub(super) async fn finalizer_turns_deletion_into_a_mark(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), held(widget("a"))).await;
    t.delete(t.widget("a")).await;
    t.delete(t.widget("a")).await;
    t.get(t.widget("a")).await;
    t.merge_patch(t.widget("a"), json!({"metadata": {"finalizers": null}})).await;
    t.get(t.widget("a")).await;
}

pub(super) async fn finalizer_holds_a_built_in_as_well(t: &mut Script) {
    t.given(t.configmaps(), held(configmap("a"))).await;
    t.delete(t.configmap("a")).await;
    t.json_patch(t.configmap("a"), json!([{"op": "remove", "path": "/metadata/finalizers/0"}]))
        .await;
    t.get(t.configmap("a")).await;
}

pub(super) async fn last_of_two_finalizers_lets_go(t: &mut Script) {
    let both = json!([FINALIZER, "example.dev/g"]);
    t.given(t.configmaps(), with(configmap("a"), "/metadata/finalizers", both)).await;
    let read = t.delete(t.configmap("a")).await;
    let one = read.edited(|object| object["metadata"]["finalizers"] = json!([FINALIZER]));
    let read = t.put(t.configmap("a"), one).await;
    t.put(t.configmap("a"), read.edited(|object| object["metadata"]["finalizers"] = json!([])))
        .await;
    t.get(t.configmap("a")).await;
}

pub(super) async fn terminating_object_takes_no_new_finalizer(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), held(widget("a"))).await;
    t.given(t.configmaps(), held(configmap("a"))).await;
    t.delete(t.widget("a")).await;
    t.delete(t.configmap("a")).await;
    let more = json!({"metadata": {"finalizers": [FINALIZER, "example.dev/g"]}});
    t.merge_patch(t.widget("a"), more.clone()).await;
    t.merge_patch(t.configmap("a"), more).await;
}

pub(super) async fn terminating_object_can_still_be_changed(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), held(widget("a"))).await;
    t.delete(t.widget("a")).await;
    t.merge_patch(t.widget("a"), json!({"spec": {"size": 5}})).await;
    let status = json!({"status": {"phase": "Ready"}});
    t.merge_patch(format!("{}/status", t.widget("a")), status).await;
    t.merge_patch(t.widget("a"), json!({"metadata": {"labels": {"l": "1"}}})).await;
}

pub(super) async fn terminating_object_stays_terminating(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), held(widget("a"))).await;
    t.delete(t.widget("a")).await;
    t.merge_patch(t.widget("a"), json!({"metadata": {"deletionTimestamp": null}})).await;
    let read = t.get(t.widget("a")).await;
    t.put(
        t.widget("a"),
        read.edited(|object| {
            object["metadata"]["deletionTimestamp"] = serde_json::Value::Null;
            object["metadata"]["deletionGracePeriodSeconds"] = serde_json::Value::Null;
        }),
    )
    .await;
}

pub(super) async fn terminating_name_is_taken(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), held(widget("a"))).await;
    t.given(t.configmaps(), held(configmap("a"))).await;
    t.delete(t.widget("a")).await;
    t.delete(t.configmap("a")).await;
    t.post(t.widgets(), widget("a")).await;
    t.post(t.configmaps(), configmap("a")).await;
}

pub(super) async fn precondition_on_the_uid(t: &mut Script) {
    t.install_widgets().await;
    let read = t.given(t.widgets(), widget("a")).await;
    t.given(t.configmaps(), configmap("a")).await;
    let other = json!({"preconditions": {"uid": OTHER_UID}});
    t.delete_with(t.widget("a"), other.clone()).await;
    t.delete_with(t.configmap("a"), other).await;
    t.delete_with(t.widget("a"), json!({"preconditions": {"uid": read.uid()}})).await;
}

pub(super) async fn precondition_on_the_version(t: &mut Script) {
    t.install_widgets().await;
    let read = t.given(t.widgets(), widget("a")).await;
    t.delete_with(t.widget("a"), json!({"preconditions": {"resourceVersion": "1"}})).await;
    t.merge_patch(t.widget("a"), json!({"spec": {"size": 2}})).await;
    let stale = json!({"preconditions": {"resourceVersion": read.version()}});
    t.delete_with(t.widget("a"), stale).await;
    let read = t.get(t.widget("a")).await;
    let right = json!({"preconditions": {"resourceVersion": read.version(), "uid": read.uid()}});
    t.delete_with(t.widget("a"), right).await;
}

pub(super) async fn delete_options_that_are_not_allowed(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), widget("a")).await;
    t.given(t.configmaps(), configmap("a")).await;
    t.delete_with(t.widget("a"), json!({"propagationPolicy": "Bogus"})).await;
    let both = json!({"propagationPolicy": "Background", "orphanDependents": true});
    t.delete_with(t.configmap("a"), both).await;
    t.delete_with(t.configmap("a"), json!({"dryRun": ["Some"]})).await;
    t.delete(format!("{}?propagationPolicy=Bogus", t.configmap("a"))).await;
    let other_kind = json!({"kind": "Nonsense", "apiVersion": "v1"});
    t.refused(Request::delete(t.configmap("a")).json(other_kind)).await;
    t.get(t.configmap("a")).await;
}

pub(super) async fn delete_options_in_body_or_query(t: &mut Script) {
    t.given_configmaps(&["a", "b", "c"]).await;
    let options = json!({
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "propagationPolicy": "Background",
        "gracePeriodSeconds": 0,
    });
    t.delete_with(t.configmap("a"), options).await;
    t.delete(format!("{}?propagationPolicy=Background&gracePeriodSeconds=30", t.configmap("b")))
        .await;
    t.delete_with(t.configmap("c"), json!({})).await;
}

pub(super) async fn collection_is_deleted_by_label(t: &mut Script) {
    t.install_widgets().await;
    for (name, value) in [("a", "1"), ("b", "1"), ("c", "2")] {
        t.given(t.configmaps(), labelled_configmap(name, "l", value)).await;
        t.given(t.widgets(), with(widget(name), "/metadata/labels", json!({"l": value}))).await;
    }
    for path in [t.configmaps(), t.widgets()] {
        t.delete(format!("{path}?labelSelector=l%3D1")).await;
        t.get(path).await;
    }
}

pub(super) async fn collection_is_deleted_whole_or_not_at_all(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), widget("a")).await;
    t.delete(format!("{}?labelSelector=zz%3D1", t.widgets())).await;
    t.delete(format!("{}?fieldSelector=metadata.name%3Db", t.widgets())).await;
    t.delete(t.widgets()).await;
    t.delete(t.widgets()).await;
}

pub(super) async fn collection_with_finalizers_is_marked(t: &mut Script) {
    t.given(t.configmaps(), held(configmap("a"))).await;
    t.given(t.configmaps(), configmap("b")).await;
    t.delete(t.configmaps()).await;
    t.get(t.configmaps()).await;
}

pub(super) async fn collection_is_not_deleted_by_a_bad_selector(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    t.delete(format!("{}?labelSelector=a%20in%20(", t.configmaps())).await;
    t.delete(format!("{}?fieldSelector=data.a%3D1", t.configmaps())).await;
    t.delete_with(t.configmaps(), json!({"propagationPolicy": "Bogus"})).await;
    t.get(t.configmap("a")).await;
}
