//! A key in the hands of one worker.

use std::borrow::Cow;
use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::time::Duration;

use crate::causes::Causes;
use crate::ledger::Taken;
use crate::running::RunId;
use crate::sync::Arc;
use crate::{AddError, MAX_DELAY, Priority, WorkQueue};

/// A key in the hands of one worker: no other worker gets it until the lease is dropped.
///
/// Dropping the lease is "done", however it comes about: at the end of a scope, by a panic, or because
/// the task that holds it is cancelled. A key that was added again in the meantime then gets its turn.
///
/// Dropping says nothing about success: the key is not charged with a failure, and comes back only if somebody adds it. The
/// same holds after a panic; who wants the key back catches it. Say how the run went with one of
/// - [`finish`](Self::finish): the key succeeded, or is given up; its failures are forgotten;
/// - [`retry`](Self::retry): the key failed, and comes back after the limiter's delay;
/// - [`retry_after`](Self::retry_after): the key failed, and comes back after a given time;
/// - [`requeue_after`](Self::requeue_after): the key succeeded, and comes back after a given time;
/// - [`postpone`](Self::postpone): the key was not worked on, and comes back after a given time.
///
/// It borrows the queue that it came from, as a worker's loop does; [`into_owned`](Self::into_owned) makes an
/// [`OwnedLease`] that can be kept elsewhere, or moved to a task of its own.
#[must_use = "a lease that is dropped is done"]
pub struct Lease<'q, K, C = ()> {
    // The first to be dropped: the key is done before its copy here is dropped, which is the caller's code.
    run: HeldRun<'q, K, C>,
    key: K,
    causes: Option<Arc<Causes<C>>>,
    queued: Option<Duration>,
    priority: Priority,
}

/// A lease with a handle of its own to the queue; see [`Lease::into_owned`].
pub type OwnedLease<K, C = ()> = Lease<'static, K, C>;

/// A run that ends when this is dropped.
struct HeldRun<'q, K, C> {
    id: RunId,
    /// `None` only once it was given away.
    queue: Option<Cow<'q, WorkQueue<K, C>>>,
}

impl<'q, K, C> Lease<'q, K, C> {
    #[expect(
        clippy::inline_always,
        reason = "else a lease is copied on its way out, for about a twentieth of the time"
    )]
    #[inline(always)]
    pub(crate) fn new(queue: &'q WorkQueue<K, C>, taken: Taken<K, C>) -> Self {
        let Taken { id, key, causes, queued, priority } = taken;
        let run = HeldRun { id, queue: Some(Cow::Borrowed(queue)) };
        Self { run, key, causes, queued, priority }
    }

    /// The same lease, with a handle of its own to the queue.
    pub fn into_owned(self) -> OwnedLease<K, C> {
        let Self { mut run, key, causes, queued, priority } = self;
        let queue = run.queue.take().map(|queue| Cow::Owned(queue.into_owned()));
        Lease { run: HeldRun { id: run.id, queue }, key, causes, queued, priority }
    }

    /// The key. A lease also dereferences to it.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Why the key runs, oldest first: the causes of the run before, if that failed, and of all
    /// adds that were merged into this run.
    ///
    /// The cause of a [delayed add](crate::Add::after) is told if the key waited for its time. If
    /// another add made the key ready before, or it was ready already, that time has not come, and
    /// the cause is dropped.
    pub fn causes(&self) -> impl Iterator<Item = &C> {
        self.causes.iter().flat_map(|causes| causes.iter())
    }

    /// How many causes were left out of [`causes`](Self::causes), because there were too many.
    pub fn causes_omitted(&self) -> u64 {
        self.causes.as_ref().map_or(0, |causes| causes.omitted())
    }

    /// How long the key was ready before it was handed out, if the queue
    /// [keeps times](crate::Builder::keep_times).
    pub fn queued(&self) -> Option<Duration> {
        self.queued
    }

    /// How urgent the run was asked to be. That it moved up by age does not count.
    pub fn priority(&self) -> Priority {
        self.priority
    }
}

