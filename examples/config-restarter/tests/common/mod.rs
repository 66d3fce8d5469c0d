//! What the tests share: the restarter of one kind of workload at work, and a look at what it does.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use config_restarter::annotation::RESTART;
use config_restarter::demo::wait_for;
use config_restarter::reconciler::{Restarter, controller};
use config_restarter::throttle::Throttle;
use config_restarter::workload::Workload;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use windlass::prelude::*;
use windlass::reconciler::RunError;
use windlass_testkit::TestCluster;

/// What tests do with objects.
pub(crate) trait Object:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Object for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// A cluster on which somebody works, in a namespace of their own.
pub(crate) struct Bench {
    pub(crate) cluster: TestCluster,
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

impl Bench {
    pub(crate) async fn on(cluster: TestCluster) -> Self {
        let namespace = cluster.namespace("restarter").await.expect("a namespace");
        Self { client: connect(&cluster, ClientStack::new()), cluster, namespace }
    }

    pub(crate) async fn embedded() -> Self {
        Self::on(TestCluster::embedded()).await
    }

    pub(crate) fn api<K: Object>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) async fn get<K: Object>(&self, name: &str) -> K {
        self.api().get(name).await.expect("it is there")
    }

    pub(crate) async fn create<K: Object>(&self, name: &str, mut object: Value) -> K {
        object["metadata"]["name"] = name.into();
        let object: K = serde_json::from_value(object).expect("an object");
        self.api().create(&PostParams::default(), &object).await.expect("created")
    }

    pub(crate) async fn patch<K: Object>(&self, name: &str, patch: Value) -> K {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        self.api().patch(name, &params, &patch).await.expect("patched")
    }

    pub(crate) async fn delete<K: Object>(&self, name: &str) {
        self.api::<K>().delete(name, &DeleteParams::default()).await.expect("deleted");
    }

    /// The hash of a workload.
    pub(crate) async fn hash<W: Object + Workload>(&self, name: &str) -> Option<String> {
        self.get::<W>(name).await.hash().map(str::to_owned)
    }

    /// The events about workloads: name, type, reason and message, each once.
    pub(crate) async fn events(&self) -> Vec<[String; 4]> {
        let events = self.api::<Event>().list(&ListParams::default()).await.expect("a list");
        let shown = |event: Event| {
            let name = event.involved_object.name;
            [name, event.type_, event.reason, event.message].map(Option::unwrap_or_default)
        };
        let mut events: Vec<_> = events.items.into_iter().map(shown).collect();
        events.sort();
        events.dedup();
        events
    }

    /// The reasons of the events about a workload.
    pub(crate) async fn reasons(&self, name: &str) -> Vec<String> {
        let events = self.events().await.into_iter();
        let about = events.filter(|[about, ..]| about == name);
        about.map(|[_, _, reason, _]| reason).collect()
    }

    /// A manager's client.
    pub(crate) fn connected(&self, manager: Manager) -> Manager {
        let cluster = self.cluster.clone();
        manager.connect(move |stack| Ok(connect(&cluster, stack))).without_logs()
    }

    /// Options for a manager in this namespace. No sockets: the paused clock does not wait for them.
    pub(crate) fn options(&self) -> Options {
        let mut options = Options::default();
        options.health_probe_bind_address = "0".into();
        options.metrics_bind_address = "0".into();
        options.leader_election_namespace = Some(self.namespace.clone());
        options.namespaces = vec![self.namespace.clone()];
        options
    }
}

fn connect(cluster: &TestCluster, stack: ClientStack) -> Client {
    match (cluster.server(), cluster.control_plane()) {
        (Some(server), _) => stack.around(server.service(), "default"),
        (_, Some(real)) => stack.connect(real.config()).expect("a client"),
        _ => panic!("a cluster is embedded or real"),
    }
}

/// The restarter of one kind, at work.
pub(crate) struct Stage<W> {
    pub(crate) bench: Bench,
    pub(crate) controller: Arc<Controller<W>>,
    factory: SharedInformerFactory,
    stop: CancellationToken,
    running: JoinSet<Result<(), RunError>>,
}

