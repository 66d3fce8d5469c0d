//! The embedded API server as a program: to look at it with kubectl, and to run things against it.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use tracing_subscriber::EnvFilter;
use windlass_apiserver::{ApiServer, Listening, User};

/// A Kubernetes API server in memory, on loopback. Everything is gone when it ends.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// The port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Where to write the kubeconfig. Default: a file of this process in the temporary folder.
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
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
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
    let path = options.kubeconfig.clone().unwrap_or_else(default_kubeconfig);
    listening
        .write_kubeconfig(&path, options.token.as_deref())
        .with_context(|| format!("cannot write the kubeconfig {}", path.display()))?;
    greet(&listening, &path);

    tokio::signal::ctrl_c().await.context("cannot wait for Ctrl-C")?;
    listening.stop().await;
    if options.kubeconfig.is_none() {
        // Best effort: a kubeconfig that points nowhere helps nobody.
        let _ = std::fs::remove_file(&path);
    }
    let (objects, bytes) = server.size();
    let _ = writeln!(
        std::io::stdout(),
        "\nStopped at version {}, with {objects} objects, {bytes} bytes.",
        server.revision()
    );
    Ok(())
}

fn default_kubeconfig() -> PathBuf {
    std::env::temp_dir().join(format!("windlass-{}.kubeconfig", std::process::id()))
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
         kubectl apply --validate=false -f -\n\
         \x20 kubectl get configmaps --watch --output-watch-events &\n\
         \x20 kubectl patch configmap hello --type=merge -p '{{\"data\":{{\"a\":\"2\"}}}}'\n\
         \x20 kubectl delete configmap hello\n\n\
         Requests are logged below. Ctrl-C ends it, and everything in it.\n",
        url = listening.url(),
    );
}