impl<K, C> Lease<'_, K, C>
where
    K: Eq + Hash + Clone + Send + 'static,
    C: Send + Sync + 'static,
{
    /// The key succeeded, or is given up: its failures are forgotten, and the lease is done.
    pub fn finish(self) {
        self.queue().forget(&self.key);
    }

    /// The run failed: the key is charged with a failure and comes back after the limiter's delay,
    /// which is returned. If the key failed before and its delay is not over, because an event ran
    /// it early, it is not charged again and waits for the rest. The lease is done.
    ///
    /// The next run is as urgent as this one and has its causes too, so that it can still be explained.
    ///
    /// # Errors
    /// If the queue is shut down; the failure is counted all the same.
    pub fn retry(self) -> Result<Duration, AddError<K>> {
        let delay = self.queue().shared().charges.charge(&self.key);
        self.repeat(delay)
    }

    /// The run failed, and the caller knows better than the limiter when to try again: the key is
    /// charged with a failure and comes back after `delay`. The limiter is not asked, so the key
    /// takes no slot of a [`TokenBucket`](crate::TokenBucket). Otherwise as [`retry`](Self::retry).
    ///
    /// # Errors
    /// If the queue is shut down or the delay is beyond [`MAX_DELAY`].
    pub fn retry_after(self, delay: Duration) -> Result<(), AddError<K>> {
        if delay > MAX_DELAY {
            return Err(AddError::DelayTooLong { key: self.key.clone(), delay });
        }
        self.queue().shared().charges.charge_for(&self.key, delay);
        self.repeat(delay).map(drop)
    }

    /// The run went well and the key shall run again after `delay`, as urgent as this time: its failures
    /// are forgotten, and the lease is done.
    ///
    /// # Errors
    /// If the queue is shut down or the delay is beyond [`MAX_DELAY`].
    pub fn requeue_after(self, delay: Duration) -> Result<(), AddError<K>> {
        if delay > MAX_DELAY {
            return Err(AddError::DelayTooLong { key: self.key.clone(), delay });
        }
        self.queue().forget(&self.key);
        if !self.queue().shared().repeat(self.run.id, delay, false) {
            return Err(AddError::ShutDown { key: self.key.clone() });
        }
        Ok(())
    }

    /// The key was not worked on, and comes back after `delay` as if it had not been taken: as
    /// urgent, with its causes, and with the failures it has. The lease is done.
    ///
    /// # Errors
    /// If the queue is shut down or the delay is beyond [`MAX_DELAY`].
    pub fn postpone(mut self, delay: Duration) -> Result<(), AddError<K>> {
        if delay > MAX_DELAY {
            return Err(AddError::DelayTooLong { key: self.key.clone(), delay });
        }
        self.come_back(delay)
    }

    fn repeat(mut self, delay: Duration) -> Result<Duration, AddError<K>> {
        self.come_back(delay)?;
        self.queue().count_retry();
        Ok(delay)
    }

    fn come_back(&mut self, delay: Duration) -> Result<(), AddError<K>> {
        // Let go of the causes, so that the next run can have them.
        self.causes = None;
        if !self.queue().shared().repeat(self.run.id, delay, true) {
            return Err(AddError::ShutDown { key: self.key.clone() });
        }
        Ok(())
    }

    fn queue(&self) -> &WorkQueue<K, C> {
        self.run.queue.as_ref().expect("a run must be held until it ends")
    }
}

impl<K, C> Deref for Lease<'_, K, C> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.key
    }
}

impl<K, C> Drop for HeldRun<'_, K, C> {
    fn drop(&mut self) {
        if let Some(queue) = &self.queue {
            queue.shared().done(self.id);
        }
    }
}

impl<K: fmt::Debug, C> fmt::Debug for Lease<'_, K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("key", &self.key).finish_non_exhaustive()
    }
}
