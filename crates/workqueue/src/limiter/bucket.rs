//! A token bucket over all keys, on governor.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::clock::{Clock, Reference};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter as Governor};
use tokio::time::Instant;

use super::{RateLimiter, exponential};
use crate::{InvalidConfig, MAX_DELAY};

/// One token per nanosecond, the resolution of governor.
const RATE_MAX: f64 = 1e9;

/// How far ahead a bucket books by default: as far as the longest default backoff. So while many
/// keys fail, a key waits for its slot no longer than a key that keeps failing waits anyway.
const WAIT_MAX_DEFAULT: Duration = exponential::MAX_DEFAULT;

/// By default, a slow bucket books at least this many slots ahead. Without any booked slots, its
/// delays would all be the maximum, and not spaced.
const SLOTS_MIN: u32 = 100;

/// Spaces the retries of all keys together to `rate` a second, after a `burst` that goes through at
/// once.
///
/// The delay does not depend on the key. To let it grow with the key's failures, put the bucket
/// beside an [`Exponential`](super::Exponential) in a [`MaxOf`](super::MaxOf).
///
/// The bucket reserves slots: a thousand callers at the same moment get a thousand different slots,
/// instead of the same delay, after which all of them would retry at once.
///
/// It books a bounded time ahead, [`wait_max`](Self::wait_max). Beyond that a key waits for
/// `wait_max` and books nothing. While so many keys fail, the retries beyond the bound are no
/// longer spaced to the rate: they come as fast as their failures came, `wait_max` later. Without a
/// bound, one outage that fails every object would hold back all retries for hours after its end,
/// also those of objects that had nothing to do with it. How far ahead the bucket is booked is
/// shown as the queue's [`retry_debt`](crate::Load::retry_debt).
#[derive(Debug)]
pub struct TokenBucket {
    governor: Governor<NotKeyed, InMemoryState, SetClock, NoOpMiddleware<Nanos>>,
    clock: SetClock,
    /// The instant at which the governor's time is zero; that of the first call.
    epoch: Option<Instant>,
    /// The last slot that was booked, from the epoch on.
    booked: Duration,
    wait_max: Duration,
}

/// A clock that is set by hand. governor only checks whether a token is available *now*. To reserve
/// a future token, the clock is set to the time at which it will be available.
#[derive(Clone, Debug, Default)]
struct SetClock(Arc<AtomicU64>);

impl TokenBucket {
    /// A bucket of `per_second` tokens a second that holds at most `burst`, and starts full.
    ///
    /// # Errors
    /// If the rate is not a number between one in a hundred years and one a nanosecond, if the
    /// burst is zero, or if an empty bucket would take more than a hundred years to fill.
    pub fn new(per_second: f64, burst: u32) -> Result<Self, InvalidConfig> {
        let size = NonZeroU32::new(burst).ok_or(InvalidConfig::Burst)?;
        let invalid_rate = InvalidConfig::Rate { per_second };
        if !(0.0..=RATE_MAX).contains(&per_second) {
            return Err(invalid_rate);
        }
        let period = Duration::try_from_secs_f64(1.0 / per_second).unwrap_or(Duration::MAX);
        if period > MAX_DELAY {
            return Err(invalid_rate);
        }
        if period.saturating_mul(burst) > MAX_DELAY {
            return Err(InvalidConfig::BurstTooLarge { burst, per_second });
        }
        let quota = Quota::with_period(period).ok_or(invalid_rate)?.allow_burst(size);
        let clock = SetClock::default();
        let governor = Governor::direct_with_clock(quota, clock.clone());
        let wait_max = WAIT_MAX_DEFAULT.max(period.saturating_mul(SLOTS_MIN)).min(MAX_DELAY);
        Ok(Self { governor, clock, epoch: None, booked: Duration::ZERO, wait_max })
    }

    /// How far ahead slots are booked at most, and so the longest wait. Default: 1,000 s, the
    /// longest wait of [`Exponential::default`](super::Exponential::default), or a hundred slots if
    /// that is longer.
    #[must_use]
    pub fn wait_max(mut self, wait_max: Duration) -> Self {
        self.wait_max = wait_max.min(MAX_DELAY);
        self
    }

    /// Books the next free slot, unless that is too far ahead; returns how long to wait.
    fn reserve(&mut self, now: Instant) -> Duration {
        let epoch = *self.epoch.get_or_insert(now);
        let now = Nanos::from(now.saturating_duration_since(epoch));
        self.clock.set(now);
        let Err(not_until) = self.governor.check() else { return Duration::ZERO };
        let slot = not_until.earliest_possible();
        let wait = Duration::from(slot.duration_since(now));
        if wait > self.wait_max {
            return self.wait_max;
        }
        self.clock.set(slot);
        self.governor.check().expect("the earliest possible moment must be possible");
        self.booked = slot.into();
        wait
    }
}

impl<K> RateLimiter<K> for TokenBucket {
    fn next_delay(&mut self, _key: &K, _failures: u32, now: Instant) -> Duration {
        self.reserve(now)
    }

