//! Reading one's own writes: the next run of a key sees in the caches what the last one wrote.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::mpsc;
use windlass_indexer::ObjectKey;
use windlass_informer::Scope;
use windlass_reconciler::{Action, Controller, RunContext, Watch, WriteEffect};
use windlass_testserver::apiserver::{Fault, FaultRule};
use windlass_testserver::{TestServer, on_each_server};

use crate::stage::{cluster, create, does, run_built, run_with};

fn secret(name: &str) -> Secret {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}}))
        .expect("an object")
}

on_each_server!(what_a_run_made_is_in_the_cache_of_the_next);
/// Makes a Secret for its object unless the cache has it, at once again, twenty times; and would
/// fail if the cache did not have what was made.
async fn what_a_run_made_is_in_the_cache_of_the_next(cluster: TestServer) {
    let client = cluster.client().expect("a client");
    create(&client, "maker").await;
    let (said, mut runs) = mpsc::channel(100);
    let maker = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            // The real server is shared with other tests.
            if cx.key().name() != "maker" {
                return Ok(Action::done());
            }
            let secrets = cx.list::<Secret>()?;
            let made = secrets
                .in_namespace("default")
                .iter()
                .filter(|secret| secret.key().name().starts_with("made-"))
                .count();
            said.send((made, cx.cache_behind())).await?;
            if made == 20 {
                return Ok(Action::done());
            }
            // It would exist already, if the cache had not shown it.
            cx.live().create(&secret(&format!("made-{made}"))).await?;
            Ok(Action::requeue_after(Duration::ZERO))
        })
    });
    let running = run_with(client.clone(), |builder| builder.reads(Watch::<Secret>::new()), maker);
    for number in 0..=20 {
        assert_eq!(runs.recv().await, Some((number, false)));
    }
    running.end().await.expect("it stops");
}

