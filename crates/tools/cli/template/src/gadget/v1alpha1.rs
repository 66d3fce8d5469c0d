//! `Gadget` in its version `v1alpha1`. The definition for the API server is generated from it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What people write: replace these fields by yours.
#[derive(CustomResource, KubeSchema, Clone, Debug, Deserialize, Serialize)]
#[kube(
    group = "group.example",
    version = "v1alpha1",
    kind = "Gadget",
    plural = "gadgets",
    namespaced,
    status = "GadgetStatus",
    doc = "A Gadget, and the objects that are made for it.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$')")
        .message("the name must be a DNS label that begins with a letter: objects are named so")
)]
#[serde(rename_all = "camelCase")]
pub struct GadgetSpec {
    /// What it is called. An annotation has it on everything that is made.
    // Server-side apply may send a part of a Gadget, so it decodes without a title. The schema
    // requires one.
    #[serde(default)]
    #[schemars(!default, length(max = 100))]
    pub title: String,
    // if deployments statefulsets
    /// How many pods it has.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 0, max = 10))]
    pub replicas: i32,
    /// The image of its pods: a server that listens on port 8080, and needs no root.
    #[serde(default = "default_image")]
    pub image: String,
    // end
}

/// What the operator knows of a Gadget.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct GadgetStatus {
    /// The generation of the spec that this is about.
    pub observed_generation: Option<i64>,
    /// `Ready`: everything is made, and works.
    #[serde(default)]
    #[schemars(schema_with = "windlass::reconciler::conditions_schema")]
    pub conditions: Vec<Condition>,
}

// if deployments statefulsets
fn default_replicas() -> i32 {
    1
}

fn default_image() -> String {
    "nginxinc/nginx-unprivileged:1.29-alpine".to_owned()
}
// end
