//! The settings of a reflector.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::backoff::BackoffConfig;

/// How an informer lists, watches and retries. Every setting has a default.
///
/// ```
/// use std::time::Duration;
/// use windlass_informer::{BackoffConfig, ReflectorConfig};
///
/// let config = ReflectorConfig::default()
///     .page_size(1_000)
///     .backoff(BackoffConfig::default().max(Duration::from_secs(10)));
/// # let _ = config;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReflectorConfig {
    pub(super) page_size: u32,
    pub(super) stall: Duration,
    pub(super) watch_timeout: RangeInclusive<Duration>,
    pub(super) idle_grace: Duration,
    pub(super) outage_silence: Duration,
    pub(super) backoff: BackoffConfig,
    pub(super) audit: Option<Duration>,
}

impl ReflectorConfig {
    /// How many objects a page of a list has, where the server cannot stream a list; 0 for no
    /// pages. Default: 500, as in client-go.
    #[must_use]
    pub fn page_size(self, page_size: u32) -> Self {
        Self { page_size, ..self }
    }

    /// How long a list may make no progress, and how long an answer may take to begin. Default:
    /// 30 s.
    #[must_use]
    pub fn stall(self, stall: Duration) -> Self {
        Self { stall, ..self }
    }

    /// After what time the server is asked to end a watch. It is drawn for each watch, so that the
    /// watches of a fleet do not end together. Default: 5 to 10 min, as in client-go. It is shorter
    /// where a proxy cuts silent watches.
    #[must_use]
    pub fn watch_timeout(self, watch_timeout: RangeInclusive<Duration>) -> Self {
        Self { watch_timeout, ..self }
    }

    /// How long a watch may outlive its timeout before its connection counts as dead. Default:
    /// 30 s.
    #[must_use]
    pub fn idle_grace(self, idle_grace: Duration) -> Self {
        Self { idle_grace, ..self }
    }

    /// How long a watch that was resumed after an outage may bring nothing, before everything is
    /// listed again. Default: 2 min, because a real server sends a bookmark every minute.
    ///
    /// The reason is a cluster that was restored from a backup meanwhile: to a resumed watch it
    /// sends neither an error nor an event until it has grown past the version that the watch
    /// asked for, which may take days.
    #[must_use]
    pub fn outage_silence(self, outage_silence: Duration) -> Self {
        Self { outage_silence, ..self }
    }

    /// How to wait after failures.
    #[must_use]
    pub fn backoff(self, backoff: BackoffConfig) -> Self {
        Self { backoff, ..self }
    }

    /// After how long a watch everything is listed and compared, plus up to a tenth of it, drawn
    /// each time. Default: never.
    #[must_use]
    pub fn audit(self, audit: Option<Duration>) -> Self {
        Self { audit, ..self }
    }
}

impl Default for ReflectorConfig {
    fn default() -> Self {
        Self {
            page_size: 500,
            stall: Duration::from_secs(30),
            watch_timeout: Duration::from_mins(5)..=Duration::from_mins(10),
            idle_grace: Duration::from_secs(30),
            outage_silence: Duration::from_mins(2),
            backoff: BackoffConfig::default(),
            audit: None,
        }
    }
}
