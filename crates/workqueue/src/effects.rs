//! What an operation leaves to do after the queue is unlocked, because it runs the user's code:
//! dropping a key or a cause, or calling the observer, may take long, panic, or call the queue.

use std::time::Duration;

use crate::causes::Causes;
use crate::time::Time;

/// What to drop. Declare it before the queue is locked: then it is dropped after unlocking, also if
/// the operation panics.
#[derive(Debug)]
pub(crate) struct Dropped<K, C> {
    /// One operation leaves at most one key.
    pub(crate) key: Option<K>,
    causes: Causes<C>,
    more_causes: Vec<C>,
}

/// An event for the observer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Added { depth: usize },
    Started { queued: Duration, depth: usize },
    Finished { started: Time },
}

impl<K, C> Dropped<K, C> {
    /// Adds all causes of a run. Those of one run are moved as they are.
    pub(crate) fn push_causes(&mut self, causes: Causes<C>) {
        let others = std::mem::replace(&mut self.causes, causes);
        self.more_causes.extend(others.into_kept());
    }
}

impl<K, C> Extend<C> for Dropped<K, C> {
    fn extend<I: IntoIterator<Item = C>>(&mut self, causes: I) {
        self.more_causes.extend(causes);
    }
}

impl<K, C> Default for Dropped<K, C> {
    fn default() -> Self {
        Self { key: None, causes: Causes::default(), more_causes: Vec::new() }
    }
}
