//! The story that the program tells without a cluster.
//!
//! The embedded API server, the controllers that make pods of Deployments, and the operator run in
//! this process. Nothing listens, and no kubeconfig is read.

use std::io::Write as _;
use std::sync::Arc;
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
    let settings = json!({"metadata": {"name": "settings"}, "data": {"color": "blue"}});
    create::<ConfigMap>(factory, settings).await?;
    create::<Secret>(factory, secret("password", "old")).await?;
    create::<Deployment>(factory, deployment("web", "password")).await?;
    show_pods(factory, "web", |hash| hash.is_none()).await?;

    say("\n2. What would the restarter do here? `run --plan` says it, and changes nothing.");
    let plan = operator(server)?.plan().await?.to_string();
    plan.lines().for_each(|line| say(&format!("   {line}")));

    say("\n3. The restarter starts. The first hash is a restart, too.");
    let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
    running.spawn(operator(server)?.run_until(stop.clone()));
    let first = show_pods(factory, "web", |hash| hash.is_some()).await?;

    say("\n4. Somebody changes the Secret.");
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(secret("password", "new")));
    api::<Secret>(factory).patch("password", &parameters, &patch).await?;
    show_pods(factory, "web", |hash| hash != first.hash()).await?;

    say("\n5. Another Deployment needs a Secret that is not there yet.");
    create::<Deployment>(factory, deployment("shop", "missing")).await?;
    show_event(factory, "shop", "ConfigMissing").await?;
    say("   The Secret is created.");
    create::<Secret>(factory, secret("missing", "found")).await?;
    show_event(factory, "shop", "ConfigChanged").await?;
    show_pods(factory, "shop", |hash| hash.is_some()).await?;

    stop.cancel();
    running.join_next().await.context("the operator must have been started")???;
    say("\nThat was all. `run --kubeconfig FILE` does it on your cluster.");
    Ok(())
}

/// The operator, on the embedded server and without addresses.
fn operator(server: &ApiServer) -> Result<Manager> {
    let mut options = Options::default().without_http();
    options.leader_election_namespace = Some(NAMESPACE.to_owned());
    let server = server.clone();
    let connect = move |stack: ClientStack| Ok(stack.around(server.service(), NAMESPACE));
    Ok(manager(options, Throttle::new(1.0, 100)?).connect(connect).without_logs())
}

fn secret(name: &str, password: &str) -> Value {
    json!({"metadata": {"name": name}, "stringData": {"password": password}})
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

/// Waits until a Deployment with such a hash is rolled out, and shows its pods.
async fn show_pods(
    factory: &SharedInformerFactory,
    name: &str,
    has_hash: impl Fn(Option<&str>) -> bool,
) -> Result<Arc<Deployment>> {
    let is_rolled_out = |deployment: &Deployment| {
        let (wanted, status) = (deployment.spec.replicas, deployment.status.as_ref());
        status.is_some_and(|status| {
            let replicas = [status.replicas, status.updated_replicas, status.available_replicas];
            status.observed_generation == deployment.metadata.generation && replicas == [wanted; 3]
        })
    };
    let found = wait_for(factory, "the Deployment is rolled out", |deployment: &Deployment| {
        deployment.name_any() == name && has_hash(deployment.hash()) && is_rolled_out(deployment)
    });
    let found = found.await?;
    let of_name = ListParams::default().labels(&format!("app={name}"));
    let pods = api::<Pod>(factory).list(&of_name).await?;
    let pods: Vec<String> = pods.iter().map(Pod::name_any).collect();
    say(&format!("   pods of {name}: {}", pods.join(" ")));
    Ok(found)
}

/// Waits for an event about a Deployment, and shows it.
async fn show_event(factory: &SharedInformerFactory, about: &str, reason: &str) -> Result<()> {
    let event = wait_for(factory, "there is an event", |event: &Event| {
        event.involved_object.name.as_deref() == Some(about)
            && event.reason.as_deref() == Some(reason)
    });
    let event = event.await?;
    let [kind, note] = [&event.type_, &event.message].map(|text| text.as_deref().unwrap_or("?"));
    say(&format!("   {kind} {reason} {about}: {note}"));
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

/// Waits for an object that is so, and returns it. `what` is for people, if there never is one.
async fn wait_for<K>(
    factory: &SharedInformerFactory,
    what: &str,
    is_so: impl Fn(&K) -> bool,
) -> Result<Arc<K>>
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
        loop {
            for object in &informer.lister().list() {
                let object = object.get()?;
                if is_so(&object) {
                    return Ok(object);
                }
            }
            events.next().await.context("the informer has stopped")?;
        }
    };
    timeout(WAIT_MAX, wait).await.with_context(|| format!("it takes too long until {what}"))?
}

/// Nobody may be listening, as behind `| head -1`; that is no reason to stop.
fn say(line: &str) {
    drop(writeln!(std::io::stdout(), "{line}"));
}
