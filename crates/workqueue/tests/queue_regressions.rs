//! What the model test once found, each as a test of its own, so that it stays found when the generator
//! changes. All are about order: what the queue puts off inside must not show.

mod common;

use std::time::Duration;

use tokio::time::advance;
use windlass_workqueue::{Add, Priority, WorkQueue};

use common::run_ready;

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
