//! A few quick retries, then slow ones.

use std::time::Duration;

use tokio::time::Instant;

use super::RateLimiter;
use crate::{InvalidConfig, MAX_DELAY};

/// The first `fast_attempts` failures of a key wait `fast`, all later ones `slow`.
#[derive(Clone, Debug)]
pub struct FastSlow {
    fast: Duration,
    slow: Duration,
    fast_attempts: u32,
}

impl FastSlow {
    /// `fast` for the first `fast_attempts` failures, then `slow`.
    ///
    /// # Errors
    /// If `fast` is above `slow`, or `slow` above [`MAX_DELAY`].
    pub fn new(fast: Duration, slow: Duration, fast_attempts: u32) -> Result<Self, InvalidConfig> {
        if fast > slow {
            return Err(InvalidConfig::Backoff { base: fast, max: slow });
        }
        if slow > MAX_DELAY {
            return Err(InvalidConfig::DelayTooLong { delay: slow });
        }
        Ok(Self { fast, slow, fast_attempts })
    }
}

impl<K> RateLimiter<K> for FastSlow {
    fn next_delay(&mut self, _key: &K, failures: u32, _now: Instant) -> Duration {
        if failures <= self.fast_attempts { self.fast } else { self.slow }
    }
}
