//! A limiter whose delays are cut.

use std::time::Duration;

use tokio::time::Instant;

use super::RateLimiter;

/// Another limiter's delay, but never more than `max`.
///
/// A bucket that has reserved slots far in the future is cut as well: with it, keys beyond `max` come
/// together at that time, and the rate is no longer kept.
#[derive(Debug)]
pub struct MaxWait<L> {
    inner: L,
    max: Duration,
}

impl<L> MaxWait<L> {
    /// Cuts the delays of `inner` at `max`.
    #[must_use]
    pub fn new(inner: L, max: Duration) -> Self {
        Self { inner, max }
    }
}

impl<K, L: RateLimiter<K>> RateLimiter<K> for MaxWait<L> {
    fn next_delay(&mut self, key: &K, now: Instant) -> Duration {
        self.inner.next_delay(key, now).min(self.max)
    }

    fn granted(&mut self, key: &K, until: Instant) {
        self.inner.granted(key, until);
    }

    fn forget(&mut self, key: &K) {
        self.inner.forget(key);
    }

    fn failures(&self, key: &K) -> u32 {
        self.inner.failures(key)
    }

    fn has_failures(&self) -> bool {
        self.inner.has_failures()
    }
}
