//! How a key is added: when it runs, how urgent it is, and why.

use std::time::Duration;

use crate::priority::Priority;

/// How a key is added: when it runs, how urgent it is, and what caused it.
///
/// ```
/// use std::time::Duration;
/// use windlass_workqueue::{Add, Priority, WorkQueue};
///
/// let queue = WorkQueue::<&str, &str>::builder().build()?;
/// queue.add_with("pods/web-0", Add::now().cause("pod changed"))?;
/// queue.add_with("pods/web-1", Add::after(Duration::from_secs(30)).priority(Priority::Low))?;
/// queue.add_with("pods/web-2", Add::rate_limited().cause("conflict on write"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "pass it to `WorkQueue::add_with`"]
pub struct Add<C = ()> {
    pub(crate) when: When,
    pub(crate) priority: Priority,
    pub(crate) cause: Option<C>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    Now,
    After(Duration),
    RateLimited,
}

impl<C> Add<C> {
    /// Run as soon as a worker is free.
    pub fn now() -> Self {
        Self::when(When::Now)
    }

    /// Run after `delay`, unless another add makes the key run earlier. If the key is already
    /// ready, or if a later add makes it ready or due earlier, this timer never fires and its cause
    /// is dropped. If the key already waits for an earlier time, the add is merged into that run
    /// with its cause.
    pub fn after(delay: Duration) -> Self {
        Self::when(When::After(delay))
    }

    /// Run after the delay of the queue's limiter. This counts as a failure of the key.
    pub fn rate_limited() -> Self {
        Self::when(When::RateLimited)
    }

    /// How urgent the key is. Default: [`Priority::Normal`].
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Why the key is added. The run gets it with its lease. Default: none.
    pub fn cause(mut self, cause: C) -> Self {
        self.cause = Some(cause);
        self
    }

    fn when(when: When) -> Self {
        Self { when, priority: Priority::Normal, cause: None }
    }
}
