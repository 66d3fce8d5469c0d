//! The initial roles of a real server, in the format of the embedded server.

use std::path::PathBuf;

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use serde_json::{Value, json};

const KINDS: [&str; 4] = ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];

/// The file of the embedded server with the roles, one per line.
#[must_use]
pub fn recording() -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/testenv/apiserver/src/rbac");
    PathBuf::from(folder).join("defaults.jsonl")
}

/// Returns the roles and bindings of a server, one per line.
///
/// # Panics
/// If the server does not list them.
pub async fn read_from(client: kube::Client) -> String {
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
    lines
}

/// Returns the recorded fields: without those that differ between servers, and without rules that a
/// controller aggregates.
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
