//! Writing: pods that are made, and reports of the kubelet, which carry the time of their sending.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use windlass_bench_stage::{each, now_nanos};

use super::pod::Pod;
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
        async move { Pod::new(&templates, index).report(&client, now_nanos()).await }
    })
    .await
}
