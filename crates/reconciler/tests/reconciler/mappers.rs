//! Mappers that see the old and the new version of an object, and are awaited.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DeleteParams};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_indexer::{Cached, ObjectKey};
use windlass_informer::{Event, Resource, SharedInformerFactory};
use windlass_reconciler::{
    Action, Cause, Change, Controller, Error, Predicate, Reconcile, RunContext, Watch,
};

use crate::stage::runs::{Ran, create_secret, expect_no_run, key, next, patch_secret, reporter};
use crate::stage::{api, cluster, create, run_on, run_with};
use windlass_testserver::Log;
use windlass_testserver::apiserver::{Fault, FaultRule};

#[tokio::test(start_paused = true)]
async fn mapper_of_changes_sees_old_and_new_and_is_awaited() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let map = async |event: Event<Secret>| {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let is_same = match &event {
            Event::Updated { old, new, .. } => old.get()?.data == new.get()?.data,
            _ => false,
        };
        Ok((!is_same).then(|| key("default/one")))
    };
    let running = run_with(
        client.clone(),
        |builder| builder.watches_changes(Watch::<Secret>::new(), map),
        reporter(said),
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
    expect_no_run(&mut runs).await;
    patch_secret(&client, "a", json!({"stringData": {"password": "2"}})).await;
    assert_eq!(next(&mut runs).await, "default/one");
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn mapper_of_changes_is_repeated_without_end_unless_its_error_is_terminal() {
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let map = async move |event: Event<Secret>| match event.key().name() {
        "good" => Ok([key("default/one")]),
        "never" => Err(Error::msg("the directory is away")),
        "slowly" => Err(Error::msg("not before noon").retry_after(Duration::from_hours(1))),
        "invalid" => Err(Error::msg("no such user").terminal()),
        _ => panic!("as the script says"),
    };
    let running = run_with(
        client.clone(),
        |builder| builder.watches_changes(Watch::<Secret>::new(), map),
        reporter(said),
    );
    assert_eq!(next(&mut runs).await, "default/one");
    for name in ["never", "slowly", "invalid", "broken", "good"] {
        create_secret(&client, name, json!({}), json!({})).await;
    }
    let (_, _, causes) = runs.recv().await.expect("a run");
    assert_eq!(object_of(&causes), "default/good");
    tokio::time::sleep(Duration::from_mins(125)).await;
    let mappers = running.controller.status().mappers;
    // After the first few, one in 15 to 30 seconds.
    let repeated = 125 * 2..=125 * 4 + 10;
    assert!(repeated.contains(&mappers.panicked), "{mappers:?}");
    // The one that is invalid failed once, and the one that asked for an hour three times.
    assert!(repeated.contains(&(mappers.failed - 4)), "{mappers:?}");
    assert_eq!((mappers.mapping, mappers.waiting, mappers.given_up), (0, 3, 1));
    assert_eq!(log.lines_with("what the event leads to is not reconciled").len(), 1);
    // Not one for each attempt.
    assert!(log.lines_with("is called again").len() < 30);
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
    let factory = SharedInformerFactory::new(client.clone());
    let controller = Controller::named("configmap", Watch::<ConfigMap>::new())
        .watches_changes(Watch::<Secret>::new(), map)
        .build(&factory, reporter(said))
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
    let running = run_with(client.clone(), |builder| builder, reporter(said));
    assert_eq!(next(&mut runs).await, "default/one");
    let map = async |_: Event<Secret>| Ok([key("default/one")]);
    let source = running
        .controller
        .handle()
        .add_watched_changes(Watch::<Secret>::new(), map)
        .expect("a source");
    create_secret(&client, "a", json!({}), json!({})).await;
    assert_eq!(next(&mut runs).await, "default/one");
    assert!(running.controller.handle().remove(source));
    create_secret(&client, "b", json!({}), json!({})).await;
    expect_no_run(&mut runs).await;
    // Nobody uses the informer of secrets any more.
    assert_eq!(running.factory.status().len(), 1);
    running.end().await.expect("it stops");
}

/// A Secret whose mode must be one that is known.
#[derive(Clone, Debug, serde::Deserialize)]
struct Settings {
    #[serde(default)]
    data: BTreeMap<String, Known>,
}

#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
enum Known {
    /// "on", as a Secret holds it.
    #[serde(rename = "b24=")]
    On,
    /// "off".
    #[serde(rename = "b2Zm")]
    Off,
}

fn settings() -> Watch<Settings> {
    let watch = Watch::<Settings>::of(Resource::of::<Secret>());
    watch.options(|options| options.namespace("default"))
}

async fn delete_secret(client: &kube::Client, name: &str) {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    secrets.delete(name, &DeleteParams::default()).await.expect("deleted");
}

/// Says which keys run that have no object.
struct Absent(mpsc::Sender<Ran>);

impl Reconcile<ConfigMap> for Absent {
    async fn reconcile(&self, _: Arc<ConfigMap>, _: &RunContext) -> Result<Action, Error> {
        Ok(Action::done())
    }

    async fn absent(&self, key: &ObjectKey, cx: &RunContext) -> Result<Action, Error> {
        self.0.send((key.to_string(), Instant::now(), cx.causes().to_vec())).await?;
        Ok(Action::done())
    }
}

/// The object of a run's only cause.
fn object_of(causes: &[Cause]) -> String {
    let [Cause::Changed { object, .. }] = causes else { panic!("{causes:?}") };
    object.to_string()
}

/// An object that does not decode, which no retry helps.
#[tokio::test(start_paused = true)]
async fn objects_that_do_not_decode_hold_up_nobody() {
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let map = async |event: Event<Settings>| {
        event.object().get()?;
        Ok([key("default/one")])
    };
    let running = run_with(
        client.clone(),
        |builder| builder.watches_changes(settings(), map),
        reporter(said),
    );
    assert_eq!(next(&mut runs).await, "default/one");
    for number in 0..20 {
        create_secret(&client, &format!("bad-{number}"), json!({}), json!({"mode": "?"})).await;
    }
    let began = Instant::now();
    create_secret(&client, "good", json!({}), json!({"mode": "on"})).await;
    let (_, at, causes) = runs.recv().await.expect("a run");
    assert_eq!(object_of(&causes), "default/good");
    assert!(at - began < Duration::from_secs(1), "{:?}", at - began);
    expect_no_run(&mut runs).await;
    // One line for each, and no retry: nothing helps before the object changes.
    assert_eq!(log.lines_with("does not decode").len(), 20);
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn event_survives_an_outage_of_what_its_mapper_asks() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let over = Instant::now() + Duration::from_secs(40);
    let map = async move |_: Event<Secret>| {
        if Instant::now() < over {
            return Err(Error::msg("the directory is away"));
        }
        Ok([key("default/one")])
    };
    let running = run_with(
        client.clone(),
        |builder| builder.watches_changes(Watch::<Secret>::new(), map),
        reporter(said),
    );
    assert_eq!(next(&mut runs).await, "default/one");
    for name in ["a", "b", "c"] {
        create_secret(&client, name, json!({}), json!({})).await;
    }
    let mut causes = BTreeSet::new();
    while causes.len() < 3 {
        let ran = tokio::time::timeout(Duration::from_mins(2), runs.recv()).await;
        let (_, at, why) = ran.expect("no event is lost").expect("a run");
        assert!(at >= over);
        causes.extend(why.iter().map(ToString::to_string));
    }
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn event_whose_mapper_panics_is_mapped_again() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let calls = Arc::new(AtomicU32::new(0));
    let called = Arc::clone(&calls);
    let map = async move |_: Event<Secret>| {
        assert!(called.fetch_add(1, Ordering::Relaxed) >= 2, "as the script says");
        Ok([key("default/one")])
    };
    let running = run_with(
        client.clone(),
        |builder| builder.watches_changes(Watch::<Secret>::new(), map),
        reporter(said),
    );
    assert_eq!(next(&mut runs).await, "default/one");
    create_secret(&client, "a", json!({}), json!({})).await;
    let ran = tokio::time::timeout(Duration::from_mins(1), runs.recv()).await;
    let (_, _, causes) = ran.expect("the event is not lost").expect("a run");
    assert_eq!(object_of(&causes), "default/a");
    assert_eq!(calls.load(Ordering::Relaxed), 3);
    running.end().await.expect("it stops");
}

/// A mapper that hangs for one object.
#[tokio::test(start_paused = true)]
async fn mapper_that_never_returns_for_one_object_holds_up_no_other() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let calls = Arc::new(AtomicU32::new(0));
    let called = Arc::clone(&calls);
    let map = async move |event: Event<Secret>| {
        // The directory answers for it in the third attempt.
        if event.key().name() == "hung" && called.fetch_add(1, Ordering::Relaxed) < 2 {
            std::future::pending::<()>().await;
        }
        Ok([key("default/one")])
    };
    let limit = Duration::from_secs(10);
    let running = run_with(
        client.clone(),
        |builder| builder.timeout(limit).watches_changes(Watch::<Secret>::new(), map),
        reporter(said),
    );
    assert_eq!(next(&mut runs).await, "default/one");
    let began = Instant::now();
    create_secret(&client, "hung", json!({}), json!({})).await;
    create_secret(&client, "good", json!({}), json!({})).await;
    let ran = tokio::time::timeout(Duration::from_secs(1), runs.recv()).await;
    let (_, _, causes) = ran.expect("it does not wait for the other").expect("a run");
    assert_eq!(object_of(&causes), "default/good");
    let ran = tokio::time::timeout(Duration::from_mins(2), runs.recv()).await;
    let (_, at, causes) = ran.expect("the event is not lost").expect("a run");
    assert_eq!(object_of(&causes), "default/hung");
    assert!(at - began >= 2 * limit);
    running.end().await.expect("it stops");
}

