//! The initial roles of the embedded server are those of the real one.
//!
//! They are recorded in a file. To record it again, run
//! `cargo test -p windlass-tests --test default_roles` with `WINDLASS_TEST_REAL=1` and
//! `WINDLASS_CONFORMANCE=record`.

use std::path::PathBuf;

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use serde_json::{Value, json};
use windlass_testkit::RealCluster;
use windlass_testkit::cluster::real_tier_is_on;

const KINDS: [&str; 4] = ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];

/// Returns the recorded part of an object: without common fields, and without fields that the
/// server fills in.
fn essence(kind: &str, object: &Value) -> Value {
    let mut kept = json!({"kind": kind, "metadata": {"name": object["metadata"]["name"]}});
    if let Some(namespace) = object["metadata"].get("namespace") {
        kept["metadata"]["namespace"] = namespace.clone();
    }
    let mut labels = object["metadata"]["labels"].clone();
    if let Some(labels) = labels.as_object_mut() {
        labels.remove("kubernetes.io/bootstrapping");
        if !labels.is_empty() {
            kept["metadata"]["labels"] = json!(labels);
        }
    }
    let aggregated = object.get("aggregationRule").is_some();
    let fields = ["aggregationRule", "roleRef", "rules", "subjects"].into_iter();
    for field in fields.filter(|field| *field != "rules" || !aggregated) {
        if let Some(value) = object.get(field) {
            kept[field] = value.clone();
        }
    }
    kept
}

#[tokio::test]
async fn default_roles_are_those_of_the_real_server() {
    if !real_tier_is_on() {
        println!("skipped: needs a real control plane, run `cargo xtask test --real`");
        return;
    }
    let cluster = RealCluster::shared().await.expect("a control plane");
    let client = cluster.client().expect("a client");
    let mut lines = String::new();
    for kind in KINDS {
        let resource = GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", kind);
        let api: Api<DynamicObject> =
            Api::all_with(client.clone(), &ApiResource::from_gvk(&resource));
        let params = ListParams::default().labels("kubernetes.io/bootstrapping=rbac-defaults");
        for object in api.list(&params).await.expect("a list") {
            let object = serde_json::to_value(&object).expect("JSON");
            lines += &essence(kind, &object).to_string();
            lines.push('\n');
        }
    }
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../crates/apiserver/src/rbac");
    let file = folder.join("defaults.jsonl");
    if std::env::var("WINDLASS_CONFORMANCE").as_deref() == Ok("record") {
        std::fs::write(&file, &lines).expect("the file can be written");
    }
    let recorded = std::fs::read_to_string(&file).expect("the file can be read");
    let both = recorded.lines().zip(lines.lines());
    both.for_each(|(recorded, real)| assert_eq!(recorded, real));
    assert_eq!(recorded.lines().count(), lines.lines().count());
}
