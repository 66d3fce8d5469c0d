//! A few quick retries, then slow ones.

use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use super::RateLimiter;
use super::failures::Failures;
use crate::{InvalidConfig, MAX_DELAY};

/// The first `fast_attempts` failures of a key wait `fast`, all later ones `slow`.
///
/// Failures are charged and dropped as by [`Exponential`](super::Exponential).
#[derive(Debug)]
pub struct FastSlow<K> {
    failures: Failures<K>,
    fast: Duration,
    slow: Duration,
    fast_attempts: u32,
}

impl<K: Eq + Hash + Clone> FastSlow<K> {
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
        Ok(Self { failures: Failures::new(slow), fast, slow, fast_attempts })
    }
}

impl<K: Eq + Hash + Clone + Send> RateLimiter<K> for FastSlow<K> {
    fn next_delay(&mut self, key: &K, now: Instant) -> Duration {
        let (fast, slow, fast_attempts) = (self.fast, self.slow, self.fast_attempts);
        self.failures.charge(key, now, |before| if before < fast_attempts { fast } else { slow })
    }

    fn granted(&mut self, key: &K, until: Instant) {
        self.failures.grant(key, until);
    }

    fn forget(&mut self, key: &K) {
        self.failures.forget(key);
    }

    fn failures(&self, key: &K) -> u32 {
        self.failures.count(key)
    }

    fn has_failures(&self) -> bool {
        self.failures.has_any()
    }
}
