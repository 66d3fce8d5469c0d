//! The classic first informer: every pod that comes, changes and goes is logged.
//!
//! [`run`] is the whole program without its flags; [`PodLogger`] is the handler; `describe` tells
//! in a few words what is new about a pod.

mod describe;
mod logger;

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use tokio_util::sync::CancellationToken;
use windlass::informer::{InformerOptions, SharedInformerFactory};

pub use logger::{Log, PodLogger, Tally};

/// What to log.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only pods of this namespace; `None` for all.
    pub namespace: Option<String>,
    /// How often the handler is shown everything again.
    pub resync: Duration,
}

/// What there was to log in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// What the handler has seen.
    pub tally: Tally,
    /// Pods in the cache.
    pub held: usize,
}

/// Logs pods until `stop` is cancelled.
///
/// # Errors
/// If the options cannot be, or an informer breaks.
pub async fn run(
    client: Client,
    options: Options,
    log: Log,
    stop: CancellationToken,
) -> Result<Summary> {
    let mut defaults = InformerOptions::new().resync(options.resync);
    if let Some(namespace) = &options.namespace {
        defaults = defaults.namespace(namespace);
    }
    let factory = SharedInformerFactory::builder(client).defaults(defaults).build();

    let pods = factory.informer::<Pod>()?;
    let logger = PodLogger::new(log.clone(), pods.lister().clone(), options.resync);
    let tally = logger.tally();
    pods.add_handler(logger)?;

    factory.start();
    let work = async {
        // Caches are complete, and handlers have seen them.
        factory.wait_for_sync().await?;
        let held = pods.lister().len();
        log(&format!(
            "The cache is complete: what is above was there before (pods: {held}). Now come changes."
        ));
        Err::<(), _>(factory.wait_for_failure().await.into())
    };
    let ended: Option<Result<()>> = stop.run_until_cancelled(work).await;
    factory.shut_down().await;
    ended.transpose()?;
    Ok(Summary { tally: tally.read(), held: pods.lister().len() })
}
