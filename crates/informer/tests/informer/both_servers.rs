//! Informers on the embedded server and on a real kube-apiserver: the same tests, the same answers.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{DynamicObject, GroupVersionKind, ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use windlass_indexer::{ByOwner, Head, Index, Selector, Uid};
use windlass_informer::source::{KubeListWatch, Request};
use windlass_informer::{
    BackoffConfig, Event, FinalState, InformerError, InformerOptions, ReflectorConfig, Resource,
    SharedInformer, SharedInformerFactory,
};
use windlass_testserver::{ControlPlane, ControlPlaneOptions, TestServer, on_each_server};

use crate::gated::Gated;
use crate::replica::{Content, PATIENCE, Replica, cache_of, server_has, until};
use crate::server::{create, create_config};

/// A namespace of its own, and a client.
async fn in_namespace(cluster: &TestServer) -> (String, kube::Client) {
    let namespace = cluster.namespace("informer").await.expect("a namespace");
    (namespace, cluster.client().expect("a client"))
}

fn configs(client: &kube::Client, namespace: &str) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), namespace)
}

async fn label(api: &Api<ConfigMap>, name: &str, team: &str) {
    let patch = Patch::Merge(json!({"metadata": {"labels": {"team": team}}}));
    api.patch(name, &PatchParams::default(), &patch).await.expect("patched");
}

async fn delete(api: &Api<ConfigMap>, name: &str) {
    api.delete(name, &DeleteParams::default()).await.expect("deleted");
}

fn names<K: serde::de::DeserializeOwned + Send + Sync + 'static>(
    informer: &SharedInformer<K>,
) -> Vec<String> {
    let list = informer.lister().list();
    list.heads().map(|head| head.key().name().to_owned()).collect()
}

/// Pages of three, and little patience.
fn quick() -> ReflectorConfig {
    let backoff = BackoffConfig { max: Duration::from_millis(200), ..BackoffConfig::default() };
    ReflectorConfig { page_size: 3, backoff, ..ReflectorConfig::default() }
}

/// Runs an informer of a source as long as `test` goes on.
async fn running<K, T>(informer: &SharedInformer<K>, test: impl Future<Output = T>) -> T
where
    K: serde::de::DeserializeOwned + Send + Sync + 'static,
{
    let stop = CancellationToken::new();
    tokio::select! {
        _ = informer.run(stop.clone()) => panic!("an informer has ended"),
        tested = test => tested,
    }
}

/// Writes of every kind; in the end the informer and its handler have what the server has.
async fn follows(cluster: &TestServer, streams_lists: bool) {
    let (namespace, client) = in_namespace(cluster).await;
    let api = configs(&client, &namespace);
    for number in 0..7 {
        create_config(&client, &namespace, &format!("early-{number}"), "red").await;
    }
    let resource = Resource::of::<ConfigMap>();
    let source = KubeListWatch::new(client.clone(), resource.clone());
    let source = Gated::new(source.namespace(&namespace).expect("a namespace"));
    let source = if streams_lists { source } else { source.without_streamed_lists() };
    let options = InformerOptions::new().reflector(quick());
    let informer =
        SharedInformer::<ConfigMap>::with_source(source.clone(), resource, options).expect("valid");
    let replica = Replica::new("handler");
    informer.add_handler(replica.clone()).expect("it has not stopped");

    running(&informer, async {
        informer.wait_for_sync().await.expect("it syncs");
        assert_eq!(cache_of(&informer), server_has(&api, &ListParams::default()).await.unwrap());
        label(&api, "early-0", "blue").await;
        delete(&api, "early-1").await;
        delete(&api, "early-2").await;
        create_config(&client, &namespace, "early-2", "green").await;
        create_config(&client, &namespace, "late", "green").await;
        let wanted = server_has(&api, &ListParams::default()).await.expect("a list");
        replica.becomes(&wanted).await;
        assert_eq!(cache_of(&informer), wanted);
        assert_eq!((replica.went_back(), replica.broken()), (0, vec![]));
    })
    .await;

    let asked = source.requests();
    let lists = asked.iter().filter(|request| matches!(request, Request::List(_))).count();
    let first = &asked[0];
    assert!(matches!(first, Request::Watch(watch) if watch.wants_initial_events()), "{asked:?}");
    // Where that is refused there are pages of three, and then a watch.
    assert_eq!(lists, if streams_lists { 0 } else { 3 }, "{asked:?}");
    assert_eq!(asked.len(), if streams_lists { 1 } else { 5 }, "{asked:?}");
}

