//! The handle through which producers and workers use a queue.

use std::fmt;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::add::{Add, When};
use crate::effects::Dropped;
use crate::error::{AddError, MAX_DELAY};
use crate::guard::guarded;
use crate::lease::Lease;
use crate::ledger::AddRequest;
use crate::observer::{Load, Observer};
use crate::priority::Group;
use crate::shared::{Shared, Sleeper};
use crate::slots::NextRunState;
use crate::snapshot::{KeyStatus, Snapshot, WaitingKey};

/// A work queue: a set of keys that need work, handed to workers one key at a time.
///
/// The documentation of the crate explains the concepts and guarantees. A handle is cheap to clone;
/// all clones are the same queue.
pub struct WorkQueue<K, C = ()> {
    pub(crate) shared: Arc<Shared<K, C>>,
}

/// The result of [`WorkQueue::take_or_sleep`].
enum TakeOrSleep<'q, K, C> {
    Taken(Lease<K, C>),
    /// The queue is shut down and no key is ready.
    ShutDown,
    Sleep(Sleeper<'q, K, C>),
}

impl<K: Eq + Hash + Clone, C> WorkQueue<K, C> {
    /// Adds a key, to run as soon as a worker is free. A key that is already ready is not added
    /// twice, but its priority may rise. A key that waits becomes ready. A key that is running runs
    /// once more when it is done.
    ///
    /// # Errors
    /// Returns an error if the queue is shut down.
    pub fn add(&self, key: K) -> Result<(), AddError<K>> {
        self.add_with(key, Add::now()).map(drop)
    }

    /// Adds a key, to run after `delay`. A key has at most one next run, and the earliest requested
    /// time wins: the time of a key that is ready, or waits for an earlier time, does not change.
    ///
    /// # Errors
    /// Returns an error if the queue is shut down or `delay` is longer than [`MAX_DELAY`].
    pub fn add_after(&self, key: K, delay: Duration) -> Result<(), AddError<K>> {
        self.add_with(key, Add::after(delay)).map(drop)
    }

    /// Counts a failure of a key and adds it, to run after the limiter's delay, which is
    /// returned.
    ///
    /// # Errors
    /// Returns an error if the queue is shut down. The failure is counted anyway.
    pub fn add_rate_limited(&self, key: K) -> Result<Duration, AddError<K>> {
        self.add_with(key, Add::rate_limited())
    }

    /// Adds a key as described by `add`. Returns the delay of this add. The key may be ready
    /// earlier, because of another add.
    ///
    /// # Errors
    /// Returns an error if the queue is shut down or the delay is longer than [`MAX_DELAY`].
    pub fn add_with(&self, key: K, add: Add<C>) -> Result<Duration, AddError<K>> {
        let Add { when, priority, cause } = add;
        let delay = match when {
            When::Now => Duration::ZERO,
            When::After(delay) if delay > MAX_DELAY => {
                return Err(AddError::DelayTooLong { key, delay });
            }
            When::After(delay) => delay,
            When::RateLimited => self.shared.retries.count_failure(&key),
        };
        let hash = self.shared.hash(&key);
        let group = self.group_of(&key);
        let now = self.shared.clock.now();
        let due = (!delay.is_zero()).then(|| now + delay);
        let cause_needs_due = matches!(when, When::After(_));
        let mut dropped = Dropped::default();
        let mut locked = self.shared.lock();
        if locked.shut_down {
            return Err(AddError::ShutDown { key });
        }
        let request = AddRequest { key, hash, group, priority, due, cause, cause_needs_due };
        locked.ledger.add(request, now, &mut dropped);
        drop(locked);
        drop(dropped);
        if matches!(when, When::RateLimited) {
            self.shared.notify_observer(Observer::retried);
        }
        Ok(delay)
    }

