//! The story that the program tells without a cluster.
//!
//! The embedded API server, the controllers that make pods of Deployments, and the operator run in
//! this process. Nothing listens, and no kubeconfig is read.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Secret};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;
use windlass::indexer::{DecodeError, Lister};
use windlass::prelude::*;
use windlass_apiserver::ApiServer;
use windlass_workloads::Workloads;

use crate::annotation::RESTART;
use crate::run::manager;
use crate::throttle::Throttle;
use crate::workload::Workload as _;

const NAMESPACE: &str = "default";

/// How long anything may take. It takes milliseconds; beyond this something is broken.
const WAIT_MAX: Duration = Duration::from_mins(2);

/// Tells the story on a cluster in this process.
///
/// # Errors
/// If something does not happen that must.
pub async fn run() -> Result<()> {
    let server = ApiServer::new();
    let client = ClientStack::new().around(server.service(), NAMESPACE);
    let factory = SharedInformerFactory::new(client);
    let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
    let (workloads, token) = (Workloads::new(&factory), stop.clone());
    tasks.spawn(async move { Ok(workloads.run(token).await?) });
    let told = tokio::select! {
        told = tell(&factory, &server) => told,
        ended = tasks.join_next() => Err(anyhow!("the workloads have stopped: {ended:?}")),
    };
    stop.cancel();
    while let Some(ended) = tasks.join_next().await {
        let ended: Result<()> = ended?;
        ended?;
    }
    factory.shut_down().await;
    told
}

async fn tell(factory: &SharedInformerFactory, server: &ApiServer) -> Result<()> {
    say("An API server runs in this process, with controllers that make pods of Deployments.");

    say("\n1. A Deployment takes a ConfigMap and a Secret, and asks for restarts.");
    create::<ConfigMap>(factory, json!({"metadata": {"name": "settings"}, "data": {"a": "1"}}))
        .await?;
    create::<Secret>(factory, password("old")).await?;
    create::<Deployment>(factory, deployment("web", "password")).await?;
    wait_for_rollout(factory, "web", false).await?;
    show_pods(factory, "web").await?;

    say("\n2. What would the restarter do here? `run --plan` says it, and changes nothing.");
    let plan = operator(server)?.plan().await?.to_string();
    for line in plan.lines() {
        say(&format!("   {line}"));
    }

    say("\n3. The restarter starts. The first hash is a restart, too.");
    let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
    running.spawn(operator(server)?.run_until(stop.clone()));
    wait_for_rollout(factory, "web", true).await?;
    show_pods(factory, "web").await?;

    say("\n4. Somebody changes the Secret.");
    let before: Deployment = api(factory).get("web").await?;
    let (secrets, patch) = (api::<Secret>(factory), Patch::Merge(password("new")));
    secrets.patch("password", &PatchParams::default(), &patch).await?;
    let is_new = |web: &Deployment| web.hash() != before.hash() && is_rolled_out(web);
    wait_until(factory, "the Deployment has another hash", |all| any(all, is_new)).await?;
    show_pods(factory, "web").await?;

    say("\n5. Another Deployment needs a Secret that is not there yet.");
    create::<Deployment>(factory, deployment("shop", "missing")).await?;
    show_event(factory, "shop", "ConfigMissing").await?;
    say("   The Secret is created.");
    let secret = json!({"metadata": {"name": "missing"}, "stringData": {"password": "secret"}});
    create::<Secret>(factory, secret).await?;
    show_event(factory, "shop", "ConfigChanged").await?;
    wait_for_rollout(factory, "shop", true).await?;
    show_pods(factory, "shop").await?;

    stop.cancel();
    running.join_next().await.context("the operator ran")???;
    say("\nThat was all. `run --kubeconfig FILE` does it on your cluster.");
    Ok(())
}

/// The operator, on the embedded server and without addresses.
fn operator(server: &ApiServer) -> Result<Manager> {
    let mut options = Options::default();
    options.health_probe_bind_address = "0".to_owned();
    options.metrics_bind_address = "0".to_owned();
    options.leader_election_namespace = Some(NAMESPACE.to_owned());
    let server = server.clone();
    let connect = move |stack: ClientStack| Ok(stack.around(server.service(), NAMESPACE));
    Ok(manager(options, Throttle::new(1.0, 100)?).connect(connect).without_logs())
}

