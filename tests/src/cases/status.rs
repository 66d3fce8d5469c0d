//! The subresources `status` and `scale`: which fields each of them writes.

use http::Method;
use serde_json::json;

use crate::Script;
use crate::fixtures::{deployment, widget, with};
use crate::request::Request;
use crate::script::MERGE_PATCH;

pub(super) async fn main_endpoint_drops_status(t: &mut Script) {
    t.install_widgets().await;
    let read = t.given(t.widgets(), widget("a")).await;
    t.merge_patch(t.widget("a"), json!({"status": {"replicas": 5}})).await;
    t.put(t.widget("a"), read.edited(|object| object["status"] = json!({"replicas": 5}))).await;
}

pub(super) async fn status_endpoint_drops_the_rest(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), widget("a")).await;
    let status = format!("{}/status", t.widget("a"));
    let everything = json!({
        "metadata": {"labels": {"l": "1"}, "annotations": {"n": "1"}, "finalizers": ["example.dev/f"]},
        "spec": {"size": 9},
        "status": {"replicas": 5},
    });
    t.merge_patch(&status, everything).await;
    t.get(t.widget("a")).await;
    t.get(&status).await;
}

pub(super) async fn status_can_be_put(t: &mut Script) {
    t.install_widgets().await;
    let read = t.given(t.widgets(), widget("a")).await;
    let status = format!("{}/status", t.widget("a"));
    let ready = read.edited(|object| object["status"] = json!({"phase": "Ready", "bogus": 1}));
    t.put(&status, ready.clone()).await;
    t.put(&status, ready).await;
}

pub(super) async fn status_that_does_not_change_keeps_the_version(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), widget("a")).await;
    let status = format!("{}/status", t.widget("a"));
    let patch = json!({"status": {"phase": "Ready"}});
    let read = t.merge_patch(&status, patch.clone()).await;
    t.merge_patch(&status, patch).await;
    t.put(&status, read.body.clone()).await;
}

pub(super) async fn status_cannot_be_created_or_deleted(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), widget("a")).await;
    let status = format!("{}/status", t.widget("a"));
    t.post(&status, widget("a")).await;
    t.delete(&status).await;
    t.given(t.deployments(), deployment("a")).await;
    t.delete(format!("{}/a/status", t.deployments())).await;
}

pub(super) async fn status_of_a_deployment(t: &mut Script) {
    let parts = ["/metadata/generation", "/metadata/resourceVersion", "/spec/replicas", "/status"];
    t.pick(Request::post(t.deployments(), deployment("a")), &parts).await;
    let path = format!("{}/a", t.deployments());
    let merge = |path: &str, change| Request::patch(path, MERGE_PATCH, change);
    let all = json!({"spec": {"replicas": 7}, "status": {"replicas": 1, "observedGeneration": 1}});
    t.pick(merge(&format!("{path}/status"), all.clone()), &parts).await;
    t.pick(merge(&path, all), &parts).await;
    t.pick(merge(&path, json!({"metadata": {"labels": {"l": "1"}}})), &parts).await;
}

pub(super) async fn scale_of_a_custom_resource(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), widget("a")).await;
    let scale = format!("{}/scale", t.widget("a"));
    t.get(&scale).await;
    let status = json!({"status": {"replicas": 5, "selector": "app=a"}});
    t.merge_patch(format!("{}/status", t.widget("a")), status).await;
    t.get(&scale).await;
    t.merge_patch(&scale, json!({"spec": {"replicas": 4}})).await;
    t.get(t.widget("a")).await;
}

pub(super) async fn scale_can_be_put_with_or_without_a_version(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), widget("a")).await;
    let path = format!("{}/scale", t.widget("a"));
    let scale = json!({
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "a", "namespace": t.ns()},
        "spec": {"replicas": 7},
    });
    t.put(&path, scale.clone()).await;
    let outdated = with(scale.clone(), "/metadata/resourceVersion", json!("1"));
    t.put(&path, outdated).await;
    t.put(&path, with(scale, "/spec/replicas", json!(-1))).await;
    t.send(Request::new(Method::POST, &path).json(json!({}))).await;
}

pub(super) async fn scale_of_a_deployment(t: &mut Script) {
    t.given(t.deployments(), deployment("a")).await;
    let scale = format!("{}/a/scale", t.deployments());
    t.get(&scale).await;
    t.merge_patch(&scale, json!({"spec": {"replicas": 3}})).await;
    let parts = ["/metadata/generation", "/spec/replicas"];
    t.pick(Request::get(format!("{}/a", t.deployments())), &parts).await;
}