on_each_server!(a_streamed_list_is_followed_by_its_changes);
async fn a_streamed_list_is_followed_by_its_changes(cluster: TestServer) {
    follows(&cluster, true).await;
}

on_each_server!(a_list_in_pages_is_followed_by_its_changes);
async fn a_list_in_pages_is_followed_by_its_changes(cluster: TestServer) {
    follows(&cluster, false).await;
}

on_each_server!(an_object_that_leaves_the_selection_is_deleted_and_one_that_enters_it_is_added);
async fn an_object_that_leaves_the_selection_is_deleted_and_one_that_enters_it_is_added(
    cluster: TestServer,
) {
    let (namespace, client) = in_namespace(&cluster).await;
    let api = configs(&client, &namespace);
    for (name, team) in [("a", "red"), ("b", "blue"), ("c", "green")] {
        create_config(&client, &namespace, name, team).await;
    }
    let factory = SharedInformerFactory::new(client.clone());
    let by_label = factory
        .informer_with::<ConfigMap>(|options| {
            options.namespace(&namespace).label_selector("team in (red, blue)")
        })
        .expect("an informer");
    let by_field = factory
        .informer_with::<ConfigMap>(|options| {
            options.namespace(&namespace).field_selector("metadata.name=c")
        })
        .expect("an informer");
    let replica = Replica::new("handler");
    by_label.add_handler(replica.clone()).expect("it has not stopped");
    factory.start();
    factory.wait_for_sync().await.expect("synced");
    assert_eq!(names(&by_label), ["a", "b"]);
    assert_eq!(names(&by_field), ["c"]);

    label(&api, "a", "green").await;
    label(&api, "c", "red").await;
    delete(&api, "b").await;
    create_config(&client, &namespace, "d", "blue").await;
    let params = ListParams::default().labels("team in (red, blue)");
    replica.becomes(&server_has(&api, &params).await.expect("a list")).await;
    assert_eq!(names(&by_label), ["c", "d"]);
    assert_eq!((replica.went_back(), replica.broken()), (0, vec![]));
    let is_red =
        |object: &windlass_indexer::Cached<_>| object.head().labels().get("team") == Some("red");
    until(&by_field, |informer| informer.lister().list().iter().any(|c| is_red(&c))).await;
    factory.shut_down().await;
}

on_each_server!(a_few_namespaces_are_one_cache_and_others_are_not_in_it);
async fn a_few_namespaces_are_one_cache_and_others_are_not_in_it(cluster: TestServer) {
    let (one, client) = in_namespace(&cluster).await;
    let two = cluster.namespace("informer").await.expect("a namespace");
    let other = cluster.namespace("informer").await.expect("a namespace");
    for namespace in [&one, &two, &other] {
        create_config(&client, namespace, "early", "red").await;
    }
    let factory = SharedInformerFactory::new(client.clone());
    let informer = factory
        .informer_with::<ConfigMap>(|options| options.namespaces([&one, &two]))
        .expect("an informer");
    let replica = Replica::new("handler");
    informer.add_handler(replica.clone()).expect("it has not stopped");
    factory.start();
    factory.wait_for_sync().await.expect("synced");
    for namespace in [&other, &two, &one] {
        create_config(&client, namespace, "late", "red").await;
    }
    delete(&configs(&client, &one), "early").await;
    let mut wanted = Content::new();
    for namespace in [&one, &two] {
        let api = configs(&client, namespace);
        wanted.extend(server_has(&api, &ListParams::default()).await.expect("a list"));
    }
    replica.becomes(&wanted).await;
    assert_eq!(cache_of(&informer), wanted);
    assert_eq!(informer.lister().in_namespace(&other).heads().count(), 0);
    assert_eq!(informer.status().feeds.len(), 2);
    factory.shut_down().await;
}

on_each_server!(metadata_is_all_that_a_metadata_informer_has);
async fn metadata_is_all_that_a_metadata_informer_has(cluster: TestServer) {
    let (namespace, client) = in_namespace(&cluster).await;
    create_config(&client, &namespace, "a", "red").await;
    let factory = SharedInformerFactory::new(client.clone());
    let resource = Resource::of::<ConfigMap>();
    let informer: SharedInformer<kube::core::PartialObjectMeta<ConfigMap>> = factory
        .metadata_of(&resource, |options| options.namespace(&namespace))
        .expect("an informer");
    factory.start();
    factory.wait_for_sync().await.expect("synced");
    create_config(&client, &namespace, "b", "blue").await;
    let teams = |informer: &SharedInformer<_>, selector: &str| {
        let selector: Selector = selector.parse().expect("a selector");
        informer.lister().select(&selector).heads().count()
    };
    until(&informer, |informer| teams(informer, "team=blue") == 1).await;
    assert_eq!(teams(&informer, "team in (red, blue)"), 2);
    for object in &informer.lister().list() {
        let bytes = object.object().bytes().expect("it is compact").to_vec();
        let object: Value = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!(object["kind"], "PartialObjectMetadata");
        assert!(object.get("data").is_none(), "{object}");
    }
    factory.shut_down().await;
}

