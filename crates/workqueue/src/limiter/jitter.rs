//! Random spread, so that keys that failed together do not come back together.

use std::time::Duration;

use tokio::time::Instant;

use super::RateLimiter;
use crate::{InvalidConfig, MAX_DELAY};

/// Another limiter's delay plus a random share of it, between nothing and `factor`.
///
/// The randomness comes from a seed: the same calls give the same delays.
#[derive(Debug)]
pub struct Jitter<L> {
    inner: L,
    factor: f64,
    random: fastrand::Rng,
}

impl<L> Jitter<L> {
    /// Adds up to `factor` × the delay of `inner`. The `seed` determines the sequence: use a random
    /// one in production and a fixed one in a test.
    ///
    /// # Errors
    /// If `factor` does not lie between 0 and 1.
    pub fn new(inner: L, factor: f64, seed: u64) -> Result<Self, InvalidConfig> {
        if !(0.0..=1.0).contains(&factor) {
            return Err(InvalidConfig::Jitter { factor });
        }
        Ok(Self { inner, factor, random: fastrand::Rng::with_seed(seed) })
    }
}

impl<K, L: RateLimiter<K>> RateLimiter<K> for Jitter<L> {
    fn next_delay(&mut self, key: &K, failures: u32, now: Instant) -> Duration {
        let delay = self.inner.next_delay(key, failures, now);
        // Capped, because `mul_f64` panics if it overflows. The queue accepts no longer delay.
        let share = delay.min(MAX_DELAY).mul_f64(self.factor * self.random.f64());
        delay.saturating_add(share)
    }

    fn debt(&self, now: Instant) -> Duration {
        self.inner.debt(now)
    }
}
