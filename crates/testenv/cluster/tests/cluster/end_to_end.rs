//! The life of a cluster as a test of an operator uses it.

use std::collections::BTreeMap;
use std::fmt::Debug;

use crate::support::until;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolumeClaim, Pod, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_cluster::apiserver::{ApiServer, Authorization, User};
use windlass_cluster::{Cluster, ClusterError};

fn template(app: &str, image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{
            "name": app, "image": image, "ports": [{"name": "http", "containerPort": 8080}],
        }]},
    })
}

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": template("web", "web:1"),
    }})
}

fn stateful_set() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {
        "replicas": 2,
        "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}},
        "template": template("db", "db:1"),
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        }}],
    }})
}

fn job() -> Value {
    let mut template = template("sum", "sum:1");
    template["spec"]["restartPolicy"] = "Never".into();
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum"}, "spec": {
        "completions": 3, "parallelism": 2, "completionMode": "Indexed", "template": template,
    }})
}

fn service() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {
        "selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
    }})
}

async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let object = serde_json::from_value(object).expect("an object");
    api.create(&PostParams::default(), &object).await.expect("it is created")
}

async fn patch<K>(api: &Api<K>, name: &str, patch: Value)
where
    K: Clone + Debug + DeserializeOwned,
{
    let patch = Patch::Merge(patch);
    api.patch(name, &PatchParams::default(), &patch).await.expect("it is patched");
}

fn image(container: &str, image: &str) -> Value {
    let containers = json!([{"name": container, "image": image}]);
    json!({"spec": {"template": {"spec": {"containers": containers}}}})
}

/// Whether all replicas are ready and of the newest template.
fn is_rolled_out(deployment: &Deployment, replicas: i32) -> bool {
    let status = deployment.status.clone().unwrap_or_default();
    let counts = [status.replicas, status.updated_replicas, status.available_replicas];
    status.observed_generation == deployment.metadata.generation
        && counts.iter().all(|count| *count == Some(replicas))
}

fn is_set_updated(set: &StatefulSet, replicas: i32) -> bool {
    let status = set.status.clone().unwrap_or_default();
    status.observed_generation == set.metadata.generation
        && status.ready_replicas == Some(replicas)
        && status.updated_replicas == Some(replicas)
        && status.current_revision == status.update_revision
}

fn is_complete(job: &Job) -> bool {
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|one| one.type_ == "Complete" && one.status == "True")
}

fn ready_addresses(slices: &[EndpointSlice]) -> Vec<String> {
    let endpoints = slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
    let ready = endpoints.filter(|endpoint| {
        endpoint.conditions.as_ref().and_then(|conditions| conditions.ready) == Some(true)
    });
    let mut addresses: Vec<String> =
        ready.flat_map(|endpoint| endpoint.addresses.iter().cloned()).collect();
    addresses.sort();
    addresses.dedup();
    addresses
}

/// How many pods each node has.
fn spread(pods: &[Pod]) -> BTreeMap<String, usize> {
    let mut spread = BTreeMap::new();
    for node in pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone()) {
        *spread.entry(node).or_default() += 1;
    }
    spread
}

