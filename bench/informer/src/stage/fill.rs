//! Filling the server: every pod in two writes, by many at once.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::pod::{NEVER, Pod};
use super::server::Stage;
use super::template::{NAMESPACES, namespace};
use super::write::{create, report};

/// Pods that are being written at once: more do not make the server faster.
const CONCURRENCY: usize = 24;

/// Makes the namespaces and all pods, and shows how far it is.
pub(crate) async fn fill(stage: &Stage) -> Result<()> {
    let began = Instant::now();
    for number in 0..NAMESPACES {
        let namespace = json!({"metadata": {"name": namespace(number)}});
        create(&stage.client, "/api/v1/namespaces", &namespace).await?;
    }
    let next = Arc::new(AtomicUsize::new(0));
    let templates = Arc::clone(&stage.templates);
    let mut tasks = JoinSet::new();
    for _ in 0..CONCURRENCY {
        let (client, next, templates) =
            (stage.client.clone(), Arc::clone(&next), Arc::clone(&templates));
        let pods = stage.pods;
        tasks.spawn(async move {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= pods {
                    return anyhow::Ok(());
                }
                show(index, pods);
                let pod = Pod::new(&templates, index);
                create(&client, &pod.path, &pod.created()).await?;
                report(&client, &pod, NEVER).await?;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    let (pods, size) = (stage.pods, size_of_one(stage).await?);
    let took = began.elapsed().as_secs_f64();
    let erase = if std::io::stderr().is_terminal() { "\r\x1b[2K" } else { "" };
    eprintln!("{erase}    {pods} pods of {size} bytes of JSON made in {took:.1} s");
    Ok(())
}

/// How long a pod is in a list, over a few hundred of them.
async fn size_of_one(stage: &Stage) -> Result<usize> {
    let count = stage.pods.min(501) - 1;
    let list = async |limit| stage.get(&format!("/api/v1/pods?limit={limit}")).await;
    let (one, more) = (list(1).await?, list(count + 1).await?);
    Ok(more.len().saturating_sub(one.len()) / count)
}

/// Shows how far it is: on a terminal often and in place, elsewhere a few times.
fn show(made: usize, pods: usize) {
    let on_terminal = std::io::stderr().is_terminal();
    let step = (pods / if on_terminal { 100 } else { 4 }).max(1);
    if made == 0 || !made.is_multiple_of(step) {
        return;
    }
    let text = format!("    {made} of {pods} pods");
    // Progress that cannot be shown must not end the run.
    let _ = if on_terminal {
        write!(std::io::stderr(), "\r\x1b[2K{text}")
    } else {
        writeln!(std::io::stderr(), "{text}")
    };
}
