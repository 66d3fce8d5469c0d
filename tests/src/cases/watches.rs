//! Watches: which events they send, with which object, and how they end.

use serde_json::json;

use crate::Script;
use crate::fixtures::{FUTURE_VERSION, configmap, labelled_configmap, namespace, widget, with};
use crate::request::Request;

/// Returns the path of a watch on `path` from a version on, with additional query parameters.
fn from(path: &str, version: &str, more: &str) -> String {
    format!("{path}?watch=1&resourceVersion={version}&timeoutSeconds=60{more}")
}

pub(super) async fn watch_shows_what_happens_to_a_built_in(t: &mut Script) {
    let start = t.get(t.configmaps()).await.version();
    let mut watch = t.watch(from(&t.configmaps(), &start, "")).await;
    t.post(t.configmaps(), configmap("a")).await;
    watch.next().await;
    t.merge_patch(t.configmap("a"), json!({"data": {"a": "2"}})).await;
    watch.next().await;
    t.delete(t.configmap("a")).await;
    watch.next().await;
}

pub(super) async fn watch_shows_what_happens_to_a_custom_resource(t: &mut Script) {
    t.install_widgets().await;
    let start = t.get(t.widgets()).await.version();
    let mut watch = t.watch(from(&t.widgets(), &start, "")).await;
    t.post(t.widgets(), widget("a")).await;
    let status = json!({"status": {"phase": "Ready"}});
    t.merge_patch(format!("{}/status", t.widget("a")), status).await;
    t.merge_patch(format!("{}/scale", t.widget("a")), json!({"spec": {"replicas": 3}})).await;
    t.delete(t.widget("a")).await;
    watch.next_many(4).await;
}

pub(super) async fn watch_catches_up_from_a_version(t: &mut Script) {
    let start = t.given(t.configmaps(), configmap("a")).await.version();
    t.given(t.configmaps(), configmap("b")).await;
    t.delete(t.configmap("a")).await;
    let mut watch = t.watch(from(&t.configmaps(), &start, "")).await;
    watch.next_many(2).await;
}

pub(super) async fn watch_without_a_version_begins_with_what_is_there(t: &mut Script) {
    t.given_configmaps(&["b", "a"]).await;
    let mut watch = t.watch(format!("{}?watch=1&timeoutSeconds=60", t.configmaps())).await;
    watch.next_many(2).await;
    t.given(t.configmaps(), configmap("c")).await;
    watch.next().await;
}

pub(super) async fn watch_from_version_zero_begins_with_what_is_there(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), widget("a")).await;
    let mut watch = t.watch(from(&t.widgets(), "0", "")).await;
    watch.next().await;
    t.given(t.widgets(), widget("b")).await;
    watch.next().await;
}

pub(super) async fn writes_without_effect_emit_nothing(t: &mut Script) {
    t.install_widgets().await;
    let read = t.given(t.widgets(), widget("a")).await;
    let mut watch = t.watch(from(&t.widgets(), &read.version(), "")).await;
    t.put(t.widget("a"), read.body.clone()).await;
    t.merge_patch(t.widget("a"), json!({"spec": {"size": 1}})).await;
    t.merge_patch(t.widget("a"), json!({"status": {"phase": "Ready"}})).await;
    t.post(format!("{}?dryRun=All", t.widgets()), widget("b")).await;
    t.delete(format!("{}?dryRun=All", t.widget("a"))).await;
    t.merge_patch(t.widget("a"), json!({"spec": {"size": 2}})).await;
    watch.next().await;
}

pub(super) async fn label_selector_turns_changes_into_arrivals_and_departures(t: &mut Script) {
    t.install_widgets().await;
    let start = t.given(t.widgets(), widget("a")).await.version();
    let mut watch = t.watch(from(&t.widgets(), &start, "&labelSelector=sel%3D1")).await;
    let label = |value: &str| json!({"metadata": {"labels": {"sel": value}}});
    t.merge_patch(t.widget("a"), label("1")).await;
    watch.next().await;
    t.merge_patch(t.widget("a"), json!({"spec": {"size": 7}})).await;
    watch.next().await;
    t.merge_patch(t.widget("a"), label("2")).await;
    watch.next().await;
    t.merge_patch(t.widget("a"), json!({"spec": {"size": 8}})).await;
    t.merge_patch(t.widget("a"), label("1")).await;
    watch.next().await;
    t.delete(t.widget("a")).await;
    watch.next().await;
}