on_each_server!(what_a_run_deleted_is_gone_from_the_cache_of_the_next);
async fn what_a_run_deleted_is_gone_from_the_cache_of_the_next(cluster: TestServer) {
    let client = cluster.client().expect("a client");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    secrets.create(&PostParams::default(), &secret("old")).await.expect("created");
    create(&client, "deleter").await;
    let (said, mut runs) = mpsc::channel(100);
    let deleter = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            // The real server is shared with other tests.
            if cx.key().name() != "deleter" {
                return Ok(Action::done());
            }
            let held = cx.get::<Secret>("default/old")?;
            said.send(held.is_some()).await?;
            match held {
                Some(secret) => {
                    cx.live().delete(&*secret).await?;
                    Ok(Action::requeue_after(Duration::ZERO))
                }
                None => Ok(Action::done()),
            }
        })
    });
    let running =
        run_with(client.clone(), |builder| builder.reads(Watch::<Secret>::new()), deleter);
    assert_eq!(runs.recv().await, Some(true));
    assert_eq!(runs.recv().await, Some(false));
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn cache_that_does_not_come_after_is_waited_for_five_seconds_and_then_told() {
    let (cluster, client) = cluster().await;
    let server = cluster.server().expect("embedded").clone();
    let (said, mut runs) = mpsc::channel(100);
    let maker = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            said.send((tokio::time::Instant::now(), cx.cache_behind())).await?;
            if !cx.cache_behind() {
                cx.live().create(&secret("made")).await?;
                return Ok(Action::requeue_after(Duration::ZERO));
            }
            Ok(Action::done())
        })
    });
    let late = Fault::DelayEvent(Duration::from_secs(30));
    server.faults().add(FaultRule::new(late).resource("secrets"));
    let running = run_with(client, |builder| builder.reads(Watch::<Secret>::new()), maker);
    let (first, was_behind) = runs.recv().await.expect("a run");
    assert!(!was_behind);
    let (second, is_behind) = runs.recv().await.expect("another run");
    assert!(is_behind);
    assert_eq!((second - first).as_secs(), 5);
    assert_eq!(running.controller.status().counts.behind, 1);
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn every_run_is_told_until_the_cache_shows_what_an_earlier_one_wrote() {
    let (cluster, client) = cluster().await;
    let server = cluster.server().expect("embedded").clone();
    let (said, mut runs) = mpsc::channel(100);
    let maker = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            let is_cached = cx.cache::<Secret>()?.cached("default/made").is_some();
            said.send((is_cached, cx.cache_behind())).await?;
            if !is_cached && !cx.cache_behind() {
                // A second time it would be there already, and the run would fail.
                cx.live().create(&secret("made")).await?;
            }
            Ok(if is_cached {
                Action::done()
            } else {
                Action::requeue_after(Duration::from_secs(4))
            })
        })
    });
    let late = Fault::DelayEvent(Duration::from_secs(12));
    server.faults().add(FaultRule::new(late).resource("secrets"));
    let running = run_with(client, |builder| builder.reads(Watch::<Secret>::new()), maker);
    let mut seen = Vec::new();
    while seen.last() != Some(&(true, false)) {
        seen.push(runs.recv().await.expect("a run"));
    }
    assert_eq!(seen, [(false, false), (false, true), (false, true), (true, false)]);
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn writes_that_no_cache_of_the_controller_shows_are_not_waited_for() {
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let maker = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            said.send((tokio::time::Instant::now(), cx.cache_behind())).await?;
            // Not watched at all; watched with other labels; watched in another namespace.
            if cx.live::<Secret>().get(&"default/made".parse()?).await?.is_none() {
                cx.live().create(&secret("made")).await?;
            }
            Ok(Action::requeue_after(Duration::from_mins(1)))
        })
    });
    let labelled = Watch::<Secret>::new().options(|informer| informer.label_selector("app=web"));
    let elsewhere = Watch::<Secret>::new().options(|informer| informer.namespace("kube-system"));
    let running = run_with(client, |builder| builder.reads(labelled).reads(elsewhere), maker);
    let (first, _) = runs.recv().await.expect("a run");
    let (second, is_behind) = runs.recv().await.expect("another run");
    assert!(!is_behind);
    assert_eq!(second - first, Duration::from_mins(1));
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn runs_tell_what_they_wrote_and_that_they_were_woken_by_it() {
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let labeller = does(move |object: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            let mut new = ConfigMap::clone(&object);
            new.labels_mut().insert("seen".to_owned(), "yes".to_owned());
            cx.live().update(&*object, &new).await?;
            said.send(()).await?;
            Ok(Action::done())
        })
    });
    let running = run_with(client.clone(), |builder| builder, labeller);
    runs.recv().await.expect("a run");
    runs.recv().await.expect("the run that its write led to");
    let key: ObjectKey = "default/one".parse().expect("a key");
    // What a run leaves behind is noted right after it.
    while running.controller.runs(&key).len() < 2 {
        tokio::task::yield_now().await;
    }
    let told = running.controller.runs(&key);
    let write = told[0].writes[0].to_string();
    let version = told[0].writes[0].version.as_ref().expect("a version").to_string();
    assert_eq!(write, format!("patch configmaps default/one at {version}"));
    assert_eq!(
        told[1].causes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [format!("ConfigMap default/one updated at {version}, by a run before")]
    );
    assert!(told[1].writes.is_empty());

    // What somebody else does is nobody's own write.
    crate::stage::api(&client).delete("one", &DeleteParams::default()).await.expect("deleted");
    while running.controller.runs(&key).len() < 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(!running.controller.runs(&key)[2].causes[0].is_by_us());
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn run_tells_of_a_write_that_it_changed_nothing() {
    let (_cluster, client) = cluster().await;
    let there = crate::stage::api(&client).get("one").await.expect("it is there");
    let patcher = does(|_: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let patch = Patch::Merge(json!({"metadata": {"name": "one"}}));
            crate::stage::api(cx.client()).patch("one", &PatchParams::default(), &patch).await?;
            Ok(Action::done())
        })
    });
    let running = run_with(client, |builder| builder, patcher);
    let key: ObjectKey = "default/one".parse().expect("a key");
    // On the paused clock, this takes no time.
    while running.controller.runs(&key).is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let write = running.controller.runs(&key).remove(0).writes.remove(0);
    let version = there.resource_version().expect("a version");
    let told = format!("patch configmaps default/one at {version}, no change");
    assert_eq!((write.effect, write.to_string()), (WriteEffect::Unchanged, told));
    running.end().await.expect("it stops");
}

