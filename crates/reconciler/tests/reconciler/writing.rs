//! How objects are written: options, subresources, waiting, kinds that are known at run time. What
//! is claimed about the server holds on both.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt as _;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::core::PartialObjectMeta;
use serde_json::json;
use windlass_indexer::ObjectKey;
use windlass_informer::Resource;
use windlass_informer::client::status_of;
use windlass_reconciler::{
    ApplyConflict, Class, ControllerBuilder, Error, FieldValidation, OwnershipError, Recorder,
    RunContext, Watch, WriteOptions, is_controlled_by, owner_reference,
};
use windlass_testserver::{Log, TestServer, on_each_server};

use crate::stage::{Shown, in_a_run, noting, taken};

fn plain(builder: ControllerBuilder<ConfigMap>) -> ControllerBuilder<ConfigMap> {
    builder
}

fn map(namespace: &str, name: &str, value: &str) -> ConfigMap {
    let metadata = json!({"name": name, "namespace": namespace});
    serde_json::from_value(json!({"metadata": metadata, "data": {"value": value}}))
        .expect("an object")
}

fn deployment(namespace: &str, name: &str) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "replicas": 2, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web"}]},
        }},
    }))
    .expect("an object")
}

fn namespace_of(owner: &ConfigMap) -> String {
    owner.namespace().expect("a namespace")
}

on_each_server!(unforced_apply_names_who_has_which_field);
async fn unforced_apply_names_who_has_which_field(cluster: TestServer) {
    let namespace = cluster.namespace("writing").await.expect("a namespace");
    in_a_run(&cluster, &namespace, plain, |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let namespace = namespace_of(&owner);
            let theirs = WriteOptions::new().field_manager("somebody-else");
            cx.live().with(theirs).apply(&map(&namespace, "shared", "theirs")).await?;
            let unforced = cx.live().with(WriteOptions::new().unforced());
            let ours = map(&namespace, "shared", "ours");
            let error = unforced.apply(&ours).await.expect_err("it is theirs");
            assert_eq!(error.class(), Class::Conflict);
            let conflict = ApplyConflict::of(&error).expect("a conflict");
            assert_eq!(conflict.object, format!("ConfigMap {namespace}/shared"));
            let fields = conflict.fields.iter().map(|one| (&*one.manager, &*one.field));
            assert_eq!(fields.collect::<Vec<_>>(), [("somebody-else", ".data.value")]);
            assert!(error.to_string().contains(".data.value by \"somebody-else\""), "{error}");
            // The same value is no conflict, and force takes the field.
            unforced.apply(&map(&namespace, "shared", "theirs")).await?;
            let taken = cx.live().apply(&ours).await?;
            assert_eq!(taken.data.expect("data")["value"], "ours");
            Ok::<(), Error>(())
        })
    })
    .await
    .expect("everything goes");
}

on_each_server!(dry_run_changes_nothing_and_is_no_write);
async fn dry_run_changes_nothing_and_is_no_write(cluster: TestServer) {
    let namespace = cluster.namespace("writing").await.expect("a namespace");
    in_a_run(&cluster, &namespace, plain, |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let namespace = namespace_of(&owner);
            let (live, one) = (cx.live::<ConfigMap>(), map(&namespace, "dry", "1"));
            let dry = live.with(WriteOptions::new().dry_run());
            let key = ObjectKey::namespaced(&namespace, "dry");
            dry.create(&one).await?;
            dry.apply(&one).await?;
            assert!(live.get(&key).await?.is_none());
            let made = live.create(&one).await?;
            let mut new = made.clone();
            new.data.get_or_insert_default().insert("value".into(), "2".into());
            assert_eq!(dry.update(&made, &new).await?.data, new.data);
            dry.delete(&made).await?;
            let present = live.get(&key).await?.expect("it is there");
            assert_eq!(present.resource_version(), made.resource_version());
            Ok::<(), Error>(())
        })
    })
    .await
    .expect("everything goes");
}