/// A server that fails, or answers slowly, for a mapper that reads from it.
#[tokio::test(start_paused = true)]
async fn mapper_whose_reads_fail_or_are_slow_for_one_object_holds_up_no_other() {
    let _log = Log::start();
    let (cluster, client) = cluster().await;
    let server = cluster.server().expect("embedded");
    for (name, fault) in [
        ("fails", Fault::Fail { code: 503, retry_after: None }),
        ("overloaded", Fault::Fail { code: 429, retry_after: Some(2) }),
        ("slow", Fault::Delay(Duration::from_secs(20))),
        ("silent", Fault::Hang),
    ] {
        let rule = FaultRule::new(fault).resource("configmaps").verb("get").name(name).times(5);
        server.faults().add(rule);
    }
    let (said, mut runs) = mpsc::channel(100);
    let reader = client.clone();
    let map = async move |event: Event<Secret>| {
        let found = api(&reader).get_opt(event.key().name()).await?;
        Ok(found.map(|_| event.key().clone()))
    };
    let running = run_with(
        client.clone(),
        |builder| {
            builder.timeout(Duration::from_secs(10)).watches_changes(Watch::<Secret>::new(), map)
        },
        reporter(said),
    );
    let names = ["fails", "overloaded", "slow", "silent", "good"];
    for name in names {
        create(&client, name).await;
    }
    for _ in 0..=names.len() {
        next(&mut runs).await;
    }
    for name in names {
        create_secret(&client, name, json!({}), json!({})).await;
    }
    let ran = tokio::time::timeout(Duration::from_secs(1), runs.recv()).await;
    assert_eq!(ran.expect("it waits for nobody").expect("a run").0, "default/good");
    // The server heals, and every event arrives.
    let mut left: BTreeSet<_> = names[..4].iter().map(|name| format!("default/{name}")).collect();
    while !left.is_empty() {
        let ran = tokio::time::timeout(Duration::from_mins(10), next(&mut runs)).await;
        left.remove(&ran.unwrap_or_else(|_| panic!("lost: {left:?}")));
    }
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn object_that_changes_while_it_is_mapped_is_mapped_again_after_that() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let (seen, mut maps) = mpsc::channel(100);
    let map = async move |event: Event<Secret>| {
        let tier = |object: &Cached<Secret>| object.head().labels().get("tier").map(str::to_owned);
        let old = match &event {
            Event::Updated { old, .. } => tier(old),
            _ => None,
        };
        seen.send((old, tier(event.object()))).await?;
        tokio::time::sleep(Duration::from_secs(10)).await;
        Ok([key("default/one")])
    };
    let running = run_with(
        client.clone(),
        |builder| builder.watches_changes(Watch::<Secret>::new(), map),
        reporter(said),
    );
    assert_eq!(next(&mut runs).await, "default/one");
    create_secret(&client, "a", json!({"labels": {"tier": "0"}}), json!({})).await;
    assert_eq!(maps.recv().await, Some((None, Some("0".to_owned()))));
    // All of them while the first is mapped. What was mapped last is what the next one begins with.
    // A mapper that compares the two does not know what a run has seen in between, so it is also
    // shown the object by itself.
    for tier in ["1", "2", "3"] {
        patch_secret(&client, "a", json!({"metadata": {"labels": {"tier": tier}}})).await;
    }
    let (_, _, causes) = runs.recv().await.expect("a run");
    assert!(causes[0].to_string().starts_with("Secret default/a added"), "{causes:?}");
    assert_eq!(maps.recv().await, Some((Some("0".to_owned()), Some("3".to_owned()))));
    assert_eq!(maps.recv().await, Some((None, Some("3".to_owned()))));
    let (_, _, causes) = runs.recv().await.expect("a run");
    assert!(causes[0].to_string().starts_with("Secret default/a updated"), "{causes:?}");
    expect_no_run(&mut runs).await;
    running.end().await.expect("it stops");
}

