//! The main scenarios for each kind of workload, on the embedded API server, and on a real
//! kube-apiserver where that was asked for.
//!
//! Nothing makes pods here: that a changed template replaces them is not the operator's work.

mod common;

use common::{Bench, Object, Stage, workload};
use config_restarter::annotation::RESTART;
use config_restarter::workload::Workload;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;
use windlass_testkit::{TestCluster, on_each_cluster};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deployments_are_restarted() {
    on_each_cluster(play::<Deployment>).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stateful_sets_are_restarted() {
    on_each_cluster(play::<StatefulSet>).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_sets_are_restarted() {
    on_each_cluster(play::<DaemonSet>).await;
}

async fn play<W: Object + Workload>(cluster: TestCluster) {
    let bench = Bench::on(cluster).await;
    let stage = Stage::<W>::start(bench, &[]);
    let bench = &stage.bench;
    bench.create::<ConfigMap>("mounted", json!({"data": {"a": "1"}})).await;
    bench.create::<ConfigMap>("whole", json!({"data": {"A": "1"}})).await;
    bench.create::<Secret>("mounted", json!({"stringData": {"a": "1"}})).await;
    bench.create::<Secret>("whole", json!({"stringData": {"A": "1"}})).await;
    let key = json!({"name": "needed", "key": "used"});
    let created: W = bench
        .create(
            "web",
            workload(&json!({
                "containers": [{
                    "name": "main",
                    "image": "example.com/web",
                    "envFrom": [{"configMapRef": {"name": "whole"}}, {"secretRef": {"name": "whole"}}],
                    "env": [{"name": "KEY", "valueFrom": {"secretKeyRef": key}}],
                }],
                "volumes": [
                    {"name": "map", "configMap": {"name": "mounted"}},
                    {"name": "secret", "secret": {"secretName": "mounted"}},
                ],
            })),
        )
        .await;

    // A required object is missing, and then its key.
    let missing = format!(" missing: Secret {}/needed", bench.namespace);
    stage.until_event("web", "ConfigMissing", &missing).await;
    assert_eq!(bench.hash::<W>("web").await, None);
    bench.create::<Secret>("needed", json!({"stringData": {"other": "1"}})).await;
    bench.patch::<Secret>("needed", json!({"stringData": {"used": "1"}})).await;
    let mut hash = stage.until_hash("web", None).await;

    // Everything that it refers to counts.
    for changed in ["mounted", "whole"] {
        bench.patch::<ConfigMap>(changed, json!({"data": {"b": "2"}})).await;
        hash = stage.until_hash("web", Some(&hash)).await;
        bench.patch::<Secret>(changed, json!({"stringData": {"b": "2"}})).await;
        hash = stage.until_hash("web", Some(&hash)).await;
    }
    // A key that it does not use does not count, nor do metadata.
    bench.patch::<Secret>("needed", json!({"stringData": {"other": "2"}})).await;
    bench.patch::<Secret>("needed", json!({"metadata": {"labels": {"a": "b"}}})).await;
    bench.patch::<Secret>("needed", json!({"stringData": {"used": "2"}})).await;
    hash = stage.until_hash("web", Some(&hash)).await;

    // The generation counts the changes of the spec: that many hashes, and nothing else.
    let web: W = bench.get("web").await;
    let generation = |web: &W| web.meta().generation.expect("it is counted");
    assert_eq!(generation(&web) - generation(&created), 6);
    let annotations = web.template().metadata.as_ref().and_then(|meta| meta.annotations.as_ref());
    assert_eq!(annotations.and_then(|all| all.get("kept")).map(String::as_str), Some("yes"));
    stage.until_event("web", "ConfigChanged", &hash).await;

    // It no longer asks for restarts. The hash stays; after it asks again, it follows.
    let asks = |value: &str| json!({"metadata": {"annotations": {RESTART: value}}});
    bench.patch::<W>("web", asks("false")).await;
    bench.patch::<Secret>("needed", json!({"stringData": {"used": "3"}})).await;
    assert_eq!(bench.hash::<W>("web").await.as_ref(), Some(&hash));
    bench.patch::<W>("web", asks("true")).await;
    stage.until_hash("web", Some(&hash)).await;
    stage.end().await;
}
