//! One replica of an election, for tests in which it contends with replicas of client-go. It has
//! the flags and the output of `tests/election-go`.
//!
//! It prints who leads in the format of [`Said`]. SIGTERM makes it release the Lease and end. If it
//! loses the leadership, it ends with an error.
//! loses the leadership, it ends with an error.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::Parser;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use tokio::sync::watch;
use windlass::manager::{ElectionEnd, Elector, Leadership, Timing};
use windlass::prelude::*;
use windlass::reconciler::stop_on_signal;
use windlass_tests::replica::{Said, end_with_the_input};

#[derive(Parser)]
struct Options {
    #[arg(long)]
    kubeconfig: PathBuf,
    #[arg(long)]
    namespace: String,
    /// The Lease.
    #[arg(long)]
    name: String,
    #[arg(long)]
    identity: String,
    #[arg(long, value_parser = milliseconds)]
    lease_duration: Duration,
    #[arg(long, value_parser = milliseconds)]
    renew_deadline: Duration,
    #[arg(long, value_parser = milliseconds)]
    retry_period: Duration,
}

/// Parses durations as Go writes them, as far as the tests need it: `500ms`.
fn milliseconds(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix("ms").and_then(|number| number.parse().ok());
    number.map(Duration::from_millis).ok_or_else(|| format!("{text:?} is not like 500ms"))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_env_filter("warn").with_writer(std::io::stderr).init();
    let options = Options::parse();
    end_with_the_input();
    let file = Kubeconfig::read_from(&options.kubeconfig)?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    let client = ClientStack::new().connect(config)?;
    let elector = Elector::builder(client, &options.namespace, &options.name)
        .identity(&options.identity)
        .timing(Timing {
            lease_duration: options.lease_duration,
            renew_deadline: options.renew_deadline,
            retry_period: options.retry_period,
        })
        .build()?;
    let said = say_who_leads(elector.leadership(), &options.identity);
    let elect = async {
        match elector.run(stop_on_signal()?).await {
            ElectionEnd::Stopped => Ok(()),
            ElectionEnd::Lost => bail!("{} lost the leadership", options.identity),
        }
    };
    tokio::try_join!(elect, said).map(|_| ())
}

/// Prints the changes of the leader, until the elector is gone.
async fn say_who_leads(
    mut leadership: watch::Receiver<Leadership>,
    identity: &str,
) -> anyhow::Result<()> {
    let (mut was_leading, identity) = (false, identity.to_owned());
    while leadership.changed().await.is_ok() {
        let said = match &*leadership.borrow_and_update() {
            Leadership::Leading => Said::Leading(identity.clone()),
            _ if was_leading => Said::Stopped(identity.clone()),
            Leadership::Standby { leader: Some(leader) } => Said::Leader(leader.clone()),
            _ => continue,
        };
        was_leading = matches!(said, Said::Leading(_));
        println!("{}", serde_json::to_string(&said)?);
    }
    Ok(())
}
