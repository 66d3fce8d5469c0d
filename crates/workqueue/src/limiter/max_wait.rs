//! Caps the delays of another limiter.

use std::time::Duration;

use tokio::time::Instant;

use super::RateLimiter;

/// Another limiter's delay, but never more than `max`.
///
/// A bucket still books slots beyond `max`, so delays that are capped no longer keep its rate.
/// To bound how far ahead a bucket books, use
/// [`TokenBucket::wait_max`](super::TokenBucket::wait_max).
#[derive(Debug)]
pub struct MaxWait<L> {
    inner: L,
    max: Duration,
}

impl<L> MaxWait<L> {
    /// Caps the delays of `inner` at `max`.
    #[must_use]
    pub fn new(inner: L, max: Duration) -> Self {
        Self { inner, max }
    }
}

impl<K, L: RateLimiter<K>> RateLimiter<K> for MaxWait<L> {
    fn next_delay(&mut self, key: &K, failures: u32, now: Instant) -> Duration {
        self.inner.next_delay(key, failures, now).min(self.max)
    }

    fn debt(&self, now: Instant) -> Duration {
        self.inner.debt(now)
    }
}