on_each_server!(a_kind_that_is_defined_while_the_process_runs_has_an_informer);
async fn a_kind_that_is_defined_while_the_process_runs_has_an_informer(cluster: TestServer) {
    let (namespace, client) = in_namespace(&cluster).await;
    // Names of namespaces are unique, so this is as well.
    let group = format!("{namespace}.example.dev");
    let kind = GroupVersionKind::gvk(&group, "v1", "Boat");
    let factory = SharedInformerFactory::new(client.clone());
    let error = factory.dynamic_informer(&kind).await.expect_err("not defined yet");
    assert!(matches!(error, InformerError::Discovery(_)), "{error}");

    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("boats.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "boats", "kind": "Boat"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    });
    create(&client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    // A real server serves it a moment later.
    let boats = loop {
        match factory.dynamic_informer(&kind).await {
            Ok(informer) => break informer,
            Err(InformerError::Discovery(_)) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    };
    let replica = Replica::new("handler");
    boats.add_handler(replica.clone()).expect("it has not stopped");
    factory.start();
    factory.wait_for_sync().await.expect("synced");

    let path = format!("/apis/{group}/v1/namespaces/{namespace}/boats");
    let boat = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Boat",
        "metadata": {"name": "mary"}, "spec": {"masts": 2},
    });
    create(&client, &path, &boat).await;
    let resource = factory.discover(&kind).await.expect("it is there");
    assert_eq!(resource, *boats.resource());
    let described = kube::api::ApiResource::from_gvk_with_plural(&kind, "boats");
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &described);
    let refit = Patch::Merge(json!({"spec": {"masts": 3}}));
    api.patch("mary", &PatchParams::default(), &refit).await.expect("patched");
    replica.becomes(&server_has(&api, &ListParams::default()).await.expect("a list")).await;
    let key = format!("{namespace}/mary");
    let mary = boats.lister().get(&*key).expect("it decodes").expect("it is there");
    assert_eq!(mary.data["spec"]["masts"], 3);
    api.delete("mary", &DeleteParams::default()).await.expect("deleted");
    replica.becomes(&Content::new()).await;
    factory.shut_down().await;
}

on_each_server!(an_object_made_anew_under_its_name_is_deleted_and_added);
async fn an_object_made_anew_under_its_name_is_deleted_and_added(cluster: TestServer) {
    let (namespace, client) = in_namespace(&cluster).await;
    let api = configs(&client, &namespace);
    let uid = |object: &Value| object["metadata"]["uid"].as_str().expect("a uid").to_owned();
    let old = uid(&create_config(&client, &namespace, "phoenix", "red").await);
    let informer = SharedInformer::<ConfigMap>::new(
        client.clone(),
        InformerOptions::new().namespace(&namespace).field_selector("metadata.name=phoenix"),
    )
    .expect("an informer");
    let mut events = informer.subscribe().expect("it has not stopped");
    running(&informer, async {
        let first = events.next().await.expect("an event");
        assert!(matches!(first, Event::Added { initial: true, .. }), "{first:?}");
        delete(&api, "phoenix").await;
        let new = uid(&create_config(&client, &namespace, "phoenix", "blue").await);
        let gone = events.next().await.unwrap();
        let came = events.next().await.unwrap();
        assert!(matches!(gone, Event::Deleted { state: FinalState::Final, .. }), "{gone:?}");
        assert_eq!(gone.object().head().uid(), &Uid::new(&old));
        assert!(matches!(came, Event::Added { initial: false, .. }), "{came:?}");
        assert_eq!(came.object().head().uid(), &Uid::new(&new));
    })
    .await;
}

