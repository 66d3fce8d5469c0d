//! Which changes lead to which keys, beyond the plain watch: every owner, streams, predicates over
//! all sources, selectors by namespace.

use std::sync::Arc;
use std::time::Duration;

use futures::stream;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, PostParams};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use windlass_indexer::ObjectKey;
use windlass_reconciler::{
    Action, Cause, Controller, Error, OwnedBy, Predicate, Reconcile, RunContext, Watch,
    reconcile_fn,
};

use crate::stage::runs::{Ran, create_secret, expect_no_run, key, next, patch_secret, reporter};
use crate::stage::{api, cluster, create, run_built, run_with};
use windlass_testserver::Log;

#[tokio::test(start_paused = true)]
async fn every_owner_runs_if_that_is_asked_for() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let mut owners = Vec::new();
    for (name, is_controller) in [("two", true), ("three", false)] {
        let owner = create(&client, name).await;
        owners.push(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": name, "controller": is_controller,
            "uid": owner.metadata.uid,
        }));
    }
    for (owned_by, expected) in [
        (OwnedBy::Controller, vec!["default/two"]),
        (OwnedBy::AnyReference, vec!["default/three", "default/two"]),
    ] {
        let (said, mut runs) = mpsc::channel(100);
        let watch = Watch::<Secret>::new().owned_by(owned_by);
        let running = run_with(client.clone(), |builder| builder.owns(watch), reporter(said));
        for _ in 0..3 {
            next(&mut runs).await;
        }
        let name = format!("child-{}", expected.len());
        create_secret(&client, &name, json!({"ownerReferences": owners}), json!({})).await;
        let mut ran = Vec::new();
        for _ in &expected {
            ran.push(next(&mut runs).await);
        }
        ran.sort();
        assert_eq!(ran, expected);
        expect_no_run(&mut runs).await;
        running.end().await.expect("it stops");
    }
}

#[tokio::test(start_paused = true)]
async fn annotation_names_an_owner_in_another_namespace() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let watch =
        Watch::<Secret>::new().owned_by(OwnedBy::Annotation("example.com/owner".to_owned()));
    let running = run_with(client.clone(), |builder| builder.owns(watch), reporter(said));
    assert_eq!(next(&mut runs).await, "default/one");
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    let vault = serde_json::from_value(json!({"metadata": {"name": "vault"}})).expect("an object");
    namespaces.create(&PostParams::default(), &vault).await.expect("created");
    let secrets: Api<Secret> = Api::namespaced(client, "vault");
    for (name, annotations) in [
        ("nobodys", json!({})),
        ("invalid", json!({"example.com/owner": "a/b/c"})),
        ("ours", json!({"example.com/owner": "default/one"})),
    ] {
        let object = json!({"metadata": {"name": name, "annotations": annotations}});
        let object = serde_json::from_value(object).expect("an object");
        secrets.create(&PostParams::default(), &object).await.expect("created");
    }
    let (ran, _, causes) = runs.recv().await.expect("a run");
    assert_eq!(ran, "default/one");
    assert!(causes[0].to_string().starts_with("Secret vault/ours added"), "{causes:?}");
    expect_no_run(&mut runs).await;
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn occasion_runs_all_objects() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    create(&client, "two").await;
    let (said, mut runs) = mpsc::channel(100);
    let (reload, mut reloads) = mpsc::channel::<u8>(1);
    let reloads = stream::poll_fn(move |cx| reloads.poll_recv(cx));
    let running =
        run_with(client, |builder| builder.reconcile_all_on("settings", reloads), reporter(said));
    for _ in 0..2 {
        next(&mut runs).await;
    }
    reload.send(1).await.expect("it is listened to");
    let mut ran = Vec::new();
    for _ in 0..2 {
        let (key, _, causes) = runs.recv().await.expect("a run");
        assert_eq!(causes, [Cause::Source("settings".into())]);
        ran.push(key);
    }
    ran.sort();
    assert_eq!(ran, ["default/one", "default/two"]);
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn handle_adds_streams_before_and_while_the_controller_runs() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let builder = Controller::named(
        "configmap",
        Watch::<ConfigMap>::new().options(|o| o.namespace("default")),
    );
    let handle = builder.handle();
    handle.add_stream("early", stream::iter([key("default/early")]));
    let absent = reconcile_absent(said);
    let running = run_built(client, builder, absent);
    let mut ran = vec![next(&mut runs).await, next(&mut runs).await];
    ran.sort();
    assert_eq!(ran, ["default/early", "default/one"]);
    handle.add_stream("late", stream::iter([key("default/late")]));
    let (ran, _, causes) = runs.recv().await.expect("a run");
    assert_eq!((ran.as_str(), &causes[..]), ("default/late", &[Cause::Source("late".into())][..]));
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn predicate_of_all_sources_sees_every_one_of_them() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let to_one = |_: &windlass_indexer::Cached<Secret>| [key("default/one")];
    let running = run_with(
        client.clone(),
        |builder| {
            builder
                .watches(Watch::<Secret>::new(), to_one)
                .when(|event| event.head().labels().get("ignored").is_none())
                .when(|event| event.new.is_some())
        },
        reporter(said),
    );
    assert_eq!(next(&mut runs).await, "default/one");
    create_secret(&client, "a", json!({"labels": {"ignored": "yes"}}), json!({})).await;
    let labelled = json!({"metadata": {"name": "two", "labels": {"ignored": "yes"}}});
    let labelled = serde_json::from_value(labelled).expect("an object");
    api(&client).create(&PostParams::default(), &labelled).await.expect("created");
    expect_no_run(&mut runs).await;
    create_secret(&client, "b", json!({}), json!({})).await;
    assert_eq!(next(&mut runs).await, "default/one");
    let secrets: Api<Secret> = Api::namespaced(client, "default");
    secrets.delete("b", &kube::api::DeleteParams::default()).await.expect("deleted");
    expect_no_run(&mut runs).await;
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn labels_and_annotations_decide_without_decoding() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let to_one = |_: &windlass_indexer::Cached<Secret>| [key("default/one")];
    let is_meant = Predicate::labelled("tier in (db, cache)".parse().expect("a selector"))
        .or(Predicate::annotated("example.com/use", "yes"));
    let watch = Watch::<Secret>::new().when(is_meant);
    let running =
        run_with(client.clone(), |builder| builder.watches(watch, to_one), reporter(said));
    assert_eq!(next(&mut runs).await, "default/one");
    create_secret(&client, "a", json!({"labels": {"tier": "web"}}), json!({})).await;
    create_secret(&client, "b", json!({"annotations": {"example.com/use": "no"}}), json!({})).await;
    expect_no_run(&mut runs).await;
    patch_secret(&client, "a", json!({"metadata": {"labels": {"tier": "db"}}})).await;
    assert_eq!(next(&mut runs).await, "default/one");
    // It ceases to match, which is a change, too.
    patch_secret(&client, "a", json!({"metadata": {"labels": {"tier": null}}})).await;
    assert_eq!(next(&mut runs).await, "default/one");
    patch_secret(&client, "a", json!({"stringData": {"password": "1"}})).await;
    expect_no_run(&mut runs).await;
    patch_secret(&client, "b", json!({"metadata": {"annotations": {"example.com/use": "yes"}}}))
        .await;
    assert_eq!(next(&mut runs).await, "default/one");
    running.end().await.expect("it stops");
}

