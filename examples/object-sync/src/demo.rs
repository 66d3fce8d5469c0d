//! The story that the program tells without a cluster.
//!
//! The embedded API server and the operator run in this process. Nothing listens, and no kubeconfig
//! is read.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{CustomResourceExt as _, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;
use windlass::prelude::*;
use windlass::reconciler::install_crd;
use windlass_apiserver::ApiServer;

use crate::run::manager;
use crate::status::READY;
use crate::sync::ResourceSync;

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
    install_crd(&client, &ResourceSync::crd()).await?;
    let factory = SharedInformerFactory::new(client);
    let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
    running.spawn(operator(&server).run_until(stop.clone()));
    let told = tokio::select! {
        told = tell(&factory) => told,
        ended = running.join_next() => {
            ended.context("the operator must have been started")???;
            Err(anyhow::anyhow!("the operator has stopped"))
        }
    };
    stop.cancel();
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    factory.shut_down().await;
    told
}

async fn tell(factory: &SharedInformerFactory) -> Result<()> {
    say("An API server and the operator run in this process.");

    say("\n1. A ConfigMap is copied: `blue` is the source, `sky` the target.");
    create::<ConfigMap>(factory, config_map("blue", "blue")).await?;
    create::<ResourceSync>(factory, sync("sky", ("ConfigMap", "blue"), "ConfigMap", &[])).await?;
    show_color(factory, "sky", "blue").await?;

    say("\n2. The source changes, and so does the target.");
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(config_map("blue", "azure")));
    api::<ConfigMap>(factory).patch("blue", &parameters, &patch).await?;
    show_color(factory, "sky", "azure").await?;

    say("\n3. Somebody paints the target, and then deletes it. Both is repaired.");
    let patch = Patch::Merge(config_map("sky", "green"));
    let before = api::<ConfigMap>(factory).get("sky").await?.resource_version();
    let painted = api::<ConfigMap>(factory).patch("sky", &parameters, &patch).await?;
    wait_for(factory, "the paint is gone", |maps: &[Arc<ConfigMap>]| {
        let sky = maps.iter().find(|map| map.name_any() == "sky")?.resource_version();
        (sky != before && sky != painted.resource_version()).then_some(())
    })
    .await?;
    show_color(factory, "sky", "azure").await?;
    let first = api::<ConfigMap>(factory).get("sky").await?.uid();
    api::<ConfigMap>(factory).delete("sky", &DeleteParams::default()).await?;
    wait_for(factory, "there is another one", |maps: &[Arc<ConfigMap>]| {
        maps.iter().any(|map| map.name_any() == "sky" && map.uid() != first).then_some(())
    })
    .await?;
    show_color(factory, "sky", "azure").await?;

    say("\n4. A key of a Secret becomes a key of a ConfigMap. The Secret is not there yet.");
    let mappings = [("data['tls.crt']", "binaryData['ca.crt']")];
    create::<ResourceSync>(factory, sync("trust", ("Secret", "tls"), "ConfigMap", &mappings))
        .await?;
    show_condition(factory, "trust", "SourceMissing").await?;
    say("   The Secret is created.");
    let secret = json!({
        "metadata": {"name": "tls"}, "stringData": {"tls.crt": "public", "tls.key": "private"},
    });
    create::<Secret>(factory, secret).await?;
    show_condition(factory, "trust", "Synced").await?;
    let trust = api::<ConfigMap>(factory).get("trust").await?;
    let keys: Vec<_> = trust.binary_data.iter().flatten().map(|(key, _)| key.as_str()).collect();
    say(&format!("   ConfigMap trust has: {}", keys.join(" ")));

    say("\n5. A sync whose target belongs to somebody else leaves it alone.");
    create::<ConfigMap>(factory, config_map("mine", "red")).await?;
    create::<ResourceSync>(factory, sync("mine", ("ConfigMap", "blue"), "ConfigMap", &[])).await?;
    show_condition(factory, "mine", "TargetRefused").await?;
    show_color(factory, "mine", "red").await?;

    say("\n6. The first sync is deleted, and its target with it.");
    api::<ResourceSync>(factory).delete("sky", &DeleteParams::default()).await?;
    wait_for(factory, "the sync is gone", |syncs: &[Arc<ResourceSync>]| {
        syncs.iter().all(|sync| sync.name_any() != "sky").then_some(())
    })
    .await?;
    let left = api::<ConfigMap>(factory).get_opt("sky").await?;
    say(if left.is_none() { "   both are gone" } else { "   the target is left" });

    say("\nThat was all. `run --kubeconfig FILE` does it on your cluster.");
    Ok(())
}

/// The operator, on the embedded server and without addresses.
fn operator(server: &ApiServer) -> Manager {
    let mut options = Options::default().without_http();
    options.leader_election_namespace = Some(NAMESPACE.to_owned());
    let server = server.clone();
    let connect = move |stack: ClientStack| Ok(stack.around(server.service(), NAMESPACE));
    manager(options).connect(connect).without_logs()
}

fn config_map(name: &str, color: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"color": color}})
}

/// A sync that has the name of its target.
fn sync(name: &str, source: (&str, &str), target: &str, mappings: &[(&str, &str)]) -> Value {
    let (kind, source) = source;
    let mappings = mappings.iter();
    let mappings = mappings.map(|(from, to)| json!({"fromFieldPath": from, "toFieldPath": to}));
    json!({
        "metadata": {"name": name},
        "spec": {
            "source": {"apiVersion": "v1", "kind": kind, "name": source},
            "target": {"apiVersion": "v1", "kind": target, "name": name},
            "mappings": mappings.collect::<Vec<_>>(),
        },
    })
}

/// Waits until a `ConfigMap` has a color, and shows it.
async fn show_color(factory: &SharedInformerFactory, name: &str, color: &str) -> Result<()> {
    let what = format!("{name} is {color}");
    wait_for(factory, &what, |maps: &[Arc<ConfigMap>]| {
        let map = maps.iter().find(|map| map.name_any() == name)?;
        (map.data.as_ref()?.get("color")? == color).then_some(())
    })
    .await?;
    say(&format!("   ConfigMap {what}"));
    Ok(())
}

/// Waits until the condition of a sync has this reason, and shows it.
async fn show_condition(factory: &SharedInformerFactory, name: &str, reason: &str) -> Result<()> {
    let what = format!("{name} is {reason}");
    let told = wait_for(factory, &what, |syncs: &[Arc<ResourceSync>]| {
        let sync = syncs.iter().find(|sync| sync.name_any() == name)?;
        let ready = READY.find(&sync.status.as_ref()?.conditions)?;
        (ready.reason == reason)
            .then(|| format!("Ready={} {reason}: {}", ready.status, ready.message))
    });
    say(&format!("   ResourceSync {name} {}", told.await?));
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

/// Waits until `look` finds something among all objects of a type. `what` is for people, if it
/// never does.
async fn wait_for<K, R>(
    factory: &SharedInformerFactory,
    what: &str,
    look: impl Fn(&[Arc<K>]) -> Option<R>,
) -> Result<R>
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
            let objects = informer.lister().list();
            let objects = objects.iter().map(|object| object.get());
            if let Some(found) = look(&objects.collect::<Result<Vec<_>, _>>()?) {
                return Ok(found);
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
