//! The operator as it is deployed: with the manifests of `deploy/`, as its own `ServiceAccount`,
//! with its own Roles. A verb that is missing in `deploy/rbac.yaml` fails here.
//!
//! `cargo test -- --ignored` does the same on a real kube-apiserver. README.md says where it comes
//! from.

mod common;

use ::shop_operator::{OPERATOR, definitions};
use serde_json::Value;
use windlass_testing::TestCluster;
use windlass_testing::testserver::{
    CLEANUP_CONTROLLERS, ControlPlane, ControlPlaneOptions, TestServer, WORKLOAD_CONTROLLERS,
};

/// Where the manifests are.
const DEPLOY: &str = "deploy";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_works_with_its_own_rights() {
    play(TestCluster::on(TestServer::embedded_with_roles(), "default")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real kube-apiserver, see README.md"]
async fn operator_works_with_its_own_rights_on_a_real_server() {
    let controllers = CLEANUP_CONTROLLERS.into_iter().chain(WORKLOAD_CONTROLLERS);
    let real = ControlPlane::start(ControlPlaneOptions::new().controllers(controllers)).await;
    let real = TestServer::on_control_plane(real.expect("a real kube-apiserver"));
    play(TestCluster::on(real, "default")).await;
}

/// Everything that the operator does, so that it uses every verb that it has.
async fn play(cluster: TestCluster) {
    let cluster = cluster.watch_all_namespaces();
    for file in resources() {
        cluster.apply_from(format!("{DEPLOY}/{file}")).await;
    }
    let server = cluster.test_server().expect("a test server");
    let account = server.account(OPERATOR, OPERATOR).await.expect("the manifests have made it");
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
