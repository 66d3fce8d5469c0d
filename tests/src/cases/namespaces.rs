//! Namespaces: their defaults, requests in missing and terminating ones, and their deletion.

use http::Method;
use serde_json::json;

use crate::Script;
use crate::answer::Answer;
use crate::fixtures::{configmap, namespace, widget, with};
use crate::request::Request;
use crate::script::MERGE_PATCH;

const NAMESPACES: &str = "/api/v1/namespaces";

/// The fields of a namespace that do not depend on the progress of its deletion.
const FATE: [&str; 3] = ["/kind", "/spec", "/status/phase"];

/// Creates a namespace that stays terminating, because an object in it has a finalizer; returns its
/// path.
async fn given_terminating(t: &mut Script) -> String {
    let name = t.own_name("end");
    let path = format!("{NAMESPACES}/{name}");
    t.given(NAMESPACES, namespace(&name)).await;
    let held = with(configmap("held"), "/metadata/finalizers", json!(["example.dev/f"]));
    t.given(format!("{path}/configmaps"), held).await;
    t.pick(Request::delete(&path), &FATE).await;
    path
}

async fn release(t: &mut Script, path: &str) {
    let let_go = json!({"metadata": {"finalizers": null}});
    let held = format!("{path}/configmaps/held");
    t.look(Request::patch(held, MERGE_PATCH, let_go)).await;
    t.wait_gone(path).await;
}

pub(super) async fn namespace_comes_with_label_finalizer_and_phase(t: &mut Script) {
    let name = t.own_name("new");
    t.post(NAMESPACES, namespace(&name)).await;
    t.get(format!("{NAMESPACES}/{name}")).await;
    t.get(format!("{NAMESPACES}/{name}/status")).await;
}

pub(super) async fn namespace_keeps_its_label(t: &mut Script) {
    let path = format!("{NAMESPACES}/{}", t.ns());
    let other = json!({"metadata": {"labels": {"kubernetes.io/metadata.name": "other", "l": "1"}}});
    t.merge_patch(&path, other).await;
    t.merge_patch(&path, json!({"metadata": {"labels": null}})).await;
    t.merge_patch(&path, json!({"spec": {"finalizers": []}})).await;
    t.merge_patch(&path, json!({"status": {"phase": "Terminating"}})).await;
}

pub(super) async fn missing_namespace_refuses_creation_only(t: &mut Script) {
    t.install_widgets().await;
    let path = "/api/v1/namespaces/no-such-place";
    t.get(path).await;
    t.post(format!("{path}/configmaps"), configmap("a")).await;
    let widgets = "/apis/conformance.windlass.dev/v1/namespaces/no-such-place/widgets";
    t.post(widgets, widget("a")).await;
    t.get(format!("{path}/configmaps")).await;
    t.get(format!("{path}/configmaps/a")).await;
    t.get(widgets).await;
    t.delete(format!("{path}/configmaps/a")).await;
    t.delete(format!("{path}/configmaps")).await;
}

pub(super) async fn terminating_namespace_refuses_creation(t: &mut Script) {
    t.install_widgets().await;
    let path = given_terminating(t).await;
    t.post(format!("{path}/configmaps"), configmap("new")).await;
    let generated = with(configmap("x"), "/metadata", json!({"generateName": "g-"}));
    t.refused(Request::post(format!("{path}/configmaps"), generated)).await;
    let widgets = path.replace("/api/v1", "/apis/conformance.windlass.dev/v1");
    t.post(format!("{widgets}/widgets"), widget("new")).await;
    // Whether it is already marked depends on the progress of the deletion.
    let held = format!("{path}/configmaps/held");
    t.pick(Request::patch(held, MERGE_PATCH, json!({"data": {"a": "2"}})), &["/data"]).await;
    release(t, &path).await;
}

pub(super) async fn terminating_namespace_can_be_deleted_again(t: &mut Script) {
    let path = given_terminating(t).await;
    t.pick(Request::delete(&path), &FATE).await;
    t.pick(Request::get(&path), &FATE).await;
    t.post(NAMESPACES, namespace(&t.own_name("end"))).await;
    release(t, &path).await;
}

pub(super) async fn deleted_namespace_answers_with_itself(t: &mut Script) {
    let name = t.own_name("end");
    t.given(NAMESPACES, namespace(&name)).await;
    t.delete(format!("{NAMESPACES}/{name}")).await;
    t.wait_gone(format!("{NAMESPACES}/{name}")).await;
}

pub(super) async fn deleted_namespace_takes_its_content_with_it(t: &mut Script) {
    let name = t.own_name("end");
    let path = format!("{NAMESPACES}/{name}");
    t.given(NAMESPACES, namespace(&name)).await;
    t.given(format!("{path}/configmaps"), configmap("a")).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
    t.given(format!("{path}/secrets"), secret).await;
    t.look(Request::delete(&path)).await;
    t.wait_gone(&path).await;
    t.get(format!("{path}/configmaps/a")).await;
    t.get(format!("{path}/secrets/a")).await;
    t.post(NAMESPACES, namespace(&name)).await;
    t.get(format!("{path}/configmaps")).await;
}

pub(super) async fn deleted_namespace_waits_for_finalizers(t: &mut Script) {
    let path = given_terminating(t).await;
    let marked = |answer: &Answer| !answer.at("/metadata/deletionTimestamp").is_null();
    t.wait_until(format!("{path}/configmaps/held"), "marked", marked).await;
    t.pick(Request::get(&path), &FATE).await;
    release(t, &path).await;
    t.get(format!("{path}/configmaps/held")).await;
}

pub(super) async fn finalize_ends_a_namespace(t: &mut Script) {
    let path = given_terminating(t).await;
    let name = t.own_name("end");
    let empty = with(namespace(&name), "/spec", json!({"finalizers": []}));
    let put = |path: String| Request::new(Method::PUT, path).json(empty.clone());
    t.pick(put(format!("{path}/finalize")), &FATE).await;
    t.wait_gone(&path).await;
    t.pick(put(format!("{path}/finalize")), &["/reason", "/message"]).await;
}

pub(super) async fn default_namespace_may_not_be_deleted(t: &mut Script) {
    t.delete(format!("{NAMESPACES}/default?dryRun=All")).await;
    t.delete(format!("{NAMESPACES}/kube-system?dryRun=All")).await;
}

pub(super) async fn namespaces_are_not_deleted_as_a_collection(t: &mut Script) {
    t.delete(format!("{NAMESPACES}?labelSelector=no-such-label")).await;
}

pub(super) async fn namespaces_that_are_always_there(t: &mut Script) {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        let path = format!("{NAMESPACES}/{name}");
        let there = |answer: &Answer| answer.status == 200;
        t.wait_picking(path, "there", there, &["/metadata/labels", "/spec", "/status"]).await;
    }
}
