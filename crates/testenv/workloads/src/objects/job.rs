//! Jobs.

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::api::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Condition, resource};

/// A Job.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Job {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: JobSpec,
    #[serde(default)]
    pub(crate) status: JobStatus,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobSpec {
    pub(crate) parallelism: Option<i32>,
    pub(crate) completions: Option<i32>,
    pub(crate) backoff_limit: Option<i32>,
    pub(crate) completion_mode: Option<String>,
    pub(crate) suspend: Option<bool>,
    pub(crate) active_deadline_seconds: Option<i64>,
    pub(crate) ttl_seconds_after_finished: Option<i32>,
    pub(crate) pod_replacement_policy: Option<String>,
    pub(crate) managed_by: Option<String>,
    pub(crate) pod_failure_policy: Option<Value>,
    pub(crate) success_policy: Option<Value>,
    pub(crate) backoff_limit_per_index: Option<i32>,
    #[serde(default)]
    pub(crate) selector: LabelSelector,
    #[serde(default)]
    pub(crate) template: Value,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) completion_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) active: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ready: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) terminating: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) succeeded: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failed: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) completed_indexes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uncounted_terminated_pods: Option<Uncounted>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<Condition>,
}

/// Finished pods by uid that may still have to be counted. They are counted once they have lost
/// their finalizer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Uncounted {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) succeeded: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) failed: Vec<String>,
}

resource!(Job, NamespaceResourceScope, "batch", "v1", "Job", "jobs");

impl Job {
    /// Returns how many pods may run at once.
    pub(crate) fn parallelism(&self) -> i32 {
        self.spec.parallelism.unwrap_or(1).max(0)
    }

    /// Returns whether each pod has an index, and each index has to succeed once.
    pub(crate) fn is_indexed(&self) -> bool {
        self.spec.completion_mode.as_deref() == Some("Indexed")
    }

    pub(crate) fn is_suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    /// Returns whether a pod being deleted is replaced, and counted, only once it has ended.
    pub(crate) fn waits_for_end(&self) -> bool {
        self.spec.pod_replacement_policy.as_deref() == Some("Failed")
            || self.spec.pod_failure_policy.is_some()
    }

    /// Returns how many pods may fail.
    pub(crate) fn backoff_limit(&self) -> i32 {
        self.spec.backoff_limit.unwrap_or(6)
    }

    /// Returns the condition of this type, if it is true.
    pub(crate) fn condition(&self, kind: &str) -> Option<&Condition> {
        let mut conditions = self.status.conditions.iter();
        conditions.find(|condition| condition.kind == kind && condition.status == "True")
    }
}
