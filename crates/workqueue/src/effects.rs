//! What an operation leaves to do after the queue is unlocked, because it runs the user's code.

use std::time::Duration;

use tokio::time::Instant;

/// What to do after the lock is released. Dropping a key or a cause, and calling the observer, may
/// take long, panic, or call the queue.
#[derive(Debug)]
pub(crate) struct Effects<K, C> {
    /// Events for the observer, in order.
    pub(crate) events: Vec<Event>,
    /// A key to drop. One operation leaves at most one.
    pub(crate) key: Option<K>,
    /// Causes to drop.
    pub(crate) causes: Vec<C>,
}

/// An event for the observer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Added { depth: usize },
    Started { queued: Duration, depth: usize },
    Finished { started: Instant },
}

impl<K, C> Default for Effects<K, C> {
    fn default() -> Self {
        Self { events: Vec::new(), key: None, causes: Vec::new() }
    }
}
