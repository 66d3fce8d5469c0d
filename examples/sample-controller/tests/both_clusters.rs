//! The port end to end, on the embedded API server with Windlass' workloads, and on a real kube-apiserver with
//! kube-controller-manager: the same steps, and in the end the same objects.
//!
//! There are no nodes on either, so the same stand-in for them makes pods ready on both.

#![expect(clippy::disallowed_names, reason = "a Foo is what the original calls it")]

mod common;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use common::{NAMESPACE, available, create, events, foo, replicas, until};
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
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass::indexer::{Lister, ObjectKey};
use windlass::informer::{ClientStack, InformerOptions, SharedInformerFactory};
use windlass::reconciler::install_definition;
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
    assert_eq!(on_embedded, on_real);
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
    install_definition(&client, &definition()).await.expect("the definition is taken");
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

    let scene = Scene::new(client);
    let mut seen = Vec::new();
    scene.create_foo("one", "web", 1).await;
    scene.until_available("one", 1).await;
    scene.until_told("one", "Synced").await;
    seen.push(scene.look().await);

    scene.patch::<Foo>("one", json!({"spec": {"replicas": 3}})).await;
    scene.until_available("one", 3).await;
    seen.push(scene.look().await);

    let by_hand = scene.patch::<Deployment>("web", json!({"spec": {"replicas": 5}})).await;
    scene.until_repaired(&by_hand).await;
    seen.push(scene.look().await);

    scene.create_foreign("other").await;
    scene.create_foo("two", "other", 2).await;
    scene.until_told("two", "ErrResourceExists").await;
    seen.push(scene.look().await);

    scene.api::<Foo>().delete("one", &DeleteParams::default()).await.expect("deleted");
    scene.until_gone("web").await;
    seen.push(scene.look().await);

    stop.cancel();
    while let Some(ended) = running.join_next().await {
        ended.expect("no panic");
    }
    scene.factory.shut_down().await;
    factory.shut_down().await;
    seen
}

/// What a user does on a cluster, and sees there.
struct Scene {
    client: Client,
    factory: SharedInformerFactory,
}

impl Scene {
    fn new(client: Client) -> Self {
        let options = InformerOptions::new().namespace(NAMESPACE);
        let factory = SharedInformerFactory::builder(client.clone()).defaults(options).build();
        Self { client, factory }
    }

    fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    async fn create_foo(&self, name: &str, deployment: &str, replicas: i32) {
        create(&self.api(), &foo(name, deployment, Some(replicas))).await;
    }

