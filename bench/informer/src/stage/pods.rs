//! The server with its pods, and what the cases ask of it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;
use tokio::time::{Instant, sleep};
use windlass_bench_stage::{MAX_WAIT, NEVER, Server, Turns, create, fill};

use super::pod::{CREATOR, Pod};
use super::template::{NAMESPACES, TEMPLATES, Template, namespace};

/// A server that is filled with pods.
pub(crate) struct Pods {
    pub(crate) server: Server,
    pub(crate) templates: Arc<[Template]>,
    /// How many there are.
    pub(crate) count: usize,
    /// How many updates a burst has.
    pub(crate) updates: usize,
    pub(crate) turns: Turns,
}

impl Pods {
    pub(crate) async fn start(count: usize, updates: usize) -> Result<Self> {
        let server = Server::start().await?;
        let templates = (0..TEMPLATES).map(Template::new).collect();
        let pods = Self { server, templates, count, updates, turns: Turns::new(count) };
        pods.fill().await.context("the server could not be filled")?;
        Ok(pods)
    }

    /// Makes the namespaces and all pods, each of them in two writes.
    async fn fill(&self) -> Result<()> {
        let client = &self.server.client;
        for number in 0..NAMESPACES {
            let namespace = json!({"metadata": {"name": namespace(number)}});
            create(client, CREATOR, "/api/v1/namespaces", &namespace).await?;
        }
        let took = fill(self.count, "pods", |index| {
            let (client, templates) = (client.clone(), Arc::clone(&self.templates));
            async move {
                let pod = Pod::new(&templates, index);
                create(&client, CREATOR, &pod.path, &pod.created()).await?;
                pod.report(&client, NEVER).await
            }
        })
        .await?;
        let size = self.server.size_of_one("/api/v1/pods", self.count).await?;
        eprintln!("    {} pods of {size} bytes of JSON made in {took:.1} s", self.count);
        Ok(())
    }

    /// Lets the server forget what has been: etcd is compacted, and the API server is killed and
    /// started again, so that its watch cache begins with the present. A watch from before is
    /// answered by 410.
    pub(crate) async fn forget(&self) -> Result<()> {
        let cluster = &self.server.cluster;
        cluster.kill_apiserver()?;
        cluster.compact().await?;
        cluster.start_apiserver().await?;
        // Ready as it is, it may still be filling its caches, which it tells by errors.
        let deadline = Instant::now() + MAX_WAIT;
        while let Err(error) = self.server.get("/api/v1/pods?limit=1&resourceVersion=0").await {
            if Instant::now() >= deadline {
                return Err(error.context("the API server does not list pods again"));
            }
            sleep(Duration::from_millis(100)).await;
        }
        self.server.quiet().await
    }

    /// How many lists of pods the API server has answered since it was started, with the streaming
    /// ones.
    pub(crate) async fn lists(&self) -> Result<f64> {
        Ok(lists(&self.server.get("/metrics").await?))
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
