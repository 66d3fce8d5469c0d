//! The embedded API server as a program, to try it with kubectl and to run other programs against
//! it.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use clap::Parser;
use windlass_apiserver::program::{self, BindError, ServerOptions};

/// A Kubernetes API server in memory, on loopback. Everything is gone when it ends.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// The port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 0, value_parser = program::parse_port)]
    port: u16,
    #[command(flatten)]
    server: ServerOptions,
}

#[tokio::main]
async fn main() -> ExitCode {
    program::exit_code(run(&Options::parse()).await)
}

async fn run(options: &Options) -> anyhow::Result<()> {
    program::start_log("info,windlass_apiserver=debug,windlass_serve=debug");
    let server = options.server.builder().build();
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), options.port);
    let listening = server.listen(address).await;
    let listening = listening
        .map_err(|error| anyhow!(BindError::new(&address, "--port", error).to_string()))?;
    // Signals are caught before the kubeconfig is written, so that Ctrl-C always removes it.
    let stop = program::stop_signal().context("cannot wait for signals")?;
    let kubeconfig = options.server.write_kubeconfig(&listening)?;
    // Nobody may be reading, as behind `| head -1`; that is no reason to stop.
    let _ =
        writeln!(std::io::stdout(), "{}", program::greeting(&listening.url(), kubeconfig.path()));

    stop.await;
    listening.stop().await;
    // Best effort: a kubeconfig of a server that is gone does no harm.
    let _ = kubeconfig.remove();
    let (objects, bytes) = server.size();
    let _ = writeln!(
        std::io::stdout(),
        "\nStopped at version {}, with {objects} objects, {bytes} bytes.",
        server.revision()
    );
    Ok(())
}
