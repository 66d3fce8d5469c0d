//! Real threads and the real clock, for what the schedule explorer does not see: tokio's own locks
//! and timers.

use std::collections::BTreeSet;
use std::future::pending;
use std::time::Duration;

use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;
use windlass_workqueue::WorkQueue;

const KEYS: u32 = 3_000;

/// Adds every key once: now, or after a moment that is longer or shorter than that of the key
/// before, so that the worker that watches the clock has to be told.
async fn produce(queue: WorkQueue<u32>, keys: impl Iterator<Item = u32>) {
    for key in keys {
        match key % 4 {
            0 => queue.add(key),
            wait => queue.add_after(key, Duration::from_micros(u64::from(900 / wait))),
        }
        .expect("the queue must be open");
        if key % 16 == 0 {
            yield_now().await;
        }
    }
}

/// Works until the queue is shut down; returns what it was given. Without patience for ever, it
/// gives up waiting again and again.
async fn work(queue: WorkQueue<u32>, patience: Option<usize>) -> BTreeSet<u32> {
    let give_up = async || match patience {
        Some(patience) => {
            for _ in 0..patience {
                yield_now().await;
            }
        }
        None => pending().await,
    };
    let mut done = BTreeSet::new();
    loop {
        tokio::select! {
            biased;
            lease = queue.get() => match lease {
                Some(lease) => drop(done.insert(*lease)),
                None => return done,
            },
            () = give_up() => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_while_workers_give_up_waiting() {
    let queue = WorkQueue::new();
    let mut workers: JoinSet<_> = (1..=4).map(|n| work(queue.clone(), Some(3 * n))).collect();
    workers.spawn(work(queue.clone(), None));
    let producers: JoinSet<_> =
        (0..2).map(|n| produce(queue.clone(), (n..KEYS).step_by(2))).collect();
    producers.join_all().await;
    timeout(Duration::from_mins(1), queue.wait_idle()).await.expect("every key must run");
    queue.shut_down();
    let done: BTreeSet<_> = workers.join_all().await.into_iter().flatten().collect();
    assert_eq!(done.len(), KEYS as usize);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sleeping_workers_are_woken_by_keys_and_by_the_clock() {
    let queue = WorkQueue::new();
    let workers: JoinSet<_> = (0..4).map(|_| work(queue.clone(), None)).collect();
    for key in 0..KEYS / 3 {
        let soon = Duration::from_micros(u64::from(key % 7 * 300));
        if soon.is_zero() { queue.add(key) } else { queue.add_after(key, soon) }.expect("open");
        // One at a time: all workers fall asleep in between, or are about to.
        timeout(Duration::from_mins(1), queue.wait_idle()).await.expect("the key must run");
    }
    queue.shut_down();
    let done: BTreeSet<_> = workers.join_all().await.into_iter().flatten().collect();
    assert_eq!(done.len(), KEYS as usize / 3);
}
