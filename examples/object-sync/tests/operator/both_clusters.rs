//! The main scenarios, on the embedded API server, and on a real kube-apiserver where that was
//! asked for.
//!
//! A real server has no garbage collector here, so what is deleted was deleted by the operator.

use crate::common::{
    color, copies, create, create_map, is, paint, prepare, ready, reference, start,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::Role;
use kube::ResourceExt as _;
use object_sync::sync::{DISABLE_TARGET_DELETION, ResourceSync};
use serde_json::json;
use windlass_testing::{Quiet, TestCluster, on_each_cluster};

on_each_cluster!(copy_follows_its_source_and_is_repaired, start_paused = true);
async fn copy_follows_its_source_and_is_repaired(cluster: TestCluster) {
    let cluster = &cluster;
    prepare(cluster).await;
    create_map(cluster, "source", "blue").await;
    create::<ResourceSync>(cluster, "sync", copies("source", "target")).await;
    let running = start(cluster);
    running.wait_until_quiet().await;
    assert_eq!(color(cluster, "target").await.as_deref(), Some("blue"));
    assert_eq!(ready(cluster, "sync").await, is("True", "Synced"));

    paint(cluster, "source", "azure").await;
    running.wait_until_quiet().await;
    assert_eq!(color(cluster, "target").await.as_deref(), Some("azure"));
    paint(cluster, "target", "green").await;
    running.wait_until_quiet().await;
    assert_eq!(color(cluster, "target").await.as_deref(), Some("azure"));
    let first = cluster.get::<ConfigMap>("target").await.uid();
    cluster.delete::<ConfigMap>("target").await;
    running.wait_until_quiet().await;
    assert_eq!(color(cluster, "target").await.as_deref(), Some("azure"));
    assert_ne!(cluster.get::<ConfigMap>("target").await.uid(), first);

    // A source that goes takes nothing with it, and is awaited.
    cluster.delete::<ConfigMap>("source").await;
    running.wait_until_quiet().await;
    assert_eq!(color(cluster, "target").await.as_deref(), Some("azure"));
    assert_eq!(ready(cluster, "sync").await, is("False", "SourceMissing"));
    create_map(cluster, "source", "violet").await;
    running.wait_until_quiet().await;
    assert_eq!(color(cluster, "target").await.as_deref(), Some("violet"));
    assert_eq!(ready(cluster, "sync").await, is("True", "Synced"));

    cluster.delete::<ResourceSync>("sync").await;
    running.wait_until_quiet().await;
    assert!(cluster.get_opt::<ResourceSync>("sync").await.is_none());
    assert_eq!(color(cluster, "target").await, None);
    assert_eq!(color(cluster, "source").await.as_deref(), Some("violet"));
    running.stop().await;
}

on_each_cluster!(mappings_make_another_kind_of_a_source_that_comes_later, start_paused = true);
async fn mappings_make_another_kind_of_a_source_that_comes_later(cluster: TestCluster) {
    let cluster = &cluster;
    prepare(cluster).await;
    let running = start(cluster);
    let spec = json!({
        "source": reference("Secret", "tls"),
        "target": reference("ConfigMap", "trust"),
        "mappings": [
            {"fromFieldPath": "data['tls.crt']", "toFieldPath": "binaryData['ca.crt']"},
            {"fromFieldPath": "metadata.labels", "toFieldPath": "metadata.labels"},
            {"fromFieldPath": "metadata.name", "toFieldPath": "data.of"},
        ],
    });
    create::<ResourceSync>(cluster, "sync", json!({"spec": spec})).await;
    running.wait_until_quiet().await;
    assert_eq!(ready(cluster, "sync").await, is("False", "SourceMissing"));
    let secret = json!({
        "metadata": {"labels": {"app": "web"}},
        "stringData": {"tls.crt": "public", "tls.key": "private"},
    });
    create::<Secret>(cluster, "tls", secret).await;
    running.wait_until_quiet().await;
    assert_eq!(ready(cluster, "sync").await, is("True", "Synced"));
    let trust: ConfigMap = cluster.get("trust").await;
    assert_eq!(trust.labels().get("app").map(String::as_str), Some("web"));
    let binary = trust.binary_data.expect("data");
    let keys: Vec<_> = binary.iter().map(|(key, bytes)| (key.as_str(), &*bytes.0)).collect();
    assert_eq!(keys, [("ca.crt", &b"public"[..])]);
    assert_eq!(trust.data.expect("data"), [("of".to_owned(), "tls".to_owned())].into());
    running.stop().await;
}

on_each_cluster!(target_of_another_name_or_kind_replaces_the_old_one, start_paused = true);
async fn target_of_another_name_or_kind_replaces_the_old_one(cluster: TestCluster) {
    let cluster = &cluster;
    prepare(cluster).await;
    create_map(cluster, "source", "blue").await;
    create::<ResourceSync>(cluster, "sync", copies("source", "one")).await;
    let running = start(cluster);
    running.wait_until_quiet().await;
    let switch = json!({"spec": {"target": {"name": "two"}}});
    cluster.patch::<ResourceSync>("sync", switch).await;
    running.wait_until_quiet().await;
    assert_eq!(color(cluster, "one").await, None);
    assert_eq!(color(cluster, "two").await.as_deref(), Some("blue"));

    let role = json!({"spec": {
        "target": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"},
        "mappings": [{"fromFieldPath": "data.color", "toFieldPath": "metadata.labels.color"}],
    }});
    cluster.patch::<ResourceSync>("sync", role).await;
    running.wait_until_quiet().await;
    assert_eq!(color(cluster, "two").await, None);
    assert_eq!(cluster.get::<Role>("two").await.labels()["color"], "blue");
    running.stop().await;
}

on_each_cluster!(target_of_somebody_else_is_left_alone_until_it_is_gone, start_paused = true);
async fn target_of_somebody_else_is_left_alone_until_it_is_gone(cluster: TestCluster) {
    let cluster = &cluster;
    prepare(cluster).await;
    create_map(cluster, "source", "blue").await;
    create_map(cluster, "target", "red").await;
    create::<ResourceSync>(cluster, "sync", copies("source", "target")).await;
    let running = start(cluster);
    running.wait_until(Quiet::new().ignore_retries()).await;
    assert_eq!(color(cluster, "target").await.as_deref(), Some("red"));
    assert_eq!(ready(cluster, "sync").await, is("False", "TargetRefused"));
    cluster.delete::<ConfigMap>("target").await;
    running.wait_until_quiet().await;
    assert_eq!(color(cluster, "target").await.as_deref(), Some("blue"));
    assert_eq!(ready(cluster, "sync").await, is("True", "Synced"));
    running.stop().await;
}

on_each_cluster!(target_stays_if_its_deletion_is_disabled, start_paused = true);
async fn target_stays_if_its_deletion_is_disabled(cluster: TestCluster) {
    let cluster = &cluster;
    prepare(cluster).await;
    create_map(cluster, "source", "blue").await;
    let mut sync = copies("source", "target");
    sync["metadata"] = json!({"annotations": {DISABLE_TARGET_DELETION: "true"}});
    create::<ResourceSync>(cluster, "sync", sync).await;
    let running = start(cluster);
    running.wait_until_quiet().await;
    cluster.delete::<ResourceSync>("sync").await;
    running.wait_until_quiet().await;
    assert!(cluster.get_opt::<ResourceSync>("sync").await.is_none());
    let target: ConfigMap = cluster.get("target").await;
    assert!(target.owner_references().is_empty());
    paint(cluster, "source", "azure").await;
    running.wait_until_quiet().await;
    assert_eq!(color(cluster, "target").await.as_deref(), Some("blue"));
    running.stop().await;
}

on_each_cluster!(sync_that_is_deleted_in_the_foreground_goes_with_its_target, start_paused = true);
async fn sync_that_is_deleted_in_the_foreground_goes_with_its_target(cluster: TestCluster) {
    let cluster = &cluster;
    prepare(cluster).await;
    create_map(cluster, "source", "blue").await;
    create::<ResourceSync>(cluster, "sync", copies("source", "target")).await;
    let running = start(cluster);
    running.wait_until_quiet().await;
    cluster.delete_in_foreground::<ResourceSync>("sync").await;
    assert_eq!(cluster.get_opt::<ConfigMap>("target").await, None);
    running.stop().await;
}
