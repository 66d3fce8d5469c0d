//! Waiting for what must follow, by an informer: no polling, and no time but a bound.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::Resource;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use windlass::indexer::{DecodeError, Lister};
use windlass::informer::{HandlerOptions, Scope, SharedInformerFactory};

/// How long anything may take. It takes seconds at most; beyond this something is broken, and
/// saying so beats waiting.
const WAIT_MAX: Duration = Duration::from_mins(2);

/// Waits until it is so, of the objects of a type. `what` is for people, if it never is.
///
/// # Errors
/// If it is not so in time, or if the objects cannot be watched.
pub(super) async fn wait_until<K>(
    factory: &SharedInformerFactory,
    what: &str,
    is_so: impl Fn(&Lister<K>) -> Result<bool, DecodeError>,
) -> Result<()>
where
    K: Resource<DynamicType = (), Scope: Scope> + DeserializeOwned + Send + Sync + 'static,
{
    let informer = factory.informer::<K>()?;
    let mut events = informer.subscribe_with(HandlerOptions::new().resync(Duration::ZERO))?;
    // It may be the first to ask for this type.
    factory.start();
    let wait = async {
        informer.wait_for_sync().await?;
        while !is_so(informer.lister())? {
            events.next().await.context("the informer has stopped")?;
        }
        anyhow::Ok(())
    };
    timeout(WAIT_MAX, wait)
        .await
        .with_context(|| format!("after {} s, not yet: {what}", WAIT_MAX.as_secs()))?
}
