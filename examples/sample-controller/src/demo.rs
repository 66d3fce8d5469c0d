//! A cluster in this process, with the controller at work on it: nothing to install, nothing to
//! break.
//!
//! [`start`] starts the embedded API server, the controllers that make pods of Deployments, and the
//! sample controller, all on one set of informers. [`story`] then lets things happen and tells what
//! the controller does and why; `runs` words the why, from the controller's journal; `wait` waits
//! for what must follow.
//!
//! Nothing but [`Demo::listen`] opens a socket, and nothing reads another clock than tokio's: tests
//! tell the whole story on the paused clock.

mod runs;
pub mod story;
mod wait;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use kube::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass::informer::{ClientStack, SharedInformerFactory};
use windlass::reconciler::{Controller, install_crd};
use windlass_apiserver::{ApiServer, Listening};
use windlass_workloads::Workloads;

use crate::controller::controller;
use crate::foo::{Foo, definition};

/// A cluster in this process.
#[derive(Debug)]
pub struct Demo {
    server: ApiServer,
    factory: SharedInformerFactory,
    controller: Arc<Controller<Foo>>,
}

/// What runs on it, until it is [ended](Self::end).
#[derive(Debug)]
pub struct Running {
    factory: SharedInformerFactory,
    stop: CancellationToken,
    /// The sample controller, and those of the workloads.
    tasks: JoinSet<Result<()>>,
}

/// Starts everything, and returns when Foos can be created.
///
/// # Errors
/// If the server refuses the definition of Foo or a watch, or the controllers do not fit together.
pub async fn start() -> Result<(Demo, Running)> {
    let server = ApiServer::new();
    let client = ClientStack::new().around(server.service(), "default");
    install_crd(&client, &definition())
        .await
        .context("the definition of Foo cannot be installed")?;

    // One factory: the controllers share one watch and one cache of Deployments.
    let factory = SharedInformerFactory::new(client);
    let controller = Arc::new(controller(&factory)?);
    // One node, so that `kubectl get nodes` shows where the pods are.
    let workloads = Workloads::new(&factory).nodes(1);
    // Whatever somebody creates from now on is news to them.
    factory.start();
    factory.wait_for_sync().await.context("the caches of the controllers are not complete")?;
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let (sample, token) = (Arc::clone(&controller), stop.clone());
    tasks.spawn(async move { sample.run(token).await.context("the sample controller failed") });
    let token = stop.clone();
    tasks.spawn(async move { workloads.run(token).await.context("the workloads failed") });
    let demo = Demo { server, factory: factory.clone(), controller };
    Ok((demo, Running { factory, stop, tasks }))
}

impl Demo {
    /// Asks the server.
    pub fn client(&self) -> &Client {
        self.factory.client()
    }

    /// Lets others ask it as well, at a free port of the loopback interface.
    ///
    /// # Errors
    /// If there is no port.
    pub async fn listen(&self) -> Result<Listening> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        self.server.listen(address).await.with_context(|| format!("cannot listen on {address}"))
    }
}

impl Running {
    /// Waits for a controller to end, which none does unless something is wrong. Cancel safe.
    pub async fn failed(&mut self) -> anyhow::Error {
        match self.tasks.join_next().await {
            Some(Ok(Err(error))) => error,
            Some(Err(panicked)) => anyhow!(panicked).context("a controller panicked"),
            Some(Ok(Ok(()))) | None => anyhow!("a controller has stopped by itself"),
        }
    }

    /// Stops everything; runs that are under way are finished.
    ///
    /// # Errors
    /// If a controller has failed before.
    pub async fn end(mut self) -> Result<()> {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.context("a controller panicked")??;
        }
        self.factory.shut_down().await;
        Ok(())
    }
}
