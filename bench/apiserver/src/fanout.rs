//! Changes on their way to many watchers.
//!
//! A watcher counts the lines of its stream and reads nothing of them, so that as much as possible
//! of the machine is the server's. It has seen the last change when it has as many lines as there
//! were changes.

use anyhow::{Context, Result, ensure};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams, WatchParams};
use kube::client::Body;
use serde_json::json;
use tokio::task::JoinSet;

use crate::meter::{Meter, Watch};
use crate::server::{Server, client};
use crate::{Measured, Who};

/// Writers that are at work at once, each with an object of its own.
const WRITERS: usize = 4;

/// Watches that are opened at once.
const OPENING: usize = 16;

/// Where it happens.
const NAMESPACE: &str = "fanout";

pub(crate) async fn measure(who: Who, watchers: usize, updates: usize) -> Result<Measured> {
    ensure!(watchers > 0 && updates >= WRITERS, "there must be something to watch");
    let server = Server::start(who).await?;
    let client = client(server.kubeconfig()).await?;
    let version = prepare(&client).await?;
    let mut streams = open(&client, &version, watchers).await?;

    let pids = server.pids();
    let meter = Meter::start(&pids)?;
    let mut readers = JoinSet::new();
    while let Some(stream) = streams.pop() {
        readers.spawn(read(stream, updates));
    }
    write(&client, updates).await?;
    let written = Watch::start();
    while let Some(ended) = readers.join_next().await {
        ended??;
    }
    let lag_s = written.seconds();
    let taken = meter.stop()?;
    Ok(vec![
        ("wall_s", taken.wall_s),
        ("lag_s", lag_s),
        ("cpu_s", taken.cpu_s),
        ("cpu_all_s", taken.cpu_all_s),
        ("client_cpu_s", taken.client_cpu_s),
        ("peak_mb", taken.peak_mb),
        ("peak_all_mb", taken.peak_all_mb),
    ])
}

/// Makes the objects, and gives the version after them.
async fn prepare(client: &kube::Client) -> Result<String> {
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
    let params = PostParams::default();
    Api::all(client.clone()).create(&params, &namespace).await?;
    let api = Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE);
    for writer in 0..WRITERS {
        let object = json!({"metadata": {"name": name(writer)}, "data": {"value": "none"}});
        api.create(&params, &serde_json::from_value(object)?).await?;
    }
    let list = api.list(&ListParams::default()).await?;
    list.metadata.resource_version.context("a list must have a version")
}

fn name(writer: usize) -> String {
    format!("object-{writer}")
}

/// Opens the watches; each is answered when this returns, so none misses a change.
async fn open(client: &kube::Client, version: &str, count: usize) -> Result<Vec<Body>> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let params = WatchParams::default().disable_bookmarks();
    let mut opening = JoinSet::new();
    let mut streams = Vec::new();
    for opened in 0..count {
        if opened >= OPENING {
            let stream = opening.join_next().await.context("a watch must be opening")?;
            streams.push(stream??);
        }
        let request = kube::core::Request::new(&path).watch(&params, version)?;
        let client = client.clone();
        opening.spawn(async move {
            let answer = client.send(request.map(Body::from)).await?;
            ensure!(answer.status().is_success(), "a watch was answered {}", answer.status());
            Ok(answer.into_body())
        });
    }
    while let Some(stream) = opening.join_next().await {
        streams.push(stream??);
    }
    Ok(streams)
}

/// Reads until so many lines have come.
async fn read(mut stream: Body, lines: usize) -> Result<()> {
    let mut seen = 0;
    while seen < lines {
        let frame = stream.frame().await;
        let frame =
            frame.with_context(|| format!("a watch ended after {seen} of {lines} lines"))?;
        seen += count_lines(frame?.data_ref().map_or(&[], |data| data));
    }
    ensure!(seen == lines, "a watch had {seen} instead of {lines} lines");
    Ok(())
}

fn count_lines(bytes: &[u8]) -> usize {
    bytes.split(|&byte| byte == b'\n').count() - 1
}

/// Makes the changes.
async fn write(client: &kube::Client, updates: usize) -> Result<()> {
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let api = Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE);
        let own = share(updates, writer);
        writers.spawn(async move {
            for update in 0..own {
                let patch = Patch::Merge(json!({"data": {"value": update.to_string()}}));
                api.patch(&name(writer), &PatchParams::default(), &patch).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended??;
    }
    Ok(())
}

/// How many of the changes a writer makes.
fn share(updates: usize, writer: usize) -> usize {
    updates / WRITERS + usize::from(writer < updates % WRITERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_make_all_changes_between_them() {
        for updates in [4, 7, 200, 1001] {
            assert_eq!((0..WRITERS).map(|writer| share(updates, writer)).sum::<usize>(), updates);
        }
    }

    #[test]
    fn lines_are_counted_across_pieces() {
        let pieces: [&[u8]; 3] = [b"{\"a\":1}\n{\"b", b"\":2}", b"\n\n"];
        assert_eq!(pieces.iter().map(|piece| count_lines(piece)).sum::<usize>(), 3);
    }
}
