//! Writing: objects that are made, and reports of the kubelet, which carry the time of their sending.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use http_body_util::BodyExt;
use kube::api::PostParams;
use kube::client::Body;
use kube::core::Request;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::interval;
use windlass_bench_informer::now_nanos;

use super::pod::{CREATOR, KUBELET, Pod};
use super::server::Stage;

/// The time between two updates of a burst: 200 a second leave a machine with two cores half idle, so that a
/// delivery waits for nobody.
const PACE: Duration = Duration::from_millis(5);

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
            let pod = Pod::new(&templates, index);
            report(&client, &pod, now_nanos()).await?;
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

/// Makes an object at this path.
pub(crate) async fn create(client: &kube::Client, path: &str, object: &Value) -> Result<()> {
    let body = serde_json::to_vec(object)?;
    send(client, Request::new(path).create(&manager(CREATOR), body)?).await
}

/// Writes a pod's status, with this stamp.
pub(crate) async fn report(client: &kube::Client, pod: &Pod, stamp: u64) -> Result<()> {
    let body = serde_json::to_vec(&pod.reported(stamp))?;
    let request = Request::new(&pod.path);
    send(client, request.replace_subresource("status", &pod.name, &manager(KUBELET), body)?).await
}

fn manager(name: &str) -> PostParams {
    PostParams { field_manager: Some(name.to_owned()), ..PostParams::default() }
}

/// Sends a request, and drops what the server answers if it is content with it.
async fn send(client: &kube::Client, request: http::Request<Vec<u8>>) -> Result<()> {
    let answer = client.send(request.map(Body::from)).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
    Ok(())
}
