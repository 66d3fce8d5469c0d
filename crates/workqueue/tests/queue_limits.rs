//! The limiters by themselves, called with times of the test's choosing.

mod common;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{MILLISECOND, SECOND};
use tokio::time::Instant;
use windlass_workqueue::{
    Exponential, FastSlow, Jitter, MAX_DELAY, MaxOf, MaxWait, RateLimiter, TokenBucket,
};

const DAY: Duration = Duration::from_hours(24);

/// The delays of failures that each come when the window of the one before is over.
fn delays<K>(limiter: &mut impl RateLimiter<K>, key: &K, times: usize) -> Vec<Duration> {
    let mut now = Instant::now();
    let charge = || {
        let delay = limiter.next_delay(key, now);
        now += delay;
        delay
    };
    std::iter::repeat_with(charge).take(times).collect()
}

/// Always the same delay; counts how often it is asked and told.
#[derive(Clone, Default)]
struct Fixed {
    delay: Duration,
    asked: Arc<AtomicUsize>,
    forgot: Arc<AtomicUsize>,
}

impl Fixed {
    fn new(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }
}

impl<K> RateLimiter<K> for Fixed {
    fn next_delay(&mut self, _key: &K, _now: Instant) -> Duration {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.delay
    }

    fn forget(&mut self, _key: &K) {
        self.forgot.fetch_add(1, Ordering::Relaxed);
    }

    fn failures(&self, _key: &K) -> u32 {
        u32::try_from(self.asked.load(Ordering::Relaxed)).unwrap()
    }
}

/// client-go: `TestItemExponentialFailureRateLimiter`.
#[test]
fn exponential_doubles_up_to_its_cap() {
    let mut limiter = Exponential::new(MILLISECOND, SECOND).unwrap();
    let expected = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000, 1_000];
    assert_eq!(delays(&mut limiter, &"a", 12), expected.map(|delay| delay * MILLISECOND));
    assert_eq!(limiter.failures(&"a"), 12);
    assert_eq!(limiter.failures(&"b"), 0);
}

/// client-go: `TestItemExponentialFailureRateLimiterOverFlow`.
#[test]
fn exponential_does_not_overflow_with_a_thousand_failures() {
    for base in [Duration::from_nanos(1), MILLISECOND, DAY] {
        let mut limiter = Exponential::new(base, 100 * DAY).unwrap();
        let delays = delays(&mut limiter, &"a", 1_000);
        assert!(delays.is_sorted());
        assert_eq!((delays[0], delays[1], delays[999]), (base, 2 * base, 100 * DAY));
    }
}

#[test]
fn exponential_may_be_constant() {
    let mut limiter = Exponential::new(SECOND, SECOND).unwrap();
    assert_eq!(delays(&mut limiter, &"a", 3), [SECOND; 3]);
}

#[test]
fn exponential_defaults_are_those_of_client_go() {
    let mut limiter = Exponential::default();
    let delays = delays(&mut limiter, &"a", 30);
    assert_eq!(
        (delays[0], delays[1], delays[29]),
        (5 * MILLISECOND, 10 * MILLISECOND, 1_000 * SECOND)
    );
}

/// controller-runtime: rate-limited adds do not affect each other.
#[test]
fn failures_of_one_key_do_not_delay_another() {
    let mut limiter = Exponential::new(MILLISECOND, SECOND).unwrap();
    delays(&mut limiter, &"a", 5);
    assert_eq!(delays(&mut limiter, &"b", 2), [MILLISECOND, 2 * MILLISECOND]);
    assert_eq!((limiter.failures(&"a"), limiter.failures(&"b")), (5, 2));
}

#[test]
fn forget_starts_a_key_over() {
    let mut limiter = Exponential::new(MILLISECOND, SECOND).unwrap();
    delays(&mut limiter, &"a", 5);
    delays(&mut limiter, &"b", 5);
    limiter.forget(&"a");
    limiter.forget(&"unknown");
    assert_eq!((limiter.failures(&"a"), limiter.failures(&"b")), (0, 5));
    assert_eq!(delays(&mut limiter, &"a", 1), [MILLISECOND]);
}

/// client-go charges every call, so an object whose changes keep failing is soon at the cap. Here a key
/// is charged at most one failure per backoff window, and told the rest of the window it has.
#[test]
fn a_chatty_key_is_charged_once_per_window() {
    let mut limiter = Exponential::new(8 * SECOND, 100 * SECOND).unwrap();
    let start = Instant::now();
    assert_eq!(limiter.next_delay(&"a", start), 8 * SECOND);
    for second in 1..8 {
        let rest = limiter.next_delay(&"a", start + second * SECOND);
        assert_eq!(rest, (8 - second) * SECOND);
    }
    assert_eq!(limiter.failures(&"a"), 1);
    assert_eq!(limiter.next_delay(&"a", start + 8 * SECOND), 16 * SECOND);
    assert_eq!(limiter.failures(&"a"), 2);
}

