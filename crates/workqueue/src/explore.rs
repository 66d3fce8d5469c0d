//! The queue under a schedule explorer.
//!
//! In this crate's unit tests the lock is shuttle's, which runs each test below under thousands of
//! thread interleavings. A lost wake-up shows as a deadlock. The explorer does not see inside
//! tokio; a [yield point](crate::sync::yield_point) lets it switch threads around calls into tokio.
//! The last tests show that it finds a [`Mistake`].
//!
//! A failure prints the schedule that led to it. `shuttle::replay` runs that schedule again, except
//! for clocks and hashes.

use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use shuttle::future::{JoinHandle, block_on, spawn};

use crate::sync::yield_point;
use crate::{Add, Group, Priority, WorkQueue};

/// Random schedules for each test. More would take too long for each test run.
const SCHEDULES: usize = 3_000;

/// Runs `test` under random schedules, and under schedules that switch threads only a few times,
/// which find rare orders.
fn explore(test: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(test, SCHEDULES);
    shuttle::check_pct(test, SCHEDULES, 3);
}

/// A mistake in the wake-ups, made on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// The last sleeper is not woken.
    LeavesLastAsleep,
    /// A worker that has looked for a key still counts as being woken.
    CountsWakingForEver,
}

thread_local! {
    /// The explorer runs all threads of a test on one.
    static MISTAKE: Cell<Option<Mistake>> = const { Cell::new(None) };
}

impl Mistake {
    /// Whether the test of this thread makes it.
    pub(crate) fn is_made(self) -> bool {
        MISTAKE.get() == Some(self)
    }

    /// Makes it while `test` runs.
    fn during(self, test: impl FnOnce()) {
        MISTAKE.set(Some(self));
        let result = catch_unwind(AssertUnwindSafe(test));
        MISTAKE.set(None);
        result.unwrap_or_else(|panic| resume_unwind(panic));
    }
}

/// What the workers of a test saw.
#[derive(Clone, Default)]
struct Log {
    runs: Arc<Mutex<HashMap<u32, usize>>>,
    running: Arc<Mutex<Vec<u32>>>,
}

impl Log {
    fn start(&self, key: u32) {
        let mut running = self.running.lock().expect("not poisoned");
        assert!(!running.contains(&key), "{key} runs twice at once");
        running.push(key);
    }

    fn end(&self, key: u32) {
        self.running.lock().expect("not poisoned").retain(|other| *other != key);
        *self.runs.lock().expect("not poisoned").entry(key).or_default() += 1;
    }

    fn runs(&self, key: u32) -> usize {
        self.runs.lock().expect("not poisoned").get(&key).copied().unwrap_or_default()
    }
}

/// Works until the queue is shut down.
async fn work(queue: WorkQueue<u32>, log: Log) {
    while let Some(lease) = queue.get().await {
        log.start(*lease);
        yield_point();
        log.end(*lease);
        drop(lease);
    }
}

/// Starts to wait for a key, lets others run, and gives up, perhaps after it was woken.
async fn impatient_work(queue: WorkQueue<u32>, log: Log) {
    let mut get = pin!(queue.get());
    if let Poll::Ready(Some(lease)) = futures::poll!(get.as_mut()) {
        log.start(*lease);
        log.end(*lease);
        return;
    }
    yield_point();
}

fn join_tasks<T>(tasks: Vec<JoinHandle<T>>) -> Vec<T> {
    tasks.into_iter().map(|task| block_on(task).expect("a task must not panic")).collect()
}

fn join_threads(threads: Vec<shuttle::thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("a thread must not panic");
    }
}

#[test]
fn no_key_is_lost_and_none_runs_twice_at_once() {
    explore(two_producers_and_two_workers);
}

fn two_producers_and_two_workers() {
    let queue = WorkQueue::new();
    let log = Log::default();
    let workers: Vec<_> = (0..2).map(|_| spawn(work(queue.clone(), log.clone()))).collect();
    let producers: Vec<_> = (0..2)
        .map(|_| {
            let queue = queue.clone();
            shuttle::thread::spawn(move || {
                for key in 0..3 {
                    queue.add(key).expect("open");
                }
            })
        })
        .collect();
    join_threads(producers);
    // `wait_idle` wakes no worker, so a lost wake-up leads to a deadlock here.
    block_on(queue.wait_idle());
    queue.shut_down();
    join_tasks(workers);
    for key in 0..3 {
        assert!((1..=2).contains(&log.runs(key)), "{key} ran {} times", log.runs(key));
    }
}

