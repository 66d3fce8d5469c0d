//! Higher priorities come first, each level in the order in which keys came, and nothing starves.

use crate::common::{Polled, SECOND, run_next, run_ready};
use tokio::time::advance;
use windlass_workqueue::{Add, Priority, WorkQueue};

type Queue = WorkQueue<&'static str>;

fn add(queue: &Queue, key: &'static str, priority: Priority) {
    queue.add_with(key, Add::now().priority(priority)).unwrap();
}

#[test]
fn higher_priorities_come_first() {
    let queue = Queue::new();
    add(&queue, "low", Priority::Low);
    add(&queue, "normal", Priority::Normal);
    add(&queue, "high", Priority::High);
    assert_eq!(run_ready(&queue), ["high", "normal", "low"]);
}

#[test]
fn keys_of_one_priority_come_in_the_order_they_were_added() {
    let queue = Queue::new();
    for (one, two) in [("a", "A"), ("b", "B"), ("c", "C")] {
        add(&queue, one, Priority::Low);
        add(&queue, two, Priority::High);
    }
    assert_eq!(run_ready(&queue), ["A", "B", "C", "a", "b", "c"]);
}

#[test]
fn add_uses_the_normal_priority() {
    let queue = Queue::new();
    add(&queue, "low", Priority::Low);
    queue.add("plain").unwrap();
    add(&queue, "normal", Priority::Normal);
    assert_eq!(run_ready(&queue), ["plain", "normal", "low"]);
    assert_eq!(Priority::default(), Priority::Normal);
}

/// controller-runtime: the priority never decreases.
#[test]
fn a_queued_key_keeps_the_highest_priority_it_was_added_with() {
    let queue = Queue::new();
    add(&queue, "other", Priority::Normal);
    add(&queue, "a", Priority::High);
    add(&queue, "a", Priority::Low);
    queue.add("a").unwrap();
    assert_eq!(run_ready(&queue), ["a", "other"]);
}

/// controller-runtime: FIFO in the new priority.
#[test]
fn a_raised_key_goes_to_the_end_of_its_new_level() {
    let queue = Queue::new();
    add(&queue, "a", Priority::Low);
    add(&queue, "b", Priority::Low);
    add(&queue, "high", Priority::High);
    add(&queue, "b", Priority::High);
    add(&queue, "a", Priority::High);
    assert_eq!(run_ready(&queue), ["high", "b", "a"]);
}

#[test]
fn a_low_key_is_raised_by_a_plain_add() {
    let queue = Queue::new();
    add(&queue, "a", Priority::Low);
    add(&queue, "b", Priority::Low);
    queue.add("b").unwrap();
    assert_eq!(run_ready(&queue), ["b", "a"]);
}

#[test]
fn keys_raised_over_and_over_run_once() {
    let queue = WorkQueue::<u32>::new();
    for priority in Priority::ALL {
        for key in 0..1_000 {
            queue.add_with(key, Add::now().priority(priority)).unwrap();
        }
    }
    assert_eq!(queue.len(), 1_000);
    assert_eq!(run_ready(&queue), (0..1_000).collect::<Vec<_>>());
}

#[test]
fn a_priority_counts_for_one_run() {
    let queue = Queue::new();
    add(&queue, "a", Priority::High);
    assert_eq!(run_next(&queue), Some("a"));
    add(&queue, "a", Priority::Low);
    add(&queue, "b", Priority::Normal);
    assert_eq!(run_ready(&queue), ["b", "a"]);
}

