//! The server with its objects, and how they change.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;
use windlass_bench_controller::name;
use windlass_bench_stage::{NEVER, Server, Turns, create, each, fill, now_nanos, replace};

use super::object::{MANAGER, NAMESPACES, namespace, object, path};

/// The time between two changes: 500 a second. A change takes server, etcd and writer between one
/// and two milliseconds of CPU time, so that at 1,000 a second two cores are full, the pace is not
/// kept, and a latency tells how long the contestant waited for a core. With all contestants at
/// once it is still kept.
const PACE: Duration = Duration::from_millis(2);

/// Changes that are under way at once.
const CONCURRENCY: usize = 16;

/// A server that is filled with objects.
pub(crate) struct Objects {
    pub(crate) server: Server,
    /// How many there are.
    pub(crate) count: usize,
    /// How many of them change.
    pub(crate) changes: usize,
    pub(crate) turns: Turns,
}

impl Objects {
    pub(crate) async fn start(count: usize, changes: usize) -> Result<Self> {
        let server = Server::start().await?;
        let objects = Self { server, count, changes, turns: Turns::new(count) };
        objects.fill().await.context("the server could not be filled")?;
        Ok(objects)
    }

    /// Makes the namespaces and all objects.
    async fn fill(&self) -> Result<()> {
        let client = &self.server.client;
        for number in 0..NAMESPACES {
            let namespace = json!({"metadata": {"name": namespace(number)}});
            create(client, MANAGER, "/api/v1/namespaces", &namespace).await?;
        }
        let took = fill(self.count, "objects", |index| {
            let client = client.clone();
            async move { create(&client, MANAGER, &path(index), &object(index, NEVER)).await }
        })
        .await?;
        let size = self.server.size_of_one("/api/v1/configmaps", self.count).await?;
        eprintln!("    {} objects of {size} bytes of JSON made in {took:.1} s", self.count);
        Ok(())
    }

    /// Changes these objects, one every [`PACE`]; each carries the time of its sending.
    pub(crate) async fn change(&self, indexes: &[usize]) -> Result<()> {
        each(indexes.iter().copied(), CONCURRENCY, Some(PACE), |index| {
            let client = self.server.client.clone();
            async move {
                let object = object(index, now_nanos());
                replace(&client, MANAGER, &path(index), &name(index), &object).await
            }
        })
        .await
    }
}
