//! A work queue: producers add keys, and workers take them one key at a time.
//!
//! Producers say *which* thing needs work, as often as they like. Workers get each key once, look
//! at the thing as it is now, and say whether to come back later. It is the queue under every
//! Kubernetes controller, and just as useful for a crawler, a mailer or a cache that refreshes
//! itself. Nothing in here knows Kubernetes.
//!
//! ```
//! use windlass_workqueue::WorkQueue;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let queue = WorkQueue::new();
//! queue.add("mail/anna")?;
//! queue.add("mail/bert")?;
//! queue.add("mail/anna")?; // merged with the first
//!
//! let worker = async {
//!     while let Some(lease) = queue.get().await {
//!         match deliver(&lease).await {
//!             Ok(()) => lease.finish(),
//!             Err(_) => drop(lease.retry()), // comes back after a backoff, if the queue is open
//!         }
//!     }
//! };
//! let stop = async {
//!     queue.wait_idle().await;
//!     queue.shut_down();
//! };
//! tokio::join!(worker, stop);
//! # Ok(())
//! # }
//! # async fn deliver(_: &str) -> Result<(), ()> { Ok(()) }
//! ```
//!
//! # Concepts
//!
//! A **key** is any value that is `Eq + Hash + Clone`. It identifies an object; it does not contain
//! it. Keys are hashed, compared and cloned under a lock: these must not panic, and must not call
//! the queue. A key may have a run in progress and a next run:
//!
//! - **ready**: in line, for the next free worker;
//! - **waiting**: ready at a later time ([`add_after`](WorkQueue::add_after), a retry);
//! - **running**: held by a worker, as a [`Lease`].
//!
//! The next run is due at the earliest requested time. Later adds are merged into it.
//!
//! **Priorities** are three levels, [`Priority`]. **Groups** are optional: with
//! [`fair_by`](Builder::fair_by), groups of keys take turns within a level. **Aging** raises the
//! priority of a key that has been ready for long. **Causes** are optional too: each add may carry
//! a value of your type, and the run gets these values with [`Lease::causes`], so that "why did
//! this run?" has an answer.
//!
//! A **limiter** decides how long a key that failed waits; see [`RateLimiter`] for a table of
//! limiters. An **observer** is called at every step of a key; with the feature `prometheus`,
//! `QueueMetrics` is an observer with client-go's metric names. A [`Snapshot`] shows what every key
//! is doing, and since when.
//!
//! # Guarantees
//!
//! - **Merged.** A key that is ready is ready once, however often it is added.
//! - **Never twice at once.** No two workers hold the same key.
//! - **Nothing is missed.** A key that is added while it runs runs once more, after that run has
//!   ended.
//! - **In order.** Within one priority (with groups: within one group of it), keys are handed out
//!   in the order in which they became ready. A key that is added while it runs takes its place in
//!   line at once. If its turn comes before its run has ended, it is skipped, and goes to the front
//!   of its priority (or group) when the run ends. If more than 256 keys are due at one moment,
//!   they become ready in batches of 256, whatever their priorities, and other keys may come
//!   between two batches.
//! - **On time.** A waiting key becomes ready at its time: not earlier and, if a worker is free,
//!   not later than the timer's resolution of a millisecond.
//! - **No starvation.** If keys of several priorities are ready, a key that has been at one priority
//!   for an [`aging`](Builder::aging) period moves up by one when a key is next taken, and the next
//!   period begins then. A key that goes to the front because its turn came while it was running
//!   can hold this up for the keys behind it, but for no longer than a period.
//! - **Done on drop.** A lease ends when it is dropped: at the end of a scope, by a panic, or
//!   because its task is cancelled.
//! - **Bounded.** A key has at most one next run, and a run has at most eight causes. Keys that
//!   are done are dropped at once. Failures are forgotten an hour after the last backoff ended.
//!   Memory that was allocated for many keys is kept until the queue is dropped.
//! - **Refused, not lost.** After [`shut_down`](WorkQueue::shut_down) every add returns an error
//!   that contains the key. Ready keys are still handed out, and waiting keys are returned.
//! - **Your code runs unlocked.** Limiters, group functions and observers are called, and keys and
//!   causes are dropped, while the queue is not locked. Only hashing, comparing and cloning keys,
//!   and cloning causes for a snapshot, happen under a lock.
//!
//! If the last handle of a queue is dropped while keys are ready or waiting, these keys are dropped
//! and a warning is logged (with `tracing`).
//!
//! # Cancel safety
//!
//! [`get`](WorkQueue::get) can be dropped at any time, for example in a `select!` or by a timeout.
//! It takes a key in the same step that returns it, and passes an unused wake-up to another worker.
//! [`wait_idle`](WorkQueue::wait_idle) changes nothing.
//! [`shut_down_with_drain`](WorkQueue::shut_down_with_drain) closes the queue at once and then
//! waits; if it is dropped, the queue stays closed. All other methods are synchronous and short,
//! with two exceptions: methods that inspect the queue, cancel or shut down first make all due keys
//! ready, however many, and a [`snapshot`](WorkQueue::snapshot) copies all keys.
//!
//! # Time and tasks
//!
//! The queue has no task and no timer of its own. Every call that adds, takes or inspects keys
//! first makes the due keys ready, and one of the sleeping workers wakes up in time for the next
//! waiting key. The queue reads tokio's clock, so tests can pause it.
//!
//! ```
//! use std::time::Duration;
//! use windlass_workqueue::WorkQueue;
//!
//! # let mut paused = tokio::runtime::Builder::new_current_thread();
//! # paused.enable_time().start_paused(true).build()?.block_on(async {
//! // In a test: #[tokio::test(start_paused = true)]
//! let queue = WorkQueue::new();
//! queue.add_after("report", Duration::from_secs(3600))?;
//! let started = tokio::time::Instant::now();
//! assert_eq!(queue.get().await.as_deref(), Some(&"report")); // the paused clock skips the hour
//! assert_eq!(started.elapsed(), Duration::from_secs(3600));
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A whole program
//!
//! Four workers, retries that end, and a shut-down with a time limit. (`examples/crawl` is a larger
//! one.)
//!
//! ```
//! use std::time::Duration;
//! use tokio::{task::JoinSet, time::timeout};
//! use windlass_workqueue::WorkQueue;
//!
//! async fn work(queue: WorkQueue<String>) {
//!     while let Some(lease) = queue.get().await {
//!         match fetch(&lease).await {
//!             Ok(()) => lease.finish(),
//!             Err(error) if queue.failures(&lease) >= 4 => {
//!                 eprintln!("{}: gave up: {error}", *lease);
//!                 lease.finish(); // forgets the failures
//!             }
//!             Err(_) => drop(lease.retry()),
//!         }
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let queue = WorkQueue::new();
//! let mut workers: JoinSet<_> = (0..4).map(|_| work(queue.clone())).collect();
//! queue.add("https://example.org/".to_owned())?;
//!
//! // To stop: ready keys still run, waiting keys are returned.
//! if timeout(Duration::from_secs(10), queue.shut_down_with_drain()).await.is_err() {
//!     eprintln!("{}", queue.snapshot());
//! }
//! workers.shutdown().await;
//! # Ok(())
//! # }
//! # async fn fetch(_: &str) -> Result<(), std::io::Error> { Ok(()) }
//! ```
//!
//! # Everything at once
//!
//! ```
//! use std::time::Duration;
//! use windlass_workqueue::{Add, Exponential, Group, Priority, WorkQueue};
//!
//! #[derive(Clone, Debug)]
//! enum Cause {
//!     Changed(&'static str),
//!     FirstList,
//! }
//!
//! let queue = WorkQueue::<(&str, &str), Cause>::builder()
//!     .name("pods")
//!     .limiter(Exponential::new(Duration::from_millis(100), Duration::from_secs(60))?)
//!     .fair_by(|(namespace, _name)| Group::of(namespace))
//!     .aging(Duration::from_secs(10))
//!     .build()?;
//!
//! queue.add_with(("prod", "web-0"), Add::now().priority(Priority::Low).cause(Cause::FirstList))?;
//! queue.add_with(("prod", "web-1"), Add::now().priority(Priority::Low).cause(Cause::FirstList))?;
//! queue.add_with(("prod", "web-2"), Add::now().priority(Priority::Low).cause(Cause::FirstList))?;
//! queue.add_with(("test", "web-9"), Add::now().priority(Priority::Low).cause(Cause::FirstList))?;
//! queue.add_with(("prod", "web-1"), Add::now().cause(Cause::Changed("label app")))?;
//!
//! // The change made web-1 more urgent; among the others, prod and test take turns.
//! let order: Vec<_> = std::iter::from_fn(|| queue.try_get()).map(|lease| lease.1).collect();
//! assert_eq!(order, ["web-1", "web-0", "web-9", "web-2"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Cheap keys
//!
//! A key is stored once and cloned once for each run. The failure count of a key keeps one more
//! clone. It is dropped when the key succeeds, or one to two hours after the last backoff ended, if
//! other keys fail then. An `Arc<str>` is a good key. With millions of keys, use a number that
//! stands for a name; any interner will do:
//!
//! ```
//! use string_interner::DefaultStringInterner;
//! use windlass_workqueue::WorkQueue;
//!
//! let mut names = DefaultStringInterner::default();
//! let queue = WorkQueue::new();
//! queue.add(names.get_or_intern("prod/web-0"))?; // four bytes, `Copy`, and fast to hash
//! let lease = queue.try_get().expect("ready");
//! assert_eq!(names.resolve(*lease), Some("prod/web-0"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Note that most interners never forget a name.
//!
//! # Reading order of the source
//!
//! - `queue.rs`, `shared.rs`: what a caller can do, and the lock and the wake-ups behind it;
//! - `ledger.rs`: the state machine of all keys. Its parts are `slots.rs` (the keys and their
//!   states), `line.rs` (the order of the ready keys), `list.rs` (the lists of the line) and
//!   `causes.rs`;
//! - `lease.rs`: a run in progress, and how it ends;
//! - `retries.rs`, `failures.rs`, `limiter.rs`: how long a key that failed waits;
//! - `observer.rs`, `snapshot.rs`: what can be seen from outside.

#![forbid(unsafe_code)]

mod add;
mod builder;
mod causes;
mod effects;
mod error;
#[cfg(test)]
mod explore;
mod failures;
mod guard;
mod lease;
mod ledger;
mod limiter;
mod line;
mod list;
mod observer;
mod priority;
#[cfg(feature = "prometheus")]
mod prometheus;
mod queue;
mod retries;
mod shared;
mod slots;
mod snapshot;
mod sync;
mod time;

pub use add::Add;
pub use builder::Builder;
pub use causes::Causes;
pub use error::{AddError, InvalidConfig, MAX_DELAY};
pub use lease::Lease;
pub use limiter::{Exponential, FastSlow, Jitter, MaxOf, MaxWait, RateLimiter, TokenBucket};
pub use observer::{Load, LoadHandle, Observer};
pub use priority::{Group, Priority};
#[cfg(feature = "prometheus")]
pub use prometheus::QueueMetrics;
pub use queue::WorkQueue;
pub use snapshot::{KeyStatus, NextRun, Run, Snapshot, WaitingKey};
