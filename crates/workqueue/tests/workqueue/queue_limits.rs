//! The limiters by themselves, called with times of the test's choosing.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{MILLISECOND, SECOND};
use tokio::time::Instant;
use windlass_workqueue::{
    Exponential, FastSlow, Jitter, MAX_DELAY, MaxOf, MaxWait, RateLimiter, TokenBucket,
};

const DAY: Duration = Duration::from_hours(24);

/// The delays of so many failures in a row, each of which comes when the wait for the one before is
/// over.
fn delays(limiter: &mut impl RateLimiter<&'static str>, times: u32) -> Vec<Duration> {
    let mut now = Instant::now();
    let fail = |failures| {
        let delay = limiter.next_delay(&"a", failures, now);
        now += delay;
        delay
    };
    (1..=times).map(fail).collect()
}

/// Always the same delay; counts how often it is asked.
#[derive(Clone, Default)]
struct Fixed {
    delay: Duration,
    asked: Arc<AtomicUsize>,
}

impl Fixed {
    fn new(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }
}

impl<K> RateLimiter<K> for Fixed {
    fn next_delay(&mut self, _key: &K, _failures: u32, _now: Instant) -> Duration {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.delay
    }
}

/// client-go: `TestItemExponentialFailureRateLimiter`.
#[test]
fn exponential_doubles_up_to_its_cap() {
    let mut limiter = Exponential::new(MILLISECOND, SECOND).unwrap();
    let expected = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000, 1_000];
    assert_eq!(delays(&mut limiter, 12), expected.map(|delay| delay * MILLISECOND));
}

/// client-go: `TestItemExponentialFailureRateLimiterOverFlow`.
#[test]
fn exponential_does_not_overflow_with_a_thousand_failures() {
    for base in [Duration::from_nanos(1), MILLISECOND, DAY] {
        let mut limiter = Exponential::new(base, 100 * DAY).unwrap();
        let delays = delays(&mut limiter, 1_000);
        assert!(delays.is_sorted());
        assert_eq!((delays[0], delays[1], delays[999]), (base, 2 * base, 100 * DAY));
    }
}

#[test]
fn exponential_may_be_constant() {
    let mut limiter = Exponential::new(SECOND, SECOND).unwrap();
    assert_eq!(delays(&mut limiter, 3), [SECOND; 3]);
}

#[test]
fn exponential_defaults_are_those_of_client_go() {
    let mut limiter = Exponential::default();
    let delays = delays(&mut limiter, 30);
    assert_eq!(
        (delays[0], delays[1], delays[29]),
        (5 * MILLISECOND, 10 * MILLISECOND, 1_000 * SECOND)
    );
}

/// client-go: `TestItemFastSlowRateLimiter`.
#[test]
fn fast_slow_is_fast_at_first_and_then_slow() {
    let mut limiter = FastSlow::new(5 * MILLISECOND, 10 * SECOND, 3).unwrap();
    let expected = [5 * MILLISECOND, 5 * MILLISECOND, 5 * MILLISECOND, 10 * SECOND, 10 * SECOND];
    assert_eq!(delays(&mut limiter, 5), expected);
    assert_eq!(delays(&mut limiter, 1), [5 * MILLISECOND], "the first again");
}

/// client-go: `TestMaxOfRateLimiter`.
#[test]
fn max_of_takes_the_longest_delay_and_asks_everyone() {
    let short = Fixed::new(SECOND);
    let long = Fixed::new(5 * SECOND);
    let limiters: Vec<Box<dyn RateLimiter<&str>>> = vec![
        Box::new(short.clone()),
        Box::new(long.clone()),
        Box::new(Exponential::new(MILLISECOND, 8 * SECOND).unwrap()),
    ];
    let mut limiter = MaxOf::new(limiters).unwrap();
    let delays = delays(&mut limiter, 14);
    assert_eq!((delays[0], delays[12], delays[13]), (5 * SECOND, 5 * SECOND, 8 * SECOND));
    for fixed in [&short, &long] {
        assert_eq!(fixed.asked.load(Ordering::Relaxed), 14, "also if another one is longer");
    }
}

