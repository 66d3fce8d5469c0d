//! The server with its pods, and what the cases ask of it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use http::Request;
use tokio::time::{Instant, sleep};
use windlass_testkit::{RealCluster, RealOptions};

use super::fill;
use super::process::{MAX_WAIT, quiet};
use super::template::{TEMPLATES, Template};

/// A filled server.
pub(crate) struct Stage {
    pub(crate) cluster: RealCluster,
    /// A client that is at the server directly.
    pub(crate) client: kube::Client,
    pub(crate) templates: Arc<[Template]>,
    pub(crate) pods: usize,
    /// How many updates a burst has.
    pub(crate) updates: usize,
    /// Where the next changes begin, so that all pods get their turn.
    next: usize,
}

impl Stage {
    /// Starts a server and fills it.
    pub(crate) async fn start(pods: usize, updates: usize) -> Result<Self> {
        let cluster = RealCluster::start(RealOptions::new()).await?;
        let client = cluster.client()?;
        let templates = (0..TEMPLATES).map(Template::new).collect();
        let stage = Self { cluster, client, templates, pods, updates, next: 0 };
        fill::fill(&stage).await.context("the server could not be filled")?;
        Ok(stage)
    }

    /// The indexes of so many pods, other ones every time until all had their turn.
    pub(crate) fn turn(&mut self, count: usize) -> Vec<usize> {
        let first = self.next;
        self.next = (first + count) % self.pods;
        (first..first + count).map(|index| index % self.pods).collect()
    }

    /// Waits until the API server has nothing left to do, so that every contestant finds it alike.
    pub(crate) async fn quiet(&self) -> Result<()> {
        quiet(self.cluster.pids().apiserver.context("the API server must run")?).await
    }

    /// Lets the server forget what has been: etcd is compacted, and the API server is killed and started
    /// again, so that its watch cache begins with the present. A watch from before is answered by 410.
    pub(crate) async fn forget(&self) -> Result<()> {
        self.cluster.kill_apiserver()?;
        self.cluster.compact().await?;
        self.cluster.start_apiserver().await?;
        // Ready as it is, it may still be filling its caches, which it tells by errors.
        let deadline = Instant::now() + MAX_WAIT;
        while let Err(error) = self.get("/api/v1/pods?limit=1&resourceVersion=0").await {
            if Instant::now() >= deadline {
                return Err(error.context("the API server does not list pods again"));
            }
            sleep(Duration::from_millis(100)).await;
        }
        self.quiet().await
    }

    /// How many lists of pods the API server has answered since it was started, with the streaming ones.
    pub(crate) async fn lists(&self) -> Result<f64> {
        Ok(lists(&self.get("/metrics").await?))
    }

    /// The whole answer to a request for this path.
    pub(crate) async fn get(&self, path: &str) -> Result<String> {
        let request = Request::get(path).body(Vec::new())?;
        Ok(self.client.request_text(request).await?)
    }
}

/// The lists of pods in the text of `/metrics`.
fn lists(metrics: &str) -> f64 {
    let is_list = |line: &&str| {
        let plain = line.starts_with("apiserver_request_total{") && line.contains(r#"verb="LIST""#);
        let streaming = line.starts_with("apiserver_watch_list_duration_seconds_count{");
        (plain || streaming) && line.contains(r#"resource="pods""#)
    };
    let value = |line: &str| line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
    metrics.lines().filter(is_list).filter_map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_counted_of_both_kinds_and_of_pods_only() {
        let metrics = r#"# HELP apiserver_request_total Counter of requests
apiserver_request_total{code="200",resource="pods",scope="cluster",verb="LIST",version="v1"} 3
apiserver_request_total{code="200",resource="pods",scope="cluster",verb="WATCH",version="v1"} 7
apiserver_request_total{code="200",resource="nodes",scope="cluster",verb="LIST",version="v1"} 9
apiserver_watch_list_duration_seconds_count{group="",resource="pods",scope="cluster",version="v1"} 2
"#;
        assert!((lists(metrics) - 5.0).abs() < f64::EPSILON);
    }
}
