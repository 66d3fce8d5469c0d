//! Objects at the server, read and written by the rules of a controller, on both servers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Container, Namespace};
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{GroupVersionKind, ObjectMeta, PartialObjectMeta};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use windlass_indexer::ObjectKey;
use windlass_informer::Resource;
use windlass_reconciler::{Action, Class, Error, RunContext};
use windlass_testserver::{TestServer, on_each_server};

use crate::stage::{api, config_map, create, does, run};

/// Calls `body` in a run, once, and returns what it returns. The tests share the real server, so
/// each has a run and objects of its own.
async fn within_a_run<R, F>(cluster: &TestServer, body: F) -> R
where
    R: Send + 'static,
    F: for<'a> FnOnce(&'a RunContext) -> std::pin::Pin<Box<dyn Future<Output = R> + Send + 'a>>
        + Send
        + 'static,
{
    let client = cluster.client().expect("a client");
    let mut own = config_map("the-run-");
    own.metadata.generate_name = own.metadata.name.take();
    let own = api(&client).create(&PostParams::default(), &own).await.expect("created");
    let (said, result) = oneshot::channel();
    // Both are gone after the first run, however that ends.
    let once = std::sync::Mutex::new(Some((body, said)));
    let once = does(move |object: Arc<ConfigMap>, cx: &RunContext| {
        let is_it = object.uid() == own.uid();
        let once = is_it.then(|| once.lock().expect("not poisoned").take()).flatten();
        Box::pin(async move {
            if let Some((body, said)) = once {
                let _ = said.send(body(cx).await);
            }
            Ok(Action::done())
        })
    });
    let running = run(client, once);
    let result = result.await.expect("the run must not panic");
    running.end().await.expect("it stops");
    result
}

fn key(text: &str) -> ObjectKey {
    text.parse().expect("a key")
}

on_each_server!(object_is_made_read_changed_and_deleted);
async fn object_is_made_read_changed_and_deleted(cluster: TestServer) {
    let result = within_a_run(&cluster, |cx| Box::pin(whole_life(cx))).await;
    result.expect("everything goes");
}

async fn whole_life(cx: &RunContext) -> Result<(), Error> {
    let live = cx.live::<ConfigMap>();
    assert!(live.get(&key("default/new")).await?.is_none());
    let made = live.create(&config_map("new")).await?;
    let twice = live.create(&config_map("new")).await.expect_err("it is there");
    assert_eq!(twice.class(), Class::Conflict);

    let mut new = made.clone();
    new.data.get_or_insert_default().insert("a".into(), "1".into());
    let changed = live.update(&made, &new).await?;
    assert_ne!(changed.resource_version(), made.resource_version());
    let same = live.update(&changed, &changed.clone()).await?;
    assert_eq!(same.resource_version(), changed.resource_version());
    // Made from what is no longer there.
    let mut other = made.clone();
    other.data.get_or_insert_default().insert("b".into(), "2".into());
    assert_eq!(live.update(&made, &other).await.expect_err("it is old").class(), Class::Conflict);

    let one = key("default/new");
    let modified = cx.live::<ConfigMap>().modify(&one, |object| {
        object.data.get_or_insert_default().insert("c".into(), "3".into());
    });
    let modified = modified.await?.expect("it is there");
    assert_eq!(modified.data.as_ref().map(BTreeMap::len), Some(2));
    assert!(live.modify(&key("default/none"), |_| ()).await?.is_none());

    live.delete(&modified).await?;
    live.delete(&modified).await?;
    assert!(live.get(&key("default/new")).await?.is_none());
    Ok(())
}

on_each_server!(another_object_of_the_same_name_is_not_deleted);
async fn another_object_of_the_same_name_is_not_deleted(cluster: TestServer) {
    let survivor = within_a_run(&cluster, |cx| Box::pin(delete_the_old_one(cx))).await;
    let survivor = survivor.expect("everything goes");
    let api = api(&cluster.client().expect("a client"));
    assert_eq!(api.get("twin").await.expect("it is there").uid(), survivor);
}

async fn delete_the_old_one(cx: &RunContext) -> Result<Option<String>, Error> {
    let live = cx.live::<ConfigMap>();
    let old = live.create(&config_map("twin")).await?;
    live.delete(&old).await?;
    let new = live.create(&config_map("twin")).await?;
    live.delete(&old).await?;
    Ok(new.uid())
}