/// controller-runtime: a high-priority item that became ready comes first.
#[tokio::test(start_paused = true)]
async fn a_high_key_that_became_ready_comes_before_lower_ones() {
    let queue = Queue::new();
    queue.add_with("delayed", Add::after(SECOND).priority(Priority::High)).unwrap();
    add(&queue, "a", Priority::Normal);
    add(&queue, "b", Priority::Normal);
    assert_eq!(run_next(&queue), Some("a"));
    advance(SECOND).await;
    assert_eq!(run_ready(&queue), ["delayed", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_key_keeps_its_priority_when_it_is_added_again() {
    let queue = Queue::new();
    queue.add_with("a", Add::after(SECOND).priority(Priority::High)).unwrap();
    add(&queue, "b", Priority::Normal);
    add(&queue, "a", Priority::Low);
    assert_eq!(run_ready(&queue), ["a", "b"]);

    queue.add_with("a", Add::after(SECOND).priority(Priority::Low)).unwrap();
    queue.add_with("a", Add::after(2 * SECOND).priority(Priority::High)).unwrap();
    add(&queue, "b", Priority::Normal);
    advance(SECOND).await;
    assert_eq!(run_ready(&queue), ["a", "b"], "the earliest time and the highest priority");
}

/// A delayed add of a ready key is absorbed, but what it says about urgency is heard.
#[tokio::test(start_paused = true)]
async fn a_delayed_add_raises_a_ready_key() {
    let queue = Queue::new();
    add(&queue, "a", Priority::Normal);
    add(&queue, "b", Priority::Normal);
    queue.add_with("b", Add::after(SECOND).priority(Priority::High)).unwrap();
    assert_eq!(run_ready(&queue), ["b", "a"]);
}

/// controller-runtime: a locked item can be enqueued, and others are handed out meanwhile.
#[tokio::test(start_paused = true)]
async fn a_high_key_that_runs_does_not_hold_up_lower_ones() {
    let queue = Queue::new();
    add(&queue, "a", Priority::High);
    let running = queue.try_get().unwrap();
    add(&queue, "a", Priority::High);
    add(&queue, "b", Priority::Low);
    add(&queue, "c", Priority::Low);
    assert_eq!(run_next(&queue), Some("b"));
    drop(running);
    assert_eq!(run_ready(&queue), ["a", "c"]);
}

/// controller-runtime: an item is returned as soon as it is unlocked, also with others of lower
/// priority.
#[tokio::test(start_paused = true)]
async fn a_raised_running_key_reaches_a_waiting_worker_when_it_is_done() {
    let queue = Queue::new();
    add(&queue, "a", Priority::Low);
    let running = queue.try_get().unwrap();
    add(&queue, "a", Priority::Low);
    let mut worker = Polled::asleep(queue.get());
    add(&queue, "a", Priority::High);
    assert!(worker.poll().is_pending());
    drop(running);
    queue.add("b").unwrap();
    assert_eq!(worker.ready().as_deref(), Some(&"a"));
}

/// The worker looks past a running key while the more urgent one has only just been added.
#[test]
fn a_key_behind_a_running_one_comes_before_a_lower_one() {
    let queue = Queue::new();
    queue.add("a").unwrap();
    let _running = queue.try_get().unwrap();
    queue.add("a").unwrap();
    add(&queue, "low", Priority::Low);
    queue.add("b").unwrap();
    assert_eq!(run_ready(&queue), ["b", "low"]);
}

#[tokio::test(start_paused = true)]
async fn keys_of_equal_priority_that_are_due_keep_the_order_of_their_times() {
    let queue = Queue::new();
    for (key, delay) in [("b", 2), ("a", 1), ("c", 3)] {
        queue.add_with(key, Add::after(delay * SECOND).priority(Priority::High)).unwrap();
    }
    advance(3 * SECOND).await;
    assert_eq!(run_ready(&queue), ["a", "b", "c"]);
}

/// Two urgent keys are always in line; one runs each second.
#[tokio::test(start_paused = true)]
async fn a_low_key_does_not_starve_under_a_flood_of_high_ones() {
    const LOW: u32 = u32::MAX;
    let queue = WorkQueue::<u32>::builder().aging(30 * SECOND).build().unwrap();
    queue.add_with(LOW, Add::now().priority(Priority::Low)).unwrap();
    for key in 0..2 {
        queue.add_with(key, Add::now().priority(Priority::High)).unwrap();
    }
    for second in 0..=63 {
        let key = run_next(&queue).unwrap();
        if key == LOW {
            assert!(second >= 60, "not before it has aged twice: {second}");
            return;
        }
        queue.add_with(second + 2, Add::now().priority(Priority::High)).unwrap();
        advance(SECOND).await;
    }
    panic!("the low key has starved");
}

#[tokio::test(start_paused = true)]
async fn aging_moves_a_key_by_one_level_at_a_time() {
    let queue = Queue::builder().aging(10 * SECOND).build().unwrap();
    add(&queue, "low", Priority::Low);
    advance(100 * SECOND).await;
    for key in ["n1", "n2", "n3"] {
        add(&queue, key, Priority::Normal);
    }
    add(&queue, "h1", Priority::High);
    // However long it has waited, it is Normal now, behind those who were there.
    assert_eq!(run_next(&queue), Some("h1"));
    assert_eq!(queue.status(&"low").unwrap().next_run.unwrap().priority, Priority::Normal);
    assert_eq!(run_ready(&queue), ["n1", "n2", "n3", "low"]);
}

/// Also the time before any other priority was used.
#[tokio::test(start_paused = true)]
async fn age_counts_from_the_add() {
    let queue = Queue::builder().aging(10 * SECOND).build().unwrap();
    let level = || queue.status(&"normal").unwrap().next_run.unwrap().priority;
    add(&queue, "normal", Priority::Normal);
    advance(8 * SECOND).await;
    for key in ["h1", "h2", "h3"] {
        add(&queue, key, Priority::High);
    }
    assert_eq!((run_next(&queue), level()), (Some("h1"), Priority::Normal));
    advance(4 * SECOND).await;
    assert_eq!((run_next(&queue), level()), (Some("h2"), Priority::High));
}

#[tokio::test(start_paused = true)]
async fn keys_age_in_the_order_they_came() {
    let queue = Queue::builder().aging(10 * SECOND).build().unwrap();
    for key in ["a", "b", "c"] {
        add(&queue, key, Priority::Low);
        advance(SECOND).await;
    }
    add(&queue, "normal", Priority::Normal);
    advance(20 * SECOND).await;
    assert_eq!(run_ready(&queue), ["normal", "a", "b", "c"]);
}