/// Creates one object of each kind, changes it, and deletes it.
async fn live(client: Client) {
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let sets: Api<StatefulSet> = Api::default_namespaced(client.clone());
    let jobs: Api<Job> = Api::default_namespaced(client.clone());
    let services: Api<Service> = Api::default_namespaced(client.clone());
    let slices: Api<EndpointSlice> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client);

    let web = create(&services, service()).await;
    let address = web.spec.and_then(|spec| spec.cluster_ip).expect("an address");
    assert!(address.starts_with("10.96."), "{address}");
    create(&deployments, deployment()).await;
    create(&sets, stateful_set()).await;
    create(&jobs, job()).await;
    until(&deployments, "ready", |all| all.iter().all(|one| is_rolled_out(one, 3))).await;
    until(&sets, "ready", |all| all.iter().all(|one| is_set_updated(one, 2))).await;
    let done = until(&jobs, "complete", |all| all.iter().all(is_complete)).await;
    let status = done[0].status.clone().unwrap_or_default();
    assert_eq!((status.succeeded, status.completed_indexes.as_deref()), (Some(3), Some("0-2")));
    until(&slices, "published", |all| ready_addresses(all).len() == 3).await;

    patch(&deployments, "web", json!({"spec": {"replicas": 5}})).await;
    patch(&sets, "db", json!({"spec": {"replicas": 3}})).await;
    until(&deployments, "scaled", |all| all.iter().all(|one| is_rolled_out(one, 5))).await;
    until(&sets, "scaled", |all| all.iter().all(|one| is_set_updated(one, 3))).await;
    assert_eq!(claims.list(&ListParams::default()).await.expect("claims").items.len(), 3);

    patch(&deployments, "web", image("web", "web:2")).await;
    patch(&sets, "db", image("db", "db:2")).await;
    until(&deployments, "rolled out", |all| all.iter().all(|one| is_rolled_out(one, 5))).await;
    until(&sets, "rolled out", |all| all.iter().all(|one| is_set_updated(one, 3))).await;
    let is_new = |pod: &Pod| {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        containers.filter_map(|one| one.image.as_deref()).all(|image| !image.ends_with("b:1"))
    };
    until(&pods, "new", |all| all.len() == 5 + 3 + 3 && all.iter().all(is_new)).await;

    let parameters = DeleteParams::background();
    deployments.delete("web", &parameters).await.expect("deleted");
    sets.delete("db", &parameters).await.expect("deleted");
    jobs.delete("sum", &parameters).await.expect("deleted");
    services.delete("web", &parameters).await.expect("deleted");
    until(&pods, "gone", <[Pod]>::is_empty).await;
    until(&claims, "gone", <[PersistentVolumeClaim]>::is_empty).await;
    until(&slices, "gone", <[EndpointSlice]>::is_empty).await;
}

#[tokio::test(start_paused = true)]
async fn workloads_come_change_and_go() {
    let cluster = Cluster::builder().nodes(3).start().await.expect("a cluster");
    assert_eq!((cluster.url(), cluster.kubeconfig()), (None, None));
    live(cluster.client()).await;
    cluster.stop().await.expect("it stops");
}

#[tokio::test]
async fn workloads_live_over_tls() {
    let cluster = Cluster::builder().nodes(2).tls().start().await.expect("a cluster");
    assert!(cluster.url().expect("it listens").starts_with("https://127.0.0.1:"));
    let path = cluster.kubeconfig().expect("a kubeconfig").to_owned();
    let kubeconfig = Kubeconfig::read_from(&path).expect("it can be read");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("a config");
    // Without the token, a request is anonymous and refused.
    let mut anonymous = config.clone();
    anonymous.auth_info = kube::config::AuthInfo::default();
    let pods: Api<Pod> = Api::default_namespaced(Client::try_from(anonymous).expect("a client"));
    let refused = pods.list(&ListParams::default()).await.expect_err("no token");
    assert!(
        matches!(refused, kube::Error::Api(status) if status.code == 401 || status.code == 403)
    );
    // Without the authority's certificate, the client does not trust the server.
    let mut distrustful = config.clone();
    distrustful.root_cert = None;
    let pods: Api<Pod> = Api::default_namespaced(Client::try_from(distrustful).expect("a client"));
    pods.list(&ListParams::default()).await.expect_err("an unknown authority");
    live(Client::try_from(config).expect("a client")).await;
    cluster.stop().await.expect("it stops");
    assert!(!path.exists());
}

#[tokio::test(start_paused = true)]
async fn controllers_show_the_token_that_the_server_asks_for() {
    let server = ApiServer::builder().token("secret", User::named("me"));
    let builder = Cluster::builder().server(server).token("secret");
    let cluster = builder.start().await.expect("a cluster");
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client());
    create(&deployments, deployment()).await;
    until(&deployments, "ready", |all| all.iter().all(|one| is_rolled_out(one, 3))).await;
    cluster.stop().await.expect("it stops");
    let server = ApiServer::builder().token("secret", User::named("me"));
    let refused = Cluster::builder().server(server).start().await.expect_err("no token");
    assert_eq!(refused.to_string(), "node node-1 cannot be created");
}

