//! A cluster with running workloads, and ways to observe it.

#[macro_use]
mod all;
pub(crate) mod cases;
pub(crate) mod picture;
pub(crate) mod watcher;

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, EvictParams, ListParams, Patch, PatchParams,
    PostParams,
};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_informer::{InformerOptions, SharedInformerFactory};
use windlass_testserver::TestServer;
use windlass_workloads::{Workloads, WorkloadsError};

/// The polling interval. On the paused clock it takes no time.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// When to give up: much later than anything here takes, so that a test that would hang reports
/// what it saw.
const GIVE_UP: Duration = Duration::from_mins(5);

/// A namespace with running workloads.
pub(crate) struct Stage {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    /// Whether the controllers of deployments and replica sets are ours.
    pub(crate) is_embedded: bool,
    stop: CancellationToken,
    running: JoinSet<Result<(), WorkloadsError>>,
}

impl Stage {
    /// On an embedded server, with all of our controllers.
    pub(crate) async fn embedded() -> Self {
        Self::on_with(&TestServer::embedded(), |workloads| workloads.nodes(1)).await
    }

    /// On this embedded server.
    pub(crate) async fn on(cluster: &TestServer) -> Self {
        Self::on_with(cluster, |workloads| workloads).await
    }

    /// On this embedded server, with these settings.
    pub(crate) async fn on_with(
        cluster: &TestServer,
        change: impl FnOnce(Workloads) -> Workloads,
    ) -> Self {
        let namespace = cluster.namespace("workloads").await.expect("a namespace");
        let client = cluster.client().expect("a client");
        Self::begin(client, namespace, true, change)
    }

    /// In a namespace of a real server with its own controllers; ours only run the pods.
    pub(crate) fn real(client: Client, namespace: String) -> Self {
        Self::begin(client, namespace, false, |workloads| workloads.nodes(1).pods_only())
    }

    fn begin(
        client: Client,
        namespace: String,
        is_embedded: bool,
        change: impl FnOnce(Workloads) -> Workloads,
    ) -> Self {
        let options = InformerOptions::new().namespace(&namespace).seed(0);
        let factory = SharedInformerFactory::builder(client.clone()).defaults(options).build();
        let stop = CancellationToken::new();
        let mut running = JoinSet::new();
        running.spawn(change(Workloads::new(&factory)).run(stop.clone()));
        Self { client, namespace, is_embedded, stop, running }
    }

