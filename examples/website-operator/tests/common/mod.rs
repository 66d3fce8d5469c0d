//! What the tests share: the operator at work on a cluster, and a look at what it made.
#![allow(dead_code, reason = "every test file uses a part of it")]

pub(crate) mod manifests;

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use website_operator::demo::wait_until;
use website_operator::run::manager;
use website_operator::{Website, WebsiteSpec, hosts};
use windlass::informer::{ClientStack, SharedInformerFactory};
use windlass::manager::Options;
use windlass::reconciler::find_condition;
use windlass_workloads::Workloads;

/// The operator at work, and somebody who watches it.
pub(crate) struct Stage {
    /// Somebody else's, with all rights.
    pub(crate) client: Client,
    pub(crate) namespace: String,
    /// Where the hosts are kept.
    pub(crate) hosts_namespace: String,
    factory: SharedInformerFactory,
    stop: CancellationToken,
    running: JoinSet<()>,
}

/// Who makes pods of Deployments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    ByWorkloads,
    ByKubernetes,
}

impl Stage {
    /// Starts the operator with clients of its own. `client` has all rights; the definition and
    /// both namespaces are there.
    pub(crate) fn start(
        connect: impl Fn(ClientStack) -> Client + Send + Sync + 'static,
        client: Client,
        made: Made,
        [namespace, hosts_namespace]: [&str; 2],
    ) -> Self {
        let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
        // No sockets: the paused clock does not wait for them.
        let mut options = Options::default();
        options.health_probe_bind_address = "0".into();
        options.metrics_bind_address = "0".into();
        options.leader_election_namespace = Some(hosts_namespace.to_owned());
        let operator = manager(options, hosts_namespace)
            .connect(move |stack| Ok(connect(stack)))
            .without_logs()
            .run_until(stop.clone());
        running.spawn(async move { operator.await.expect("the operator runs") });
        let factory = SharedInformerFactory::new(client.clone());
        let mut workloads = Workloads::new(&factory);
        if made == Made::ByKubernetes {
            workloads = workloads.pods_only();
        }
        let token = stop.clone();
        running.spawn(async move { workloads.run(token).await.expect("the workloads run") });
        let [namespace, hosts_namespace] = [namespace, hosts_namespace].map(str::to_owned);
        Self { client, namespace, hosts_namespace, factory, stop, running }
    }

    pub(crate) fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(
        &self,
    ) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Waits until an object is there and so.
    pub(crate) async fn until<K>(&self, name: &str, what: &str, is_so: impl Fn(&K) -> bool) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Send
            + Sync
            + 'static,
    {
        let key = windlass::indexer::ObjectKey::namespaced(&self.namespace, name);
        let waited = wait_until::<K>(&self.factory, what, |lister| {
            Ok(lister.get(&key)?.is_some_and(|object| is_so(&object)))
        });
        waited.await.expect("it becomes so");
        self.get(name).await
    }

    /// Waits until an object is gone.
    pub(crate) async fn until_gone<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + DeserializeOwned
            + Send
            + Sync
            + 'static,
    {
        let key = windlass::indexer::ObjectKey::namespaced(&self.namespace, name);
        let waited =
            wait_until::<K>(&self.factory, "it is gone", |lister| Ok(lister.get(&key)?.is_none()));
        waited.await.expect("it goes");
    }

    pub(crate) async fn until_ready(&self, name: &str) -> Website {
        self.until(name, "the Website is ready", |site: &Website| {
            let ready = condition(site, "Ready");
            ready.is_some_and(|ready| {
                ready.status == "True" && ready.observed_generation == site.metadata.generation
            })
        })
        .await
    }

    pub(crate) async fn until_blocked(&self, name: &str) -> Website {
        self.until(name, "the Website is blocked", |site: &Website| {
            condition(site, "Ready").is_some_and(|ready| ready.reason == "Blocked")
        })
        .await
    }

    pub(crate) async fn get<K>(&self, name: &str) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        self.api().get(name).await.expect("it is there")
    }

    pub(crate) async fn create<K>(&self, object: &K) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        self.api().create(&PostParams::default(), object).await.expect("created")
    }

    pub(crate) async fn patch<K>(&self, name: &str, patch: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        self.api().patch(name, &params, &patch).await.expect("patched")
    }

    pub(crate) async fn delete<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        self.api::<K>().delete(name, &DeleteParams::default()).await.expect("deleted");
    }

    /// Which Website has a host.
    pub(crate) async fn holder(&self, host: &str) -> Option<String> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.hosts_namespace);
        maps.get_opt(hosts::NAME).await.expect("an answer")?.data?.remove(host)
    }

    /// The reasons of the events of a Website, each once.
    pub(crate) async fn reasons(&self, site: &str) -> Vec<String> {
        let events = self.api::<Event>().list(&ListParams::default()).await.expect("a list");
        let about = events.items.into_iter().filter(|event| {
            event.involved_object.kind.as_deref() == Some("Website")
                && event.involved_object.name.as_deref() == Some(site)
        });
        let mut reasons: Vec<String> = about.filter_map(|event| event.reason).collect();
        reasons.sort();
        reasons.dedup();
        reasons
    }

    /// Waits until there is an event about a Website.
    pub(crate) async fn until_event(&self, site: &str, reason: &str) {
        let is_about = |event: &Event| {
            event.involved_object.kind.as_deref() == Some("Website")
                && event.involved_object.name.as_deref() == Some(site)
                && event.reason.as_deref() == Some(reason)
        };
        let waited = wait_until::<Event>(&self.factory, "there is an event", |lister| {
            for event in &lister.list() {
                if is_about(&*event.get()?) {
                    return Ok(true);
                }
            }
            Ok(false)
        });
        waited.await.expect("it is written");
    }

    pub(crate) async fn end(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.running.join_next().await {
            ended.expect("no panic");
        }
        self.factory.shut_down().await;
    }
}

pub(crate) fn site(name: &str, host: &str, replicas: i32) -> Website {
    let spec = WebsiteSpec { replicas, ..WebsiteSpec::new(host, "<h1>Hello</h1>") };
    Website::new(name, spec)
}

pub(crate) fn condition<'a>(site: &'a Website, type_: &str) -> Option<&'a Condition> {
    find_condition(&site.status.as_ref()?.conditions, type_)
}

pub(crate) fn available(site: &Website) -> Option<i32> {
    site.status.as_ref().map(|status| status.available_replicas)
}

pub(crate) fn replicas(made: &Deployment) -> Option<i32> {
    made.spec.replicas
}

/// Whether the only owner of an object is this very Website, as its controller.
pub(crate) fn is_owned_by<K: Resource>(object: &K, site: &Website) -> bool {
    let [owner] = object.owner_references() else { return false };
    owner.api_version == "example.com/v1"
        && owner.kind == "Website"
        && owner.name == site.name_any()
        && Some(&owner.uid) == site.metadata.uid.as_ref()
        && owner.controller == Some(true)
}
