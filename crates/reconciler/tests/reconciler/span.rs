//! What the lines that a reconciler logs are within: a span that names the key, the id of the run,
//! the attempt and what led to it. The lines about a run have the id as well.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::sync::mpsc;
use tracing::{Instrument as _, Level};
use windlass_reconciler::{Action, Error, RunContext};

use crate::stage::{api, cluster, does, run, run_with};
use windlass_testserver::Log;

#[tokio::test(start_paused = true)]
async fn lines_of_a_run_tell_its_key_and_what_triggered_it() {
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(10);
    let logger = does(move |_: Arc<ConfigMap>, _: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            tracing::info!("at work");
            said.send(()).await?;
            Ok(Action::done())
        })
    });
    let running = run(client.clone(), logger);
    runs.recv().await.expect("the first run");
    let patch = Patch::Merge(json!({"data": {"a": "1"}}));
    let patched =
        api(&client).patch("one", &PatchParams::default(), &patch).await.expect("patched");
    runs.recv().await.expect("another run");
    let lines = log.lines_with("at work");
    let version = patched.metadata.resource_version.expect("a version");
    let updated = format!("cause=ConfigMap default/one updated at {version}");
    for (line, cause) in lines.iter().zip(["cause=ConfigMap default/one was there at", &updated]) {
        for part in
            ["reconcile{", "controller=\"configmap\"", "key=default/one", "attempt=1", cause]
        {
            assert!(line.contains(part), "{part:?} is missing in {line:?}");
        }
    }
    assert_eq!(lines.len(), 2);
    running.end().await.expect("it stops");
}

/// Waits until the first two runs of the object have ended, and returns their ids from the journal.
async fn first_ids(running: &crate::stage::Running, mut begun: mpsc::Receiver<()>) -> Vec<String> {
    for _ in 0..3 {
        begun.recv().await.expect("a run");
    }
    let runs = running.controller.runs(&"default/one".parse().expect("a key"));
    runs.iter().take(2).map(|run| run.id.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn every_line_of_a_run_and_about_it_has_its_id_whatever_the_level() {
    let log = Log::start_at(Level::WARN);
    let (_cluster, client) = cluster().await;
    let (begins, begun) = mpsc::channel(10);
    let fails = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let begins = begins.clone();
        Box::pin(async move {
            // Refused once the test has seen enough.
            let _ = begins.send(()).await;
            tracing::warn!("direct, of {}", cx.run_id());
            async { tracing::warn!("nested, of {}", cx.run_id()) }
                .instrument(tracing::error_span!("inner"))
                .await;
            Err(Error::msg(format!("broken, of {}", cx.run_id())))
        })
    });
    let running = run(client, fails);
    let ids = first_ids(&running, begun).await;
    running.end().await.expect("it stops");
    assert_ne!(ids[0], ids[1]);
    for id in ids {
        let lines = log.lines_with(&format!("of {id}"));
        assert_eq!(lines.len(), 3, "{lines:#?}");
        for line in lines {
            assert!(line.contains(&format!("reconcile_id={id}")), "{line}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn user_shapes_the_span_and_a_panic_there_leads_to_the_default() {
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let (begins, begun) = mpsc::channel(10);
    let fails = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let begins = begins.clone();
        Box::pin(async move {
            // Refused once the test has seen enough.
            let _ = begins.send(()).await;
            tracing::info!("at work in attempt {}", cx.attempt());
            Err(Error::msg("again"))
        })
    });
    let shape = |cx: &RunContext| {
        assert_ne!(cx.attempt(), 2, "a bug of the user");
        tracing::info_span!("mine", tenant = %cx.key().namespace().unwrap_or_default())
    };
    let running = run_with(client, |builder| builder.span(shape), fails);
    first_ids(&running, begun).await;
    running.end().await.expect("it stops");
    let shaped = log.lines_with("at work in attempt 1").pop().expect("a line");
    assert!(shaped.contains("mine{tenant=default}"), "{shaped}");
    assert!(!shaped.contains("reconcile{"), "{shaped}");
    let default = log.lines_with("at work in attempt 2").pop().expect("a line");
    assert!(default.contains("reconcile{"), "{default}");
    let warned = log.lines_with("the span function panicked").pop().expect("a line");
    assert!(warned.contains("key=default/one"), "{warned}");
}