/// client-go: `TestItemFastSlowRateLimiter`.
#[test]
fn fast_slow_is_fast_at_first_and_then_slow() {
    let mut limiter = FastSlow::new(5 * MILLISECOND, 10 * SECOND, 3).unwrap();
    let expected = [5 * MILLISECOND, 5 * MILLISECOND, 5 * MILLISECOND, 10 * SECOND, 10 * SECOND];
    assert_eq!(delays(&mut limiter, &"a", 5), expected);
    assert_eq!(limiter.failures(&"a"), 5);
    assert_eq!(delays(&mut limiter, &"b", 1), [5 * MILLISECOND]);
    limiter.forget(&"a");
    assert_eq!(limiter.failures(&"a"), 0);
    assert_eq!(delays(&mut limiter, &"a", 1), [5 * MILLISECOND]);
}

/// client-go: `TestMaxOfRateLimiter`.
#[test]
fn max_of_takes_the_longest_delay_and_tells_everyone() {
    let (short, long) = (Fixed::new(SECOND), Fixed::new(5 * SECOND));
    let limiters: Vec<Box<dyn RateLimiter<&str>>> = vec![
        Box::new(short.clone()),
        Box::new(long.clone()),
        Box::new(Exponential::new(MILLISECOND, 8 * SECOND).unwrap()),
    ];
    let mut limiter = MaxOf::new(limiters).unwrap();
    let delays = delays(&mut limiter, &"a", 14);
    assert_eq!((delays[0], delays[12], delays[13]), (5 * SECOND, 5 * SECOND, 8 * SECOND));
    for fixed in [&short, &long] {
        assert_eq!(fixed.asked.load(Ordering::Relaxed), 14, "also if another one is longer");
    }
    assert_eq!(limiter.failures(&"a"), 14);
    limiter.forget(&"a");
    for fixed in [&short, &long] {
        assert_eq!(fixed.forgot.load(Ordering::Relaxed), 1);
    }
}

/// client-go: `TestWithMaxWaitRateLimiter`.
#[test]
fn max_wait_cuts_the_delay_and_keeps_the_count() {
    let mut limiter = MaxWait::new(Exponential::new(SECOND, 1_000 * SECOND).unwrap(), 3 * SECOND);
    let start = Instant::now();
    assert_eq!(limiter.next_delay(&"a", start), SECOND);
    assert_eq!(limiter.next_delay(&"a", start + SECOND), 2 * SECOND);
    assert_eq!(limiter.next_delay(&"a", start + 3 * SECOND), 3 * SECOND, "cut from four");
    assert_eq!(limiter.failures(&"a"), 3);
    limiter.forget(&"a");
    assert_eq!(limiter.failures(&"a"), 0);
}

#[test]
fn jitter_stays_within_its_bounds() {
    let mut limiter = Jitter::new(Fixed::new(SECOND), 0.5, 7).unwrap();
    let delays = delays(&mut limiter, &"a", 1_000);
    assert!(delays.iter().all(|delay| (SECOND..=SECOND * 3 / 2).contains(delay)));
    let spread: HashSet<_> = delays.iter().collect();
    assert!(spread.len() > 900, "it must spread: {}", spread.len());
    assert!(delays.iter().any(|&delay| delay < SECOND * 11 / 10));
    assert!(delays.iter().any(|&delay| delay > SECOND * 14 / 10));
    assert_eq!(RateLimiter::<&str>::failures(&limiter, &"a"), 1_000);
}

#[test]
fn jitter_of_the_same_seed_gives_the_same_sequence() {
    let sequence = |seed| {
        let mut limiter = Jitter::new(Fixed::new(SECOND), 1.0, seed).unwrap();
        delays(&mut limiter, &"a", 100)
    };
    assert_eq!(sequence(1), sequence(1));
    assert_ne!(sequence(1), sequence(2));
}

#[test]
fn jitter_of_zero_changes_nothing() {
    let mut limiter = Jitter::new(Fixed::new(SECOND), 0.0, 1).unwrap();
    assert_eq!(delays(&mut limiter, &"a", 10), [SECOND; 10]);
}

#[test]
fn jitter_of_an_endless_delay_does_not_overflow() {
    for delay in [MAX_DELAY, Duration::MAX] {
        let mut limiter = Jitter::new(Fixed::new(delay), 1.0, 1).unwrap();
        assert!(limiter.next_delay(&"a", Instant::now()) >= MAX_DELAY);
    }
}

/// client-go: `TestBucketRateLimiter`, whose slots are reserved as well.
#[test]
fn a_bucket_gives_a_thousand_callers_a_thousand_slots() {
    let mut bucket = TokenBucket::new(100.0, 1).unwrap();
    let now = Instant::now();
    let slots: Vec<_> = (0..1_000).map(|key| bucket.next_delay(&key, now)).collect();
    let expected: Vec<_> = (0..1_000).map(|slot| slot * 10 * MILLISECOND).collect();
    assert_eq!(slots, expected);
}

#[test]
fn a_bucket_fills_again_but_not_beyond_its_burst() {
    let mut bucket = TokenBucket::new(10.0, 3).unwrap();
    let now = Instant::now();
    let mut at = |time| -> Vec<_> { (0..4).map(|key| bucket.next_delay(&key, time)).collect() };
    let (none, tenth) = (Duration::ZERO, 100 * MILLISECOND);
    assert_eq!(at(now), [none, none, none, tenth]);
    assert_eq!(at(now + 300 * MILLISECOND), [none, none, tenth, 2 * tenth]);
    assert_eq!(at(now + DAY), [none, none, none, tenth]);
}