/// Calls that hang until the time limit, for many objects at once.
#[tokio::test(start_paused = true)]
async fn sixteen_are_mapped_at_a_time_and_half_of_them_are_repetitions() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let (under_way, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (counted, greatest) = (Arc::clone(&under_way), Arc::clone(&most));
    let map = async move |event: Event<Secret>| {
        if event.key().name() == "good" {
            return Ok([key("default/one")]);
        }
        let now = counted.fetch_add(1, Ordering::Relaxed) + 1;
        let _ended = scopeguard::guard(counted, |counted| {
            counted.fetch_sub(1, Ordering::Relaxed);
        });
        greatest.fetch_max(now, Ordering::Relaxed);
        std::future::pending().await
    };
    let limit = Duration::from_secs(10);
    let running = run_with(
        client.clone(),
        |builder| builder.timeout(limit).watches_changes(Watch::<Secret>::new(), map),
        reporter(said),
    );
    assert_eq!(next(&mut runs).await, "default/one");
    for number in 0..40 {
        create_secret(&client, &format!("hung-{number}"), json!({}), json!({})).await;
    }
    // All of them have had their first attempt.
    tokio::time::sleep(limit * 3 + Duration::from_mins(1)).await;
    assert_eq!(most.load(Ordering::Relaxed), 16);
    for round in 0..20 {
        let began = Instant::now();
        let label = json!({"labels": {"round": round.to_string()}});
        if round == 0 {
            create_secret(&client, "good", label, json!({})).await;
        } else {
            patch_secret(&client, "good", json!({"metadata": label})).await;
        }
        let (_, at, causes) = runs.recv().await.expect("a run");
        assert_eq!(object_of(&causes), "default/good");
        assert!(at - began < Duration::from_secs(1), "{:?}", at - began);
        assert!(under_way.load(Ordering::Relaxed) <= 8);
        tokio::time::sleep(Duration::from_secs(7)).await;
    }
    let mappers = running.controller.status().mappers;
    assert_eq!(mappers.mapping + mappers.waiting, 40, "{mappers:?}");
    assert!(mappers.timed_out > 100, "{mappers:?}");
    running.end().await.expect("it stops");
}

