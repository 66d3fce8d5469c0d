//! Logs every pod that comes, changes and goes. See README.md.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use demo_cluster::{Choice, DemoOptions};
use pod_logger::{Log, Options, run};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// Logs every pod that comes, changes and goes: the classic first informer.
///
/// Without flags it runs on an API server in this process, in which pods come and go. Ctrl-C ends
/// it.
#[derive(Debug, Parser)]
#[command(version)]
struct Flags {
    /// Only pods of this namespace [default: all].
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    /// Show everything again after so many seconds; 0 for never.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    resync: u64,
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

    let cluster = flags.cluster.connect(DemoOptions::new()).await?;
    tracing::info!("Pods of {}. Ctrl-C ends this.", cluster.description);
    let options = Options { namespace: flags.namespace, resync: Duration::from_secs(flags.resync) };
    let log: Log = Arc::new(|line: &str| tracing::info!("{line}"));

    let stop = CancellationToken::new();
    let logged = async {
        let summary = run(cluster.client.clone(), options, log, stop.clone()).await;
        stop.cancel();
        summary
    };
    let (summary, ended) = tokio::join!(logged, end(flags.run_for, &stop));
    let summary = summary?;
    ended?;
    cluster.end().await?;

    let tally = summary.tally;
    tracing::info!(
        "Seen: {} added, {} updated, {} resynced, {} deleted. Pods in the cache in the end: {}.",
        tally.added,
        tally.updated,
        tally.resynced,
        tally.deleted,
        summary.held
    );
    Ok(())
}

/// Cancels `stop` on Ctrl-C, or when the time is up.
async fn end(run_for: Option<u64>, stop: &CancellationToken) -> Result<()> {
    let time_is_up = async {
        match run_for {
            Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        ended = tokio::signal::ctrl_c() => ended.context("cannot wait for Ctrl-C"),
        () = time_is_up => Ok(()),
        () = stop.cancelled() => Ok(()),
    };
    stop.cancel();
    ended
}
