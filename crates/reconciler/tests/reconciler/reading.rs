//! Reading caches in a run: it sees one moment of them, and what it writes itself.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use windlass_indexer::{ByController, Selector};
use windlass_informer::SharedInformerFactory;
use windlass_reconciler::{Action, Watch, set_owner};

use crate::stage::reading::{
    AGAIN, BySize, create_secret, in_runs, is_there, names, on_factory, reads_secrets, secret,
    secrets, sized,
};
use crate::stage::{api, cluster, create};

#[tokio::test(start_paused = true)]
async fn list_agrees_with_get_while_others_change_the_cache() {
    let (_cluster, client) = cluster().await;
    create_secret(&client, "a").await;
    create_secret(&client, "b").await;
    let factory = SharedInformerFactory::new(client.clone());
    let now = factory.lister::<Secret>().expect("a lister");
    let runs = AtomicU32::new(0);
    on_factory(factory, reads_secrets, move |object, cx| {
        let (others, now) = (client.clone(), now.clone());
        let is_first = runs.fetch_add(1, Ordering::Relaxed) == 0;
        Box::pin(async move {
            let held = cx.cache::<Secret>()?;
            if !is_first {
                assert_eq!(names(&held.list()), ["b", "c"], "the next run sees what is there");
                assert_eq!(held.get("default/b")?.map(|b| b.labels().len()), Some(1));
                return Ok(Action::done());
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
                Ok(Action::done())
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
    in_runs(&client, reads_secrets, |_, cx| {
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
            Ok(Action::done())
        })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn writes_of_a_run_end_with_it() {
    let (_cluster, client) = cluster().await;
    let (others, runs) = (client.clone(), AtomicU32::new(0));
    in_runs(&client, reads_secrets, move |_, cx| {
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
                Action::requeue_after(Duration::from_secs(1))
            } else {
                Action::done()
            })
        })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn writes_through_another_client_are_not_seen() {
    let (_cluster, client) = cluster().await;
    let (others, runs) = (client.clone(), AtomicU32::new(0));
    in_runs(&client, reads_secrets, move |_, cx| {
        let (number, others) = (runs.fetch_add(1, Ordering::Relaxed), others.clone());
        Box::pin(async move {
            if number > 0 {
                // The cache shows it soon.
                let is_shown = cx.get::<Secret>("default/by-others")?.is_some();
                return if is_shown { Ok(Action::done()) } else { AGAIN };
            }
            create_secret(&others, "by-others").await;
            cx.live().create(&secret("by-us")).await?;
            assert_eq!(names(&cx.list::<Secret>()?), ["by-us"]);
            AGAIN
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
                Ok(Action::done())
            })
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn cache_without_an_index_of_owners_says_what_to_add() {
    let (_cluster, client) = cluster().await;
    in_runs(&client, reads_secrets, |_, cx| {
        Box::pin(async move {
            let error = cx.owned::<Secret>().map(drop).expect_err("nobody owns them");
            assert!(error.to_string().contains("use .owns"), "{error}");
            Ok(Action::done())
        })
    })
    .await;
    let indexed = Watch::<Secret>::new().options(|o| o.index(ByController));
    in_runs(
        &client,
        |builder| builder.reads(indexed),
        |_, cx| {
            Box::pin(async move {
                assert!(cx.owned::<Secret>()?.is_empty());
                Ok(Action::done())
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
                Ok(Action::done())
            })
        },
    )
    .await;
}
