//! What the tests share: the operator at work, and syncs for it.
#![allow(dead_code, reason = "every test file uses a part of it")]

use k8s_openapi::api::core::v1::ConfigMap;
use kube::CustomResourceExt as _;
use object_sync::reconciler::operator;
use object_sync::status::READY;
use object_sync::sync::ResourceSync;
use serde_json::{Value, json};
use windlass_testing::{Running, TestCluster, TestObject};

/// A cluster that knows the type.
pub(crate) async fn prepare(cluster: &TestCluster) {
    cluster.install(&ResourceSync::crd()).await;
}

pub(crate) fn start(cluster: &TestCluster) -> Running {
    let (controller, reconciler) = operator();
    cluster.run(controller, reconciler)
}

pub(crate) async fn create<K: TestObject>(
    cluster: &TestCluster,
    name: &str,
    mut object: Value,
) -> K {
    object["metadata"]["name"] = name.into();
    cluster.create(&serde_json::from_value(object).expect("an object")).await
}

pub(crate) fn reference(kind: &str, name: &str) -> Value {
    let (version, kind) = kind.rsplit_once(' ').unwrap_or(("v1", kind));
    json!({"apiVersion": version, "kind": kind, "name": name})
}

/// A sync of the `ConfigMap` source to the `ConfigMap` target.
pub(crate) fn copies(source: &str, target: &str) -> Value {
    json!({"spec": {
        "source": reference("ConfigMap", source),
        "target": reference("ConfigMap", target),
    }})
}

pub(crate) async fn create_map(cluster: &TestCluster, name: &str, color: &str) -> ConfigMap {
    create(cluster, name, json!({"data": {"color": color}})).await
}

pub(crate) async fn paint(cluster: &TestCluster, name: &str, color: &str) {
    cluster.patch::<ConfigMap>(name, json!({"data": {"color": color}})).await;
}

/// The color of a `ConfigMap`; `None` if it is not there.
pub(crate) async fn color(cluster: &TestCluster, name: &str) -> Option<String> {
    let map: Option<ConfigMap> = cluster.get_opt(name).await;
    map?.data?.remove("color")
}

/// The status and the reason of the condition of a sync.
pub(crate) async fn ready(cluster: &TestCluster, name: &str) -> (String, String) {
    let sync: ResourceSync = cluster.get(name).await;
    let conditions = sync.status.unwrap_or_default().conditions;
    let ready = READY.find(&conditions).cloned().expect("a condition");
    assert_eq!(ready.observed_generation, sync.metadata.generation);
    (ready.status, ready.reason)
}

/// What a condition is, for comparisons.
pub(crate) fn is(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}
