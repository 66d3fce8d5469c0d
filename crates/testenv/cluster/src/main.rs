//! A cluster as a program, for kubectl and for operators under development.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::Parser;
use windlass_apiserver::program::{self, BindError, ServerOptions};
use windlass_cluster::{Cluster, ClusterError, greeting};

/// A Kubernetes cluster in memory: an API server, simulated nodes, and the controllers of
/// Deployments, StatefulSets, Jobs and Services. No containers run. Nothing is kept when it ends.
#[expect(clippy::doc_markdown, reason = "clap prints this text, where backticks would be noise")]
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// The address to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0", value_parser = program::parse_address)]
    listen: SocketAddr,
    /// The number of nodes.
    #[arg(long, default_value_t = 3)]
    nodes: u32,
    /// Serve over TLS, with a generated certificate and a token.
    #[arg(long)]
    tls: bool,
    /// How many milliseconds a pod takes to become ready.
    #[arg(long, default_value_t = 1000, value_name = "MILLISECONDS")]
    start_delay: u64,
    /// How many milliseconds a pod of a job runs.
    #[arg(long, default_value_t = 3000, value_name = "MILLISECONDS")]
    run_time: u64,
    #[command(flatten)]
    server: ServerOptions,
}

impl Options {
    async fn start(&self) -> anyhow::Result<Cluster> {
        let mut builder = Cluster::builder()
            .server(self.server.builder())
            .nodes(self.nodes)
            .start_delay(Duration::from_millis(self.start_delay))
            .run_time(Duration::from_millis(self.run_time))
            .listen(self.listen);
        if self.tls {
            builder = builder.tls();
        }
        if let Some(token) = &self.server.token {
            builder = builder.token(token);
        }
        if let Some(path) = &self.server.kubeconfig {
            builder = builder.kubeconfig(path);
        }
        match builder.start().await {
            Err(ClusterError::Listen { address, error }) => {
                Err(anyhow!(BindError::new(&address, "--listen", error).to_string()))
            }
            started => started.context("the cluster does not start"),
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    program::exit_code(run(&Options::parse()).await)
}

async fn run(options: &Options) -> anyhow::Result<()> {
    program::start_log("info,windlass_apiserver=warn,windlass=warn");
    // Signals are handled before the kubeconfig is written, so that Ctrl-C always removes it.
    let stop = program::stop_signal().context("cannot wait for signals")?;
    let mut cluster = options.start().await?;
    // Nobody may be reading, as behind `| head -1`; that is no reason to stop.
    let _ = writeln!(std::io::stdout(), "{}", greeting(&cluster, options.nodes));

    let ended = tokio::select! {
        () = stop => None,
        ended = cluster.wait_for_end() => Some(ended),
    };
    let (objects, bytes) = cluster.server().size();
    let revision = cluster.server().revision();
    cluster.stop().await.context("the cluster does not stop in order")?;
    ended.unwrap_or(Ok(())).context("the controllers have ended")?;
    let _ = writeln!(
        std::io::stdout(),
        "\nStopped at version {revision}, with {objects} objects, {bytes} bytes."
    );
    Ok(())
}
