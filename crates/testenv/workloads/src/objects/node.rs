//! Nodes.

use k8s_openapi::ClusterResourceScope;
use kube::api::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::resource;

/// A Node.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Node {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: NodeSpec,
    #[serde(default)]
    pub(crate) status: Value,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeSpec {
    #[serde(rename = "podCIDR", skip_serializing_if = "Option::is_none")]
    pub(crate) pod_cidr: Option<String>,
    #[serde(rename = "podCIDRs", default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) pod_cidrs: Vec<String>,
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub(crate) provider_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unschedulable: Option<bool>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) taints: Vec<Taint>,
}

/// Repels pods that do not tolerate it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Taint {
    pub(crate) key: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) value: String,
    pub(crate) effect: String,
    /// Lists are written as a whole, so the other fields of a taint have to be kept.
    #[serde(flatten)]
    pub(crate) rest: Map<String, Value>,
}

resource!(Node, ClusterResourceScope, "", "v1", "Node", "nodes");