    pub(crate) fn api(&self, kind: &Kind) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &kind.resource())
    }

    pub(crate) async fn create(&self, kind: &Kind, object: Value) -> Value {
        let object = serde_json::from_value(object).expect("an object");
        let made = self.api(kind).create(&PostParams::default(), &object).await;
        json!(made.expect("it is created"))
    }

    pub(crate) async fn patch(&self, kind: &Kind, name: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        let patched = self.api(kind).patch(name, &PatchParams::default(), &patch).await;
        patched.expect("it is patched");
    }

    pub(crate) async fn delete(&self, kind: &Kind, name: &str) {
        let deleted = self.api(kind).delete(name, &DeleteParams::background()).await;
        deleted.expect("it is deleted");
    }

    /// Evicts a pod.
    pub(crate) async fn evict(&self, name: &str, how: &EvictParams) -> Result<(), kube::Error> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        pods.evict(name, how).await.map(drop)
    }

    /// All objects of a kind, as JSON.
    pub(crate) async fn list(&self, kind: &Kind) -> Vec<Value> {
        let listed = self.api(kind).list(&ListParams::default()).await.expect("a list");
        listed.items.into_iter().map(|object| json!(object)).collect()
    }

    pub(crate) async fn get(&self, kind: &Kind, name: &str) -> Value {
        json!(self.api(kind).get(name).await.expect("it is there"))
    }

    /// Waits until the objects of a kind satisfy `is_so`, and returns them.
    pub(crate) async fn until(
        &self,
        kind: &Kind,
        what: &str,
        is_so: impl Fn(&[Value]) -> bool,
    ) -> Vec<Value> {
        let waiting = async {
            loop {
                let objects = self.list(kind).await;
                if is_so(&objects) {
                    return objects;
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        let Ok(objects) = tokio::time::timeout(GIVE_UP, waiting).await else {
            panic!("not {what}: {:#}", self.picture().await);
        };
        objects
    }

    /// Waits until the deployment has its desired pods, all of the newest template and available,
    /// and nothing changes any more.
    pub(crate) async fn until_complete(&self, name: &str) {
        self.until(DEPLOYMENTS, "complete", |all| all.iter().any(|one| is_complete(one, name)))
            .await;
        self.until(PODS, "without pods that go", |pods| {
            pods.iter().all(|pod| pod["metadata"]["deletionTimestamp"].is_null())
        })
        .await;
        // The counts of terminating pods are updated last.
        let is_still = |objects: &[Value]| {
            objects
                .iter()
                .all(|one| one["status"]["terminatingReplicas"].as_i64().unwrap_or(0) == 0)
        };
        self.until(REPLICA_SETS, "still", is_still).await;
        self.until(DEPLOYMENTS, "still", is_still).await;
    }

    /// Waits until the stateful set has its desired pods, and nothing changes any more.
    pub(crate) async fn until_set_ready(&self, name: &str) {
        self.until(STATEFUL_SETS, "ready", |all| all.iter().any(|one| is_set_ready(one, name)))
            .await;
        self.until(PODS, "without pods that go", |pods| {
            pods.iter().all(|pod| pod["metadata"]["deletionTimestamp"].is_null())
        })
        .await;
    }

    /// Waits until the stateful set is ready, and all of its pods are of the newest template.
    pub(crate) async fn until_updated(&self, name: &str) {
        let is_updated = |set: &Value| {
            let status = &set["status"];
            is_set_ready(set, name)
                && status["updatedReplicas"] == set["spec"]["replicas"]
                && status["currentRevision"] == status["updateRevision"]
        };
        self.until(STATEFUL_SETS, "updated", |all| all.iter().any(is_updated)).await;
        self.until_set_ready(name).await;
    }

    /// Waits until a condition of the job is true, and its pods are counted.
    pub(crate) async fn until_job(&self, name: &str, condition: &str) {
        let has_condition = |job: &Value| {
            let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
            let mut true_ones = conditions.filter(|one| one["status"] == "True");
            job["metadata"]["name"] == name && true_ones.any(|one| one["type"] == condition)
        };
        self.until(JOBS, condition, |jobs| jobs.iter().any(has_condition)).await;
        self.until(PODS, "at rest", |pods| {
            pods.iter().all(|pod| pod["metadata"]["deletionTimestamp"].is_null())
        })
        .await;
    }

    /// Waits until a job has these numbers in its status; absent fields count as zero.
    pub(crate) async fn until_counts(&self, name: &str, counts: &[(&str, i64)]) {
        let has_counts = |job: &Value| {
            let count = |field: &str| job["status"][field].as_i64().unwrap_or(0);
            job["metadata"]["name"] == name
                && counts.iter().all(|(field, number)| count(field) == *number)
        };
        self.until(JOBS, "counted", |jobs| jobs.iter().any(has_counts)).await;
    }

    /// Stops the controllers, which must have run until now.
    pub(crate) async fn end(mut self) {
        self.stop.cancel();
        while let Some(ran) = self.running.join_next().await {
            ran.expect("no panic").expect("the controllers run");
        }
    }
}

fn is_complete(deployment: &Value, name: &str) -> bool {
    let (spec, status) = (&deployment["spec"], &deployment["status"]);
    let is_wanted = |count: &str| status[count].as_i64().unwrap_or(0) == spec["replicas"];
    let progressing = status["conditions"].as_array().into_iter().flatten();
    let mut progressing = progressing.filter(|condition| condition["type"] == "Progressing");
    deployment["metadata"]["name"] == name
        && status["observedGeneration"] == deployment["metadata"]["generation"]
        && ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"]
            .into_iter()
            .all(is_wanted)
        && progressing.any(|condition| condition["reason"] == "NewReplicaSetAvailable")
}

/// Whether a stateful set has its desired pods.
fn is_set_ready(set: &Value, name: &str) -> bool {
    let (spec, status) = (&set["spec"], &set["status"]);
    let is_wanted = |count: &str| status[count].as_i64().unwrap_or(0) == spec["replicas"];
    set["metadata"]["name"] == name
        && status["observedGeneration"] == set["metadata"]["generation"]
        && ["replicas", "readyReplicas", "availableReplicas"].into_iter().all(is_wanted)
}

/// A kind of objects.
pub(crate) struct Kind {
    group: &'static str,
    pub(crate) name: &'static str,
    plural: &'static str,
}

pub(crate) const DEPLOYMENTS: &Kind =
    &Kind { group: "apps", name: "Deployment", plural: "deployments" };
pub(crate) const REPLICA_SETS: &Kind =
    &Kind { group: "apps", name: "ReplicaSet", plural: "replicasets" };
pub(crate) const STATEFUL_SETS: &Kind =
    &Kind { group: "apps", name: "StatefulSet", plural: "statefulsets" };
pub(crate) const REVISIONS: &Kind =
    &Kind { group: "apps", name: "ControllerRevision", plural: "controllerrevisions" };
pub(crate) const CLAIMS: &Kind =
    &Kind { group: "", name: "PersistentVolumeClaim", plural: "persistentvolumeclaims" };
pub(crate) const JOBS: &Kind = &Kind { group: "batch", name: "Job", plural: "jobs" };
pub(crate) const SERVICES: &Kind = &Kind { group: "", name: "Service", plural: "services" };
pub(crate) const SLICES: &Kind =
    &Kind { group: "discovery.k8s.io", name: "EndpointSlice", plural: "endpointslices" };
pub(crate) const BUDGETS: &Kind =
    &Kind { group: "policy", name: "PodDisruptionBudget", plural: "poddisruptionbudgets" };
pub(crate) const PODS: &Kind = &Kind { group: "", name: "Pod", plural: "pods" };

impl Kind {
    fn resource(&self) -> ApiResource {
        let api_version =
            if self.group.is_empty() { "v1".to_owned() } else { format!("{}/v1", self.group) };
        ApiResource {
            group: self.group.to_owned(),
            version: "v1".to_owned(),
            api_version,
            kind: self.name.to_owned(),
            plural: self.plural.to_owned(),
        }
    }
}
