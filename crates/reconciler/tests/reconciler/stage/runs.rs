//! Runs as a test sees them: which key ran, when, and why.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use windlass_indexer::ObjectKey;
use windlass_reconciler::{Action, Cause, Reconcile, reconcile_fn};

/// A key, when it ran, and why.
pub(crate) type Ran = (String, Instant, Vec<Cause>);

pub(crate) type Runs = mpsc::Receiver<Ran>;

/// A reconciler that reports which key ran, when, and why.
pub(crate) fn reporter(reports: mpsc::Sender<Ran>) -> impl Reconcile<ConfigMap> {
    reconcile_fn(async move |_: Arc<ConfigMap>, cx| {
        reports.send((cx.key().to_string(), Instant::now(), cx.causes().to_vec())).await?;
        Ok(Action::done())
    })
}

/// The key that runs next.
pub(crate) async fn next(runs: &mut Runs) -> String {
    runs.recv().await.expect("a run").0
}

/// Nothing runs for an hour.
pub(crate) async fn expect_no_run(runs: &mut Runs) {
    let ran = tokio::time::timeout(Duration::from_hours(1), runs.recv()).await;
    assert!(ran.is_err(), "{ran:?}");
}

pub(crate) fn key(text: &str) -> ObjectKey {
    text.parse().expect("a key")
}

pub(crate) async fn create_secret(client: &Client, name: &str, metadata: Value, data: Value) {
    let mut object = json!({"metadata": metadata, "stringData": data});
    object["metadata"]["name"] = name.into();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let secret = serde_json::from_value(object).expect("an object");
    secrets.create(&PostParams::default(), &secret).await.expect("created");
}

pub(crate) async fn patch_secret(client: &Client, name: &str, patch: Value) {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let patch = Patch::Merge(patch);
    secrets.patch(name, &PatchParams::default(), &patch).await.expect("patched");
}
