//! The sample controller as a program: on a cluster of its own with a story, or on one that it is
//! pointed at. See README.md.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use sample_controller::demo::story::{Story, Tell};
use sample_controller::demo::{self, Demo};
use sample_controller::{definition, run};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;
use windlass::informer::ClientStack;
use windlass::reconciler::install_crd;

/// Kubernetes' sample-controller: a Deployment for every Foo.
///
/// Without flags it starts an API server in this process, tells a story on it, and stays up to be
/// played with. Only `--kubeconfig` leads to another cluster: neither KUBECONFIG nor ~/.kube/config
/// is looked at.
#[derive(Debug, Parser)]
#[command(version)]
struct Flags {
    /// Work on the cluster of this kubeconfig [default: an API server in this process].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use [default: its current one].
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    context: Option<String>,
    /// Install the definition of Foo on that cluster first.
    #[arg(long, requires = "kubeconfig")]
    install: bool,
    /// End when the story has been told.
    #[arg(long, conflicts_with = "kubeconfig")]
    exit: bool,
    /// Pause for so many seconds before each chapter of the story.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, conflicts_with = "kubeconfig")]
    pause: f64,
}

/// What is logged unless `RUST_LOG` says otherwise.
const LOGGED: &str = "info";

/// The same on a cluster of its own, where the story tells the rest.
const LOGGED_BESIDE_THE_STORY: &str = "error";

#[tokio::main]
async fn main() -> Result<()> {
    let flags = Flags::parse();
    let logged = if flags.kubeconfig.is_some() { LOGGED } else { LOGGED_BESIDE_THE_STORY };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(logged));
    tracing_subscriber::fmt().with_env_filter(filter).with_target(false).init();
    match &flags.kubeconfig {
        Some(path) => control(path, &flags).await,
        None => tell(&flags).await,
    }
}

/// Runs the controller on the cluster of a kubeconfig, until it is told to stop.
async fn control(path: &Path, flags: &Flags) -> Result<()> {
    let client = connect(path, flags.context.clone()).await?;
    if flags.install {
        install_crd(&client, &definition())
            .await
            .context("the definition of Foo cannot be installed")?;
    }
    let stop = CancellationToken::new();
    let running = run(client, stop.clone());
    tokio::pin!(running);
    tokio::select! {
        ended = &mut running => return ended,
        told = told_to_stop() => told?,
    }
    stop.cancel();
    running.await
}

async fn connect(path: &Path, context: Option<String>) -> Result<Client> {
    let shown = path.display();
    let kubeconfig = Kubeconfig::read_from(path)
        .with_context(|| format!("the kubeconfig {shown} cannot be read"))?;
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .with_context(|| format!("the kubeconfig {shown} cannot be used"))?;
    tracing::info!("Foos of the cluster at {}", config.cluster_url);
    ClientStack::new()
        .connect(config)
        .with_context(|| format!("no connection can be made as {shown} says"))
}

/// Tells the story on a cluster in this process, and stays up after it.
async fn tell(flags: &Flags) -> Result<()> {
    let pause = Duration::try_from_secs_f64(flags.pause).context("--pause is no time to wait")?;
    let (demo, mut running) = demo::start().await?;
    let ended = tokio::select! {
        ended = story(&demo, pause, flags.exit) => ended,
        told = told_to_stop() => told,
        error = running.failed() => Err(error),
    };
    running.end().await?;
    ended
}

async fn story(demo: &Demo, pause: Duration, ends: bool) -> Result<()> {
    // Nobody may be listening, as behind `| head -1`; that is no reason to stop.
    let tell: Tell = Arc::new(|line: &str| drop(writeln!(std::io::stdout(), "{line}")));
    let listening = demo.listen().await?;
    // It is gone when this ends: a kubeconfig that points nowhere helps nobody.
    let kubeconfig = listening.temporary_kubeconfig(None)?;
    let mut story = Story::new(demo, Arc::clone(&tell), pause);
    story.tell().await?;
    if !ends {
        tell(&invitation(kubeconfig.path()));
        story.follow().await;
    }
    listening.stop().await;
    Ok(())
}

/// What one can do with a cluster that stays up.
fn invitation(kubeconfig: &Path) -> String {
    let kubeconfig = kubeconfig.display();
    format!(
        "\nIt stays up, and tells what happens. In another terminal:\n\
         \x20 export KUBECONFIG={kubeconfig}\n\
         \x20 kubectl get foos,deployments,replicasets,pods,events\n\
         \x20 kubectl get foo late-foo -o yaml\n\
         \x20 kubectl patch foo late-foo --type=merge -p '{{\"spec\":{{\"replicas\":4}}}}'\n\
         \x20 kubectl patch foo late-foo --type=merge -p '{{\"spec\":{{\"replicas\":11}}}}'   # refused\n\
         \x20 kubectl delete deployment late-foo                                      # made again\n\
         \x20 kubectl delete foo late-foo                                             # both gone\n\
         Ctrl-C ends it, and everything in it.\n"
    )
}

/// Ctrl-C, or a polite request to end.
async fn told_to_stop() -> Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminated = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
        tokio::select! {
            pressed = tokio::signal::ctrl_c() => pressed.context("cannot wait for Ctrl-C"),
            _ = terminated.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await.context("cannot wait for Ctrl-C")
}
