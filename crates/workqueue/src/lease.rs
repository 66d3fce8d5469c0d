//! A key in the hands of one worker.

use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::causes::Causes;
use crate::clock::Span;
use crate::ledger::Taken;
use crate::running::RunId;
use crate::shared::Shared;
use crate::{AddError, MAX_DELAY, Priority, WorkQueue};

/// A key in the hands of one worker: no other worker gets it until the lease is dropped.
///
/// Dropping the lease is "done", however it comes about: at the end of a scope, by a panic, or because
/// the task that holds it is cancelled. A key that was added again in the meantime then gets its turn.
///
/// Dropping says nothing about success. Say it with one of
/// - [`finish`](Self::finish): the key succeeded, or is given up; its failures are forgotten;
/// - [`retry`](Self::retry): the key failed, and comes back after the limiter's delay;
/// - [`retry_after`](Self::retry_after): the key failed, and comes back after a given time;
/// - [`requeue_after`](Self::requeue_after): the key succeeded, and comes back after a given time.
#[must_use = "a lease that is dropped is done"]
pub struct Lease<K, C = ()> {
    shared: Arc<Shared<K, C>>,
    id: RunId,
    key: K,
    causes: Option<Arc<Causes<C>>>,
    queued: Span,
    priority: Priority,
}

impl<K, C> Lease<K, C> {
    #[expect(
        clippy::inline_always,
        reason = "else a lease is copied on its way out, for about a twentieth of the time"
    )]
    #[inline(always)]
    pub(crate) fn new(shared: Arc<Shared<K, C>>, taken: Taken<K, C>) -> Self {
        let Taken { id, key, causes, queued, priority } = taken;
        Self { shared, id, key, causes, queued, priority }
    }

    /// The key. A lease also dereferences to it.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Why the key runs: the causes of all adds that this run stands for, oldest first.
    pub fn causes(&self) -> impl Iterator<Item = &C> {
        self.causes.iter().flat_map(|causes| causes.iter())
    }

    /// How many causes were left out of [`causes`](Self::causes), because there were too many.
    pub fn causes_omitted(&self) -> u64 {
        self.causes.as_ref().map_or(0, |causes| causes.omitted())
    }

    /// How long the key was ready before it was handed out.
    pub fn queued(&self) -> Duration {
        self.queued.duration()
    }

    /// How urgent the run was asked to be. That it moved up by age does not count.
    pub fn priority(&self) -> Priority {
        self.priority
    }
}

impl<K, C> Lease<K, C>
where
    K: Eq + Hash + Clone + Send + 'static,
    C: Send + Sync + 'static,
{
    /// The key succeeded, or is given up: its failures are forgotten, and the lease is done.
    pub fn finish(self) {
        self.queue().forget(&self.key);
    }

    /// The run failed: the key is charged with a failure and comes back after the limiter's delay, which
    /// is returned. The lease is done.
    ///
    /// The next run is as urgent as this one and has its causes too, so that it can still be explained.
    ///
    /// # Errors
    /// If the queue is shut down; the failure is counted all the same.
    pub fn retry(self) -> Result<Duration, AddError<K>> {
        let delay = self.queue().charge(&self.key);
        self.repeat(delay)
    }

    /// The run failed, and somebody knows better than the limiter when to try again: the key is charged
    /// with a failure and comes back after `delay`. Otherwise as [`retry`](Self::retry).
    ///
    /// # Errors
    /// If the queue is shut down or the delay is beyond [`MAX_DELAY`].
    pub fn retry_after(self, delay: Duration) -> Result<(), AddError<K>> {
        if delay > MAX_DELAY {
            return Err(AddError::DelayTooLong { key: self.key.clone(), delay });
        }
        self.queue().charge_for(&self.key, delay);
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
        if !self.shared.repeat(self.id, delay, false) {
            return Err(AddError::ShutDown { key: self.key.clone() });
        }
        Ok(())
    }

    fn repeat(mut self, delay: Duration) -> Result<Duration, AddError<K>> {
        // Let go of the causes, so that the next run can have them.
        self.causes = None;
        if !self.shared.repeat(self.id, delay, true) {
            return Err(AddError::ShutDown { key: self.key.clone() });
        }
        self.queue().count_retry();
        Ok(delay)
    }

    fn queue(&self) -> WorkQueue<K, C> {
        WorkQueue::from_shared(Arc::clone(&self.shared))
    }
}

impl<K, C> Deref for Lease<K, C> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.key
    }
}

impl<K, C> Drop for Lease<K, C> {
    fn drop(&mut self) {
        self.shared.done(self.id);
    }
}

impl<K: fmt::Debug, C> fmt::Debug for Lease<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("key", &self.key).finish_non_exhaustive()
    }
}