/// What happens while nobody watches and is then forgotten by the server comes by a list.
async fn relists_after_compaction(client: kube::Client, compact: impl AsyncFn()) {
    let namespace = "default";
    let api = configs(&client, namespace);
    for name in ["kept", "changed", "gone", "phoenix"] {
        create_config(&client, namespace, name, "red").await;
    }
    let resource = Resource::of::<ConfigMap>();
    let source = KubeListWatch::new(client.clone(), resource.clone());
    let source = Gated::new(source.namespace(namespace).expect("a namespace"));
    let options = InformerOptions::new().reflector(quick());
    let informer =
        SharedInformer::<ConfigMap>::with_source(source.clone(), resource, options).expect("valid");
    let replica = Replica::new("handler");
    informer.add_handler(replica.clone()).expect("it has not stopped");
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    informer
        .add_handler(move |event: Event<ConfigMap>| tell.lock().unwrap().push(event))
        .expect("it has not stopped");
    running(&informer, async {
        informer.wait_for_sync().await.expect("it syncs");
        source.shut();
        label(&api, "changed", "blue").await;
        delete(&api, "gone").await;
        delete(&api, "phoenix").await;
        create_config(&client, namespace, "phoenix", "blue").await;
        create_config(&client, namespace, "new", "blue").await;
        compact().await;
        source.open();
        let wanted = server_has(&api, &ListParams::default()).await.expect("a list");
        replica.becomes(&wanted).await;
        assert_eq!(cache_of(&informer), wanted);
        assert_eq!((replica.went_back(), replica.broken()), (0, vec![]));
        let counts = informer.status().feeds[0].counts;
        assert_eq!((counts.lists, counts.swept, counts.restored), (2, 1, 0), "{counts:?}");
        assert!(counts.gone >= 1, "{counts:?}");
    })
    .await;
    let told = told.lock().unwrap();
    let state_of = |name: &str| {
        told.iter().find_map(|event| match event {
            Event::Deleted { object, state } if object.key().name() == name => Some(*state),
            _ => None,
        })
    };
    // Nobody knows how they were at the end.
    assert_eq!(state_of("gone"), Some(FinalState::LastKnown));
    assert_eq!(state_of("phoenix"), Some(FinalState::LastKnown));
    assert!(!told.iter().any(|event| event.key().name() == "kept" && !is_initial(event)));
}

fn is_initial(event: &Event<ConfigMap>) -> bool {
    matches!(event, Event::Added { initial: true, .. })
}