impl<W: Object + Workload> Stage<W> {
    /// Starts it without a limit, in the namespace of the bench and in these.
    pub(crate) fn start(bench: Bench, others: &[&str]) -> Self {
        Self::start_with(bench, others, Throttle::new(f64::INFINITY, 1).expect("valid"))
    }

    pub(crate) fn start_with(bench: Bench, others: &[&str], throttle: Throttle) -> Self {
        let namespaces = others.iter().copied().chain([&*bench.namespace]);
        let defaults = InformerOptions::new().namespaces(namespaces);
        let factory =
            SharedInformerFactory::builder(bench.client.clone()).defaults(defaults).build();
        let restarter = Restarter::new(Arc::new(throttle));
        let controller = controller::<W>().build(&factory, restarter).expect("a controller");
        let (controller, stop) = (Arc::new(controller), CancellationToken::new());
        let (mut running, run, token) = (JoinSet::new(), Arc::clone(&controller), stop.clone());
        running.spawn(async move { run.run(token).await });
        Self { bench, controller, factory, stop, running }
    }

    /// Waits until a workload has a hash that is not this one, and returns it.
    pub(crate) async fn until_hash(&self, name: &str, old: Option<&str>) -> String {
        let is_it = |workload: &W| {
            workload.meta().name.as_deref() == Some(name)
                && workload.meta().namespace.as_deref() == Some(&self.bench.namespace)
                && workload.hash().is_some_and(|hash| Some(hash) != old)
        };
        let found = wait_for::<W>(&self.factory, "it has a new hash", is_it).await;
        found.expect("it is written").hash().expect("it has one").to_owned()
    }

    /// Waits until there is an event about a workload whose message ends so.
    pub(crate) async fn until_event(&self, name: &str, reason: &str, end: &str) {
        let is_it = |event: &Event| {
            event.involved_object.name.as_deref() == Some(name)
                && event.reason.as_deref() == Some(reason)
                && event.message.as_ref().is_some_and(|message| message.ends_with(end))
        };
        wait_for::<Event>(&self.factory, "there is an event", is_it).await.expect("an event");
    }

    /// How often a workload ran.
    pub(crate) fn runs(&self, name: &str) -> usize {
        self.controller.runs(&ObjectKey::namespaced(&self.bench.namespace, name)).len()
    }

    pub(crate) async fn end(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.running.join_next().await {
            ended.expect("no panic").expect("it ends well");
        }
        self.factory.shut_down().await;
    }
}

/// On the paused clock this passes when nobody has anything to do, except to wait for longer.
pub(crate) async fn rest() {
    tokio::time::sleep(Duration::from_millis(500)).await;
}

/// A workload that asks for restarts, with these fields of its pods.
pub(crate) fn workload(pod: &Value) -> Value {
    let mut template = json!({
        "metadata": {"labels": {"app": "web"}, "annotations": {"kept": "yes"}},
        "spec": {"containers": [{"name": "main", "image": "example.com/web"}]},
    });
    merge(&mut template["spec"], pod);
    json!({
        "metadata": {"annotations": {RESTART: "true"}},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "serviceName": "web",
            "template": template,
        },
    })
}

/// A workload whose only container has these fields.
pub(crate) fn workload_with(container: &Value) -> Value {
    let mut main = json!({"name": "main", "image": "example.com/web"});
    merge(&mut main, container);
    workload(&json!({"containers": [main]}))
}

fn merge(into: &mut Value, fields: &Value) {
    for (field, value) in fields.as_object().expect("fields") {
        into[field] = value.clone();
    }
}

/// An environment variable with a key of a Secret.
pub(crate) fn password(secret: &str) -> Value {
    let key = json!({"secretKeyRef": {"name": secret, "key": "password"}});
    json!({"env": [{"name": "PASSWORD", "valueFrom": key}]})
}
