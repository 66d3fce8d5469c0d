//! How often keys have failed: the queue's limiter, which is asked only if any has.
//!
//! Most keys never fail, and for each run it is asked how often its key has, and said that it has not. As long as none did, that
//! takes one look at a flag.

use std::time::Duration;

use tokio::time::Instant;

use crate::MAX_DELAY;
use crate::limiter::RateLimiter;
use crate::sync::{AtomicBool, Lock, Ordering};

pub(crate) struct Charges<K> {
    limiter: Lock<Box<dyn RateLimiter<K>>>,
    /// Set with the first failure, for good. Whoever has to know of that failure knows it by the queue's locks, or by the caller's
    /// own, and so sees the flag.
    has_any: AtomicBool,
}

impl<K> Charges<K> {
    pub(crate) fn new(limiter: Box<dyn RateLimiter<K>>) -> Self {
        Self { limiter: Lock::new(limiter), has_any: AtomicBool::new(false) }
    }

    /// Charges a key with a failure; returns how long it shall wait.
    pub(crate) fn charge(&self, key: &K) -> Duration {
        // A limiter is trusted with its delays, but not beyond the calendar.
        self.charge_as(key, |delay| delay.min(MAX_DELAY))
    }

    /// Charges a key with a failure, and lets it wait for `delay`, whatever the limiter says.
    pub(crate) fn charge_for(&self, key: &K, delay: Duration) {
        self.charge_as(key, |_| delay);
    }

    fn charge_as(&self, key: &K, granted: impl FnOnce(Duration) -> Duration) -> Duration {
        let now = Instant::now();
        self.has_any.store(true, Ordering::Relaxed);
        let mut limiter = self.limiter.lock();
        let delay = granted(limiter.next_delay(key, now));
        limiter.granted(key, now + delay);
        delay
    }

    pub(crate) fn forget(&self, key: &K) {
        if self.has_any.load(Ordering::Relaxed) {
            self.limiter.lock().forget(key);
        }
    }

    pub(crate) fn failures(&self, key: &K) -> u32 {
        if self.has_any.load(Ordering::Relaxed) { self.limiter.lock().failures(key) } else { 0 }
    }
}