/// Those that hang have half of the places for repetitions, or a short outage would last as long
/// as all of them together take.
#[tokio::test(start_paused = true)]
async fn event_that_failed_once_does_not_wait_for_hundreds_that_hang() {
    const LIMIT: Duration = Duration::from_mins(1);
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let is_away = Arc::new(AtomicBool::new(true));
    let away = Arc::clone(&is_away);
    let map = async move |event: Event<Secret>| {
        if event.key().name() != "good" {
            return std::future::pending().await;
        }
        if away.swap(false, Ordering::Relaxed) {
            return Err(Error::msg("the directory is away"));
        }
        Ok([key("default/one")])
    };
    let running = run_with(
        client.clone(),
        |builder| builder.timeout(LIMIT).watches_changes(Watch::<Secret>::new(), map),
        reporter(said),
    );
    assert_eq!(next(&mut runs).await, "default/one");
    for number in 0..200 {
        create_secret(&client, &format!("hung-{number}"), json!({}), json!({})).await;
    }
    // All of them have had their first attempt.
    tokio::time::sleep(30 * LIMIT).await;
    create_secret(&client, "good", json!({}), json!({})).await;
    let ran = tokio::time::timeout(Duration::from_secs(2), next(&mut runs)).await;
    assert_eq!(ran.expect("there is a place for it"), "default/one");
    assert!(!is_away.load(Ordering::Relaxed), "it has failed once");
    let mappers = running.controller.status().mappers;
    assert_eq!((mappers.mapping, mappers.waiting), (4, 196), "{mappers:?}");
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn event_that_waits_to_be_mapped_again_is_not_lost_when_the_controller_stops() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let (failed, mut failures) = mpsc::channel(100);
    let is_away = Arc::new(AtomicBool::new(true));
    let away = Arc::clone(&is_away);
    let map = async move |_: Event<Secret>| {
        if away.load(Ordering::Relaxed) {
            failed.send(()).await?;
            return Err(Error::msg("the directory is away"));
        }
        Ok([key("default/one")])
    };
    let factory = SharedInformerFactory::new(client.clone());
    let controller = Controller::named("configmap", Watch::<ConfigMap>::new())
        .watches_changes(Watch::<Secret>::new(), map)
        .build(&factory, reporter(said))
        .expect("a controller");
    create_secret(&client, "a", json!({}), json!({})).await;
    let stop = CancellationToken::new();
    let work = async {
        for _ in 0..3 {
            failures.recv().await.expect("an attempt");
        }
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(controller.run(stop.clone()), work);
    ran.expect("it stops");
    while runs.try_recv().is_ok() {}
    // It changes, and then goes, while nobody maps.
    patch_secret(&client, "a", json!({"metadata": {"labels": {"tier": "db"}}})).await;
    delete_secret(&client, "a").await;
    is_away.store(false, Ordering::Relaxed);
    let stop = CancellationToken::new();
    let work = async {
        let is_deletion = |cause: &Cause| cause.to_string().starts_with("Secret default/a deleted");
        while !runs.recv().await.expect("a run").2.iter().any(is_deletion) {}
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(controller.run(stop.clone()), work);
    ran.expect("it stops");
}

/// What comes after a version that does not decode is compared with the last one that was mapped.
#[tokio::test(start_paused = true)]
async fn object_that_decodes_again_is_mapped_with_the_last_version_that_did() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let map = async |event: Event<Settings>| {
        let mode = |object: &Cached<Settings>| {
            Ok::<_, Error>(match object.get()?.data.get("mode") {
                Some(Known::On) => "on",
                Some(Known::Off) => "off",
                None => "none",
            })
        };
        let new = mode(event.object())?;
        let old = match &event {
            Event::Updated { old, .. } => mode(old)?,
            Event::Added { .. } => "added",
            Event::Deleted { .. } => "deleted",
        };
        Ok([ObjectKey::namespaced(old, new)])
    };
    // The keys are of no object: they show what was mapped.
    let running =
        run_with(client.clone(), |builder| builder.watches_changes(settings(), map), Absent(said));
    let mode = |mode: &str| json!({"stringData": {"mode": mode}});
    create_secret(&client, "a", json!({}), json!({"mode": "on"})).await;
    assert_eq!(next(&mut runs).await, "added/on");
    patch_secret(&client, "a", mode("?")).await;
    expect_no_run(&mut runs).await;
    patch_secret(&client, "a", mode("!")).await;
    expect_no_run(&mut runs).await;
    patch_secret(&client, "a", mode("off")).await;
    let both = BTreeSet::from([next(&mut runs).await, next(&mut runs).await]);
    assert_eq!(both, BTreeSet::from(["added/off".to_owned(), "on/off".to_owned()]));
    // What led to its keys tells them that it is gone.
    patch_secret(&client, "a", mode("?")).await;
    expect_no_run(&mut runs).await;
    delete_secret(&client, "a").await;
    assert_eq!(next(&mut runs).await, "deleted/off");

    create_secret(&client, "b", json!({}), json!({"mode": "?"})).await;
    expect_no_run(&mut runs).await;
    patch_secret(&client, "b", mode("on")).await;
    assert_eq!(next(&mut runs).await, "added/on");
    running.end().await.expect("it stops");
}

/// Only the object itself says when it decodes. If the mapper met another one, it asks again.
#[tokio::test(start_paused = true)]
async fn mapper_that_met_another_object_that_does_not_decode_is_called_again() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let factory = SharedInformerFactory::new(client.clone());
    let others = factory
        .informer_of::<Settings>(&Resource::of::<Secret>(), |options| options.namespace("default"))
        .expect("an informer");
    let others = others.lister().clone();
    create_secret(&client, "shared", json!({"labels": {"of": "others"}}), json!({"mode": "?"}))
        .await;
    let map = async move |event: Event<Settings>| {
        if event.key().name() == "a" {
            others.get("default/shared")?;
            return Ok(Some(key("default/one")));
        }
        Ok(None)
    };
    let watch = Watch::<ConfigMap>::new().options(|options| options.namespace("default"));
    let builder = Controller::named("configmap", watch).watches_changes(settings(), map);
    let running = run_on(factory, builder, reporter(said));
    assert_eq!(next(&mut runs).await, "default/one");
    create_secret(&client, "a", json!({}), json!({"mode": "on"})).await;
    expect_no_run(&mut runs).await;
    patch_secret(&client, "shared", json!({"stringData": {"mode": "on"}})).await;
    let ran = tokio::time::timeout(Duration::from_mins(1), runs.recv()).await;
    assert_eq!(object_of(&ran.expect("it is not lost").expect("a run").2), "default/a");
    running.end().await.expect("it stops");
}

