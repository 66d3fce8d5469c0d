//! Which changes lead to which keys, beyond the plain watch: mappers that are awaited, every owner,
//! streams, debouncing, predicates over all sources, informers of the user.

mod stage;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::stream;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_indexer::ObjectKey;
use windlass_informer::{Event, InformerOptions, SharedInformer};
use windlass_reconciler::{
    Action, Cause, Change, Controller, Error, OwnedBy, Predicate, Reconcile, Watch, reconcile_fn,
};
use windlass_workqueue::{Group, Priority};

use stage::{Log, api, cluster, create, run_built, run_with};

/// A reconciler that says which key ran, when, and why.
fn teller(said: mpsc::Sender<(String, Instant, Vec<Cause>)>) -> impl Reconcile<ConfigMap> {
    reconcile_fn(async move |_: Arc<ConfigMap>, cx| {
        said.send((cx.key().to_string(), Instant::now(), cx.causes().to_vec())).await?;
        Ok(Action::Done)
    })
}

type Runs = mpsc::Receiver<(String, Instant, Vec<Cause>)>;

async fn next(runs: &mut Runs) -> String {
    runs.recv().await.expect("a run").0
}

/// Nothing runs for an hour.
async fn expect_rest(runs: &mut Runs) {
    let ran = tokio::time::timeout(Duration::from_hours(1), runs.recv()).await;
    assert!(ran.is_err(), "{ran:?}");
}

fn key(text: &str) -> ObjectKey {
    text.parse().expect("a key")
}

async fn create_secret(client: &Client, name: &str, metadata: Value, data: Value) {
    let mut object = json!({"metadata": metadata, "stringData": data});
    object["metadata"]["name"] = name.into();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let secret = serde_json::from_value(object).expect("an object");
    secrets.create(&PostParams::default(), &secret).await.expect("created");
}

async fn patch_secret(client: &Client, name: &str, patch: Value) {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let patch = Patch::Merge(patch);
    secrets.patch(name, &PatchParams::default(), &patch).await.expect("patched");
}

