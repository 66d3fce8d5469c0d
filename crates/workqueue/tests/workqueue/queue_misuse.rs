//! Bad use gets an error that gives the key back and says what to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{MILLISECOND, Polled, SECOND, run_ready};
use tokio::time::{Instant, advance};
use windlass_workqueue::{
    Add, AddError, Exponential, FastSlow, Group, InvalidConfig, Jitter, MAX_DELAY, MaxOf, Observer,
    RateLimiter, TokenBucket, WorkQueue,
};

/// The error's message, which must contain all of these.
#[track_caller]
fn assert_says(error: &impl std::error::Error, parts: &[&str]) {
    let message = error.to_string();
    for part in parts {
        assert!(message.contains(part), "{message:?} must say {part:?}");
    }
}

#[test]
fn a_bucket_of_an_impossible_rate_is_refused() {
    for rate in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, 1e-300] {
        let refused = TokenBucket::new(rate, 1).unwrap_err();
        assert!(matches!(refused, InvalidConfig::Rate { .. }), "{rate}");
        assert_says(&refused, &["rate", "must lie between", &rate.to_string()]);
    }
}

#[test]
fn a_bucket_without_room_is_refused() {
    let refused = TokenBucket::new(1.0, 0).unwrap_err();
    assert_eq!(refused, InvalidConfig::Burst);
    assert_says(&refused, &["burst", "at least 1"]);
}

#[test]
fn a_backoff_that_is_upside_down_is_refused() {
    let refused = Exponential::new(2 * SECOND, SECOND).unwrap_err();
    assert_eq!(refused, InvalidConfig::Backoff { base: 2 * SECOND, max: SECOND });
    assert_says(&refused, &["2s", "1s", "not above its maximum"]);
    let refused = FastSlow::new(2 * SECOND, SECOND, 3).unwrap_err();
    assert_eq!(refused, InvalidConfig::Backoff { base: 2 * SECOND, max: SECOND });
}

#[test]
fn a_backoff_that_never_grows_is_refused() {
    let refused = Exponential::new(Duration::ZERO, SECOND).unwrap_err();
    assert_says(&refused, &["above zero"]);
}

#[test]
fn a_limiter_beyond_any_calendar_is_refused() {
    let refused = Exponential::new(SECOND, Duration::MAX).unwrap_err();
    assert_eq!(refused, InvalidConfig::DelayTooLong { delay: Duration::MAX });
    assert_says(&refused, &["100 years", "unit"]);
    let refused = FastSlow::new(SECOND, Duration::MAX, 3).unwrap_err();
    assert_eq!(refused, InvalidConfig::DelayTooLong { delay: Duration::MAX });
    assert!(Exponential::new(SECOND, MAX_DELAY).is_ok());
}

#[test]
fn a_jitter_that_is_no_share_is_refused() {
    for factor in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        let inner = Exponential::default();
        let refused = Jitter::new(inner, factor, 1).unwrap_err();
        assert!(matches!(refused, InvalidConfig::Jitter { .. }));
        assert_says(&refused, &["between 0 and 1", &factor.to_string()]);
    }
}

#[test]
fn the_maximum_of_no_limiters_is_refused() {
    let refused = MaxOf::<&str>::new(Vec::new()).unwrap_err();
    assert_eq!(refused, InvalidConfig::NoLimiters);
    assert_says(&refused, &["at least one"]);
}

#[test]
fn aging_of_zero_is_refused() {
    let refused = WorkQueue::<&str>::builder().aging(Duration::ZERO).build().unwrap_err();
    assert_eq!(refused, InvalidConfig::Aging);
    assert_says(&refused, &["aging", "above zero"]);
}

#[test]
fn a_delay_beyond_any_calendar_gives_the_key_back() {
    let queue = WorkQueue::<String>::new();
    let too_long = [Duration::MAX, MAX_DELAY + Duration::from_nanos(1)];
    for delay in too_long {
        let refused = queue.add_after("a".to_owned(), delay).unwrap_err();
        assert_eq!(refused, AddError::DelayTooLong { key: "a".to_owned(), delay });
        assert!(!refused.is_shut_down());
        assert_says(&refused, &["100 years", "check its unit"]);
        assert_eq!(refused.into_key(), "a");
        let refused = queue.add_with("b".to_owned(), Add::after(delay)).unwrap_err();
        assert_eq!(refused.into_key(), "b");
    }
    assert!(queue.snapshot().keys.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_longest_delay_is_waited_for() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    queue.add_after("a", MAX_DELAY).unwrap();
    assert_eq!(queue.due(&"a"), Some(start + MAX_DELAY));
    // tokio's timer is not made for centuries; a worker must be able to sleep for it all the same.
    let worker = Polled::asleep(queue.get());
    advance(SECOND).await;
    assert!(!worker.is_woken());
}

#[test]
fn a_retry_beyond_any_calendar_gives_the_key_back() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let refused = queue.try_get().unwrap().retry_after(Duration::MAX).unwrap_err();
    assert_eq!(refused.into_key(), "a");
    assert_eq!(queue.load().running, 0, "the lease is done all the same");
}

