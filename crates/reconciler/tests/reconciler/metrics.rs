//! What a scrape shows of controllers. The names are controller-runtime's, so that its dashboards
//! and alerts work.
#![cfg(feature = "prometheus")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use tokio::sync::{Semaphore, mpsc};
use windlass_informer::SharedInformerFactory;
use windlass_reconciler::{Action, Controller, ControllerMetrics, Error, Watch};

use crate::stage::{Running, cluster, does, run_with};

/// What a run does.
enum Step {
    Return(Result<Action, Error>),
    Panic,
    Hang,
}

fn metrics() -> (Registry, ControllerMetrics) {
    let mut registry = Registry::default();
    let metrics = ControllerMetrics::register(&mut registry);
    (registry, metrics)
}

fn scrape(registry: &Registry) -> String {
    let mut text = String::new();
    text::encode(&mut text, registry).expect("a string takes everything");
    text
}

/// Checks that a scrape has these lines, where `@` is the label of a controller of `ConfigMaps`.
#[track_caller]
fn assert_has(scrape: &str, lines: &[&str]) {
    for line in lines {
        let line = line.replace('@', "controller=\"configmap\"");
        assert!(scrape.lines().any(|has| has == line), "no {line} in:\n{scrape}");
    }
}

/// Yields until so many runs are counted. They need no time any more.
async fn wait_for_runs(running: &Running, runs: u64) {
    while running.controller.status().counts.runs() < runs {
        tokio::task::yield_now().await;
    }
}

fn conflict() -> Error {
    let status = kube::core::Status::failure("somebody was faster", "Conflict").with_code(409);
    kube::Error::Api(status.boxed()).into()
}

#[tokio::test(start_paused = true)]
async fn every_outcome_is_counted_as_controller_runtime_counts_it() {
    let (_cluster, client) = cluster().await;
    let (registry, metrics) = metrics();
    let soon = Action::requeue_after(Duration::from_secs(1));
    let steps = Mutex::new(VecDeque::from([
        Step::Return(Err(Error::msg("no"))),
        Step::Return(Err(conflict())),
        Step::Panic,
        Step::Hang,
        Step::Return(Ok(soon)),
        Step::Return(Err(Error::msg("never").terminal())),
    ]));
    let (begun, mut runs) = mpsc::channel(10);
    let gate = Arc::new(Semaphore::new(5));
    let passed = Arc::clone(&gate);
    let reconciler = does(move |_: Arc<ConfigMap>, _| {
        let step = steps.lock().expect("no panic").pop_front();
        let (begun, gate) = (begun.clone(), Arc::clone(&passed));
        Box::pin(async move {
            begun.send(()).await.expect("the test listens");
            gate.acquire().await.expect("open").forget();
            match step {
                None => Ok(Action::done()),
                Some(Step::Return(result)) => result,
                Some(Step::Panic) => panic!("as the script says"),
                Some(Step::Hang) => std::future::pending().await,
            }
        })
    });
    let timeout = Duration::from_mins(1);
    let change = |builder: windlass_reconciler::ControllerBuilder<ConfigMap>| {
        builder.workers(3).timeout(timeout).metrics(&metrics)
    };
    let running = run_with(client, change, reconciler);
    for _ in 0..6 {
        runs.recv().await.expect("a run");
    }
    // The sixth run is under way.
    let shown = scrape(&registry);
    assert_has(
        &shown,
        &[
            "controller_runtime_max_concurrent_reconciles{@} 3",
            "controller_runtime_active_workers{@} 1",
            "controller_runtime_terminal_reconcile_errors_total{@} 0",
        ],
    );
    gate.add_permits(10);
    wait_for_runs(&running, 6).await;
    let shown = scrape(&registry);
    assert_has(
        &shown,
        &[
            r#"controller_runtime_reconcile_total{@,result="error"} 5"#,
            r#"controller_runtime_reconcile_total{@,result="requeue_after"} 1"#,
            r#"controller_runtime_reconcile_total{@,result="requeue"} 0"#,
            r#"controller_runtime_reconcile_total{@,result="success"} 0"#,
            "controller_runtime_reconcile_errors_total{@} 5",
            "controller_runtime_terminal_reconcile_errors_total{@} 1",
            "controller_runtime_reconcile_panics_total{@} 1",
            "controller_runtime_reconcile_timeouts_total{@} 1",
            "controller_runtime_reconcile_time_seconds_count{@} 6",
            r#"controller_runtime_reconcile_time_seconds_bucket{le="50.0",@} 5"#,
            r#"controller_runtime_reconcile_time_seconds_bucket{le="60.0",@} 6"#,
            r#"windlass_controller_failures_total{@,class="other"} 1"#,
            r#"windlass_controller_failures_total{@,class="conflict"} 1"#,
            r#"windlass_controller_failures_total{@,class="terminal"} 1"#,
            r#"windlass_controller_failures_total{@,class="forbidden"} 0"#,
            "windlass_controller_behind_total{@} 0",
            "windlass_controller_hot_loops_total{@} 0",
            "windlass_controller_events_dropped_total{@} 0",
            r#"workqueue_adds_total{name="configmap",@} 6"#,
        ],
    );
    running.end().await.expect("it ran");
}

#[tokio::test]
async fn counters_are_there_at_zero_before_the_controller_runs_and_until_it_is_dropped() {
    let (_cluster, client) = cluster().await;
    let (registry, metrics) = metrics();
    assert_eq!(scrape(&registry), "# EOF\n");
    let factory = SharedInformerFactory::new(client);
    let build = |workers| {
        let builder = Controller::named("one", Watch::<ConfigMap>::new()).workers(workers);
        let reconciler = does(|_, _| Box::pin(async { Ok(Action::done()) }));
        builder.metrics(&metrics).build(&factory, reconciler).expect("a controller")
    };
    let (controller, twin) = (build(2), build(3));
    let shown = scrape(&registry);
    assert_has(
        &shown,
        &[
            r#"controller_runtime_reconcile_total{controller="one",result="success"} 0"#,
            r#"controller_runtime_reconcile_errors_total{controller="one"} 0"#,
            r#"controller_runtime_active_workers{controller="one"} 0"#,
            // Of both: a series must not be shown twice.
            r#"controller_runtime_max_concurrent_reconciles{controller="one"} 5"#,
        ],
    );
    assert_eq!(shown.matches("max_concurrent_reconciles{").count(), 1);
    drop(twin);
    let fewer = r#"controller_runtime_max_concurrent_reconciles{controller="one"} 2"#;
    assert_has(&scrape(&registry), &[fewer]);
    drop(controller);
    assert_eq!(scrape(&registry), "# EOF\n");
}
