//! What the queue tells of itself while it runs: the seam between the queue and any metrics system.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::guard::guarded;

/// Hears of every step of a key through the queue.
///
/// The steps are those of client-go's work queue metrics; the `prometheus` feature has a ready
/// implementation under the same names. Every method does nothing unless implemented.
///
/// `added`, `started` and `finished` are called with the queue's lock held, so that their order is the order
/// of events. They must be quick and must not call the queue. A panic of theirs is logged and goes no further.
pub trait Observer: Send + Sync + 'static {
    /// A key's run became ready. Adds that were merged into it are not told. `depth` is the number of
    /// ready runs, this one included.
    fn added(&self, depth: usize) {
        let _ = depth;
    }

    /// A key was handed to a worker, after it had been ready for `queued`.
    fn started(&self, queued: Duration, depth: usize) {
        let _ = (queued, depth);
    }

    /// A lease was given back, after `ran`.
    fn finished(&self, ran: Duration) {
        let _ = ran;
    }

    /// A key was added through the rate limiter.
    fn retried(&self) {}

    /// The queue is built. Keep the probe to ask about work that is under way.
    fn attached(&self, probe: Probe) {
        let _ = probe;
    }
}

/// Asks a queue about its work at this moment, without keeping the queue alive.
#[derive(Clone)]
pub struct Probe {
    source: Weak<dyn Probed>,
}

/// How much work is under way at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Load {
    /// Keys whose run is ready, including those that run right now and were added again.
    pub ready: usize,
    /// Keys whose time has not come.
    pub waiting: usize,
    /// Leases that are out.
    pub running: usize,
    /// The time that the runs under way have taken so far; `None` if the queue does not
    /// [keep times](crate::Builder::keep_times), which one with an observer does.
    pub elapsed: Option<Elapsed>,
    /// How far ahead a limiter that all keys share, such as [`TokenBucket`](crate::TokenBucket), is
    /// booked: about as long as a key that fails now waits because others failed before it.
    pub retry_debt: Duration,
}

/// The time that the runs under way have taken so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Elapsed {
    /// Of all, added up.
    pub total: Duration,
    /// Of the longest.
    pub longest: Duration,
}

pub(crate) trait Probed: Send + Sync {
    fn load(&self) -> Load;
}

impl Probe {
    /// Whether the queue is gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.source.strong_count() == 0
    }

    pub(crate) fn new(source: &Arc<dyn Probed>) -> Self {
        Self { source: Arc::downgrade(source) }
    }

    /// The load at this moment, or `None` if the queue is gone.
    #[must_use]
    pub fn load(&self) -> Option<Load> {
        Some(self.source.upgrade()?.load())
    }
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probe").finish_non_exhaustive()
    }
}

/// The observer of a queue, which others may read.
#[derive(Clone)]
pub(crate) struct SharedObserver {
    pub(crate) queue: Arc<str>,
    pub(crate) observer: Arc<dyn Observer>,
}

impl SharedObserver {
    /// Tells the observer. Should it panic, the queue goes on.
    pub(crate) fn tell(&self, event: impl FnOnce(&dyn Observer)) {
        let missed = "it has missed an event";
        let _ = guarded(&self.queue, "observer", missed, || event(&*self.observer));
    }
}
