//! Factories: who shares an informer with whom, how informers are made, started, waited for and
//! stopped, and what happens to the others when one of them breaks.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::by_hand::{self, object};
use crate::support::{Cluster, Log, content, idle, pass};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use kube::api::ObjectMeta;
use kube::core::{DynamicObject, GroupVersionKind};
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass_indexer::{ByLabel, Head, Index, IndexError};
use windlass_informer::{
    Event, InformerError, InformerOptions, InformerPhase, ManagedFields, NotSynced, Resource,
    SharedInformer, SharedInformerFactory, Stopped, Transform,
};

const MINUTE: Duration = Duration::from_mins(1);

fn config_maps() -> Resource {
    Resource::of::<ConfigMap>()
}

/// A type with the few fields that matter.
#[derive(Clone, Deserialize)]
struct Slim {
    metadata: ObjectMeta,
    data: BTreeMap<String, String>,
}

/// Config maps by their value.
#[derive(Clone, PartialEq)]
struct ByValue;

#[derive(Deserialize)]
struct Data {
    data: BTreeMap<String, String>,
}

impl Index for ByValue {
    type View = Data;
    type Value = String;

    fn values(&self, _: &Head, view: Data) -> impl IntoIterator<Item = String> {
        view.data.into_values()
    }
}

/// An index that panics on every object.
#[derive(Clone, PartialEq)]
struct Panics;

impl Index for Panics {
    type View = ();
    type Value = String;

    fn values(&self, _: &Head, (): ()) -> impl IntoIterator<Item = String> {
        assert!(std::hint::black_box(false), "an index that does not like a");
        None
    }
}

// Who shares with whom.

