//! Closing the queue: what is ready is still handed out, what waits is given back, and nothing
//! hangs.

use crate::common::{Polled, SECOND, ends, run_ready};
use tokio::task::JoinSet;
use tokio::time::{Instant, advance, timeout};
use windlass_workqueue::{Load, WaitingKey, WorkQueue};

fn pairs(waiting: Vec<WaitingKey<&'static str>>) -> Vec<(&'static str, Instant)> {
    waiting.into_iter().map(|waiting| (waiting.key, waiting.due)).collect()
}

#[tokio::test(start_paused = true)]
async fn ready_keys_are_still_handed_out_and_then_none() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    queue.add("b").unwrap();
    assert!(!queue.is_shut_down());
    queue.shut_down();
    assert!(queue.is_shut_down());
    assert_eq!(queue.get().await.as_deref(), Some(&"a"));
    assert_eq!(queue.get().await.as_deref(), Some(&"b"));
    assert!(queue.get().await.is_none());
    assert!(queue.get().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn every_waiting_worker_is_told() {
    let queue = WorkQueue::new();
    queue.add_after("a", SECOND).unwrap();
    let mut workers = JoinSet::new();
    for _ in 0..20 {
        let queue = queue.clone();
        workers.spawn(async move { queue.get().await.is_none() });
    }
    tokio::task::yield_now().await;
    queue.shut_down();
    assert_eq!(ends(workers.join_all()).await, [true; 20]);
}

/// client-go drops waiting keys without a word.
#[tokio::test(start_paused = true)]
async fn waiting_keys_are_given_back_the_earliest_first() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    queue.add_after("late", 3 * SECOND).unwrap();
    queue.add_after("early", SECOND).unwrap();
    queue.add_after("early too", SECOND).unwrap();
    queue.add("ready").unwrap();
    let waiting = queue.shut_down();
    assert_eq!(
        pairs(waiting),
        [("early", start + SECOND), ("early too", start + SECOND), ("late", start + 3 * SECOND),]
    );
    assert_eq!(run_ready(&queue), ["ready"]);
    advance(5 * SECOND).await;
    assert!(queue.get().await.is_none());
    assert!(queue.shut_down().is_empty(), "they are given back once");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_due_counts_as_ready() {
    let queue = WorkQueue::new();
    queue.add_after("a", SECOND).unwrap();
    advance(SECOND).await;
    assert!(queue.shut_down().is_empty());
    assert_eq!(queue.get().await.as_deref(), Some(&"a"));
}

#[tokio::test(start_paused = true)]
async fn a_running_key_that_waits_for_another_run_is_given_back() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    queue.add("a").unwrap();
    let lease = queue.try_get().unwrap();
    queue.add_after("a", SECOND).unwrap();
    assert_eq!(pairs(queue.shut_down()), [("a", start + SECOND)]);
    drop(lease);
    assert!(queue.get().await.is_none());
}

/// client-go: `TestNoQueueDrainageUsingShutDown`.
#[tokio::test(start_paused = true)]
async fn shut_down_does_not_wait_for_running_keys() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let lease = queue.try_get().unwrap();
    queue.shut_down();
    assert!(queue.get().await.is_none(), "no run is ahead, so the worker may go");
    assert_eq!(queue.load().running, 1);
    drop(lease);
    assert_eq!(queue.load(), Load::default());
}

/// client-go tells a worker to go as soon as the line is empty, although a running key that was
/// added again will need one. Here `None` means that no key will ever come again.
#[tokio::test(start_paused = true)]
async fn get_waits_on_while_a_running_key_will_run_again() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let lease = queue.try_get().unwrap();
    queue.add("a").unwrap();
    queue.shut_down();
    let mut worker = Polled::asleep(queue.get());
    let mut other = Polled::asleep(queue.get());
    drop(lease);
    let again = worker.ready().unwrap();
    assert_eq!(*again, "a");
    assert!(other.is_woken());
    assert!(other.ready().is_none());
    drop(again);
    assert!(queue.get().await.is_none());
}

