//! Every add may say why; a run is told the causes of all adds that it stands for.

mod common;

use common::{SECOND, run_ready};
use tokio::time::advance;
use windlass_workqueue::{Add, Lease, Priority, WorkQueue};

type Queue = WorkQueue<&'static str, u32>;

fn queue() -> Queue {
    Queue::builder().build().unwrap()
}

fn add(queue: &Queue, key: &'static str, cause: u32) {
    queue.add_with(key, Add::now().cause(cause)).unwrap();
}

fn causes(lease: &Lease<'_, &'static str, u32>) -> Vec<u32> {
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

#[tokio::test(start_paused = true)]
async fn causes_of_delayed_and_immediate_adds_are_merged() {
    let queue = queue();
    queue.add_with("a", Add::after(10 * SECOND).cause(1)).unwrap();
    queue.add_with("a", Add::after(20 * SECOND).cause(2)).unwrap();
    queue.add_with("a", Add::after(5 * SECOND).cause(3)).unwrap();
    queue.add_with("a", Add::rate_limited().cause(4)).unwrap();
    add(&queue, "a", 5);
    queue.add_with("a", Add::after(SECOND).cause(6)).unwrap();
    queue.add_with("a", Add::now().priority(Priority::High).cause(7)).unwrap();
    assert_eq!(causes(&queue.try_get().unwrap()), [1, 2, 3, 4, 5, 6, 7]);
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