#[tokio::test]
async fn what_the_server_has_forgotten_is_listed_again() {
    let cluster = TestServer::embedded();
    let client = cluster.client().expect("a client");
    relists_after_compaction(client, async || cluster.compact().await.expect("compacted")).await;
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn what_the_real_server_has_forgotten_is_listed_again() {
    // With a watch cache the server would know the past for longer than etcd.
    let options = ControlPlaneOptions::new().apiserver_flag("--watch-cache=false");
    let real = ControlPlane::start(options).await.expect("a cluster");
    let client = real.client().expect("a client");
    let compact = async || {
        real.compact().await.expect("compacted");
    };
    relists_after_compaction(client, compact).await;
}

/// The few fields that somebody needs.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
struct Slim {
    metadata: ObjectMeta,
    data: Option<SlimData>,
}

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
struct SlimData {
    payload: String,
}

on_each_server!(a_resident_informer_has_the_same_objects_and_a_slim_one_their_fields);
async fn a_resident_informer_has_the_same_objects_and_a_slim_one_their_fields(cluster: TestServer) {
    let (namespace, client) = in_namespace(&cluster).await;
    let api = configs(&client, &namespace);
    create_config(&client, &namespace, "early", "red").await;
    let options = || InformerOptions::new().namespace(&namespace).label_selector("team");
    let whole = SharedInformer::<ConfigMap>::new(client.clone(), options().resident::<ConfigMap>())
        .expect("an informer");
    let slim = SharedInformer::<Slim>::of(
        client.clone(),
        Resource::of::<ConfigMap>(),
        options().resident::<Slim>(),
    )
    .expect("an informer");
    assert!(whole.read_as::<Slim>().is_err(), "it is resident as another type");
    let replica = Replica::new("handler");
    whole.add_handler(replica.clone()).expect("it has not stopped");
    let test = async {
        whole.wait_for_sync().await.expect("synced");
        create_config(&client, &namespace, "late", "red").await;
        label(&api, "early", "blue").await;
        let params = ListParams::default().labels("team");
        let wanted = server_has(&api, &params).await.expect("a list");
        replica.becomes(&wanted).await;
        assert_eq!(cache_of(&whole), wanted);
        until(&slim, |slim| {
            let list = slim.lister().list();
            let blue = list.heads().any(|head| head.labels().get("team") == Some("blue"));
            blue && list.heads().count() == 2
        })
        .await;
        for object in &slim.lister().list() {
            let slim = object.get().expect("it decodes");
            assert_eq!(slim.data.as_ref().expect("data").payload, "some data");
            assert_eq!(slim.metadata.namespace.as_ref(), Some(&namespace));
            assert!(object.object().bytes().is_none(), "no bytes are kept");
        }
    };
    running(&whole, running(&slim, test)).await;
}

/// Pods by the node that they are assigned to.
#[derive(Clone, PartialEq)]
struct ByNode;

#[derive(Deserialize)]
struct Assigned {
    spec: AssignedSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AssignedSpec {
    node_name: Option<String>,
}

impl Index for ByNode {
    type View = Assigned;
    type Value = String;

    fn values(&self, _: &Head, view: Assigned) -> impl IntoIterator<Item = String> {
        view.spec.node_name
    }
}

fn pod(name: &str, node: Option<&str>, owner: &Value) -> Pod {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "ownerReferences": [{
            "apiVersion": "v1", "kind": "ConfigMap",
            "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        }]},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "example.dev/web"}]},
    });
    serde_json::from_value(pod).expect("a pod")
}

on_each_server!(pods_are_found_by_their_node_and_by_their_owner);
async fn pods_are_found_by_their_node_and_by_their_owner(cluster: TestServer) {
    let (namespace, client) = in_namespace(&cluster).await;
    let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let one = create_config(&client, &namespace, "one", "red").await;
    let two = create_config(&client, &namespace, "two", "red").await;
    let nodes = [("a", Some("n1"), &one), ("b", Some("n2"), &one), ("c", None, &two)];
    for (name, node, owner) in nodes {
        api.create(&PostParams::default(), &pod(name, node, owner)).await.expect("created");
    }
    let factory = SharedInformerFactory::new(client.clone());
    let pods = factory
        .informer_with::<Pod>(|options| options.namespace(&namespace).index(ByNode))
        .expect("an informer");
    let pending = factory
        .informer_with::<Pod>(|options| {
            options.namespace(&namespace).field_selector("spec.nodeName=")
        })
        .expect("an informer");
    factory.start();
    factory.wait_for_sync().await.expect("synced");
    // Also an index that comes later knows all.
    pods.add_index(ByOwner).expect("it reads heads only");
    let on = |node: &str| -> BTreeSet<String> {
        let list = pods.lister().by_index::<ByNode>(node).expect("an index");
        list.heads().map(|head| head.name().to_owned()).collect()
    };
    let owned_by = |owner: &Value| -> BTreeSet<String> {
        let uid = Uid::new(owner["metadata"]["uid"].as_str().expect("a uid"));
        let list = pods.lister().by_owner(&uid).expect("an index");
        list.heads().map(|head| head.name().to_owned()).collect()
    };
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!((on("n1"), on("n2")), (set(&["a"]), set(&["b"])));
    assert_eq!((owned_by(&one), owned_by(&two)), (set(&["a", "b"]), set(&["c"])));
    assert_eq!(names(&pending), ["c"]);

    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "c"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    });
    create_binding(&client, &namespace, "c", &binding).await;
    let now = DeleteParams::default().grace_period(0);
    api.delete("b", &now).await.expect("deleted");
    until(&pods, |_| on("n1").len() == 2 && on("n2").is_empty()).await;
    assert_eq!((owned_by(&one), owned_by(&two)), (set(&["a"]), set(&["c"])));
    until(&pending, |pending| pending.lister().reader().is_empty()).await;
    factory.shut_down().await;
}

/// What a scheduler does.
async fn create_binding(client: &kube::Client, namespace: &str, pod: &str, binding: &Value) {
    create(client, &format!("/api/v1/namespaces/{namespace}/pods/{pod}/binding"), binding).await;
}

