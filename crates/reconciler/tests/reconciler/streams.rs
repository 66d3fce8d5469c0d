//! Sources that are streams, that are of metadata, or that come and go while a controller runs; and
//! whose key comes first.

use std::sync::Arc;
use std::time::Duration;

use futures::stream;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use kube::core::{GroupVersionKind, PartialObjectMeta};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use windlass_indexer::{Cached, Head, Index, ObjectKey};
use windlass_informer::{Resource, SharedInformerFactory};
use windlass_reconciler::{
    Action, AddSourceError, Cause, Controller, ControllerBuilder, Reconcile, RunContext, RunError,
    Watch, install_crd,
};
use windlass_workqueue::Priority;

use crate::stage::{cluster, create, does, run_built, run_with};

/// A reconciler that says which key ran and why.
fn reporter(said: mpsc::Sender<String>) -> impl Reconcile<ConfigMap> {
    does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            let causes: Vec<_> = cx.causes().iter().map(ToString::to_string).collect();
            said.send(format!("{} because {}", cx.key(), causes.join(", "))).await?;
            Ok(Action::done())
        })
    })
}

fn key(text: &str) -> ObjectKey {
    text.parse().expect("a key")
}

#[tokio::test(start_paused = true)]
async fn keys_of_a_channel_run_and_tell_where_they_came_from() {
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let (webhook, mut calls) = mpsc::channel::<ObjectKey>(10);
    let calls = stream::poll_fn(move |cx| calls.poll_recv(cx));
    let running = run_with(client, |builder| builder.stream("webhook", calls), reporter(said));
    let first = runs.recv().await.expect("the first run");
    assert!(first.starts_with("default/one because ConfigMap default/one was there"), "{first}");
    webhook.send(key("default/one")).await.expect("it is listened to");
    assert_eq!(runs.recv().await.as_deref(), Some("default/one because source webhook"));
    // A stream may end; the controller goes on.
    drop(webhook);
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn stream_that_panics_ends_the_controller_with_an_error() {
    let (_cluster, client) = cluster().await;
    let (said, _runs) = mpsc::channel(100);
    let broken = stream::poll_fn(|_| -> std::task::Poll<Option<ObjectKey>> { panic!("broken") });
    let mut running = run_with(client, |builder| builder.stream("broken", broken), reporter(said));
    let error = running.ended().await.expect_err("it cannot go on");
    assert!(matches!(error, RunError::StreamPanicked), "{error}");
}

#[tokio::test(start_paused = true)]
async fn source_is_added_and_removed_while_the_controller_runs() {
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let running = run_with(client.clone(), |builder| builder, reporter(said));
    runs.recv().await.expect("the first run");

    let secrets: Api<Secret> = Api::namespaced(client, "default");
    let secret = |name: &str| {
        serde_json::from_value(json!({"metadata": {"name": name}})).expect("an object")
    };
    let leads_to_one = |_: &Cached<Secret>| [key("default/one")];
    let source = running
        .controller
        .handle()
        .add_watched(Watch::<Secret>::new(), leads_to_one)
        .expect("a source");
    secrets.create(&PostParams::default(), &secret("a")).await.expect("created");
    let run = runs.recv().await.expect("a run");
    assert!(run.starts_with("default/one because Secret default/a"), "{run}");
    assert_eq!(running.controller.informers().len(), 2);

    assert!(running.controller.handle().remove(source));
    assert!(!running.controller.handle().remove(source));
    secrets.create(&PostParams::default(), &secret("b")).await.expect("created");
    let ran = tokio::time::timeout(Duration::from_hours(1), runs.recv()).await;
    assert!(ran.is_err(), "{ran:?}");
    // Nobody uses the informer of secrets any more.
    assert_eq!(running.factory.status().len(), 1);
    running.end().await.expect("it stops");
}

/// `ConfigMap`s by the Secret of their own name.
#[derive(Clone, PartialEq)]
struct ByName;

impl Index for ByName {
    type View = ();
    type Value = ObjectKey;

    fn values(&self, head: &Head, (): ()) -> impl IntoIterator<Item = ObjectKey> {
        [head.key().clone()]
    }
}

/// An index with settings.
#[derive(PartialEq)]
struct ByPrefix(usize);

impl Index for ByPrefix {
    type View = ();
    type Value = ObjectKey;

    fn values(&self, head: &Head, (): ()) -> impl IntoIterator<Item = ObjectKey> {
        head.name().get(..self.0).map(ObjectKey::cluster)
    }
}

#[tokio::test(start_paused = true)]
async fn controller_with_two_indexes_of_one_type_and_other_settings_is_not_built() {
    let (_cluster, client) = cluster().await;
    let build = |lens: [usize; 2]| {
        let mut builder = Controller::named("configmap", Watch::<ConfigMap>::new());
        for len in lens {
            builder = builder.refers_to(Watch::<Secret>::new(), ByPrefix(len));
        }
        let (said, _) = mpsc::channel(1);
        builder.build(&SharedInformerFactory::new(client.clone()), reporter(said)).map(drop)
    };
    build([1, 1]).expect("equal ones are one");
    let error = build([1, 2]).expect_err("which one is meant?").to_string();
    assert!(error.contains("ByPrefix with other settings"), "{error}");
}

/// An index that nobody has added.
#[derive(PartialEq)]
struct NoIndex;

impl Index for NoIndex {
    type View = ();
    type Value = ObjectKey;

    fn values(&self, _: &Head, (): ()) -> impl IntoIterator<Item = ObjectKey> {
        None
    }
}

#[tokio::test(start_paused = true)]
async fn handle_adds_and_removes_sources_of_kinds_that_are_referred_to() {
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let watch =
        Watch::<ConfigMap>::new().options(|informer| informer.namespace("default").index(ByName));
    let builder = Controller::named("configmap", watch);
    let handle = builder.handle();
    let secrets = || Watch::<Secret>::new();
    let early = handle.add_referred::<_, ByName>(secrets()).expect_err("it is not built");
    assert!(matches!(early, AddSourceError::NoController), "{early}");
    let running = run_built(client.clone(), builder, reporter(said));
    runs.recv().await.expect("the first run");

    let source = handle.add_referred::<_, ByName>(secrets()).expect("a source");
    let api: Api<Secret> = Api::namespaced(client, "default");
    let secret = |name: &str| {
        serde_json::from_value(json!({"metadata": {"name": name}})).expect("an object")
    };
    for name in ["other", "one"] {
        api.create(&PostParams::default(), &secret(name)).await.expect("created");
    }
    let run = runs.recv().await.expect("a run");
    assert!(run.starts_with("default/one because Secret default/one"), "{run}");
    assert!(handle.remove(source) && !handle.remove(source));
    assert_eq!(running.controller.informers().len(), 1);

    let unknown = handle.add_referred::<_, NoIndex>(secrets()).expect_err("there is none");
    assert!(unknown.to_string().contains("NoIndex"), "{unknown}");
    running.end().await.expect("it stops");
    let late = handle.add_watched(secrets(), |_| None).expect_err("it is gone");
    assert!(matches!(late, AddSourceError::NoController), "{late}");
}

/// What is asked of the server has no data, so that none can be held.
#[tokio::test(start_paused = true)]
async fn source_of_metadata_leads_to_runs_without_the_rest_of_its_objects() {
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let (show, mut shown) = mpsc::channel(10);
    let keys = move |secret: &Cached<PartialObjectMeta<Secret>>| {
        let bytes = secret.object().bytes().expect("held as it came").to_vec();
        let _ = show.try_send(String::from_utf8(bytes).expect("JSON"));
        [key("default/one")]
    };
    let watches_secrets = |builder: ControllerBuilder<ConfigMap>| {
        builder.watches(Watch::metadata_of::<Secret>(), keys)
    };
    let running = run_with(client.clone(), watches_secrets, reporter(said));
    runs.recv().await.expect("the first run");
    let secret = json!({
        "metadata": {"name": "a", "labels": {"tier": "db"}},
        "stringData": {"password": "hidden"},
    });
    let secrets: Api<Secret> = Api::namespaced(client, "default");
    let secret = serde_json::from_value(secret).expect("an object");
    secrets.create(&PostParams::default(), &secret).await.expect("created");
    let run = runs.recv().await.expect("a run");
    assert!(run.starts_with("default/one because Secret default/a added"), "{run}");
    let held = shown.recv().await.expect("it was mapped");
    let held: Value = serde_json::from_str(&held).expect("JSON");
    assert_eq!(held["metadata"]["labels"], json!({"tier": "db"}));
    let fields: Vec<_> = held.as_object().expect("an object").keys().collect();
    assert_eq!(fields, ["apiVersion", "kind", "metadata"]);
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn source_whose_definition_appears_later_begins_then() {
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let running = run_with(client.clone(), |builder| builder, reporter(said));
    runs.recv().await.expect("the first run");
    let gadgets = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Gadget"));
    let watch = Watch::<DynamicObject>::of(Resource::new(&gadgets, true));
    let leads_to_one = |_: &Cached<DynamicObject>| [key("default/one")];
    running.controller.handle().add_watched(watch, leads_to_one).expect("a source");
    let ran = tokio::time::timeout(Duration::from_mins(10), runs.recv()).await;
    assert!(ran.is_err(), "{ran:?}");

    let definition = json!({
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    let definition = serde_json::from_value(definition).expect("a definition");
    install_crd(&client, &definition).await.expect("installed");
    let api: Api<DynamicObject> = Api::namespaced_with(client, "default", &gadgets);
    api.create(&PostParams::default(), &DynamicObject::new("a", &gadgets)).await.expect("created");
    let run = runs.recv().await.expect("a run");
    assert!(run.starts_with("default/one because Gadget default/a"), "{run}");
    running.end().await.expect("it stops");
}

/// In the order of their keys, all of the busy one would come first.
#[tokio::test(start_paused = true)]
async fn namespaces_take_turns_where_that_is_wanted() {
    let (_cluster, client) = cluster().await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    for (namespace, count) in [("busy", 20), ("quiet", 1)] {
        let made = json!({"metadata": {"name": namespace}});
        let made = serde_json::from_value(made).expect("an object");
        namespaces.create(&PostParams::default(), &made).await.expect("created");
        let objects: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        for number in 0..count {
            let object = json!({"metadata": {"name": format!("object-{number}")}});
            let object = serde_json::from_value(object).expect("an object");
            objects.create(&PostParams::default(), &object).await.expect("created");
        }
    }
    let (said, mut runs) = mpsc::channel(100);
    let builder = Controller::named("configmap", Watch::<ConfigMap>::new()).fair();
    let running = run_built(client, builder, reporter(said));
    let mut first = Vec::new();
    // As many as there are namespaces, with the one that is always there.
    for _ in 0..3 {
        first.push(runs.recv().await.expect("a run"));
    }
    assert!(first.iter().any(|run| run.starts_with("quiet/")), "{first:?}");
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn policy_decides_which_key_comes_first() {
    let (_cluster, client) = cluster().await;
    create(&client, "two").await;
    create(&client, "urgent").await;
    let (said, mut runs) = mpsc::channel(100);
    let policy = |key: &ObjectKey, _: &Cause| {
        if key.name() == "urgent" { Priority::High } else { Priority::Normal }
    };
    let running = run_with(client, |builder| builder.priority(policy), reporter(said));
    let first = runs.recv().await.expect("a run");
    assert!(first.starts_with("default/urgent"), "{first}");
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn cache_of_a_type_that_nobody_watches_says_what_to_add() {
    let (_cluster, client) = cluster().await;
    let (said, mut told) = mpsc::channel(100);
    let reader = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            let error = cx.cache::<Secret>().expect_err("it is not watched");
            said.send(error.to_string()).await?;
            Ok(Action::done())
        })
    });
    let running = run_with(client, |builder| builder, reader);
    assert_eq!(
        told.recv().await.as_deref(),
        Some(
            "the controller \"configmap\" has no cache of Secret: add \
             .reads(Watch::<Secret>::new()) to its builder, or .owns or .watches"
        )
    );
    running.end().await.expect("it stops");
}
