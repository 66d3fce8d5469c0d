//! Rate limits through the queue, on the paused clock.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{MILLISECOND, SECOND};
use tokio::task::JoinSet;
use tokio::time::{Instant, advance};
use windlass_workqueue::{
    Add, Exponential, MAX_DELAY, MaxOf, MaxWait, RateLimiter, TokenBucket, WorkQueue,
};

fn queue_with<K>(limiter: impl RateLimiter<K> + 'static) -> WorkQueue<K>
where
    K: std::hash::Hash + Eq + Clone + Send + 'static,
{
    WorkQueue::builder().limiter(limiter).build().unwrap()
}

/// client-go: `TestRateLimitingQueue`.
#[tokio::test(start_paused = true)]
async fn rate_limited_adds_of_different_keys_do_not_affect_each_other() {
    let queue = queue_with(Exponential::new(MILLISECOND, SECOND).unwrap());
    for doubling in 0..5 {
        let expected = MILLISECOND * 2_u32.pow(doubling);
        assert_eq!(queue.add_rate_limited("one").unwrap(), expected);
        drop(queue.get().await);
    }
    assert_eq!(queue.add_rate_limited("two").unwrap(), MILLISECOND);
    assert_eq!((queue.failures(&"one"), queue.failures(&"two")), (5, 1));
    queue.forget(&"one");
    assert_eq!((queue.failures(&"one"), queue.failures(&"two")), (0, 1));
    assert_eq!(queue.add_rate_limited("one").unwrap(), MILLISECOND);
}

#[tokio::test(start_paused = true)]
async fn a_rate_limited_key_comes_after_its_delay() {
    let queue = queue_with(Exponential::new(SECOND, 100 * SECOND).unwrap());
    let start = Instant::now();
    for total in [1, 3, 7, 15, 31] {
        queue.add_rate_limited("a").unwrap();
        assert_eq!(queue.get().await.as_deref(), Some(&"a"));
        assert_eq!(start.elapsed(), total * SECOND);
    }
}

/// Events run the key early again and again, and it fails every time; client-go would have it at
/// the cap.
#[tokio::test(start_paused = true)]
async fn a_chatty_key_is_not_pushed_to_the_cap() {
    let queue = queue_with(Exponential::new(10 * SECOND, 1_000 * SECOND).unwrap());
    let start = Instant::now();
    queue.add("a").unwrap();
    queue.try_get().unwrap().retry().unwrap();
    for _ in 0..9 {
        advance(SECOND).await;
        queue.add("a").unwrap();
        queue.try_get().unwrap().retry().unwrap();
        assert_eq!(queue.failures(&"a"), 1);
        assert_eq!(queue.due(&"a"), Some(start + 10 * SECOND));
    }
    let lease = queue.get().await.unwrap();
    assert_eq!(start.elapsed(), 10 * SECOND);
    assert_eq!(lease.retry().unwrap(), 20 * SECOND);
    assert_eq!(queue.failures(&"a"), 2);
}

/// client-go's default: five milliseconds for each key, one hundred at once, then ten a second.
#[tokio::test(start_paused = true)]
async fn a_thousand_keys_pass_the_default_limits_at_the_right_times() {
    let queue = WorkQueue::<u32>::new();
    let start = Instant::now();
    for key in 0..1_000 {
        queue.add_rate_limited(key).unwrap();
    }
    for key in 0..1_000_u32 {
        let lease = queue.get().await.unwrap();
        let slot = key.saturating_sub(99) * 100 * MILLISECOND;
        assert_eq!((*lease, start.elapsed()), (key, slot.max(5 * MILLISECOND)));
    }
}

#[tokio::test(start_paused = true)]
async fn the_bucket_of_a_queue_fills_with_the_paused_clock() {
    let queue = queue_with(TokenBucket::new(1.0, 2).unwrap());
    let mut key = 0;
    let mut add = || {
        key += 1;
        queue.add_rate_limited(key).unwrap()
    };
    assert_eq!([add(), add(), add()], [Duration::ZERO, Duration::ZERO, SECOND]);
    advance(10 * SECOND).await;
    assert_eq!([add(), add(), add()], [Duration::ZERO, Duration::ZERO, SECOND]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_simultaneous_adds_get_a_thousand_slots() {
    // So slow that the time the test takes does not count: one slot in a day, one key at once.
    const DAY: Duration = Duration::from_hours(24);
    let bucket = TokenBucket::new(1.0 / DAY.as_secs_f64(), 1).unwrap().wait_max(MAX_DELAY);
    let queue = queue_with(bucket);
    let mut producers = JoinSet::new();
    for producer in 0..10 {
        let queue = queue.clone();
        producers.spawn(async move {
            let keys = producer * 100..(producer + 1) * 100;
            keys.map(|key| queue.add_rate_limited(key).unwrap()).collect::<Vec<_>>()
        });
    }
    let delays = producers.join_all().await.into_iter().flatten();
    let days: BTreeSet<_> =
        delays.map(|delay| (delay.as_secs_f64() / DAY.as_secs_f64()).round().to_string()).collect();
    assert_eq!(days.len(), 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_rate_limited_add_of_a_ready_key_is_counted_and_absorbed() {
    let queue = queue_with(Exponential::new(SECOND, 100 * SECOND).unwrap());
    queue.add("a").unwrap();
    queue.add_with("a", Add::rate_limited()).unwrap();
    assert_eq!(queue.failures(&"a"), 1);
    assert!(queue.try_get().is_some());
    advance(2 * SECOND).await;
    assert!(queue.try_get().is_none());
}

#[tokio::test(start_paused = true)]
async fn forget_does_not_take_back_a_retry_that_is_under_way() {
    let queue = queue_with(Exponential::new(SECOND, 100 * SECOND).unwrap());
    let start = Instant::now();
    queue.add_rate_limited("a").unwrap();
    queue.forget(&"a");
    assert_eq!(queue.due(&"a"), Some(start + SECOND));
}

/// A limiter of one's own that never lets a key go.
struct Never;

impl<K> RateLimiter<K> for Never {
    fn next_delay(&mut self, _key: &K, _failures: u32, _now: Instant) -> Duration {
        Duration::MAX
    }
}

#[tokio::test(start_paused = true)]
async fn a_limiter_beyond_the_calendar_is_cut() {
    let queue = queue_with::<&str>(Never);
    let start = Instant::now();
    assert_eq!(queue.add_rate_limited("a").unwrap(), MAX_DELAY);
    assert_eq!(queue.due(&"a"), Some(start + MAX_DELAY));

    let queue = queue_with::<&str>(MaxWait::new(Never, SECOND));
    assert_eq!(queue.add_rate_limited("a").unwrap(), SECOND);
}

/// The window of a failure is the wait that came of it, not the one that was cut.
#[tokio::test(start_paused = true)]
async fn a_cut_delay_is_the_whole_window() {
    let queue =
        queue_with(MaxWait::new(Exponential::new(SECOND, 1_000 * SECOND).unwrap(), 3 * SECOND));
    queue.add("a").unwrap();
    let mut delays = Vec::new();
    for failures in 1..=6 {
        delays.push(queue.get().await.unwrap().retry().unwrap().as_secs());
        assert_eq!(queue.failures(&"a"), failures);
    }
    assert_eq!(delays, [1, 2, 3, 3, 3, 3]);
}

/// A full bucket makes a key wait longer than its backoff: that is its window, however often events
/// run it.
#[tokio::test(start_paused = true)]
async fn a_chatty_key_behind_a_full_bucket_is_counted_once() {
    let limiter = MaxOf::new(vec![
        Box::new(Exponential::new(MILLISECOND, 1_000 * SECOND).unwrap()),
        Box::new(TokenBucket::new(0.01, 1).unwrap()),
    ]);
    let queue = queue_with(limiter.unwrap());
    queue.add_rate_limited("takes the token").unwrap();
    queue.add("chatty").unwrap();
    for _ in 0..10 {
        queue.get().await.filter(|lease| **lease == "chatty").map(|lease| lease.retry().unwrap());
        advance(SECOND).await;
        queue.add("chatty").unwrap();
    }
    assert_eq!(queue.failures(&"chatty"), 1);
}

/// Notes what it is asked.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<(&'static str, u32)>>>);

impl RateLimiter<&'static str> for Asked {
    fn next_delay(&mut self, key: &&'static str, failures: u32, _now: Instant) -> Duration {
        self.0.lock().unwrap().push((*key, failures));
        SECOND
    }
}

#[tokio::test(start_paused = true)]
async fn limiter_is_asked_once_for_each_backoff_and_not_where_the_caller_has_a_delay() {
    let limiter = Asked::default();
    let queue = queue_with(limiter.clone());
    let asked = || std::mem::take(&mut *limiter.0.lock().unwrap());
    let run = |key| {
        queue.add(key).unwrap();
        queue.try_get().unwrap()
    };
    run("a").retry().unwrap();
    run("a").retry().unwrap();
    run("b").retry_after(SECOND).unwrap();
    assert_eq!(asked(), [("a", 1)]);
    assert_eq!((queue.failures(&"a"), queue.failures(&"b")), (1, 1));

    for _ in ["a", "b"] {
        queue.get().await.unwrap().retry().unwrap();
    }
    assert_eq!(asked(), [("a", 2), ("b", 2)], "a failure with its own delay counts");
    for _ in ["a", "b"] {
        queue.get().await.unwrap().finish();
    }
    run("a").retry().unwrap();
    assert_eq!(asked(), [("a", 1)], "and a success forgets them");
}

/// A failure that is counted by no limiter, as with a bucket alone, is still one.
#[tokio::test(start_paused = true)]
async fn failures_are_counted_whatever_the_limiter() {
    let queue = queue_with(TokenBucket::new(1.0, 1).unwrap());
    for failures in 1..=5 {
        queue.add("a").unwrap();
        queue.get().await.unwrap().retry().unwrap();
        advance(10 * SECOND).await;
        assert_eq!(queue.failures(&"a"), failures);
    }
    queue.get().await.unwrap().finish();
    assert_eq!(queue.failures(&"a"), 0);
}

#[tokio::test(start_paused = true)]
async fn bucket_is_booked_a_bounded_time_ahead() {
    let queue = WorkQueue::<u32>::new();
    for key in 0..20_000 {
        queue.add_rate_limited(key).unwrap();
    }
    assert_eq!(queue.load().retry_debt, 1_000 * SECOND);
    assert_eq!(queue.add_rate_limited(20_000).unwrap(), 1_000 * SECOND);
}
