//! What a controller says: when something is wrong, one line with the object, the trouble and what
//! to do.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass_informer::SharedInformerFactory;
use windlass_reconciler::{
    Action, Cause, Class, Controller, Error, Outcome, RunContext, RunError, Watch,
};
use windlass_testserver::TestServer;
use windlass_testserver::apiserver::{Fault, FaultRule};

use crate::stage::{api, cluster, does, run, run_with};
use windlass_testserver::Log;

/// Waits until a line is there. The paused clock moves while nothing else happens.
async fn line(log: &Log, part: &str) -> String {
    let found = async {
        loop {
            if let Some(line) = log.lines_with(part).pop() {
                return line;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let found = tokio::time::timeout(Duration::from_mins(5), found).await;
    found.unwrap_or_else(|_| panic!("no line says {part:?}"))
}

fn assert_has(line: &str, parts: &[&str]) {
    for part in parts {
        assert!(line.contains(part), "{part:?} is missing in {line:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn reconciler_that_panics_is_named_with_its_object_and_what_it_said() {
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let running = run(client, does(|_, _| Box::pin(async { panic!("no such shelf") })));
    let line = line(&log, "panicked").await;
    assert_has(
        &line,
        &[
            "ERROR",
            "configmap",
            "default/one",
            "no such shelf",
            "a bug in it",
            "says where",
            "retry_in",
        ],
    );
    assert!(running.controller.status().counts.panicked > 0);
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn reconciler_that_hangs_is_cancelled_and_named() {
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let hang = does(|_, _| Box::pin(std::future::pending()));
    let running = run_with(client, |builder| builder.timeout(Duration::from_secs(30)), hang);
    let line = line(&log, "took too long").await;
    assert_has(
        &line,
        &["ERROR", "default/one", "was cancelled", "ControllerBuilder::timeout", "retry_in"],
    );
    assert!(running.controller.status().counts.timed_out > 0);
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn reconciler_that_hangs_without_a_timeout_is_mentioned() {
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let hang = does(|_, _| Box::pin(std::future::pending()));
    let running = run(client, hang);
    let line = line(&log, "has been running").await;
    assert_has(&line, &["WARN", "default/one", "60 s", "ControllerBuilder::timeout"]);
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn reconciler_that_wakes_itself_is_found_out_with_the_write() {
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut ran) = mpsc::channel(1);
    let counter = does(move |object: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            said.send(()).await?;
            let mut new = ConfigMap::clone(&object);
            let data = new.data.get_or_insert_default();
            let runs = data.get("runs").and_then(|runs| runs.parse().ok()).unwrap_or(0u32);
            data.insert("runs".to_owned(), (runs + 1).to_string());
            cx.live().update(&*object, &new).await?;
            Ok(Action::done())
        })
    });
    let running = run(client, counter);
    // It never rests, so that the paused clock never moves.
    for _ in 0..100 {
        if log.lines_with("hot loop").is_empty() {
            ran.recv().await.expect("a run");
        }
    }
    let line = log.lines_with("hot loop").pop().expect("it is found out within a hundred runs");
    assert_has(&line, &["WARN", "default/one", "patch configmaps default/one at", "predicate"]);
    assert_eq!(running.controller.status().counts.hot_loops, 1);
    let runs = running.controller.runs(&"default/one".parse().expect("a key"));
    let last = runs.last().expect("it ran");
    assert!(last.causes.iter().all(Cause::is_by_us), "{last:?}");
    drop(ran);
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn events_that_are_dropped_are_told_and_counted() {
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let reporter = does(|object: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            for number in 0..30 {
                cx.event(&*object).normal("Counted", number.to_string());
            }
            Ok(Action::done())
        })
    });
    let running = run(client, reporter);
    let line = line(&log, "events about this object are dropped").await;
    assert_has(&line, &["WARN", "configmap", "ConfigMap default/one", "record fewer"]);
    let events = running.controller.status().events;
    assert_eq!((events.recorded, events.dropped), (30, 5));
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn writing_what_is_there_already_is_no_loop() {
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let labeller = does(move |object: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            let mut new = ConfigMap::clone(&object);
            new.metadata.labels.get_or_insert_default().insert("seen".into(), "yes".into());
            cx.live().update(&*object, &new).await?;
            said.send(()).await?;
            Ok(Action::done())
        })
    });
    let running = run(client.clone(), labeller);
    for number in 0..20 {
        let patch = Patch::Merge(json!({"data": {"touched": number.to_string()}}));
        runs.recv().await.expect("a run");
        api(&client).patch("one", &PatchParams::default(), &patch).await.expect("patched");
    }
    assert_eq!(log.lines_with("hot loop"), Vec::<String>::new());
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn terminal_error_is_told_once_and_not_retried() {
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let refuse = does(|_, _| {
        Box::pin(async { Err(Error::msg("spec.size must not be negative").terminal()) })
    });
    let running = run(client, refuse);
    let line = line(&log, "not retried before").await;
    assert_has(
        &line,
        &["ERROR", "default/one", "before the object changes", "spec.size must not be negative"],
    );
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(log.lines_with("not retried before").len(), 1);
    assert_eq!(running.controller.status().counts.failed_with(Class::Terminal), 1);
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn failure_while_the_controller_stops_is_told_as_not_retried() {
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut begun) = mpsc::channel(1);
    let slow = does(move |_, _| {
        let said = said.clone();
        Box::pin(async move {
            said.send(()).await?;
            tokio::time::sleep(Duration::from_secs(1)).await;
            Err(Error::msg("too late"))
        })
    });
    let running = run(client, slow);
    begun.recv().await.expect("a run");
    let controller = Arc::clone(&running.controller);
    running.end().await.expect("it stops");
    let last = controller.runs(&"default/one".parse().expect("a key")).pop().expect("it ran");
    assert!(matches!(last.outcome, Outcome::Failed { .. }), "{last:?}");
    assert_eq!(last.retry_in, None);
    let line = log.lines_with("too late").pop().expect("a line");
    assert_has(
        &line,
        &["WARN", "default/one", "is not retried, because the controller is shutting down"],
    );
    assert!(!line.contains("retry_in"), "{line}");
}

#[tokio::test(start_paused = true)]
async fn missing_definition_is_told_while_it_is_waited_for_and_in_the_end() {
    let log = Log::start();
    let cluster = TestServer::embedded();
    let client = cluster.client().expect("a client");
    let resource = kube::api::ApiResource {
        group: "example.com".into(),
        version: "v1".into(),
        api_version: "example.com/v1".into(),
        kind: "Gadget".into(),
        plural: "gadgets".into(),
    };
    let watch = Watch::<ConfigMap>::of(windlass_informer::Resource::new(&resource, true));
    let factory = SharedInformerFactory::new(client);
    let nothing = does(|_, _| Box::pin(async { Ok(Action::done()) }));
    let controller =
        Controller::named("configmap", watch).build(&factory, nothing).expect("a controller");
    let error = controller.run(CancellationToken::new()).await.expect_err("it cannot begin");
    assert!(matches!(error, RunError::NotSynced { .. }), "{error}");
    assert_has(
        &error.to_string(),
        &["gadgets.v1.example.com", "CustomResourceDefinition installed?"],
    );
    let line = log.lines_with("no object is reconciled").swap_remove(0);
    assert_has(
        &line,
        &["WARN", "gadget", "gadgets.v1.example.com", "CustomResourceDefinition installed?"],
    );
    factory.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn missing_right_to_watch_is_told_with_the_verbs() {
    let log = Log::start();
    let (cluster, client) = cluster().await;
    let server = cluster.server().expect("embedded");
    let refusal = Fault::Fail { code: 403, retry_after: None };
    server.faults().add(FaultRule::new(refusal).resource("configmaps"));
    let nothing = does(|_, _| Box::pin(async { Ok(Action::done()) }));
    let mut running = run(client, nothing);
    let line = line(&log, "no object is reconciled").await;
    assert_has(&line, &["WARN", "configmaps.v1", "the verbs list and watch"]);
    let error = running.ended().await.expect_err("it cannot begin");
    assert_has(&error.to_string(), &["configmaps.v1", "the verbs list and watch"]);
}

#[tokio::test(start_paused = true)]
async fn server_that_is_not_there_is_told_with_what_to_check() {
    for fault in [Fault::Refuse, Fault::Hang] {
        let log = Log::start();
        let (cluster, client) = cluster().await;
        cluster.server().expect("embedded").faults().add(FaultRule::new(fault));
        let running = run(client, does(|_, _| Box::pin(async { Ok(Action::done()) })));
        let line = line(&log, "no object is reconciled").await;
        assert_has(&line, &["WARN", "configmaps.v1", "; check that the API server runs"]);
        running.end().await.expect("it stops");
    }
}

#[tokio::test(start_paused = true)]
async fn missing_right_to_write_is_told_with_the_object() {
    let log = Log::start();
    let (cluster, client) = cluster().await;
    let server = cluster.server().expect("embedded");
    let refusal = Fault::Fail { code: 403, retry_after: None };
    server.faults().add(FaultRule::new(refusal).verb("patch"));
    let labeller = does(|object: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let mut new = ConfigMap::clone(&object);
            new.metadata.labels.get_or_insert_default().insert("seen".into(), "yes".into());
            cx.live().update(&*object, &new).await?;
            Ok(Action::done())
        })
    });
    let running = run(client, labeller);
    let line = line(&log, "reconcile failed").await;
    assert_has(
        &line,
        &["WARN", "default/one", "forbidden", "a Role and a RoleBinding", "retry_in"],
    );
    let runs = running.controller.runs(&"default/one".parse().expect("a key"));
    assert!(matches!(&runs[0].outcome, Outcome::Failed { class: Class::Forbidden, .. }));
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn controller_tells_when_it_starts_is_ready_and_stops() {
    let log = Log::start_at(tracing::Level::DEBUG);
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let write = does(move |object: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            let mut new = ConfigMap::clone(&object);
            new.data.get_or_insert_default().insert("seen".to_owned(), "yes".to_owned());
            cx.live().update(&*object, &new).await?;
            said.send(()).await?;
            Ok(Action::done())
        })
    });
    let running =
        run_with(client, |builder| builder.workers(2).owns(Watch::<Secret>::new()), write);
    for _ in 0..2 {
        runs.recv().await.expect("a run");
    }
    running.end().await.expect("it stops");
    let of_controller = |text: &str| {
        let lines = log.lines_with(text);
        lines.into_iter().filter(|line| line.contains("windlass_reconciler")).collect::<Vec<_>>()
    };
    let info = of_controller(" INFO ");
    assert_eq!(info.len(), 3, "{info:?}");
    assert_has(&info[0], &["starting", "controller=\"configmap\"", "configmaps.v1", "secrets.v1"]);
    assert_has(&info[1], &["the caches are complete", "objects=1", "took="]);
    assert_has(&info[2], &["stopped", "runs="]);
    let reconciled = of_controller("reconciled");
    assert_has(
        &reconciled[0],
        &["DEBUG", "causes=ConfigMap default/one was there at", "writes=patch configmaps"],
    );
    let server = log.lines_with("windlass_apiserver");
    assert!(server.iter().all(|line| line.contains(" DEBUG ")), "{server:?}");
}
