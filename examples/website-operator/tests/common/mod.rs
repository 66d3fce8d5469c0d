//! What the tests share: the operator at work on a cluster, and a look at what it made.
#![allow(dead_code, reason = "every test file uses a part of it")]

pub(crate) mod manifests;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Resource, ResourceExt as _};
use website_operator::run::manager;
use website_operator::{Website, WebsiteSpec, hosts};
use windlass::manager::Options;
use windlass_testing::{Cluster, Running};

/// Starts the operator, which keeps its hosts and its Lease in this namespace.
pub(crate) fn start(cluster: &Cluster, hosts_namespace: &str) -> Running {
    let mut options = Options::default();
    options.leader_election_namespace = Some(hosts_namespace.to_owned());
    cluster.run_manager(manager(options, hosts_namespace))
}

/// Which Website has a host.
pub(crate) async fn holder(cluster: &Cluster, hosts_namespace: &str, host: &str) -> Option<String> {
    let name = format!("{hosts_namespace}/{}", hosts::NAME);
    cluster.get_opt::<ConfigMap>(&name).await?.data?.remove(host)
}

/// The reasons of the events of a Website.
pub(crate) async fn reasons(cluster: &Cluster, site: &str) -> Vec<String> {
    let events = cluster.events::<Website>(site).await;
    events.into_iter().map(|event| event.reason).collect()
}

/// Whether a Website is ready, as it is now.
pub(crate) fn is_ready(site: &Website) -> bool {
    condition(site, "Ready").is_some_and(|ready| {
        ready.status == "True" && ready.observed_generation == site.metadata.generation
    })
}

pub(crate) fn is_blocked(site: &Website) -> bool {
    condition(site, "Ready").is_some_and(|ready| ready.reason == "Blocked")
}

pub(crate) fn site(name: &str, host: &str, replicas: i32) -> Website {
    let spec = WebsiteSpec { replicas, ..WebsiteSpec::new(host, "<h1>Hello</h1>") };
    Website::new(name, spec)
}

pub(crate) fn condition<'a>(site: &'a Website, type_: &str) -> Option<&'a Condition> {
    let conditions = &site.status.as_ref()?.conditions;
    conditions.iter().find(|condition| condition.type_ == type_)
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