/// The old and the new version of what merged are the same, but a run has seen the one between.
#[tokio::test(start_paused = true)]
async fn object_that_changes_back_while_its_mapper_fails_leads_to_a_run() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let is_away = Arc::new(AtomicBool::new(false));
    let away = Arc::clone(&is_away);
    let map = async move |event: Event<Settings>| {
        if away.load(Ordering::Relaxed) {
            return Err(Error::msg("the directory is away"));
        }
        let is_same = match &event {
            Event::Updated { old, new, .. } => old.get()?.data == new.get()?.data,
            _ => false,
        };
        Ok((!is_same).then(|| key("default/one")))
    };
    let running = run_with(
        client.clone(),
        |builder| builder.watches_changes(settings(), map),
        reporter(said),
    );
    assert_eq!(next(&mut runs).await, "default/one");
    create_secret(&client, "a", json!({}), json!({"mode": "on"})).await;
    assert_eq!(next(&mut runs).await, "default/one");
    is_away.store(true, Ordering::Relaxed);
    for mode in ["off", "on"] {
        patch_secret(&client, "a", json!({"stringData": {"mode": mode}})).await;
        expect_no_run(&mut runs).await;
    }
    is_away.store(false, Ordering::Relaxed);
    let ran = tokio::time::timeout(Duration::from_mins(1), next(&mut runs)).await;
    assert_eq!(ran.expect("it is not lost"), "default/one");
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn event_whose_mapper_panics_without_being_awaited_is_mapped_again() {
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let calls = Arc::new(AtomicU32::new(0));
    let called = Arc::clone(&calls);
    let map = move |secret: &Cached<Secret>| {
        let is_good = secret.key().name() == "good" || called.fetch_add(1, Ordering::Relaxed) >= 3;
        assert!(is_good, "as the script says");
        [key("default/one")]
    };
    let running = run_with(
        client.clone(),
        |builder| builder.watches(Watch::<Secret>::new(), map),
        reporter(said),
    );
    assert_eq!(next(&mut runs).await, "default/one");
    create_secret(&client, "a", json!({}), json!({})).await;
    create_secret(&client, "good", json!({}), json!({})).await;
    assert_eq!(object_of(&runs.recv().await.expect("a run").2), "default/good");
    let ran = tokio::time::timeout(Duration::from_mins(1), runs.recv()).await;
    assert_eq!(object_of(&ran.expect("it is not lost").expect("a run").2), "default/a");
    assert_eq!(calls.load(Ordering::Relaxed), 4);
    assert_eq!(running.controller.status().mappers.panicked, 3);
    assert_eq!(log.lines_with("panicked; it is called again").len(), 1);
    expect_no_run(&mut runs).await;
    running.end().await.expect("it stops");
}

