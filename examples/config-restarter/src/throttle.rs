//! How many workloads are restarted at once, over all kinds of them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use windlass::indexer::ObjectKey;
use windlass::workqueue::{InvalidConfig, RateLimiter as _, TokenBucket};

/// Spaces restarts. No worker waits: a workload is told how long, and comes back then.
///
/// A workload keeps its slot until it was written, so that coming back early, or failing, costs no
/// other one.
pub struct Throttle {
    state: Mutex<State>,
}

struct State {
    /// `None` if nothing has to wait.
    bucket: Option<TokenBucket>,
    /// The slots of the workloads that are not written yet, by controller and key.
    slots: HashMap<(String, ObjectKey), Instant>,
}

impl Throttle {
    /// So many restarts a second, after a burst that may happen at once. With an infinite rate,
    /// nothing waits.
    ///
    /// # Errors
    /// Returns an error if the rate is not positive, or the burst is zero.
    pub fn new(per_second: f64, burst: u32) -> Result<Self, InvalidConfig> {
        let bucket = if per_second == f64::INFINITY {
            None
        } else {
            // Every workload has one slot at most, so the bucket cannot be booked out for ever.
            Some(TokenBucket::new(per_second, burst)?.wait_max(Duration::MAX))
        };
        Ok(Self { state: Mutex::new(State { bucket, slots: HashMap::new() }) })
    }

    /// How long the workload has to wait from now on. Zero: it may be written.
    pub fn wait(&self, controller: &str, key: &ObjectKey, now: Instant) -> Duration {
        let State { bucket, slots } = &mut *self.lock();
        let Some(bucket) = bucket else { return Duration::ZERO };
        let slot = slots
            .entry((controller.to_owned(), key.clone()))
            .or_insert_with(|| now + bucket.next_delay(key, 1, now));
        slot.saturating_duration_since(now)
    }

    /// Forgets the slot of a workload: it was written, or need not be any more.
    pub fn release(&self, controller: &str, key: &ObjectKey) {
        self.lock().slots.remove(&(controller.to_owned(), key.clone()));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Throttle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttle").field("slots", &self.lock().slots.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> ObjectKey {
        ObjectKey::namespaced("shop", &number.to_string())
    }

    #[test]
    fn burst_is_immediate_and_the_rest_is_spaced_over_all_kinds() {
        let throttle = Throttle::new(1.0, 2).expect("valid");
        let now = Instant::now();
        let kinds = ["deployment", "statefulset", "daemonset", "deployment"];
        let waits = (0..4).zip(kinds).map(|(number, kind)| throttle.wait(kind, &key(number), now));
        let waits: Vec<u64> = waits.map(|wait| wait.as_secs()).collect();
        assert_eq!(waits, [0, 0, 1, 2]);
    }

    #[test]
    fn workload_keeps_its_slot_until_it_was_written() {
        let throttle = Throttle::new(1.0, 1).expect("valid");
        let now = Instant::now();
        let wait = |number, after| {
            let now = now + Duration::from_secs(after);
            throttle.wait("deployment", &key(number), now).as_secs()
        };
        assert_eq!([wait(1, 0), wait(2, 0), wait(2, 0), wait(3, 0)], [0, 1, 1, 2]);
        // Its time has come, and the write failed: the next one still has its own slot.
        assert_eq!([wait(2, 1), wait(2, 1), wait(3, 1)], [0, 0, 1]);
        throttle.release("deployment", &key(2));
        assert_eq!(wait(2, 1), 2);
    }

    #[test]
    fn infinite_rate_never_waits() {
        let throttle = Throttle::new(f64::INFINITY, 1).expect("valid");
        let now = Instant::now();
        assert!((0..1_000).all(|number| throttle.wait("deployment", &key(number), now).is_zero()));
    }

    #[test]
    fn slots_are_spaced_however_far_ahead_they_are() {
        let throttle = Throttle::new(1.0, 1).expect("valid");
        let now = Instant::now();
        let waits =
            (0..5_000).map(|number| throttle.wait("deployment", &key(number), now).as_secs());
        assert!(waits.eq(0..5_000));
    }

    #[test]
    fn limits_that_are_none_are_refused() {
        for (rate, burst) in [(0.0, 1), (-1.0, 1), (f64::NEG_INFINITY, 1), (f64::NAN, 1), (1.0, 0)]
        {
            assert!(Throttle::new(rate, burst).is_err(), "{rate} {burst}");
        }
    }
}