pub(super) async fn field_selector_turns_changes_into_arrivals_and_departures(t: &mut Script) {
    t.install_widgets().await;
    let start = t.given(t.widgets(), widget("a")).await.version();
    let mut watch = t.watch(from(&t.widgets(), &start, "&fieldSelector=spec.color%3Dblue")).await;
    t.merge_patch(t.widget("a"), json!({"spec": {"color": "blue"}})).await;
    t.merge_patch(t.widget("a"), json!({"spec": {"color": "green"}})).await;
    watch.next_many(2).await;
}

pub(super) async fn watch_of_a_single_object(t: &mut Script) {
    t.given_configmaps(&["a", "b"]).await;
    let selector = "fieldSelector=metadata.name%3Da";
    let path = format!("{}?watch=1&timeoutSeconds=60&{selector}", t.configmaps());
    let mut watch = t.watch(path).await;
    watch.next().await;
    t.delete(t.configmap("b")).await;
    t.delete(t.configmap("a")).await;
    watch.next().await;
}

pub(super) async fn watch_on_the_path_of_an_object_is_a_plain_read(t: &mut Script) {
    t.given_configmaps(&["a"]).await;
    t.get(format!("{}?watch=1&timeoutSeconds=60", t.configmap("a"))).await;
}

pub(super) async fn watch_over_all_namespaces(t: &mut Script) {
    let other = t.own_name("other");
    t.given("/api/v1/namespaces", namespace(&other)).await;
    let case = t.ns().to_owned();
    let start = t.given(t.configmaps(), labelled_configmap("a", "case", &case)).await.version();
    let more = format!("&labelSelector=case%3D{case}");
    let mut watch = t.watch(from("/api/v1/configmaps", &start, &more)).await;
    t.given(
        format!("/api/v1/namespaces/{other}/configmaps"),
        labelled_configmap("b", "case", &case),
    )
    .await;
    t.delete(t.configmap("a")).await;
    watch.next_many(2).await;
}

pub(super) async fn watch_of_a_place_that_does_not_exist(t: &mut Script) {
    let path = "/api/v1/namespaces/no-such-place/configmaps?watch=1&timeoutSeconds=1";
    t.watch(path).await.end().await;
}

pub(super) async fn watch_sees_a_deletion_with_finalizers_in_two_steps(t: &mut Script) {
    t.install_widgets().await;
    let held = with(widget("a"), "/metadata/finalizers", json!(["example.dev/f"]));
    let start = t.given(t.widgets(), held).await.version();
    let mut watch = t.watch(from(&t.widgets(), &start, "")).await;
    t.delete(t.widget("a")).await;
    t.merge_patch(t.widget("a"), json!({"metadata": {"finalizers": null}})).await;
    watch.next_many(2).await;
}

pub(super) async fn watch_sees_every_object_of_a_deleted_collection(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    let start = t.given(t.configmaps(), configmap("b")).await.version();
    let mut watch = t.watch(from(&t.configmaps(), &start, "")).await;
    t.delete(format!("{}?fieldSelector=metadata.name%3Da", t.configmaps())).await;
    t.delete(format!("{}?fieldSelector=metadata.name%3Db", t.configmaps())).await;
    watch.next_many(2).await;
}

pub(super) async fn watch_sees_a_recreated_object_as_another(t: &mut Script) {
    let start = t.given(t.configmaps(), configmap("a")).await.version();
    let mut watch = t.watch(from(&t.configmaps(), &start, "")).await;
    t.delete(t.configmap("a")).await;
    t.given(t.configmaps(), configmap("a")).await;
    watch.next_many(2).await;
}

pub(super) async fn watch_in_another_version(t: &mut Script) {
    t.install_widgets().await;
    let start = t.given(t.widgets(), widget("a")).await.version();
    let mut watch = t.watch(from(&t.widgets_v2(), &start, "")).await;
    t.merge_patch(t.widget("a"), json!({"spec": {"size": 2}})).await;
    t.delete(t.widget("a")).await;
    watch.next_many(2).await;
}

pub(super) async fn watch_from_a_version_that_is_too_old(t: &mut Script) {
    t.alone().await;
    t.install_widgets().await;
    t.given(t.widgets(), widget("a")).await;
    t.compact().await;
    t.watch(from(&t.widgets(), "1", "")).await.end().await;
}

pub(super) async fn watch_from_a_version_of_the_future(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    let path =
        format!("{}?watch=1&resourceVersion={FUTURE_VERSION}&timeoutSeconds=1", t.configmaps());
    t.watch(path).await.end().await;
}

