//! Objects at the server, read and written by the rules of a controller, on both servers.

mod stage;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use windlass_indexer::ObjectKey;
use windlass_reconciler::{Action, Class, Context, Error};
use windlass_testkit::{TestCluster, on_each_cluster};

use stage::{api, config_map, create, does, run};

/// Calls `body` in a run, once, and returns what it returns.
async fn within_a_run<R, F>(cluster: &TestCluster, body: F) -> R
where
    R: Send + 'static,
    F: for<'a> FnOnce(&'a Context) -> std::pin::Pin<Box<dyn Future<Output = R> + Send + 'a>>
        + Send
        + 'static,
{
    let client = cluster.client().expect("a client");
    create(&client, "the-run").await;
    let (said, result) = oneshot::channel();
    // Both are gone after the first run, however that ends.
    let once = std::sync::Mutex::new(Some((body, said)));
    let once = does(move |object: Arc<ConfigMap>, cx: &Context| {
        let is_it = object.name_any() == "the-run";
        let once = is_it.then(|| once.lock().expect("not poisoned").take()).flatten();
        Box::pin(async move {
            if let Some((body, said)) = once {
                let _ = said.send(body(cx).await);
            }
            Ok(Action::Done)
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

#[tokio::test]
async fn object_is_made_read_changed_and_deleted() {
    on_each_cluster(async |cluster| {
        let result = within_a_run(&cluster, |cx| Box::pin(whole_life(cx))).await;
        result.expect("everything goes");
    })
    .await;
}

async fn whole_life(cx: &Context) -> Result<(), Error> {
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
    let modified = live.modify(&one, |object| {
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

#[tokio::test]
async fn another_object_of_the_same_name_is_not_deleted() {
    on_each_cluster(async |cluster| {
        let survivor = within_a_run(&cluster, |cx| Box::pin(delete_the_old_one(cx))).await;
        let survivor = survivor.expect("everything goes");
        let api = api(&cluster.client().expect("a client"));
        assert_eq!(api.get("twin").await.expect("it is there").uid(), survivor);
    })
    .await;
}

async fn delete_the_old_one(cx: &Context) -> Result<Option<String>, Error> {
    let live = cx.live::<ConfigMap>();
    let old = live.create(&config_map("twin")).await?;
    live.delete(&old).await?;
    let new = live.create(&config_map("twin")).await?;
    live.delete(&old).await?;
    Ok(new.uid())
}

#[tokio::test]
async fn status_is_written_alone() {
    on_each_cluster(async |cluster| {
        within_a_run(&cluster, |cx| Box::pin(write_status(cx))).await.expect("everything goes");
    })
    .await;
}

async fn write_status(cx: &Context) -> Result<(), Error> {
    let live = cx.live::<Deployment>();
    let deployment = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "replicas": 2, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web"}]},
        }},
    }))?;
    let made: Deployment = live.create(&deployment).await?;
    let mut new = made.clone();
    new.spec.replicas = Some(7);
    new.status.get_or_insert_default().observed_generation = Some(1);
    let written = live.update_status(&made, &new).await?;
    assert_eq!(written.spec.replicas, Some(2));
    assert_eq!(written.status.as_ref().and_then(|status| status.observed_generation), Some(1));
    live.delete(&written).await
}

#[tokio::test]
async fn fields_that_the_type_does_not_know_stay() {
    on_each_cluster(async |cluster| {
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
    })
    .await;
}

/// A `ConfigMap` as somebody sees it who knows less of it.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Poor {
    metadata: kube::core::ObjectMeta,
    data: BTreeMap<String, String>,
}

impl kube::Resource for Poor {
    type DynamicType = ();
    type Scope = kube::core::NamespaceResourceScope;

    fn kind((): &()) -> std::borrow::Cow<'_, str> {
        "ConfigMap".into()
    }

    fn group((): &()) -> std::borrow::Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> std::borrow::Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> std::borrow::Cow<'_, str> {
        "configmaps".into()
    }

    fn meta(&self) -> &kube::core::ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut kube::core::ObjectMeta {
        &mut self.metadata
    }
}

async fn write_poorly(cx: &Context) -> Result<(), Error> {
    let (live, rich) = (cx.live::<Poor>(), key("default/rich"));
    let changed = live.modify(&rich, |object| {
        object.data.insert("a".into(), "2".into());
    });
    changed.await?.expect("it is there");
    Ok(())
}

#[tokio::test]
async fn objects_of_the_cluster_have_no_namespace() {
    on_each_cluster(async |cluster| {
        within_a_run(&cluster, |cx| Box::pin(make_a_namespace(cx))).await.expect("everything goes");
    })
    .await;
}

async fn make_a_namespace(cx: &Context) -> Result<(), Error> {
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
    let cluster = TestCluster::embedded();
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

async fn write_badly(cx: &Context) -> Vec<String> {
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

/// Somebody else writes between reading and writing, twice.
#[tokio::test(flavor = "multi_thread")]
async fn change_is_made_again_on_what_somebody_else_wrote_meanwhile() {
    on_each_cluster(async |cluster| {
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
                            // In the middle of a change, which is not async: the other one works elsewhere.
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
    })
    .await;
}

#[tokio::test]
async fn applying_owns_what_it_names_and_nothing_else() {
    on_each_cluster(async |cluster| {
        let data = within_a_run(&cluster, |cx| Box::pin(apply_twice(cx))).await;
        let expected =
            [("a", "1"), ("theirs", "3")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(data.expect("everything goes"), BTreeMap::from(expected));
    })
    .await;
}

/// The second time something is left out, and somebody else has added something meanwhile.
async fn apply_twice(cx: &Context) -> Result<BTreeMap<String, String>, Error> {
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