#[test]
fn every_add_after_shut_down_gives_the_key_back() {
    let queue = WorkQueue::<String>::new();
    queue.shut_down();
    let key = || "a".to_owned();
    let refusals = [
        queue.add(key()).unwrap_err(),
        queue.add_after(key(), SECOND).unwrap_err(),
        queue.add_after(key(), Duration::ZERO).unwrap_err(),
        queue.add_rate_limited(key()).unwrap_err(),
        queue.add_with(key(), Add::now()).unwrap_err(),
    ];
    for refused in refusals {
        assert_eq!(refused, AddError::ShutDown { key: key() });
        assert!(refused.is_shut_down());
        assert_says(&refused, &["shut down", "stop adding", "new queue"]);
        assert_eq!(refused.into_key(), "a");
    }
    assert!(queue.snapshot().keys.is_empty());
}

#[test]
fn an_add_of_a_running_key_after_shut_down_is_refused_too() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    queue.add("b").unwrap();
    let a = queue.try_get().unwrap();
    let b = queue.try_get().unwrap();
    queue.shut_down();
    assert!(queue.add("a").unwrap_err().is_shut_down());
    assert!(a.retry().unwrap_err().is_shut_down());
    assert!(b.retry_after(SECOND).unwrap_err().is_shut_down());
    assert_eq!(queue.load().running, 0, "the leases are done all the same");
}

#[test]
fn errors_show_no_key() {
    let queue = WorkQueue::<&str>::new();
    let too_long = queue.add_after("secret", Duration::MAX).unwrap_err();
    queue.shut_down();
    let shut_down = queue.add("secret").unwrap_err();
    for text in [
        format!("{too_long:?} {too_long:#?} {too_long}"),
        format!("{shut_down:?} {shut_down:#?} {shut_down}"),
    ] {
        assert!(!text.contains("secret"), "{text}");
    }
    assert!(format!("{shut_down:?}").contains("ShutDown"));
    assert!(format!("{too_long:?}").contains("DelayTooLong"));
}

/// Panics when it is asked for the first time.
#[derive(Default)]
struct Clumsy(AtomicBool);

impl Clumsy {
    fn stumble(&self) {
        assert!(self.0.swap(true, Ordering::Relaxed), "stumbles on purpose");
    }
}

impl<K> RateLimiter<K> for Clumsy {
    fn next_delay(&mut self, _key: &K, _failures: u32, _now: Instant) -> Duration {
        self.stumble();
        SECOND
    }
}

impl Observer for Clumsy {
    fn added(&self, _depth: usize) {
        self.stumble();
    }
}

#[tokio::test(start_paused = true)]
async fn a_limiter_that_panics_leaves_the_queue_usable() {
    let queue = WorkQueue::<&str>::builder().limiter(Clumsy::default()).build().unwrap();
    queue.add("a").unwrap();
    assert_eq!(queue.add_rate_limited("b").unwrap(), 5 * MILLISECOND, "the default backoff");
    assert_eq!(queue.failures(&"b"), 1);
    assert_eq!(queue.add_rate_limited("c").unwrap(), SECOND);
    assert_eq!(run_ready(&queue), ["a"]);
    assert_eq!(queue.load().waiting, 2);
}

#[test]
fn a_group_function_that_panics_loses_no_key() {
    let picky = |key: &&str| if *key == "b" { panic!("picky on purpose") } else { Group::of(key) };
    let queue = WorkQueue::<&str>::builder().fair_by(picky).build().unwrap();
    for key in ["a", "b", "c"] {
        queue.add(key).unwrap();
    }
    assert_eq!(run_ready(&queue), ["a", "b", "c"]);
}

#[test]
fn an_observer_that_panics_loses_no_key() {
    let observer = Arc::new(Clumsy::default());
    let queue = WorkQueue::<&str>::builder().observer(observer).build().unwrap();
    for key in ["a", "b", "c"] {
        queue.add(key).unwrap();
    }
    assert_eq!(queue.len(), 3, "the panic goes no further");
    assert_eq!(run_ready(&queue), ["a", "b", "c"]);
}

/// Keys need not be anything that an error type asks for.
#[test]
fn errors_are_errors_whatever_the_key() {
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct Opaque;
    let queue = WorkQueue::<Opaque>::new();
    queue.shut_down();
    let refused = anyhow::Error::from(queue.add(Opaque).unwrap_err());
    assert!(refused.downcast_ref::<AddError<Opaque>>().unwrap().is_shut_down());
}