/// Otherwise what failed would be repeated for ever, for each name that came and went.
#[tokio::test(start_paused = true)]
async fn deletion_replaces_what_waits_of_its_object_even_if_a_predicate_ignores_it() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let map = async |event: Event<Secret>| match event {
        Event::Deleted { .. } => Ok([key("default/one")]),
        _ => Err(Error::msg("there is no such user")),
    };
    let no_deletions = Predicate::new(|event| !matches!(event, Event::Deleted { .. }));
    let running = run_with(
        client.clone(),
        |builder| builder.watches_changes(Watch::<Secret>::new().when(no_deletions), map),
        reporter(said),
    );
    assert_eq!(next(&mut runs).await, "default/one");
    create_secret(&client, "a", json!({}), json!({})).await;
    expect_no_run(&mut runs).await;
    assert_eq!(running.controller.status().mappers.waiting, 1);
    delete_secret(&client, "a").await;
    let ran = tokio::time::timeout(Duration::from_mins(1), runs.recv()).await;
    assert_eq!(object_of(&ran.expect("it is mapped").expect("a run").2), "default/a");
    let mappers = running.controller.status().mappers;
    assert_eq!((mappers.mapping, mappers.waiting), (0, 0));
    running.end().await.expect("it stops");
}

/// Creates an object without the label that the mapper needs, and then adds it.
async fn create_and_fix(client: &kube::Client, name: &str) {
    create_secret(client, name, json!({}), json!({})).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    patch_secret(client, name, json!({"metadata": {"labels": {"team": "red"}}})).await;
}

