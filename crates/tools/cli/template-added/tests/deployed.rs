//! The operator as it is deployed: with the manifests of `deploy/`, as its own `ServiceAccount`,
//! with its own Roles. A verb that is missing in `deploy/rbac.yaml` fails here.
//!
//! `WINDLASS_TEST_REAL=1 cargo test` does the same on a real kube-apiserver. README.md says where
//! it comes from.

mod common;

use ::shop_operator::{OPERATOR, definitions};
use serde_json::Value;
use windlass_testing::Cluster;
use windlass_testing::testkit::cluster::{REAL_TIER, real_tier_is_on};
use windlass_testing::testkit::{
    CLEANUP_CONTROLLERS, RealCluster, RealOptions, TestCluster, WORKLOAD_CONTROLLERS,
};

/// Where the manifests are.
const DEPLOY: &str = "deploy";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_works_with_its_own_rights() {
    play(Cluster::on(TestCluster::embedded_with_roles(), "default")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_works_with_its_own_rights_on_a_real_server() {
    if !real_tier_is_on() {
        println!("skipped on a real kube-apiserver: set {REAL_TIER}=1");
        return;
    }
    let controllers = CLEANUP_CONTROLLERS.into_iter().chain(WORKLOAD_CONTROLLERS);
    match RealCluster::start(RealOptions::new().controllers(controllers)).await {
        Ok(real) => play(Cluster::on(TestCluster::on_control_plane(real), "default")).await,
        Err(error) => panic!("{REAL_TIER} is set, but there is no real cluster: {error}"),
    }
}

/// Everything that the operator does, so that it uses every verb that it has.
async fn play(cluster: Cluster) {
    let cluster = cluster.watch_all_namespaces();
    for file in resources() {
        cluster.apply_from(format!("{DEPLOY}/{file}")).await;
    }
    let kit = cluster.test_cluster().expect("it is one of the test kit");
    let account = kit.account(OPERATOR, OPERATOR).await.expect("the manifests have made it");
    let operator = common::start(&cluster.acting_as(&account), OPERATOR);
    // A real server comes with controllers that make pods, but without nodes.
    let is_embedded = cluster.is_embedded();
    let workloads = cluster.run_workloads(|it| if is_embedded { it } else { it.pods_only() });

    common::shop::play(&cluster).await;
    common::customer::play(&cluster).await;
    // More kinds come here: see `cargo windlass add kind`.
    operator.stop().await;
    workloads.stop().await;
}

/// What kustomize would apply, in its order.
fn resources() -> Vec<String> {
    let kustomization = include_str!("../deploy/kustomization.yaml");
    let kustomization: Value = serde_saphyr::from_str(kustomization).expect("YAML");
    serde_json::from_value(kustomization["resources"].clone()).expect("names of files")
}

#[test]
fn definitions_in_deploy_are_those_of_the_types() {
    let committed: Vec<Value> =
        serde_saphyr::from_multiple(include_str!("../deploy/crd.yaml")).expect("YAML");
    let generated = serde_json::to_value(definitions()).expect("JSON");
    assert!(
        Value::Array(committed) == generated,
        "deploy/crd.yaml is out of date: cargo run -- crds > deploy/crd.yaml"
    );
}
