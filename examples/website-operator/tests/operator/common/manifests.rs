//! The manifests of `deploy/`.

use serde_json::Value;
use windlass_testing::TestCluster;

/// The files that kustomization.yaml names, in its order.
const FILES: [&str; 5] =
    ["namespace.yaml", "crd.yaml", "rbac.yaml", "operator.yaml", "webhooks.yaml"];

/// Applies everything. The server refuses fields that it does not know.
pub(crate) async fn apply(cluster: &TestCluster) {
    for file in FILES {
        cluster.apply_from(format!("deploy/{file}")).await;
    }
}

/// The arguments of the operator in its Deployment.
pub(crate) fn arguments() -> Vec<String> {
    let manifests = include_str!("../../../deploy/operator.yaml");
    let manifests = serde_saphyr::from_multiple::<Value>(manifests).expect("YAML");
    let made = manifests.into_iter().find(|object| object["kind"] == "Deployment");
    let made = made.expect("a Deployment");
    let arguments = made["spec"]["template"]["spec"]["containers"][0]["args"].as_array();
    let arguments = arguments.expect("arguments").iter();
    arguments.map(|one| one.as_str().expect("text").to_owned()).collect()
}
