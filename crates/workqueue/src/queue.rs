//! The handle that everybody holds.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::add::{Add, When};
use crate::error::{AddError, MAX_DELAY};
use crate::guard::guarded;
use crate::intake::Reason;
use crate::observer::{Load, Observer, Probed};
use crate::shared::{Closed, Core, Look, Shared};
use crate::slots::Pending;
use crate::snapshot::{KeyStatus, Snapshot, Waiting};
use crate::sync::interlude;
use crate::{Builder, Group, InvalidConfig, Lease};

/// A work queue: a set of keys that somebody shall look after, handed to workers one key at a time.
///
/// The crate's documentation tells the concepts and guarantees. A handle is cheap to clone; all clones
/// are the same queue.
pub struct WorkQueue<K, C = ()> {
    shared: Arc<Shared<K, C>>,
}

impl<K> WorkQueue<K>
where
    K: Eq + Hash + Clone + Send + 'static,
{
    /// A queue with the defaults: FIFO, client-go's rate limits, no causes, no observer.
    #[must_use]
    pub fn new() -> Self {
        Builder::new().build().unwrap_or_else(|invalid: InvalidConfig| {
            unreachable!("the defaults must be valid: {invalid}")
        })
    }
}

impl<K, C> WorkQueue<K, C>
where
    K: Eq + Hash + Clone + Send + 'static,
    C: Send + Sync + 'static,
{
    /// Starts a queue with other limits, priorities, groups, causes or an observer.
    ///
    /// The types say what it holds: `WorkQueue::<String>::builder()` has no causes,
    /// `WorkQueue::<String, Event>::builder()` has causes of type `Event`.
    pub fn builder() -> Builder<K, C> {
        Builder::new()
    }

    pub(crate) fn from_shared(shared: Arc<Shared<K, C>>) -> Self {
        Self { shared }
    }

    /// Adds a key, to be run as soon as a worker is free. If the key is already ready, nothing changes;
    /// if it waits, it no longer does; if it runs, it runs once more when it is done.
    ///
    /// # Errors
    /// If the queue is shut down.
    pub fn add(&self, key: K) -> Result<(), AddError<K>> {
        self.add_with(key, Add::now()).map(drop)
    }

    /// Adds a key, to be run once `delay` has passed. A key has one run ahead at most, and the earliest
    /// time asked for wins: if the key is ready, or waits for an earlier time, nothing changes.
    ///
    /// # Errors
    /// If the queue is shut down, or `delay` is above [`MAX_DELAY`].
    pub fn add_after(&self, key: K, delay: Duration) -> Result<(), AddError<K>> {
        self.add_with(key, Add::after(delay)).map(drop)
    }

    /// Charges a key with a failure and adds it, to be run after the delay that the limiter gives, which
    /// is returned.
    ///
    /// # Errors
    /// If the queue is shut down; the failure is counted all the same.
    pub fn add_rate_limited(&self, key: K) -> Result<Duration, AddError<K>> {
        self.add_with(key, Add::rate_limited())
    }

    /// Adds a key in the way that `add` describes. Returns the delay until it is ready.
    ///
    /// # Errors
    /// If the queue is shut down, or the delay is above [`MAX_DELAY`].
    pub fn add_with(&self, key: K, add: Add<C>) -> Result<Duration, AddError<K>> {
        let delay = match add.when {
            When::Now => Duration::ZERO,
            When::After(delay) if delay > MAX_DELAY => {
                return Err(AddError::DelayTooLong { key, delay });
            }
            When::After(delay) => delay,
            When::RateLimited => self.shared.charges.charge(&key),
        };
        let group = self.shared.group_of.as_ref().map(|group_of| {
            let together = "the key takes turns with others of which that is true";
            guarded(&self.shared.name, "group function", together, || group_of(&key))
                .unwrap_or_else(|| Group::of(&()))
        });
        let is_timer = matches!(add.when, When::After(_));
        let reason = Reason { priority: add.priority, group, cause: add.cause, is_timer };
        let added = if delay.is_zero() {
            self.shared.add(key, reason)
        } else {
            self.shared.add_after(key, reason, delay)
        };
        added.map_err(|Closed(key)| AddError::ShutDown { key })?;
        if matches!(add.when, When::RateLimited) {
            self.count_retry();
        }
        Ok(delay)
    }

    /// Takes the next key. Waits while there is none; `None` means that the queue is shut down and that
    /// no key will ever come again.
    ///
    /// The lease borrows the queue. For a task of its own it must [own](Lease::into_owned) its handle:
    ///
    /// ```
    /// # use windlass_workqueue::{Lease, WorkQueue};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let queue = WorkQueue::new();
    /// # queue.add("mail/anna")?;
    /// # queue.shut_down();
    /// let mut tasks = tokio::task::JoinSet::new();
    /// while let Some(lease) = queue.get().await.map(Lease::into_owned) {
    ///     tasks.spawn(async move { lease.finish() });
    ///     if tasks.len() >= 16 {
    ///         tasks.join_next().await;
    ///     }
    /// }
    /// # tasks.join_all().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Safe: a key is taken in the same step that returns it, so a `get` that is dropped while it waits
    /// has taken none, and what woke it goes to another worker. Do not keep one that is neither polled nor
    /// dropped, as by a `select!` on `&mut get` with a long handler: what woke it goes to nobody.
    ///
    /// # Panics
    /// If keys wait for their time and the caller is not inside a tokio runtime with its timer enabled.
    #[must_use = "a lease that is dropped is done"]
    pub async fn get(&self) -> Option<Lease<'_, K, C>> {
        // A worker that never has to wait still lets others run.
        tokio::task::coop::consume_budget().await;
        loop {
            if let Some(lease) = self.try_get() {
                return Some(lease);
            }
            let mut ring = pin!(self.shared.listen());
            ring.as_mut().enable();
            match self.shared.look_or_lie_down() {
                Look::Taken(taken) => return Some(Lease::new(self, taken)),
                Look::ShutDown => return None,
                Look::Sleep(until) => {
                    interlude();
                    self.shared.sleep(ring, until).await;
                }
            }
        }
    }

    /// Takes the next key if one is ready. (A `get` that is polled once may yield to other tasks first.)
    #[expect(
        clippy::inline_always,
        reason = "else a lease is copied on its way out, for about a twentieth of the time"
    )]
    #[inline(always)]
    #[must_use = "a lease that is dropped is done"]
    pub fn try_get(&self) -> Option<Lease<'_, K, C>> {
        let taken = self.shared.try_take()?;
        Some(Lease::new(self, taken))
    }

    /// Forgets the failures of a key: it has succeeded, or is gone for good.
    pub fn forget(&self, key: &K) {
        self.shared.charges.forget(key);
    }

    /// How often a key has failed since it last succeeded: retries and rate-limited adds, at most
    /// one for each backoff window (see [`RateLimiter`](crate::RateLimiter)). Forgotten an hour
    /// after the end of the last window.
    pub fn failures(&self, key: &K) -> u32 {
        self.shared.charges.failures(key)
    }

    /// Takes a waiting key out of the queue; false if the key does not wait. A key that is ready or runs
    /// is not touched.
    pub fn cancel(&self, key: &K) -> bool {
        self.shared.cancel(key)
    }

    /// When a key will run next: later if it waits, `None` if no run is ahead. If it is ready, since when it is, or now
    /// if the queue does not [keep times](Builder::keep_times).
    pub fn due(&self, key: &K) -> Option<Instant> {
        let hash = self.shared.hash(key);
        let core = self.shared.settled();
        let (id, slot) = core.ledger.find(key, hash)?;
        let clock = &self.shared.clock;
        Some(match slot.pending {
            Pending::None => return None,
            Pending::InLine | Pending::PassedOver => {
                clock.instant(core.ledger.since(id).unwrap_or_else(|| clock.now()))
            }
            Pending::Waiting => clock.instant(slot.at),
        })
    }

    /// How many keys are ready, including those that run right now and will run again.
    pub fn len(&self) -> usize {
        self.shared.settled().ledger.ready()
    }

    /// Whether no key is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How much is ready, waiting and running at this moment.
    pub fn load(&self) -> Load {
        self.shared.load()
    }

    /// Closes the queue: adds are refused from now on, keys that are ready are still handed out, and
    /// then every `get` returns `None`. Returns the keys that were waiting, the earliest first.
    pub fn shut_down(&self) -> Vec<Waiting<K>> {
        let clock = &self.shared.clock;
        let waiting = self.shared.shut_down().into_iter();
        waiting.map(|(key, due)| Waiting { key, due: clock.instant(due) }).collect()
    }

    /// Closes the queue and waits until everything that was ready or running is done. Returns the keys
    /// that were waiting, the earliest first.
    ///
    /// There must be workers for this to end: bound it with [`tokio::time::timeout`] where one may hang.
    ///
    /// # Cancel safety
    /// Dropping it half-way leaves the queue shut down, and loses the list of keys that were waiting; call
    /// [`shut_down`](Self::shut_down) first where they matter, this then returns none.
    pub async fn shut_down_with_drain(&self) -> Vec<Waiting<K>> {
        let waiting = self.shut_down();
        self.shared.wait_until(Core::is_drained).await;
        waiting
    }

    /// Waits until no key is ready, waiting or running: for a job that is complete when its queue is.
    ///
    /// # Cancel safety
    /// Safe: it only watches.
    pub async fn idle(&self) {
        self.shared.wait_until(|core| core.ledger.is_idle()).await;
    }

    /// Whether the queue has been shut down.
    pub fn is_shut_down(&self) -> bool {
        self.shared.is_shut_down()
    }

    /// The name given to the builder.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    pub(crate) fn count_retry(&self) {
        if let Some(observer) = &self.shared.observer {
            observer.tell(Observer::retried);
        }
    }
}

