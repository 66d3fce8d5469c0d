//! How a controller stops, and that it can run again.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use windlass_indexer::ObjectKey;
use windlass_informer::SharedInformerFactory;
use windlass_reconciler::{
    Action, Controller, ControllerBuilder, ControllerDefaults, Reconcile, RunContext, RunError,
    Shutdown, Watch,
};

use windlass_testserver::apiserver::{Fault, FaultRule};

use crate::stage::{cluster, create, does};
use windlass_testserver::Log;

const GRACE: Duration = Duration::from_secs(30);

fn build(
    client: Client,
    change: impl FnOnce(ControllerBuilder<ConfigMap>) -> ControllerBuilder<ConfigMap>,
    reconciler: impl Reconcile<ConfigMap>,
) -> (SharedInformerFactory, Controller<ConfigMap>) {
    let factory = SharedInformerFactory::new(client);
    let watch = Watch::<ConfigMap>::new().options(|options| options.namespace("default"));
    let controller = change(Controller::named("configmap", watch)).build(&factory, reconciler);
    (factory, controller.expect("a controller"))
}

/// A reconciler that tells its key, its causes and whether a cache may be behind, and then takes
/// as long as it is told.
fn sleeper(began: mpsc::Sender<String>, takes: Duration) -> impl Reconcile<ConfigMap> {
    does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let began = began.clone();
        Box::pin(async move {
            let causes: Vec<_> = cx.causes().iter().map(ToString::to_string).collect();
            let behind = if cx.cache_behind() { ", behind" } else { "" };
            began.send(format!("{} {}{behind}", cx.key(), causes.join("; "))).await?;
            tokio::time::sleep(takes).await;
            Ok(Action::done())
        })
    })
}

#[tokio::test(start_paused = true)]
async fn run_under_way_may_end_within_the_grace_period() {
    let (_cluster, client) = cluster().await;
    let (began, mut runs) = mpsc::channel(10);
    let (_factory, controller) = build(client, |b| b, sleeper(began, Duration::from_secs(29)));
    let shutdown = Shutdown::new();
    let stop = async {
        runs.recv().await.expect("it runs");
        shutdown.begin(GRACE);
    };
    let (ended, ()) = tokio::join!(controller.run(shutdown.clone()), stop);
    ended.expect("it stops");
    assert_eq!(controller.status().counts.done, 1);
}

#[tokio::test(start_paused = true)]
async fn run_is_cancelled_after_the_grace_period_and_repeated_by_the_next_one() {
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let (began, mut runs) = mpsc::channel(10);
    let (_factory, controller) = build(client, |b| b, sleeper(began, Duration::from_secs(31)));
    let shutdown = Shutdown::new();
    let stop = async {
        let first = runs.recv().await.expect("it runs");
        shutdown.begin(GRACE);
        (first, Instant::now())
    };
    let (ended, (first, since)) = tokio::join!(controller.run(shutdown.clone()), stop);
    ended.expect("it stops");
    assert_eq!(since.elapsed(), GRACE);
    assert_eq!(controller.status().counts.runs(), 0, "it did not end");
    assert_eq!(controller.status().running, 0);
    let line = log.lines_with("grace period is over").join("\n");
    assert!(line.contains("default/one"), "{line}");

    // With the same causes.
    let again = CancellationAfterRun::new(&mut runs).run(&controller).await;
    assert_eq!(again, first);
    assert_eq!(controller.status().counts.done, 1);
}

/// A manager must know that it must not release its Lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_that_blocks_its_thread_is_named_even_if_the_controller_broke_before() {
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let (began, mut runs) = mpsc::channel(10);
    let (unblock, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Arc::new(std::sync::Mutex::new(blocked));
    let blocks = does(move |_: Arc<ConfigMap>, _: &RunContext| {
        let (began, blocked) = (began.clone(), Arc::clone(&blocked));
        Box::pin(async move {
            began.send(()).await?;
            let _ = blocked.lock().expect("not poisoned").recv();
            Ok(Action::done())
        })
    });
    let (break_it, told) = oneshot::channel();
    let broken = stream::once(break_when_told(told));
    let (_factory, controller) = build(client, |builder| builder.stream("broken", broken), blocks);
    let shutdown = Shutdown::new();
    let story = async {
        runs.recv().await.expect("it runs");
        break_it.send(()).expect("the stream is polled");
        log.wait_for("the controller stops: a stream of keys panicked").await;
        shutdown.begin(Duration::ZERO);
    };
    let (ended, ()) = tokio::join!(controller.run(shutdown.clone()), story);
    unblock.send(()).expect("it is blocked");
    let error = ended.expect_err("the run goes on");
    assert!(
        matches!(&error, RunError::NotCancelled { keys } if keys.contains("default/one")),
        "{error}"
    );
}