/// client-go: `TestWithMaxWaitRateLimiter`.
#[test]
fn max_wait_cuts_the_delay() {
    let mut limiter = MaxWait::new(Exponential::new(SECOND, 1_000 * SECOND).unwrap(), 3 * SECOND);
    assert_eq!(delays(&mut limiter, 3), [SECOND, 2 * SECOND, 3 * SECOND], "cut from four");
}

#[test]
fn debt_of_a_bucket_is_seen_through_the_limiters_around_it() {
    let bucket = TokenBucket::new(1.0, 1).unwrap();
    let limiters: Vec<Box<dyn RateLimiter<&str>>> =
        vec![Box::new(Exponential::default()), Box::new(bucket)];
    let jitter = Jitter::new(MaxOf::new(limiters).unwrap(), 0.0, 1).unwrap();
    let mut limiter = MaxWait::new(jitter, 100 * SECOND);
    let now = Instant::now();
    assert_eq!(limiter.debt(now), Duration::ZERO);
    for _ in 0..4 {
        limiter.next_delay(&"a", 1, now);
    }
    assert_eq!(limiter.debt(now), 3 * SECOND);
    assert_eq!(limiter.debt(now + SECOND), 2 * SECOND);
}

#[test]
fn jitter_stays_within_its_bounds() {
    let mut limiter = Jitter::new(Fixed::new(SECOND), 0.5, 7).unwrap();
    let delays = delays(&mut limiter, 1_000);
    assert!(delays.iter().all(|delay| (SECOND..=SECOND * 3 / 2).contains(delay)));
    let spread: HashSet<_> = delays.iter().collect();
    assert!(spread.len() > 900, "it must spread: {}", spread.len());
    assert!(delays.iter().any(|&delay| delay < SECOND * 11 / 10));
    assert!(delays.iter().any(|&delay| delay > SECOND * 14 / 10));
}

#[test]
fn jitter_of_the_same_seed_gives_the_same_sequence() {
    let sequence = |seed| {
        let mut limiter = Jitter::new(Fixed::new(SECOND), 1.0, seed).unwrap();
        delays(&mut limiter, 100)
    };
    assert_eq!(sequence(1), sequence(1));
    assert_ne!(sequence(1), sequence(2));
}

#[test]
fn jitter_of_zero_changes_nothing() {
    let mut limiter = Jitter::new(Fixed::new(SECOND), 0.0, 1).unwrap();
    assert_eq!(delays(&mut limiter, 10), [SECOND; 10]);
}

#[test]
fn jitter_of_an_endless_delay_does_not_overflow() {
    for delay in [MAX_DELAY, Duration::MAX] {
        let mut limiter = Jitter::new(Fixed::new(delay), 1.0, 1).unwrap();
        assert!(limiter.next_delay(&"a", 1, Instant::now()) >= MAX_DELAY);
    }
}

/// client-go: `TestBucketRateLimiter`, whose slots are reserved as well.
#[test]
fn a_bucket_gives_a_thousand_callers_a_thousand_slots() {
    let mut bucket = TokenBucket::new(100.0, 1).unwrap();
    let now = Instant::now();
    let slots: Vec<_> = (0..1_000).map(|key| bucket.next_delay(&key, 1, now)).collect();
    let expected: Vec<_> = (0..1_000).map(|slot| slot * 10 * MILLISECOND).collect();
    assert_eq!(slots, expected);
}

#[test]
fn a_bucket_fills_again_but_not_beyond_its_burst() {
    let mut bucket = TokenBucket::new(10.0, 3).unwrap();
    let now = Instant::now();
    let mut at = |time| -> Vec<_> { (0..4).map(|key| bucket.next_delay(&key, 1, time)).collect() };
    let none = Duration::ZERO;
    let tenth = 100 * MILLISECOND;
    assert_eq!(at(now), [none, none, none, tenth]);
    assert_eq!(at(now + 300 * MILLISECOND), [none, none, tenth, 2 * tenth]);
    assert_eq!(at(now + DAY), [none, none, none, tenth]);
}
