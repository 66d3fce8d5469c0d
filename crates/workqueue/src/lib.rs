//! A work queue: keys that somebody shall look after, handed to workers one key at a time.
//!
//! Producers say *which* thing needs attention, as often as they like. Workers get each such key once,
//! look at the thing as it is now, and say whether to come back later. It is the queue under every
//! Kubernetes controller, and as useful for a crawler, a mailer or a cache that refreshes itself; nothing
//! in here knows Kubernetes.
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
//!             Err(_) => drop(lease.retry()), // comes back after a backoff, if the queue is still open
//!         }
//!     }
//! };
//! let stop = async {
//!     queue.idle().await;
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
//! A **key** is anything that is `Eq + Hash + Clone`: it names a thing, and does not carry it. At any time
//! a key is unknown to the queue, or has one run under way, or one run ahead, or both:
//!
//! - **ready**: in line, to be handed to the next free worker;
//! - **waiting**: ready at a later time ([`add_after`](WorkQueue::add_after), a retry);
//! - **running**: in the hands of a worker, as a [`Lease`].
//!
//! The run ahead is due at the earliest time that anybody asked for. What comes later is merged
//! into it. A run that waits and becomes ready before its time, because of another add, is not told
//! what it waited for.
//!
//! **Priorities** are three levels, [`Priority`]. **Groups** are optional: with
//! [`fair_by`](Builder::fair_by), groups of keys take turns within a level. **Aging** moves a key up that
//! others keep from running. **Causes** are optional too: a value of your choice with every add, handed to
//! the run with [`Lease::causes`], so that "why did this run?" has an answer.
//!
//! A **limiter** decides how long a key that failed waits; see [`RateLimiter`] and the table of limiters
//! there. An **observer** hears of every step; with the feature `prometheus`, `QueueMetrics` is one that
//! speaks client-go's metric names. A [`Snapshot`] shows a person what every key is doing; and since when, if the queue
//! [keeps times](Builder::keep_times).
//!
//! # Guarantees
//!
//! - **Merged.** A key that is ready is ready once, however often it is added.
//! - **Never twice at once.** No two workers hold the same key.
//! - **Nothing is missed.** A key that is added while it runs runs once more, after that run has ended.
//! - **In order.** Keys of one priority come out in the order in which they became ready (of one group,
//!   if there are groups). A key that is added while it runs takes its place in line there and then; if
//!   its turn comes before its run has ended, it is passed over, and comes first as soon as it has. When
//!   more than 256 keys become due at one moment, they become ready 256 at a time, and others may come
//!   between.
//! - **On time.** A waiting key is ready at its time, neither earlier nor, if a worker is free, later than
//!   the timer's resolution of a millisecond.
//! - **Nobody starves.** A key that is ready moves up one priority every [`aging`](Builder::aging) period
//!   while more urgent ones are ahead of it. Ages are counted from when a priority other than `Normal` was first used.
//! - **Done means dropped.** A lease ends when it is dropped: at the end of a scope, by a panic, or by the
//!   cancellation of its task.
//! - **Bounded.** One run ahead for each key; eight causes for each run; limiters forget keys that have not
//!   failed for a while. What grows with the number of keys is the keys. Those that are done are dropped in batches: with
//!   them, the queue holds at most three times as many keys as ever had something to do at once (or 128 more), and one and a
//!   half times as many (or 64 more) while nothing is ready or running. The room they took is given back with the queue.
//! - **Refused, not lost.** After [`shut_down`](WorkQueue::shut_down) every add gets an error with the key
//!   inside. What was ready is still handed out, what was waiting is returned.
//!
//! Dropping the last handle of a queue with work inside drops that work, and logs a warning (with `tracing`).
//!
//! # Cancel safety
//!
//! [`get`](WorkQueue::get) can be dropped at any time, in a `select!` or by a timeout: it takes a key in the
//! same step that returns it, and passes on what woke it. [`idle`](WorkQueue::idle) only watches.
//! [`shut_down_with_drain`](WorkQueue::shut_down_with_drain) closes the queue at once and then waits;
//! dropped, the queue stays closed. Everything else is synchronous and short; with a million keys, though, a pass over them
//! all, once for several hundred thousand that are done and are dropped then, takes some milliseconds, and a snapshot a
//! tenth of a second.
//!
//! # Time and tasks
//!
//! The queue has no task and no timer of its own: whoever looks next makes ready what is due, and one of
//! the waiting workers wakes up in time for the next. It reads tokio's clock, so tests can pause it. To add a key, or to
//! take one that is ready, it does so only where somebody asks for the time: while keys wait for theirs, once a
//! priority other than `Normal` was used, if the queue [keeps times](Builder::keep_times), and now and then while
//! workers sleep.
//!
//! ```
//! use std::time::Duration;
//! use windlass_workqueue::WorkQueue;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?.block_on(async {
//! // In a test: #[tokio::test(start_paused = true)]
//! let queue = WorkQueue::new();
//! queue.add_after("report", Duration::from_secs(3600))?;
//! let started = tokio::time::Instant::now();
//! assert_eq!(queue.get().await.as_deref(), Some(&"report")); // an hour later, at once
//! assert_eq!(started.elapsed(), Duration::from_secs(3600));
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A whole program
//!
//! Four workers, retries that end, and a shut-down that does not wait for ever. (`examples/crawl` is a larger one.)
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
//!                 eprintln!("{}: given up: {error}", *lease);
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
//! // When it is time to stop: what is ready still runs, what waits is given back.
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
//! # Keys that are cheap
//!
//! A key is stored once and cloned once for each run. An `Arc<str>` is a good key; where there are
//! millions, a number that stands for a name is a better one. Any interner will do:
//!
//! ```
//! use string_interner::DefaultStringInterner;
//! use windlass_workqueue::WorkQueue;
//!
//! let mut names = DefaultStringInterner::default();
//! let queue = WorkQueue::new();
//! queue.add(names.get_or_intern("prod/web-0"))?; // four bytes: `Copy`, and hashed at a glance
//! let lease = queue.try_get().expect("ready");
//! assert_eq!(names.resolve(*lease), Some("prod/web-0"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Mind that most interners never forget a name. `cargo xtask bench queue` shows what either costs.

#![forbid(unsafe_code)]

mod add;
mod builder;
mod causes;
mod charges;
mod clock;
mod doorbell;
mod error;
#[cfg(test)]
mod explore;
mod failures;
mod guard;
mod intake;
mod lease;
mod ledger;
mod limiter;
mod line;
mod observer;
mod priority;
#[cfg(feature = "prometheus")]
mod prometheus;
mod queue;
mod running;
mod shared;
mod slots;
mod snapshot;
mod sync;
mod table;
mod waiting;

pub use add::Add;
pub use builder::Builder;
pub use causes::Causes;
pub use error::{AddError, InvalidConfig, MAX_DELAY};
pub use lease::{Lease, OwnedLease};
pub use limiter::{Exponential, FastSlow, Jitter, MaxOf, MaxWait, RateLimiter, TokenBucket};
pub use observer::{Elapsed, Load, Observer, Probe};
pub use priority::{Group, Priority};
#[cfg(feature = "prometheus")]
pub use prometheus::QueueMetrics;
pub use queue::WorkQueue;
pub use snapshot::{Ahead, KeyStatus, Run, Snapshot, Waiting};
