//! A key that one worker holds.

use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::causes::Causes;
use crate::effects::Dropped;
use crate::error::{AddError, MAX_DELAY};
use crate::ledger::Taken;
use crate::observer::Observer;
use crate::priority::Priority;
use crate::shared::Shared;
use crate::slots::RunId;

/// A key that one worker holds. No other worker gets the key until the lease is dropped.
///
/// The key is done when the lease is dropped: at the end of a scope, by a panic, or because the
/// task that holds it is cancelled. If the key was added again in the meantime, it can then run
/// again.
///
/// A plain drop is neither a success nor a failure: the failure count does not change, and the key
/// runs again only if it is added again. To report how the run went, call one of these:
///
/// - [`finish`](Self::finish): the key succeeded, or is given up. Its failures are forgotten.
/// - [`retry`](Self::retry): the key failed, and runs again after the limiter's delay.
/// - [`retry_after`](Self::retry_after): the key failed, and runs again after a given time.
/// - [`requeue_after`](Self::requeue_after): the key succeeded, and runs again after a given time.
/// - [`defer`](Self::defer): the key was not processed, and runs again after a given time.
///
/// A lease can be stored, or moved to another task. It keeps the queue alive.
#[must_use = "dropping a lease ends its run"]
pub struct Lease<K, C = ()> {
    // Dropped first: the run is done before the copy of the key is dropped, which may panic.
    held: HeldRun<K, C>,
    taken: Taken<K>,
    /// Read from the queue at the first call of `causes`. `None` inside if there are none.
    causes: OnceLock<Option<Arc<Causes<C>>>>,
}

/// A run that ends when this is dropped.
struct HeldRun<K, C> {
    run: RunId,
    shared: Arc<Shared<K, C>>,
}

impl<K, C> Lease<K, C> {
    pub(crate) fn new(shared: &Arc<Shared<K, C>>, taken: Taken<K>) -> Self {
        let causes = if taken.has_causes { OnceLock::new() } else { OnceLock::from(None) };
        Self { held: HeldRun { run: taken.run, shared: Arc::clone(shared) }, taken, causes }
    }

    /// The key. A lease also dereferences to it.
    pub fn key(&self) -> &K {
        &self.taken.key
    }

    /// Why the key runs, oldest first: the causes of the previous run, if that failed or was
    /// deferred, and of all adds that were merged into this run.
    ///
    /// The cause of a [delayed add](crate::Add::after) is included if the key waited for its time.
    /// If another add made the key ready earlier, the timer has not fired, and its cause is
    /// dropped.
    pub fn causes(&self) -> impl Iterator<Item = &C> {
        self.shared_causes().into_iter().flat_map(Causes::iter)
    }

    /// How many causes were left out of [`causes`](Self::causes), because there were too many.
    pub fn causes_omitted(&self) -> u64 {
        self.shared_causes().map_or(0, Causes::omitted)
    }

    /// How long the key was ready before this worker took it.
    pub fn queued(&self) -> Duration {
        self.taken.queued
    }

    /// The requested priority. Aging does not change it.
    pub fn priority(&self) -> Priority {
        self.taken.priority
    }

    /// Changes the priority with which [`retry`](Self::retry), [`defer`](Self::defer) and the like
    /// add the key again. If the key was added meanwhile, the higher of both priorities counts.
    pub fn set_priority(&mut self, priority: Priority) {
        self.taken.priority = priority;
    }

    fn shared_causes(&self) -> Option<&Causes<C>> {
        let share = || Some(self.shared().lock().ledger.share_causes(self.held.run));
        self.causes.get_or_init(share).as_deref()
    }

    fn shared(&self) -> &Shared<K, C> {
        &self.held.shared
    }
}

impl<K: Eq + Hash + Clone, C> Lease<K, C> {
    /// The key succeeded, or is given up. Forgets its failures and ends the lease.
    pub fn finish(self) {
        self.shared().retries.forget(&self.taken.key);
    }

    /// The run failed. Counts a failure of the key, adds it again after the limiter's delay,
    /// which is returned, and ends the lease.
    ///
    /// If an event ran the key early, before the delay of its last failure was over, this failure
    /// is not counted, and the key waits for the rest of that delay.
    ///
    /// The next run has the priority of this one, unless [`set_priority`](Self::set_priority) was
    /// called, and its causes, so that it can still be explained.
    ///
    /// # Errors
    /// Returns an error if the queue is shut down. The failure is counted anyway.
    pub fn retry(mut self) -> Result<Duration, AddError<K>> {
        self.schedule_retry(None)
    }

