//! Reading caches in a run: it sees one moment of them, and what it writes itself.

mod stage;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;
use windlass_indexer::{ByController, Head, Index, KeyRef, List, ObjectKey, Selector};
use windlass_informer::{Resource, SharedInformerFactory, Transform};
use windlass_reconciler::{
    Action, CacheView, Controller, ControllerBuilder, Error, ObjectType, RunContext, Watch,
    set_owner,
};

use stage::{Called, api, cluster, create, does, run_on};

/// Objects by an annotation.
#[derive(Clone)]
struct BySize;

#[derive(Deserialize)]
struct Annotated {
    metadata: Annotations,
}

#[derive(Clone, Debug, Deserialize)]
struct Annotations {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Index for BySize {
    type View = Annotated;
    type Value = String;

    fn values(&self, _: &Head, mut view: Annotated) -> impl IntoIterator<Item = String> {
        view.metadata.annotations.remove("size")
    }
}

fn secret(name: &str) -> Secret {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}}))
        .expect("an object")
}

fn sized(name: &str, size: &str) -> Secret {
    let mut secret = secret(name);
    secret.annotations_mut().insert("size".to_owned(), size.to_owned());
    secret
}

fn secrets(client: &Client) -> Api<Secret> {
    Api::namespaced(client.clone(), "default")
}

async fn create_secret(client: &Client, name: &str) -> Secret {
    secrets(client).create(&PostParams::default(), &secret(name)).await.expect("created")
}

fn names<T>(list: &List<T>) -> Vec<String> {
    list.heads().map(|head| head.name().to_owned()).collect()
}

/// What the reads of a cache say of an object. All of them must agree; returns whether it is there.
fn is_there<T: ObjectType>(cache: &CacheView<'_, T>, key: &str) -> Result<bool, Error> {
    let is_there = cache.get(key)?.is_some();
    assert_eq!(cache.cached(key).is_some(), is_there, "cached {key}");
    let list = cache.list();
    let is_listed = list.heads().any(|head| head.key().to_string() == key);
    assert_eq!(is_listed, is_there, "listed {key}");
    assert_eq!(cache.len(), list.heads().count());
    Ok(is_there)
}

/// Runs `body` as the run of the `ConfigMap` `one`, again as long as it asks for it. A run that
/// fails or panics is a failure of the test.
async fn in_runs<F>(
    client: &Client,
    change: impl FnOnce(ControllerBuilder<ConfigMap>) -> ControllerBuilder<ConfigMap>,
    body: F,
) where
    F: for<'a> Fn(Arc<ConfigMap>, &'a RunContext) -> Called<'a> + Send + Sync + 'static,
{
    on_factory(SharedInformerFactory::new(client.clone()), change, body).await;
}

async fn on_factory<F>(
    factory: SharedInformerFactory,
    change: impl FnOnce(ControllerBuilder<ConfigMap>) -> ControllerBuilder<ConfigMap>,
    body: F,
) where
    F: for<'a> Fn(Arc<ConfigMap>, &'a RunContext) -> Called<'a> + Send + Sync + 'static,
{
    let (said, mut ran) = mpsc::channel(10);
    let body = Arc::new(body);
    let reconciler = does(move |object: Arc<ConfigMap>, cx: &RunContext| {
        let (said, body) = (said.clone(), Arc::clone(&body));
        Box::pin(async move {
            if cx.key().name() != "one" {
                return Ok(Action::Done);
            }
            assert_eq!(cx.attempt(), 1, "the last attempt panicked");
            let ended = body(object, cx).await.map_err(Error::terminal);
            said.send(ended.as_ref().copied().map_err(ToString::to_string)).await?;
            ended
        })
    });
    let watch = Watch::<ConfigMap>::new().options(|o| o.namespace("default"));
    let running = run_on(factory, change(Controller::of(watch)), reconciler);
    loop {
        let ended = tokio::time::timeout(Duration::from_mins(5), ran.recv()).await;
        match ended.expect("a run ends").expect("a run ends") {
            Ok(Action::RequeueAfter(_)) => {}
            Ok(Action::Done) => break,
            Err(error) => panic!("the run failed: {error}"),
        }
    }
    running.end().await.expect("it stops");
}

const AGAIN: Result<Action, Error> = Ok(Action::RequeueAfter(Duration::ZERO));

