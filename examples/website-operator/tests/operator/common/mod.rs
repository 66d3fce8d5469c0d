//! What the tests share: the operator at work on a cluster, and a look at what it made.
#![allow(dead_code, reason = "every test file uses a part of it")]

pub(crate) mod manifests;

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, PostParams};
use kube::{Resource, ResourceExt as _};
use website_operator::run::manager;
use website_operator::website::v1;
use website_operator::{NAME, Website, WebsiteSpec, hosts, webhooks};
use windlass::manager::Options;
use windlass_testing::testserver::TestServer;
use windlass_testing::{Running, TestCluster};

/// More bytes than the files of a Website may have.
pub(crate) const TOO_MUCH: usize = 1024 * 1024 + 1;

/// Starts the operator, which keeps its hosts, its Lease and its certificates in this namespace.
/// Returns when its definition is installed and its webhooks are called.
pub(crate) async fn start(cluster: &TestCluster, namespace: &str) -> Running {
    match cluster.test_server().and_then(TestServer::server) {
        // Without a socket, so that it works on the paused clock, too.
        Some(server) => {
            let router = webhooks().router().expect("webhooks");
            server.webhooks().handle_service(namespace, NAME, router);
            start_with(cluster, namespace, None).await
        }
        None => start_behind_tls(cluster, namespace).await,
    }
}

/// The same, and the server calls the webhooks over TLS.
pub(crate) async fn start_behind_tls(cluster: &TestCluster, namespace: &str) -> Running {
    start_with(cluster, namespace, Some("https://127.0.0.1:0".to_owned())).await
}

async fn start_with(cluster: &TestCluster, namespace: &str, url: Option<String>) -> Running {
    let mut options = Options::default();
    options.leader_election_namespace = Some(namespace.to_owned());
    "127.0.0.1:0".clone_into(&mut options.webhook_bind_address);
    options.webhook_drain = Duration::ZERO;
    options.webhook_namespace = Some(namespace.to_owned());
    options.webhook_url = url;
    let operator = cluster.run_manager(manager(options, namespace));
    operator.wait_until_quiet().await;
    // A real server takes a moment to notice configurations.
    let sites: Api<v1::Website> = Api::namespaced(cluster.client(), cluster.namespace());
    let huge = old_site("huge", "huge.example.com", &"x".repeat(TOO_MUCH));
    cluster
        .eventually_ok(async || {
            let params = PostParams { dry_run: true, ..PostParams::default() };
            match sites.create(&params, &huge).await {
                Err(kube::Error::Api(status)) if status.code == 422 => Ok(()),
                other => Err(format!("the webhooks are not called: {other:?}")),
            }
        })
        .await;
    operator
}

/// A Website of the first version, with one page.
pub(crate) fn old_site(name: &str, host: &str, page: &str) -> v1::Website {
    let files = [("index.html".to_owned(), page.to_owned())].into();
    v1::Website::new(name, v1::WebsiteSpec { host: host.to_owned(), files, ..Default::default() })
}

/// Which Website has a host.
pub(crate) async fn holder(
    cluster: &TestCluster,
    hosts_namespace: &str,
    host: &str,
) -> Option<String> {
    let name = format!("{hosts_namespace}/{}", hosts::NAME);
    cluster.get_opt::<ConfigMap>(&name).await?.data?.remove(host)
}

/// The reasons of the events of a Website.
pub(crate) async fn reasons(cluster: &TestCluster, site: &str) -> Vec<String> {
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
    let spec = WebsiteSpec { replicas: Some(replicas), ..WebsiteSpec::new(host, "<h1>Hello</h1>") };
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
    owner.api_version == "example.com/v2"
        && owner.kind == "Website"
        && owner.name == site.name_any()
        && Some(&owner.uid) == site.metadata.uid.as_ref()
        && owner.controller == Some(true)
}
