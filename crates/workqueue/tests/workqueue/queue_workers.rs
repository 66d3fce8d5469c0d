//! Several workers: all of them are put to work, and none is woken in vain.

use std::sync::Arc;

use crate::common::{Polled, SECOND, ends};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::{Instant, advance};
use windlass_workqueue::WorkQueue;

const WORKERS: usize = 50;

#[tokio::test(start_paused = true)]
async fn one_key_wakes_one_worker() {
    let queue = WorkQueue::new();
    let mut workers: Vec<_> = (0..WORKERS).map(|_| Polled::asleep(queue.get())).collect();
    queue.add("a").unwrap();
    let woken: Vec<_> = workers.iter_mut().filter(|worker| worker.is_woken()).collect();
    assert_eq!(woken.len(), 1);
    let lease = woken.into_iter().map(Polled::ready).next().flatten();
    assert_eq!(lease.as_deref(), Some(&"a"));
    drop(lease);
    assert_eq!(workers.iter().map(Polled::wakes).sum::<usize>(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_wakes_no_second_worker_while_the_first_is_on_its_way() {
    let queue = WorkQueue::new();
    let workers = [Polled::asleep(queue.get()), Polled::asleep(queue.get())];
    queue.add("a").unwrap();
    queue.add("a").unwrap();
    assert_eq!(queue.len(), 1);
    assert_eq!(workers.each_ref().map(Polled::wakes), [1, 0]);
    queue.add_after("b", SECOND).unwrap();
    queue.add_after("c", SECOND).unwrap();
    assert_eq!(workers.map(|worker| worker.wakes()), [1, 1], "the second sets an alarm for `b`");
    queue.shut_down();
}

#[tokio::test(start_paused = true)]
async fn one_delayed_key_wakes_one_worker_at_its_time() {
    let queue = WorkQueue::new();
    queue.add_after("a", SECOND).unwrap();
    let mut workers: Vec<_> = (0..WORKERS).map(|_| Polled::asleep(queue.get())).collect();
    advance(SECOND / 2).await;
    assert!(!workers.iter().any(Polled::is_woken));
    advance(SECOND / 2).await;
    assert_eq!(workers.iter().map(Polled::wakes).sum::<usize>(), 1);
    let worker = workers.iter_mut().find(|worker| worker.is_woken()).unwrap();
    assert_eq!(worker.ready().as_deref(), Some(&"a"));
    assert_eq!(workers.iter().map(Polled::wakes).sum::<usize>(), 1);
}

/// All workers sleep without an alarm, since nothing waited when they lay down.
#[tokio::test(start_paused = true)]
async fn a_delayed_add_makes_one_sleeping_worker_watch_the_clock() {
    let queue = WorkQueue::new();
    let mut workers: Vec<_> = (0..WORKERS).map(|_| Polled::asleep(queue.get())).collect();
    queue.add_after("a", SECOND).unwrap();
    assert_eq!(workers.iter().map(Polled::wakes).sum::<usize>(), 1);
    let watching = workers.iter_mut().position(|worker| worker.is_woken()).unwrap();
    assert!(workers[watching].poll().is_pending());
    advance(SECOND).await;
    assert_eq!(workers[watching].ready().as_deref(), Some(&"a"));
    assert_eq!(workers.iter().map(Polled::wakes).sum::<usize>(), 2);
}

#[tokio::test(start_paused = true)]
async fn duplicates_wake_nobody() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let running = queue.try_get().unwrap();
    let mut worker = Polled::asleep(queue.get());
    for _ in 0..10 {
        queue.add_after("a", SECOND).unwrap();
    }
    // One wake-up makes it the timekeeper; the nine others change nothing.
    assert_eq!(worker.wakes(), 1);
    assert!(worker.poll().is_pending());
    queue.add_after("a", SECOND).unwrap();
    assert_eq!(worker.wakes(), 1);
    drop(running);
    assert_eq!(worker.wakes(), 1);
}

#[tokio::test(start_paused = true)]
async fn keys_are_picked_up_by_all_sleeping_workers() {
    let queue = WorkQueue::<usize>::new();
    let all_running = Arc::new(Barrier::new(WORKERS + 1));
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let queue = queue.clone();
        let all_running = Arc::clone(&all_running);
        workers.spawn(async move {
            let lease = queue.get().await.unwrap();
            all_running.wait().await;
            *lease
        });
    }
    tokio::task::yield_now().await;
    for key in 0..WORKERS {
        queue.add(key).unwrap();
    }
    // Nobody gets past this unless all of them run at once.
    ends(all_running.wait()).await;
    let mut ran = ends(workers.join_all()).await;
    ran.sort_unstable();
    assert_eq!(ran, (0..WORKERS).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn two_keys_start_on_two_sleeping_workers_without_either_finishing() {
    let queue = WorkQueue::new();
    let mut first = Polled::asleep(queue.get());
    let mut second = Polled::asleep(queue.get());
    queue.add("a").unwrap();
    queue.add("b").unwrap();
    let a = first.ready().unwrap();
    assert!(second.is_woken(), "whoever takes a key wakes the next worker if there is more");
    let b = second.ready().unwrap();
    assert_eq!((*a, *b), ("a", "b"));
}

#[tokio::test(start_paused = true)]
async fn delayed_keys_that_are_due_together_start_on_all_workers() {
    let queue = WorkQueue::new();
    queue.add_after("a", SECOND).unwrap();
    queue.add_after("b", SECOND).unwrap();
    let mut first = Polled::asleep(queue.get());
    let mut second = Polled::asleep(queue.get());
    advance(SECOND).await;
    let a = first.ready().unwrap();
    assert!(second.is_woken());
    let b = second.ready().unwrap();
    assert_eq!((*a, *b), ("a", "b"));
}

#[tokio::test(start_paused = true)]
async fn an_earlier_delay_is_kept_while_all_workers_sleep_for_a_later_one() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    queue.add_after("late", 10 * SECOND).unwrap();
    let mut workers = JoinSet::new();
    for _ in 0..2 {
        let queue = queue.clone();
        workers.spawn(async move {
            let lease = queue.get().await.unwrap();
            (*lease, start.elapsed())
        });
    }
    tokio::task::yield_now().await;
    queue.add_after("early", SECOND).unwrap();
    assert_eq!(ends(workers.join_next()).await.unwrap().unwrap(), ("early", SECOND));
    assert_eq!(ends(workers.join_next()).await.unwrap().unwrap(), ("late", 10 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_worker_busy_for_long_does_not_keep_delayed_keys_from_another() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    queue.add_after("delayed", SECOND).unwrap();
    // This one watches the clock, until it is given a key that keeps it busy.
    let mut busy = Polled::asleep(queue.get());
    let mut other = Polled::asleep(queue.get());
    queue.add("long").unwrap();
    let long = busy.ready().unwrap();
    assert_eq!(*long, "long");
    assert!(other.is_woken(), "to watch the clock instead");
    assert!(other.poll().is_pending());
    advance(SECOND).await;
    assert_eq!(other.ready().as_deref(), Some(&"delayed"));
    assert_eq!(start.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn workers_that_stay_busy_let_others_run() {
    let queue = WorkQueue::<u32>::new();
    queue.add(0).unwrap();
    let worker = queue.clone();
    let mut tasks = JoinSet::new();
    // This worker always finds a key; it ends only if another task gets to run.
    tasks.spawn(async move {
        while let Some(lease) = worker.get().await {
            let _ = worker.add(*lease + 1);
        }
    });
    let stopper = queue.clone();
    tasks.spawn(async move {
        stopper.shut_down();
    });
    tasks.join_all().await;
    assert!(queue.is_shut_down());
}

/// Each handler blocks its thread until the other runs: a worker that was woken on a blocked thread
/// must not be the only one that was woken. Nobody should block like this, but many compute for
/// long.
#[test]
fn handlers_that_block_their_threads_still_start_side_by_side() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    for _ in 0..50 {
        runtime.block_on(async {
            let queue = WorkQueue::new();
            let both = Arc::new(std::sync::Barrier::new(2));
            let mut tasks = JoinSet::new();
            for _ in 0..2 {
                let queue = queue.clone();
                let both = Arc::clone(&both);
                tasks.spawn(async move {
                    let lease = queue.get().await;
                    both.wait();
                    drop(lease);
                });
            }
            // In a task, so that the workers are woken on a thread of the runtime.
            tasks.spawn(async move {
                queue.add("a").unwrap();
                queue.add("b").unwrap();
            });
            tasks.join_all().await;
        });
    }
}

/// The first sleeper is woken and never comes, as if its thread were busy.
#[tokio::test(start_paused = true)]
async fn a_sleeper_that_does_not_come_is_replaced_by_the_next_key() {
    let queue = WorkQueue::new();
    let first = Polled::asleep(queue.get());
    let mut second = Polled::asleep(queue.get());
    queue.add("a").unwrap();
    assert!(first.is_woken() && !second.is_woken());
    queue.add("b").unwrap();
    assert!(second.is_woken());
    assert_eq!(second.ready().as_deref(), Some(&"a"));
    assert_eq!(second.wakes(), 1);
}
