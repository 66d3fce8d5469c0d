//! A replica of a small operator, for tests that kill and pause it.
//!
//! For every `ConfigMap` with the label `failover=parent` it keeps a child with the same value, by
//! server-side apply, and counts in an annotation how many values it has seen, by an update with
//! the version. Only the leader does that. With `--elect-only` it does nothing but lead.
//!
//! It says who leads in the form of [`Said`]. SIGTERM makes it release the Lease and end. If it
//! loses the leadership, it ends with an error.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use clap::Parser;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass::manager::{Elector, Ended, Leadership, Timing};
use windlass::prelude::*;
use windlass::reconciler::stop_on_signal;
use windlass_tests::failover::{COUNT, LABEL, SEEN, VALUE, WORKERS};
use windlass_tests::replica::Said;

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
    #[arg(long)]
    elect_only: bool,
}

/// Durations as Go writes them, as far as the tests do: `500ms`.
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
    let client = ClientStack::new().connect(config.clone())?;
    let elector = Elector::builder(client, &options.namespace, &options.name)
        .identity(&options.identity)
        .timing(Timing {
            lease_duration: options.lease_duration,
            renew_deadline: options.renew_deadline,
            retry_period: options.retry_period,
        })
        .build()?;
    let fenced = ClientStack::new().layer(elector.fence().clone()).connect(config)?;
    let factory = SharedInformerFactory::new(fenced);
    let controller = controller(&factory, options.namespace.clone())?;
    let leadership = elector.leadership();
    let said = say_who_leads(elector.leadership(), &options.identity);
    let (stop, release) = (stop_on_signal()?, CancellationToken::new());
    let elect = async {
        match elector.run(release.clone()).await {
            Ended::Stopped => Ok(()),
            Ended::Lost => bail!("{} lost the leadership", options.identity),
        }
    };
    let lead = async {
        let leads = wait_until_leading(leadership);
        if options.elect_only {
            stop.cancelled().await;
        } else {
            // Its caches are filled while it waits.
            factory.start();
            if stop.run_until_cancelled(leads).await.is_some() {
                controller.run(stop.clone()).await?;
            }
        }
        // Nothing that only the leader may do goes on, so another replica may lead.
        release.cancel();
        Ok(())
    };
    tokio::try_join!(elect, lead, said).map(|_| ())
}

/// Ends the process when its input ends, so that it does not outlive a test that was killed.
fn end_with_the_input() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(1);
    });
}

async fn wait_until_leading(mut leadership: watch::Receiver<Leadership>) {
    // It fails only if the elector is gone, and then the process ends.
    let _ = leadership.wait_for(Leadership::is_leading).await;
}

/// Prints the changes, until there is no elector any more.
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

fn controller(
    factory: &SharedInformerFactory,
    namespace: String,
) -> anyhow::Result<Controller<ConfigMap>> {
    let watch = |value: &'static str| {
        let namespaces = [namespace.clone()];
        Watch::<ConfigMap>::new().options(move |options| {
            options.namespaces(namespaces).label_selector(format!("{LABEL}={value}"))
        })
    };
    let builder = Controller::of(watch("parent")).owns(watch("child"));
    Ok(builder.name("failover").workers(WORKERS).build(factory, Copier)?)
}

/// Copies the value of every parent into its child.
struct Copier;

impl Reconcile<ConfigMap> for Copier {
    async fn reconcile(&self, parent: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
        if parent.metadata.deletion_timestamp.is_some() {
            return Ok(Action::Done);
        }
        let value = value_of(&parent);
        let mut child = ConfigMap::default();
        child.metadata.name = Some(format!("{}-child", parent.name_any()));
        child.metadata.namespace = parent.namespace();
        child.labels_mut().insert(LABEL.to_owned(), "child".to_owned());
        child.data = Some([(VALUE.to_owned(), value.clone())].into());
        cx.live().apply_owned(child, &*parent).await?;

        if parent.annotations().get(SEEN) == Some(&value) {
            return Ok(Action::Done);
        }
        let mut new = ConfigMap::clone(&parent);
        let count = new.annotations().get(COUNT).and_then(|count| count.parse().ok());
        let count = count.unwrap_or(0u64) + 1;
        new.annotations_mut().insert(SEEN.to_owned(), value);
        new.annotations_mut().insert(COUNT.to_owned(), count.to_string());
        let maps: Api<ConfigMap> =
            Api::namespaced(cx.client().clone(), &parent.namespace().unwrap_or_default());
        // It carries the version of the parent: somebody else's change makes it a conflict.
        maps.replace(&parent.name_any(), &PostParams::default(), &new).await?;
        Ok(Action::Done)
    }
}

fn value_of(map: &ConfigMap) -> String {
    map.data.as_ref().and_then(|data| data.get(VALUE)).cloned().unwrap_or_default()
}
