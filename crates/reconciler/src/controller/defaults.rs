//! Settings that several controllers share.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use windlass_indexer::ObjectKey;
use windlass_workqueue::RateLimiter;

use crate::history::finished::{FailedRun, OnError};

/// Settings for controllers that have none of their own. See
/// [`ControllerBuilder::defaults`](crate::ControllerBuilder::defaults).
#[derive(Clone, Default)]
#[must_use]
pub struct ControllerDefaults {
    pub(crate) workers: Option<usize>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) sync_timeout: Option<Duration>,
    pub(crate) limiter: Option<MakeLimiter>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) journal_bytes: Option<usize>,
    pub(crate) on_error: Option<OnError>,
}

/// Makes a limiter for each controller, because a limiter is not shared.
pub(crate) type MakeLimiter = Arc<dyn Fn() -> Box<dyn RateLimiter<ObjectKey>> + Send + Sync>;

impl ControllerDefaults {
    /// No settings: every controller has the defaults of its builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many keys of a controller run at once.
    pub fn workers(self, workers: usize) -> Self {
        Self { workers: Some(workers), ..self }
    }

    /// After which time a run is cancelled.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// How long caches may take to sync.
    pub fn sync_timeout(self, timeout: Duration) -> Self {
        Self { sync_timeout: Some(timeout), ..self }
    }

    /// How often a key that fails runs in a row before it is given up. See
    /// [`ControllerBuilder::max_attempts`](crate::ControllerBuilder::max_attempts).
    pub fn max_attempts(self, attempts: u32) -> Self {
        Self { max_attempts: Some(attempts), ..self }
    }

    /// How much memory the record of the runs of a controller may take. See
    /// [`ControllerBuilder::journal_bytes`](crate::ControllerBuilder::journal_bytes).
    pub fn journal_bytes(self, bytes: usize) -> Self {
        Self { journal_bytes: Some(bytes), ..self }
    }

    /// Is called with every run that failed. See
    /// [`ControllerBuilder::on_error`](crate::ControllerBuilder::on_error).
    pub fn on_error(self, hook: impl Fn(&FailedRun<'_>) + Send + Sync + 'static) -> Self {
        Self { on_error: Some(Arc::new(hook)), ..self }
    }

    /// Makes the limiter of each controller.
    pub fn limiter<L: RateLimiter<ObjectKey> + 'static>(
        self,
        limiter: impl Fn() -> L + Send + Sync + 'static,
    ) -> Self {
        Self { limiter: Some(Arc::new(move || Box::new(limiter()))), ..self }
    }

    /// These settings, and the others for what is not set here.
    pub(crate) fn or(self, others: Self) -> Self {
        Self {
            workers: self.workers.or(others.workers),
            timeout: self.timeout.or(others.timeout),
            sync_timeout: self.sync_timeout.or(others.sync_timeout),
            limiter: self.limiter.or(others.limiter),
            max_attempts: self.max_attempts.or(others.max_attempts),
            journal_bytes: self.journal_bytes.or(others.journal_bytes),
            on_error: self.on_error.or(others.on_error),
        }
    }
}

impl fmt::Debug for ControllerDefaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerDefaults")
            .field("workers", &self.workers)
            .field("timeout", &self.timeout)
            .field("sync_timeout", &self.sync_timeout)
            .finish_non_exhaustive()
    }
}