on_each_server!(status_is_written_alone);
async fn status_is_written_alone(cluster: TestServer) {
    within_a_run(&cluster, |cx| Box::pin(write_status(cx))).await.expect("everything goes");
}

fn deployment(name: &str) -> Result<Deployment, Error> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "replicas": 2, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [
                {"name": "web", "image": "web", "env": [{"name": "LEVEL", "value": "1"}]},
                {"name": "log", "image": "log", "command": ["tail"]},
            ]},
        }},
    }))?)
}

async fn write_status(cx: &RunContext) -> Result<(), Error> {
    let live = cx.live::<Deployment>();
    let made = live.create(&deployment("status")?).await?;
    let mut new = made.clone();
    new.spec.replicas = Some(7);
    new.labels_mut().insert("not".into(), "status".into());
    let same = live.update_status(&made, &new).await?;
    assert_eq!(same.resource_version(), made.resource_version(), "the status is the same");
    new.status.get_or_insert_default().observed_generation = Some(1);
    let written = live.update_status(&made, &new).await?;
    assert_eq!((written.spec.replicas, written.labels().len()), (Some(2), 0));
    assert_eq!(written.status.as_ref().and_then(|status| status.observed_generation), Some(1));

    let (web, none) = (key("default/status"), key("default/none"));
    let modified = live.modify_status(&web, |web| {
        web.spec.replicas = Some(7);
        web.status.get_or_insert_default().replicas = Some(3);
    });
    let modified = modified.await?.expect("it is there");
    let status = modified.status.as_ref().expect("a status");
    assert_eq!(
        (modified.spec.replicas, status.replicas, status.observed_generation),
        (Some(2), Some(3), Some(1))
    );
    assert!(live.modify_status(&none, |_| ()).await?.is_none());
    live.delete(&modified).await
}

on_each_server!(fields_within_lists_that_the_type_does_not_know_stay);
async fn fields_within_lists_that_the_type_does_not_know_stay(cluster: TestServer) {
    within_a_run(&cluster, |cx| Box::pin(write_lists(cx))).await.expect("everything goes");
}

/// What somebody knows of a `Deployment` to whom containers are a name and an image.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Images {
    spec: ImagesSpec,
}

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct ImagesSpec {
    template: ImagesTemplate,
}

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct ImagesTemplate {
    spec: ImagesPod,
}

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct ImagesPod {
    containers: Vec<Image>,
}

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Image {
    name: String,
    image: String,
}

async fn write_lists(cx: &RunContext) -> Result<(), Error> {
    let (full, poor) = (cx.live::<Deployment>(), cx.live::<Seen<Deployment, Images>>());
    let (made, web) = (full.create(&deployment("lists")?).await?, key("default/lists"));
    let old = poor.get(&web).await?.expect("it is there");
    let mut new = old.clone();
    let containers = &mut new.known.spec.template.spec.containers;
    containers[0].image.push_str(":2");
    containers.swap(0, 1);
    containers.push(Image { name: "new".to_owned(), image: "new".to_owned() });
    poor.update(&old, &new).await?;

    let mut expected = made.clone();
    let now = full.get(&web).await?.expect("it is there");
    let (expected, now) = (containers_of(&mut expected), containers_of(&mut now.clone()).clone());
    expected[0].image = Some("web:2".to_owned());
    expected.swap(0, 1);
    assert_eq!(now[..2], expected[..]);
    assert_eq!(now[2].name, "new");

    // Made from what is no longer there: this is found out before anything is sent.
    let late = poor.update(&old, &new).await.expect_err("it is old");
    assert_eq!(late.class(), Class::Conflict);
    let modified = poor.modify(&web, |web| {
        web.known.spec.template.spec.containers.retain(|container| container.name != "log");
    });
    modified.await?.expect("it is there");
    let mut now = full.get(&web).await?.expect("it is there");
    assert_eq!(containers_of(&mut now)[0], expected[1]);
    full.delete(&now).await
}

fn containers_of(deployment: &mut Deployment) -> &mut Vec<Container> {
    &mut deployment.spec.template.spec.as_mut().expect("a pod").containers
}

