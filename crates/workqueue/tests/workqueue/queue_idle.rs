//! Waiting until the queue has nothing left: for a job that is complete when its queue is.

use crate::common::{Polled, SECOND, ends, run_ready};
use tokio::task::JoinSet;
use tokio::time::{Instant, advance};
use windlass_workqueue::WorkQueue;

#[tokio::test(start_paused = true)]
async fn a_new_queue_is_idle() {
    let queue = WorkQueue::<&str>::new();
    ends(queue.wait_idle()).await;
    queue.shut_down();
    ends(queue.wait_idle()).await;
}

#[tokio::test(start_paused = true)]
async fn idle_waits_for_ready_running_and_waiting_keys() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    queue.add_after("b", SECOND).unwrap();
    let mut idle = Polled::asleep(queue.wait_idle());
    let lease = queue.try_get().unwrap();
    assert!(idle.poll().is_pending(), "a runs, b waits");
    drop(lease);
    assert!(idle.poll().is_pending(), "b waits");
    advance(SECOND).await;
    assert!(idle.poll().is_pending(), "b is ready");
    assert_eq!(run_ready(&queue), ["b"]);
    assert!(idle.is_woken());
    idle.ready();
}

#[tokio::test(start_paused = true)]
async fn idle_hears_of_a_cancelled_key() {
    let queue = WorkQueue::new();
    queue.add_after("a", SECOND).unwrap();
    let mut idle = Polled::asleep(queue.wait_idle());
    assert!(queue.cancel(&"a"));
    assert!(idle.is_woken());
    idle.ready();
}

#[tokio::test(start_paused = true)]
async fn idle_hears_of_keys_given_back_by_the_shut_down() {
    let queue = WorkQueue::new();
    queue.add_after("a", SECOND).unwrap();
    let mut idle = Polled::asleep(queue.wait_idle());
    assert_eq!(queue.shut_down().len(), 1);
    assert!(idle.is_woken());
    idle.ready();
}

#[tokio::test(start_paused = true)]
async fn idle_is_not_misled_by_a_key_added_while_another_ends() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let lease = queue.try_get().unwrap();
    let mut idle = Polled::asleep(queue.wait_idle());
    queue.add("b").unwrap();
    drop(lease);
    assert!(idle.poll().is_pending());
    assert_eq!(run_ready(&queue), ["b"]);
    idle.ready();
}

#[tokio::test(start_paused = true)]
async fn idle_waits_for_a_key_that_runs_again() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let lease = queue.try_get().unwrap();
    let mut idle = Polled::asleep(queue.wait_idle());
    queue.add("a").unwrap();
    drop(lease);
    assert!(idle.poll().is_pending());
    let again = queue.try_get().unwrap();
    again.retry().unwrap();
    assert!(idle.poll().is_pending());
    ends(queue.get()).await.unwrap().finish();
    idle.ready();
}

/// Workers and whoever waits for them need nothing else to make progress.
#[tokio::test(start_paused = true)]
async fn a_job_with_retries_ends_when_its_queue_is_idle() {
    let queue = WorkQueue::<u32>::new();
    let start = Instant::now();
    for key in 0..20 {
        queue.add(key).unwrap();
    }
    let mut workers = JoinSet::new();
    for _ in 0..4 {
        let queue = queue.clone();
        workers.spawn(async move {
            while let Some(lease) = queue.get().await {
                if queue.failures(&lease) < 3 {
                    lease.retry().unwrap();
                } else {
                    lease.finish();
                }
            }
        });
    }
    ends(queue.wait_idle()).await;
    // 5, 10 and 20 ms: the sixty retries fit into the bucket's burst.
    assert_eq!(start.elapsed().as_millis(), 35);
    queue.shut_down();
    ends(workers.join_all()).await;
}