    fn debt(&self, now: Instant) -> Duration {
        let elapsed =
            self.epoch.map_or(Duration::ZERO, |epoch| now.saturating_duration_since(epoch));
        self.booked.saturating_sub(elapsed)
    }
}

impl SetClock {
    fn set(&self, time: Nanos) {
        self.0.store(time.as_u64(), Ordering::Relaxed);
    }
}

impl Clock for SetClock {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::new(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_burst_goes_through_and_the_rest_is_spaced() {
        let mut bucket = TokenBucket::new(10.0, 3).expect("valid");
        let now = Instant::now();
        let delays: Vec<_> = (0..6).map(|_| bucket.reserve(now).as_millis()).collect();
        assert_eq!(delays, [0, 0, 0, 100, 200, 300]);
    }

    #[test]
    fn a_thousand_callers_at_once_get_a_thousand_slots() {
        let mut bucket = TokenBucket::new(1000.0, 1).expect("valid");
        let now = Instant::now();
        let slots: HashSet<_> = (0..1_000).map(|_| bucket.reserve(now)).collect();
        assert_eq!(slots.len(), 1_000);
        assert_eq!(slots.into_iter().max(), Some(Duration::from_millis(999)));
    }

    #[test]
    fn nobody_waits_longer_than_the_maximum_and_the_debt_stays_below_it() {
        let mut bucket = TokenBucket::new(10.0, 100).expect("valid");
        let now = Instant::now();
        let debt = |bucket: &TokenBucket, now| RateLimiter::<()>::debt(bucket, now);
        assert_eq!(debt(&bucket, now), Duration::ZERO);
        let waits: Vec<_> = (0..20_000).map(|_| bucket.reserve(now)).collect();
        assert_eq!(waits[10_099], WAIT_MAX_DEFAULT, "the last slot within the bound");
        assert!(waits[10_100..].iter().all(|&wait| wait == WAIT_MAX_DEFAULT));
        assert_eq!(debt(&bucket, now), WAIT_MAX_DEFAULT);

        let later = now + WAIT_MAX_DEFAULT / 2;
        assert_eq!(debt(&bucket, later), WAIT_MAX_DEFAULT / 2);
        assert_eq!(bucket.reserve(later), WAIT_MAX_DEFAULT / 2 + Duration::from_millis(100));
        assert_eq!(debt(&bucket, now + 2 * WAIT_MAX_DEFAULT), Duration::ZERO);
    }

    #[test]
    fn slow_bucket_still_keeps_its_rate() {
        const HOUR: Duration = Duration::from_hours(1);
        let mut bucket = TokenBucket::new(1.0 / HOUR.as_secs_f64(), 1).expect("valid");
        let now = Instant::now();
        let hours: Vec<_> = (0..4).map(|_| bucket.reserve(now).as_secs() / 3_600).collect();
        assert_eq!(hours, [0, 1, 2, 3]);
        let mut bounded =
            TokenBucket::new(1.0 / HOUR.as_secs_f64(), 1).expect("valid").wait_max(2 * HOUR);
        let hours: Vec<_> = (0..4).map(|_| bounded.reserve(now).as_secs() / 3_600).collect();
        assert_eq!(hours, [0, 1, 2, 2]);
    }

    #[test]
    fn a_bucket_that_is_booked_out_for_a_lifetime_books_no_more() {
        let mut bucket = TokenBucket::new(1e-9, 1).expect("one in thirty-two years is valid");
        let now = Instant::now();
        let delays: Vec<_> = (0..1_000).map(|_| bucket.reserve(now)).collect();
        assert!(delays.is_sorted());
        assert_eq!(delays.last(), Some(&MAX_DELAY));
    }

    #[test]
    fn tokens_come_back_with_time() {
        let mut bucket = TokenBucket::new(10.0, 2).expect("valid");
        let now = Instant::now();
        assert_eq!(bucket.reserve(now), Duration::ZERO);
        assert_eq!(bucket.reserve(now), Duration::ZERO);
        assert_eq!(bucket.reserve(now), Duration::from_millis(100));
        let later = now + Duration::from_secs(10);
        assert_eq!(bucket.reserve(later), Duration::ZERO);
        assert_eq!(bucket.reserve(later), Duration::ZERO);
        assert_eq!(bucket.reserve(later), Duration::from_millis(100));
    }

    #[test]
    fn slow_rates_work_and_impossible_ones_are_refused() {
        let mut slow = TokenBucket::new(0.1, 1).expect("valid");
        let now = Instant::now();
        assert_eq!(slow.reserve(now), Duration::ZERO);
        assert_eq!(slow.reserve(now), Duration::from_secs(10));

        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e10, 1e-300, 1e-10] {
            let refused = TokenBucket::new(rate, 1).expect_err("must be refused");
            assert!(refused.to_string().contains("rate must lie between"), "{refused}");
        }
        let refused = TokenBucket::new(0.1, u32::MAX).expect_err("must be refused");
        assert!(refused.to_string().contains("take centuries to fill"), "{refused}");
        let refused = TokenBucket::new(1.0, 0).expect_err("must be refused");
        assert!(refused.to_string().contains("burst must be at least 1"), "{refused}");
    }
}