#[tokio::test(start_paused = true)]
async fn who_asks_for_the_same_gets_the_same() {
    let cluster = Cluster::with(&["a"]).await;
    let factory = cluster.factory();
    let one = factory.informer::<ConfigMap>().expect("an informer");
    let two = factory.informer::<ConfigMap>().expect("the same");
    factory.start();
    factory.wait_for_sync().await.expect("they list");
    assert_eq!((content(one.lister()), content(two.lister())), ("a=1".into(), "a=1".into()));
    assert_eq!((factory.status().len(), cluster.asked("watch")), (1, 1));
    factory.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_watched_and_what_is_made_of_it_is_the_identity() {
    let cluster = Cluster::new();
    let factory = cluster.factory();
    let nothing = || Transform::new("nothing", |_| {});
    let ask = |change: &dyn Fn(InformerOptions) -> InformerOptions| {
        factory.informer_with::<ConfigMap>(change).expect("an informer")
    };
    // Each twice: they are as many as there are lines.
    let changes: [&dyn Fn(InformerOptions) -> InformerOptions; 6] = [
        &|options| options,
        &|options| options.namespace("default"),
        &|options| options.label_selector("app=web"),
        &|options| options.field_selector("metadata.name=a"),
        &|options| options.transform(nothing()),
        &|options| options.managed_fields(ManagedFields::Keep),
    ];
    let informers: Vec<_> = changes.iter().chain(&changes).copied().map(ask).collect();
    // Behaviour is none of it.
    let same = ask(&|options| options.resync(MINUTE).merge_above(7).hot_set_bytes(1));
    assert_eq!(factory.status().len(), changes.len());
    drop((informers, same));
}

#[tokio::test(start_paused = true)]
async fn typed_dynamic_and_metadata_readers_share_one_watch() {
    let cluster = Cluster::with(&["a"]).await;
    let factory = cluster.factory();
    let kind = GroupVersionKind::gvk("", "v1", "ConfigMap");
    let typed = factory.informer::<ConfigMap>().expect("an informer");
    let dynamic = factory.dynamic_informer(&kind).await.expect("a kind of the server");
    let metadata = factory.metadata::<ConfigMap>().expect("an informer");
    let resource = factory.discover(&kind).await.expect("a kind of the server");
    let dynamic_metadata =
        factory.metadata_of::<DynamicObject>(&resource, |options| options).expect("an informer");
    let slim = factory.informer_of::<Slim>(&config_maps(), |options| options).expect("an informer");
    factory.start();
    factory.wait_for_sync().await.expect("they list");
    assert_eq!((factory.status().len(), cluster.asked("watch")), (1, 1));
    let key = "default/a";
    let read = typed.lister().get(key).expect("it decodes").expect("it is there");
    assert_eq!(read.data.as_ref().expect("data")["value"], "1");
    let read = dynamic.lister().get(key).expect("it decodes").expect("it is there");
    assert_eq!(read.data["data"]["value"], "1");
    let read = metadata.lister().get(key).expect("it decodes").expect("it is there");
    assert_eq!(read.metadata.name.as_deref(), Some("a"));
    let read = slim.lister().get(key).expect("it decodes").expect("it is there");
    assert_eq!((read.metadata.name.as_deref(), &*read.data["value"]), (Some("a"), "1"));
    assert_eq!(dynamic_metadata.lister().list().iter().count(), 1);
    factory.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn metadata_only_informer_gets_whole_objects_when_somebody_wants_them_before_it_starts() {
    let cluster = Cluster::with(&["a"]).await;
    let factory = cluster.factory();
    let metadata = factory.metadata::<ConfigMap>().expect("an informer");
    let whole = factory.informer::<ConfigMap>().expect("an informer");
    factory.start();
    factory.wait_for_sync().await.expect("they list");
    assert_eq!((factory.status().len(), cluster.asked("watch")), (1, 1));
    assert_eq!(content(whole.lister()), "a=1");
    assert_eq!(metadata.lister().reader().len(), 1);
    factory.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn metadata_only_informer_that_runs_stays_as_it_is() {
    let cluster = Cluster::with(&["a"]).await;
    let factory = cluster.factory();
    let metadata = factory.metadata::<ConfigMap>().expect("an informer");
    factory.start();
    factory.wait_for_sync().await.expect("it lists");
    let object = metadata.lister().reader().get("default/a").expect("it is there");
    let bytes = String::from_utf8_lossy(object.bytes().expect("compact")).into_owned();
    assert!(!bytes.contains("data\":{\"value"), "only metadata was sent: {bytes}");
    let whole = factory.informer::<ConfigMap>().expect("an informer");
    factory.start();
    factory.wait_for_sync().await.expect("both list");
    assert_eq!(content(whole.lister()), "a=1");
    assert_eq!(cluster.asked("watch"), 2);
    // Who comes now for metadata gets it from the one that has all.
    drop(metadata);
    idle().await;
    let metadata = factory.metadata::<ConfigMap>().expect("an informer");
    factory.start();
    factory.wait_for_sync().await.expect("it has listed");
    assert_eq!((metadata.lister().reader().len(), cluster.asked("watch")), (1, 2));
    factory.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn metadata_only_informer_that_was_started_a_moment_ago_is_forgotten_when_it_ends() {
    let cluster = Cluster::with(&["a"]).await;
    let factory = cluster.factory();
    let metadata = factory.metadata::<ConfigMap>().expect("an informer");
    factory.start();
    // Its task has not begun, so it is not too late for whole objects.
    let whole = factory.informer::<ConfigMap>().expect("an informer");
    factory.wait_for_sync().await.expect("it lists");
    assert_eq!(cluster.asked("watch"), 1);
    drop((metadata, whole));
    idle().await;
    assert!(factory.status().is_empty());
    factory.wait_for_sync().await.expect("there is nothing to wait for");
}

#[tokio::test(start_paused = true)]
async fn two_layouts_of_one_informer_are_an_error_that_names_both() {
    let cluster = Cluster::new();
    let factory = cluster.factory();
    let resident = factory
        .informer_with::<ConfigMap>(InformerOptions::resident::<ConfigMap>)
        .expect("an informer");
    let error = factory
        .informer_of::<Slim>(&config_maps(), InformerOptions::resident::<Slim>)
        .expect_err("another layout");
    assert!(matches!(error, InformerError::Layout { .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.starts_with(
            "the informer of configmaps.v1 is resident as ConfigMap, and is now asked for as resident as Slim"
        ),
        "{text}"
    );
    let error = factory.informer_with::<ConfigMap>(InformerOptions::compact).expect_err("compact");
    assert!(error.to_string().contains("is now asked for as compact"), "{error}");
    // Who has no wish gets what is there, if it can be read as what is wanted.
    assert!(factory.informer::<ConfigMap>().is_ok());
    let error = factory.metadata::<ConfigMap>().expect_err("it keeps no bytes").to_string();
    assert!(error.contains("configmaps.v1") && error.contains("resident as ConfigMap"), "{error}");
    drop(resident);
}

#[tokio::test(start_paused = true)]
async fn slim_resident_type_is_decoded_once_and_read_without_bytes() {
    let cluster = Cluster::with(&["a"]).await;
    let factory = cluster.factory();
    let slim = factory
        .informer_of::<Slim>(&config_maps(), InformerOptions::resident::<Slim>)
        .expect("an informer");
    let told = Log::new();
    let log = told.clone();
    slim.add_handler(move |event: Event<Slim>| {
        let object = event.object().get().expect("it decodes");
        log.note(format!("{}={}", event.key().name(), object.data["value"]));
    })
    .expect("not stopped");
    factory.start();
    factory.wait_for_sync().await.expect("it lists");
    cluster.set("a", "2").await;
    assert_eq!(told.take().await, ["a=1", "a=2"]);
    let object = slim.lister().reader().get("default/a").expect("it is there");
    assert!(object.bytes().is_none());
    let one = slim.lister().get("default/a").expect("it decodes").expect("it is there");
    let two = slim.lister().get("default/a").expect("it decodes").expect("it is there");
    assert!(Arc::ptr_eq(&one, &two));
    factory.shut_down().await;
}

// How informers are made.

#[tokio::test(start_paused = true)]
async fn indexes_can_be_there_from_the_beginning_or_come_late() {
    let cluster = Cluster::with(&["a", "b"]).await;
    let factory = cluster.factory();
    let informer =
        factory.informer_with::<ConfigMap>(|options| options.index(ByValue)).expect("an informer");
    factory.start();
    factory.wait_for_sync().await.expect("it lists");
    cluster.set("b", "2").await;
    idle().await;
    let found = |value: &str| {
        let found = informer.lister().by_index::<ByValue>(value).expect("the index");
        found.iter().map(|object| object.key().name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((found("1"), found("2")), (vec!["a".to_owned()], vec!["b".to_owned()]));
    // By another user's options, and by hand; what is there already is taken in, and twice is no
    // error.
    assert!(informer.lister().by_label("app", "web").is_err());
    let again = factory
        .informer_with::<ConfigMap>(|options| options.index(ByLabel::all()))
        .expect("the same one");
    again.add_index(ByLabel::all()).expect("it is there already");
    again.add_index(ByValue).expect("it is there already");
    assert_eq!(informer.lister().by_label("app", "web").expect("the index").iter().count(), 0);
    assert_eq!(cluster.asked("watch"), 1);
    factory.shut_down().await;
}

/// Config maps by a part of their name.
#[derive(Clone, PartialEq)]
struct ByPrefix(usize);

impl Index for ByPrefix {
    type View = ();
    type Value = String;

    fn values(&self, head: &Head, (): ()) -> impl IntoIterator<Item = String> {
        head.name().get(..self.0).map(str::to_owned)
    }
}

/// A look-up names the type of the index alone.
#[tokio::test(start_paused = true)]
async fn index_with_other_settings_is_an_error_for_the_one_who_asks_later() {
    let cluster = Cluster::with(&["a", "b"]).await;
    let factory = cluster.factory();
    let informer = |len| factory.informer_with::<ConfigMap>(|options| options.index(ByPrefix(len)));
    let _first = informer(1).expect("the first one");
    informer(1).expect("an equal one");
    let error = informer(2).expect_err("another one");
    assert!(
        matches!(
            &error,
            InformerError::Index { error: IndexError::Different { index: "ByPrefix" }, .. }
        ),
        "{error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn labels_of_two_users_of_one_informer_are_both_indexed() {
    let cluster = Cluster::with(&["a", "b"]).await;
    let factory = cluster.factory();
    let informer = |key: &'static str| {
        let index = move |options: InformerOptions| options.index(ByLabel::keys([key]));
        factory.informer_with::<ConfigMap>(index).expect("an informer")
    };
    let (by_app, by_team) = (informer("app"), informer("team"));
    for informer in [&by_app, &by_team] {
        assert!(informer.lister().by_label("app", "web").expect("indexed").is_empty());
        assert!(informer.lister().by_label("team", "red").expect("indexed").is_empty());
        let error = informer.lister().by_label("tier", "front").expect_err("nobody indexes it");
        assert!(error.to_string().contains(r#".index(ByLabel::keys(["tier"]))"#), "{error}");
    }
    assert_eq!(by_app.status().store.indexes.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn one_type_is_made_otherwise_whoever_asks_for_it() {
    let cluster = Cluster::with(&["a", "b"]).await;
    let factory = SharedInformerFactory::builder(cluster.client.clone())
        .defaults(InformerOptions::new().namespace("default"))
        .customise(config_maps(), |options| {
            options.field_selector("metadata.name=b").index(ByValue)
        })
        .build();
    let by_type = factory.lister::<ConfigMap>().expect("a lister");
    let by_resource =
        factory.informer_of::<Slim>(&config_maps(), |options| options).expect("an informer");
    let secrets = factory.informer::<Secret>().expect("an informer");
    factory.start();
    factory.wait_for_sync().await.expect("they list");
    assert_eq!(content(&by_type), "b=1");
    assert_eq!(by_type.by_index::<ByValue>("1").expect("the index").iter().count(), 1);
    assert_eq!(by_resource.lister().reader().len(), 1);
    assert_eq!(secrets.status().feeds[0].namespace.as_deref(), Some("default"));
    assert_eq!(cluster.asked("watch"), 2);
    factory.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn several_namespaces_are_one_cache() {
    let cluster = Cluster::with(&["a"]).await;
    cluster.create_in("kube-system", "b").await;
    cluster.create_in("kube-public", "c").await;
    let factory = cluster.factory();
    let informer = factory
        .informer_with::<ConfigMap>(|options| options.namespaces(["default", "kube-system"]))
        .expect("an informer");
    let log = Log::new();
    informer.add_handler(log.handler()).expect("not stopped");
    factory.start();
    factory.wait_for_sync().await.expect("it lists");
    assert_eq!(content(informer.lister()), "a=1 b=1", "and nothing of the third");
    assert_eq!(cluster.asked("watch"), 2);
    let namespaces: Vec<_> =
        informer.status().feeds.into_iter().filter_map(|feed| feed.namespace).collect();
    assert_eq!(namespaces, ["default", "kube-system"]);
    cluster.create_in("kube-system", "d").await;
    cluster.create_in("kube-public", "e").await;
    cluster.delete("a").await;
    let mut told = log.take().await;
    told.sort();
    assert_eq!(told, ["+a=1 initial", "+b=1 initial", "+d=1", "-a=1"]);
    assert_eq!(informer.lister().in_namespace("kube-system").iter().count(), 2);
    factory.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn relist_of_one_namespace_sweeps_nothing_of_another() {
    let cluster = Cluster::with(&["a"]).await;
    cluster.create_in("kube-system", "b").await;
    let informer = cluster
        .running(InformerOptions::new().namespaces(["default", "kube-system"]).audit(MINUTE));
    informer.wait_for_sync().await.expect("it lists");
    pass(5 * MINUTE).await;
    assert!(informer.status().feeds.iter().all(|feed| feed.counts.lists > 1));
    assert_eq!(content(informer.lister()), "a=1 b=1");
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn resync_is_by_default_by_type_or_by_user() {
    let cluster = Cluster::with(&["a"]).await;
    let factory = SharedInformerFactory::builder(cluster.client.clone())
        .defaults(InformerOptions::new().resync(MINUTE))
        .customise(Resource::of::<Node>(), |options| options.resync(Duration::ZERO))
        .build();
    let configs = factory.informer::<ConfigMap>().expect("an informer");
    let nodes = factory.informer::<Node>().expect("an informer");
    let log = Log::new();
    configs.add_handler(log.handler()).expect("not stopped");
    let node_log = log.clone();
    nodes.add_handler(move |_: Event<Node>| node_log.note("a node")).expect("not stopped");
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    let request = http::Request::post("/api/v1/nodes")
        .header("content-type", "application/json")
        .body(node.to_string().into_bytes())
        .expect("a request");
    cluster.client.request::<serde_json::Value>(request).await.expect("it is created");
    factory.start();
    factory.wait_for_sync().await.expect("they list");
    assert_eq!(log.take().await.len(), 2);
    pass(MINUTE).await;
    assert_eq!(log.take().await, ["=a=1"]);
    factory.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn nonsense_is_an_error_at_once_that_says_what_to_write() {
    let cluster = Cluster::new();
    let factory = cluster.factory();
    let error_of = |change: &dyn Fn(InformerOptions) -> InformerOptions| {
        let error = factory.informer_with::<ConfigMap>(change).expect_err("nonsense");
        assert!(matches!(error, InformerError::Selection { .. }), "{error:?}");
        error.to_string()
    };
    let error = error_of(&|options| options.label_selector("app in web"));
    assert!(error.starts_with("the informer of configmaps.v1: label selector"), "{error}");
    let error = error_of(&|options| options.field_selector("spec.nodeName"));
    assert!(error.contains("field selector \"spec.nodeName\""), "{error}");
    let error = error_of(&|options| options.namespaces(["default", "No Such"]));
    assert!(error.contains("\"No Such\" is no name of a namespace"), "{error}");
    let error = factory
        .informer_with::<Node>(|options| options.namespace("default"))
        .expect_err("nodes are in no namespace");
    assert!(error.to_string().contains("nodes.v1 is cluster-wide"), "{error}");
    assert!(factory.status().is_empty());
}

// Starting, waiting, stopping.

#[tokio::test(start_paused = true)]
async fn asking_for_a_lister_registers_its_informer_and_keeps_it() {
    let cluster = Cluster::with(&["a"]).await;
    let factory = cluster.factory();
    let lister = factory.lister::<ConfigMap>().expect("a lister");
    factory.start();
    factory.wait_for_cache_sync().await.expect("it lists");
    assert_eq!(content(&lister), "a=1");
    cluster.create("b").await;
    idle().await;
    assert_eq!(content(&lister), "a=1 b=1", "nobody but the lister uses it, and it runs");
    factory.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn start_runs_those_that_do_not_run_yet() {
    let cluster = Cluster::with(&["a"]).await;
    let factory = cluster.factory();
    factory.start();
    factory.wait_for_sync().await.expect("there is nothing to wait for");
    let configs = factory.informer::<ConfigMap>().expect("an informer");
    factory.start();
    factory.start();
    factory.wait_for_sync().await.expect("it lists");
    let secrets = factory.informer::<Secret>().expect("an informer");
    assert_eq!(secrets.status().phase, InformerPhase::New);
    factory.start();
    factory.wait_for_sync().await.expect("both have listed");
    assert_eq!(
        (configs.status().phase, secrets.status().phase),
        (InformerPhase::Synced, InformerPhase::Synced)
    );
    assert_eq!(cluster.asked("watch"), 2, "one each, however often it was started");
    factory.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn caches_are_synced_before_handlers_are() {
    let cluster = Cluster::with(&["a", "b"]).await;
    let factory = cluster.factory();
    let informer = factory.informer::<ConfigMap>().expect("an informer");
    let log = Log::new();
    let registration = informer.add_handler(log.handler()).expect("not stopped");
    // It is not waited for: who takes its events may be the one who waits.
    let subscription = informer.subscribe().expect("not stopped");
    factory.start();
    factory.wait_for_cache_sync().await.expect("it lists");
    assert_eq!(content(informer.lister()), "a=1 b=1");
    factory.wait_for_sync().await.expect("its handler has seen it");
    assert!(registration.has_synced() && !subscription.has_synced());
    assert_eq!(log.take_now(), ["+a=1 initial", "+b=1 initial"]);
    factory.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn shut_down_ends_all_and_makes_no_more() {
    let cluster = Cluster::with(&["a"]).await;
    let factory = cluster.factory();
    let running = factory.informer::<ConfigMap>().expect("an informer");
    factory.start();
    factory.wait_for_sync().await.expect("it lists");
    let waiting = factory.informer::<Secret>().expect("an informer");
    let registration = waiting.add_handler(|_: Event<Secret>| {}).expect("not stopped");
    factory.shut_down().await;
    assert_eq!(running.status().phase, InformerPhase::Stopped);
    assert_eq!(waiting.wait_for_sync().await, Err(Stopped), "it never ran, and never will");
    assert!(!registration.wait_for_sync().await);
    factory.start();
    idle().await;
    assert_eq!(cluster.asked("watch"), 1);
    assert!(matches!(factory.informer::<ConfigMap>(), Err(InformerError::Stopped(_))));
    assert_eq!(content(running.lister()), "a=1");
    factory.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn token_of_the_process_stops_a_factory() {
    let cluster = Cluster::with(&["a"]).await;
    let stop = CancellationToken::new();
    let factory = SharedInformerFactory::builder(cluster.client.clone()).stop_on(&stop).build();
    let running = factory.informer::<ConfigMap>().expect("an informer");
    factory.start();
    factory.wait_for_sync().await.expect("it lists");
    let waiting = factory.informer::<Secret>().expect("an informer");
    stop.cancel();
    assert_eq!(waiting.wait_for_sync().await, Err(Stopped));
    idle().await;
    assert_eq!(running.status().phase, InformerPhase::Stopped);
    factory.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn informer_that_nobody_uses_is_not_waited_for() {
    let cluster = Cluster::with(&["a"]).await;
    let factory = cluster.factory();
    let configs = factory.informer::<ConfigMap>().expect("an informer");
    factory.start();
    drop(factory.informer::<Secret>().expect("an informer that nobody keeps or starts"));
    factory.wait_for_sync().await.expect("the other one lists");
    drop(configs);
    factory.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn informer_is_made_anew_when_it_is_asked_for_after_its_end() {
    let cluster = Cluster::with(&["a"]).await;
    let factory = cluster.factory();
    for watches in 1..=3 {
        let informer = factory.informer::<ConfigMap>().expect("an informer");
        factory.start();
        factory.wait_for_sync().await.expect("it lists");
        assert_eq!((content(informer.lister()), cluster.asked("watch")), ("a=1".into(), watches));
        if watches == 2 {
            // Also when it was stopped by hand, and before its task has ended.
            informer.stop();
        }
    }
    factory.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn deleted_definition_does_not_wedge_the_rest() {
    let cluster = Cluster::with(&["a"]).await;
    let send = async |method: &str, path: &str, body: serde_json::Value| {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(body.to_string().into_bytes())
            .expect("a request");
        cluster.client.request::<serde_json::Value>(request).await.expect("an answer");
    };
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.dev"},
        "spec": {
            "group": "example.dev", "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let foo = json!({"apiVersion": "example.dev/v1", "kind": "Foo", "metadata": {"name": "f"}});
    let foos_path = "/apis/example.dev/v1/namespaces/default/foos";
    send("POST", definitions, definition.clone()).await;
    send("POST", foos_path, foo.clone()).await;
    let factory = cluster.factory();
    let configs = factory.informer::<ConfigMap>().expect("an informer");
    let kind = GroupVersionKind::gvk("example.dev", "v1", "Foo");
    let foos = factory.dynamic_informer(&kind).await.expect("a kind of the server");
    factory.start();
    factory.wait_for_sync().await.expect("both list");
    assert_eq!(foos.lister().reader().len(), 1);

    send("DELETE", &format!("{definitions}/foos.example.dev"), json!({})).await;
    pass(10 * MINUTE).await;
    let feed = &foos.status().feeds[0];
    let (error, _) = feed.last_error.as_ref().expect("the server says that there is none");
    assert!(error.is_not_found(), "{error}");
    cluster.create("b").await;
    idle().await;
    assert_eq!(content(configs.lister()), "a=1 b=1");
    assert_eq!(configs.status().feeds[0].counts.errors, 0);

    // It comes back, and so does the informer.
    send("POST", definitions, definition).await;
    pass(MINUTE).await;
    assert_eq!(foos.lister().reader().len(), 0, "the object went with its definition");
    send("POST", foos_path, foo).await;
    idle().await;
    assert_eq!(foos.lister().reader().len(), 1);

    // Who has enough of it leaves, and only that one ends.
    drop(foos);
    idle().await;
    assert_eq!(factory.status().len(), 1);
    factory.wait_for_sync().await.expect("the other one runs");
    factory.shut_down().await;
}

// Transforms, and what breaks.

#[tokio::test(start_paused = true)]
async fn transform_runs_once_for_what_arrives_and_not_for_resyncs_or_tombstones() {
    let calls = Arc::new(AtomicU64::new(0));
    let counted = calls.clone();
    let transform = Transform::new("counts", move |object| {
        counted.fetch_add(1, Ordering::Relaxed);
        let value = object["data"]["value"].as_str().unwrap_or_default();
        object["data"]["value"] = format!("{value}!").into();
    });
    let calls = || calls.load(Ordering::Relaxed);
    let options = InformerOptions::new().transform(transform).resync(MINUTE);
    let (informer, mut server) = by_hand::running(options);
    let log = Log::new();
    informer.add_handler(log.handler()).expect("it runs");
    let wire = server.lists(&[object("a", "1"), object("b", "2")], "2").await;
    assert_eq!(log.take().await, ["+a=1! initial", "+b=2! initial"]);
    pass(2 * MINUTE).await;
    assert_eq!(log.take().await.len(), 4);
    assert_eq!(calls(), 2, "a resync shows what was transformed already");
    wire.event("MODIFIED", &object("a", "3"));
    assert_eq!((log.take().await, calls()), (vec!["~a=1!→3!".to_owned()], 3));
    wire.event("ERROR", &json!({"kind": "Status", "code": 410, "reason": "Expired"}));
    let wire = server.lists(&[object("a", "3")], "4").await;
    assert_eq!(log.take().await, ["-b=2! tombstone"]);
    assert_eq!(calls(), 4, "the one that arrived with the list, though it is the same");
    wire.event("DELETED", &object("a", "5"));
    assert_eq!((log.take().await, calls()), (vec!["-a=5!".to_owned()], 5));
    informer.end().await;
}

/// A factory with an informer that breaks, and one that does not.
async fn with_one_that_breaks(
    cluster: &Cluster,
    options: impl FnOnce(InformerOptions) -> InformerOptions,
) -> (SharedInformerFactory, SharedInformer<ConfigMap>, SharedInformer<Secret>) {
    let factory = cluster.factory();
    let broken = factory.informer_with::<ConfigMap>(options).expect("an informer");
    let well = factory.informer::<Secret>().expect("an informer");
    factory.start();
    let error = factory.wait_for_sync().await.expect_err("one of them breaks");
    assert_eq!(error, NotSynced::Stopped { resource: config_maps() });
    (factory, broken, well)
}

/// A background task dies.
#[tokio::test(start_paused = true)]
async fn transform_that_panics_breaks_its_informer_visibly() {
    let cluster = Cluster::with(&["a"]).await;
    let transform = Transform::new("panics", |_| panic!("a transform that does not like a"));
    let (factory, broken, well) =
        with_one_that_breaks(&cluster, |options| options.transform(transform)).await;
    let failure = factory.wait_for_failure().await;
    assert_eq!(failure.resource, config_maps());
    assert_eq!(
        failure.to_string(),
        "the informer of configmaps.v1 broke: a task of the informer panicked, as its own message says"
    );
    assert_eq!(broken.status().phase, InformerPhase::Failed(failure.message));
    assert_eq!(broken.wait_for_sync().await, Err(Stopped));
    assert!(broken.add_handler(Log::new().handler()).is_err());
    assert!(factory.wait_for_sync().await.is_err(), "also for who asks later");
    assert!(factory.wait_for_cache_sync().await.is_err());
    well.wait_for_sync().await.expect("the others run");
    factory.shut_down().await;
}

/// A background task dies. A panic of a handler is caught, and this one panics again when
/// its message is dropped, in the task.
#[tokio::test(start_paused = true)]
async fn task_of_a_handler_that_panics_breaks_its_informer_visibly() {
    struct PanicsAgain;
    impl Drop for PanicsAgain {
        fn drop(&mut self) {
            panic!("a message that does not like to be dropped");
        }
    }
    let cluster = Cluster::with(&["a"]).await;
    let factory = SharedInformerFactory::new(cluster.client.clone());
    let informer = factory.informer::<ConfigMap>().expect("an informer");
    let panics = |_: Event<ConfigMap>| std::panic::panic_any(PanicsAgain);
    informer.add_handler(panics).expect("it has not stopped");
    factory.start();
    let failure = tokio::time::timeout(Duration::from_hours(1), factory.wait_for_failure());
    let failure = failure.await.expect("it is noticed");
    assert_eq!(failure.resource, config_maps());
    assert_eq!(informer.status().phase, InformerPhase::Failed(failure.message));
    factory.shut_down().await;
}

/// A background task dies.
#[tokio::test(start_paused = true)]
async fn index_that_panics_breaks_its_informer_visibly() {
    let cluster = Cluster::with(&["a"]).await;
    let (factory, broken, well) =
        with_one_that_breaks(&cluster, |options| options.index(Panics)).await;
    assert_eq!(factory.wait_for_failure().await.resource, config_maps());
    assert!(matches!(broken.status().phase, InformerPhase::Failed(_)));
    assert_eq!(broken.lister().list().iter().count(), 0, "it can still be read");
    well.wait_for_sync().await.expect("the others run");
    factory.shut_down().await;
}

/// The panic is that of the caller: the others who use the informer do not notice it.
#[tokio::test(start_paused = true)]
async fn index_that_panics_when_it_is_added_later_changes_nothing() {
    let cluster = Cluster::with(&["a"]).await;
    let factory = cluster.factory();
    let informer = factory.informer::<ConfigMap>().expect("an informer");
    factory.start();
    factory.wait_for_sync().await.expect("it lists");
    let added = catch_unwind(AssertUnwindSafe(|| informer.add_index(Panics)));
    assert!(added.is_err(), "the caller gets the panic");
    cluster.create("b").await;
    pass(MINUTE).await;
    assert_eq!(content(informer.lister()), "a=1 b=1");
    assert!(informer.has_synced());
    factory.shut_down().await;
}

/// A background task dies. Then it is not a list that never ends.
#[tokio::test(start_paused = true)]
async fn informer_that_breaks_later_tells_its_users() {
    let cluster = Cluster::with(&["a"]).await;
    let transform = Transform::new("panics on b", |object| {
        assert_ne!(object["metadata"]["name"], "b", "a transform that does not like b");
    });
    let factory = cluster.factory();
    let informer = factory
        .informer_with::<ConfigMap>(|options| options.transform(transform))
        .expect("an informer");
    let mut events = informer.subscribe().expect("not stopped");
    factory.start();
    factory.wait_for_sync().await.expect("it lists");
    assert!(events.next().await.is_some());
    cluster.create("b").await;
    assert!(events.next().await.is_none(), "there will be no other event");
    assert_eq!(factory.wait_for_failure().await.resource, config_maps());
    assert!(!informer.has_synced());
    assert_eq!(content(informer.lister()), "a=1", "the last that is known");
    factory.shut_down().await;
}