fn team(object: &Cached<Secret>) -> Option<String> {
    object.head().labels().get("team").map(str::to_owned)
}

/// The mapper fails for the old version of each update that follows, whatever the new one is.
#[tokio::test(start_paused = true)]
async fn object_whose_mapper_fails_leads_to_a_run_when_it_is_fixed() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let map = async |event: Event<Secret>| {
        let is_panic = event.key().name() == "panics";
        let team = |object: &Cached<Secret>| match team(object) {
            None if is_panic => panic!("no team"),
            team => team.ok_or_else(|| Error::msg("no team").retry_after(Duration::from_hours(1))),
        };
        let old = match &event {
            Event::Updated { old, .. } => team(old)?,
            Event::Added { .. } => "added".to_owned(),
            Event::Deleted { .. } => "deleted".to_owned(),
        };
        Ok([ObjectKey::namespaced(&old, &team(event.object())?)])
    };
    // The keys are of no object: they show what was mapped.
    let running = run_with(
        client.clone(),
        |builder| builder.watches_changes(Watch::<Secret>::new(), map),
        Absent(said),
    );
    for name in ["fails", "panics"] {
        create_and_fix(&client, name).await;
        let ran = tokio::time::timeout(Duration::from_secs(40), next(&mut runs)).await;
        assert_eq!(ran.expect("it is not lost"), "added/red");
        // The next change begins with the version that was mapped.
        patch_secret(&client, name, json!({"metadata": {"labels": {"team": "blue"}}})).await;
        let ran = tokio::time::timeout(Duration::from_secs(40), next(&mut runs)).await;
        assert_eq!(ran.expect("it is not lost"), "red/blue");
        // What the old version led to is not asked for ever.
        tokio::time::sleep(Duration::from_hours(12)).await;
        let mappers = running.controller.status().mappers;
        assert_eq!((mappers.mapping, mappers.waiting), (0, 0), "{mappers:?}");
    }
    assert_eq!(running.controller.status().mappers.given_up, 2);
    running.end().await.expect("it stops");
}

/// The keys of the old version are those that it does not lead to any more.
#[tokio::test(start_paused = true)]
async fn update_whose_new_version_was_mapped_alone_is_mapped_again_for_the_old_one() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let calls = Arc::new(AtomicU32::new(0));
    let called = Arc::clone(&calls);
    let map = async move |event: Event<Secret>| match &event {
        Event::Updated { old, .. } => {
            if called.fetch_add(1, Ordering::Relaxed) < 3 {
                return Err(Error::msg("the directory does not know it yet"));
            }
            Ok([ObjectKey::namespaced("old", &team(old).unwrap_or_default())])
        }
        _ => Ok([ObjectKey::namespaced("new", &team(event.object()).unwrap_or_default())]),
    };
    let running = run_with(
        client.clone(),
        |builder| builder.watches_changes(Watch::<Secret>::new(), map),
        Absent(said),
    );
    create_secret(&client, "a", json!({"labels": {"team": "red"}}), json!({})).await;
    assert_eq!(next(&mut runs).await, "new/red");
    patch_secret(&client, "a", json!({"metadata": {"labels": {"team": "blue"}}})).await;
    assert_eq!(next(&mut runs).await, "new/blue");
    let ran = tokio::time::timeout(Duration::from_mins(1), next(&mut runs)).await;
    assert_eq!(ran.expect("it is not lost"), "old/red");
    running.end().await.expect("it stops");
}

