//! A `get` that is dropped, at whatever moment, loses no key and no wake-up.

use crate::common::{MILLISECOND, Polled, SECOND, run_ready};
use tokio::time::{Instant, advance, timeout};
use windlass_workqueue::WorkQueue;

#[tokio::test(start_paused = true)]
async fn a_get_that_is_never_polled_takes_nothing() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    drop(queue.get());
    assert_eq!(run_ready(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_get_dropped_while_it_waits_takes_nothing() {
    let queue = WorkQueue::new();
    drop(Polled::asleep(queue.get()));
    queue.add("a").unwrap();
    assert_eq!(queue.get().await.map(|lease| *lease), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_get_dropped_after_it_was_woken_wakes_another_worker() {
    let queue = WorkQueue::new();
    let first = Polled::asleep(queue.get());
    let mut second = Polled::asleep(queue.get());
    queue.add("a").unwrap();
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    drop(first);
    assert_eq!(second.wakes(), 1);
    assert_eq!(second.ready().map(|lease| *lease), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_wake_up_goes_through_any_number_of_dropped_workers() {
    let queue = WorkQueue::new();
    let mut workers: Vec<_> = (0..50).map(|_| Polled::asleep(queue.get())).collect();
    queue.add("a").unwrap();
    queue.add("b").unwrap();
    let mut last = workers.split_off(48);
    for worker in workers {
        drop(worker);
    }
    let [first, second] = last.as_mut_slice() else { panic!("two must be left") };
    assert_eq!(first.ready().map(|lease| *lease), Some("a"));
    assert!(second.is_woken());
    assert_eq!(second.ready().map(|lease| *lease), Some("b"));
}

#[tokio::test(start_paused = true)]
async fn a_wake_up_that_no_worker_is_left_for_is_not_missed_by_the_next() {
    let queue = WorkQueue::new();
    let only = Polled::asleep(queue.get());
    queue.add("a").unwrap();
    drop(only);
    let mut next = Polled::new(queue.get());
    assert_eq!(next.ready().map(|lease| *lease), Some("a"));

    // And the bell still works.
    let mut worker = Polled::asleep(queue.get());
    queue.add("b").unwrap();
    assert!(worker.is_woken());
    assert_eq!(worker.ready().map(|lease| *lease), Some("b"));
}

/// Wake-ups that nobody received do not count as under way.
#[tokio::test(start_paused = true)]
async fn a_worker_hears_of_a_key_after_many_that_were_woken_gave_up() {
    let queue = WorkQueue::new();
    let workers: Vec<_> = (0..10).map(|_| Polled::asleep(queue.get())).collect();
    for key in 0..10 {
        queue.add(key).unwrap();
    }
    assert!(workers.iter().all(Polled::is_woken));
    drop(workers);
    assert_eq!(run_ready(&queue).len(), 10);

    let mut worker = Polled::asleep(queue.get());
    let wakes = worker.wakes();
    queue.add(10).unwrap();
    assert_eq!(worker.wakes(), wakes + 1);
    assert_eq!(worker.ready().map(|lease| *lease), Some(10));
}

/// Another worker took the key before the woken one was polled.
#[tokio::test(start_paused = true)]
async fn a_woken_worker_that_finds_nothing_sleeps_on_and_hears_the_next_key() {
    let queue = WorkQueue::new();
    let mut worker = Polled::asleep(queue.get());
    queue.add("a").unwrap();
    assert_eq!(run_ready(&queue), ["a"]);
    assert!(worker.poll().is_pending());
    let wakes = worker.wakes();
    queue.add("b").unwrap();
    assert_eq!(worker.wakes(), wakes + 1);
    assert_eq!(worker.ready().map(|lease| *lease), Some("b"));
}

/// The first of the sleeping workers watches the clock for all; when it goes, another must.
#[tokio::test(start_paused = true)]
async fn a_cancelled_timekeeper_is_replaced() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    queue.add_after("a", SECOND).unwrap();
    let timekeeper = Polled::asleep(queue.get());
    let mut other = Polled::asleep(queue.get());
    drop(timekeeper);
    assert!(other.is_woken(), "to watch the clock");
    assert!(other.poll().is_pending());
    let wakes = other.wakes();
    advance(SECOND).await;
    assert_eq!(other.wakes(), wakes + 1);
    assert_eq!(other.ready().map(|lease| *lease), Some("a"));
    assert_eq!(start.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_timekeeper_cancelled_when_its_time_has_come_is_replaced() {
    let queue = WorkQueue::new();
    queue.add_after("a", SECOND).unwrap();
    let timekeeper = Polled::asleep(queue.get());
    let mut other = Polled::asleep(queue.get());
    advance(SECOND).await;
    assert_eq!((timekeeper.wakes(), other.wakes()), (1, 0));
    drop(timekeeper);
    assert!(other.is_woken());
    assert_eq!(other.ready().map(|lease| *lease), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_timekeeper_cancelled_after_an_earlier_time_was_asked_for_is_replaced() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    queue.add_after("late", 10 * SECOND).unwrap();
    let timekeeper = Polled::asleep(queue.get());
    let mut other = Polled::asleep(queue.get());
    queue.add_after("early", SECOND).unwrap();
    assert!(timekeeper.is_woken(), "to set its alarm anew");
    drop(timekeeper);
    assert!(other.is_woken());
    assert!(other.poll().is_pending());
    advance(SECOND).await;
    assert_eq!(other.ready().map(|lease| *lease), Some("early"));
    assert_eq!(start.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_timekeeper_cancelled_after_it_was_woken_for_a_key_passes_both_duties_on() {
    let queue = WorkQueue::new();
    queue.add_after("later", SECOND).unwrap();
    let timekeeper = Polled::asleep(queue.get());
    let mut second = Polled::asleep(queue.get());
    let mut third = Polled::asleep(queue.get());
    queue.add("now").unwrap();
    assert!(timekeeper.is_woken());
    drop(timekeeper);
    assert!(second.is_woken());
    assert_eq!(second.ready().map(|lease| *lease), Some("now"));
    assert!(third.is_woken(), "to watch the clock");
    assert!(third.poll().is_pending());
    advance(SECOND).await;
    assert_eq!(third.ready().map(|lease| *lease), Some("later"));
}

/// The usual way to lose keys: a `get` in a `select!` or under a timeout, again and again.
#[tokio::test(start_paused = true)]
async fn a_get_under_a_timeout_in_a_loop_loses_nothing() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    for key in 1..=100 {
        queue.add_after(key, key * 10 * MILLISECOND).unwrap();
    }
    let mut ran = Vec::new();
    let mut timeouts = 0;
    while ran.len() < 100 {
        match timeout(3 * MILLISECOND, queue.get()).await {
            Ok(lease) => {
                let key = *lease.unwrap();
                assert_eq!(start.elapsed(), key * 10 * MILLISECOND);
                ran.push(key);
            }
            Err(_elapsed) => timeouts += 1,
        }
    }
    assert_eq!(ran, (1..=100).collect::<Vec<_>>());
    assert!(timeouts >= 300, "{timeouts}");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_worker_does_not_keep_others_from_hearing_of_the_shut_down() {
    let queue = WorkQueue::<&str>::new();
    let first = Polled::asleep(queue.get());
    let mut second = Polled::asleep(queue.get());
    queue.shut_down();
    assert!(first.is_woken());
    drop(first);
    assert!(second.is_woken());
    assert!(second.ready().is_none());
}
