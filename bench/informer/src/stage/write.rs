//! Changes to pods: each gets the time of its sending as a label, and nothing else.
//!
//! The writer is the one that made the pod, so that its managed fields do not grow with every change.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use http_body_util::BodyExt;
use kube::api::{Patch, PatchParams};
use kube::client::Body;
use kube::core::Request;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::interval;
use windlass_bench_informer::{STAMP, now_nanos};

use super::pod::{CREATOR, address};
use super::server::Stage;

/// The time between two updates of a burst: 500 a second leave the machine half idle, so that a delivery
/// waits for nobody.
const PACE: Duration = Duration::from_millis(2);

/// Changes that are under way at once.
const CONCURRENCY: usize = 16;

/// Changes these pods: one every [`PACE`], or else as fast as the server takes them.
pub(crate) async fn change(stage: &Stage, indexes: &[usize], is_paced: bool) -> Result<()> {
    let slots = Arc::new(Semaphore::new(CONCURRENCY));
    let mut pace = interval(PACE);
    let mut tasks = JoinSet::new();
    for &index in indexes {
        if is_paced {
            pace.tick().await;
        }
        let slot = Arc::clone(&slots).acquire_owned().await?;
        let (client, templates) = (stage.client.clone(), Arc::clone(&stage.templates));
        tasks.spawn(async move {
            let (namespace, name) = address(&templates, index);
            let request = Request::new(format!("/api/v1/namespaces/{namespace}/pods"));
            let stamped = json!({"metadata": {"labels": {STAMP: now_nanos().to_string()}}});
            let params =
                PatchParams { field_manager: Some(CREATOR.to_owned()), ..PatchParams::default() };
            send(&client, request.patch(&name, &params, &Patch::Merge(stamped))?).await?;
            drop(slot);
            anyhow::Ok(())
        });
        while let Some(ended) = tasks.try_join_next() {
            ended??;
        }
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

/// Sends a request, and drops what the server answers if it is content with it.
pub(crate) async fn send(client: &kube::Client, request: http::Request<Vec<u8>>) -> Result<()> {
    let answer = client.send(request.map(Body::from)).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
    Ok(())
}
