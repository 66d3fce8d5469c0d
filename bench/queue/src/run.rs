//! The cases, on any queue and any keys.
//!
//! Producers and workers are tokio tasks on a thread for each core, as informers and reconcilers
//! are, and as they are goroutines in the counterpart. Every run ends as a success.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use prometheus_client::registry::Registry;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::task::coop::consume_budget;
use windlass_workqueue::{Add, Group, InvalidConfig, Priority, QueueMetrics, WorkQueue};

use crate::case::{Case, PASSES};
use crate::keys::{Key, Keys, namespace_of};
use crate::meter::{Measured, Meter};

/// How many keys a paced producer adds in a second, a batch each millisecond.
const RATE: usize = 20_000;

/// Enough for twice the rate, with runs of [`PACED_RUN`]. Tokio's timer may make two of one.
const PACED_WORKERS: usize = 80;

/// How long a run waits in the paced case.
const PACED_RUN: Duration = Duration::from_millis(1);

const STORM_WORKERS: usize = 4;

/// How long a run computes in the storm.
const STORM_RUN: Duration = Duration::from_micros(20);

/// A queue, and how a key is added to it at once or after a delay.
pub(crate) struct Subject<K: 'static, C: 'static> {
    queue: WorkQueue<K, C>,
    add: fn(&WorkQueue<K, C>, usize, K, Duration),
    /// What the observer writes to.
    _metrics: Option<Registry>,
}

/// What a case measured.
pub(crate) struct Outcome {
    pub(crate) measured: Measured,
    /// From the add of a key to the start of its run, sorted. Only in the paced case.
    pub(crate) latencies: Vec<u64>,
    /// CPU time that the runs computed.
    pub(crate) work: Duration,
}

/// The queue as it comes.
pub(crate) fn plain<K: Key>() -> Subject<K, ()> {
    Subject { queue: WorkQueue::new(), add: add_plainly, _metrics: None }
}

fn add_plainly<K: Key>(queue: &WorkQueue<K>, _index: usize, key: K, delay: Duration) {
    let added = if delay.is_zero() { queue.add(key) } else { queue.add_after(key, delay) };
    added.expect("the queue must be open");
}

/// Priorities, groups, causes and metrics: every third key is low, normal or high.
pub(crate) fn full<K: Key>() -> Result<Subject<K, usize>, InvalidConfig> {
    let mut registry = Registry::default();
    let metrics = QueueMetrics::register(&mut registry);
    let fair = WorkQueue::builder().fair_by(|key| Group::of(&namespace_of(key)));
    Ok(Subject {
        queue: fair.observer(metrics.observer("bench")).build()?,
        add: |queue, index, key, delay| {
            let priority = Priority::ALL[index % Priority::ALL.len()];
            let add = Add::after(delay).priority(priority).cause(index);
            queue.add_with(key, add).expect("the queue must be open");
        },
        _metrics: Some(registry),
    })
}

pub(crate) fn run<K, C>(case: Case, keys: &Keys<K>, subject: Subject<K, C>) -> Result<Outcome>
where
    K: Key,
    C: Send + Sync + 'static,
{
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    let subject = Arc::new(subject);
    let keys = &keys.keys;
    let outcome = |measured| Outcome { measured, latencies: Vec::new(), work: Duration::ZERO };
    runtime.block_on(async {
        match case {
            Case::Paced => paced(keys, &subject).await,
            Case::Storm => {
                let measured = until_done(STORM_WORKERS, STORM_RUN, keys, &subject, no_delay).await;
                let work = STORM_RUN * u32::try_from(keys.len())?;
                Ok(Outcome { work, ..outcome(measured?) })
            }
            Case::Backlog => backlog(1, keys, &subject).await.map(outcome),
            Case::Dup => backlog(PASSES, keys, &subject).await.map(outcome),
            Case::Delay => {
                until_done(1, Duration::ZERO, keys, &subject, delay_of).await.map(outcome)
            }
            Case::Contention { workers } => {
                until_done(workers, Duration::ZERO, keys, &subject, no_delay).await.map(outcome)
            }
            Case::Intern => unreachable!("the intern case has no queue"),
        }
    })
}

fn no_delay(_index: usize) -> Duration {
    Duration::ZERO
}

/// Spreads the due times over half a second, in an order unlike that of the adds. The six seconds
/// before let every queue finish adding first, so that all keys wait at once.
fn delay_of(index: usize) -> Duration {
    Duration::from_secs(6) + Duration::from_micros((index * 7919 % 500_000) as u64)
}

