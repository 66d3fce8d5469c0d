//! Exponential backoff of each key.

use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use super::RateLimiter;
use super::failures::Failures;
use crate::{InvalidConfig, MAX_DELAY};

/// The first delay of client-go's default limiter.
const BASE_DEFAULT: Duration = Duration::from_millis(5);

/// The longest delay of client-go's default limiter.
const MAX_DEFAULT: Duration = Duration::from_secs(1_000);

/// The delay doubles with each failure of the key: `base`, 2 × `base`, 4 × `base` … up to `max`.
///
/// A key is charged at most one failure per backoff window: if something runs it early and it fails
/// again, it is told the rest of the window it already has. A key's record is dropped by
/// [`forget`](RateLimiter::forget), or when it has not failed for an hour (or for `max`, if that is
/// longer) after its window.
#[derive(Debug)]
pub struct Exponential<K> {
    failures: Failures<K>,
    base: Duration,
    max: Duration,
}

impl<K: Eq + Hash + Clone> Exponential<K> {
    /// A backoff from `base` to `max`.
    ///
    /// # Errors
    /// If `base` is zero or above `max`, or `max` is above [`MAX_DELAY`].
    pub fn new(base: Duration, max: Duration) -> Result<Self, InvalidConfig> {
        if base.is_zero() || base > max {
            return Err(InvalidConfig::Backoff { base, max });
        }
        if max > MAX_DELAY {
            return Err(InvalidConfig::DelayTooLong { delay: max });
        }
        Ok(Self { failures: Failures::new(max), base, max })
    }
}

/// From 5 ms to 1000 s, as in client-go.
impl<K: Eq + Hash + Clone> Default for Exponential<K> {
    fn default() -> Self {
        Self::new(BASE_DEFAULT, MAX_DEFAULT).expect("the defaults must be valid")
    }
}

impl<K: Eq + Hash + Clone + Send> RateLimiter<K> for Exponential<K> {
    fn next_delay(&mut self, key: &K, now: Instant) -> Duration {
        let (base, max) = (self.base, self.max);
        self.failures.charge(key, now, |before| {
            // Sixty-four doublings of a nanosecond pass any maximum, so cutting there changes nothing.
            let factor = 1_u128 << before.min(64);
            let nanos = base.as_nanos().saturating_mul(factor).min(max.as_nanos());
            Duration::from_nanos_u128(nanos)
        })
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