on_each_server!(list_returns_all_pages);
async fn list_returns_all_pages(cluster: TestServer) {
    let namespace = cluster.namespace("writing").await.expect("a namespace");
    in_a_run(&cluster, &namespace, plain, |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let namespace = namespace_of(&owner);
            for name in ["a", "b", "c"] {
                let mut object = map(&namespace, name, "1");
                object.labels_mut().insert("listed".into(), "yes".into());
                cx.live().create(&object).await?;
            }
            let selected = ListParams::default().labels("listed=yes").limit(2);
            let found = cx.live::<ConfigMap>().list(Some(&namespace), &selected).await?;
            let names: Vec<_> = found.iter().map(ConfigMap::name_any).collect();
            assert_eq!(names, ["a", "b", "c"]);
            let resource = Resource::of::<ConfigMap>();
            let dynamic = cx.live_of::<DynamicObject>(&resource);
            let found = dynamic.list(Some(&namespace), &selected).await?;
            let kinds = found.iter().map(|one| one.types.as_ref().map(|types| &*types.kind));
            assert_eq!(kinds.collect::<Vec<_>>(), [Some("ConfigMap"); 3]);
            Ok::<(), Error>(())
        })
    })
    .await
    .expect("everything goes");
}

on_each_server!(objects_of_kinds_known_at_run_time_have_a_whole_life);
async fn objects_of_kinds_known_at_run_time_have_a_whole_life(cluster: TestServer) {
    let namespace = cluster.namespace("writing").await.expect("a namespace");
    let (recorder, events) = Recorder::in_memory();
    let with_recorder = move |builder: ControllerBuilder<ConfigMap>| builder.recorder(recorder);
    in_a_run(&cluster, &namespace, with_recorder, |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let namespace = namespace_of(&owner);
            let (kind, resource) =
                (ApiResource::erase::<Deployment>(&()), Resource::of::<Deployment>());
            let web = deployment(&namespace, "web");
            let object = DynamicObject::new("web", &kind).within(&namespace);
            let object = object.data(json!({"spec": serde_json::to_value(&web.spec)?}));
            let live = cx.live_of::<DynamicObject>(&resource);
            let made = live.apply_owned(object, &owner).await?;
            assert!(is_controlled_by(&made.metadata, &*owner));
            let key = ObjectKey::namespaced(&namespace, "web");
            let modified = live.modify(&key, |web| web.data["spec"]["replicas"] = 5.into());
            let modified = modified.await?.expect("it is there");
            assert_eq!(modified.data["spec"]["replicas"], 5);
            cx.event(&modified).related(&owner).normal("Scaled", "to five");

            let metadata = cx.live_of::<PartialObjectMeta<Deployment>>(&resource);
            let labelled = metadata.modify(&key, |web| {
                web.labels_mut().insert("seen".into(), "yes".into());
            });
            let labelled = labelled.await?.expect("it is there");
            assert_eq!(labelled.labels().get("seen").map(String::as_str), Some("yes"));
            let reference = owner_reference(&modified)?;
            assert_eq!((&*reference.kind, &*reference.api_version), ("Deployment", "apps/v1"));
            live.delete(&modified).await
        })
    })
    .await
    .expect("everything goes");
    let all = events.all();
    let [event] = all.as_slice() else { panic!("one event: {all:?}") };
    assert_eq!(event.regarding().kind.as_deref(), Some("Deployment"));
    assert_eq!(event.regarding().api_version.as_deref(), Some("apps/v1"));
    let related = event.related_object().and_then(|related| related.kind.as_deref());
    assert_eq!(related, Some("ConfigMap"));
}

