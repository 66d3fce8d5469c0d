//! The real control plane with its controllers: deletions complete, and nobody else writes into a
//! namespace.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use windlass_testserver::ControlPlane;

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// Waits until the object is gone; the test runner sets the time limit.
async fn gone<K>(api: &Api<K>, name: &str) -> kube::Result<()>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    while api.get_opt(name).await?.is_some() {
        // The controllers run in another process, so polling is the only way.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Waits until the collector has marked the object as deleted; a finalizer keeps it.
async fn deleted(api: &Api<ConfigMap>, name: &str) -> kube::Result<()> {
    while api.get(name).await?.metadata.deletion_timestamp.is_none() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

async fn namespace(
    cluster: &ControlPlane,
    name: &str,
) -> Result<Api<Namespace>, Box<dyn std::error::Error>> {
    let namespaces: Api<Namespace> = Api::all(cluster.client()?);
    let object = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
    namespaces.create(&PostParams::default(), &object).await?;
    Ok(namespaces)
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn deleted_namespace_goes_away_with_what_is_in_it() -> TestResult {
    let cluster = ControlPlane::shared().await?;
    let namespaces = namespace(&cluster, "to-delete").await?;
    let config_maps: Api<ConfigMap> = Api::namespaced(cluster.client()?, "to-delete");
    let object = serde_json::from_value(json!({ "metadata": { "name": "inside" } }))?;
    config_maps.create(&PostParams::default(), &object).await?;

    namespaces.delete("to-delete", &DeleteParams::default()).await?;
    gone(&namespaces, "to-delete").await?;
    assert!(config_maps.get_opt("inside").await?.is_none());
    Ok(())
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn what_a_deleted_object_owned_is_collected() -> TestResult {
    let cluster = ControlPlane::shared().await?;
    namespace(&cluster, "to-collect").await?;
    let config_maps: Api<ConfigMap> = Api::namespaced(cluster.client()?, "to-collect");
    let owner = serde_json::from_value(json!({ "metadata": { "name": "owner" } }))?;
    let owner = config_maps.create(&PostParams::default(), &owner).await?;
    let dependent =
        serde_json::from_value(json!({ "metadata": { "name": "owned", "ownerReferences": [{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid,
    }] } }))?;
    config_maps.create(&PostParams::default(), &dependent).await?;

    config_maps.delete("owner", &DeleteParams::background()).await?;
    gone(&config_maps, "owned").await?;

    // The controllers that would create objects in every namespace do not run.
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client()?, "to-collect");
    assert!(accounts.list(&ListParams::default()).await?.items.is_empty());
    assert!(config_maps.list(&ListParams::default()).await?.items.is_empty());
    Ok(())
}

/// An owner waits for the dependents that block its deletion, and for no others: a dependent that
/// is created meanwhile without blocking it stays until the owner is gone.
#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn owner_that_is_deleted_in_the_foreground_waits_for_what_blocks_it() -> TestResult {
    let cluster = ControlPlane::shared().await?;
    namespace(&cluster, "in-foreground").await?;
    let config_maps: Api<ConfigMap> = Api::namespaced(cluster.client()?, "in-foreground");
    let owner = serde_json::from_value(json!({ "metadata": { "name": "owner" } }))?;
    let owner = config_maps.create(&PostParams::default(), &owner).await?;
    let dependent = |name: &str, blocks: bool, finalizers: &[&str]| {
        serde_json::from_value(json!({ "metadata": {
            "name": name, "finalizers": finalizers, "ownerReferences": [{
                "apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
                "uid": owner.metadata.uid, "controller": true, "blockOwnerDeletion": blocks,
            }],
        } }))
    };
    let held = dependent("blocks", true, &["example.com/hold"])?;
    config_maps.create(&PostParams::default(), &held).await?;
    config_maps.delete("owner", &DeleteParams::foreground()).await?;
    // A collector that has just started deletes all dependents that it finds.
    deleted(&config_maps, "blocks").await?;
    config_maps.create(&PostParams::default(), &dependent("does-not", false, &[])?).await?;
    let held = dependent("blocks-too", true, &["example.com/hold"])?;
    config_maps.create(&PostParams::default(), &held).await?;

    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    config_maps.patch("blocks", &PatchParams::default(), &release).await?;
    deleted(&config_maps, "blocks-too").await?;
    assert!(config_maps.get("does-not").await?.metadata.deletion_timestamp.is_none());
    assert!(config_maps.get_opt("owner").await?.is_some());

    config_maps.patch("blocks-too", &PatchParams::default(), &release).await?;
    for name in ["blocks", "blocks-too", "owner", "does-not"] {
        gone(&config_maps, name).await?;
    }
    Ok(())
}
