//! What the queue reports while it runs: the interface between the queue and any metrics system.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::priority::Priority;

/// Called with every step of a key through the queue.
///
/// The steps are those of client-go's work queue metrics. With the feature `prometheus`,
/// `QueueMetrics` implements them under the same names. Every method does nothing by default.
///
/// The methods run on the thread whose call caused the step, before that call returns, and outside
/// of the queue's lock. So they may call the queue, but calls on different threads may arrive in
/// another order than the steps happened. If a method panics, the panic is logged and the queue
/// goes on.
#[expect(unused_variables, reason = "the default methods do nothing")]
pub trait Observer: Send + Sync + 'static {
    /// A run became ready. Adds that were merged into it are not reported. `depth` is the number of
    /// ready runs, including this one.
    fn added(&self, depth: usize) {}

    /// A worker took a key that had been ready for `queued`. `depth` is the number of runs that are
    /// still ready.
    fn started(&self, queued: Duration, depth: usize) {}

    /// A lease ended after `ran`.
    fn finished(&self, ran: Duration) {}

    /// A key that failed was added again, with the limiter's delay or its own.
    fn retried(&self) {}

    /// The queue was built. Keep the handle to read its load later.
    fn attached(&self, handle: LoadHandle) {}
}

/// Reads the current load of a queue, without keeping the queue alive.
#[derive(Clone)]
pub struct LoadHandle {
    source: Weak<dyn HasLoad>,
}

/// How much work a queue has at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Load {
    /// Keys that are ready, waiting or running, each once.
    pub keys: usize,
    /// Keys with a ready run, including keys that run now and were added again.
    pub ready: usize,
    /// The same, by level: the requested priority, or a higher one after aging. In the order of
    /// [`Priority::ALL`](crate::Priority::ALL).
    pub ready_by_priority: [usize; Priority::ALL.len()],
    /// Keys whose time has not come.
    pub waiting: usize,
    /// Leases that workers hold.
    pub running: usize,
    /// How long the runs under way have taken so far, added up.
    pub unfinished: Duration,
    /// How long the oldest run under way has taken so far.
    pub longest_running: Duration,
    /// How far ahead a limiter that all keys share, such as [`TokenBucket`](crate::TokenBucket), is
    /// booked: about how long a key that fails now waits because others failed before it.
    pub retry_debt: Duration,
}

pub(crate) trait HasLoad: Send + Sync {
    fn load(&self) -> Load;
}

impl LoadHandle {
    pub(crate) fn new<P: HasLoad + 'static>(source: &Arc<P>) -> Self {
        Self { source: Arc::<P>::downgrade(source) }
    }

    /// Whether the queue is gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.source.strong_count() == 0
    }

    /// The current load, or `None` if the queue is gone.
    #[must_use]
    pub fn load(&self) -> Option<Load> {
        Some(self.source.upgrade()?.load())
    }
}

impl fmt::Debug for LoadHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadHandle").finish_non_exhaustive()
    }
}