#[tokio::test(start_paused = true)]
async fn events_have_action_annotations_and_a_related_object() {
    let cluster = TestServer::embedded();
    in_a_run(&cluster, "default", plain, |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            cx.event(&owner)
                .action("Deploy")
                .related(&owner)
                .annotation("example.com/attempt", "3")
                .warning("TooLate", "the shop is closed");
        })
    })
    .await;
    let events: Api<k8s_openapi::api::events::v1::Event> =
        Api::default_namespaced(cluster.client().expect("a client"));
    let events = events.list(&ListParams::default()).await.expect("a list").items;
    let [event] = events.as_slice() else { panic!("one event: {events:?}") };
    assert_eq!(event.action.as_deref(), Some("Deploy"));
    assert_eq!(event.related, event.regarding);
    assert_eq!(event.annotations()["example.com/attempt"], "3");
}

on_each_server!(status_and_scale_are_written_on_their_own);
async fn status_and_scale_are_written_on_their_own(cluster: TestServer) {
    let namespace = cluster.namespace("writing").await.expect("a namespace");
    in_a_run(&cluster, &namespace, plain, |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let namespace = namespace_of(&owner);
            let (live, key) = (cx.live::<Deployment>(), ObjectKey::namespaced(&namespace, "web"));
            assert!(live.scale(&key).await?.is_none());
            assert!(live.set_scale(&key, 1).await?.is_none());
            let mut web = live.create(&deployment(&namespace, "web")).await?;
            web.spec.replicas = Some(9);
            web.status.get_or_insert_default().observed_generation = Some(1);
            let applied = live.apply_status(&web).await?;
            assert_eq!(applied.spec.replicas, Some(2), "the spec is left alone");
            let status = applied.status.expect("a status");
            assert_eq!(status.observed_generation, Some(1));
            let scaled = live.set_scale(&key, 4).await?.expect("it has a scale");
            assert_eq!(scaled.spec.and_then(|spec| spec.replicas), Some(4));
            let read = live.scale(&key).await?.expect("it has a scale");
            assert_eq!(read.spec.and_then(|spec| spec.replicas), Some(4));
            Ok::<(), Error>(())
        })
    })
    .await
    .expect("everything goes");
}

// The log is that of the thread of the test, so the runtime has no other.
on_each_server!(unknown_field_is_refused_or_warned_of_once);
async fn unknown_field_is_refused_or_warned_of_once(cluster: TestServer) {
    let log = Log::start();
    let namespace = cluster.namespace("writing").await.expect("a namespace");
    in_a_run(&cluster, &namespace, plain, |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let namespace = namespace_of(&owner);
            let kind = ApiResource::erase::<ConfigMap>(&());
            let object = DynamicObject::new("odd", &kind).within(&namespace);
            let object = object.data(json!({"colour": "red"}));
            let resource = Resource::of::<ConfigMap>();
            let live = cx.live_of::<DynamicObject>(&resource);
            let with = |validation| live.with(WriteOptions::new().field_validation(validation));
            let refused = with(FieldValidation::Strict).create(&object).await;
            let refused = refused.expect_err("it is unknown");
            assert_eq!(status_of(refused.source()).map(|status| status.code), Some(400));
            let made = with(FieldValidation::Warn).create(&object).await?;
            live.delete(&made).await?;
            let made = with(FieldValidation::Warn).create(&object).await?;
            live.delete(&made).await?;
            with(FieldValidation::Ignore).create(&object).await?;
            Ok::<(), Error>(())
        })
    })
    .await
    .expect("everything goes");
    let warned = log.lines_with("the server warns: unknown field \"colour\"");
    assert_eq!(warned.len(), 1, "{warned:?}");
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_with_the_condition_or_says_what_was_missing() {
    let cluster = TestServer::embedded();
    in_a_run(&cluster, "default", plain, |_: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let (live, key) = (cx.live::<Deployment>(), ObjectKey::namespaced("default", "web"));
            let limit = Duration::from_secs(30);
            let wait = async || live.wait_for_condition(&key, "Available", limit).await;
            let told = |error: Error| (error.class(), error.to_string());
            let (class, missing) = told(wait().await.expect_err("it is not there"));
            assert_eq!(class, Class::Transient);
            assert!(missing.starts_with(
                "waited 30s for Deployment default/web to be Available: it does not exist"
            ));
            let made = live.create(&deployment("default", "web")).await?;
            let (_, missing) = told(wait().await.expect_err("it has no status"));
            assert!(missing.contains("it has no condition Available"), "{missing}");
            let mut new = made.clone();
            new.status.get_or_insert_default().conditions = Some(serde_json::from_value(
                json!([{"type": "Available", "status": "False", "reason": "TooFew"}]),
            )?);
            let made = live.update_status(&made, &new).await?;
            let (_, missing) = told(wait().await.expect_err("it is not available"));
            assert!(missing.contains("the condition Available is False (TooFew)"), "{missing}");
            let become_available = async {
                tokio::time::sleep(Duration::from_secs(5)).await;
                let mut new = made.clone();
                new.status.get_or_insert_default().conditions = Some(serde_json::from_value(
                    json!([{"type": "Available", "status": "True", "reason": "Enough"}]),
                )?);
                live.update_status(&made, &new).await
            };
            let (available, written) = tokio::join!(wait(), become_available);
            assert_eq!(available?.resource_version(), written?.resource_version());
            Ok::<(), Error>(())
        })
    })
    .await
    .expect("everything goes");
}

