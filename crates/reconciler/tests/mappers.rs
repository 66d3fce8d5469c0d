//! Mappers that see the old and the new version of an object, and are awaited.

mod stage;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_informer::{Event, SharedInformerFactory};
use windlass_reconciler::{Cause, Change, Controller, Error, Watch};

use stage::runs::{create_secret, expect_no_run, key, next, patch_secret, reporter};
use stage::{cluster, run_with};
use windlass_testkit::Log;

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
async fn mapper_of_changes_is_repeated_when_it_fails_but_not_for_ever() {
    let log = Log::start();
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
        reporter(said),
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
    assert_eq!(log.lines_with("what the event leads to is not reconciled").len(), 3);
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
    let controller = Controller::of(Watch::<ConfigMap>::new())
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
