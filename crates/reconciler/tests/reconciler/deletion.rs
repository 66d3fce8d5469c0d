//! How objects are deleted and evicted. What is claimed about the server holds on both.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::{Value, json};
use windlass_indexer::ObjectKey;
use windlass_informer::client::status_of;
use windlass_reconciler::{Class, ControllerBuilder, Error, Propagation, RunContext, WriteOptions};
use windlass_testserver::{TestServer, on_each_server};

use crate::stage::in_a_run;

fn plain(builder: ControllerBuilder<ConfigMap>) -> ControllerBuilder<ConfigMap> {
    builder
}

fn map(namespace: &str, name: &str) -> ConfigMap {
    let metadata = json!({"name": name, "namespace": namespace});
    serde_json::from_value(json!({"metadata": metadata})).expect("an object")
}

fn pod(namespace: &str, name: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {"nodeName": "node", "containers": [{"name": "web", "image": "web"}]},
    }))
    .expect("an object")
}

on_each_server!(pod_is_evicted_at_once_if_it_has_no_budget);
async fn pod_is_evicted_at_once_if_it_has_no_budget(cluster: TestServer) {
    let namespace = cluster.namespace("deletion").await.expect("a namespace");
    in_a_run(&cluster, &namespace, plain, |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let namespace = owner.namespace().expect("a namespace");
            let live = cx.live::<Pod>();
            let mut free = pod(&namespace, "free");
            // No node has to stop it first.
            free.spec.get_or_insert_default().node_name = None;
            let free = live.create(&free).await?;
            live.evict(&free).await?;
            assert!(live.get(&ObjectKey::namespaced(&namespace, "free")).await?.is_none());
            live.evict(&free).await?;
            let error = cx.live::<ConfigMap>().evict(&owner).await.expect_err("it is no pod");
            assert_eq!(error.to_string(), "a ConfigMap cannot be evicted: only pods can");
            Ok::<(), Error>(())
        })
    })
    .await
    .expect("everything goes");
}

/// Writes a part of a status, as the controller of the kind does.
async fn write_status<K>(api: &Api<K>, name: &str, status: Value) -> Result<(), kube::Error>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status(name, &PatchParams::default(), &patch).await.map(drop)
}

on_each_server!(eviction_that_a_budget_refuses_is_throttled_and_leaves_the_pod);
/// The budget allows no disruption, and then one.
async fn eviction_that_a_budget_refuses_is_throttled_and_leaves_the_pod(cluster: TestServer) {
    let namespace = cluster.namespace("deletion").await.expect("a namespace");
    in_a_run(&cluster, &namespace, plain, |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let namespace = owner.namespace().expect("a namespace");
            let (live, key) = (cx.live::<Pod>(), ObjectKey::namespaced(&namespace, "kept"));
            let kept = live.create(&pod(&namespace, "kept")).await?;
            let pods: Api<Pod> = Api::namespaced(cx.client().clone(), &namespace);
            let ready = json!([{"type": "Ready", "status": "True"}]);
            let running = json!({"phase": "Running", "conditions": ready});
            write_status(&pods, "kept", running).await?;
            let budgets: Api<PodDisruptionBudget> =
                Api::namespaced(cx.client().clone(), &namespace);
            let budget = serde_json::from_value(json!({
                "metadata": {"name": "kept"},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}},
            }))?;
            budgets.create(&PostParams::default(), &budget).await?;
            let allowed = |disruptions: u8| {
                json!({"observedGeneration": 1, "disruptionsAllowed": disruptions,
                        "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1})
            };
            write_status(&budgets, "kept", allowed(0)).await?;

            let error = live.evict(&kept).await.expect_err("the budget is against it");
            assert_eq!(error.class(), Class::Throttled, "{error}");
            let refusal =
                windlass_informer::client::error_chain(error.source()).find_map(status_of);
            assert_eq!(refusal.map(|status| status.code), Some(429));
            let is_terminating = |pod: Option<Pod>| pod?.metadata.deletion_timestamp.map(drop);
            assert!(live.get(&key).await?.is_some());
            assert_eq!(is_terminating(live.get(&key).await?), None);

            write_status(&budgets, "kept", allowed(1)).await?;
            live.evict(&kept).await?;
            assert_eq!(is_terminating(live.get(&key).await?), Some(()), "its node has to stop it");
            Ok::<(), Error>(())
        })
    })
    .await
    .expect("everything goes");
}

on_each_server!(deletion_is_propagated_as_it_is_asked_for);
/// The server puts a finalizer for the garbage collector, which is seen whether there is one or
/// not.
async fn deletion_is_propagated_as_it_is_asked_for(cluster: TestServer) {
    let namespace = cluster.namespace("deletion").await.expect("a namespace");
    in_a_run(&cluster, &namespace, plain, |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let namespace = owner.namespace().expect("a namespace");
            let maps: Api<ConfigMap> = Api::namespaced(cx.client().clone(), &namespace);
            for (propagation, name, finalizer) in [
                (Propagation::Background, "background", None),
                (Propagation::Foreground, "foreground", Some("foregroundDeletion")),
                (Propagation::Orphan, "orphan", Some("orphan")),
            ] {
                let made = cx.live().create(&map(&namespace, name)).await?;
                let only = WatchParams::default().fields(&format!("metadata.name={name}"));
                let version = made.resource_version().expect("a version");
                let mut events = maps.watch(&only, &version).await?.boxed();
                let options = WriteOptions::new().propagation(propagation);
                cx.live().with(options).delete(&made).await?;
                let seen = match events.try_next().await? {
                    Some(WatchEvent::Modified(map)) => map.finalizers().first().cloned(),
                    Some(WatchEvent::Deleted(_)) => None,
                    other => panic!("{other:?}"),
                };
                assert_eq!(seen.as_deref(), finalizer, "{name}");
            }
            Ok::<(), Error>(())
        })
    })
    .await
    .expect("everything goes");
}

#[tokio::test(start_paused = true)]
async fn deletion_is_waited_for_or_says_what_keeps_the_object() {
    let cluster = TestServer::embedded();
    in_a_run(&cluster, "default", plain, |_: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let (live, limit) = (cx.live::<ConfigMap>(), Duration::from_secs(30));
            let made = live.create(&map("default", "free")).await?;
            live.delete_and_wait(&made, limit).await?;
            live.delete_and_wait(&made, limit).await?;
            let mut held = map("default", "held");
            held.finalizers_mut().push("example.com/hold".into());
            let held = live.create(&held).await?;
            let error = live.delete_and_wait(&held, limit).await.expect_err("it is held");
            let told = "waited 30s for ConfigMap default/held to be gone: it has the finalizers \
                        example.com/hold";
            assert!(error.to_string().starts_with(told), "{error}");
            Ok::<(), Error>(())
        })
    })
    .await
    .expect("everything goes");
}