/// Panics. Its worker catches that, and panics itself when it drops the message.
struct PanicsAgain;

impl Drop for PanicsAgain {
    fn drop(&mut self) {
        panic!("a message that does not like to be dropped");
    }
}

/// Otherwise the process would live on, and no key would run.
#[tokio::test(start_paused = true)]
async fn panic_of_a_worker_ends_a_controller_whose_other_worker_hangs() {
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    create(&client, "two").await;
    let reconciler = does(|_: Arc<ConfigMap>, cx: &RunContext| {
        let hangs = cx.key().name() == "one";
        Box::pin(async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            std::panic::panic_any(PanicsAgain)
        })
    });
    let (_factory, controller) = build(client, |builder| builder.workers(3), reconciler);
    let ran = AssertUnwindSafe(controller.run(Shutdown::new())).catch_unwind();
    let ended = tokio::time::timeout(Duration::from_hours(1), ran).await.expect("it ends");
    assert!(ended.is_err(), "the panic is passed on");
    let line = log.lines_with("the controller stops: one of its tasks panicked").pop();
    assert!(line.is_some_and(|line| line.contains("ERROR")), "at once");
    assert_eq!(log.lines_with("runs are cancelled").len(), 1);
}

async fn break_when_told(told: oneshot::Receiver<()>) -> ObjectKey {
    told.await.expect("the test goes on");
    panic!("a stream that breaks")
}

/// Stops a controller when its next run has begun, and lets that run end.
struct CancellationAfterRun<'r>(&'r mut mpsc::Receiver<String>);

impl<'r> CancellationAfterRun<'r> {
    fn new(runs: &'r mut mpsc::Receiver<String>) -> Self {
        Self(runs)
    }

    async fn run(self, controller: &Controller<ConfigMap>) -> String {
        let shutdown = Shutdown::new();
        let stop = async {
            let run = self.0.recv().await.expect("it runs");
            shutdown.begin(Duration::from_hours(1));
            run
        };
        let (ended, run) = tokio::join!(controller.run(shutdown.clone()), stop);
        ended.expect("it stops");
        run
    }
}

#[tokio::test(start_paused = true)]
async fn what_changed_while_it_did_not_run_is_reconciled_when_it_runs_again() {
    let (_cluster, client) = cluster().await;
    let (began, mut runs) = mpsc::channel(10);
    let (webhook, mut calls) = mpsc::channel::<ObjectKey>(10);
    let calls = stream::poll_fn(move |cx| calls.poll_recv(cx));
    let (_factory, controller) = build(
        client.clone(),
        |builder| builder.stream("webhook", calls),
        sleeper(began, Duration::ZERO),
    );
    let first = CancellationAfterRun::new(&mut runs).run(&controller).await;
    assert!(first.starts_with("default/one"), "{first}");

    create(&client, "two").await;
    let second = CancellationAfterRun::new(&mut runs).run(&controller).await;
    assert!(second.starts_with("default/two"), "{second}");

    // The stream goes on as well.
    webhook.send("default/one".parse().expect("a key")).await.expect("it is open");
    let third = CancellationAfterRun::new(&mut runs).run(&controller).await;
    assert_eq!(third, "default/one source webhook");
}

#[tokio::test(start_paused = true)]
async fn second_call_can_only_make_the_deadline_earlier() {
    let shutdown = Shutdown::new();
    shutdown.begin(Duration::MAX);
    shutdown.begin(GRACE);
    shutdown.begin(Duration::from_hours(1));
    assert_eq!(shutdown.deadline(), Some(Instant::now() + GRACE));
    let begun = Instant::now();
    let shorten = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        shutdown.begin(Duration::from_secs(1));
    };
    tokio::join!(shutdown.wait_for_deadline(), shorten);
    assert_eq!(begun.elapsed(), Duration::from_secs(11));
}

