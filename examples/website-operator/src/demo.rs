//! The story that the program tells without a cluster: three replicas of the operator, and one of
//! them is killed.
//!
//! The embedded API server and the controllers that make pods of Deployments run in this process.
//! The replicas are processes of their own (`website-operator run`), so that they can be killed as
//! processes are. They reach the server over loopback, by a kubeconfig that is gone afterwards.
//! The server calls the webhooks of one of them, over TLS with the certificates that they make.
//!
//! - `story`: what happens, and what is said about it;
//! - `replica`: a process of the operator;
//! - `wait`: waiting for what must follow;
//! - `dashboard`: another demo: one replica, whose dashboard shows what it does.

mod dashboard;
mod replica;
mod story;
mod wait;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass::informer::{ClientStack, SharedInformerFactory};
use windlass::reconciler::stop_on_signal;
use windlass_apiserver::ApiServer;
use windlass_workloads::Workloads;

use story::Story;

/// How the story is told.
#[derive(Args, Clone, Debug)]
pub struct Telling {
    /// End when the story has been told; otherwise everything stays up until Ctrl-C
    #[arg(long)]
    exit: bool,
    /// Pause for so many seconds before each chapter
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    pause: f64,
    /// Tell no story: run one replica, and serve its dashboard on this address, such as
    /// 127.0.0.1:9090
    #[arg(long, value_name = "ADDRESS", conflicts_with = "exit")]
    dashboard: Option<String>,
}

/// Tells the story on a cluster in this process.
///
/// # Errors
/// If something does not happen that must.
pub async fn run(telling: &Telling) -> Result<()> {
    let pause = Duration::try_from_secs_f64(telling.pause).context("--pause is no time to wait")?;
    let stop = stop_on_signal()?;
    if let Some(address) = &telling.dashboard {
        return dashboard::run(address, stop).await;
    }
    tracing_subscriber::fmt().with_env_filter("error").init();
    let server = ApiServer::new();
    let client = ClientStack::new().around(server.service(), "default");
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listening = server.listen(loopback).await.context("cannot listen on loopback")?;
    // It is gone when this ends: a kubeconfig that points nowhere helps nobody.
    let kubeconfig = listening.temporary_kubeconfig(None)?;

    let factory = SharedInformerFactory::new(client);
    // One node, so that `kubectl get nodes` shows where the pods are.
    let (workloads, token) = (Workloads::new(&factory).nodes(1), CancellationToken::new());
    let mut tasks = JoinSet::new();
    tasks.spawn(workloads.run(token.clone()));
    let mut story = Story::new(&server, &factory, kubeconfig.path(), pause)?;
    let told = tokio::select! {
        told = story.tell(telling.exit) => told,
        () = stop.cancelled() => Ok(()),
        ended = tasks.join_next() => Err(anyhow!("the workloads have stopped: {ended:?}")),
    };
    // The replicas first: they would only complain that the server is gone.
    drop(story);
    token.cancel();
    factory.shut_down().await;
    listening.stop().await;
    told
}