on_each_server!(owned_object_without_a_cache_is_read_each_time_and_never_taken_over);
/// Without a cache its owner is looked up each time: it may have been let go.
async fn owned_object_without_a_cache_is_read_each_time_and_never_taken_over(cluster: TestServer) {
    let namespace = cluster.namespace("writing").await.expect("a namespace");
    let (client, sent) = noting(&cluster.client().expect("a client"));
    let noted = move |builder: ControllerBuilder<ConfigMap>| builder.client(client);
    let secrets: Api<Secret> = Api::namespaced(cluster.client().expect("a client"), &namespace);
    in_a_run(&cluster, &namespace, noted, |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let secret = || -> Result<Secret, Error> {
                let metadata = json!({"name": "s", "namespace": namespace_of(&owner)});
                Ok(serde_json::from_value(json!({"metadata": metadata}))?)
            };
            let apply = async || cx.live().apply_owned(secret()?, &owner).await;
            apply().await?;
            assert_eq!(taken(&sent), ["GET s", "PATCH s"]);
            apply().await?;
            assert_eq!(taken(&sent), ["GET s", "PATCH s"]);

            // Gone, so one is made.
            secrets.delete("s", &DeleteParams::default()).await?;
            let again = apply().await?;
            assert_eq!(taken(&sent), ["GET s", "PATCH s"]);
            assert!(is_controlled_by(&again.metadata, &*owner));

            // Replaced by somebody who does not care who owns it.
            secrets.delete("s", &DeleteParams::default()).await?;
            secrets.create(&PostParams::default(), &secret()?).await?;
            let refused = apply().await.expect_err("it is somebody else's");
            let taken_by: Option<&OwnershipError> = refused.source().downcast_ref();
            assert!(matches!(taken_by, Some(OwnershipError::Taken { .. })), "{refused}");
            assert_eq!(taken(&sent), ["GET s"]);
            let theirs = secrets.get("s").await?;
            assert_eq!(theirs.owner_references().len(), 0);
            Ok::<(), Error>(())
        })
    })
    .await
    .expect("everything goes");
}