pub(super) async fn watch_from_a_version_that_is_no_number(t: &mut Script) {
    t.install_widgets().await;
    t.watch(from(&t.configmaps(), "abc", "")).await;
    t.watch(from(&t.widgets(), "abc", "")).await;
}

pub(super) async fn watch_with_a_bad_selector(t: &mut Script) {
    t.install_widgets().await;
    t.watch(from(&t.configmaps(), "0", "&labelSelector=a%20in%20(")).await;
    t.watch(from(&t.widgets(), "0", "&fieldSelector=spec.size%3D1")).await;
}

pub(super) async fn watch_ends_cleanly_after_its_time(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    t.watch(format!("{}?watch=true&timeoutSeconds=1", t.configmaps())).await.end().await;
}

pub(super) async fn watch_sends_a_bookmark_before_its_time_ends(t: &mut Script) {
    t.install_widgets().await;
    for path in [t.configmaps(), t.widgets()] {
        let query = "watch=1&timeoutSeconds=3&allowWatchBookmarks=true";
        let mut watch = t.watch(format!("{path}?{query}")).await;
        watch.next_bookmark().await;
        watch.end().await;
    }
}

pub(super) async fn watch_list_marks_the_end_of_the_initial_events(t: &mut Script) {
    t.install_widgets().await;
    t.given_configmaps(&["a", "b"]).await;
    t.given(t.widgets(), widget("a")).await;
    let query = "watch=1&timeoutSeconds=60&sendInitialEvents=true&allowWatchBookmarks=true\
                 &resourceVersionMatch=NotOlderThan";
    let mut watch = t.watch(format!("{}?{query}", t.configmaps())).await;
    watch.next_many(3).await;
    t.given(t.configmaps(), configmap("c")).await;
    watch.next().await;
    let mut watch = t.watch(format!("{}?{query}", t.widgets())).await;
    watch.next_many(2).await;
}

pub(super) async fn watch_list_with_a_selector_or_a_version(t: &mut Script) {
    let version = t.given(t.configmaps(), labelled_configmap("a", "l", "1")).await.version();
    t.given(t.configmaps(), labelled_configmap("b", "l", "2")).await;
    let query = "watch=1&timeoutSeconds=60&sendInitialEvents=true&allowWatchBookmarks=true\
                 &resourceVersionMatch=NotOlderThan";
    let mut watch = t.watch(format!("{}?{query}&labelSelector=l%3D1", t.configmaps())).await;
    watch.next_many(2).await;
    let mut watch = t.watch(format!("{}?{query}&resourceVersion={version}", t.configmaps())).await;
    watch.next_many(3).await;
    let mut watch = t.watch(format!("{}?{query}&labelSelector=l%3D3", t.configmaps())).await;
    watch.next().await;
}

pub(super) async fn watch_list_without_bookmarks_has_no_end_mark(t: &mut Script) {
    t.given_configmaps(&["a"]).await;
    let query = "watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    t.watch(format!("{}?{query}", t.configmaps())).await.end().await;
}

pub(super) async fn watch_without_initial_events_on_request(t: &mut Script) {
    let version = t.given(t.configmaps(), configmap("a")).await.version();
    t.given(t.configmaps(), configmap("b")).await;
    let query = "watch=1&timeoutSeconds=60&sendInitialEvents=false\
                 &resourceVersionMatch=NotOlderThan";
    let mut watch = t.watch(format!("{}?{query}&resourceVersion={version}", t.configmaps())).await;
    watch.next().await;
}

pub(super) async fn watch_options_that_are_not_allowed(t: &mut Script) {
    for query in [
        "sendInitialEvents=true",
        "resourceVersionMatch=NotOlderThan",
        "sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1",
        "sendInitialEvents=true&resourceVersionMatch=Nonsense",
        "continue=abc",
    ] {
        t.watch(format!("{}?watch=1&timeoutSeconds=1&{query}", t.configmaps())).await;
    }
}

pub(super) async fn watch_of_the_metadata_only(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), widget("a")).await;
    let query = "watch=1&timeoutSeconds=60&sendInitialEvents=true&allowWatchBookmarks=true\
                 &resourceVersionMatch=NotOlderThan";
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let request = Request::get(format!("{}?{query}", t.widgets())).accept(accept);
    let mut watch = t.watch_with(request).await;
    watch.next_many(2).await;
    t.merge_patch(t.widget("a"), json!({"spec": {"size": 2}})).await;
    t.delete(t.widget("a")).await;
    watch.next_many(2).await;
}
