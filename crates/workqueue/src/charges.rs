//! How often keys have failed: the queue's limiter, which is asked only while it has something to tell.
//!
//! For each run it is asked how often its key has failed, and told that it has not this time. Mostly no key has, and then that
//! takes one look at a flag.

use std::time::Duration;

use tokio::time::Instant;

use crate::MAX_DELAY;
use crate::limiter::RateLimiter;
use crate::sync::{AtomicBool, Lock, Ordering};

pub(crate) struct Charges<K> {
    limiter: Lock<Box<dyn RateLimiter<K>>>,
    /// Whether the limiter [has failures](RateLimiter::has_failures). Written with the limiter locked. Whoever has to know of a failure
    /// knows of it by the queue's locks, or by the caller's own, and so sees the flag.
    has_any: AtomicBool,
}

impl<K> Charges<K> {
    pub(crate) fn new(limiter: Box<dyn RateLimiter<K>>) -> Self {
        let has_any = AtomicBool::new(limiter.has_failures());
        Self { limiter: Lock::new(limiter), has_any }
    }

    /// Charges a key with a failure; returns how long it shall wait.
    pub(crate) fn charge(&self, key: &K) -> Duration {
        // A limiter is trusted with its delays, but not beyond the calendar.
        self.charge_and_cut(key, |delay| delay.min(MAX_DELAY))
    }

    /// Charges a key with a failure, and lets it wait for `delay`, whatever the limiter says.
    pub(crate) fn charge_for(&self, key: &K, delay: Duration) {
        self.charge_and_cut(key, |_| delay);
    }

    fn charge_and_cut(&self, key: &K, cut: impl FnOnce(Duration) -> Duration) -> Duration {
        let now = Instant::now();
        let mut limiter = self.limiter.lock();
        self.has_any.store(true, Ordering::Relaxed);
        let delay = cut(limiter.next_delay(key, now));
        limiter.granted(key, now + delay);
        delay
    }

    pub(crate) fn forget(&self, key: &K) {
        if self.has_any.load(Ordering::Relaxed) {
            let mut limiter = self.limiter.lock();
            limiter.forget(key);
            self.has_any.store(limiter.has_failures(), Ordering::Relaxed);
        }
    }

    pub(crate) fn failures(&self, key: &K) -> u32 {
        if self.has_any.load(Ordering::Relaxed) { self.limiter.lock().failures(key) } else { 0 }
    }

    /// Looks up many keys at one moment.
    pub(crate) fn look_up<'k>(&self, keys: impl Iterator<Item = (&'k K, &'k mut u32)>)
    where
        K: 'k,
    {
        let limiter = self.limiter.lock();
        for (key, failures) in keys {
            *failures = limiter.failures(key);
        }
    }
}
