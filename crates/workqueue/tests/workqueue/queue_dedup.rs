//! A key is queued once, runs in one place, and runs again if it was added meanwhile.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use crate::common::{Polled, ends, run_next, run_ready};
use tokio::task::JoinSet;
use windlass_workqueue::WorkQueue;

#[test]
fn keys_come_out_in_the_order_they_went_in() {
    let queue = WorkQueue::new();
    for key in 0..5_000 {
        queue.add(key).unwrap();
    }
    assert_eq!(run_ready(&queue), (0..5_000).collect::<Vec<_>>());
}

#[test]
fn order_is_kept_while_keys_come_and_go() {
    let queue = WorkQueue::new();
    let mut ran = Vec::new();
    for key in 0..1_000 {
        queue.add(key).unwrap();
        if key % 3 == 0 {
            ran.extend(run_next(&queue));
        }
    }
    ran.extend(run_ready(&queue));
    assert_eq!(ran, (0..1_000).collect::<Vec<_>>());
}

#[test]
fn a_key_added_many_times_runs_once() {
    let queue = WorkQueue::new();
    for _ in 0..1_000 {
        queue.add("a").unwrap();
    }
    assert_eq!(queue.len(), 1);
    assert_eq!(run_ready(&queue), ["a"]);
}

/// The second add has only just come when the key is taken, and the run stands for it as well.
#[test]
fn a_key_added_again_right_before_it_is_taken_runs_once() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    queue.add("b").unwrap();
    assert_eq!(queue.len(), 2);
    queue.add("a").unwrap();
    assert_eq!(run_ready(&queue), ["a", "b"]);
}

#[test]
fn a_key_added_again_before_it_ran_keeps_its_place() {
    let queue = WorkQueue::new();
    for key in ["a", "b", "c", "a"] {
        queue.add(key).unwrap();
    }
    assert_eq!(run_ready(&queue), ["a", "b", "c"]);
}

/// client-go: `TestAddWhileProcessing`; controller-runtime: a locked item can be enqueued.
#[test]
fn a_running_key_is_not_handed_out_until_it_is_done() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let running = queue.try_get().unwrap();
    queue.add("a").unwrap();
    assert!(queue.try_get().is_none());
    assert_eq!(queue.len(), 1);

    drop(running);
    assert_eq!(run_next(&queue), Some("a"));
    assert!(queue.is_empty());
}

#[test]
fn a_running_key_does_not_hold_up_the_keys_behind_it() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let running = queue.try_get().unwrap();
    for key in ["a", "b", "c"] {
        queue.add(key).unwrap();
    }
    assert_eq!(run_ready(&queue), ["b", "c"]);
    drop(running);
    assert_eq!(run_ready(&queue), ["a"]);
}

/// The key behind has only just been added when the worker looks past the running one.
#[test]
fn a_key_added_behind_a_running_one_is_found() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let _running = queue.try_get().unwrap();
    queue.add("a").unwrap();
    assert_eq!(queue.len(), 1);
    queue.add("b").unwrap();
    assert_eq!(run_next(&queue), Some("b"));
}

/// client-go: `TestReinsert`.
#[test]
fn readded_while_processing_runs_again() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let first = queue.try_get().unwrap();
    queue.add("a").unwrap();
    drop(first);
    let second = queue.try_get().unwrap();
    assert_eq!(*second.key(), "a");
    drop(second);
    assert!(queue.try_get().is_none());
    queue.add("a").unwrap();
    assert_eq!(run_ready(&queue), ["a"]);
}

/// client-go: `TestCollapseWhileProcessing`.
#[test]
fn adds_while_processing_collapse_into_one_run() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let running = queue.try_get().unwrap();
    for _ in 0..100 {
        queue.add("a").unwrap();
    }
    assert_eq!(queue.len(), 1);
    drop(running);
    assert_eq!(run_ready(&queue), ["a"]);
}

