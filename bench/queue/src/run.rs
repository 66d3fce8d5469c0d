//! The cases, on any queue and any keys.
//!
//! Producers and workers are tokio tasks on a thread for each core, as informers and reconcilers
//! are, and as they are goroutines in the counterpart.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use string_interner::symbol::SymbolU32;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::task::coop::consume_budget;
use windlass_workqueue::{Add, Group, InvalidConfig, Priority, WorkQueue};

use crate::case::{Case, Kind, PASSES};
use crate::keys::{Keys, namespace_of};
use crate::meter::{Measured, Meter};

/// A queue, and how a key is added to it at once or after a delay.
pub(crate) struct Subject<K: 'static, C: 'static> {
    queue: WorkQueue<K, C>,
    add: fn(&WorkQueue<K, C>, usize, K, Duration),
}

/// The queue as it comes.
pub(crate) fn plain<K: Eq + Hash + Clone + Send>() -> Subject<K, ()> {
    Subject { queue: WorkQueue::new(), add: add_plainly }
}

fn add_plainly<K: Eq + Hash + Clone + Send + 'static>(
    queue: &WorkQueue<K>,
    _index: usize,
    key: K,
    delay: Duration,
) {
    let added = if delay.is_zero() { queue.add(key) } else { queue.add_after(key, delay) };
    added.expect("the queue must be open");
}

/// Priorities, fairness and causes: every third key is low, normal or high.
pub(crate) fn full() -> Result<Subject<SymbolU32, usize>, InvalidConfig> {
    let fair = WorkQueue::builder().fair_by(|&key| Group::of(&namespace_of(key)));
    Ok(Subject {
        queue: fair.build()?,
        add: |queue, index, key, delay| {
            let priority = Priority::ALL[index % Priority::ALL.len()];
            let add = Add::after(delay).priority(priority).cause(index);
            queue.add_with(key, add).expect("the queue must be open");
        },
    })
}

pub(crate) fn run<K, C>(case: &Case, keys: &Keys<K>, subject: Subject<K, C>) -> Result<Measured>
where
    K: Eq + Hash + Clone + Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    let subject = Arc::new(subject);
    runtime.block_on(async {
        match case.kind {
            Kind::Backlog => backlog(case.producers, &keys.keys, &subject).await,
            Kind::Distinct => until_done(*case, &keys.keys, &subject, |_| Duration::ZERO).await,
            Kind::Delay => until_done(*case, &keys.keys, &subject, delay_of).await,
            Kind::Dup => dup(*case, &keys.keys, &subject).await,
            Kind::Intern => unreachable!("the intern case has no queue"),
        }
    })
}

/// Spreads the due times over half a second, in an order unlike that of the adds. The six seconds
/// before let every queue finish adding first, so that all keys wait at once.
fn delay_of(index: usize) -> Duration {
    Duration::from_secs(6) + Duration::from_micros((index * 7919 % 500_000) as u64)
}

/// Starts the producers, each with its own contiguous part of the keys.
fn produce<K, C>(
    producers: usize,
    passes: usize,
    keys: &Arc<Vec<K>>,
    subject: &Arc<Subject<K, C>>,
    delay_of: fn(usize) -> Duration,
) -> JoinSet<()>
where
    K: Eq + Hash + Clone + Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    let mut tasks = JoinSet::new();
    for producer in 0..producers {
        let (keys, subject) = (Arc::clone(keys), Arc::clone(subject));
        let own = producer * keys.len() / producers..(producer + 1) * keys.len() / producers;
        tasks.spawn(async move {
            for _ in 0..passes {
                for index in own.clone() {
                    (subject.add)(&subject.queue, index, keys[index].clone(), delay_of(index));
                    // Like a task that reads events from a stream, it lets others run now and then.
                    consume_budget().await;
                }
            }
        });
    }
    tasks
}

async fn backlog<K, C>(
    producers: usize,
    keys: &Arc<Vec<K>>,
    subject: &Arc<Subject<K, C>>,
) -> Result<Measured>
where
    K: Eq + Hash + Clone + Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    let meter = Meter::start()?;
    produce(producers, 1, keys, subject, |_| Duration::ZERO).join_all().await;
    for _ in 0..keys.len() {
        drop(subject.queue.get().await);
    }
    meter.stop()
}

/// Ends when every key has been done once.
async fn until_done<K, C>(
    case: Case,
    keys: &Arc<Vec<K>>,
    subject: &Arc<Subject<K, C>>,
    delay_of: fn(usize) -> Duration,
) -> Result<Measured>
where
    K: Eq + Hash + Clone + Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    let total = keys.len();
    let progress = Arc::new((AtomicUsize::new(0), Notify::new()));
    let mut workers = JoinSet::new();
    for _ in 0..case.workers {
        let (queue, progress) = (subject.queue.clone(), Arc::clone(&progress));
        workers.spawn(async move {
            while let Some(lease) = queue.get().await {
                drop(lease);
                if progress.0.fetch_add(1, Ordering::Relaxed) + 1 == total {
                    progress.1.notify_one();
                }
            }
        });
    }
    let meter = Meter::start()?;
    let producers = produce(case.producers, 1, keys, subject, delay_of);
    progress.1.notified().await;
    let measured = meter.stop();
    producers.join_all().await;
    measured
}

/// Ends when the queue is empty and every worker has returned, because how many keys come out
/// depends on how many adds were merged.
async fn dup<K, C>(case: Case, keys: &Arc<Vec<K>>, subject: &Arc<Subject<K, C>>) -> Result<Measured>
where
    K: Eq + Hash + Clone + Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    let mut workers = JoinSet::new();
    for _ in 0..case.workers {
        let queue = subject.queue.clone();
        workers.spawn(async move {
            let mut done = 0;
            while let Some(lease) = queue.get().await {
                drop(lease);
                done += 1;
            }
            done
        });
    }
    let meter = Meter::start()?;
    produce(case.producers, PASSES, keys, subject, |_| Duration::ZERO).join_all().await;
    subject.queue.shut_down_with_drain().await;
    let done: usize = workers.join_all().await.into_iter().sum();
    let measured = meter.stop()?;
    let adds = PASSES * keys.len();
    ensure!(
        (keys.len()..=adds).contains(&done),
        "{done} runs came out for {adds} adds of {} keys",
        keys.len()
    );
    Ok(measured)
}
