//! What a run writes is shown in the form in which a cache holds it: with its selectors, its
//! transform, its type.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use serde::Deserialize;
use serde_json::json;
use windlass_informer::{Resource, Transform};
use windlass_reconciler::{Action, ControllerBuilder, Watch};

use crate::stage::cluster;
use crate::stage::reading::{
    Annotations, BySize, create_secret, in_runs, is_there, names, secret, secrets, sized,
};

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
                Ok(Action::done())
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
                Ok(Action::done())
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
                Ok(Action::done())
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
                Ok(Action::done())
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
                Ok(Action::done())
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
                Ok(Action::done())
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
            Ok(Action::done())
        })
    })
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
                Ok(Action::done())
            })
        },
    )
    .await;
}
