//! Which cluster an example runs on, by its flags.

use std::fmt;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use windlass::informer::ClientStack;

use crate::demo::{Demo, DemoOptions};

/// Flags that choose a cluster.
///
/// Only the flag leads to a real cluster: neither `KUBECONFIG` nor `~/.kube/config` is looked at,
/// so that nobody runs an example on production by accident.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Which cluster")]
pub struct Choice {
    /// Read from the cluster of this kubeconfig [default: a small API server in this process].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use [default: its current one].
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    context: Option<String>,
    /// What happens in the cluster of this process is drawn from this number.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, conflicts_with = "kubeconfig")]
    seed: u64,
    /// Now and then, let all watches in the cluster of this process fail for some seconds.
    #[arg(long, conflicts_with = "kubeconfig")]
    outages: bool,
}

/// A cluster, and how to ask it.
pub struct Cluster {
    /// Asks it.
    pub client: Client,
    /// It lives in this process, if this is there.
    pub demo: Option<Demo>,
    /// What it is, for people.
    pub description: String,
}

impl Choice {
    /// Whether it is the cluster of this process.
    pub fn is_demo(&self) -> bool {
        self.kubeconfig.is_none()
    }

    /// Connects, or begins the life of a cluster in this process. `options` are for the latter.
    ///
    /// # Errors
    /// If the kubeconfig cannot be used. Whether the server answers shows later.
    pub async fn connect(&self, options: DemoOptions) -> Result<Cluster> {
        let Some(path) = &self.kubeconfig else {
            let demo = Demo::start(options.seed(self.seed).outages(self.outages)).await?;
            let description = "an API server in this process, whose pods come and go (--kubeconfig FILE for a real one)";
            return Ok(Cluster {
                client: demo.client(),
                demo: Some(demo),
                description: description.to_owned(),
            });
        };
        let shown = path.display();
        let kubeconfig = Kubeconfig::read_from(path)
            .with_context(|| format!("the kubeconfig {shown} cannot be read"))?;
        let options = KubeConfigOptions { context: self.context.clone(), ..Default::default() };
        let config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .with_context(|| format!("the kubeconfig {shown} cannot be used"))?;
        let description = format!("the cluster at {} (it is only read)", config.cluster_url);
        let client = ClientStack::new()
            .connect(config)
            .with_context(|| format!("no connection can be made as {shown} says"))?;
        Ok(Cluster { client, demo: None, description })
    }
}

impl Cluster {
    /// Ends the life of a cluster in this process.
    ///
    /// # Errors
    /// If something went wrong in it.
    pub async fn end(self) -> Result<()> {
        match self.demo {
            Some(demo) => demo.end().await,
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cluster").field(&self.description).finish()
    }
}
