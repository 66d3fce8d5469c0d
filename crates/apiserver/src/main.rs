//! The embedded API server as a program: to look at it with kubectl, and to run things against it.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use tracing_subscriber::EnvFilter;
use windlass_apiserver::{ApiServer, Kubeconfig, Listening, User};

/// A Kubernetes API server in memory, on loopback. Everything is gone when it ends.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// The port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Where to write the kubeconfig: to a new file, which is gone when this ends. What is there
    /// already is not overwritten. Default: in a new folder in the temporary one.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Ask for this bearer token; it goes into the kubeconfig.
    #[arg(long)]
    token: Option<String>,
    /// Leave garbage and the content of deleted namespaces where they are.
    #[arg(long)]
    no_garbage_collection: bool,
    /// Draw uids and generated names from this seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new("info,windlass_apiserver=debug"));
    let log = tracing_subscriber::fmt().with_env_filter(filter);
    log.with_target(false).with_level(false).without_time().init();

    let mut builder =
        ApiServer::builder().seed(options.seed).garbage_collection(!options.no_garbage_collection);
    if let Some(token) = &options.token {
        builder = builder.token(token, User::named("windlass"));
    }
    let server = builder.build();
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), options.port);
    let listening =
        server.listen(address).await.with_context(|| format!("cannot listen on {address}"))?;
    // Before there is a file that has to be removed.
    let stop = stop_signal().context("cannot wait for signals")?;
    let kubeconfig = write_kubeconfig(&listening, &options)?;
    greet(&listening, kubeconfig.path());

    stop.await;
    listening.stop().await;
    // Best effort: a kubeconfig that points nowhere helps nobody.
    let _ = kubeconfig.remove();
    let (objects, bytes) = server.size();
    let _ = writeln!(
        std::io::stdout(),
        "\nStopped at version {}, with {objects} objects, {bytes} bytes.",
        server.revision()
    );
    Ok(())
}

fn write_kubeconfig(listening: &Listening, options: &Options) -> anyhow::Result<Kubeconfig> {
    let token = options.token.as_deref();
    match &options.kubeconfig {
        None => listening.temporary_kubeconfig(token).context("cannot write a kubeconfig"),
        Some(path) => listening
            .write_kubeconfig(path, token)
            .with_context(|| format!("cannot write the kubeconfig {}", path.display())),
    }
}

/// Ctrl-C, or a polite request to end. Signals that come from now on count.
#[cfg(unix)]
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
    })
}

/// Ctrl-C. It counts from when it is awaited.
#[cfg(not(unix))]
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    Ok(async { drop(tokio::signal::ctrl_c().await) })
}

fn greet(listening: &Listening, kubeconfig: &std::path::Path) {
    let kubeconfig = kubeconfig.display();
    // Nobody may be listening, as behind `| head -1`; that is no reason to stop.
    let _ = writeln!(
        std::io::stdout(),
        "An embedded Kubernetes API server is at {url}, with nothing in it but namespaces.\n\
         Its kubeconfig: {kubeconfig}\n\n\
         Try, in another terminal:\n\
         \x20 export KUBECONFIG={kubeconfig}\n\
         \x20 kubectl get --raw /api/v1/namespaces\n\
         \x20 echo '{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"hello\"}},\"data\":{{\"a\":\"1\"}}}}' | \
         kubectl apply -f -\n\
         \x20 kubectl get configmaps --watch --output-watch-events &\n\
         \x20 kubectl patch configmap hello --type=merge -p '{{\"data\":{{\"a\":\"2\"}}}}'\n\
         \x20 kubectl delete configmap hello\n\n\
         Requests are logged below. Ctrl-C ends it, and everything in it.\n",
        url = listening.url(),
    );
}