/// A `ConfigMap` that the selector of another namespace would select is not waited for.
#[tokio::test(start_paused = true)]
async fn each_namespace_has_its_own_selector() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    let shop = serde_json::from_value(json!({"metadata": {"name": "shop"}})).expect("an object");
    namespaces.create(&PostParams::default(), &shop).await.expect("created");
    let object = |name: &str, app: &str| -> ConfigMap {
        let object = json!({"metadata": {"name": name, "labels": {"app": app}}});
        serde_json::from_value(object).expect("an object")
    };
    for namespace in ["default", "shop"] {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        for app in ["web", "api"] {
            api.create(&PostParams::default(), &object(app, app)).await.expect("created");
        }
    }
    let (said, mut runs) = mpsc::channel(100);
    let watch = Watch::<ConfigMap>::new().options(|options| {
        options.namespace_selector("default", "app=web").namespace_selector("shop", "app=api")
    });
    let writer = reconcile_fn(async move |_: Arc<ConfigMap>, cx| {
        said.send((cx.key().to_string(), cx.cache_behind(), Instant::now())).await?;
        if cx.causes() == [Cause::Timer] || cx.key().name() != "api" {
            return Ok(Action::done());
        }
        let api: Api<ConfigMap> = Api::namespaced(cx.client().clone(), "shop");
        api.create(&PostParams::default(), &object("written", "web")).await?;
        Ok(Action::requeue_after(Duration::from_millis(1)))
    });
    let running = run_built(client, Controller::named("configmap", watch), writer);
    let mut ran = Vec::new();
    for _ in 0..3 {
        ran.push(runs.recv().await.expect("a run"));
    }
    let names: Vec<_> = ran.iter().map(|(key, ..)| key.as_str()).collect();
    assert_eq!(names, ["default/web", "shop/api", "shop/api"]);
    let [_, first, second] = &ran[..] else { panic!("three runs") };
    assert!(!second.1 && second.2 - first.2 < Duration::from_millis(50), "{ran:?}");
    let ran = tokio::time::timeout(Duration::from_hours(1), runs.recv()).await;
    assert!(ran.is_err(), "{ran:?}");
    running.end().await.expect("it stops");
}

/// Says which key ran, also if it has no object.
fn reconcile_absent(said: mpsc::Sender<Ran>) -> impl Reconcile<ConfigMap> {
    struct Reporter(mpsc::Sender<Ran>);
    impl Reconcile<ConfigMap> for Reporter {
        async fn reconcile(&self, _: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
            self.absent(cx.key(), cx).await
        }

        async fn absent(&self, key: &ObjectKey, cx: &RunContext) -> Result<Action, Error> {
            self.0.send((key.to_string(), Instant::now(), cx.causes().to_vec())).await?;
            Ok(Action::done())
        }
    }
    Reporter(said)
}