/// Removes the finalizers of an object that is being deleted, and then expects a cache that shows
/// it, at once.
async fn release<K>(cluster: &TestServer, namespace: &str, key: ObjectKey, watch: Watch<K>)
where
    K: kube::Resource<DynamicType = (), Scope: Scope>
        + Serialize
        + DeserializeOwned
        + Clone
        + Send
        + Sync
        + 'static,
{
    let client = cluster.client().expect("a client");
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let object = json!({"metadata": {"name": "releaser"}});
    let object = serde_json::from_value(object).expect("an object");
    api.create(&PostParams::default(), &object).await.expect("created");
    let (said, mut runs) = mpsc::channel(100);
    let releaser = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let (said, key) = (said.clone(), key.clone());
        Box::pin(async move {
            let held = cx.get::<K>(&key)?;
            let is_held = held.is_some_and(|held| !held.finalizers().is_empty());
            said.send((is_held, cx.cache_behind())).await?;
            if !is_held {
                return Ok(Action::done());
            }
            cx.live::<K>().modify(&key, |object| object.finalizers_mut().clear()).await?;
            Ok(Action::requeue_after(Duration::ZERO))
        })
    });
    let (scope, one) = (namespace.to_owned(), "metadata.name=releaser");
    let releasers =
        Watch::<ConfigMap>::new().options(move |o| o.namespace(scope).field_selector(one));
    let running =
        run_built(client, Controller::named("configmap", releasers).reads(watch), releaser);
    assert_eq!(runs.recv().await, Some((true, false)));
    assert_eq!(runs.recv().await, Some((false, false)));
    running.end().await.expect("it stops");
}

on_each_server!(pod_with_a_grace_period_is_not_expected_to_be_gone_without_its_finalizer);
/// A pod on a node stays until the kubelet has stopped it, also without finalizers.
async fn pod_with_a_grace_period_is_not_expected_to_be_gone_without_its_finalizer(
    cluster: TestServer,
) {
    let namespace = cluster.namespace("grace").await.expect("a namespace");
    let api: Api<Pod> = Api::namespaced(cluster.client().expect("a client"), &namespace);
    let pod = json!({
        "metadata": {"name": "web", "finalizers": ["example.com/held"]},
        "spec": {
            "nodeName": "one", "containers": [{"name": "web", "image": "example.dev/web"}],
        },
    });
    let pod = serde_json::from_value(pod).expect("an object");
    api.create(&PostParams::default(), &pod).await.expect("created");
    api.delete("web", &DeleteParams::default()).await.expect("deleted");
    let scope = namespace.clone();
    let watch = Watch::<Pod>::new().options(move |informer| informer.namespace(scope));
    release(&cluster, &namespace, ObjectKey::namespaced(&namespace, "web"), watch).await;
    let left = api.get("web").await.expect("it is still there");
    assert_eq!(left.metadata.deletion_grace_period_seconds, Some(30));
}

on_each_server!(namespace_with_finalizers_in_its_spec_is_not_expected_to_be_gone);
/// A namespace has finalizers in its spec, too: it stays until it is empty.
async fn namespace_with_finalizers_in_its_spec_is_not_expected_to_be_gone(cluster: TestServer) {
    let namespace = cluster.namespace("releaser").await.expect("a namespace");
    let api: Api<Namespace> = Api::all(cluster.client().expect("a client"));
    let held = json!({
        "metadata": {"generateName": "held-", "finalizers": ["example.com/held"]},
        "spec": {"finalizers": ["example.com/held-too"]},
    });
    let held = serde_json::from_value(held).expect("an object");
    let held = api.create(&PostParams::default(), &held).await.expect("created").name_any();
    api.delete(&held, &DeleteParams::default()).await.expect("deleted");
    let watch = Watch::<Namespace>::new();
    release(&cluster, &namespace, ObjectKey::cluster(&held), watch).await;
    api.get(&held).await.expect("it is still there");
}