/// client-go: `TestQueueDrainageUsingShutDownWithDrain`.
#[tokio::test(start_paused = true)]
async fn drain_waits_for_ready_and_running_keys() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    for key in ["a", "b", "c"] {
        queue.add(key).unwrap();
    }
    queue.add_after("d", SECOND).unwrap();
    let a = queue.try_get().unwrap();
    let mut drain = Polled::asleep(queue.shut_down_with_drain());
    assert!(queue.is_shut_down());
    assert_eq!(run_ready(&queue), ["b", "c"]);
    assert!(drain.poll().is_pending(), "a is still running");
    drop(a);
    assert!(drain.is_woken());
    assert_eq!(pairs(drain.ready()), [("d", start + SECOND)]);
}

/// client-go: `TestQueueDrainageUsingShutDownWithDrainWithDirtyItem`.
#[tokio::test(start_paused = true)]
async fn drain_waits_for_the_second_run_of_a_readded_key() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let first = queue.try_get().unwrap();
    queue.add("a").unwrap();
    let mut drain = Polled::asleep(queue.shut_down_with_drain());
    drop(first);
    assert!(drain.poll().is_pending());
    let second = queue.get().await.unwrap();
    assert!(drain.poll().is_pending());
    drop(second);
    assert!(drain.ready().is_empty());
    assert!(queue.get().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn drain_of_an_idle_queue_ends_at_once() {
    let queue = WorkQueue::<&str>::new();
    assert!(queue.shut_down_with_drain().await.is_empty());
    assert!(queue.shut_down_with_drain().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_is_not_polled_closes_nothing() {
    let queue = WorkQueue::new();
    drop(queue.shut_down_with_drain());
    queue.add("a").unwrap();
    assert!(!queue.is_shut_down());
    assert_eq!(run_ready(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_drain_dropped_half_way_leaves_the_queue_shut_down() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    assert!(timeout(SECOND, queue.shut_down_with_drain()).await.is_err());
    assert!(queue.is_shut_down());
    assert_eq!(run_ready(&queue), ["a"]);
    assert!(queue.shut_down_with_drain().await.is_empty());
}

/// client-go: `TestForceQueueShutdownUsingShutDown`, where a plain shut-down ends a drain that is
/// under way. Here a drain that has returned has drained; who wants out drops it, for example by a
/// timeout.
#[tokio::test(start_paused = true)]
async fn a_second_shut_down_does_not_cut_a_drain_short() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let lease = queue.try_get().unwrap();
    let mut drain = Polled::asleep(queue.shut_down_with_drain());
    queue.shut_down();
    assert!(drain.poll().is_pending());
    drop(lease);
    assert!(drain.ready().is_empty());
}

#[tokio::test(start_paused = true)]
async fn all_who_drain_are_told() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let lease = queue.try_get().unwrap();
    let mut drains = JoinSet::new();
    for _ in 0..5 {
        let queue = queue.clone();
        drains.spawn(async move { queue.shut_down_with_drain().await });
    }
    tokio::task::yield_now().await;
    drop(lease);
    assert!(ends(drains.join_all()).await.iter().all(Vec::is_empty));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_panics_does_not_hang_the_drain() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let mut workers = JoinSet::new();
    let worker = queue.clone();
    workers.spawn(async move {
        let _lease = worker.get().await.unwrap();
        tokio::time::sleep(SECOND).await;
        panic!("on purpose");
    });
    let start = Instant::now();
    tokio::task::yield_now().await;
    ends(queue.shut_down_with_drain()).await;
    assert_eq!(start.elapsed(), SECOND);
}

/// controller-runtime: no deadlock when the queue is shut down while it hands out items.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn shut_down_while_keys_are_handed_out_ends_every_worker() {
    for round in 0..50 {
        let queue = WorkQueue::<u32>::new();
        let mut tasks = JoinSet::new();
        for _ in 0..4 {
            let queue = queue.clone();
            tasks.spawn(async move {
                while let Some(lease) = queue.get().await {
                    let _ = queue.add_after(*lease, SECOND);
                }
            });
        }
        for producer in 0..2 {
            let queue = queue.clone();
            tasks.spawn(async move {
                for key in (producer..).step_by(2) {
                    if queue.add(key).is_err() {
                        break;
                    }
                }
            });
        }
        // Each round closes the queue at another moment.
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        queue.shut_down_with_drain().await;
        tasks.join_all().await;
        assert_eq!(queue.load(), Load::default());
    }
}
