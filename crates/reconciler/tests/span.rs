//! What the lines that a reconciler logs are within: a span that names the key, the attempt and
//! what led to the run.

mod stage;

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::sync::mpsc;
use windlass_reconciler::{Action, RunContext};

use stage::{Log, api, cluster, does, run};

#[tokio::test(start_paused = true)]
async fn lines_of_a_run_tell_its_key_and_what_triggered_it() {
    let (log, _guard) = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(10);
    let logger = does(move |_: Arc<ConfigMap>, _: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            tracing::info!("at work");
            said.send(()).await?;
            Ok(Action::Done)
        })
    });
    let running = run(client.clone(), logger);
    runs.recv().await.expect("the first run");
    let patch = Patch::Merge(json!({"data": {"a": "1"}}));
    let patched =
        api(&client).patch("one", &PatchParams::default(), &patch).await.expect("patched");
    runs.recv().await.expect("another run");
    let lines = log.lines("at work");
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
