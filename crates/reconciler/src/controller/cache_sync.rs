//! Waiting for the caches of a controller, before its first run.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::Ordering;
use std::time::Duration;

use fastrand::Rng;
use futures::future::join_all;
use tokio::time::{Instant, sleep, timeout_at};
use windlass_indexer::ObjectType;

use super::Controller;
use crate::controller::run_error::RunError;
use crate::sources::source::Source;

/// How often a controller that waits for a cache repeats why the cache cannot sync.
const TROUBLE_EVERY: Duration = Duration::from_secs(10);

/// After a failover, a cache is compared with the server. How long to wait if that fails, at first
/// and at most.
const CHECK_RETRY_MIN: Duration = Duration::from_millis(250);
const CHECK_RETRY_MAX: Duration = Duration::from_secs(30);

/// Longer sync timeouts are capped at this, because adding them to an `Instant` may overflow.
const SYNC_TIMEOUT_MAX: Duration = Duration::from_hours(24 * 365);

impl<K: ObjectType> Controller<K> {
    /// Starts the informers, and waits until all of their caches and handlers are synced, at most
    /// for the [sync timeout](crate::ControllerBuilder::sync_timeout).
    ///
    /// # Errors
    /// Returns an error if a cache does not sync in time, or an informer has stopped.
    ///
    /// # Cancel safety
    /// If it is dropped, the informers go on.
    pub async fn wait_for_sync(&self) -> Result<(), RunError> {
        self.core().factory.start();
        let began = Instant::now();
        let deadline = began + self.sync_timeout.min(SYNC_TIMEOUT_MAX);
        let sources = self.core().sources.all();
        for source in sources.into_iter().filter(|source| !source.is_late) {
            let synced = async {
                tokio::select! {
                    biased;
                    synced = source.wait_for_sync() => synced,
                    never = self.warn_of_trouble(&source) => match never {},
                }
            };
            match timeout_at(deadline, synced).await {
                Ok(true) => {}
                // The source was removed meanwhile.
                Ok(false) if source.removed.is_cancelled() => {}
                Ok(false) => return Err(RunError::ended(source.cache.status())),
                Err(_) => {
                    return Err(RunError::not_synced(&source.cache.status(), self.sync_timeout));
                }
            }
        }
        // Once: a manager waits for the caches before it runs the controller, which waits again.
        if !self.is_synced.swap(true, Ordering::Relaxed) {
            let (objects, took) = (self.lister().len(), began.elapsed());
            tracing::info!(controller = self.name(), objects, ?took, "the caches are complete");
        }
        Ok(())
    }

    /// After a failover, waits until all caches show what the server has. Each of them counts as
    /// behind until it does.
    pub(super) async fn catch_up(&self) {
        let (began, mut sources) = (Instant::now(), self.core().sources.all());
        sources.retain(|source| source.is_catching_up());
        if sources.is_empty() {
            return;
        }
        // Sources of the same informer are checked once.
        let mut sharing: Vec<Vec<&Source>> = Vec::new();
        for source in &sources {
            let known =
                |others: &&mut Vec<&Source>| others[0].cache.is_of_same_cache(&source.cache);
            match sharing.iter_mut().find(known) {
                Some(others) => others.push(source),
                None => sharing.push(vec![source]),
            }
        }
        join_all(sharing.iter().map(|sources| self.catch_up_cache(sources))).await;
        let (controller, took) = (self.name(), began.elapsed());
        tracing::info!(controller, ?took, "the caches show what the last leader has written");
    }

    /// Waits until the cache of these sources shows what the server has, or is not used any more.
    async fn catch_up_cache(&self, sources: &[&Source]) {
        let cache = &sources[0].cache;
        let (controller, resource) = (self.name(), cache.resource());
        let caught_up = async {
            // Nobody waits for the cache of a source that was added late.
            if !cache.has_synced() {
                return;
            }
            // By the names, so that caches that fail together are not tried again together.
            let mut seed = DefaultHasher::new();
            (controller, resource.to_string()).hash(&mut seed);
            let mut random = Rng::with_seed(seed.finish());
            let mut pause = CHECK_RETRY_MIN;
            while let Err(error) = cache.wait_until_current().await {
                tracing::warn!(controller, %resource, %error, "a cache cannot be checked; retrying");
                let least = error.retry_after().unwrap_or_default().max(pause / 2);
                sleep(least + (pause / 2).mul_f64(random.f64())).await;
                pause = CHECK_RETRY_MAX.min(2 * pause);
            }
        };
        let all_removed = join_all(sources.iter().map(|source| source.removed.cancelled()));
        tokio::select! {
            biased;
            () = caught_up => {}
            _ = all_removed => {}
        }
        for source in sources {
            source.set_catching_up(false);
        }
    }

    /// Warns while the server refuses to list or watch a source. Never returns.
    async fn warn_of_trouble(&self, source: &Source) -> Infallible {
        let mut pause = Duration::from_secs(1);
        loop {
            sleep(pause).await;
            if let Some(trouble) = RunError::trouble(&source.cache.status()) {
                let controller = &*self.core().controller;
                tracing::warn!(controller, "no object is reconciled before the cache of {trouble}");
                pause = TROUBLE_EVERY;
            }
        }
    }
}
