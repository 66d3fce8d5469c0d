//! The settings of a reflector.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::backoff::BackoffConfig;

/// How an informer lists, watches and retries.
///
/// ```
/// use std::time::Duration;
/// use windlass_informer::{BackoffConfig, ReflectorConfig};
///
/// let backoff = BackoffConfig { max: Duration::from_secs(10), ..BackoffConfig::default() };
/// let config = ReflectorConfig { page_size: 1_000, backoff, ..ReflectorConfig::default() };
/// # let _ = config;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReflectorConfig {
    /// How many objects a page of a list has, where the server cannot stream a list; 0 for no
    /// pages. Default: 500, as in client-go.
    pub page_size: u32,
    /// How long a list may make no progress, and how long an answer may take to begin. Default:
    /// 30 s.
    pub stall: Duration,
    /// The `timeoutSeconds` of watches. It is chosen at random for each watch, so that the watches
    /// of a fleet do not end together. Default: 5 to 10 min, as in client-go. It is shorter where a
    /// proxy cuts idle watches.
    pub watch_timeout: RangeInclusive<Duration>,
    /// How long a watch may outlive its timeout before its connection counts as dead. Default:
    /// 30 s.
    pub idle_grace: Duration,
    /// How long a watch that was resumed after an outage may deliver nothing, before everything is
    /// listed again. Default: 2 min, because a real server sends a bookmark every minute.
    ///
    /// The reason is a cluster restored from a backup during the outage: it sends a resumed watch
    /// neither an error nor an event until it has grown past the version that the watch asked for,
    /// which may take days.
    pub outage_silence: Duration,
    /// How to wait after failures.
    pub backoff: BackoffConfig,
    /// How long after a list everything is listed again and compared with the cache. A random part
    /// of up to 10 % is added each time. Default: `None`, which means never.
    pub audit: Option<Duration>,
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
