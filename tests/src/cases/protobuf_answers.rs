//! Protobuf answers, for clients that accept nothing else. Every field on the wire is recorded,
//! even when empty.

use serde_json::json;

use crate::Script;
use crate::fixtures::{
    GADGETS, configmap, deployment, gadget, labelled_configmap, pod, widget, with,
};
use crate::protobuf::PROTOBUF;
use crate::request::Request;
use crate::target::Who;

/// Only the metadata of one object.
const PARTIAL: &str =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// Only the metadata of a list.
const PARTIAL_LIST: &str =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

pub(super) async fn object_is_read_in_protobuf(t: &mut Script) {
    t.send(Request::post(t.configmaps(), configmap("a")).accept(PROTOBUF)).await;
    t.send(Request::get(t.configmap("a")).accept(PROTOBUF)).await;
    let change = json!({"data": {"b": "2"}, "binaryData": {"c": "AP8="}});
    let patch = Request::patch(t.configmap("a"), crate::script::MERGE_PATCH, change);
    t.send(patch.accept(PROTOBUF)).await;
}

pub(super) async fn workloads_are_read_in_protobuf(t: &mut Script) {
    t.send(Request::post(t.deployments(), deployment("a")).accept(PROTOBUF)).await;
    let limited = json!({"limits": {"cpu": "1500m"}, "requests": {"memory": "1Gi"}});
    let object = with(
        pod("a"),
        "/spec/containers",
        json!([{
            "name": "main", "image": "main:1", "resources": limited,
            "livenessProbe": {"tcpSocket": {"port": "web"}},
            "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        }]),
    );
    t.send(Request::post(t.pods(), object).accept(PROTOBUF)).await;
}

pub(super) async fn lists_are_read_in_protobuf(t: &mut Script) {
    for name in ["a", "b", "c"] {
        t.given(t.configmaps(), labelled_configmap(name, "l", name)).await;
    }
    let path = format!("{}?labelSelector=l", t.configmaps());
    let page = t.send(Request::get(format!("{path}&limit=2")).accept(PROTOBUF)).await;
    let next = format!("{path}&limit=2&continue={}", page.next_page());
    t.send(Request::get(next).accept(PROTOBUF)).await;
    t.send(Request::get(format!("{}?labelSelector=none", t.configmaps())).accept(PROTOBUF)).await;
}

pub(super) async fn refusals_are_read_in_protobuf(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    t.send(Request::get(t.configmap("nope")).accept(PROTOBUF)).await;
    t.send(Request::post(t.configmaps(), configmap("a")).accept(PROTOBUF)).await;
    t.send(Request::post(t.configmaps(), configmap("A_b")).accept(PROTOBUF)).await;
    t.send(Request::get(t.configmap("a")).accept(PROTOBUF).by(Who::Bob)).await;
    t.send(Request::get(t.configmap("a")).accept(PROTOBUF).by(Who::Stranger)).await;
}

pub(super) async fn deletions_are_answered_in_protobuf(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    t.send(Request::delete(t.configmap("a")).accept(PROTOBUF)).await;
    t.given(t.configmaps(), configmap("b")).await;
    t.send(Request::delete(t.configmaps() + "?labelSelector=x").accept(PROTOBUF)).await;
}

pub(super) async fn watch_in_protobuf(t: &mut Script) {
    t.given(t.configmaps(), labelled_configmap("a", "l", "1")).await;
    let path = format!("{}?watch=1&labelSelector=l", t.configmaps());
    let mut watch = t.watch_with(Request::get(path).accept(PROTOBUF)).await;
    watch.next().await;
    t.given(t.configmaps(), labelled_configmap("b", "l", "1")).await;
    watch.next().await;
    t.merge_patch(t.configmap("b"), json!({"data": {"a": "2"}})).await;
    watch.next().await;
    t.delete(t.configmap("b")).await;
    watch.next().await;
}

pub(super) async fn watch_list_in_protobuf(t: &mut Script) {
    t.given(t.configmaps(), labelled_configmap("a", "l", "1")).await;
    let path = format!(
        "{}?watch=1&labelSelector=l&sendInitialEvents=true&allowWatchBookmarks=true\
         &resourceVersionMatch=NotOlderThan",
        t.configmaps()
    );
    let mut watch = t.watch_with(Request::get(path).accept(PROTOBUF)).await;
    watch.next_many(2).await;
}

pub(super) async fn watch_in_protobuf_that_is_too_old(t: &mut Script) {
    t.alone().await;
    t.install_widgets().await;
    t.given(t.widgets(), widget("a")).await;
    t.compact().await;
    let path = format!("{}?watch=1&resourceVersion=1", t.widgets());
    let mut watch = t.watch_with(Request::get(path).accept(PARTIAL)).await;
    watch.end().await;
}

pub(super) async fn metadata_alone_in_protobuf(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.configmaps(), labelled_configmap("a", "l", "1")).await;
    t.given(t.widgets(), widget("a")).await;
    t.send(Request::get(t.configmap("a")).accept(PARTIAL)).await;
    t.send(Request::get(t.widget("a")).accept(PARTIAL)).await;
    t.send(Request::get(t.configmaps() + "?labelSelector=l").accept(PARTIAL_LIST)).await;
    t.send(Request::get(t.widgets()).accept(PARTIAL_LIST)).await;
    let path = format!("{}?watch=1", t.widgets());
    let mut watch = t.watch_with(Request::get(path).accept(PARTIAL)).await;
    watch.next().await;
}

pub(super) async fn custom_resources_are_not_read_in_protobuf(t: &mut Script) {
    t.install_widgets().await;
    t.install_gadgets().await;
    t.given(t.widgets(), widget("a")).await;
    for path in [t.widget("a"), t.widgets(), t.widget("nope"), format!("{}?watch=1", t.widgets())] {
        t.send(Request::get(path).accept(PROTOBUF)).await;
    }
    t.send(Request::post(GADGETS, gadget("never")).accept(PROTOBUF)).await;
    t.send(Request::get(format!("{GADGETS}/never"))).await;
}

pub(super) async fn tables_are_not_read_in_protobuf(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    let table = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1";
    t.send(Request::get(t.configmap("nope")).accept(PARTIAL)).await;
    t.send(Request::get(t.configmap("a")).accept(table)).await;
    t.send(Request::get(t.configmaps()).accept(table)).await;
}

pub(super) async fn discovery_in_protobuf(t: &mut Script) {
    t.send(Request::get("/apis/apps").accept(PROTOBUF)).await;
    t.send(Request::get("/apis/authorization.k8s.io/v1").accept(PROTOBUF)).await;
    t.send(Request::get("/apis/authentication.k8s.io/v1").accept(PROTOBUF)).await;
    t.send(Request::get("/apis/none.example").accept(PROTOBUF)).await;
}