/// The worker's wait for the caches is cancelled as well, and what it waited for is kept.
#[tokio::test(start_paused = true)]
async fn write_of_a_cancelled_run_is_waited_for_by_the_next_one() {
    let (cluster, client) = cluster().await;
    let server = cluster.server().expect("an embedded server").clone();
    let (told, mut runs) = mpsc::channel(10);
    let reconciler = does(move |map: Arc<ConfigMap>, cx: &RunContext| {
        let (told, server) = (told.clone(), server.clone());
        Box::pin(async move {
            let labels = map.metadata.labels.clone().unwrap_or_default();
            told.send((labels.contains_key("written"), cx.cache_behind())).await?;
            if labels.is_empty() {
                // The watch is late, so the cache does not show the write for a while.
                let late = Fault::DelayEvent(Duration::from_secs(3));
                server.faults().add(FaultRule::new(late).resource("configmaps"));
                let mut new = ConfigMap::clone(&map);
                new.metadata.labels.get_or_insert_default().insert("written".into(), "yes".into());
                cx.live().update(&*map, &new).await?;
                std::future::pending::<()>().await;
            }
            Ok(Action::done())
        })
    });
    let (_factory, controller) = build(client, |b| b, reconciler);
    let shutdown = Shutdown::new();
    let stop = async {
        assert_eq!(runs.recv().await, Some((false, false)));
        tokio::time::sleep(Duration::from_secs(1)).await;
        shutdown.begin(Duration::ZERO);
    };
    let (ended, ()) = tokio::join!(controller.run(shutdown.clone()), stop);
    ended.expect("it stops");
    let shutdown = Shutdown::new();
    let stop = async {
        let second = runs.recv().await;
        shutdown.begin(GRACE);
        second
    };
    let (ended, second) = tokio::join!(controller.run(shutdown.clone()), stop);
    ended.expect("it stops");
    assert_eq!(second, Some((true, false)), "it waits until the cache shows the write");
}

#[tokio::test(start_paused = true)]
async fn context_knows_the_shutdown_and_its_deadline() {
    let (_cluster, client) = cluster().await;
    let (told, mut deadlines) = mpsc::channel(10);
    let reconciler = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let told = told.clone();
        Box::pin(async move {
            told.send(cx.deadline()).await?;
            cx.shutdown().token().cancelled().await;
            told.send(cx.deadline()).await?;
            Ok(Action::done())
        })
    });
    let timeout = Duration::from_mins(10);
    let (_factory, controller) = build(client, |b| b.timeout(timeout), reconciler);
    let shutdown = Shutdown::new();
    let stop = async {
        let before = deadlines.recv().await.expect("it runs");
        assert_eq!(before, Some(Instant::now() + timeout));
        shutdown.begin(GRACE);
        let after = deadlines.recv().await.expect("it notices");
        assert_eq!(after, Some(Instant::now() + GRACE));
    };
    let (ended, ()) = tokio::join!(controller.run(shutdown.clone()), stop);
    ended.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn controller_that_is_dropped_with_keys_in_its_queue_warns_of_nothing() {
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let (began, _runs) = mpsc::channel(10);
    let (factory, controller) = build(client, |b| b, sleeper(began, Duration::ZERO));
    // As on a standby: the cache is warm, and no worker takes the key.
    controller.wait_for_sync().await.expect("a cache");
    assert_eq!(controller.status().ready, 1);
    factory.shut_down().await;
    drop(controller);
    assert!(log.lines_with("WARN").is_empty(), "{:?}", log.lines_with("WARN"));
}

#[tokio::test(start_paused = true)]
async fn controller_does_not_run_twice_at_once() {
    let (_cluster, client) = cluster().await;
    let (began, mut runs) = mpsc::channel(10);
    let (_factory, controller) = build(client, |b| b, sleeper(began, Duration::ZERO));
    let shutdown = Shutdown::new();
    let second = async {
        runs.recv().await.expect("it runs");
        let second = controller.run(Shutdown::new()).await;
        shutdown.begin(GRACE);
        second
    };
    let (first, second) = tokio::join!(controller.run(shutdown.clone()), second);
    first.expect("it stops");
    assert!(matches!(second, Err(RunError::AlreadyRuns)), "{second:?}");
}

#[tokio::test(start_paused = true)]
async fn setting_of_a_controller_wins_over_the_defaults() {
    let (_cluster, client) = cluster().await;
    let (began, _runs) = mpsc::channel(10);
    let defaults = ControllerDefaults::new().workers(4);
    let builder = |b: ControllerBuilder<ConfigMap>| b.defaults(defaults.clone());
    let (_, shared) = build(client.clone(), builder, sleeper(began.clone(), Duration::ZERO));
    assert_eq!(shared.status().workers, 4);
    let (_, own) = build(client, |b| builder(b).workers(2), sleeper(began, Duration::ZERO));
    assert_eq!(own.status().workers, 2);
}
