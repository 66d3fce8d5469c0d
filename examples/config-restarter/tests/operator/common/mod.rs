//! What the tests share: the restarter of one kind of workload at work, and workloads for it.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::sync::Arc;

use config_restarter::annotation::RESTART;
use config_restarter::reconciler::{Restarter, controller};
use config_restarter::throttle::Throttle;
use config_restarter::workload::Workload;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};
use windlass_testing::{Running, TestCluster, TestObject};

/// Starts the restarter of one kind, without a limit.
pub(crate) fn start<W: Workload>(cluster: &TestCluster) -> Running {
    start_with::<W>(cluster, Throttle::new(f64::INFINITY, 1).expect("valid"))
}

pub(crate) fn start_with<W: Workload>(cluster: &TestCluster, throttle: Throttle) -> Running {
    cluster.run(controller::<W>(), Restarter::new(Arc::new(throttle)))
}

pub(crate) async fn create<K: TestObject>(
    cluster: &TestCluster,
    name: &str,
    mut object: Value,
) -> K {
    object["metadata"]["name"] = name.into();
    cluster.create(&serde_json::from_value(object).expect("an object")).await
}

/// Changes the content of a Secret.
pub(crate) async fn change(cluster: &TestCluster, secret: &str, content: Value) {
    cluster.patch::<Secret>(secret, json!({"stringData": content})).await;
}

pub(crate) async fn hash<W: TestObject + Workload>(
    cluster: &TestCluster,
    name: &str,
) -> Option<String> {
    cluster.get::<W>(name).await.hash().map(str::to_owned)
}

/// A workload that asks for restarts, with these fields of its pods.
pub(crate) fn workload(pod: &Value) -> Value {
    let mut template = json!({
        "metadata": {"labels": {"app": "web"}, "annotations": {"kept": "yes"}},
        "spec": {"containers": [{"name": "main", "image": "example.com/web"}]},
    });
    merge(&mut template["spec"], pod);
    json!({
        "metadata": {"annotations": {RESTART: "true"}},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "serviceName": "web",
            "template": template,
        },
    })
}

/// A workload whose only container has these fields.
pub(crate) fn workload_with(container: &Value) -> Value {
    let mut main = json!({"name": "main", "image": "example.com/web"});
    merge(&mut main, container);
    workload(&json!({"containers": [main]}))
}

fn merge(into: &mut Value, fields: &Value) {
    for (field, value) in fields.as_object().expect("fields") {
        into[field] = value.clone();
    }
}

/// An environment variable with a key of a Secret.
pub(crate) fn password(secret: &str) -> Value {
    let key = json!({"secretKeyRef": {"name": secret, "key": "password"}});
    json!({"env": [{"name": "PASSWORD", "valueFrom": key}]})
}
