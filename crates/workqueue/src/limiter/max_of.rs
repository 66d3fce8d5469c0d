//! The longest delay of several limiters.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use super::{Exponential, RateLimiter, TokenBucket};
use crate::InvalidConfig;

/// The rate of client-go's default bucket.
const RATE_DEFAULT: f64 = 10.0;

/// The burst of client-go's default bucket.
const BURST_DEFAULT: u32 = 100;

/// Calls several limiters and takes the longest delay.
///
/// Each limiter is called every time, so that each books its slot.
pub struct MaxOf<K> {
    limiters: Vec<Box<dyn RateLimiter<K>>>,
}

impl<K> MaxOf<K> {
    /// The longest of these limiters' delays.
    ///
    /// # Errors
    /// If there is none.
    pub fn new(limiters: Vec<Box<dyn RateLimiter<K>>>) -> Result<Self, InvalidConfig> {
        if limiters.is_empty() {
            return Err(InvalidConfig::NoLimiters);
        }
        Ok(Self { limiters })
    }
}

/// client-go's default for controllers: the longer of [`Exponential::default`] for the key and a
/// bucket of ten a second with a burst of one hundred for all keys.
impl<K> Default for MaxOf<K> {
    fn default() -> Self {
        let bucket = TokenBucket::new(RATE_DEFAULT, BURST_DEFAULT);
        Self {
            limiters: vec![
                Box::new(Exponential::default()),
                Box::new(bucket.expect("the defaults must be valid")),
            ],
        }
    }
}

impl<K> RateLimiter<K> for MaxOf<K> {
    fn next_delay(&mut self, key: &K, failures: u32, now: Instant) -> Duration {
        let delays = self.limiters.iter_mut().map(|limiter| limiter.next_delay(key, failures, now));
        delays.max().unwrap_or_default()
    }

    fn debt(&self, now: Instant) -> Duration {
        self.limiters.iter().map(|limiter| limiter.debt(now)).max().unwrap_or_default()
    }
}

impl<K> fmt::Debug for MaxOf<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaxOf").field("limiters", &self.limiters.len()).finish()
    }
}
