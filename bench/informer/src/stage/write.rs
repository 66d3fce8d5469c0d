//! Writing: pods that are made, and reports of the kubelet, which carry the time of their sending.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use kube::core::Request;
use windlass_bench_stage::{each, manager, now_nanos, send};

use super::pod::{KUBELET, Pod};
use super::pods::Pods;

/// The time between two updates of a burst: 200 a second leave a machine with two cores half idle,
/// so that a delivery waits for nobody.
const PACE: Duration = Duration::from_millis(5);

/// Changes that are under way at once.
const CONCURRENCY: usize = 16;

/// Changes these pods: one every [`PACE`], or else as fast as the server takes them.
pub(crate) async fn change(pods: &Pods, indexes: &[usize], is_paced: bool) -> Result<()> {
    let pace = is_paced.then_some(PACE);
    each(indexes.iter().copied(), CONCURRENCY, pace, |index| {
        let (client, templates) = (pods.server.client.clone(), Arc::clone(&pods.templates));
        async move { report(&client, &Pod::new(&templates, index), now_nanos()).await }
    })
    .await
}

/// Writes a pod's status, with this stamp.
pub(crate) async fn report(client: &kube::Client, pod: &Pod, stamp: u64) -> Result<()> {
    let body = serde_json::to_vec(&pod.reported(stamp))?;
    let request = Request::new(&pod.path);
    send(client, request.replace_subresource("status", &pod.name, &manager(KUBELET), body)?).await
}
