//! Every add may say why; a run is told the causes of all adds that it stands for.

use crate::common::{SECOND, run_ready};
use tokio::time::advance;
use windlass_workqueue::{Add, Lease, WorkQueue};

type Queue = WorkQueue<&'static str, u32>;

fn queue() -> Queue {
    Queue::builder().build().unwrap()
}

fn add(queue: &Queue, key: &'static str, cause: u32) {
    queue.add_with(key, Add::now().cause(cause)).unwrap();
}

fn causes(lease: &Lease<&'static str, u32>) -> Vec<u32> {
    lease.causes().copied().collect()
}

#[test]
fn causes_of_merged_adds_come_oldest_first() {
    let queue = queue();
    for cause in 1..=3 {
        add(&queue, "a", cause);
        add(&queue, "b", 10 * cause);
    }
    let lease = queue.try_get().unwrap();
    assert_eq!((causes(&lease), lease.causes_omitted()), (vec![1, 2, 3], 0));
    let lease = queue.try_get().unwrap();
    assert_eq!(causes(&lease), [10, 20, 30]);
}

#[test]
fn the_first_four_and_the_last_four_are_kept_and_the_rest_is_counted() {
    let queue = queue();
    for cause in 0..1_000 {
        add(&queue, "a", cause);
    }
    let lease = queue.try_get().unwrap();
    assert_eq!(causes(&lease), [0, 1, 2, 3, 996, 997, 998, 999]);
    assert_eq!(lease.causes_omitted(), 992);
}

#[test]
fn causes_that_come_while_a_key_runs_belong_to_the_next_run() {
    let queue = queue();
    add(&queue, "a", 1);
    let first = queue.try_get().unwrap();
    add(&queue, "a", 2);
    add(&queue, "a", 3);
    assert_eq!(causes(&first), [1]);
    drop(first);
    let second = queue.try_get().unwrap();
    assert_eq!(causes(&second), [2, 3]);
    drop(second);
    queue.add("a").unwrap();
    let third = queue.try_get().unwrap();
    assert_eq!(causes(&third), []);
}

/// What was to happen in five minutes has not happened when something else makes the key run now.
#[tokio::test(start_paused = true)]
async fn timer_that_a_ready_add_supersedes_is_not_told() {
    let queue = queue();
    queue.add_with("a", Add::after(300 * SECOND).cause(1)).unwrap();
    add(&queue, "a", 2);
    assert_eq!(causes(&queue.try_get().unwrap()), [2]);
}

#[tokio::test(start_paused = true)]
async fn timer_of_a_key_that_is_ready_already_is_not_told() {
    let queue = queue();
    add(&queue, "a", 1);
    queue.add_with("a", Add::after(300 * SECOND).cause(2)).unwrap();
    add(&queue, "a", 3);
    assert_eq!(causes(&queue.try_get().unwrap()), [1, 3]);
}

#[tokio::test(start_paused = true)]
async fn timer_whose_time_has_come_is_told_with_what_came_after_it() {
    let queue = queue();
    queue.add_with("a", Add::after(SECOND).cause(1)).unwrap();
    advance(SECOND).await;
    add(&queue, "a", 2);
    assert_eq!(causes(&queue.try_get().unwrap()), [1, 2]);
}

/// Only so many keys that are due at the same time enter the line at once.
#[tokio::test(start_paused = true)]
async fn timer_whose_time_has_come_is_told_also_if_thousands_are_due() {
    let queue = WorkQueue::<u32, u32>::builder().build().unwrap();
    for key in 0..2_000 {
        queue.add_with(key, Add::after(SECOND).cause(1)).unwrap();
    }
    advance(SECOND).await;
    queue.add_with(1_999, Add::now().cause(2)).unwrap();
    for _ in 0..2_000 {
        let lease = queue.try_get().unwrap();
        let told: &[u32] = if *lease == 1_999 { &[1, 2] } else { &[1] };
        assert_eq!(lease.causes().copied().collect::<Vec<_>>(), told, "{}", *lease);
    }
}

#[tokio::test(start_paused = true)]
async fn timer_that_an_earlier_one_supersedes_is_not_told() {
    let queue = queue();
    queue.add_with("a", Add::after(10 * SECOND).cause(1)).unwrap();
    queue.add_with("a", Add::after(5 * SECOND).cause(2)).unwrap();
    assert_eq!(causes(&queue.get().await.unwrap()), [2]);
}

