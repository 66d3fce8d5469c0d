//! Disruption budgets.

use std::collections::BTreeMap;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::api::ObjectMeta;
use serde::{Deserialize, Serialize};

use super::{Amount, Condition, resource};

/// A `PodDisruptionBudget`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct DisruptionBudget {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: DisruptionBudgetSpec,
    #[serde(default)]
    pub(crate) status: DisruptionBudgetStatus,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DisruptionBudgetSpec {
    /// `None` selects no pod; an empty selector selects all.
    pub(crate) selector: Option<LabelSelector>,
    pub(crate) min_available: Option<Amount>,
    pub(crate) max_unavailable: Option<Amount>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DisruptionBudgetStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    /// The pods with a granted eviction, and its time. The API server adds them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) disrupted_pods: BTreeMap<String, Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disruptions_allowed: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current_healthy: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) desired_healthy: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expected_pods: Option<i32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<Condition>,
}

resource!(
    DisruptionBudget,
    NamespaceResourceScope,
    "policy",
    "v1",
    "PodDisruptionBudget",
    "poddisruptionbudgets"
);
