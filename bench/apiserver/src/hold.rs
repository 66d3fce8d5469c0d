//! A server that is filled once and held for many runs.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ListParams, ObjectMeta, PostParams};
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;

use crate::Who;
use crate::meter::Watch;
use crate::objects::{MANAGER, NAMESPACES, config_map, namespace};
use crate::server::{Server, client};

/// Creates that are under way at once: more do not make either server faster.
const CONCURRENCY: usize = 16;

/// Starts and fills a server, prints how to reach it as one line of JSON, and holds it until the
/// standard input ends.
pub(crate) async fn hold(who: Who, objects: usize) -> Result<()> {
    let server = Server::start(who).await?;
    let client = client(server.kubeconfig()).await?;
    fill(&client, who, objects).await.context("the server could not be filled")?;
    let access = json!({"kubeconfig": server.kubeconfig(), "pids": server.pids()});
    println!("{access}");
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    Ok(())
}

async fn fill(client: &kube::Client, who: Who, objects: usize) -> Result<()> {
    let watch = Watch::start();
    let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
    let namespaces = Api::<Namespace>::all(client.clone());
    for index in 0..NAMESPACES.min(objects) {
        let metadata = ObjectMeta { name: Some(namespace(index)), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        namespaces.create(&params, &namespace).await?;
    }
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..CONCURRENCY {
        let (client, params, next) = (client.clone(), params.clone(), Arc::clone(&next));
        tasks.spawn(async move {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= objects {
                    return anyhow::Ok(());
                }
                show(who, index, objects);
                let api = Api::<ConfigMap>::namespaced(client.clone(), &namespace(index));
                api.create(&params, &config_map(who, index)).await?;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    let size = size_of_one(client).await?;
    let who = name(who);
    let erase = if std::io::stderr().is_terminal() { "\r\x1b[2K" } else { "" };
    let took = watch.seconds();
    eprintln!("{erase}    {who}: {objects} ConfigMaps of {size} bytes made in {took:.1} s");
    Ok(())
}

/// How long an object is in a list, over a few of them.
async fn size_of_one(client: &kube::Client) -> Result<usize> {
    let request = kube::core::Request::new("/api/v1/configmaps");
    let list = |limit| request.list(&ListParams::default().labels("app=bench").limit(limit));
    let (few, more) =
        (client.request_text(list(1)?).await?, client.request_text(list(101)?).await?);
    Ok(more.len().saturating_sub(few.len()) / 100)
}

/// Shows how far it is: on a terminal often and in place, elsewhere a few times.
fn show(who: Who, made: usize, objects: usize) {
    let on_terminal = std::io::stderr().is_terminal();
    let step = (objects / if on_terminal { 100 } else { 4 }).max(1);
    if made == 0 || !made.is_multiple_of(step) {
        return;
    }
    let text = format!("    {}: {made} of {objects} ConfigMaps", name(who));
    // Progress that cannot be shown must not end the run.
    let _ = if on_terminal {
        write!(std::io::stderr(), "\r\x1b[2K{text}")
    } else {
        writeln!(std::io::stderr(), "{text}")
    };
}

fn name(who: Who) -> &'static str {
    if who == Who::Real { "real" } else { "embedded" }
}
