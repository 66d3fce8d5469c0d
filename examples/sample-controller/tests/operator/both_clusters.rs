//! The port end to end, on the embedded API server with Windlass' workloads, and on a real
//! kube-apiserver with kube-controller-manager: the same steps, and in the end the same objects.
//!
//! There are no nodes on either, so the same stand-in for them makes pods ready on both.

#![expect(clippy::disallowed_names, reason = "a Foo is what the original calls it")]

use crate::common::{available, foo, replicas, with_foos};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use sample_controller::controller::new_deployment;
use sample_controller::{Foo, controller};
use serde::Serialize;
use serde_json::{Value, json};
use windlass_testing::testserver::{
    CLEANUP_CONTROLLERS, ControlPlane, ControlPlaneOptions, TestServer, WORKLOAD_CONTROLLERS,
};
use windlass_testing::{EventRecord, TestCluster};
use windlass_workloads::Workloads;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn port_does_its_steps_on_the_embedded_server() {
    play(TestCluster::embedded()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn port_ends_in_the_same_objects_on_each_cluster() {
    let on_embedded = play(TestCluster::embedded()).await;
    let options = ControlPlaneOptions::new()
        .controllers(CLEANUP_CONTROLLERS)
        .controllers(WORKLOAD_CONTROLLERS);
    let real = ControlPlane::start(options).await.expect("a real kube-apiserver");
    let on_real = play(TestCluster::on(TestServer::on_control_plane(real), "default")).await;
    assert_eq!(on_embedded.len(), on_real.len());
    for (number, (embedded, real)) in on_embedded.iter().zip(&on_real).enumerate() {
        assert_eq!(embedded, real, "after step {number}");
    }
}

/// Everything, on one cluster. Returns what was there after each step.
async fn play(cluster: TestCluster) -> Vec<Value> {
    let scene = Scene { cluster: with_foos(cluster).await };
    let running = scene.cluster.run_built(controller);
    // The real one has controllers of its own that make pods.
    let is_embedded = scene.cluster.is_embedded();
    let change = |it: Workloads| if is_embedded { it } else { it.pods_only() };
    let workloads = scene.cluster.run_workloads(change);
    let steps = scene.steps().await;
    running.stop().await;
    workloads.stop().await;
    steps
}

/// What a user does on a cluster, and sees there.
struct Scene {
    cluster: TestCluster,
}

/// All that is there.
struct Seen {
    foos: Vec<Foo>,
    deployments: Vec<Deployment>,
    sets: Vec<ReplicaSet>,
    pods: Vec<Pod>,
    /// Of both Foos.
    events: [Vec<EventRecord>; 2],
}

impl Scene {
    /// What happens; and what is to be seen after each step.
    async fn steps(&self) -> Vec<Value> {
        let (cluster, mut steps) = (&self.cluster, Vec::new());
        cluster.create(&foo("one", "web", Some(1))).await;
        let is_synced = |seen: &Seen| seen.has("one", 1) && !seen.events[0].is_empty();
        steps.push(self.until(is_synced).await);

        cluster.patch::<Foo>("one", json!({"spec": {"replicas": 3}})).await;
        steps.push(self.until(|seen| seen.has("one", 3)).await);

        let by_hand = json!({"spec": {"replicas": 5}});
        let by_hand = cluster.patch::<Deployment>("web", by_hand).await;
        let is_changed_back = |seen: &Seen| {
            seen.has("one", 3)
                && seen.deployments[0].metadata.generation > by_hand.metadata.generation
        };
        steps.push(self.until(is_changed_back).await);

        // A Deployment that is nobody's, and a Foo that asks for it.
        cluster.create(&new_deployment(&foo("nobody", "other", Some(1)))).await;
        cluster.create(&foo("two", "other", Some(2))).await;
        steps.push(self.until(|seen| seen.has("one", 3) && !seen.events[1].is_empty()).await);

        cluster.delete_in_foreground::<Foo>("one").await;
        assert_eq!(cluster.get_opt::<Deployment>("web").await, None);
        steps.push(self.until(|seen| seen.foos.len() == 1 && seen.deployments.len() == 1).await);
        steps
    }

    /// Waits until it is so, and everything has come to rest.
    async fn until(&self, is_so: impl Fn(&Seen) -> bool) -> Value {
        let look = async || {
            let seen = self.look().await;
            let is_right = seen.is_settled() && is_so(&seen);
            if is_right { Ok(seen.shown()) } else { Err(seen.shown().to_string()) }
        };
        self.cluster.eventually_ok(look).await
    }

    async fn look(&self) -> Seen {
        Seen {
            foos: self.cluster.list().await,
            deployments: self.cluster.list().await,
            sets: self.cluster.list().await,
            pods: self.cluster.list().await,
            events: [
                self.cluster.events::<Foo>("one").await,
                self.cluster.events::<Foo>("two").await,
            ],
        }
    }
}

impl Seen {
    /// Whether a Foo says that it has so many replicas.
    fn has(&self, name: &str, replicas: i32) -> bool {
        let mut foos = self.foos.iter();
        foos.any(|foo| foo.name_any() == name && available(foo) == Some(replicas))
    }

    /// Whether every Deployment has the pods that it asks for, and nothing else is there.
    fn is_settled(&self) -> bool {
        let wanted: i32 = self.deployments.iter().filter_map(replicas).sum();
        let have = |made: &Deployment| {
            let (wanted, status) = (replicas(made), made.status.clone().unwrap_or_default());
            status.observed_generation == made.metadata.generation
                && status.terminating_replicas.unwrap_or(0) == 0
                // The real controller may say for a moment that pods are missing that it counts.
                && status.unavailable_replicas.unwrap_or(0) == 0
                && [status.replicas, status.updated_replicas, status.available_replicas]
                    .iter()
                    .all(|number| *number == wanted)
        };
        let is_running = |pod: &Pod| {
            let status = pod.status.as_ref();
            pod.metadata.deletion_timestamp.is_none()
                && status.and_then(|status| status.phase.as_deref()) == Some("Running")
        };
        self.deployments.iter().all(have)
            && self.sets.len() == self.deployments.len()
            && self.sets.iter().all(|set| {
                let (wanted, status) = (set.spec.replicas, set.status.clone().unwrap_or_default());
                Some(status.replicas) == wanted
                    && status.available_replicas == wanted
                    && status.terminating_replicas.unwrap_or(0) == 0
            })
            && i32::try_from(self.pods.len()) == Ok(wanted)
            && self.pods.iter().all(is_running)
    }

    /// What must be the same on every cluster.
    fn shown(&self) -> Value {
        json!({
            "foos": shown(&self.foos, |one| json!([one["metadata"]["name"], one["spec"], one["status"]])),
            "deployments": shown(&self.deployments, |made| json!({
                "name": made["metadata"]["name"],
                "labels": made["metadata"]["labels"],
                "owners": owners(made),
                "spec": made["spec"],
                "status": counts(made),
            })),
            // Names of these are drawn by chance.
            "replica sets": shown(&self.sets, |set| json!({
                "labels": set["metadata"]["labels"]["controller"],
                "owners": owners(set),
                "replicas": set["spec"]["replicas"],
                "status": counts(set),
            })),
            "pods": shown(&self.pods, |pod| json!({
                "labels": pod["metadata"]["labels"]["controller"],
                "owner": pod["metadata"]["ownerReferences"][0]["kind"],
                "image": pod["spec"]["containers"][0]["image"],
            })),
            "events": self.events.each_ref().map(|events| shown_events(events)),
        })
    }
}

/// Objects as `show` has them, in an order that does not depend on their names.
fn shown<K: Serialize>(objects: &[K], show: impl Fn(&Value) -> Value) -> Vec<Value> {
    let values = objects.iter().map(|object| serde_json::to_value(object).expect("JSON"));
    let mut shown: Vec<Value> = values.map(|object| show(&object)).collect();
    shown.sort_by_key(ToString::to_string);
    shown
}

/// Each event once, whatever its time and count.
fn shown_events(events: &[EventRecord]) -> Vec<String> {
    let mut shown: Vec<String> = events.iter().map(ToString::to_string).collect();
    shown.sort();
    shown.dedup();
    shown
}

/// Owner references, without uids.
fn owners(object: &Value) -> Value {
    let mut owners = object["metadata"]["ownerReferences"].clone();
    for owner in owners.as_array_mut().into_iter().flatten() {
        owner["uid"].take();
    }
    owners
}

/// The numbers of a status, but for the generation: how often others have written to the object may
/// differ.
fn counts(object: &Value) -> Value {
    let status = object["status"].as_object().cloned().unwrap_or_default();
    let is_count =
        |(name, value): &(String, Value)| value.is_number() && name != "observedGeneration";
    status.into_iter().filter(is_count).collect()
}
