//! Faults that were found once, each as a test of its own. The first ones are about order: the
//! model test found them, and they stay found here when its generator changes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, advance, timeout};
use windlass_workqueue::{Add, Group, Observer, Priority, RateLimiter, WorkQueue};

use crate::common::{MILLISECOND, Polled, SECOND, run_ready};

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

/// Each worker used to rely on the one before it to wake the next.
#[tokio::test(start_paused = true)]
async fn shutting_down_ends_every_worker_even_if_one_get_is_not_polled_again() {
    let queue = WorkQueue::<u32>::new();
    let _unpolled = Polled::asleep(queue.get());
    let worker = Polled::asleep(queue.get());
    queue.shut_down();
    assert!(worker.is_woken());
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_even_if_a_key_woke_a_get_that_is_not_polled_again() {
    let queue = WorkQueue::<u32>::new();
    let unpolled = Polled::asleep(queue.get());
    let other = queue.clone();
    let mut workers = JoinSet::new();
    workers.spawn(async move {
        while let Some(lease) = other.get().await {
            lease.finish();
        }
    });
    tokio::task::yield_now().await;
    queue.add(1).unwrap();
    assert!(unpolled.is_woken());
    let drained = timeout(Duration::from_hours(1), queue.shut_down_with_drain()).await;
    assert!(drained.is_ok(), "{:?}", queue.load());
    workers.join_all().await;
}

/// With groups, each parking used to put this key before all others that age.
#[tokio::test(start_paused = true)]
async fn a_key_that_is_parked_again_and_again_does_not_keep_others_from_aging() {
    let builder = WorkQueue::<(u32, u32)>::builder().aging(AGING);
    let queue = builder.fair_by(|key| Group::of(&key.0)).build().unwrap();
    let low = || Add::now().priority(Priority::Low);
    let hot = (1, 0);
    queue.add_with(hot, low()).unwrap();
    let mut running = queue.try_get().unwrap();
    for number in 0..100 {
        queue.add_with((0, number), low()).unwrap();
    }
    let last_level = || queue.status(&(0, 99)).unwrap().next_run.unwrap().priority;
    for _ in 0..12 {
        queue.add_with(hot, low()).unwrap();
        let others = [queue.try_get().unwrap(), queue.try_get().unwrap()];
        drop((others, running));
        queue.add_with((2, 0), Add::now().priority(Priority::High)).unwrap();
        advance(9 * SECOND).await;
        drop(queue.try_get().unwrap());
        if last_level() > Priority::Low {
            return;
        }
        running = queue.try_get().unwrap();
        assert_eq!(*running, hot);
    }
    panic!("the last key must have moved up, but it is still {:?}", last_level());
}

/// A paused clock may be behind the one on which the queue was built.
#[test]
fn a_queue_that_tests_share_is_on_time_on_the_clock_of_each() {
    let paused = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap()
    };
    let queue = OnceLock::new();
    paused().block_on(async {
        advance(Duration::from_hours(1)).await;
        queue.get_or_init(WorkQueue::<u32>::new);
    });
    paused().block_on(async {
        let queue = queue.get().unwrap();
        let start = Instant::now();
        queue.add_after(1, SECOND).unwrap();
        drop(queue.get().await);
        assert!(start.elapsed() <= 2 * SECOND, "{:?}", start.elapsed());
    });
}

/// While it is asked for the third delay of a key, another thread forgets the key.
struct ForgetsMeanwhile(Arc<OnceLock<WorkQueue<u32>>>);

impl RateLimiter<u32> for ForgetsMeanwhile {
    fn next_delay(&mut self, key: &u32, failures: u32, _now: Instant) -> Duration {
        if failures == 3 {
            let (queue, key) = (self.0.get().unwrap().clone(), *key);
            std::thread::spawn(move || queue.forget(&key)).join().unwrap();
        }
        failures * SECOND
    }
}

#[tokio::test(start_paused = true)]
async fn a_success_while_a_failure_is_counted_is_not_undone() {
    let cell = Arc::new(OnceLock::new());
    let limiter = ForgetsMeanwhile(Arc::clone(&cell));
    let queue = WorkQueue::builder().limiter(limiter).build().unwrap();
    assert!(cell.set(queue.clone()).is_ok());
    for _ in 0..3 {
        queue.add_rate_limited(1).unwrap();
        advance(10 * SECOND).await;
    }
    assert_eq!(queue.failures(&1), 1);
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_is_refused_leaves_the_lease_its_causes() {
    let queue = WorkQueue::<u32, &str>::builder().build().unwrap();
    queue.add_with(1, Add::now().cause("changed")).unwrap();
    let mut lease = queue.try_get().unwrap();
    queue.shut_down();
    assert!(lease.schedule_retry(None).is_err());
    assert!(lease.causes().eq(["changed"].iter()));
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

struct PanicsTwice;

impl Observer for PanicsTwice {
    fn finished(&self, _ran: Duration) {
        std::panic::panic_any(PanicsWhenDropped);
    }
}

#[test]
fn an_observer_that_panics_with_something_that_panics_when_dropped_harms_nobody() {
    let queue = WorkQueue::<u32>::builder().observer(Arc::new(PanicsTwice)).build().unwrap();
    queue.add(1).unwrap();
    let lease = queue.try_get().unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(lease))).is_ok());
}
