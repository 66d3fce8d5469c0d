//! Deployments, replica sets and pods, with the fields that the controllers read or write; in
//! submodules stateful sets, jobs, nodes, services and disruption budgets.
//!
//! The types of `k8s-openapi` have all fields, but differ between Kubernetes versions, and only the
//! program may choose the version. These types are the same for all versions. Pod templates and
//! specs are JSON, so that a pod gets everything in its template. Fields that a type here lacks are
//! kept: writes are patches with the changes, and reads share the informers of code that reads
//! whole objects.

mod disruption;
mod job;
mod node;
mod resource;
mod service;
mod stateful_set;

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::Resource;
use kube::api::ObjectMeta;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) use disruption::{DisruptionBudget, DisruptionBudgetSpec, DisruptionBudgetStatus};
#[cfg(test)]
pub(crate) use job::Uncounted;
pub(crate) use job::{Job, JobStatus};
pub(crate) use node::{Node, Taint};
use resource::resource;
pub(crate) use service::{Conditions, Endpoint, EndpointPort, EndpointSlice, Service};
pub(crate) use stateful_set::{Claim, ControllerRevision, StatefulSet, StatefulSetStatus};

/// The traits that all objects of the controllers implement.
pub(crate) trait Managed:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
    + Send
    + Sync
    + 'static
{
}

impl Managed for Deployment {}
impl Managed for ReplicaSet {}
impl Managed for Pod {}
impl Managed for StatefulSet {}
impl Managed for ControllerRevision {}
impl Managed for Claim {}
impl Managed for Job {}
impl Managed for Service {}
impl Managed for EndpointSlice {}

/// A Deployment.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Deployment {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: DeploymentSpec,
    #[serde(default)]
    pub(crate) status: DeploymentStatus,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeploymentSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replicas: Option<i32>,
    #[serde(default)]
    pub(crate) selector: LabelSelector,
    #[serde(default)]
    pub(crate) template: Value,
    #[serde(default)]
    pub(crate) strategy: Strategy,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_ready_seconds: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) revision_history_limit: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) progress_deadline_seconds: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) paused: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Strategy {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    #[serde(default)]
    pub(crate) rolling_update: Option<RollingUpdate>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RollingUpdate {
    pub(crate) max_surge: Option<Amount>,
    pub(crate) max_unavailable: Option<Amount>,
}

/// A number of pods, or a percentage.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum Amount {
    Number(i32),
    Text(String),
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeploymentStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) updated_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ready_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) available_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unavailable_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) terminating_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) collision_count: Option<i32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<Condition>,
}

/// A condition of a deployment, a job, a node or a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_probe_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_update_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_transition_time: Option<Time>,
    /// Lists are written as a whole, so unknown fields have to be kept.
    #[serde(flatten)]
    pub(crate) rest: Map<String, Value>,
}

/// A `ReplicaSet`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct ReplicaSet {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: ReplicaSetSpec,
    #[serde(default)]
    pub(crate) status: ReplicaSetStatus,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplicaSetSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_ready_seconds: Option<i32>,
    #[serde(default)]
    pub(crate) selector: LabelSelector,
    #[serde(default)]
    pub(crate) template: Value,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplicaSetStatus {
    #[serde(default)]
    pub(crate) replicas: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fully_labeled_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ready_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) available_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) terminating_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
}

/// A Pod.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Pod {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: Value,
    #[serde(default)]
    pub(crate) status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) phase: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start_time: Option<Time>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<Condition>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) container_statuses: Vec<Value>,
    #[serde(rename = "hostIP", skip_serializing_if = "Option::is_none")]
    pub(crate) host_ip: Option<String>,
    #[serde(rename = "hostIPs", default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) host_ips: Vec<Address>,
    #[serde(rename = "podIP", skip_serializing_if = "Option::is_none")]
    pub(crate) pod_ip: Option<String>,
    #[serde(rename = "podIPs", default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) pod_ips: Vec<Address>,
}

/// An entry of a list of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Address {
    pub(crate) ip: String,
}

/// Assigns a pod to a node.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Binding {
    pub(crate) metadata: ObjectMeta,
    pub(crate) target: Value,
}

/// How a percentage of pods is rounded.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Round {
    Up,
    Down,
}

impl Amount {
    /// Returns the number of pods out of `total`. A text that is not a percentage counts as zero.
    pub(crate) fn of(&self, total: i32, round: Round) -> i32 {
        let text = match self {
            Self::Number(number) => return (*number).max(0),
            Self::Text(text) => text,
        };
        let percent: i32 =
            text.strip_suffix('%').and_then(|number| number.parse().ok()).unwrap_or(0);
        let hundredfold = i64::from(total) * i64::from(percent.max(0));
        let part = match round {
            Round::Up => (hundredfold + 99) / 100,
            Round::Down => hundredfold / 100,
        };
        i32::try_from(part).unwrap_or(i32::MAX)
    }
}

resource!(Deployment, NamespaceResourceScope, "apps", "v1", "Deployment", "deployments");
resource!(ReplicaSet, NamespaceResourceScope, "apps", "v1", "ReplicaSet", "replicasets");
resource!(Pod, NamespaceResourceScope, "", "v1", "Pod", "pods");

impl Deployment {
    /// Returns whether the strategy is `Recreate`: old pods are gone before new ones are created.
    pub(crate) fn is_recreate_strategy(&self) -> bool {
        self.spec.strategy.kind.as_deref() == Some("Recreate")
    }
}

impl ReplicaSet {
    /// Returns the desired number of pods.
    pub(crate) fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    /// Returns the number of available pods in the status.
    pub(crate) fn available(&self) -> i32 {
        self.status.available_replicas.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_of_conditions_are_kept() {
        let condition =
            json!({"type": "x", "status": "True", "observedGeneration": 3, "more": {"a": 1}});
        let read: Condition = serde_json::from_value(condition.clone()).expect("a condition");
        assert_eq!(json!(read), condition);
    }

    #[test]
    fn absent_parts_are_no_error() {
        let set: ReplicaSet = serde_json::from_value(json!({"metadata": {}})).expect("a set");
        assert_eq!((set.replicas(), set.available()), (1, 0));
        let _: Deployment = serde_json::from_value(json!({"metadata": {}})).expect("a deployment");
        let _: Pod = serde_json::from_value(json!({"metadata": {}})).expect("a pod");
        let _: Node = serde_json::from_value(json!({"metadata": {}})).expect("a node");
        let _: Service = serde_json::from_value(json!({"metadata": {}})).expect("a service");
        let slice = json!({"metadata": {}, "endpoints": null, "ports": null});
        let _: EndpointSlice = serde_json::from_value(slice).expect("a slice");
        let job: Job = serde_json::from_value(json!({"metadata": {}})).expect("a job");
        assert_eq!((job.parallelism(), job.is_indexed(), job.is_suspended()), (1, false, false));
        let set: StatefulSet = serde_json::from_value(json!({"metadata": {}})).expect("a set");
        assert_eq!((set.replicas(), set.start(), set.partition()), (1, 0, 0));
    }
}
