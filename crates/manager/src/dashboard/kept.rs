//! An answer that is expensive to make, kept for a while and shared between requests.
//!
//! Making it takes about 1 % of a core: it is kept for a hundred times as long as it took to make,
//! but for a minute at most. It is dropped then: a snapshot of a large queue must not stay when
//! nobody looks at it any more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::task::TaskTracker;

/// An answer is kept this many times as long as it took to make. So making it takes 1 % of a core.
const COST_SHARE: u32 = 100;

/// How long an answer is kept at least. A little less than a second, so that someone who asks each
/// second gets a new one each time.
const KEPT_MIN: Duration = Duration::from_millis(900);

/// How long an answer is kept at most.
const KEPT_MAX: Duration = Duration::from_mins(1);

/// An answer that is made when it is asked for.
pub(super) struct Kept<T> {
    slot: Arc<Mutex<Option<Answer<T>>>>,
    tasks: TaskTracker,
}

struct Answer<T> {
    value: Arc<T>,
    cost: Duration,
    until: Instant,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { slot: Arc::default(), tasks: TaskTracker::new() }
    }
}

impl<T: Send + Sync + 'static> Kept<T> {
    /// The kept answer, or a new one, and how long it took to make. While it is made, other callers
    /// wait.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    pub(super) fn get(&self, make: impl FnOnce() -> T) -> (Arc<T>, Duration) {
        let mut slot = lock(&self.slot);
        let began = Instant::now();
        if let Some(answer) = slot.as_ref().filter(|answer| began < answer.until) {
            return (Arc::clone(&answer.value), answer.cost);
        }
        let value = Arc::new(make());
        let (ended, cost) = (Instant::now(), began.elapsed());
        let until = ended + kept_for(cost);
        *slot = Some(Answer { value: Arc::clone(&value), cost, until });
        drop(slot);
        let (slot, tasks) = (Arc::downgrade(&self.slot), self.tasks.clone());
        self.tasks.spawn(async move {
            sleep_until(until).await;
            let Some(slot) = slot.upgrade() else { return };
            // If it is locked, it is just being replaced, and the next task drops it.
            let Ok(mut locked) = slot.try_lock() else { return };
            let expired = locked.take_if(|answer| answer.until <= until);
            drop(locked);
            // It takes a while to drop a million keys.
            tasks.spawn_blocking(move || drop(expired));
        });
        (value, cost)
    }
}

/// How long an answer is kept that took this long to make.
fn kept_for(cost: Duration) -> Duration {
    cost.saturating_mul(COST_SHARE).clamp(KEPT_MIN, KEPT_MAX)
}

/// When to ask again for something that took this long, in whole seconds.
pub(super) fn refresh_seconds(cost: Duration) -> u64 {
    u64::try_from(kept_for(cost).as_millis().div_ceil(1_000)).unwrap_or(u64::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn answer_is_made_once_for_all_who_ask_within_a_second_and_dropped_then() {
        let (kept, mut calls) = (Kept::default(), 0);
        let mut ask = || {
            let make = || {
                calls += 1;
                calls
            };
            kept.get(make).0
        };
        assert_eq!((*ask(), *ask()), (1, 1));
        sleep(Duration::from_millis(899)).await;
        assert_eq!(*ask(), 1);
        sleep(Duration::from_millis(101)).await;
        assert_eq!(*ask(), 2);
        let last = Arc::downgrade(&ask());
        sleep(Duration::from_secs(1)).await;
        assert!(last.upgrade().is_none(), "nobody has asked for it since");
    }

    #[test]
    fn expensive_answer_is_kept_longer() {
        assert_eq!(kept_for(Duration::ZERO), KEPT_MIN);
        assert_eq!(kept_for(Duration::from_millis(100)), Duration::from_secs(10));
        assert_eq!(kept_for(Duration::MAX), KEPT_MAX);
    }

    #[test]
    fn page_asks_again_after_a_second_to_a_minute() {
        assert_eq!(refresh_seconds(Duration::ZERO), 1);
        assert_eq!(refresh_seconds(Duration::from_millis(25)), 3);
        assert_eq!(refresh_seconds(Duration::from_secs(30)), 60);
    }
}