/// No retry helps, and nothing says which version the error is about.
#[tokio::test(start_paused = true)]
async fn terminal_error_about_the_old_version_does_not_hide_the_new_one() {
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let map = async |event: Event<Secret>| {
        let valid = |object| team(object).ok_or_else(|| Error::msg("it has no team").terminal());
        if let Event::Updated { old, .. } = &event {
            valid(old)?;
        }
        Ok([ObjectKey::namespaced("team", &valid(event.object())?)])
    };
    let running = run_with(
        client.clone(),
        |builder| builder.watches_changes(Watch::<Secret>::new(), map),
        Absent(said),
    );
    create_secret(&client, "a", json!({}), json!({})).await;
    patch_secret(&client, "a", json!({"metadata": {"annotations": {"a": "1"}}})).await;
    expect_no_run(&mut runs).await;
    assert_eq!(log.lines_with("what the event leads to is not reconciled").len(), 2);
    patch_secret(&client, "a", json!({"metadata": {"labels": {"team": "red"}}})).await;
    let ran = tokio::time::timeout(Duration::from_mins(1), next(&mut runs)).await;
    assert_eq!(ran.expect("the new version has a team"), "team/red");
    assert_eq!(log.lines_with("what only the old version led to is not reconciled").len(), 1);
    let mappers = running.controller.status().mappers;
    assert_eq!((mappers.waiting, mappers.given_up), (0, 3), "{mappers:?}");
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn panic_on_one_version_does_not_hide_the_keys_of_the_other_one() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let map = |secret: &Cached<Secret>| {
        let team = team(secret).expect("no team, as the script says");
        [ObjectKey::namespaced("team", &team)]
    };
    let running = run_with(
        client.clone(),
        |builder| builder.watches(Watch::<Secret>::new(), map),
        Absent(said),
    );
    create_and_fix(&client, "a").await;
    // At once, and once more when the stream has tried the old version, too.
    let ran = tokio::time::timeout(Duration::from_millis(500), next(&mut runs)).await;
    assert_eq!(ran.expect("it does not wait"), "team/red");
    tokio::time::sleep(Duration::from_hours(1)).await;
    while runs.try_recv().is_ok() {}
    let mappers = running.controller.status().mappers;
    assert_eq!((mappers.mapping, mappers.waiting), (0, 0), "{mappers:?}");
    patch_secret(&client, "a", json!({"metadata": {"labels": {"team": null}}})).await;
    let ran = tokio::time::timeout(Duration::from_millis(500), next(&mut runs)).await;
    assert_eq!(ran.expect("the old version leads to it"), "team/red");
    expect_no_run(&mut runs).await;
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn ignored_deletion_replaces_the_version_on_which_a_mapper_panicked() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let is_broken = Arc::new(AtomicBool::new(true));
    let broken = Arc::clone(&is_broken);
    let map = move |_: &Cached<Secret>| {
        assert!(!broken.load(Ordering::Relaxed), "as the script says");
        [key("default/one")]
    };
    let no_deletions = Predicate::new(|event| !matches!(event, Event::Deleted { .. }));
    let running = run_with(
        client.clone(),
        |builder| builder.watches(Watch::<Secret>::new().when(no_deletions), map),
        reporter(said),
    );
    assert_eq!(next(&mut runs).await, "default/one");
    create_secret(&client, "a", json!({}), json!({})).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    delete_secret(&client, "a").await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    is_broken.store(false, Ordering::Relaxed);
    let (_, _, causes) = runs.recv().await.expect("a run");
    assert!(causes[0].to_string().starts_with("Secret default/a deleted"), "{causes:?}");
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn panics_on_all_initial_objects_lose_no_event_and_do_not_flood_the_log() {
    const OBJECTS: usize = 1_100;
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    for number in 0..OBJECTS {
        create_secret(&client, &format!("s{number}"), json!({}), json!({})).await;
    }
    let map = |_: &Cached<Secret>| -> [ObjectKey; 0] { panic!("as the script says") };
    let running = run_with(
        client.clone(),
        |builder| builder.watches(Watch::<Secret>::new(), map),
        reporter(said),
    );
    assert_eq!(next(&mut runs).await, "default/one");
    tokio::time::sleep(Duration::from_secs(30)).await;
    let mappers = running.controller.status().mappers;
    assert_eq!(mappers.mapping + mappers.waiting, OBJECTS, "{mappers:?}");
    assert!(log.lines_with("the mapper of a watch panicked; it is called again").len() <= 20);
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn final_failures_of_many_events_do_not_flood_the_log() {
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let map =
        async |_: Event<Secret>| Err::<Vec<ObjectKey>, _>(Error::msg("no such user").terminal());
    let running = run_with(
        client.clone(),
        |builder| builder.watches_changes(Watch::<Secret>::new(), map),
        reporter(said),
    );
    assert_eq!(next(&mut runs).await, "default/one");
    for number in 0..100 {
        create_secret(&client, &format!("s{number}"), json!({}), json!({})).await;
    }
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(running.controller.status().mappers.given_up, 100);
    assert!(log.lines_with("no such user").len() <= 20);
    create_secret(&client, "last", json!({}), json!({})).await;
    expect_no_run(&mut runs).await;
    assert_eq!(log.lines_with("left_out=80").len(), 1);
    running.end().await.expect("it stops");
}
