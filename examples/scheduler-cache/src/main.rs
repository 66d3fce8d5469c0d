//! Shows what kube-scheduler does with informers. See README.md.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use demo_cluster::{Choice, DemoOptions, pod_group_kind};
use kube::core::GroupVersionKind;
use scheduler_cache::{Scheduler, SchedulerCache};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep};
use tracing_subscriber::EnvFilter;
use windlass::workqueue::WorkQueue;

/// Keeps what a scheduler has to know of its cluster: pods by node, and pods without one.
///
/// Without flags it runs on an API server in this process, in which pods come and go, and schedules
/// them. With --kubeconfig it only reads. Ctrl-C ends it.
#[derive(Debug, Parser)]
#[command(version)]
struct Flags {
    /// Also watch this custom kind, as in `PodGroup.v1alpha1.scheduling.example.com`; may be given
    /// several times.
    #[arg(long, value_name = "KIND.VERSION.GROUP", value_parser = kind)]
    watch: Vec<GroupVersionKind>,
    /// Show the table every so many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// End after so many seconds [default: on Ctrl-C].
    #[arg(long = "for", value_name = "SECONDS")]
    run_for: Option<u64>,
    // The last, since its heading would go on otherwise.
    #[command(flatten)]
    cluster: Choice,
}

/// What is logged, unless `RUST_LOG` says otherwise: not every request that the API server of this
/// process gets.
const LOGGED: &str = "info,windlass_apiserver=warn";

#[tokio::main]
async fn main() -> Result<()> {
    let flags = Flags::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOGGED));
    tracing_subscriber::fmt().with_env_filter(filter).with_target(false).init();

    let cluster = flags.cluster.connect(DemoOptions::new().without_scheduler()).await?;
    tracing::info!("A scheduler's view of {}. Ctrl-C ends this.", cluster.description);
    let mut kinds = flags.watch;
    if cluster.demo.is_some() {
        kinds.push(pod_group_kind());
    }
    // On a cluster of others nobody takes from a queue, so there is none.
    let queue = cluster.demo.is_some().then(WorkQueue::new);
    let cache = SchedulerCache::new(cluster.client.clone(), queue.clone(), &kinds).await?;
    let cache = Arc::new(cache);

    let mut tasks = JoinSet::new();
    let scheduler = queue.clone().map(|queue| {
        let (client, cache) = (cluster.client.clone(), Arc::clone(&cache));
        async move { Scheduler::new(client, cache, queue).run().await }
    });
    let work = async {
        cache.start().await?;
        // Not before: who decides by half of a cache decides wrongly.
        if let Some(scheduler) = scheduler {
            tasks.spawn(scheduler);
        }
        show(&cache, Duration::from_secs(flags.every)).await
    };
    let ended = tokio::select! {
        ended = work => ended,
        ended = told_to_end(flags.run_for) => ended,
    };

    // Nothing more happens in the cluster, then nothing more is scheduled, then nobody looks any
    // more.
    cluster.end().await?;
    if let Some(queue) = queue {
        queue.shut_down();
    }
    tasks.join_all().await;
    let (table, tombstones) = (cache.table().await?, cache.assigned().tombstones());
    cache.shut_down().await;
    println!("\nIn the end:\n{table}");
    if tombstones > 0 {
        println!("  {tombstones} deletions were not watched, and found out by a list (tombstones)");
    }
    ended
}

/// Shows what the caches hold, now and then, until it is dropped or one of them breaks.
async fn show(cache: &SchedulerCache, every: Duration) -> Result<()> {
    let began = Instant::now();
    let mut ticks = interval(every);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            failure = cache.wait_for_failure() => return Err(failure.into()),
        }
        println!("\nAfter {} s:\n{}\n", began.elapsed().as_secs(), cache.table().await?);
    }
}

/// Waits for Ctrl-C, or until the time is up.
async fn told_to_end(run_for: Option<u64>) -> Result<()> {
    let time_is_up = async {
        match run_for {
            Some(seconds) => sleep(Duration::from_secs(seconds)).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = tokio::signal::ctrl_c() => ended.context("cannot wait for Ctrl-C"),
        () = time_is_up => Ok(()),
    }
}

/// Reads `Kind.version.group`.
fn kind(text: &str) -> Result<GroupVersionKind, String> {
    let mut parts = text.splitn(3, '.');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(kind), Some(version), Some(group)) => Ok(GroupVersionKind::gvk(group, version, kind)),
        _ => Err(format!(
            "{text:?} is no kind: write it as in PodGroup.v1alpha1.scheduling.example.com"
        )),
    }
}
