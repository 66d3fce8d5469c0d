//! Stateful sets, and the revisions and claims that they create.

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::resource;

/// A `StatefulSet`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct StatefulSet {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: StatefulSetSpec,
    #[serde(default)]
    pub(crate) status: StatefulSetStatus,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatefulSetSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replicas: Option<i32>,
    #[serde(default)]
    pub(crate) selector: LabelSelector,
    #[serde(default)]
    pub(crate) template: Value,
    #[serde(default)]
    pub(crate) volume_claim_templates: Vec<Value>,
    #[serde(default)]
    pub(crate) service_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pod_management_policy: Option<String>,
    #[serde(default)]
    pub(crate) update_strategy: UpdateStrategy,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) revision_history_limit: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_ready_seconds: Option<i32>,
    #[serde(default)]
    pub(crate) persistent_volume_claim_retention_policy: Retention,
    #[serde(default)]
    pub(crate) ordinals: Option<Ordinals>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UpdateStrategy {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    #[serde(default)]
    pub(crate) rolling_update: Option<Partition>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Partition {
    pub(crate) partition: Option<i32>,
}

/// What happens to claims when their pod or their set is gone.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Retention {
    pub(crate) when_deleted: Option<String>,
    pub(crate) when_scaled: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Ordinals {
    #[serde(default)]
    pub(crate) start: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatefulSetStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    #[serde(default)]
    pub(crate) replicas: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ready_replicas: Option<i32>,
    #[serde(default)]
    pub(crate) available_replicas: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) updated_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current_revision: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) update_revision: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) collision_count: Option<i32>,
}

/// A current or former pod template of a stateful set.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct ControllerRevision {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) data: Value,
    #[serde(default)]
    pub(crate) revision: i64,
}

/// A `PersistentVolumeClaim`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Claim {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: Value,
}

resource!(StatefulSet, NamespaceResourceScope, "apps", "v1", "StatefulSet", "statefulsets");
resource!(
    ControllerRevision,
    NamespaceResourceScope,
    "apps",
    "v1",
    "ControllerRevision",
    "controllerrevisions"
);
resource!(
    Claim,
    NamespaceResourceScope,
    "",
    "v1",
    "PersistentVolumeClaim",
    "persistentvolumeclaims"
);

impl StatefulSet {
    /// Returns the desired number of pods.
    pub(crate) fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1).max(0)
    }

    /// Returns the ordinal of its first pod.
    pub(crate) fn start(&self) -> i32 {
        self.spec.ordinals.as_ref().map_or(0, |ordinals| ordinals.start)
    }

    /// Returns whether pods are created and deleted without waiting for each other.
    pub(crate) fn is_parallel(&self) -> bool {
        self.spec.pod_management_policy.as_deref() == Some("Parallel")
    }

    /// Returns whether pods are updated only when somebody deletes them.
    pub(crate) fn is_updated_on_delete(&self) -> bool {
        self.spec.update_strategy.kind.as_deref() == Some("OnDelete")
    }

    /// Returns the ordinal below which pods keep the current revision.
    pub(crate) fn partition(&self) -> i32 {
        let rolling = self.spec.update_strategy.rolling_update.as_ref();
        rolling.and_then(|rolling| rolling.partition).unwrap_or(0).max(0)
    }
}

impl Retention {
    pub(crate) fn deletes_with_set(&self) -> bool {
        self.when_deleted.as_deref() == Some("Delete")
    }

    pub(crate) fn deletes_when_scaled(&self) -> bool {
        self.when_scaled.as_deref() == Some("Delete")
    }
}