/// Adds that wait are merged like others: as of events that all ask for a run a second later.
#[tokio::test(start_paused = true)]
async fn later_adds_of_a_waiting_key_are_merged_with_their_causes() {
    let queue = queue();
    for cause in 1..=3 {
        queue.add_with("a", Add::after(SECOND).cause(cause)).unwrap();
        advance(SECOND / 10).await;
    }
    assert_eq!(causes(&queue.get().await.unwrap()), [1, 2, 3]);
}

/// The causes of a run that failed have happened, and are not dealt with.
#[tokio::test(start_paused = true)]
async fn causes_of_a_failed_run_are_told_however_soon_it_runs_again() {
    let queue = queue();
    add(&queue, "a", 1);
    queue.try_get().unwrap().retry_after(300 * SECOND).unwrap();
    add(&queue, "a", 2);
    assert_eq!(causes(&queue.try_get().unwrap()), [1, 2]);

    queue.add_with("a", Add::rate_limited().cause(3)).unwrap();
    add(&queue, "a", 4);
    assert_eq!(causes(&queue.try_get().unwrap()), [3, 4], "a rate-limited add is a retry");
}

#[tokio::test(start_paused = true)]
async fn timer_is_not_told_by_a_retry_before_its_time() {
    let queue = queue();
    queue.add_with("a", Add::after(300 * SECOND).cause(1)).unwrap();
    add(&queue, "a", 2);
    let lease = queue.try_get().unwrap();
    queue.add_with("a", Add::after(300 * SECOND).cause(3)).unwrap();
    lease.retry_after(SECOND).unwrap();
    assert_eq!(causes(&queue.get().await.unwrap()), [2]);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_keeps_its_causes_until_it_runs() {
    let queue = queue();
    queue.add_with("a", Add::after(SECOND).cause(1)).unwrap();
    advance(SECOND).await;
    assert_eq!(causes(&queue.get().await.unwrap()), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_key_loses_its_causes() {
    let queue = queue();
    queue.add_with("a", Add::after(SECOND).cause(1)).unwrap();
    assert!(queue.cancel(&"a"));
    add(&queue, "a", 2);
    assert_eq!(causes(&queue.try_get().unwrap()), [2]);
}

#[tokio::test(start_paused = true)]
async fn cancelling_the_run_ahead_leaves_the_causes_of_the_run_under_way() {
    let queue = queue();
    add(&queue, "a", 1);
    let lease = queue.try_get().unwrap();
    queue.add_with("a", Add::after(SECOND).cause(2)).unwrap();
    assert!(queue.cancel(&"a"));
    assert_eq!(causes(&lease), [1]);
    let status = queue.status(&"a").unwrap();
    assert_eq!(status.running.unwrap().causes.iter().copied().collect::<Vec<_>>(), [1]);
}

#[test]
fn adds_without_a_cause_add_none() {
    let queue = queue();
    queue.add("a").unwrap();
    add(&queue, "a", 1);
    queue.add_with("a", Add::now()).unwrap();
    assert_eq!(causes(&queue.try_get().unwrap()), [1]);
}

#[test]
fn a_key_that_comes_back_much_later_has_no_old_causes() {
    let queue = WorkQueue::<u32, u32>::builder().build().unwrap();
    queue.add_with(0, Add::now().cause(1)).unwrap();
    drop(queue.try_get());
    // So many others that its slot has been used again.
    for key in 1..1_000 {
        queue.add(key).unwrap();
    }
    assert_eq!(run_ready(&queue).len(), 999);
    queue.add(0).unwrap();
    assert_eq!(queue.try_get().unwrap().causes().count(), 0);
}

/// A cause may be anything; it need not be `Clone`, unless one wants a snapshot.
#[test]
fn causes_need_not_be_cloned() {
    struct Event(&'static str);
    let queue = WorkQueue::<u32, Event>::builder().build().unwrap();
    queue.add_with(1, Add::now().cause(Event("created"))).unwrap();
    queue.add_with(1, Add::now().cause(Event("changed"))).unwrap();
    let lease = queue.try_get().unwrap();
    let texts: Vec<_> = lease.causes().map(|event| event.0).collect();
    assert_eq!(texts, ["created", "changed"]);
}
