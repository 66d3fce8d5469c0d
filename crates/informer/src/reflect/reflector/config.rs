//! How a reflector is set up.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::BackoffConfig;

/// How a reflector is set up. Every setting has a default.
///
/// ```
/// use std::time::Duration;
/// use windlass_informer::{BackoffConfig, ReflectorConfig};
///
/// let config = ReflectorConfig::default()
///     .seed(42)
///     .audit(Some(Duration::from_secs(3_600)))
///     .backoff(BackoffConfig::default().max(Duration::from_secs(10)));
/// # let _ = config;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReflectorConfig {
    pub(super) page_size: u32,
    pub(super) stall: Duration,
    pub(super) watch_timeout: RangeInclusive<Duration>,
    pub(super) idle_grace: Duration,
    pub(super) doubt: Duration,
    pub(super) backoff: BackoffConfig,
    pub(super) audit: Option<Duration>,
    pub(super) seed: u64,
}

impl ReflectorConfig {
    /// How many objects a page of a list has, where the server cannot stream a list; 0 for no pages. By default
    /// 500, as client-go has it.
    #[must_use]
    pub fn page_size(self, page_size: u32) -> Self {
        Self { page_size, ..self }
    }

    /// How long a list may make no progress, and how long an answer may take to begin. By default 30 s.
    #[must_use]
    pub fn stall(self, stall: Duration) -> Self {
        Self { stall, ..self }
    }

    /// After what time the server is to end a watch, drawn anew for each, so that the watches of a fleet do not
    /// end together. By default 5 to 10 min, as client-go has it. Shorter where watches are [cut](super::Reflector::cut_after)
    /// for their silence.
    #[must_use]
    pub fn watch_timeout(self, watch_timeout: RangeInclusive<Duration>) -> Self {
        Self { watch_timeout, ..self }
    }

    /// How long after its time a watch may live before its connection counts as dead. By default 30 s.
    #[must_use]
    pub fn idle_grace(self, idle_grace: Duration) -> Self {
        Self { idle_grace, ..self }
    }

    /// How long a watch may bring nothing that was resumed after the server had been away, or the connection had
    /// broken, before everything is listed again. By default 2 min: a real server sends a bookmark every minute.
    ///
    /// A cluster that was restored from a backup meanwhile is why: to a resumed watch it sends neither an error
    /// nor an event until it has grown past the version that was asked for, which may take days.
    #[must_use]
    pub fn doubt(self, doubt: Duration) -> Self {
        Self { doubt, ..self }
    }

    /// How to wait after failures.
    #[must_use]
    pub fn backoff(self, backoff: BackoffConfig) -> Self {
        Self { backoff, ..self }
    }

    /// After how long a time of watching everything is listed and compared, plus up to a tenth of it, drawn
    /// anew each time. By default never.
    #[must_use]
    pub fn audit(self, audit: Option<Duration>) -> Self {
        Self { audit, ..self }
    }

    /// What jitter and timeouts are drawn from. By default 0: give each reflector of a fleet its own, or they
    /// all wait for the same times.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }
}

impl Default for ReflectorConfig {
    fn default() -> Self {
        Self {
            page_size: 500,
            stall: Duration::from_secs(30),
            watch_timeout: Duration::from_mins(5)..=Duration::from_mins(10),
            idle_grace: Duration::from_secs(30),
            doubt: Duration::from_mins(2),
            backoff: BackoffConfig::default(),
            audit: None,
            seed: 0,
        }
    }
}
