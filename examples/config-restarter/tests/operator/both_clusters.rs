//! The main scenarios for each kind of workload, on the embedded API server, and on a real
//! kube-apiserver where that was asked for.
//!
//! Nothing makes pods here: that a changed template replaces them is not the operator's work.

use crate::common::{change, create, hash, start, workload};
use config_restarter::annotation::RESTART;
use config_restarter::workload::Workload;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;
use windlass_testing::{TestCluster, TestObject, on_each_cluster};

on_each_cluster!(deployments_are_restarted, start_paused = true);
async fn deployments_are_restarted(cluster: TestCluster) {
    play::<Deployment>(cluster).await;
}

on_each_cluster!(stateful_sets_are_restarted, start_paused = true);
async fn stateful_sets_are_restarted(cluster: TestCluster) {
    play::<StatefulSet>(cluster).await;
}

on_each_cluster!(daemon_sets_are_restarted, start_paused = true);
async fn daemon_sets_are_restarted(cluster: TestCluster) {
    play::<DaemonSet>(cluster).await;
}

async fn play<W: TestObject + Workload>(cluster: TestCluster) {
    let cluster = &cluster;
    for name in ["mounted", "whole"] {
        create::<ConfigMap>(cluster, name, json!({"data": {"A": "1"}})).await;
        create::<Secret>(cluster, name, json!({"stringData": {"A": "1"}})).await;
    }
    let key = json!({"name": "needed", "key": "used"});
    let web = workload(&json!({
        "containers": [{
            "name": "main", "image": "example.com/web",
            "envFrom": [{"configMapRef": {"name": "whole"}}, {"secretRef": {"name": "whole"}}],
            "env": [{"name": "KEY", "valueFrom": {"secretKeyRef": key}}],
        }],
        "volumes": [
            {"name": "map", "configMap": {"name": "mounted"}},
            {"name": "secret", "secret": {"secretName": "mounted"}},
        ],
    }));
    create::<W>(cluster, "web", web).await;
    let running = start::<W>(cluster);

    // A required object is missing, and then its key.
    running.wait_until_quiet().await;
    create::<Secret>(cluster, "needed", json!({"stringData": {"other": "1"}})).await;
    running.wait_until_quiet().await;
    let needed = format!("Secret {}/needed", cluster.namespace());
    let because = "Warning ConfigMissing: not restarted, because of what is missing:";
    let told = [format!("{because} {needed}"), format!("{because} the key \"used\" of {needed}")];
    assert_eq!(cluster.events::<W>("web").await, told);
    assert_eq!((running.take_writes().len(), hash::<W>(cluster, "web").await), (0, None));

    // Every step changes one thing, and says how many restarts follow.
    let asks = |value: &str| json!({"metadata": {"annotations": {RESTART: value}}});
    let mut hashes = Vec::new();
    for (step, restarts) in [1, 1, 1, 1, 1, 0, 0, 0, 0, 1].into_iter().enumerate() {
        match step {
            0 => change(cluster, "needed", json!({"used": "1"})).await,
            1 => drop(cluster.patch::<ConfigMap>("mounted", json!({"data": {"B": "2"}})).await),
            2 => drop(cluster.patch::<ConfigMap>("whole", json!({"data": {"B": "2"}})).await),
            3 => change(cluster, "mounted", json!({"B": "2"})).await,
            4 => change(cluster, "whole", json!({"B": "2"})).await,
            5 => change(cluster, "needed", json!({"other": "2"})).await,
            6 => {
                let label = json!({"metadata": {"labels": {"a": "b"}}});
                cluster.patch::<Secret>("needed", label).await;
            }
            7 => drop(cluster.patch::<W>("web", asks("false")).await),
            8 => change(cluster, "needed", json!({"used": "2"})).await,
            _ => drop(cluster.patch::<W>("web", asks("true")).await),
        }
        running.wait_until_quiet().await;
        assert_eq!(running.take_writes().len(), restarts, "in step {step}");
        let hash = hash::<W>(cluster, "web").await.expect("it has one from the first step on");
        assert_eq!(hashes.contains(&hash), restarts == 0, "in step {step}");
        hashes.push(hash);
    }
    let web: W = cluster.get("web").await;
    let annotations = web.template().metadata.as_ref().and_then(|meta| meta.annotations.as_ref());
    assert_eq!(annotations.and_then(|all| all.get("kept")).map(String::as_str), Some("yes"));
    running.stop().await;
}