#[tokio::test(start_paused = true)]
async fn list_agrees_with_get_while_others_change_the_cache() {
    let (_cluster, client) = cluster().await;
    create_secret(&client, "a").await;
    create_secret(&client, "b").await;
    let factory = SharedInformerFactory::new(client.clone());
    let now = factory.lister::<Secret>().expect("a lister");
    let runs = AtomicU32::new(0);
    let watched = |builder: ControllerBuilder<ConfigMap>| builder.reads(Watch::<Secret>::new());
    on_factory(factory, watched, move |object, cx| {
        let (others, now) = (client.clone(), now.clone());
        let is_first = runs.fetch_add(1, Ordering::Relaxed) == 0;
        Box::pin(async move {
            let held = cx.cache::<Secret>()?;
            if !is_first {
                assert_eq!(names(&held.list()), ["b", "c"], "the next run sees what is there");
                assert_eq!(held.get("default/b")?.map(|b| b.labels().len()), Some(1));
                return Ok(Action::Done);
            }
            let label = Patch::Merge(json!({"metadata": {"labels": {"by": "others"}}}));
            secrets(&others).patch("b", &PatchParams::default(), &label).await?;
            secrets(&others).delete("a", &DeleteParams::default()).await?;
            create_secret(&others, "c").await;
            api(&others).patch("one", &PatchParams::default(), &label).await?;
            while now.cached("default/c").is_none() {
                tokio::task::yield_now().await;
            }
            assert_eq!(names(&now.list()), ["b", "c"]);
            assert_eq!(names(&held.list()), ["a", "b"]);
            assert_eq!(names(&cx.list::<Secret>()?.in_namespace("default")), ["a", "b"]);
            assert!(is_there(&held, "default/a")? && is_there(&held, "default/b")?);
            assert!(!is_there(&held, "default/c")?);
            assert_eq!(held.get("default/b")?.map(|b| b.labels().len()), Some(0));
            let by_others: Selector = "by=others".parse()?;
            assert!(cx.list::<Secret>()?.matching(&by_others).is_empty());
            // The reconciled object is of the same moment.
            assert_eq!(cx.get::<ConfigMap>(cx.key())?, Some(object));
            AGAIN
        })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn run_reads_what_it_wrote() {
    let (_cluster, client) = cluster().await;
    create_secret(&client, "old").await;
    let owned = Watch::<Secret>::new().options(|o| o.index(BySize));
    in_runs(
        &client,
        |builder| builder.owns(owned),
        |object, cx| {
            Box::pin(async move {
                let cache = cx.cache::<Secret>()?;
                let sizes = |size: &str| cache.by_index::<BySize>(size).map(|list| names(&list));
                let before = cache.list();
                assert_eq!(names(&cx.owned::<Secret>()?), Vec::<String>::new());

                // Created.
                let mut child = sized("child", "small");
                set_owner(&mut child, &*object)?;
                let child = cx.live().create(&child).await?;
                assert!(is_there(&cache, "default/child")?);
                assert_eq!(
                    cx.get("default/child")?.as_deref(),
                    Some(&without_fields(child.clone()))
                );
                assert_eq!(names(&cx.owned::<Secret>()?), ["child"]);
                assert_eq!(sizes("small")?, ["child"]);

                // Updated.
                let mut new = child.clone();
                new.annotations_mut().insert("size".to_owned(), "large".to_owned());
                new.labels_mut().insert("app".to_owned(), "web".to_owned());
                cx.live().update(&child, &new).await?;
                assert_eq!((sizes("small")?.len(), sizes("large")?), (0, vec!["child".to_owned()]));
                assert_eq!(cache.index_values::<BySize>()?.len(), 1);
                let web: Selector = "app=web".parse()?;
                assert_eq!(names(&cx.list::<Secret>()?.matching(&web)), ["child"]);
                assert_eq!(names(&cx.owned::<Secret>()?.matching(&web)), ["child"]);

                // Applied, which creates it and then changes it.
                cx.live().apply_owned(sized("applied", "small"), &*object).await?;
                assert_eq!(names(&cx.owned::<Secret>()?), ["applied", "child"]);
                cx.live().apply_owned(sized("applied", "large"), &*object).await?;
                assert_eq!(sizes("large")?, ["applied", "child"]);

                // Written by the client itself.
                let direct = secrets(cx.client());
                let label = Patch::Merge(json!({"metadata": {"labels": {"app": "api"}}}));
                direct.patch("old", &PatchParams::default(), &label).await?;
                assert_eq!(cx.get::<Secret>("default/old")?.map(|old| old.labels().len()), Some(1));

                // Deleted.
                let child = cx.get::<Secret>("default/child")?.expect("it is there");
                cx.live().delete(&*child).await?;
                assert!(!is_there(&cache, "default/child")?);
                assert_eq!(names(&cx.owned::<Secret>()?), ["applied"]);
                assert_eq!(sizes("large")?, ["applied"]);
                direct.delete("old", &DeleteParams::default()).await?;
                assert_eq!(names(&cache.list()), ["applied"]);

                // Created again: another object of that name.
                cx.live().create(&sized("old", "small")).await?;
                assert!(is_there(&cache, "default/old")?);
                assert_eq!(names(&before), ["old"], "a list stays as it was");

                // The reconciled object.
                let mut new = ConfigMap::clone(&object);
                new.data = Some(BTreeMap::from([("a".to_owned(), "b".to_owned())]));
                cx.live().update(&*object, &new).await?;
                let written = cx.get::<ConfigMap>(cx.key())?.expect("it is there");
                assert_eq!(written.data, new.data);
                Ok(Action::Done)
            })
        },
    )
    .await;
}

/// As caches hold an object.
fn without_fields(mut secret: Secret) -> Secret {
    secret.metadata.managed_fields = None;
    secret
}

#[tokio::test(start_paused = true)]
async fn object_that_a_finalizer_keeps_is_being_deleted_until_it_is_removed() {
    let (_cluster, client) = cluster().await;
    in_runs(
        &client,
        |builder| builder.reads(Watch::<Secret>::new()),
        |_, cx| {
            Box::pin(async move {
                let cache = cx.cache::<Secret>()?;
                let mut kept = secret("kept");
                kept.finalizers_mut().push("example.com/keep".to_owned());
                let kept = cx.live().create(&kept).await?;
                cx.live().delete(&kept).await?;
                assert!(is_there(&cache, "default/kept")?);
                let shown = cx.get::<Secret>("default/kept")?.expect("it is there");
                assert!(shown.metadata.deletion_timestamp.is_some());
                let key = "default/kept".parse()?;
                cx.live::<Secret>().modify(&key, |kept| kept.finalizers_mut().clear()).await?;
                assert!(!is_there(&cache, "default/kept")?);
                Ok(Action::Done)
            })
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn writes_of_a_run_end_with_it() {
    let (_cluster, client) = cluster().await;
    let (others, runs) = (client.clone(), AtomicU32::new(0));
    in_runs(
        &client,
        |builder| builder.reads(Watch::<Secret>::new()),
        move |_, cx| {
            let (number, others) = (runs.fetch_add(1, Ordering::Relaxed), others.clone());
            Box::pin(async move {
                let shown = cx.get::<Secret>("default/made")?;
                if number == 0 {
                    let made = cx.live().create(&secret("made")).await?;
                    assert!(cx.get::<Secret>("default/made")?.is_some());
                    // Somebody else deletes it, which this run does not see.
                    secrets(&others).delete(&made.name_any(), &DeleteParams::default()).await?;
                    assert!(cx.get::<Secret>("default/made")?.is_some());
                    return AGAIN;
                }
                // The cache may still have it, and catches up. What was laid over it would stay.
                Ok(if shown.is_some() {
                    Action::RequeueAfter(Duration::from_secs(1))
                } else {
                    Action::Done
                })
            })
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn writes_through_another_client_are_not_seen() {
    let (_cluster, client) = cluster().await;
    let (others, runs) = (client.clone(), AtomicU32::new(0));
    in_runs(
        &client,
        |builder| builder.reads(Watch::<Secret>::new()),
        move |_, cx| {
            let (number, others) = (runs.fetch_add(1, Ordering::Relaxed), others.clone());
            Box::pin(async move {
                if number > 0 {
                    // The cache shows it soon.
                    let is_shown = cx.get::<Secret>("default/by-others")?.is_some();
                    return if is_shown { Ok(Action::Done) } else { AGAIN };
                }
                create_secret(&others, "by-others").await;
                cx.live().create(&secret("by-us")).await?;
                assert_eq!(names(&cx.list::<Secret>()?), ["by-us"]);
                AGAIN
            })
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn cache_of_one_namespace_does_not_show_writes_to_another() {
    let (_cluster, client) = cluster().await;
    let here = Watch::<Secret>::new().options(|o| o.namespace("default"));
    in_runs(
        &client,
        |builder| builder.reads(here),
        |_, cx| {
            Box::pin(async move {
                let mut elsewhere = secret("made");
                elsewhere.metadata.namespace = Some("kube-system".to_owned());
                cx.live().create(&elsewhere).await?;
                cx.live().create(&secret("made")).await?;
                let cache = cx.cache::<Secret>()?;
                assert!(
                    is_there(&cache, "default/made")? && !is_there(&cache, "kube-system/made")?
                );
                assert_eq!(cache.len(), 1);
                Ok(Action::Done)
            })
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn cache_with_a_label_selector_shows_what_it_selects() {
    let (_cluster, client) = cluster().await;
    let web = Watch::<Secret>::new().options(|o| o.label_selector("app=web"));
    in_runs(
        &client,
        |builder| builder.reads(web),
        |_, cx| {
            Box::pin(async move {
                let cache = cx.cache::<Secret>()?;
                let made = cx.live().create(&secret("made")).await?;
                assert!(!is_there(&cache, "default/made")?);
                let mut labelled = made.clone();
                labelled.labels_mut().insert("app".to_owned(), "web".to_owned());
                let labelled = cx.live().update(&made, &labelled).await?;
                assert!(is_there(&cache, "default/made")?);
                let mut other = labelled.clone();
                other.labels_mut().insert("app".to_owned(), "api".to_owned());
                cx.live().update(&labelled, &other).await?;
                assert!(!is_there(&cache, "default/made")?);
                Ok(Action::Done)
            })
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn cache_with_a_field_selector_shows_what_is_certain() {
    let (_cluster, client) = cluster().await;
    create_secret(&client, "held").await;
    let named = Watch::<Secret>::new().options(|o| o.field_selector("metadata.name!=hidden"));
    in_runs(
        &client,
        |builder| builder.reads(named),
        |_, cx| {
            Box::pin(async move {
                let cache = cx.cache::<Secret>()?;
                cx.live().create(&secret("hidden")).await?;
                cx.live().create(&secret("shown")).await?;
                assert!(is_there(&cache, "default/shown")? && !is_there(&cache, "default/hidden")?);
                Ok(Action::Done)
            })
        },
    )
    .await;
    let opaque = Watch::<Secret>::new().options(|o| o.field_selector("type=Opaque"));
    in_runs(
        &client,
        |builder| builder.reads(opaque),
        |_, cx| {
            Box::pin(async move {
                let cache = cx.cache::<Secret>()?;
                cx.live().create(&secret("new")).await?;
                assert!(!is_there(&cache, "default/new")?, "only the server knows");
                cx.live().apply(&sized("held", "large")).await?;
                let held = cache.get("default/held")?.expect("it is there");
                assert_eq!(
                    held.annotations().len(),
                    1,
                    "it was there, and is now as it was written"
                );
                Ok(Action::Done)
            })
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_written_is_shown_in_the_form_of_the_cache() {
    let (_cluster, client) = cluster().await;
    let no_data = Transform::new("no-data", |object| {
        object.as_object_mut().map(|object| object.remove("data"));
    });
    let watch = Watch::<Secret>::new().options(|o| o.transform(no_data));
    in_runs(
        &client,
        |builder| builder.reads(watch),
        |_, cx| {
            Box::pin(async move {
                let mut made = secret("made");
                made.string_data = Some(BTreeMap::from([("a".to_owned(), "b".to_owned())]));
                let made = cx.live().create(&made).await?;
                assert!(made.data.is_some() && made.metadata.managed_fields.is_some());
                let shown = cx.get::<Secret>("default/made")?.expect("it is there");
                assert_eq!((&shown.data, &shown.metadata.managed_fields), (&None, &None));
                assert_eq!(shown.resource_version(), made.resource_version());
                Ok(Action::Done)
            })
        },
    )
    .await;
}

/// A type of one's own, which the cache holds decoded and without the bytes.
#[derive(Clone, Debug, Deserialize)]
struct Slim {
    metadata: Annotations,
}

#[tokio::test(start_paused = true)]
async fn indexes_of_a_resident_cache_show_what_was_written() {
    let (_cluster, client) = cluster().await;
    secrets(&client)
        .create(&PostParams::default(), &sized("held", "small"))
        .await
        .expect("created");
    let resident = Watch::<Slim>::of(Resource::of::<Secret>())
        .options(|o| o.namespace("default").resident::<Slim>().index(BySize));
    in_runs(
        &client,
        |builder| builder.reads(resident),
        |_, cx| {
            Box::pin(async move {
                let cache = cx.cache::<Slim>()?;
                let sizes = |size: &str| cache.by_index::<BySize>(size).map(|list| names(&list));
                assert_eq!(sizes("small")?, ["held"]);
                cx.live().apply(&sized("held", "large")).await?;
                cx.live().create(&sized("made", "large")).await?;
                assert_eq!((sizes("small")?.len(), sizes("large")?.len()), (0, 2));
                let held = cache.get("default/held")?.expect("it is there");
                assert_eq!(held.metadata.annotations["size"], "large");
                Ok(Action::Done)
            })
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn dynamic_types_and_metadata_show_what_was_written() {
    let (_cluster, client) = cluster().await;
    let change = |builder: ControllerBuilder<ConfigMap>| {
        builder
            .owns(Watch::<DynamicObject>::of(Resource::of::<Secret>()))
            .reads(Watch::<DynamicObject>::of(Resource::of::<Deployment>()))
            .owns(Watch::metadata_of::<Secret>().options(|o| o.namespace("default")))
    };
    in_runs(&client, change, |object, cx| {
        Box::pin(async move {
            let dynamic = cx.cache_of::<DynamicObject>(&Resource::of::<Secret>())?;
            let metadata = cx.cache::<PartialObjectMeta<Secret>>()?;
            cx.live().apply_owned(sized("made", "small"), &*object).await?;
            assert!(is_there(&dynamic, "default/made")? && is_there(&metadata, "default/made")?);
            assert_eq!(names(&dynamic.owned()?), ["made"]);
            assert_eq!(names(&cx.owned::<PartialObjectMeta<Secret>>()?), ["made"]);
            let shown = metadata.get("default/made")?.expect("it is there");
            assert_eq!(shown.metadata.managed_fields, None);
            assert_eq!(shown.annotations().len(), 1);
            let shown = dynamic.get("default/made")?.expect("it is there");
            assert_eq!(shown.types.as_ref().map(|types| &*types.kind), Some("Secret"));
            let made: Secret = cx.live().get(&"default/made".parse()?).await?.expect("it is there");
            cx.live().delete(&made).await?;
            assert!(!is_there(&dynamic, "default/made")? && !is_there(&metadata, "default/made")?);
            // By the type alone it is not clear which of the two is meant.
            let error = cx.list::<DynamicObject>().map(drop).expect_err("there are two");
            assert!(error.to_string().contains("cache_of"), "{error}");
            Ok(Action::Done)
        })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn only_children_by_uid_and_controller_are_owned() {
    let (_cluster, client) = cluster().await;
    let one = api(&client).get("one").await.expect("it is there");
    let reference = |uid: &str, controller: bool| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "one", "uid": uid,
            "controller": controller})
    };
    let uid = one.uid().expect("a uid");
    for (name, owner) in [("child", reference(&uid, true)), ("guest", reference(&uid, false))] {
        let object = json!({"metadata": {"name": name, "ownerReferences": [owner]}});
        let object = serde_json::from_value(object).expect("an object");
        secrets(&client).create(&PostParams::default(), &object).await.expect("created");
    }
    in_runs(
        &client,
        |builder| builder.owns(Watch::<Secret>::new()),
        |_, cx| {
            Box::pin(async move {
                assert_eq!(names(&cx.list::<Secret>()?), ["child", "guest"]);
                assert_eq!(names(&cx.owned::<Secret>()?), ["child"]);
                Ok(Action::Done)
            })
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn cache_without_an_index_of_owners_says_what_to_add() {
    let (_cluster, client) = cluster().await;
    in_runs(
        &client,
        |builder| builder.reads(Watch::<Secret>::new()),
        |_, cx| {
            Box::pin(async move {
                let error = cx.owned::<Secret>().map(drop).expect_err("nobody owns them");
                assert!(error.to_string().contains("use .owns"), "{error}");
                Ok(Action::Done)
            })
        },
    )
    .await;
    let indexed = Watch::<Secret>::new().options(|o| o.index(ByController));
    in_runs(
        &client,
        |builder| builder.reads(indexed),
        |_, cx| {
            Box::pin(async move {
                assert!(cx.owned::<Secret>()?.is_empty());
                Ok(Action::Done)
            })
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn scale_of_an_object_is_not_mistaken_for_it() {
    let (_cluster, client) = cluster().await;
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web"}]},
        }},
    }))
    .expect("an object");
    in_runs(
        &client,
        |builder| builder.reads(Watch::<Deployment>::new()),
        move |_, cx| {
            let deployment = deployment.clone();
            Box::pin(async move {
                let made = cx.live().create(&deployment).await?;
                let api: Api<Deployment> = Api::namespaced(cx.client().clone(), "default");
                let scale = Patch::Merge(json!({"spec": {"replicas": 3}}));
                api.patch_scale("web", &PatchParams::default(), &scale).await?;
                let shown = cx.get::<Deployment>("default/web")?.expect("it is there");
                assert_eq!(shown.resource_version(), made.resource_version());
                // The next write to the object itself shows both.
                let label = Patch::Merge(json!({"metadata": {"labels": {"app": "web"}}}));
                api.patch("web", &PatchParams::default(), &label).await?;
                let shown = cx.get::<Deployment>("default/web")?.expect("it is there");
                assert_eq!(shown.spec.replicas, Some(3));
                Ok(Action::Done)
            })
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn event_is_about_an_object_or_an_arc_of_one() {
    let (_cluster, client) = cluster().await;
    create(&client, "two").await;
    in_runs(
        &client,
        |builder| builder,
        |object, cx| {
            Box::pin(async move {
                cx.event(&object).normal("Seen", "as an Arc");
                cx.event(&*object).normal("Seen", "as an object");
                let two = cx.get::<ConfigMap>(("default", "two"))?.expect("it is there");
                cx.event(&two).normal("Seen", "from the cache");
                Ok(Action::Done)
            })
        },
    )
    .await;
}

/// `ConfigMaps` by the Secret that they refer to.
#[derive(Clone)]
struct BySecret;

#[derive(Deserialize)]
struct Referring {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

impl Index for BySecret {
    type View = Referring;
    type Value = ObjectKey;

    fn values(&self, head: &Head, view: Referring) -> impl IntoIterator<Item = ObjectKey> {
        let secret = view.data.get("secret").cloned();
        secret.map(|name| ObjectKey::namespaced(head.namespace().unwrap_or_default(), &name))
    }
}

#[tokio::test(start_paused = true)]
async fn change_of_an_object_runs_those_that_refer_to_it() {
    let (_cluster, client) = cluster().await;
    for (name, secret) in [("first", "a"), ("second", "b"), ("third", "a")] {
        let mut map = stage::config_map(name);
        map.data = Some(BTreeMap::from([("secret".to_owned(), secret.to_owned())]));
        api(&client).create(&PostParams::default(), &map).await.expect("created");
    }
    let (said, mut ran) = mpsc::channel(100);
    let teller = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            let secret = cx.get::<Secret>("default/a")?.map(|a| a.labels().len());
            let sharing = cx.cache::<ConfigMap>()?.by_index::<BySecret>(&KeyRef::from("default/a"));
            said.send((cx.key().name().to_owned(), secret, names(&sharing?))).await?;
            Ok(Action::Done)
        })
    });
    let watch = Watch::<ConfigMap>::new().options(|o| o.namespace("default"));
    let builder = Controller::of(watch).refers_to(Watch::<Secret>::new(), BySecret);
    let running = run_on(SharedInformerFactory::new(client.clone()), builder, teller);
    for _ in 0..4 {
        ran.recv().await.expect("every object runs once");
    }
    let mut two_runs = async |labels: usize| {
        let mut names = Vec::new();
        for _ in 0..2 {
            let (name, secret, sharing) = ran.recv().await.expect("a run");
            assert_eq!((secret, sharing.len()), (Some(labels), 2));
            names.push(name);
        }
        names.sort_unstable();
        assert_eq!(names, ["first", "third"]);
        let more = tokio::time::timeout(Duration::from_hours(1), ran.recv()).await;
        assert!(more.is_err(), "{more:?}");
    };
    create_secret(&client, "a").await;
    two_runs(0).await;
    let label = Patch::Merge(json!({"metadata": {"labels": {"app": "web"}}}));
    secrets(&client).patch("a", &PatchParams::default(), &label).await.expect("patched");
    two_runs(1).await;
    running.end().await.expect("it stops");
}