/// client-go puts a key that was re-added while it ran at the end of the line when it is done. Here
/// it takes its place when it is added, as every other key does: a slow run does not cost it its
/// turn.
#[test]
fn readded_while_running_keeps_the_place_it_took() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let running = queue.try_get().unwrap();
    for key in ["b", "a", "c"] {
        queue.add(key).unwrap();
    }
    drop(running);
    assert_eq!(run_ready(&queue), ["b", "a", "c"]);
}

/// The same, when others have overtaken it because it was still running when its turn came.
#[test]
fn a_key_whose_turn_came_while_it_ran_is_first_when_it_is_done() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let running = queue.try_get().unwrap();
    for key in ["a", "b", "c"] {
        queue.add(key).unwrap();
    }
    assert_eq!(run_next(&queue), Some("b"));
    drop(running);
    assert_eq!(run_ready(&queue), ["a", "c"]);
}

/// client-go: `TestLen`.
#[test]
fn len_counts_every_ready_key_once() {
    let queue = WorkQueue::new();
    assert!(queue.is_empty());
    for key in ["a", "b", "a"] {
        queue.add(key).unwrap();
    }
    assert_eq!(queue.len(), 2);
    let running = queue.try_get().unwrap();
    assert_eq!(queue.len(), 1);
    queue.add("a").unwrap();
    assert_eq!(queue.len(), 2, "a runs and is ready for another run");
    drop(running);
    assert_eq!(queue.len(), 2);
}

/// controller-runtime: an item is returned as soon as it is unlocked.
#[tokio::test(start_paused = true)]
async fn a_readded_key_reaches_a_waiting_worker_as_soon_as_it_is_done() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let running = queue.try_get().unwrap();
    queue.add("a").unwrap();
    let mut waiting = Polled::asleep(queue.get());
    drop(running);
    assert!(waiting.is_woken());
    assert_eq!(waiting.ready().map(|lease| *lease.key()), Some("a"));
}

#[test]
fn handles_are_one_queue() {
    let queue = WorkQueue::new();
    let other = queue.clone();
    queue.add("a").unwrap();
    other.add("a").unwrap();
    assert_eq!(run_ready(&other), ["a"]);
    assert!(queue.is_empty());
}

/// client-go: `TestBasic` and `TestAddWhileProcessing`, with every key re-added once from its own
/// run.
#[tokio::test(start_paused = true)]
async fn no_key_runs_in_two_places_with_many_workers_and_producers() {
    const PRODUCERS: u32 = 20;
    const KEYS: u32 = 200;
    let queue = WorkQueue::<u32>::new();
    let running = Arc::new(Mutex::new(HashSet::new()));
    let seen = Arc::new(Mutex::new(HashSet::new()));

    let mut workers = JoinSet::new();
    for _ in 0..10 {
        let queue = queue.clone();
        let running = Arc::clone(&running);
        let seen = Arc::clone(&seen);
        workers.spawn(async move {
            while let Some(lease) = queue.get().await {
                assert!(running.lock().unwrap().insert(*lease), "{} runs twice at once", *lease);
                if seen.lock().unwrap().insert(*lease) {
                    queue.add(*lease).unwrap();
                }
                tokio::task::yield_now().await;
                assert!(running.lock().unwrap().remove(&*lease));
            }
        });
    }
    let mut producers = JoinSet::new();
    for producer in 0..PRODUCERS {
        let queue = queue.clone();
        producers.spawn(async move {
            for key in 0..KEYS {
                queue.add((producer * 10 + key) % KEYS).unwrap();
                tokio::task::yield_now().await;
            }
        });
    }
    producers.join_all().await;
    // The workers re-add each key once, so the queue may only be closed when all have been seen.
    while seen.lock().unwrap().len() < KEYS as usize {
        tokio::task::yield_now().await;
    }
    ends(queue.shut_down_with_drain()).await;
    ends(workers.join_all()).await;
    assert_eq!(queue.load(), windlass_workqueue::Load::default());
}
