//! Step 1: the type. This program prints its definition for Kubernetes, and ends.

use std::collections::BTreeMap;

use kube::{CustomResource, CustomResourceExt as _, KubeSchema};
use serde::{Deserialize, Serialize};

/// What people write: the files of a site, and how many pods serve them.
#[derive(CustomResource, KubeSchema, Clone, Debug, Deserialize, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced)]
#[kube(printcolumn(name = "Host", type_ = "string", json_path = ".spec.host"))]
struct WebsiteSpec {
    #[x_kube(validation = Rule::new("self == oldSelf").message("the host cannot be changed"))]
    host: String,
    files: BTreeMap<String, String>,
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 10))]
    replicas: i32,
}

fn one() -> i32 {
    1
}

fn main() -> anyhow::Result<()> {
    // JSON is YAML: `cargo run | kubectl apply -f -` works.
    println!("{}", serde_json::to_string_pretty(&Website::crd())?);
    Ok(())
}