on_each_server!(fields_that_the_type_does_not_know_stay);
async fn fields_that_the_type_does_not_know_stay(cluster: TestServer) {
    let client = cluster.client().expect("a client");
    let resource = ApiResource::erase::<ConfigMap>(&());
    let raw: Api<DynamicObject> = Api::namespaced_with(client, "default", &resource);
    let object =
        json!({"metadata": {"name": "rich"}, "data": {"a": "1"}, "binaryData": {"b": "AAE="}});
    let object = serde_json::from_value(object).expect("an object");
    raw.create(&PostParams::default(), &object).await.expect("created");
    within_a_run(&cluster, |cx| Box::pin(write_poorly(cx))).await.expect("everything goes");
    let rich = raw.get("rich").await.expect("it is there");
    assert_eq!(rich.data["binaryData"], json!({"b": "AAE="}));
    assert_eq!(rich.data["data"], json!({"a": "2"}));
}

/// An object of type `K` as somebody sees it who knows only `S` of it.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Seen<K, S> {
    metadata: ObjectMeta,
    #[serde(flatten)]
    known: S,
    #[serde(skip)]
    of: PhantomData<fn() -> K>,
}

impl<K: kube::Resource<DynamicType = ()>, S> kube::Resource for Seen<K, S> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// What somebody knows of a `ConfigMap` who has never heard of binary data.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Data {
    data: BTreeMap<String, String>,
}

async fn write_poorly(cx: &RunContext) -> Result<(), Error> {
    let rich = key("default/rich");
    let changed = cx.live::<Seen<ConfigMap, Data>>().modify(&rich, |object| {
        object.known.data.insert("a".into(), "2".into());
    });
    let mut changed = changed.await?.expect("it is there");
    // It does not say what it is; that is added.
    changed.metadata = config_map("poor").metadata;
    let made = cx.live().create(&changed).await?;
    cx.live().delete(&made).await
}

on_each_server!(objects_of_the_cluster_have_no_namespace);
async fn objects_of_the_cluster_have_no_namespace(cluster: TestServer) {
    within_a_run(&cluster, |cx| Box::pin(make_a_namespace(cx))).await.expect("everything goes");
}