#[tokio::test(start_paused = true)]
async fn mapper_of_changes_sees_old_and_new_and_is_awaited() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let map = async |event: Event<Secret>| {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let is_same = match &event {
            Event::Updated { old, new } => old.get()?.data == new.get()?.data,
            _ => false,
        };
        Ok((!is_same).then(|| key("default/one")))
    };
    let running = run_with(
        client.clone(),
        |builder| builder.watches_changes(Watch::<Secret>::new(), map),
        teller(said),
    );
    assert_eq!(next(&mut runs).await, "default/one");
    create_secret(&client, "a", json!({}), json!({"password": "1"})).await;
    let (ran, _, causes) = runs.recv().await.expect("a run");
    assert_eq!(ran, "default/one");
    let [Cause::Changed { object, change: Change::Added, .. }] = &causes[..] else {
        panic!("{causes:?}")
    };
    assert_eq!(object.to_string(), "default/a");
    patch_secret(&client, "a", json!({"metadata": {"labels": {"tier": "db"}}})).await;
    expect_rest(&mut runs).await;
    patch_secret(&client, "a", json!({"stringData": {"password": "2"}})).await;
    assert_eq!(next(&mut runs).await, "default/one");
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn mapper_of_changes_is_repeated_when_it_fails_but_not_for_ever() {
    let (log, _guard) = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let calls = Arc::new(AtomicU32::new(0));
    let map = {
        let calls = Arc::clone(&calls);
        async move |event: Event<Secret>| {
            let call = calls.fetch_add(1, Ordering::Relaxed);
            match event.key().name() {
                "late" if call < 2 => Err(Error::msg("the directory is away")),
                "late" | "good" => Ok([key("default/one")]),
                "never" => Err(Error::msg("the directory is away")),
                "invalid" => Err(Error::msg("no such user").terminal()),
                _ => panic!("as the script says"),
            }
        }
    };
    let running = run_with(
        client.clone(),
        |builder| builder.watches_changes(Watch::<Secret>::new(), map),
        teller(said),
    );
    assert_eq!(next(&mut runs).await, "default/one");
    let began = Instant::now();
    create_secret(&client, "late", json!({}), json!({})).await;
    let (ran, at, _) = runs.recv().await.expect("a run");
    assert_eq!(ran, "default/one");
    assert!(at - began >= Duration::from_secs(3), "{:?}", at - began);
    for name in ["never", "invalid", "broken", "good"] {
        create_secret(&client, name, json!({}), json!({})).await;
    }
    let (_, _, causes) = runs.recv().await.expect("a run");
    assert!(causes[0].to_string().starts_with("Secret default/good added"), "{causes:?}");
    assert_eq!(calls.load(Ordering::Relaxed), 3 + 6 + 1 + 1 + 1);
    assert_eq!(log.lines("what the event leads to is not reconciled").len(), 3);
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn event_whose_mapper_was_under_way_is_not_lost_when_the_controller_stops() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let (start, mut starts) = mpsc::channel(100);
    let map = async move |event: Event<Secret>| {
        start.send(()).await?;
        tokio::time::sleep(Duration::from_mins(1)).await;
        drop(event);
        Ok([key("default/one")])
    };
    let factory = windlass_informer::SharedInformerFactory::new(client.clone());
    let controller = Controller::of(Watch::<ConfigMap>::new())
        .watches_changes(Watch::<Secret>::new(), map)
        .build(&factory, teller(said))
        .expect("a controller");
    create_secret(&client, "a", json!({}), json!({})).await;
    let stop = CancellationToken::new();
    let work = async {
        starts.recv().await.expect("it is mapped");
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(controller.run(stop.clone()), work);
    ran.expect("it stops");
    while runs.try_recv().is_ok() {}
    let stop = CancellationToken::new();
    let work = async {
        let (_, _, causes) = runs.recv().await.expect("a run");
        assert!(causes[0].to_string().starts_with("Secret default/a"), "{causes:?}");
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(controller.run(stop.clone()), work);
    ran.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn source_of_changes_is_removed_while_the_controller_runs() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let running = run_with(client.clone(), |builder| builder, teller(said));
    assert_eq!(next(&mut runs).await, "default/one");
    let map = async |_: Event<Secret>| Ok([key("default/one")]);
    let source =
        running.controller.add_watched_changes(Watch::<Secret>::new(), map).expect("a source");
    create_secret(&client, "a", json!({}), json!({})).await;
    assert_eq!(next(&mut runs).await, "default/one");
    assert!(running.controller.remove(source));
    create_secret(&client, "b", json!({}), json!({})).await;
    expect_rest(&mut runs).await;
    // Nobody uses the informer of secrets any more.
    assert_eq!(running.factory.status().len(), 1);
    running.end().await.expect("it stops");
}

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
        let running = run_with(client.clone(), |builder| builder.owns(watch), teller(said));
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
        expect_rest(&mut runs).await;
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
    let running = run_with(client.clone(), |builder| builder.owns(watch), teller(said));
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
    expect_rest(&mut runs).await;
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
        run_with(client, |builder| builder.reconcile_all_on("settings", reloads), teller(said));
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
    let builder = Controller::of(Watch::<ConfigMap>::new().options(|o| o.namespace("default")));
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

/// Says which key ran, also if it has no object.
fn reconcile_absent(
    said: mpsc::Sender<(String, Instant, Vec<Cause>)>,
) -> impl Reconcile<ConfigMap> {
    struct Teller(mpsc::Sender<(String, Instant, Vec<Cause>)>);
    impl Reconcile<ConfigMap> for Teller {
        async fn reconcile(
            &self,
            _: Arc<ConfigMap>,
            cx: &windlass_reconciler::RunContext,
        ) -> Result<Action, Error> {
            self.absent(cx.key(), cx).await
        }

        async fn absent(
            &self,
            key: &ObjectKey,
            cx: &windlass_reconciler::RunContext,
        ) -> Result<Action, Error> {
            self.0.send((key.to_string(), Instant::now(), cx.causes().to_vec())).await?;
            Ok(Action::Done)
        }
    }
    Teller(said)
}

#[tokio::test(start_paused = true)]
async fn debounced_key_waits_for_quiet_but_not_longer_than_allowed() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let (quiet, at_most) = (Duration::from_secs(2), Duration::from_secs(5));
    let running = run_with(client.clone(), |b| b.debounce(quiet, at_most), teller(said));
    let started = Instant::now();
    let (_, at, _) = runs.recv().await.expect("the first run");
    assert!(at - started < quiet, "what was there before does not wait");

    let touch = async |number: u32| {
        let patch = Patch::Merge(json!({"data": {"number": number.to_string()}}));
        api(&client).patch("one", &PatchParams::default(), &patch).await.expect("patched");
        Instant::now()
    };
    // Two changes in a second: one run, after the quiet time.
    touch(1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let last = touch(2).await;
    let (_, at, causes) = runs.recv().await.expect("a run");
    let wait = at - last;
    assert!(wait >= quiet && wait < quiet + Duration::from_secs(1), "{wait:?}");
    assert_eq!(causes.len(), 2, "{causes:?}");
    expect_rest(&mut runs).await;

    // A change in every second: the bound counts.
    let first = touch(3).await;
    for number in 4..8 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        touch(number).await;
    }
    let (_, at, _) = runs.recv().await.expect("a run");
    let wait = at - first;
    assert!(wait >= at_most && wait < at_most + Duration::from_secs(1), "{wait:?}");
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
        teller(said),
    );
    assert_eq!(next(&mut runs).await, "default/one");
    create_secret(&client, "a", json!({"labels": {"ignored": "yes"}}), json!({})).await;
    let labelled = json!({"metadata": {"name": "two", "labels": {"ignored": "yes"}}});
    let labelled = serde_json::from_value(labelled).expect("an object");
    api(&client).create(&PostParams::default(), &labelled).await.expect("created");
    expect_rest(&mut runs).await;
    create_secret(&client, "b", json!({}), json!({})).await;
    assert_eq!(next(&mut runs).await, "default/one");
    let secrets: Api<Secret> = Api::namespaced(client, "default");
    secrets.delete("b", &kube::api::DeleteParams::default()).await.expect("deleted");
    expect_rest(&mut runs).await;
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
    let running = run_with(client.clone(), |builder| builder.watches(watch, to_one), teller(said));
    assert_eq!(next(&mut runs).await, "default/one");
    create_secret(&client, "a", json!({"labels": {"tier": "web"}}), json!({})).await;
    create_secret(&client, "b", json!({"annotations": {"example.com/use": "no"}}), json!({})).await;
    expect_rest(&mut runs).await;
    patch_secret(&client, "a", json!({"metadata": {"labels": {"tier": "db"}}})).await;
    assert_eq!(next(&mut runs).await, "default/one");
    // It ceases to match, which is a change, too.
    patch_secret(&client, "a", json!({"metadata": {"labels": {"tier": null}}})).await;
    assert_eq!(next(&mut runs).await, "default/one");
    patch_secret(&client, "a", json!({"stringData": {"password": "1"}})).await;
    expect_rest(&mut runs).await;
    patch_secret(&client, "b", json!({"metadata": {"annotations": {"example.com/use": "yes"}}}))
        .await;
    assert_eq!(next(&mut runs).await, "default/one");
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn informer_of_the_user_is_a_source() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let options = InformerOptions::new().namespace("default");
    let secrets = SharedInformer::<Secret>::new(client.clone(), options).expect("an informer");
    let to_one = |_: &windlass_indexer::Cached<Secret>| [key("default/one")];
    let running = run_with(
        client.clone(),
        |builder| builder.watches(Watch::from_informer(&secrets), to_one),
        teller(said),
    );
    let stop = CancellationToken::new();
    let test = async {
        assert_eq!(next(&mut runs).await, "default/one");
        assert!(secrets.has_synced(), "no run begins before");
        create_secret(&client, "a", json!({}), json!({})).await;
        assert_eq!(next(&mut runs).await, "default/one");
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(secrets.run(stop.clone()), test);
    ran.expect("it stops");
    running.end().await.expect("it stops");
}

/// In the order of their names, all of the busy tenant would come first.
#[tokio::test(start_paused = true)]
async fn own_groups_take_turns() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    for number in 0..20 {
        create(&client, &format!("busy-{number}")).await;
    }
    create(&client, "quiet-1").await;
    let (said, mut runs) = mpsc::channel(100);
    let by_tenant = |key: &ObjectKey| Group::of(&key.name().split('-').next());
    let running = run_with(client, |builder| builder.fair_by(by_tenant), teller(said));
    let mut first = Vec::new();
    // As many as there are tenants.
    for _ in 0..3 {
        first.push(next(&mut runs).await);
    }
    assert!(first.iter().any(|run| run == "default/quiet-1"), "{first:?}");
    running.end().await.expect("it stops");
}