on_each_server!(versions_of_a_handler_never_go_back_while_watches_are_cut);
async fn versions_of_a_handler_never_go_back_while_watches_are_cut(cluster: TestServer) {
    let (namespace, client) = in_namespace(&cluster).await;
    let api = configs(&client, &namespace);
    let resource = Resource::of::<ConfigMap>();
    let source = KubeListWatch::new(client.clone(), resource.clone());
    let source = Gated::new(source.namespace(&namespace).expect("a namespace"));
    let options = InformerOptions::new().reflector(quick());
    let informer =
        SharedInformer::<ConfigMap>::with_source(source.clone(), resource, options).unwrap();
    let replica = Replica::new("handler");
    informer.add_handler(replica.clone()).expect("it has not stopped");
    running(&informer, async {
        informer.wait_for_sync().await.expect("it syncs");
        for round in 0..5 {
            for name in ["a", "b"] {
                create_config(&client, &namespace, &format!("{name}-{round}"), "red").await;
            }
            // A watch that brings nothing again and again would be given up for a list.
            let key = format!("{namespace}/b-{round}");
            until(&informer, |informer| informer.lister().cached(&*key).is_some()).await;
            source.shut();
            label(&api, &format!("a-{round}"), "blue").await;
            delete(&api, &format!("b-{round}")).await;
            source.open();
        }
        let wanted = server_has(&api, &ListParams::default()).await.expect("a list");
        replica.becomes(&wanted).await;
    })
    .await;
    assert_eq!((replica.went_back(), replica.broken()), (0, vec![]));
    let counts = informer.status().feeds[0].counts;
    assert_eq!(counts.lists, 1, "a cut watch is resumed, not listed anew: {counts:?}");
}

on_each_server!(wait_for_what_the_server_has_ends_when_the_cache_shows_every_kind_of_change);
/// As after a failover: somebody else has written, and the watch has not delivered it.
async fn wait_for_what_the_server_has_ends_when_the_cache_shows_every_kind_of_change(
    cluster: TestServer,
) {
    let (namespace, client) = in_namespace(&cluster).await;
    let api = configs(&client, &namespace);
    for number in 0..7 {
        create_config(&client, &namespace, &format!("early-{number}"), "red").await;
    }
    let resource = Resource::of::<ConfigMap>();
    let source = KubeListWatch::new(client.clone(), resource.clone());
    let source = Gated::new(source.namespace(&namespace).expect("a namespace"));
    // One page.
    let config = ReflectorConfig { page_size: 100, ..quick() };
    let options = InformerOptions::new().reflector(config);
    let informer = SharedInformer::<ConfigMap>::with_source(source.clone(), resource, options);
    let informer = informer.expect("valid");
    running(&informer, async {
        informer.wait_for_sync().await.expect("it syncs");
        let mut lists = 0;
        for change in ["create", "change", "delete", "replace"] {
            source.hold_watches(true);
            match change {
                "create" => drop(create_config(&client, &namespace, "late", "green").await),
                "change" => label(&api, "early-0", "blue").await,
                "delete" => delete(&api, "early-1").await,
                _ => {
                    delete(&api, "early-2").await;
                    create_config(&client, &namespace, "early-2", "red").await;
                }
            }
            let wanted = server_has(&api, &ListParams::default()).await.expect("a list");
            assert_ne!(cache_of(&informer), wanted, "{change}");
            let is_current = async {
                informer.cache().wait_until_current().await.expect("a list");
                assert_eq!(cache_of(&informer), wanted, "{change}");
            };
            let let_go = async {
                let read = source.wait_for_list(lists).await;
                source.hold_watches(false);
                read
            };
            ((), lists) = tokio::join!(is_current, let_go);
        }
        // There is nothing to wait for any more.
        source.hold_watches(true);
        informer.cache().wait_until_current().await.expect("a list");
    })
    .await;
}

on_each_server!(wait_for_what_the_server_has_reads_all_pages);
async fn wait_for_what_the_server_has_reads_all_pages(cluster: TestServer) {
    let (namespace, client) = in_namespace(&cluster).await;
    for number in 0..7 {
        create_config(&client, &namespace, &format!("early-{number}"), "red").await;
    }
    let resource = Resource::of::<ConfigMap>();
    let source = KubeListWatch::new(client.clone(), resource.clone());
    let source = Gated::new(source.namespace(&namespace).expect("a namespace"));
    let options = InformerOptions::new().reflector(quick());
    let informer = SharedInformer::<ConfigMap>::with_source(source.clone(), resource, options);
    let informer = informer.expect("valid");
    running(&informer, async {
        informer.wait_for_sync().await.expect("it syncs");
        // Otherwise the objects of the other pages would seem to be deleted.
        let current = timeout(PATIENCE, async { informer.cache().wait_until_current().await });
        current.await.expect("it is current").expect("a list");
        let asked = source.requests();
        let lists = asked.iter().filter(|asked| matches!(asked, Request::List(_))).count();
        assert_eq!(lists, 3, "{asked:?}");
    })
    .await;
}
