//! The port end to end, on the embedded API server with Windlass' workloads, and on a real
//! kube-apiserver with kube-controller-manager: the same steps, and in the end the same objects.
//!
//! There are no nodes on either, so the same stand-in for them makes pods ready on both.

#![expect(clippy::disallowed_names, reason = "a Foo is what the original calls it")]

mod common;

use std::fmt::Debug;
use std::time::Duration;

use common::{NAMESPACE, available, create, events, foo, replicas};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, Resource, ResourceExt as _};
use sample_controller::controller::new_deployment;
use sample_controller::{Foo, definition};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass::informer::{ClientStack, Event as InformerEvent, Scope, SharedInformerFactory};
use windlass::reconciler::install_crd;
use windlass_testkit::cluster::{REAL_TIER, real_tier_is_on};
use windlass_testkit::{
    CLEANUP_CONTROLLERS, RealCluster, RealOptions, TestCluster, WORKLOAD_CONTROLLERS,
};
use windlass_workloads::Workloads;

/// Beyond this something hangs. It bounds a failure, and asserts nothing.
const HANGS_AFTER: Duration = Duration::from_mins(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn port_ends_in_the_same_objects_on_each_cluster() {
    let cluster = TestCluster::embedded();
    let server = cluster.server().expect("it is embedded").clone();
    let client = ClientStack::new().around(server.service(), "default");
    let on_embedded = play(client, Made::ByWorkloads).await;

    if !real_tier_is_on() {
        println!("skipped on a real kube-apiserver: run `cargo xtask test --real`");
        return;
    }
    let options =
        RealOptions::new().controllers(CLEANUP_CONTROLLERS).controllers(WORKLOAD_CONTROLLERS);
    let real = match RealCluster::start(options).await {
        Ok(real) => real,
        Err(error) => panic!("{REAL_TIER} is set, but there is no real cluster: {error}"),
    };
    let client = ClientStack::new().connect(real.config()).expect("a client");
    let on_real = play(client, Made::ByKubernetes).await;
    assert_eq!(on_embedded.len(), on_real.len());
    for (number, (embedded, real)) in on_embedded.iter().zip(&on_real).enumerate() {
        assert_eq!(embedded, real, "after step {number}");
    }
}

/// Who makes pods of Deployments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    ByWorkloads,
    ByKubernetes,
}

/// Everything, on one cluster. Returns what was there after each step.
async fn play(client: Client, made: Made) -> Vec<Value> {
    tokio::time::timeout(HANGS_AFTER, play_to_the_end(client, made)).await.expect("it ends")
}

async fn play_to_the_end(client: Client, made: Made) -> Vec<Value> {
    install_crd(&client, &definition()).await.expect("the definition is taken");
    let stop = CancellationToken::new();
    let mut running = JoinSet::new();
    let (own, token) = (client.clone(), stop.clone());
    running.spawn(async move { sample_controller::run(own, token).await.expect("it runs") });
    let factory = SharedInformerFactory::new(client.clone());
    let mut workloads = Workloads::new(&factory);
    if made == Made::ByKubernetes {
        workloads = workloads.pods_only();
    }
    let token = stop.clone();
    running.spawn(async move { workloads.run(token).await.expect("they run") });

    let mut scene = Scene::new(client, &factory);
    let steps = scene.steps().await;

    stop.cancel();
    while let Some(ended) = running.join_next().await {
        ended.expect("no panic");
    }
    factory.shut_down().await;
    steps
}

/// What a user does on a cluster, and sees there.
struct Scene {
    client: Client,
    /// Something has changed.
    changes: watch::Receiver<()>,
}

/// All that is there.
struct Seen {
    foos: Vec<Foo>,
    deployments: Vec<Deployment>,
    sets: Vec<ReplicaSet>,
    pods: Vec<Pod>,
    /// Of both Foos: type, reason and message.
    events: [Vec<(String, String, String)>; 2],
}

impl Scene {
    fn new(client: Client, factory: &SharedInformerFactory) -> Self {
        let (sender, changes) = watch::channel(());
        watched::<Foo>(factory, &sender);
        watched::<Deployment>(factory, &sender);
        watched::<ReplicaSet>(factory, &sender);
        watched::<Pod>(factory, &sender);
        watched::<Event>(factory, &sender);
        factory.start();
        Self { client, changes }
    }

    /// What happens; and what is to be seen after each step.
    async fn steps(&mut self) -> Vec<Value> {
        let mut steps = Vec::new();
        create(&self.api(), &foo("one", "web", Some(1))).await;
        let is_synced = |seen: &Seen| seen.has("one", 1) && !seen.events[0].is_empty();
        steps.push(self.until(is_synced).await);

        self.patch::<Foo>("one", json!({"spec": {"replicas": 3}})).await;
        steps.push(self.until(|seen| seen.has("one", 3)).await);

        let by_hand = self.patch::<Deployment>("web", json!({"spec": {"replicas": 5}})).await;
        let is_changed_back = |seen: &Seen| {
            seen.has("one", 3)
                && seen.deployments[0].metadata.generation > by_hand.metadata.generation
        };
        steps.push(self.until(is_changed_back).await);

        // A Deployment that is nobody's, and a Foo that asks for it.
        create(&self.api(), &new_deployment(&foo("nobody", "other", Some(1)))).await;
        create(&self.api(), &foo("two", "other", Some(2))).await;
        steps.push(self.until(|seen| seen.has("one", 3) && !seen.events[1].is_empty()).await);

        self.api::<Foo>().delete("one", &DeleteParams::default()).await.expect("deleted");
        steps.push(self.until(|seen| seen.foos.len() == 1 && seen.deployments.len() == 1).await);
        steps
    }

    /// Waits until it is so, and everything has come to rest.
    async fn until(&mut self, is_so: impl Fn(&Seen) -> bool) -> Value {
        loop {
            self.changes.mark_unchanged();
            let seen = self.look().await;
            if seen.is_settled() && is_so(&seen) {
                return seen.shown();
            }
            self.changes.changed().await.expect("it is watched");
        }
    }

    async fn look(&self) -> Seen {
        Seen {
            foos: self.list().await,
            deployments: self.list().await,
            sets: self.list().await,
            pods: self.list().await,
            events: [
                events(&self.client, NAMESPACE, "one").await,
                events(&self.client, NAMESPACE, "two").await,
            ],
        }
    }

    fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    async fn list<K>(&self) -> Vec<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        self.api().list(&ListParams::default()).await.expect("a list").items
    }

    async fn patch<K>(&self, name: &str, patch: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        self.api().patch(name, &params, &patch).await.expect("patched")
    }
}

/// Tells of every change of a type.
fn watched<K>(factory: &SharedInformerFactory, changed: &watch::Sender<()>)
where
    K: Resource<DynamicType = (), Scope: Scope> + DeserializeOwned + Send + Sync + 'static,
{
    let changed = changed.clone();
    let informer = factory.informer::<K>().expect("an informer");
    // A handler keeps its informer running.
    informer.add_handler(move |_: InformerEvent<K>| changed.send_replace(())).expect("it is new");
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
            "events": self.events,
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