#[tokio::test(start_paused = true)]
async fn node_can_be_drained() {
    let cluster = Cluster::builder().nodes(3).start().await.expect("a cluster");
    let client = cluster.client();
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let nodes: Api<Node> = Api::all(client);
    let mut six = deployment();
    six["spec"]["replicas"] = 6.into();
    create(&deployments, six).await;
    until(&deployments, "ready", |all| all.iter().all(|one| is_rolled_out(one, 6))).await;
    let before = pods.list(&ListParams::default()).await.expect("pods").items;
    assert!(spread(&before).values().all(|count| *count == 2), "{:?}", spread(&before));
    let addresses: std::collections::BTreeSet<_> =
        before.iter().filter_map(|pod| pod.status.as_ref()?.pod_ip.clone()).collect();
    assert_eq!(addresses.len(), 6);

    // As `kubectl drain` does.
    nodes.cordon("node-1").await.expect("cordoned");
    for pod in before.iter().filter(|pod| {
        pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some("node-1")
    }) {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        pods.evict(name, &EvictParams::default()).await.expect("evicted");
    }
    until(&pods, "elsewhere", |all| {
        let spread = spread(all);
        spread.len() == 2 && spread.values().all(|count| *count == 3)
    })
    .await;
    // With all nodes cordoned, pods stay pending, with a condition that says why.
    for node in ["node-2", "node-3"] {
        nodes.cordon(node).await.expect("cordoned");
    }
    patch(&deployments, "web", json!({"spec": {"replicas": 7}})).await;
    let is_refused = |pod: &Pod| {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let mut messages = conditions.into_iter().filter_map(|one| one.message.as_deref());
        messages.any(|message| {
            message.starts_with("0/3 nodes are available: 3 node(s) were unschedulable.")
        })
    };
    until(&pods, "refused", |all| all.iter().any(is_refused)).await;
    nodes.uncordon("node-1").await.expect("uncordoned");
    until(&deployments, "ready", |all| all.iter().all(|one| is_rolled_out(one, 7))).await;
    cluster.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn bad_settings_are_refused_with_a_reason() {
    let many = Cluster::builder().nodes(5000).start().await.expect_err("too many nodes");
    assert_eq!(many.to_string(), "there can be 2048 nodes, not 5000");
    let nowhere = Cluster::builder().listen(([192, 0, 2, 1], 1).into()).start().await;
    assert!(matches!(nowhere, Err(ClusterError::Listen { .. })));
    let file = tempfile::NamedTempFile::new().expect("a file");
    let builder = Cluster::builder().listen(([127, 0, 0, 1], 0).into()).kubeconfig(file.path());
    assert!(matches!(builder.start().await, Err(ClusterError::Kubeconfig { .. })));
}

#[tokio::test(start_paused = true)]
async fn namespaces_have_a_default_service_account_in_both_modes() {
    for mode in [Authorization::AlwaysAllow, Authorization::Rbac] {
        let server = ApiServer::builder().authorization(mode);
        let cluster = Cluster::builder().server(server).start().await.expect("a cluster");
        let client = cluster.client();
        let namespace = json!({"metadata": {"name": "team"}});
        create(&Api::<Namespace>::all(client.clone()), namespace).await;
        for namespace in ["default", "kube-system", "team"] {
            let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
            let found = accounts.get_opt("default").await.expect("an answer");
            assert!(found.is_some(), "{namespace} with {mode:?}");
        }
        cluster.stop().await.expect("stopped");
    }
}

#[tokio::test]
async fn kubeconfig_is_gone_when_the_cluster_is_dropped() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("config");
    let address = "127.0.0.1:0".parse().expect("an address");
    let cluster = Cluster::builder().listen(address).kubeconfig(&path).start().await;
    let cluster = cluster.expect("a cluster");
    assert!(path.exists());
    drop(cluster);
    assert!(!path.exists());
}