async fn make_a_namespace(cx: &RunContext) -> Result<(), Error> {
    let live = cx.live::<Namespace>();
    let namespace = serde_json::from_value(json!({"metadata": {"name": "shop"}}))?;
    live.create(&namespace).await?;
    let shop = ObjectKey::cluster("shop");
    let modified = live.modify(&shop, |namespace| {
        namespace.labels_mut().insert("a".into(), "b".into());
    });
    let modified = modified.await?.expect("it is there");
    live.delete(&modified).await
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_is_told_before_anything_is_sent() {
    let cluster = TestServer::embedded();
    let told = within_a_run(&cluster, |cx| Box::pin(write_badly(cx))).await;
    assert_eq!(
        told,
        [
            "a ConfigMap cannot be written without a namespace: set metadata.namespace",
            "a ConfigMap cannot be updated without a version: pass the object as it was read",
            "a ConfigMap cannot be deleted without a uid: pass the object as it was read",
            "a ConfigMap cannot be applied without a name: set metadata.name",
        ]
    );
}

async fn write_badly(cx: &RunContext) -> Vec<String> {
    let live = cx.live::<ConfigMap>();
    let nowhere = ConfigMap::default();
    let mut nameless = ConfigMap::default();
    nameless.metadata.namespace = Some("default".to_owned());
    let told = [
        live.create(&nowhere).await.map(drop),
        live.update(&config_map("x"), &config_map("x")).await.map(drop),
        live.delete(&config_map("x")).await,
        live.apply(&nameless).await.map(drop),
    ];
    told.into_iter().map(|result| result.expect_err("it lacks something").to_string()).collect()
}

on_each_server!(
    change_is_made_again_on_what_somebody_else_wrote_meanwhile,
    flavor = "multi_thread"
);
/// Somebody else writes between reading and writing, twice.
async fn change_is_made_again_on_what_somebody_else_wrote_meanwhile(cluster: TestServer) {
    let client = cluster.client().expect("a client");
    create(&client, "contended").await;
    let (asked, mut others) = mpsc::channel(1);
    let (done, wrote) = std::sync::mpsc::channel();
    let wrote = std::sync::Mutex::new(wrote);
    let rival = async {
        while others.recv().await.is_some() {
            let patch = Patch::Merge(
                json!({"data": {"rival": "here"}, "metadata": {"labels": {"n": "1"}}}),
            );
            api(&client)
                .patch("contended", &PatchParams::default(), &patch)
                .await
                .expect("patched");
            done.send(()).expect("it is waited for");
        }
    };
    let modify = async {
        let result = within_a_run(&cluster, move |cx| {
            Box::pin(async move {
                let mut tries = 0;
                let (live, contended) = (cx.live::<ConfigMap>(), key("default/contended"));
                let modified = live.modify(&contended, |object| {
                    tries += 1;
                    if tries == 1 {
                        // In the middle of a change, which is not async: the other one works
                        // elsewhere.
                        tokio::task::block_in_place(|| {
                            asked.blocking_send(()).expect("the other one listens");
                            wrote
                                .lock()
                                .expect("not poisoned")
                                .recv()
                                .expect("the other one wrote");
                        });
                    }
                    object.data.get_or_insert_default().insert("ours".into(), "there".into());
                });
                (modified.await, tries)
            })
        });
        result.await
    };
    let ((), (modified, tries)) = tokio::join!(rival, modify);
    assert_eq!(tries, 2);
    let data = modified.expect("it goes").expect("it is there").data.expect("data");
    assert_eq!(data.keys().collect::<Vec<_>>(), ["ours", "rival"]);
}

on_each_server!(applying_owns_what_it_names_and_nothing_else);
async fn applying_owns_what_it_names_and_nothing_else(cluster: TestServer) {
    let data = within_a_run(&cluster, |cx| Box::pin(apply_twice(cx))).await;
    let expected =
        [("a", "1"), ("theirs", "3")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(data.expect("everything goes"), BTreeMap::from(expected));
}

/// The second time something is left out, and somebody else has added something meanwhile.
async fn apply_twice(cx: &RunContext) -> Result<BTreeMap<String, String>, Error> {
    let live = cx.live::<ConfigMap>();
    let mut object = config_map("applied");
    object.data = Some([("a".into(), "1".into()), ("b".into(), "2".into())].into());
    let made = live.apply(&object).await?;
    let again = live.apply(&object).await?;
    assert_eq!(made.resource_version(), again.resource_version(), "nothing has changed");
    let theirs = Patch::Merge(json!({"data": {"theirs": "3"}}));
    api(cx.client()).patch("applied", &PatchParams::default(), &theirs).await?;
    object.data.get_or_insert_default().remove("b");
    Ok(live.apply(&object).await?.data.unwrap_or_default())
}

on_each_server!(what_was_read_can_be_applied);
async fn what_was_read_can_be_applied(cluster: TestServer) {
    within_a_run(&cluster, |cx| Box::pin(apply_again(cx))).await.expect("everything goes");
}

/// It has a status, a uid and more that only the server writes; applied after it is gone, none of
/// that is back.
async fn apply_again(cx: &RunContext) -> Result<(), Error> {
    let live = cx.live::<Deployment>();
    let (made, mut new) = (live.create(&deployment("again")?).await?, deployment("again")?);
    new.status.get_or_insert_default().observed_generation = Some(7);
    let old = live.update_status(&made, &new).await?;
    let applied = live.apply(&old).await?;
    assert_eq!(applied.uid(), old.uid());
    live.delete(&old).await?;
    let again = live.apply(&old).await?;
    assert_ne!(again.uid(), old.uid());
    assert_eq!(again.status.as_ref().and_then(|status| status.observed_generation), None);
    live.delete(&again).await
}

#[tokio::test(start_paused = true)]
async fn error_does_not_show_what_cannot_be_decoded() {
    let cluster = TestServer::embedded();
    let told = within_a_run(&cluster, |cx| Box::pin(read_wrongly(cx))).await;
    for told in told.expect("it is made") {
        assert!(told.contains("ConfigMap: Data at line "), "{told}");
        assert!(!told.contains("hidden"), "{told}");
    }
}

/// What somebody believes to know of a `ConfigMap`.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Numbers {
    data: BTreeMap<String, u32>,
}

/// Cannot be read from what it writes, nor, if so wished, be written.
#[derive(Debug, serde::Deserialize)]
struct OneWay {
    #[serde(default)]
    is_mute: bool,
}

impl serde::Serialize for OneWay {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_mute {
            return Err(serde::ser::Error::custom("hidden"));
        }
        BTreeMap::from([("is_mute", "hidden")]).serialize(serializer)
    }
}

