//! When keys run, and in which order: debouncing, groups, aging, priorities.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use windlass_indexer::ObjectKey;
use windlass_reconciler::{Action, Cause, Error, reconcile_fn};
use windlass_workqueue::{Group, Priority};

use crate::stage::runs::{expect_no_run, next, reporter};
use crate::stage::{api, cluster, create, run_with};
use windlass_testserver::Log;

#[tokio::test(start_paused = true)]
async fn debounced_key_waits_for_quiet_but_not_longer_than_allowed() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let (quiet, at_most) = (Duration::from_secs(2), Duration::from_secs(5));
    let running = run_with(client.clone(), |b| b.debounce(quiet, at_most), reporter(said));
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
    expect_no_run(&mut runs).await;

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
    let running = run_with(client, |builder| builder.fair_by(by_tenant), reporter(said));
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
        Ok(Action::requeue_after(Duration::ZERO))
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

/// While the only worker is busy, all others become ready. The order of their next runs shows their
/// priorities.
#[tokio::test(start_paused = true)]
async fn run_decides_the_priority_of_its_requeue_and_the_policy_that_of_its_retry() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let names = ["later", "plain", "retried-later", "retried-soon", "soon"];
    for name in names {
        create(&client, name).await;
    }
    let (reports, mut runs) = mpsc::channel(1_000);
    let second = Duration::from_secs(1);
    let reconciler = reconcile_fn(async move |_: Arc<ConfigMap>, cx| {
        reports.send(cx.key().name().to_owned()).await?;
        if cx.causes().contains(&Cause::Timer) || cx.attempt() > 1 {
            return Ok(Action::done());
        }
        let failed = Error::msg("try again").retry_after(second);
        match cx.key().name() {
            "later" => Ok(Action::requeue_after(second).priority(Priority::Low)),
            "soon" => Ok(Action::requeue_after(second).priority(Priority::High)),
            "plain" => Ok(Action::requeue_after(second)),
            "retried-later" | "retried-soon" => Err(failed),
            _ => {
                tokio::time::sleep(10 * second).await;
                Ok(Action::done())
            }
        }
    });
    // The one that keeps the worker busy comes last.
    let policy = |key: &ObjectKey, _: &Cause| {
        if key.name() == "one" { Priority::Low } else { Priority::Normal }
    };
    let retries = |key: &ObjectKey, _: &Error| match key.name() {
        "retried-later" => Priority::Low,
        "retried-soon" => Priority::High,
        _ => panic!("only these two fail"),
    };
    let running = run_with(client, |b| b.priority(policy).retry_priority(retries), reconciler);
    let mut ran = Vec::new();
    while ran.len() < 2 * names.len() + 1 {
        ran.push(runs.recv().await.expect("a run"));
    }
    assert_eq!(ran[names.len()], "one", "{ran:?}");
    let again = ran.split_off(names.len() + 1);
    let sorted = |range: std::ops::Range<usize>| {
        let mut names = again[range].to_vec();
        names.sort_unstable();
        names
    };
    assert_eq!(sorted(0..2), ["retried-soon", "soon"], "{again:?}");
    assert_eq!(sorted(2..3), ["plain"], "{again:?}");
    assert_eq!(sorted(3..5), ["later", "retried-later"], "{again:?}");
    running.end().await.expect("it stops");
}
