//! Closures as reconcilers, the hook for errors, and keys that are given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::sync::mpsc;
use windlass_informer::{NotLeader, SharedInformerFactory};
use windlass_reconciler::{
    Action, BuildError, Class, Controller, Error, InactiveReason, Outcome, RunContext, Watch,
    reconcile_fn,
};

use crate::stage::{api, cluster, run, run_with};
use windlass_testserver::Log;

/// An error of the user.
#[derive(Debug, thiserror::Error)]
#[error("code {0}")]
struct Code(u32);

async fn greet(map: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
    let mut new = ConfigMap::clone(&map);
    new.data.get_or_insert_default().insert("greeting".to_owned(), cx.key().to_string());
    cx.live().update(&*map, &new).await?;
    Ok(Action::done())
}

#[tokio::test(start_paused = true)]
async fn closure_and_function_reconcile() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(10);
    // It captures something that is used by reference, and calls an async fn with its context.
    let running = run(
        client.clone(),
        reconcile_fn(async move |map: Arc<ConfigMap>, cx| {
            let _ = greet(map, cx).await?;
            said.send(cx.key().to_string()).await?;
            Ok(Action::done())
        }),
    );
    assert_eq!(runs.recv().await.as_deref(), Some("default/one"));
    let written = api(&client).get("one").await.expect("read");
    assert_eq!(written.data.expect("data")["greeting"], "default/one");
    running.end().await.expect("it stops");
    drop(run(client, reconcile_fn(greet)));
}

#[tokio::test(start_paused = true)]
async fn key_rests_after_its_last_attempt_and_has_all_of_them_again_after_an_event() {
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let fails = reconcile_fn(async move |_: Arc<ConfigMap>, cx| {
        said.send(cx.attempt()).await?;
        Err(anyhow::anyhow!("no database"))?
    });
    let running = run_with(client.clone(), |builder| builder.max_attempts(3), fails);
    let mut attempts = Vec::new();
    for _ in 0..3 {
        attempts.push(runs.recv().await.expect("a run"));
    }
    assert_eq!(attempts, [1, 2, 3]);
    // Less than the hour after which the queue forgets failures by itself.
    let rest = tokio::time::timeout(Duration::from_mins(10), runs.recv()).await;
    assert!(rest.is_err(), "{rest:?}");

    let controller = &running.controller;
    assert_eq!((controller.status().given_up, controller.status().counts.given_up), (1, 1));
    let inactive = controller.inactive();
    assert_eq!(inactive.len(), 1);
    assert_eq!(
        (inactive[0].key.to_string(), inactive[0].reason),
        ("default/one".into(), InactiveReason::GivenUp)
    );
    let last = controller.runs(&inactive[0].key).pop().expect("a run");
    assert!(last.gave_up && last.retry_in.is_none(), "{last:?}");
    let lines = log.lines_with("is given up: this was its last attempt");
    assert_eq!(lines.len(), 1, "{lines:?}");

    let patch = Patch::Merge(json!({"data": {"touched": "yes"}}));
    api(&client).patch("one", &PatchParams::default(), &patch).await.expect("patched");
    assert_eq!(runs.recv().await, Some(1));
    assert_eq!(runs.recv().await, Some(2));
    assert_eq!(controller.status().given_up, 0, "it runs again");
    running.end().await.expect("it stops");
}

/// A replica that does not lead any more refuses its writes: that says nothing about the key.
#[tokio::test(start_paused = true)]
async fn write_that_only_the_leader_may_make_is_no_attempt() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (reports, mut runs) = mpsc::channel(100);
    let reconciler = reconcile_fn(async move |_: Arc<ConfigMap>, cx| {
        let runs = reports.max_capacity() - reports.capacity();
        reports.send(cx.attempt()).await?;
        if runs < 5 {
            return Err(NotLeader { request: "patch configmaps".to_owned() }.into());
        }
        Err(Error::msg("no database"))
    });
    let running = run_with(client, |builder| builder.max_attempts(2), reconciler);
    let mut finished = running.controller.handle().finished();
    let mut last = None;
    for _ in 0..7 {
        let (_, run) = finished.next().await.expect("a run");
        last = Some(run);
    }
    let last = last.expect("a run");
    assert!(last.gave_up, "{last:?}");
    let mut attempts = Vec::new();
    while let Ok(attempt) = runs.try_recv() {
        attempts.push(attempt);
    }
    assert_eq!(attempts, [1, 1, 1, 1, 1, 1, 2]);
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn controller_without_attempts_is_not_built() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let factory = SharedInformerFactory::new(client);
    let builder = Controller::named("configmap", Watch::<ConfigMap>::new()).max_attempts(0);
    let error = builder.build(&factory, reconcile_fn(greet)).expect_err("nothing could run");
    assert!(matches!(error, BuildError::NoAttempts { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn hook_sees_every_failed_run_with_its_error_and_may_panic() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut seen) = mpsc::channel(100);
    let count = Arc::new(AtomicU32::new(0));
    let script = reconcile_fn(async move |_: Arc<ConfigMap>, _| {
        match count.fetch_add(1, Ordering::Relaxed) {
            0 => Err(anyhow::Error::from(Code(42)).context("wrapped"))?,
            1 => panic!("as the script says"),
            2 => Err(Error::msg("never").terminal()),
            _ => Ok(Action::done()),
        }
    });
    let hook = move |failed: &windlass_reconciler::FailedRun<'_>| {
        let causes = failed.error.map(|error| {
            let mut chain = windlass_informer::client::error_chain(error.source());
            chain.find_map(|cause| cause.downcast_ref::<Code>()).map(|code| code.0)
        });
        let (run, key) = (failed.run, failed.key.to_string());
        said.try_send((key, run.attempt, run.outcome.clone(), run.retry_in.is_some(), causes))
            .expect("room");
        panic!("the hook is broken");
    };
    let running = run_with(client, |builder| builder.on_error(hook), script);
    let (key, attempt, outcome, is_retried, code) = seen.recv().await.expect("a failure");
    assert_eq!((key.as_str(), attempt, is_retried, code), ("default/one", 1, true, Some(Some(42))));
    assert!(matches!(outcome, Outcome::Failed { class: Class::Other, .. }), "{outcome:?}");
    let (_, attempt, outcome, is_retried, code) = seen.recv().await.expect("a failure");
    assert_eq!((attempt, is_retried, code), (2, true, None));
    assert!(matches!(outcome, Outcome::Panicked { .. }), "{outcome:?}");
    let (_, _, outcome, is_retried, _) = seen.recv().await.expect("a failure");
    assert!(matches!(outcome, Outcome::Terminal { .. }) && !is_retried, "{outcome:?}");
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn finished_runs_can_be_followed_and_those_that_are_missed_are_counted() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let again = reconcile_fn(async |_: Arc<ConfigMap>, _| {
        Ok(Action::requeue_after(Duration::from_secs(1)))
    });
    let running = run_with(client, |builder| builder, again);
    let (mut finished, slow) =
        (running.controller.handle().finished(), running.controller.handle().finished());
    let mut previous = None;
    for _ in 0..1_100 {
        let (key, run) = finished.next().await.expect("a run");
        assert_eq!(key.to_string(), "default/one");
        assert_eq!(run.outcome, Outcome::RequeueAfter(Duration::from_secs(1)));
        assert!(previous.is_none_or(|previous| previous < run.started));
        previous = Some(run.started);
    }
    assert_eq!((finished.missed(), slow.missed()), (0, 1_100 - 1_024));
    running.end().await.expect("it stops");
}