async fn read_wrongly(cx: &RunContext) -> Result<[String; 4], Error> {
    let (mut object, wrong) = (config_map("wrong"), key("default/wrong"));
    object.data = Some([("a".into(), "hidden".into())].into());
    cx.live().create(&object).await?;
    let live = cx.live::<Seen<ConfigMap, OneWay>>();
    let mut one_way = live.get(&wrong).await?.expect("it is there");
    let copied = live.update(&one_way, &one_way).await.map(drop);
    one_way.known.is_mute = true;
    let told = [
        cx.live::<Seen<ConfigMap, Numbers>>().get(&wrong).await.map(drop),
        copied,
        live.apply(&one_way).await.map(drop),
        live.create(&one_way).await.map(drop),
    ];
    Ok(told.map(|result| result.expect_err("it does not fit").to_string()))
}

on_each_server!(object_of_somebody_else_is_not_taken_over);
async fn object_of_somebody_else_is_not_taken_over(cluster: TestServer) {
    let told = within_a_run(&cluster, |cx| Box::pin(apply_owned(cx))).await;
    let told = told.expect("everything goes");
    assert_eq!(
        told,
        "the ConfigMap \"not-ours\" exists already, and belongs to somebody else: delete it, \
             or choose another name"
    );
}

/// Applies an object of its own, twice, and one that is not.
async fn apply_owned(cx: &RunContext) -> Result<String, Error> {
    let live = cx.live::<ConfigMap>();
    let owner = live.create(&config_map("the-owner")).await?;
    for _ in 0..2 {
        let applied = live.apply_owned(config_map("ours"), &owner).await?;
        assert!(windlass_reconciler::is_controlled_by(&applied.metadata, &owner));
    }
    live.create(&config_map("not-ours")).await?;
    let refused = live.apply_owned(config_map("not-ours"), &owner).await;
    Ok(refused.expect_err("it is somebody else's").to_string())
}

#[tokio::test(start_paused = true)]
async fn object_that_is_nested_deeply_does_not_keep_others_from_being_listed() {
    let cluster = TestServer::embedded();
    let client = cluster.client().expect("a client");
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = serde_json::from_value(json!({
        "metadata": {"name": "shops.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "shops", "kind": "Shop"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": open},
            }],
        },
    }));
    windlass_reconciler::install_crd(&client, &definition.expect("a definition"))
        .await
        .expect("installed");
    for (name, levels) in [("deep", 2_000), ("plain", 3)] {
        let nested = format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
        let shop = format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Shop","spec":{nested},
                "metadata":{{"name":"{name}","labels":{{"app":"web"}}}}}}"#
        );
        let path = "/apis/example.com/v1/namespaces/default/shops";
        let request = http::Request::post(path).header("content-type", "application/json");
        let request = request.body(shop.into_bytes()).expect("a request");
        client.request_text(request).await.expect("created");
    }
    create(&client, "the-run").await;
    let (names, error) =
        within_a_run(&cluster, |cx| Box::pin(list_shops(cx))).await.expect("a list");
    assert_eq!(names, ["deep", "plain"]);
    assert!(error.contains("the Shop default/deep is nested too deeply"), "{error}");
}

async fn list_shops(cx: &RunContext) -> Result<(Vec<String>, String), Error> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Shop"));
    let (shops, all) = (Resource::new(&kind, true), ListParams::default());
    let selected = all.clone().labels("app=web").fields("metadata.namespace=default");
    // A type that does not have the field.
    let heads = cx.live_of::<PartialObjectMeta<DynamicObject>>(&shops);
    let names = heads.list(None, &selected).await?.iter().map(ResourceExt::name_any).collect();
    let whole = cx.live_of::<DynamicObject>(&shops).list(None, &all).await;
    Ok((names, whole.expect_err("it cannot be a value").to_string()))
}
