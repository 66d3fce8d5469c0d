//! How often keys have failed, and how long they wait for that: the queue's count and its limiter.
//!
//! For each run the queue asks how often its key has failed, and says so if it has not this time.
//! Mostly no key has failed, and then both are one look at a flag.

use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use crate::MAX_DELAY;
use crate::failures::Failures;
use crate::guard::guarded;
use crate::limiter::{Exponential, RateLimiter};
use crate::sync::{Arc, AtomicBool, Lock, Ordering};

pub(crate) struct Charges<K> {
    /// The queue's name, for log lines.
    queue: Arc<str>,
    state: Lock<State<K>>,
    /// Whether any key has failures. Written with the state locked. Whoever has to know of a
    /// failure knows of it by the queue's locks, or by the caller's own, and so sees the flag.
    has_any: AtomicBool,
}

struct State<K> {
    failures: Failures<K>,
    limiter: Box<dyn RateLimiter<K>>,
}

impl<K: Eq + Hash + Clone> Charges<K> {
    pub(crate) fn new(queue: Arc<str>, limiter: Box<dyn RateLimiter<K>>) -> Self {
        let state = State { failures: Failures::new(), limiter };
        Self { queue, state: Lock::new(state), has_any: AtomicBool::new(false) }
    }

    /// Counts a failure of a key; returns how long the key waits. The limiter is asked only if the
    /// key does not wait already.
    pub(crate) fn charge(&self, key: &K) -> Duration {
        let now = Instant::now();
        let mut state = self.state.lock();
        let State { failures, limiter } = &mut *state;
        let ask = |number| {
            let instead = "the key waits for the default backoff instead";
            let delay =
                guarded(&self.queue, "limiter", instead, || limiter.next_delay(key, number, now));
            let delay =
                delay.unwrap_or_else(|| Exponential::default().next_delay(key, number, now));
            // A limiter is trusted with its delays, but not beyond the calendar.
            delay.min(MAX_DELAY)
        };
        let delay = failures.charge(key, now, ask);
        self.has_any.store(true, Ordering::Relaxed);
        delay
    }

    /// Counts a failure of a key that waits for `delay`; the limiter is not asked.
    pub(crate) fn charge_for(&self, key: &K, delay: Duration) {
        let now = Instant::now();
        let mut state = self.state.lock();
        state.failures.charge_for(key, now, delay);
        self.has_any.store(true, Ordering::Relaxed);
    }

    pub(crate) fn forget(&self, key: &K) {
        if self.has_any.load(Ordering::Relaxed) {
            let mut state = self.state.lock();
            state.failures.forget(key);
            self.has_any.store(state.failures.has_any(), Ordering::Relaxed);
        }
    }

    pub(crate) fn failures(&self, key: &K) -> u32 {
        if self.has_any.load(Ordering::Relaxed) { self.state.lock().failures.count(key) } else { 0 }
    }

    /// Looks up many keys at one moment.
    pub(crate) fn look_up<'k>(&self, keys: impl Iterator<Item = (&'k K, &'k mut u32)>)
    where
        K: 'k,
    {
        let state = self.state.lock();
        for (key, failures) in keys {
            *failures = state.failures.count(key);
        }
    }

    /// How far ahead the limiter is booked.
    pub(crate) fn debt(&self) -> Duration {
        let limiter = &self.state.lock().limiter;
        let debt = guarded(&self.queue, "limiter", "its debt is shown as zero", || {
            limiter.debt(Instant::now())
        });
        debt.unwrap_or_default()
    }
}