on_each_server!(server_is_asked_once_whether_a_new_object_is_somebody_elses);
/// With a cache of all objects nothing is read. What the cache does not show yet is refused by the
/// server if it has a controller.
async fn server_is_asked_once_whether_a_new_object_is_somebody_elses(cluster: TestServer) {
    let namespace = cluster.namespace("writing").await.expect("a namespace");
    let (client, sent) = noting(&cluster.client().expect("a client"));
    let scope = namespace.clone();
    let reading = move |builder: ControllerBuilder<ConfigMap>| {
        let watch = Watch::<Secret>::new().options(|options| options.namespace(scope));
        builder.reads(watch).client(client)
    };
    let secrets: Api<Secret> = Api::namespaced(cluster.client().expect("a client"), &namespace);
    in_a_run(&cluster, &namespace, reading, |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let secret = |name: &str| -> Result<Secret, Error> {
                let metadata = json!({"name": name, "namespace": namespace_of(&owner)});
                Ok(serde_json::from_value(json!({"metadata": metadata}))?)
            };
            cx.live().apply_owned(secret("new")?, &owner).await?;
            assert_eq!(taken(&sent), ["GET new", "PATCH new"]);
            // Whether the cache shows it in time or not, it is refused.
            let mut theirs = secret("theirs")?;
            let other = cx.live().create(&map(&namespace_of(&owner), "other", "")).await?;
            theirs.metadata.owner_references = Some(vec![owner_reference(&other)?]);
            secrets.create(&PostParams::default(), &theirs).await?;
            let refused = cx.live().apply_owned(secret("theirs")?, &owner).await;
            let refused = refused.expect_err("it is somebody else's");
            let taken_by: Option<&OwnershipError> = refused.source().downcast_ref();
            assert!(matches!(taken_by, Some(OwnershipError::Taken { .. })), "{refused}");
            Ok::<(), Error>(())
        })
    })
    .await
    .expect("everything goes");
}

on_each_server!(same_apply_again_is_not_sent_until_the_object_changes);
async fn same_apply_again_is_not_sent_until_the_object_changes(cluster: TestServer) {
    let namespace = cluster.namespace("writing").await.expect("a namespace");
    let (client, sent) = noting(&cluster.client().expect("a client"));
    let (scope, shown) = (namespace.clone(), Shown::default());
    let predicate = shown.predicate();
    let reading = move |builder: ControllerBuilder<ConfigMap>| {
        let watch = Watch::<Secret>::new().options(|options| options.namespace(scope));
        builder.owns(watch.when(predicate)).client(client)
    };
    let theirs: Api<Secret> = Api::namespaced(cluster.client().expect("a client"), &namespace);
    in_a_run(&cluster, &namespace, reading, |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let namespace = namespace_of(&owner);
            let secret = |value: &str| -> Result<Secret, Error> {
                let metadata = json!({"name": "s", "namespace": namespace, "labels": {"a": value}});
                Ok(serde_json::from_value(json!({"metadata": metadata}))?)
            };
            let made = cx.live().apply(&secret("1")?).await?;
            shown.wait_for(made.resource_version()).await;
            assert_eq!(taken(&sent), ["PATCH s"]);
            let again = cx.live().apply(&secret("1")?).await?;
            assert_eq!((again.resource_version(), taken(&sent)), (made.resource_version(), vec![]));

            // The cache may still show what the run itself has deleted.
            cx.live().delete(&made).await?;
            let anew = cx.live().apply(&secret("1")?).await?;
            assert_ne!(anew.uid(), made.uid());
            assert_eq!(taken(&sent), ["DELETE s", "PATCH s"], "after its own deletion");
            shown.wait_for(anew.resource_version()).await;

            let other = cx.live().apply(&secret("2")?).await?;
            shown.wait_for(other.resource_version()).await;
            assert_eq!(taken(&sent), ["PATCH s"], "another body");
            let manager = WriteOptions::new().field_manager("other");
            cx.live().with(manager).apply(&secret("2")?).await?;
            assert_eq!(taken(&sent), ["PATCH s"], "another manager");
            // Everybody's writes make it necessary again.
            let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "3"}}}));
            let changed = theirs.patch("s", &PatchParams::default(), &patch).await?;
            shown.wait_for(changed.resource_version()).await;
            let back = cx.live().apply(&secret("2")?).await?;
            assert_eq!(back.labels()["a"], "2");
            assert_eq!(taken(&sent), ["PATCH s"], "another version");
            Ok::<(), Error>(())
        })
    })
    .await
    .expect("everything goes");
}
