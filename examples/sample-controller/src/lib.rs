//! Kubernetes' sample-controller, on Windlass: every Foo gets a Deployment.
//!
//! Reading order: [`foo`] (the type), [`mod@controller`] (what is done for one, and when), [`run`]
//! (all of it on a cluster), [`demo`] (a cluster in this process, and a story told on it).
//! README.md walks through it beside the original.

#![expect(clippy::disallowed_names, reason = "a Foo is what the original calls it")]

pub mod controller;
pub mod demo;
pub mod foo;

use anyhow::Result;
use kube::Client;
use tokio_util::sync::CancellationToken;
use windlass::informer::SharedInformerFactory;

pub use controller::{SampleController, controller};
pub use foo::{Foo, FooSpec, FooStatus, definition};

/// Runs the controller on a cluster until `stop` is cancelled. The definition of Foo has to be
/// there.
///
/// Cancel safety: dropped, everything stops at once; runs that are under way are not finished.
///
/// # Errors
/// If a cache is not complete in time, as without the definition of Foo, or an informer breaks.
pub async fn run(client: Client, stop: CancellationToken) -> Result<()> {
    let factory = SharedInformerFactory::new(client);
    let controller = controller(&factory)?;
    tracing::info!("Starting Foo controller");
    let ended = tokio::select! {
        ended = controller.run(stop) => ended.map_err(Into::into),
        failure = factory.wait_for_failure() => Err(failure.into()),
    };
    tracing::info!("Shutting down");
    factory.shut_down().await;
    ended
}
