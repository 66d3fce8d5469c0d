//! A lease is done when it is dropped, however that comes about, and says how the run went.

use std::time::Duration;

use crate::common::{MILLISECOND, Polled, SECOND, run_ready};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, advance};
use windlass_workqueue::{Add, Exponential, Load, Priority, WorkQueue};

fn queue_with_backoff() -> WorkQueue<&'static str> {
    let limiter = Exponential::new(MILLISECOND, 100 * SECOND).unwrap();
    WorkQueue::builder().limiter(limiter).build().unwrap()
}

#[test]
fn done_at_the_end_of_the_scope() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    {
        let lease = queue.try_get().unwrap();
        queue.add(*lease).unwrap();
        assert!(queue.try_get().is_none());
    }
    assert_eq!(run_ready(&queue), ["a"]);
    assert_eq!(queue.load(), Load::default());
}

#[tokio::test(start_paused = true)]
async fn done_when_the_worker_panics() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let worker = queue.clone();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let lease = worker.get().await.unwrap();
        worker.add(*lease).unwrap();
        panic!("the worker of {} fails on purpose", *lease);
    });
    assert!(tasks.join_next().await.unwrap().unwrap_err().is_panic());
    assert_eq!((queue.load().ready, queue.load().running), (1, 0));
    assert_eq!(queue.get().await.map(|lease| *lease), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn done_when_the_worker_is_aborted() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let worker = queue.clone();
    let (started, has_started) = oneshot::channel();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let _lease = worker.get().await.unwrap();
        started.send(()).unwrap();
        std::future::pending::<()>().await;
    });
    has_started.await.unwrap();
    assert_eq!(queue.load().running, 1);
    queue.add("a").unwrap();
    let mut other = Polled::asleep(queue.get());

    tasks.abort_all();
    assert!(tasks.join_next().await.unwrap().unwrap_err().is_cancelled());
    assert!(other.is_woken());
    assert_eq!(other.ready().as_deref(), Some(&"a"));
}