    /// Takes the next key, and waits while there is none. Returns `None` if the queue is shut down
    /// and there will be no more keys.
    ///
    /// The lease can be moved to another task:
    ///
    /// ```
    /// # use windlass_workqueue::WorkQueue;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let queue = WorkQueue::new();
    /// # queue.add("mail/anna")?;
    /// # queue.shut_down();
    /// let mut tasks = tokio::task::JoinSet::new();
    /// while let Some(lease) = queue.get().await {
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
    /// Safe: a key is taken in the same step that returns it. A `get` that is dropped while it
    /// waits has taken no key, and a wake-up that it received goes to another worker. If you
    /// `select!` on `&mut get`, do not run a long handler before you poll it again: a wake-up that
    /// it has received, or the time of a delayed key for which it watches, reaches no other worker
    /// until then. Shutting down reaches all of them.
    ///
    /// # Panics
    /// Panics if keys wait for their time and the caller is not inside a tokio runtime with a
    /// timer.
    #[must_use = "dropping a lease ends its run"]
    pub async fn get(&self) -> Option<Lease<K, C>> {
        // Yields now and then, so that a worker that always finds a key does not starve other
        // tasks.
        tokio::task::coop::consume_budget().await;
        // The usual case needs no registration with `Notify`.
        if let Some(lease) = self.try_get() {
            return Some(lease);
        }
        loop {
            let mut wake_up = pin!(self.shared.work.notified());
            wake_up.as_mut().enable();
            match self.take_or_sleep() {
                TakeOrSleep::Taken(lease) => return Some(lease),
                TakeOrSleep::ShutDown => return None,
                TakeOrSleep::Sleep(sleeper) => sleeper.sleep(wake_up).await,
            }
        }
    }

    /// Takes a key, or registers the caller as a sleeper. Both under one lock: between two locks,
    /// the queue would see no worker with an alarm for the next waiting key, and wake another one
    /// for it.
    fn take_or_sleep(&self) -> TakeOrSleep<'_, K, C> {
        let now = self.shared.clock.now();
        let mut dropped = Dropped::default();
        let mut locked = self.shared.lock();
        locked.count_awake();
        let result = if let Some(taken) = locked.ledger.take(now, &mut dropped) {
            TakeOrSleep::Taken(Lease::new(&self.shared, taken))
        } else if locked.is_finished() {
            TakeOrSleep::ShutDown
        } else {
            TakeOrSleep::Sleep(locked.register_sleeper())
        };
        drop(locked);
        // Drop causes while `result` is still a local. If one of them panics, `result` is dropped,
        // too, and so the run or the sleep ends.
        drop(dropped);
        result
    }

    /// Takes the next key if one is ready. Unlike a single poll of [`get`](Self::get), it never
    /// yields to other tasks first.
    #[must_use = "dropping a lease ends its run"]
    pub fn try_get(&self) -> Option<Lease<K, C>> {
        let now = self.shared.clock.now();
        let mut dropped = Dropped::default();
        let mut locked = self.shared.lock();
        let taken = locked.ledger.take(now, &mut dropped);
        let lease = taken.map(|taken| Lease::new(&self.shared, taken));
        drop(locked);
        // Dropping a cause may panic. Then `lease` is dropped, too, which ends the run.
        drop(dropped);
        lease
    }

    /// Forgets the failures of a key: it has succeeded, or is gone for good.
    pub fn forget(&self, key: &K) {
        self.shared.retries.forget(key);
    }

    /// How often a key has failed since it last succeeded: retries and rate-limited adds, at most
    /// one for each backoff window (see [`RateLimiter`](crate::RateLimiter)). Failures are
    /// forgotten an hour after the end of the last window.
    pub fn failures(&self, key: &K) -> u32 {
        self.shared.retries.failures(key)
    }

    /// Cancels the next run of a key, if the key waits for it. Returns whether it did. A next run
    /// that is ready, and a run under way, are not cancelled.
    pub fn cancel(&self, key: &K) -> bool {
        let hash = self.shared.hash(key);
        self.shared.inspect(|state, dropped| state.ledger.cancel(key, hash, dropped))
    }

    /// When the next run of a key is due: a time in the future if the key waits, or the time since
    /// which it is ready. `None` if there is no next run.
    pub fn due(&self, key: &K) -> Option<Instant> {
        let hash = self.shared.hash(key);
        let next_run = self.shared.inspect(|state, _| Some(state.ledger.find(key, hash)?.next_run));
        match next_run? {
            NextRunState::None => None,
            NextRunState::Waiting { due: time, .. } | NextRunState::Ready { since: time, .. } => {
                Some(self.shared.clock.instant(time))
            }
        }
    }

    /// How many keys are ready, including keys that run now and were added again.
    pub fn len(&self) -> usize {
        self.shared.inspect(|state, _| state.ledger.ready())
    }

    /// Whether no key is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How much is ready, waiting and running at this moment.
    pub fn load(&self) -> Load {
        self.shared.load()
    }

    /// Shuts the queue down. Further adds are refused. Workers still get the keys that are ready,
    /// and then every `get` returns `None`. Returns the keys that were waiting, the earliest first.
    pub fn shut_down(&self) -> Vec<WaitingKey<K>> {
        let waiting = self.shared.inspect(|state, dropped| {
            state.shut_down = true;
            state.ledger.take_waiting(dropped)
        });
        // A ready key may have woken a `get` that nobody polls any more.
        self.shared.wake_all();
        let clock = self.shared.clock;
        waiting.into_iter().map(|(key, due)| WaitingKey { key, due: clock.instant(due) }).collect()
    }

    /// Shuts the queue down and waits until every key that was ready or running is done. Returns
    /// the keys that were waiting, the earliest first.
    ///
    /// It returns only if workers take the keys. Use [`tokio::time::timeout`] where one may hang.
    ///
    /// # Cancel safety
    /// If it is dropped, the queue stays shut down, and the list of waiting keys is lost. Where
    /// that list matters, call [`shut_down`](Self::shut_down) first; this then returns an empty
    /// list.
    pub async fn shut_down_with_drain(&self) -> Vec<WaitingKey<K>> {
        let waiting = self.shut_down();
        self.shared.wait_idle().await;
        waiting
    }

    /// Waits until no key is ready, waiting or running. For a job that is complete when its queue
    /// is empty.
    ///
    /// # Cancel safety
    /// Safe: it changes nothing.
    pub async fn wait_idle(&self) {
        self.shared.wait_idle().await;
    }

    /// Whether the queue has been shut down.
    pub fn is_shut_down(&self) -> bool {
        self.shared.lock().shut_down
    }

    /// The name given to the builder.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The group of a key. All keys for which the user's function panics share one group.
    fn group_of(&self, key: &K) -> Option<Group> {
        let group_of = self.shared.group_of.as_ref()?;
        let consequence = "the key joins a group of all such keys";
        let group = guarded(&self.shared.name, "group function", consequence, || group_of(key));
        Some(group.unwrap_or_else(|| Group::of(&())))
    }
}

