//! How often keys have failed, and how long they wait: the failure counts and the limiter.
//!
//! Lock order: `limiter` before `failures`. The limiter is the user's code, so it runs without the
//! lock of the failure counts and without the lock of the queue. Keys are dropped without any lock.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::MAX_DELAY;
use crate::failures::{DelaySource, Failures};
use crate::guard::guarded;
use crate::limiter::{Exponential, RateLimiter};
use crate::sync::Lock;

pub(crate) struct Retries<K> {
    /// The queue's name, for log lines.
    queue: Arc<str>,
    /// Locked while a failure is counted, so that concurrent failures of one key get one delay.
    limiter: Lock<Box<dyn RateLimiter<K>>>,
    failures: Lock<Failures<K>>,
    /// The number of keys in `failures`, so that a success locks nothing while no key fails.
    failed_keys: AtomicUsize,
}

impl<K: Eq + Hash + Clone> Retries<K> {
    pub(crate) fn new(queue: Arc<str>, limiter: Box<dyn RateLimiter<K>>) -> Self {
        let failures = Lock::new(Failures::new());
        Self { queue, limiter: Lock::new(limiter), failures, failed_keys: AtomicUsize::new(0) }
    }

    /// Counts a failure of a key. Returns how long the key waits. If a window of the limiter is
    /// open, that is the rest of it; nothing is counted and the limiter is not called.
    pub(crate) fn count_failure(&self, key: &K) -> Duration {
        let now = Instant::now();
        let mut limiter = self.limiter.lock();
        let failures = self.failures.lock();
        if let Some(wait) = failures.remaining_backoff(key, now) {
            return wait;
        }
        let number = failures.next_count(key, DelaySource::Limiter, now);
        drop(failures);
        let consequence = "the key waits for the default backoff instead";
        let delay =
            guarded(&self.queue, "limiter", consequence, || limiter.next_delay(key, number, now));
        let delay = delay.unwrap_or_else(|| Exponential::default().next_delay(key, number, now));
        // The longest delay that an add accepts.
        let delay = delay.min(MAX_DELAY);
        let mut failures = self.failures.lock();
        // Again, because the key may have succeeded since.
        let number = failures.next_count(key, DelaySource::Limiter, now);
        let forgotten = failures.record(key, number, DelaySource::Limiter, now, delay);
        self.update_failed_keys(&failures);
        drop(failures);
        drop(limiter);
        drop(forgotten);
        delay
    }

    /// Counts a failure of a key that waits for `delay`. The limiter is not called.
    pub(crate) fn count_failure_with_delay(&self, key: &K, delay: Duration) {
        let now = Instant::now();
        let mut failures = self.failures.lock();
        let number = failures.next_count(key, DelaySource::Caller, now);
        let forgotten = failures.record(key, number, DelaySource::Caller, now, delay);
        self.update_failed_keys(&failures);
        drop(failures);
        drop(forgotten);
    }

    pub(crate) fn forget(&self, key: &K) {
        // `Relaxed` is enough: a failure that happened before this call has stored the number
        // already.
        if self.failed_keys.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut failures = self.failures.lock();
        let forgotten = failures.forget(key);
        self.update_failed_keys(&failures);
        drop(failures);
        drop(forgotten);
    }

    fn update_failed_keys(&self, failures: &Failures<K>) {
        self.failed_keys.store(failures.len(), Ordering::Relaxed);
    }

    pub(crate) fn failures(&self, key: &K) -> u32 {
        self.failures.lock().count(key, Instant::now())
    }

    /// How long until the limiter has a free slot.
    pub(crate) fn debt(&self) -> Duration {
        let limiter = self.limiter.lock();
        let consequence = "its debt is shown as zero";
        let debt = guarded(&self.queue, "limiter", consequence, || limiter.debt(Instant::now()));
        debt.unwrap_or_default()
    }
}
