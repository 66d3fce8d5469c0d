//! A waiting key can be taken out, and every key's next run can be looked up.

use crate::common::{Polled, SECOND, run_ready};
use tokio::time::{Instant, advance};
use windlass_workqueue::{Load, WorkQueue};

#[tokio::test(start_paused = true)]
async fn a_cancelled_key_does_not_run() {
    let queue = WorkQueue::new();
    queue.add_after("a", SECOND).unwrap();
    queue.add_after("b", SECOND).unwrap();
    assert!(queue.cancel(&"a"));
    assert_eq!(queue.due(&"a"), None);
    advance(2 * SECOND).await;
    assert_eq!(run_ready(&queue), ["b"]);
    assert_eq!(queue.load(), Load::default());
}

#[tokio::test(start_paused = true)]
async fn only_waiting_keys_are_cancelled() {
    let queue = WorkQueue::new();
    assert!(!queue.cancel(&"unknown"));

    queue.add("a").unwrap();
    assert!(!queue.cancel(&"a"), "ready");
    let running = queue.try_get().unwrap();
    assert!(!queue.cancel(&"a"), "running");
    queue.add("a").unwrap();
    assert!(!queue.cancel(&"a"), "running and ready");
    drop(running);
    assert_eq!(run_ready(&queue), ["a"]);
    assert!(!queue.cancel(&"a"), "done");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_due_is_ready_and_no_longer_cancelled() {
    let queue = WorkQueue::new();
    queue.add_after("a", SECOND).unwrap();
    advance(SECOND).await;
    assert!(!queue.cancel(&"a"));
    assert_eq!(run_ready(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_running_key_that_waits_is_cancelled_and_runs_on() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let running = queue.try_get().unwrap();
    queue.add_after("a", SECOND).unwrap();
    assert!(queue.cancel(&"a"));
    assert!(!queue.cancel(&"a"));
    assert_eq!(queue.load().running, 1);
    advance(2 * SECOND).await;
    drop(running);
    assert!(queue.try_get().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_key_can_be_added_again() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    queue.add_after("a", SECOND).unwrap();
    assert!(queue.cancel(&"a"));
    queue.add_after("a", 3 * SECOND).unwrap();
    let lease = queue.get().await.unwrap();
    assert_eq!((*lease, start.elapsed()), ("a", 3 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn cancelling_what_a_worker_sleeps_for_leaves_the_next_key_on_time() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    queue.add_after("a", SECOND).unwrap();
    queue.add_after("b", 2 * SECOND).unwrap();
    let mut worker = Polled::asleep(queue.get());
    assert!(queue.cancel(&"a"));
    advance(SECOND).await;
    assert!(worker.poll().is_pending());
    advance(SECOND).await;
    assert!(worker.is_woken());
    assert_eq!(*worker.ready().unwrap(), "b");
    assert_eq!(start.elapsed(), 2 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn due_tells_when_a_key_runs_next() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    assert_eq!(queue.due(&"a"), None, "unknown");

    queue.add_after("a", 5 * SECOND).unwrap();
    assert_eq!(queue.due(&"a"), Some(start + 5 * SECOND), "waiting");
    queue.add_after("a", 9 * SECOND).unwrap();
    assert_eq!(queue.due(&"a"), Some(start + 5 * SECOND), "the earliest wins");
    queue.add_after("a", 2 * SECOND).unwrap();
    assert_eq!(queue.due(&"a"), Some(start + 2 * SECOND));

    advance(3 * SECOND).await;
    assert_eq!(queue.due(&"a"), Some(start + 2 * SECOND), "ready since");
    let running = queue.try_get().unwrap();
    assert_eq!(queue.due(&"a"), None, "running, nothing ahead");
    queue.add("a").unwrap();
    assert_eq!(queue.due(&"a"), Some(start + 3 * SECOND), "running, and ready again");
    drop(running);
    assert_eq!(run_ready(&queue), ["a"]);
    assert_eq!(queue.due(&"a"), None, "done");
}

#[tokio::test(start_paused = true)]
async fn many_cancelled_keys_leave_nothing_behind() {
    let queue = WorkQueue::new();
    for key in 0..10_000_u32 {
        queue.add_after(key, SECOND).unwrap();
    }
    for key in 0..10_000 {
        assert!(queue.cancel(&key));
    }
    assert_eq!(queue.load(), Load::default());
    assert!(queue.snapshot().keys.is_empty());
}