impl<K, C> WorkQueue<K, C>
where
    K: Eq + Hash + Clone + Send + 'static,
    C: Clone + Send + Sync + 'static,
{
    /// What is known of every key at this moment, for a person to look at.
    ///
    /// It copies every key, and the queue stands still meanwhile: with a million of them, ask seldom.
    pub fn snapshot(&self) -> Snapshot<K, C> {
        let clock = &self.shared.clock;
        let core = self.shared.settled();
        let taken = clock.instant(clock.now());
        let shut_down = core.shut_down;
        let ledger = &core.ledger;
        let runs: HashMap<_, _> = ledger.runs().map(|run| (run.slot, run)).collect();
        let statuses =
            ledger.slots().map(|id| KeyStatus::of(id, runs.get(&id).copied(), ledger, clock));
        let mut keys: Vec<_> = statuses.collect();
        drop(core);
        let failures = keys.iter_mut().map(|status| (&status.key, &mut status.failures));
        self.shared.charges.look_up(failures);
        keys.sort_by_key(KeyStatus::rank);
        let (name, retry_debt) = (self.shared.name.to_string(), self.shared.charges.debt());
        Snapshot { name, taken, shut_down, retry_debt, keys }
    }

    /// What is known of one key at this moment; `None` if it is neither ready, waiting nor running.
    pub fn status(&self, key: &K) -> Option<KeyStatus<K, C>> {
        let hash = self.shared.hash(key);
        let core = self.shared.settled();
        let (id, _) = core.ledger.find(key, hash)?;
        let run = core.ledger.runs().find(|run| run.slot == id);
        let mut status = KeyStatus::of(id, run, &core.ledger, &self.shared.clock);
        drop(core);
        status.failures = self.failures(key);
        Some(status)
    }
}

impl<K, C> WorkQueue<K, C> {
    pub(crate) fn shared(&self) -> &Shared<K, C> {
        &self.shared
    }
}

impl<K, C> Clone for WorkQueue<K, C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K> Default for WorkQueue<K>
where
    K: Eq + Hash + Clone + Send + 'static,
{
    fn default() -> Self {
        Self::new()
    }
}

impl<K, C> fmt::Debug for WorkQueue<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").field("name", &self.shared.name).finish_non_exhaustive()
    }
}
