//! Faults that were found once, each as a test of its own. The first ones are about order: the
//! model test found them, and they stay found here when its generator changes.

use std::time::Duration;

use tokio::time::advance;
use windlass_workqueue::{Add, Priority, WorkQueue};

use crate::common::{MILLISECOND, SECOND, run_ready};

const AGING: Duration = Duration::from_secs(10);

fn aging_queue() -> WorkQueue<&'static str> {
    WorkQueue::builder().aging(AGING).build().expect("valid")
}

fn low() -> Add {
    Add::now().priority(Priority::Low)
}

fn high() -> Add {
    Add::now().priority(Priority::High)
}

/// The plain add makes a waiting key ready, and it keeps the priority it waited with.
#[tokio::test(start_paused = true)]
async fn a_plain_add_of_a_waiting_urgent_key_overtakes_the_line() {
    let queue = WorkQueue::new();
    queue.add("first").unwrap();
    queue.add_with("urgent", Add::after(AGING).priority(Priority::High)).unwrap();
    queue.add("urgent").unwrap();
    assert_eq!(run_ready(&queue), ["urgent", "first"]);
}

/// A key that moves up by age lines up behind what was added before it moved.
#[tokio::test(start_paused = true)]
async fn a_key_that_moves_up_comes_after_earlier_adds_of_its_new_level() {
    let queue = aging_queue();
    queue.add("running").unwrap();
    let lease = queue.try_get().unwrap();
    queue.add("running").unwrap();
    queue.add_with("old and low", low()).unwrap();
    advance(2 * AGING).await;
    queue.add("new").unwrap();
    assert_eq!(queue.try_get().as_deref(), Some(&"new"));
    drop(lease);
}

/// A plain add ages from the time of the add, not from when the queue got round to it.
#[tokio::test(start_paused = true)]
async fn a_plain_add_ages_while_urgent_keys_are_taken() {
    let queue = aging_queue();
    queue.add_with("urgent", high()).unwrap();
    queue.add("plain").unwrap();
    advance(2 * AGING).await;
    assert_eq!(queue.try_get().as_deref(), Some(&"urgent"));
    queue.add_with("later and urgent", high()).unwrap();
    assert_eq!(run_ready(&queue), ["plain", "later and urgent"]);
}

/// The key was passed over at low priority; the add makes it normal, and only then is its run done.
#[tokio::test(start_paused = true)]
async fn a_passed_over_key_that_became_more_urgent_comes_first_at_its_new_level() {
    let queue = WorkQueue::new();
    queue.add("passed over").unwrap();
    let lease = queue.try_get().unwrap();
    queue.add_with("passed over", low()).unwrap();
    assert!(queue.try_get().is_none());
    queue.add("normal").unwrap();
    assert_eq!(queue.len(), 2);
    queue.add("passed over").unwrap();
    drop(lease);
    assert_eq!(run_ready(&queue), ["passed over", "normal"]);
}

/// A delayed add may raise a key that is ready; it still comes after what was urgent before.
#[tokio::test(start_paused = true)]
async fn a_key_raised_by_a_delayed_add_comes_after_earlier_urgent_ones() {
    let queue = WorkQueue::new();
    queue.add_with("raised", low()).unwrap();
    queue.add_with("urgent", high()).unwrap();
    queue.add_with("raised", Add::after(AGING).priority(Priority::High)).unwrap();
    assert_eq!(run_ready(&queue), ["urgent", "raised"]);
}

/// The limiter was asked for a delay that nobody used, and the bucket kept the slot: a thousand
/// objects that said "not ready, again in 10 s" made every other retry wait, for hours in the end.
#[tokio::test(start_paused = true)]
async fn retry_with_its_own_delay_books_nothing_in_a_shared_limiter() {
    let queue = WorkQueue::<u32>::new();
    for key in 0..1_100 {
        queue.add(key).unwrap();
        queue.try_get().unwrap().retry_after(SECOND).unwrap();
        assert_eq!(queue.failures(&key), 1, "it is a failure of its key all the same");
    }
    queue.add(9_999).unwrap();
    assert_eq!(queue.try_get().unwrap().retry().unwrap(), 5 * MILLISECOND);
}

/// Every failure booked a slot, also while the key waited already: one object that failed at each
/// event made the retries of all others wait.
#[tokio::test(start_paused = true)]
async fn key_that_fails_again_while_its_backoff_lasts_books_no_other_slot() {
    let queue = WorkQueue::<u32>::new();
    for _ in 0..1_100 {
        queue.add(0).unwrap();
        queue.try_get().unwrap().retry().unwrap();
    }
    assert_eq!(queue.failures(&0), 1);
    queue.add(1).unwrap();
    assert_eq!(queue.try_get().unwrap().retry().unwrap(), 5 * MILLISECOND);
}

/// failures.rs: the window of `retry_after(1 h)` counted as open for every later failure. So a key
/// that an event ran early, and that failed for another reason, waited for the rest of the hour.
#[tokio::test(start_paused = true)]
async fn failure_after_a_retry_with_its_own_delay_has_its_own_backoff() {
    let queue = WorkQueue::<u32>::new();
    queue.add(1).expect("open");
    let lease = queue.get().await.expect("a key");
    lease.retry_after(Duration::from_hours(1)).expect("open");
    queue.add(1).expect("open");
    let lease = queue.get().await.expect("a key");
    let delay = lease.retry().expect("open");
    assert_eq!(delay, Duration::from_millis(10), "the second failure of the key");
    assert_eq!(queue.failures(&1), 2);
}