#[tokio::test(start_paused = true)]
async fn a_lease_may_be_done_on_another_thread() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let lease = queue.get().await.unwrap();
    queue.add("a").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(lease));
    });
    assert_eq!(run_ready(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_lease_tells_its_key_and_how_long_it_was_queued() {
    let queue = WorkQueue::<String>::new();
    queue.add("a".to_owned()).unwrap();
    advance(3 * SECOND).await;
    let lease = queue.get().await.unwrap();
    assert_eq!(lease.key(), "a");
    assert_eq!(lease.len(), 1, "a lease dereferences to its key");
    assert_eq!(lease.queued(), 3 * SECOND);
    assert!(format!("{lease:?}").contains("\"a\""));
    assert_eq!(lease.causes().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn finish_forgets_the_failures() {
    let queue = queue_with_backoff();
    queue.add("a").unwrap();
    for failures in 1..=3 {
        queue.get().await.unwrap().retry().unwrap();
        assert_eq!(queue.failures(&"a"), failures);
    }
    queue.get().await.unwrap().finish();
    assert_eq!(queue.failures(&"a"), 0);
    assert_eq!(queue.load(), Load::default());
}

/// Dropping says nothing about success, so it neither counts nor forgets a failure. In
/// controller-runtime's words: the backoff is not reset until a result without an error.
#[tokio::test(start_paused = true)]
async fn a_dropped_lease_keeps_the_failures() {
    let queue = queue_with_backoff();
    queue.add("a").unwrap();
    queue.get().await.unwrap().retry().unwrap();
    drop(queue.get().await.unwrap());
    assert_eq!(queue.failures(&"a"), 1);
}

#[tokio::test(start_paused = true)]
async fn retry_brings_the_key_back_after_a_growing_delay() {
    let queue = queue_with_backoff();
    let start = Instant::now();
    queue.add("a").unwrap();
    let mut expected = Duration::ZERO;
    for doubling in 0..8 {
        let lease = queue.get().await.unwrap();
        assert_eq!(start.elapsed(), expected);
        let delay = lease.retry().unwrap();
        assert_eq!(delay, MILLISECOND * 2_u32.pow(doubling));
        expected += delay;
    }
}

/// controller-runtime: requeue after a time is not rate-limited.
#[tokio::test(start_paused = true)]
async fn requeue_after_keeps_to_its_time_and_forgets_the_failures() {
    let queue = queue_with_backoff();
    queue.add("a").unwrap();
    queue.get().await.unwrap().retry().unwrap();
    let lease = queue.get().await.unwrap();
    let now = Instant::now();
    lease.requeue_after(7 * SECOND).unwrap();
    assert_eq!(queue.failures(&"a"), 0);
    assert_eq!(queue.due(&"a"), Some(now + 7 * SECOND));
    assert_eq!(queue.get().await.as_deref(), Some(&"a"));
    assert_eq!(now.elapsed(), 7 * SECOND);
}

/// A key that failed is tried again for the reasons it was tried before. The resync is not one of
/// them: its time comes much later.
#[tokio::test(start_paused = true)]
async fn retry_keeps_the_causes_and_the_priority_of_the_run() {
    let queue = WorkQueue::<&str, &str>::builder().build().unwrap();
    queue.add_with("a", Add::now().priority(Priority::High).cause("created")).unwrap();
    let lease = queue.try_get().unwrap();
    queue.add_with("a", Add::after(1_000 * SECOND).cause("resync")).unwrap();
    lease.retry().unwrap();
    let ahead = queue.status(&"a").unwrap().next_run.unwrap();
    assert_eq!(ahead.priority, Priority::High);
    let again = queue.get().await.unwrap();
    assert_eq!(again.causes().collect::<Vec<_>>(), [&"created"]);
    again.requeue_after(SECOND).unwrap();
    let afresh = queue.get().await.unwrap();
    assert_eq!(afresh.causes().count(), 0, "the run went well, so its causes are dealt with");
}

/// A retry does not push back what somebody else has asked for in the meantime.
#[tokio::test(start_paused = true)]
async fn retry_of_a_key_that_was_added_meanwhile_runs_at_once() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let lease = queue.try_get().unwrap();
    queue.add("a").unwrap();
    lease.requeue_after(SECOND).unwrap();
    assert_eq!(run_ready(&queue), ["a"]);
    advance(2 * SECOND).await;
    assert!(queue.try_get().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_lease_outlives_every_handle() {
    let queue = queue_with_backoff();
    queue.add("a").unwrap();
    queue.add("b").unwrap();
    let mut leases = std::iter::from_fn(|| queue.try_get());
    let a = leases.next().unwrap();
    let b = leases.next().unwrap();
    drop(queue);
    assert_eq!(*a.key(), "a");
    a.finish();
    assert_eq!(b.retry().unwrap(), MILLISECOND);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_moves_to_another_task_is_not_done() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let lease = queue.try_get().unwrap();
    queue.add("a").unwrap();
    assert!(queue.try_get().is_none(), "it still runs");
    let mut elsewhere = JoinSet::new();
    elsewhere.spawn(async move { drop(lease) });
    elsewhere.join_all().await;
    assert_eq!(run_ready(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_comes_back_is_as_urgent_as_it_was() {
    let queue = WorkQueue::new();
    for (key, comes_back) in [("requeued", true), ("retried", false)] {
        queue.add_with(key, Add::now().priority(Priority::Low)).unwrap();
        let lease = queue.get().await.unwrap();
        assert_eq!(lease.priority(), Priority::Low);
        if comes_back {
            lease.requeue_after(SECOND).unwrap();
        } else {
            lease.retry_after(SECOND).unwrap();
        }
        assert_eq!(queue.get().await.unwrap().priority(), Priority::Low);
    }
}

#[tokio::test(start_paused = true)]
async fn a_scheduled_retry_runs_only_after_its_lease_has_ended() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let mut lease = queue.get().await.unwrap();
    assert_eq!(lease.schedule_retry(Some(SECOND)).unwrap(), SECOND);
    tokio::time::advance(2 * SECOND).await;
    assert!(queue.try_get().is_none(), "it still runs");
    drop(lease);
    assert_eq!(run_ready(&queue), ["a"]);
    assert_eq!(queue.failures(&"a"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_scheduled_deferral_runs_only_after_its_lease_has_ended_and_is_no_failure() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let mut lease = queue.get().await.unwrap();
    lease.schedule_defer(SECOND).unwrap();
    tokio::time::advance(2 * SECOND).await;
    assert!(queue.try_get().is_none(), "it still runs");
    drop(lease);
    assert_eq!(run_ready(&queue), ["a"]);
    assert_eq!(queue.failures(&"a"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_run_can_come_back_with_another_priority() {
    let queue = WorkQueue::new();
    for (first, then) in [(Priority::Low, Priority::High), (Priority::High, Priority::Low)] {
        queue.add_with("a", Add::now().priority(first)).unwrap();
        let mut lease = queue.get().await.unwrap();
        lease.set_priority(then);
        lease.retry_after(SECOND).unwrap();
        let lease = queue.get().await.unwrap();
        assert_eq!(lease.priority(), then);
        lease.finish();
    }
    // Somebody added the key meanwhile, and the higher priority counts.
    queue.add("a").unwrap();
    let mut lease = queue.get().await.unwrap();
    queue.add_with("a", Add::now().priority(Priority::High)).unwrap();
    lease.set_priority(Priority::Low);
    lease.retry_after(SECOND).unwrap();
    assert_eq!(queue.get().await.unwrap().priority(), Priority::High);
}

/// Age moves a key up to be fair to it once; a retry starts where it was asked to.
#[tokio::test(start_paused = true)]
async fn a_run_that_had_moved_up_by_age_comes_back_where_it_started() {
    let queue = WorkQueue::<&str>::builder().aging(SECOND).build().unwrap();
    queue.add_with("low", Add::now().priority(Priority::Low)).unwrap();
    queue.add("running").unwrap();
    let running = queue.try_get().unwrap();
    queue.add("running").unwrap();
    tokio::time::advance(2 * SECOND).await;
    let lease = queue.try_get().unwrap();
    assert_eq!((*lease, lease.priority()), ("low", Priority::Low));
    lease.retry_after(SECOND).unwrap();
    assert_eq!(queue.status(&"low").unwrap().next_run.unwrap().priority, Priority::Low);
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn a_deferred_key_comes_back_as_if_it_had_not_been_taken() {
    let queue = WorkQueue::<&str, &str>::builder().build().unwrap();
    queue.add_with("a", Add::now().priority(Priority::Low).cause("created")).unwrap();
    queue.get().await.unwrap().retry_after(SECOND).unwrap();
    for _ in 0..3 {
        let lease = queue.get().await.unwrap();
        let now = Instant::now();
        assert_eq!(lease.causes().collect::<Vec<_>>(), [&"created"]);
        assert_eq!((lease.priority(), queue.failures(&"a")), (Priority::Low, 1));
        lease.defer(SECOND).unwrap();
        assert_eq!(queue.due(&"a"), Some(now + SECOND));
    }
    assert!(queue.get().await.unwrap().defer(Duration::MAX).is_err());
}

#[tokio::test(start_paused = true)]
async fn retry_after_counts_a_failure_and_requeue_after_forgets_them() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    queue.get().await.unwrap().retry_after(SECOND).unwrap();
    assert_eq!(queue.failures(&"a"), 1);
    queue.get().await.unwrap().retry_after(SECOND).unwrap();
    assert_eq!(queue.failures(&"a"), 2);
    queue.get().await.unwrap().requeue_after(SECOND).unwrap();
    assert_eq!(queue.failures(&"a"), 0);
}

/// Refused before anything has changed: the failures are still there.
#[tokio::test(start_paused = true)]
async fn a_delay_that_is_too_long_changes_nothing() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    queue.get().await.unwrap().retry().unwrap();
    let lease = queue.get().await.unwrap();
    assert!(lease.requeue_after(Duration::MAX).is_err());
    assert_eq!(queue.failures(&"a"), 1);
    assert!(queue.is_empty());
}