impl<K: Eq + Hash + Clone, C: Clone> WorkQueue<K, C> {
    /// The state of every key at this moment, for debugging.
    ///
    /// It copies every key and every cause while the queue is locked. With a million keys, call it
    /// rarely.
    pub fn snapshot(&self) -> Snapshot<K, C> {
        let clock = self.shared.clock;
        let (taken, shut_down, mut keys) = self.shared.inspect(|state, _| {
            let ledger = &state.ledger;
            let status = |slot| KeyStatus::of(slot, ledger.run_of(slot), clock);
            let keys: Vec<_> = ledger.slots().map(status).collect();
            (Instant::now(), state.shut_down, keys)
        });
        for status in &mut keys {
            status.failures = self.failures(&status.key);
        }
        keys.sort_by_key(KeyStatus::rank);
        let name = self.shared.name.to_string();
        let retry_debt = self.shared.retries.debt();
        Snapshot { name, taken, shut_down, retry_debt, keys }
    }

    /// The state of one key at this moment; `None` if it is neither ready, waiting nor running.
    pub fn status(&self, key: &K) -> Option<KeyStatus<K, C>> {
        let hash = self.shared.hash(key);
        let mut status = self.shared.inspect(|state, _| {
            let slot = state.ledger.find(key, hash)?;
            Some(KeyStatus::of(slot, state.ledger.run_of(slot), self.shared.clock))
        })?;
        status.failures = self.failures(key);
        Some(status)
    }
}

impl<K, C> Clone for WorkQueue<K, C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K, C> fmt::Debug for WorkQueue<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").field("name", &self.shared.name).finish_non_exhaustive()
    }
}
