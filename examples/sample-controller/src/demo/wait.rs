//! Waiting for what must follow, by the caches that the controllers have: no polling, and no time
//! but a bound.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::Resource;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use windlass::indexer::{DecodeError, Lister};
use windlass::informer::{HandlerOptions, Scope};

use super::Demo;

/// How long anything may take. It takes milliseconds; beyond this something is broken, and saying
/// so beats waiting.
const WAIT_MAX: Duration = Duration::from_secs(30);

impl Demo {
    /// Waits until it is so, of the objects of a type. `what` is for people, if it never is.
    pub(crate) async fn until<K>(
        &self,
        what: &str,
        is_so: impl Fn(&Lister<K>) -> Result<bool, DecodeError>,
    ) -> Result<()>
    where
        K: Resource<DynamicType = (), Scope: Scope> + DeserializeOwned + Send + Sync + 'static,
    {
        let informer = self.factory.informer::<K>()?;
        // It may be the first to ask for this type.
        self.factory.start();
        let mut events = informer.subscribe_with(HandlerOptions::new().resync(Duration::ZERO))?;
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
}
