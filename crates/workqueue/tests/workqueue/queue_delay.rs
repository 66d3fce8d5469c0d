//! Keys that are added to run later: the earliest time wins, and it is kept to the millisecond.

use std::time::Duration;

use crate::common::{MILLISECOND, Polled, SECOND, run_next, run_ready};
use tokio::time::{Instant, advance};
use windlass_workqueue::WorkQueue;

/// Takes the next key, waiting if need be; returns it and how long after `start` it came.
async fn next(queue: &WorkQueue<&'static str>, start: Instant) -> (&'static str, Duration) {
    let lease = queue.get().await.expect("the queue must be open");
    (*lease, start.elapsed())
}

/// client-go: `TestSimpleQueue` of the delaying queue.
#[tokio::test(start_paused = true)]
async fn a_delayed_key_comes_when_its_time_has_come() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    queue.add_after("a", 50 * MILLISECOND).unwrap();
    assert!(queue.is_empty());
    advance(49 * MILLISECOND).await;
    assert!(queue.try_get().is_none());
    assert_eq!(next(&queue, start).await, ("a", 50 * MILLISECOND));
    assert_eq!(queue.load(), windlass_workqueue::Load::default());
}

/// client-go: `TestDeduping`; controller-runtime: the lowest after-duration is kept.
#[tokio::test(start_paused = true)]
async fn the_earliest_of_several_delays_wins() {
    for delays in [[50, 70, 60], [70, 60, 50], [60, 50, 70]] {
        let queue = WorkQueue::new();
        let start = Instant::now();
        for delay in delays {
            queue.add_after("a", delay * MILLISECOND).unwrap();
        }
        assert_eq!(queue.load().waiting, 1);
        assert_eq!(next(&queue, start).await, ("a", 50 * MILLISECOND));
        advance(SECOND).await;
        assert!(queue.try_get().is_none(), "the later times are superseded by the run");
    }
}

/// client-go: `TestAddTwoFireEarly`.
#[tokio::test(start_paused = true)]
async fn a_later_added_key_with_an_earlier_time_comes_first() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    queue.add_after("late", SECOND).unwrap();
    queue.add_after("early", 50 * MILLISECOND).unwrap();
    assert_eq!(next(&queue, start).await, ("early", 50 * MILLISECOND));
    queue.add_after("early", 200 * MILLISECOND).unwrap();
    assert_eq!(next(&queue, start).await, ("early", 250 * MILLISECOND));
    assert_eq!(next(&queue, start).await, ("late", SECOND));
}

/// client-go: `TestCopyShifting`.
#[tokio::test(start_paused = true)]
async fn keys_that_are_due_together_come_in_the_order_of_their_times() {
    let queue = WorkQueue::new();
    queue.add_after("third", SECOND).unwrap();
    queue.add_after("second", 500 * MILLISECOND).unwrap();
    queue.add_after("first", 250 * MILLISECOND).unwrap();
    advance(2 * SECOND).await;
    assert_eq!(run_ready(&queue), ["first", "second", "third"]);
}

#[tokio::test(start_paused = true)]
async fn keys_of_the_same_instant_come_in_the_order_they_were_added() {
    let queue = WorkQueue::new();
    for key in 0..1_000 {
        queue.add_after(key, SECOND).unwrap();
    }
    advance(SECOND).await;
    assert_eq!(run_ready(&queue), (0..1_000).collect::<Vec<_>>());
}

/// controller-runtime: a waiting item that is added again without delay comes at once.
#[tokio::test(start_paused = true)]
async fn a_waiting_key_added_without_delay_comes_at_once_and_only_once() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    queue.add_after("a", SECOND).unwrap();
    queue.add("a").unwrap();
    assert_eq!(next(&queue, start).await, ("a", Duration::ZERO));
    advance(2 * SECOND).await;
    assert!(queue.try_get().is_none());
}

