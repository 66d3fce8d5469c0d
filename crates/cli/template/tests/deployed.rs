//! The operator as it is deployed: with the manifests of `deploy/`, as its own `ServiceAccount`,
//! with its own Roles. A verb that is missing in `deploy/rbac.yaml` fails here.
//!
//! `WINDLASS_TEST_REAL=1 cargo test` does the same on a real kube-apiserver. README.md says where
//! it comes from.

mod common;

use common::{HELLO, delete_made, example, is_ready, made};
use gadget_operator::{Gadget, OPERATOR};
use kube::CustomResourceExt as _;
use serde_json::{Value, json};
use windlass_testing::Cluster;
use windlass_testing::testkit::cluster::{REAL_TIER, real_tier_is_on};
use windlass_testing::testkit::{
    CLEANUP_CONTROLLERS, RealCluster, RealOptions, TestCluster, WORKLOAD_CONTROLLERS,
};

/// Where the manifests are.
const DEPLOY: &str = "../template/deploy";

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
    for file in ["namespace", "crd", "rbac", "operator"] {
        cluster.apply_from(format!("{DEPLOY}/{file}.yaml")).await;
    }
    let kit = cluster.test_cluster().expect("it is one of the test kit");
    let account = kit.account(OPERATOR, OPERATOR).await.expect("the manifests have made it");
    let operator = common::start(&cluster.acting_as(&account), OPERATOR);
    // A real server comes with controllers that make pods, but without nodes.
    let is_embedded = cluster.is_embedded();
    let workloads = cluster.run_workloads(|it| if is_embedded { it } else { it.pods_only() });

    cluster.create(&example()).await;
    cluster.eventually::<Gadget>(HELLO, is_ready).await;
    cluster.patch::<Gadget>(HELLO, json!({"spec": {"title": "Another title"}})).await;
    cluster.eventually::<Gadget>(HELLO, is_ready).await;
    delete_made(&cluster).await;
    let all_are_back = async || {
        let made = made(&cluster).await;
        let is_there = made.iter().flatten().all(|one| one.deletion_timestamp.is_none());
        if is_there && made.iter().all(Option::is_some) { Ok(()) } else { Err(format!("{made:?}")) }
    };
    cluster.eventually_ok(all_are_back).await;
    cluster.delete::<Gadget>(HELLO).await;
    cluster.eventually_gone::<Gadget>(HELLO).await;
    operator.stop().await;
    workloads.stop().await;
}

#[test]
fn definition_in_deploy_is_that_of_the_type() {
    let committed: Value =
        serde_saphyr::from_str(include_str!("../deploy/crd.yaml")).expect("YAML");
    let generated = serde_json::to_value(Gadget::crd()).expect("JSON");
    assert!(
        committed == generated,
        "deploy/crd.yaml is out of date: cargo run -- crds > deploy/crd.yaml"
    );
}