#[test]
fn sleeping_workers_take_two_keys_side_by_side() {
    explore(|| {
        // Each worker holds its key until the other has one too: if one wake-up served both keys,
        // the second would never start.
        let queue = WorkQueue::new();
        let both = Arc::new(tokio::sync::Barrier::new(2));
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                let both = Arc::clone(&both);
                spawn(async move {
                    let lease = queue.get().await;
                    both.wait().await;
                    drop(lease);
                })
            })
            .collect();
        for key in 0..2 {
            queue.add(key).expect("open");
        }
        join_tasks(workers);
    });
}

#[test]
fn a_key_added_while_it_runs_runs_again() {
    explore(|| {
        let queue = WorkQueue::new();
        let log = Log::default();
        queue.add(1).expect("open");
        let lease = queue.try_get().expect("ready");
        log.start(1);
        let workers: Vec<_> = (0..2).map(|_| spawn(work(queue.clone(), log.clone()))).collect();
        let adder = {
            let queue = queue.clone();
            shuttle::thread::spawn(move || queue.add(1).expect("open"))
        };
        log.end(1);
        drop(lease);
        adder.join().expect("no panic");
        block_on(queue.wait_idle());
        queue.shut_down();
        join_tasks(workers);
        assert_eq!(log.runs(1), 2);
    });
}

#[test]
fn a_worker_that_gives_up_passes_its_wake_up_on() {
    explore(|| {
        let queue = WorkQueue::new();
        let log = Log::default();
        let patient = spawn(work(queue.clone(), log.clone()));
        let impatient: Vec<_> =
            (0..2).map(|_| spawn(impatient_work(queue.clone(), log.clone()))).collect();
        for key in 0..2 {
            queue.add(key).expect("open");
        }
        join_tasks(impatient);
        block_on(queue.wait_idle());
        queue.shut_down();
        block_on(patient).expect("no panic");
        assert_eq!((log.runs(0), log.runs(1)), (1, 1));
    });
}

#[test]
fn adds_that_race_with_the_shut_down_are_run_or_refused() {
    explore(|| {
        let queue = WorkQueue::new();
        let log = Log::default();
        let worker = spawn(work(queue.clone(), log.clone()));
        let adder = {
            let queue = queue.clone();
            shuttle::thread::spawn(move || queue.add(1).is_ok())
        };
        block_on(queue.shut_down_with_drain());
        let taken = adder.join().expect("no panic");
        block_on(worker).expect("no panic");
        assert_eq!(log.runs(1), usize::from(taken));
        assert!(queue.is_empty());
    });
}

#[test]
fn the_full_queue_loses_nothing_either() {
    explore(|| {
        let builder = WorkQueue::<u32, u32>::builder().fair_by(|key| Group::of(&(key % 2)));
        let queue = builder.build().expect("valid");
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                spawn(async move {
                    let mut causes = 0;
                    while let Some(lease) = queue.get().await {
                        causes += lease.causes().count();
                    }
                    causes
                })
            })
            .collect();
        let producers: Vec<_> = [Priority::Low, Priority::High]
            .map(|priority| {
                let queue = queue.clone();
                shuttle::thread::spawn(move || {
                    for key in 0..3 {
                        let add = Add::now().priority(priority).cause(key);
                        queue.add_with(key, add).expect("open");
                    }
                })
            })
            .into_iter()
            .collect();
        join_threads(producers);
        // `wait_idle` wakes no worker, so a lost wake-up leads to a deadlock here.
        block_on(queue.wait_idle());
        queue.shut_down();
        let causes: usize = join_tasks(workers).into_iter().sum();
        assert_eq!(causes, 6, "every cause reaches a run, once");
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn explorer_finds_a_sleeper_that_is_not_woken() {
    Mistake::LeavesLastAsleep.during(|| explore(two_producers_and_two_workers));
}

#[test]
#[should_panic(expected = "deadlock")]
fn explorer_finds_a_worker_that_counts_as_being_woken_for_ever() {
    Mistake::CountsWakingForEver.during(|| explore(two_producers_and_two_workers));
}