/// Adds all keys.
async fn produce<K: Key, C>(
    passes: usize,
    keys: Arc<Vec<K>>,
    subject: Arc<Subject<K, C>>,
    delay_of: fn(usize) -> Duration,
) {
    for _ in 0..passes {
        for (index, key) in keys.iter().enumerate() {
            (subject.add)(&subject.queue, index, key.clone(), delay_of(index));
            // Like a task that reads events from a stream, it lets others run now and then.
            consume_budget().await;
        }
    }
}

/// Adds all keys `passes` times, and then takes each once.
async fn backlog<K, C>(
    passes: usize,
    keys: &Arc<Vec<K>>,
    subject: &Arc<Subject<K, C>>,
) -> Result<Measured>
where
    K: Key,
    C: Send + Sync + 'static,
{
    let meter = Meter::start()?;
    produce(passes, Arc::clone(keys), Arc::clone(subject), no_delay).await;
    for _ in 0..keys.len() {
        if let Some(lease) = subject.queue.get().await {
            lease.finish();
        }
    }
    ensure!(subject.queue.is_empty(), "a key must come out once");
    meter.stop()
}

/// Counts the runs that have ended.
struct Progress {
    done: AtomicUsize,
    total: usize,
    all_done: Notify,
}

impl Progress {
    fn of(total: usize) -> Arc<Self> {
        Arc::new(Self { done: AtomicUsize::new(0), total, all_done: Notify::new() })
    }

    fn step(&self) {
        if self.done.fetch_add(1, Ordering::Relaxed) + 1 == self.total {
            self.all_done.notify_one();
        }
    }
}

/// Adds keys while workers take them, and ends when every key has been done once.
async fn until_done<K, C>(
    workers: usize,
    work: Duration,
    keys: &Arc<Vec<K>>,
    subject: &Arc<Subject<K, C>>,
    delay_of: fn(usize) -> Duration,
) -> Result<Measured>
where
    K: Key,
    C: Send + Sync + 'static,
{
    let progress = Progress::of(keys.len());
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        let (queue, progress) = (subject.queue.clone(), Arc::clone(&progress));
        tasks.spawn(async move {
            while let Some(lease) = queue.get().await {
                compute(work);
                lease.finish();
                progress.step();
            }
        });
    }
    let meter = Meter::start()?;
    tasks.spawn(produce(1, Arc::clone(keys), Arc::clone(subject), delay_of));
    progress.all_done.notified().await;
    meter.stop()
}

/// Keeps the processor busy.
fn compute(work: Duration) {
    if !work.is_zero() {
        let start = Instant::now();
        while start.elapsed() < work {
            std::hint::spin_loop();
        }
    }
}

/// Adds [`RATE`] keys a second, and measures from each add to the start of the run.
async fn paced<K, C>(keys: &Arc<Vec<K>>, subject: &Arc<Subject<K, C>>) -> Result<Outcome>
where
    K: Key,
    C: Send + Sync + 'static,
{
    let start = Instant::now();
    let since_start = move || u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    // When a key was added, and then how long it took to start.
    let times: Arc<Vec<AtomicU64>> = Arc::new(keys.iter().map(|_| AtomicU64::new(0)).collect());
    let progress = Progress::of(keys.len());
    let mut tasks = JoinSet::new();
    for _ in 0..PACED_WORKERS {
        let (queue, progress) = (subject.queue.clone(), Arc::clone(&progress));
        let times = Arc::clone(&times);
        tasks.spawn(async move {
            while let Some(lease) = queue.get().await {
                let time = &times[lease.index()];
                time.store(since_start() - time.load(Ordering::Relaxed), Ordering::Relaxed);
                tokio::time::sleep(PACED_RUN).await;
                lease.finish();
                progress.step();
            }
        });
    }
    let meter = Meter::start()?;
    let producer = {
        let (keys, subject, times) = (Arc::clone(keys), Arc::clone(subject), Arc::clone(&times));
        async move {
            let mut ticks = tokio::time::interval(Duration::from_millis(1));
            let began = since_start();
            let mut added = 0;
            while added < keys.len() {
                ticks.tick().await;
                let due = RATE as u64 * (since_start() - began) / 1_000_000_000;
                while added < keys.len().min(usize::try_from(due).unwrap_or(usize::MAX)) {
                    times[added].store(since_start(), Ordering::Relaxed);
                    (subject.add)(&subject.queue, added, keys[added].clone(), Duration::ZERO);
                    added += 1;
                }
            }
        }
    };
    tasks.spawn(producer);
    progress.all_done.notified().await;
    let measured = meter.stop()?;
    let mut latencies: Vec<_> = times.iter().map(|time| time.load(Ordering::Relaxed)).collect();
    latencies.sort_unstable();
    Ok(Outcome { measured, latencies, work: Duration::ZERO })
}
