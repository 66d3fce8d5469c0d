//! Exponential backoff of each key.

use std::time::Duration;

use tokio::time::Instant;

use super::RateLimiter;
use crate::{InvalidConfig, MAX_DELAY};

/// The first delay of client-go's default limiter.
const BASE_DEFAULT: Duration = Duration::from_millis(5);

/// The longest delay of client-go's default limiter.
pub(super) const MAX_DEFAULT: Duration = Duration::from_secs(1_000);

/// The delay doubles with each failure of the key: `base`, 2 × `base`, 4 × `base` … up to `max`.
#[derive(Clone, Debug)]
pub struct Exponential {
    base: Duration,
    max: Duration,
}

impl Exponential {
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
        Ok(Self { base, max })
    }
}

/// From 5 ms to 1000 s, as in client-go.
impl Default for Exponential {
    fn default() -> Self {
        Self::new(BASE_DEFAULT, MAX_DEFAULT).expect("the defaults must be valid")
    }
}

impl<K> RateLimiter<K> for Exponential {
    fn next_delay(&mut self, _key: &K, failures: u32, _now: Instant) -> Duration {
        // After 64 doublings, even a base of one nanosecond is above any maximum.
        let factor = 1_u128 << failures.saturating_sub(1).min(64);
        let nanos = self.base.as_nanos().saturating_mul(factor).min(self.max.as_nanos());
        Duration::from_nanos_u128(nanos)
    }
}