    /// The run failed, and the caller knows when to try again. Counts a failure of the key, and
    /// adds it again after `delay`. The limiter is not called, so the key takes no slot of a
    /// [`TokenBucket`](crate::TokenBucket). Otherwise like [`retry`](Self::retry).
    ///
    /// # Errors
    /// Returns an error if the queue is shut down or the delay is longer than [`MAX_DELAY`].
    pub fn retry_after(mut self, delay: Duration) -> Result<(), AddError<K>> {
        self.schedule_retry(Some(delay)).map(drop)
    }

    /// Does the same as [`retry`](Self::retry), or with a delay as
    /// [`retry_after`](Self::retry_after), but does not end the lease: the key cannot run before
    /// the lease is dropped. So the caller can record the delay, which is returned, before another
    /// worker takes the key.
    ///
    /// The next run takes the causes, so [`causes`](Self::causes) is empty afterwards. Drop the
    /// lease then; [`finish`](Self::finish) would forget the failure, but not cancel the retry.
    ///
    /// # Errors
    /// Returns an error if the queue is shut down, with the failure counted anyway, or if the delay
    /// is longer than [`MAX_DELAY`].
    pub fn schedule_retry(&mut self, delay: Option<Duration>) -> Result<Duration, AddError<K>> {
        let delay = match delay {
            None => self.shared().retries.count_failure(&self.taken.key),
            Some(delay) => {
                self.check_delay(delay)?;
                self.shared().retries.count_failure_with_delay(&self.taken.key, delay);
                delay
            }
        };
        self.add_again(delay, true)?;
        self.shared().notify_observer(Observer::retried);
        Ok(delay)
    }

    /// The run succeeded. Forgets the failures of the key, adds it again after `delay` with the
    /// same priority and without causes, and ends the lease.
    ///
    /// # Errors
    /// Returns an error if the queue is shut down or the delay is longer than [`MAX_DELAY`].
    pub fn requeue_after(mut self, delay: Duration) -> Result<(), AddError<K>> {
        self.check_delay(delay)?;
        self.shared().retries.forget(&self.taken.key);
        self.add_again(delay, false)
    }

    /// The key was not processed. Adds it again after `delay` as if it had not been taken: with the
    /// same priority, causes and failures. Ends the lease.
    ///
    /// # Errors
    /// Returns an error if the queue is shut down or the delay is longer than [`MAX_DELAY`].
    pub fn defer(mut self, delay: Duration) -> Result<(), AddError<K>> {
        self.schedule_defer(delay)
    }

    /// Does the same as [`defer`](Self::defer), but does not end the lease. See
    /// [`schedule_retry`](Self::schedule_retry).
    ///
    /// # Errors
    /// As [`defer`](Self::defer).
    pub fn schedule_defer(&mut self, delay: Duration) -> Result<(), AddError<K>> {
        self.check_delay(delay)?;
        self.add_again(delay, true)
    }

    fn add_again(&mut self, delay: Duration, keeps_causes: bool) -> Result<(), AddError<K>> {
        let shared = &self.held.shared;
        let now = shared.clock.now();
        let due = (!delay.is_zero()).then(|| now + delay);
        let mut dropped = Dropped::default();
        let mut locked = shared.lock();
        if locked.shut_down {
            drop(locked);
            return Err(AddError::ShutDown { key: self.taken.key.clone() });
        }
        // Releases the causes, so that the ledger can move them to the next run. The ledger still
        // shares them, so none is dropped under the lock.
        self.causes = OnceLock::from(None);
        let Taken { run, priority, .. } = self.taken;
        locked.ledger.add_again(run, priority, now, due, keeps_causes, &mut dropped);
        Ok(())
    }

    fn check_delay(&self, delay: Duration) -> Result<(), AddError<K>> {
        if delay > MAX_DELAY {
            return Err(AddError::DelayTooLong { key: self.taken.key.clone(), delay });
        }
        Ok(())
    }
}

impl<K, C> Deref for Lease<K, C> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.taken.key
    }
}

impl<K, C> Drop for HeldRun<K, C> {
    fn drop(&mut self) {
        let mut dropped = Dropped::default();
        self.shared.lock().ledger.done(self.run, &mut dropped);
    }
}

impl<K: fmt::Debug, C> fmt::Debug for Lease<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("key", &self.taken.key).finish_non_exhaustive()
    }
}