/// The urgent keys requeue themselves at once, so that one of them is always ready.
#[tokio::test(start_paused = true)]
async fn aging_brings_a_key_that_urgent_ones_would_starve() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    create(&client, "urgent-1").await;
    create(&client, "urgent-2").await;
    let (said, mut runs) = mpsc::channel(1_000);
    let policy = |key: &ObjectKey, _: &Cause| {
        if key.name() == "one" { Priority::Low } else { Priority::High }
    };
    let busy = reconcile_fn(async move |_: Arc<ConfigMap>, cx| {
        tokio::time::sleep(Duration::from_secs(1)).await;
        said.send((cx.key().to_string(), Instant::now())).await?;
        Ok(Action::RequeueAfter(Duration::ZERO))
    });
    let aging = Duration::from_secs(3);
    let started = Instant::now();
    let running = run_with(client, |b| b.priority(policy).aging(aging), busy);
    let at = loop {
        let (key, at) = runs.recv().await.expect("a run");
        if key == "default/one" {
            break at;
        }
    };
    let wait = at - started;
    assert!(wait > 2 * aging && wait < Duration::from_secs(20), "{wait:?}");
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
            return Ok(Action::Done);
        }
        let api: Api<ConfigMap> = Api::namespaced(cx.client().clone(), "shop");
        api.create(&PostParams::default(), &object("written", "web")).await?;
        Ok(Action::RequeueAfter(Duration::from_millis(1)))
    });
    let running = run_built(client, Controller::of(watch), writer);
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