/// client-go would run the key now and once more after the delay. Here a key has at most one next
/// run and the earliest requested time wins, so a ready key absorbs the delayed add.
#[tokio::test(start_paused = true)]
async fn a_delayed_add_of_a_ready_key_is_absorbed() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    queue.add_after("a", SECOND).unwrap();
    assert_eq!(run_ready(&queue), ["a"]);
    advance(2 * SECOND).await;
    assert!(queue.try_get().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_delayed_add_of_a_running_key_waits_its_time() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    queue.add("a").unwrap();
    let running = queue.try_get().unwrap();
    queue.add_after("a", 5 * SECOND).unwrap();
    advance(SECOND).await;
    drop(running);
    assert!(queue.try_get().is_none());
    assert_eq!(next(&queue, start).await, ("a", 5 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_becomes_due_while_it_runs_comes_when_it_is_done() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let running = queue.try_get().unwrap();
    queue.add_after("a", SECOND).unwrap();
    let mut waiting = Polled::asleep(queue.get());
    advance(2 * SECOND).await;
    assert!(waiting.poll().is_pending(), "a runs elsewhere");
    advance(SECOND).await;
    drop(running);
    let again = waiting.ready().unwrap();
    assert_eq!((*again, again.queued()), ("a", 2 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_delay_of_zero_is_an_add() {
    let queue = WorkQueue::new();
    queue.add_after("a", Duration::ZERO).unwrap();
    assert_eq!(run_ready(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_may_wait_again_after_its_run() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    for round in 1..=5 {
        queue.add_after("a", SECOND).unwrap();
        assert_eq!(next(&queue, start).await, ("a", round * SECOND));
    }
}

#[tokio::test(start_paused = true)]
async fn many_keys_in_random_order_come_on_time() {
    const KEYS: u32 = 5_000;
    let queue = WorkQueue::new();
    let start = Instant::now();
    for number in 0..KEYS {
        // 1999 and 5000 have no common divisor, so this visits every key once.
        let key = number * 1_999 % KEYS;
        queue.add_after(key, (1 + key) * MILLISECOND).unwrap();
    }
    assert_eq!(queue.load().waiting, KEYS as usize);
    for key in 0..KEYS {
        let lease = queue.get().await.unwrap();
        assert_eq!((*lease, start.elapsed()), (key, (1 + key) * MILLISECOND));
    }
}

/// In client-go a goroutine moves keys into the line when they are due; here whoever looks next
/// does, and the order must be the same: by the time at which keys became ready.
#[tokio::test(start_paused = true)]
async fn a_key_that_became_due_comes_before_one_added_after_that() {
    let queue = WorkQueue::new();
    queue.add_after("due at one", SECOND).unwrap();
    advance(2 * SECOND).await;
    queue.add("added at two").unwrap();
    assert_eq!(run_ready(&queue), ["due at one", "added at two"]);
}

/// The same key: it has been ready since it was due, not since it was added again.
#[tokio::test(start_paused = true)]
async fn a_key_that_became_due_and_is_added_again_has_been_ready_since_it_was_due() {
    let queue = WorkQueue::new();
    queue.add_after("a", SECOND).unwrap();
    advance(3 * SECOND).await;
    queue.add("a").unwrap();
    assert_eq!(queue.try_get().unwrap().queued(), 2 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn time_in_line_counts_from_the_due_time() {
    let queue = WorkQueue::new();
    queue.add_after("a", 10 * SECOND).unwrap();
    advance(12 * SECOND).await;
    assert_eq!(queue.try_get().unwrap().queued(), 2 * SECOND);
    assert!(run_next(&queue).is_none());
}

/// Keys become ready 256 at a time, but none is overlooked because those before it are running.
#[tokio::test(start_paused = true)]
async fn a_due_key_behind_many_running_ones_is_found() {
    let queue = WorkQueue::new();
    for key in 0..1_000 {
        queue.add(key).unwrap();
    }
    let running: Vec<_> = std::iter::from_fn(|| queue.try_get()).collect();
    assert_eq!(running.len(), 1_000);
    for key in 0..=1_000 {
        queue.add_after(key, SECOND).unwrap();
    }
    advance(SECOND).await;
    assert_eq!(queue.try_get().as_deref(), Some(&1_000));
}