    /// A Deployment that is nobody's, with one replica.
    async fn create_foreign(&self, name: &str) {
        create(&self.api(), &new_deployment(&foo("nobody", name, Some(1)))).await;
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

    async fn until_available(&self, name: &str, replicas: i32) {
        let key = ObjectKey::namespaced(NAMESPACE, name);
        until(&self.factory, |foos: &Lister<Foo>| {
            get(foos, &key).is_some_and(|foo| available(&foo) == Some(replicas))
        })
        .await;
    }

    /// Waits until a Deployment that was changed by hand has been changed back.
    async fn until_repaired(&self, by_hand: &Deployment) {
        let key = ObjectKey::namespaced(NAMESPACE, &by_hand.name_any());
        until(&self.factory, |deployments: &Lister<Deployment>| {
            get(deployments, &key)
                .is_some_and(|now| now.metadata.generation > by_hand.metadata.generation)
        })
        .await;
    }

    async fn until_told(&self, foo: &str, reason: &str) {
        until(&self.factory, |events: &Lister<Event>| {
            events.list().iter().any(|event| {
                let event = event.get().expect("it decodes");
                event.involved_object.name.as_deref() == Some(foo)
                    && event.reason.as_deref() == Some(reason)
            })
        })
        .await;
    }

    async fn until_gone(&self, name: &str) {
        let key = ObjectKey::namespaced(NAMESPACE, name);
        until(&self.factory, |deployments: &Lister<Deployment>| deployments.cached(&key).is_none())
            .await;
    }

    /// Waits until every Deployment has what it asks for, and nothing is left of others.
    async fn until_settled(&self) {
        until(&self.factory, |deployments: &Lister<Deployment>| {
            deployments.list().iter().all(|one| is_settled(&one.get().expect("it decodes")))
        })
        .await;
        let wanted = self.factory.lister::<Deployment>().expect("a lister").list();
        let wanted: i32 = wanted
            .iter()
            .map(|one| replicas(&one.get().expect("it decodes")).unwrap_or_default())
            .sum();
        let wanted = usize::try_from(wanted).expect("a number of pods");
        until(&self.factory, |pods: &Lister<Pod>| {
            pods.list().iter().count() == wanted
                && pods.list().heads().all(|pod| pod.deleted().is_none())
        })
        .await;
        let deployments = self.factory.lister::<Deployment>().expect("a lister");
        until(&self.factory, |sets: &Lister<ReplicaSet>| {
            sets.reader().len() == deployments.reader().len()
        })
        .await;
    }

    /// Everything that must be the same on every cluster.
    async fn look(&self) -> Value {
        self.until_settled().await;
        json!({
            "foos": self.shown::<Foo>(|foo| json!({"spec": foo["spec"], "status": foo["status"]})).await,
            "deployments": self.shown::<Deployment>(|made| json!({
                "labels": made["metadata"]["labels"],
                "annotations": made["metadata"]["annotations"],
                "owners": owners(made),
                "generation": made["metadata"]["generation"],
                "spec": made["spec"],
                "status": counts(made),
            })).await,
            "replica sets": self.shown::<ReplicaSet>(|set| json!({
                "owners": owners(set),
                "controller": set["metadata"]["labels"]["controller"],
                "replicas": set["spec"]["replicas"],
                "status": counts(set),
            })).await,
            "pods": self.shown::<Pod>(|pod| json!({
                "controller": pod["metadata"]["labels"]["controller"],
                "owner": pod["metadata"]["ownerReferences"][0]["kind"],
                "phase": pod["status"]["phase"],
                "containers": pod["spec"]["containers"][0]["image"],
            })).await,
            "events of one": events(&self.client, NAMESPACE, "one").await,
            "events of two": events(&self.client, NAMESPACE, "two").await,
        })
    }

    /// All objects of a type, as `show` has them; with their names, unless those are drawn by chance.
    async fn shown<K>(&self, show: impl Fn(&Value) -> Value) -> Vec<String>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let list = self.api::<K>().list(&ListParams::default()).await.expect("a list");
        let is_drawn = ["ReplicaSet", "Pod"].contains(&&*K::kind(&()));
        let mut shown: Vec<String> = list
            .items
            .iter()
            .map(|object| {
                let name = if is_drawn { String::new() } else { object.name_any() };
                let object = serde_json::to_value(object).expect("JSON");
                format!("{name} {}", show(&object))
            })
            .collect();
        shown.sort();
        shown
    }
}

fn get<K: DeserializeOwned + Send + Sync + 'static>(
    objects: &Lister<K>,
    key: &ObjectKey,
) -> Option<Arc<K>> {
    objects.get(key).expect("it decodes")
}

/// Whether a Deployment has what it asks for.
fn is_settled(deployment: &Deployment) -> bool {
    let wanted = replicas(deployment);
    deployment.status.as_ref().is_some_and(|status| {
        status.observed_generation == deployment.metadata.generation
            && status.replicas == wanted
            && status.updated_replicas == wanted
            && status.available_replicas == wanted
    })
}

/// Owner references, without uids.
fn owners(object: &Value) -> Vec<Value> {
    let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let shown = |mut owner: Value| {
        owner["uid"].take();
        owner
    };
    owners.into_iter().map(shown).collect()
}

/// The numbers of a status.
fn counts(object: &Value) -> Value {
    let status = object["status"].as_object().cloned().unwrap_or_default();
    status.into_iter().filter(|(_, value)| value.is_number()).collect()
}
