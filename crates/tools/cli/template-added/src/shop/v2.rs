//! `Shop` in its version `v2`. The definition for the API server is generated from it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What people write: replace these fields by yours.
#[derive(CustomResource, KubeSchema, Clone, Debug, Deserialize, Serialize)]
#[kube(
    group = "example.com",
    version = "v2",
    kind = "Shop",
    plural = "shops",
    namespaced,
    status = "ShopStatus",
    doc = "A Shop, and the objects that are made for it.",
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
pub struct ShopSpec {
    /// What it is called. An annotation has it on everything that is made.
    // Server-side apply may send a part of a Shop, so it decodes without a title. The schema
    // requires one.
    #[serde(default)]
    #[schemars(!default, length(max = 100))]
    pub title: String,
}

/// What the operator knows of a Shop.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ShopStatus {
    /// The generation of the spec that this is about.
    pub observed_generation: Option<i64>,
    /// `Ready`: everything is made, and works.
    #[serde(default)]
    #[schemars(schema_with = "windlass::reconciler::conditions_schema")]
    pub conditions: Vec<Condition>,
}