fn password(password: &str) -> Value {
    json!({"metadata": {"name": "password"}, "stringData": {"password": password}})
}

fn deployment(name: &str, secret: &str) -> Value {
    let labels = json!({"app": name});
    let password = json!({"secretKeyRef": {"name": secret, "key": "password"}});
    json!({
        "metadata": {"name": name, "annotations": {RESTART: "true"}},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {
                "containers": [{
                    "name": "main", "image": "example.com/web",
                    "env": [{"name": "PASSWORD", "valueFrom": password}],
                }],
                "volumes": [{"name": "settings", "configMap": {"name": "settings"}}],
            },
        }},
    })
}

fn is_rolled_out(deployment: &Deployment) -> bool {
    let (wanted, status) = (deployment.spec.replicas, deployment.status.as_ref());
    status.is_some_and(|status| {
        status.observed_generation == deployment.metadata.generation
            && [status.replicas, status.updated_replicas, status.available_replicas] == [wanted; 3]
    })
}

async fn wait_for_rollout(
    factory: &SharedInformerFactory,
    name: &str,
    has_hash: bool,
) -> Result<()> {
    let is_so = |deployment: &Deployment| {
        deployment.name_any() == name
            && deployment.hash().is_some() == has_hash
            && is_rolled_out(deployment)
    };
    wait_until(factory, "the Deployment is rolled out", |all| any(all, is_so)).await
}

async fn show_pods(factory: &SharedInformerFactory, app: &str) -> Result<()> {
    let of_app = ListParams::default().labels(&format!("app={app}"));
    let pods = api::<Pod>(factory).list(&of_app).await?;
    let pods: Vec<String> = pods.iter().map(Pod::name_any).collect();
    say(&format!("   pods of {app}: {}", pods.join(" ")));
    Ok(())
}

async fn show_event(factory: &SharedInformerFactory, about: &str, reason: &str) -> Result<()> {
    let is_it = |event: &Event| {
        event.involved_object.name.as_deref() == Some(about)
            && event.reason.as_deref() == Some(reason)
    };
    wait_until(factory, "there is an event", |all| any(all, is_it)).await?;
    let events = api::<Event>(factory).list(&ListParams::default()).await?;
    let event = events.into_iter().find(is_it).context("the event is gone")?;
    let [kind, message] = [event.type_, event.message].map(Option::unwrap_or_default);
    say(&format!("   {kind} {reason} {about}: {message}"));
    Ok(())
}

async fn create<K>(factory: &SharedInformerFactory, object: Value) -> Result<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug,
    K: Serialize + DeserializeOwned,
{
    let object = serde_json::from_value(object)?;
    api::<K>(factory).create(&PostParams::default(), &object).await?;
    Ok(())
}

fn api<K>(factory: &SharedInformerFactory) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(factory.client().clone(), NAMESPACE)
}

/// Whether one of the objects is so.
fn any<K: DeserializeOwned + Send + Sync + 'static>(
    objects: &Lister<K>,
    is_so: impl Fn(&K) -> bool,
) -> Result<bool, DecodeError> {
    let mut found = false;
    for object in &objects.list() {
        found |= is_so(&*object.get()?);
    }
    Ok(found)
}

/// Waits until it is so, of the objects of a type. `what` is for people, if it never is.
///
/// # Errors
/// If it is not so in time, or if the objects cannot be watched.
pub async fn wait_until<K>(
    factory: &SharedInformerFactory,
    what: &str,
    is_so: impl Fn(&Lister<K>) -> Result<bool, DecodeError>,
) -> Result<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: DeserializeOwned + Send + Sync + 'static,
{
    let informer = factory.informer::<K>()?;
    let mut events = informer.subscribe_with(HandlerOptions::new().resync(Duration::ZERO))?;
    // It may be the first to ask for this type.
    factory.start();
    let wait = async {
        informer.wait_for_sync().await?;
        while !is_so(informer.lister())? {
            events.next().await.context("the informer has stopped")?;
        }
        anyhow::Ok(())
    };
    timeout(WAIT_MAX, wait).await.with_context(|| format!("it takes too long until {what}"))?
}

/// Nobody may be listening, as behind `| head -1`; that is no reason to stop.
fn say(line: &str) {
    drop(writeln!(std::io::stdout(), "{line}"));
}
