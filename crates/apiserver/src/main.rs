//! The embedded API server as a program: to look at it with kubectl, and to run things against it.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::Context;
use clap::Parser;
use windlass_apiserver::Listening;
use windlass_apiserver::program::{self, ServerOptions};

/// A Kubernetes API server in memory, on loopback. Everything is gone when it ends.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// The port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    #[command(flatten)]
    server: ServerOptions,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    program::start_log("info,windlass_apiserver=debug");
    let server = options.server.builder().build();
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), options.port);
    let listening =
        server.listen(address).await.with_context(|| format!("cannot listen on {address}"))?;
    // Before there is a file that has to be removed.
    let stop = program::stop_signal().context("cannot wait for signals")?;
    let kubeconfig = options.server.write_kubeconfig(&listening)?;
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

fn greet(listening: &Listening, kubeconfig: &std::path::Path) {
    let kubeconfig = kubeconfig.display();
    // Nobody may be listening, as behind `| head -1`; that is no reason to stop.
    let _ = writeln!(
        std::io::stdout(),
        "An embedded Kubernetes API server is at {url}, with nothing in it but namespaces.\n\
         Its kubeconfig: {kubeconfig}\n\n\
         Try, in another terminal:\n\
         \x20 export KUBECONFIG={kubeconfig}\n\
         \x20 kubectl create configmap hello --from-literal=colour=green\n\
         \x20 kubectl get configmaps --watch &\n\
         \x20 kubectl patch configmap hello -p '{{\"data\":{{\"colour\":\"blue\"}}}}'\n\
         \x20 kubectl create deployment web --image=web:1\n\
         \x20 kubectl set image deployment web web=web:2\n\
         \x20 kubectl get all,configmaps\n\
         \x20 kubectl explain deployment.spec.strategy\n\
         \x20 kubectl delete deployment/web configmap/hello\n\n\
         Deployments have no pods here: `cargo run -p windlass-cluster` has controllers, too.\n\
         Requests are logged below. Ctrl-C ends it, and everything in it.\n",
        url = listening.url(),
    );
}
