//! Builds a queue.

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use crate::error::InvalidConfig;
use crate::ledger::Ledger;
use crate::limiter::{MaxOf, RateLimiter};
use crate::observer::{LoadHandle, Observer};
use crate::priority::Group;
use crate::queue::WorkQueue;
use crate::shared::{GroupOf, Shared};

/// A `Low` key competes with `High` ones after twice this, or somewhat later: keys age when one is
/// taken.
const AGING_DEFAULT: Duration = Duration::from_secs(30);

/// Builds a queue that differs from the default; see [`WorkQueue::builder`].
#[must_use = "a builder does nothing until `build`"]
pub struct Builder<K, C = ()> {
    name: String,
    limiter: Option<Box<dyn RateLimiter<K>>>,
    aging: Duration,
    group_of: Option<GroupOf<K>>,
    observer: Option<Arc<dyn Observer>>,
    causes: PhantomData<C>,
}

impl<K: Eq + Hash + Clone + Send + 'static> WorkQueue<K> {
    /// A queue with the defaults: FIFO, client-go's rate limits, no causes, no observer.
    #[must_use]
    pub fn new() -> Self {
        let queue = Self::builder().build();
        queue.unwrap_or_else(|invalid| unreachable!("the defaults must be valid: {invalid}"))
    }
}

impl<K: Eq + Hash + Clone + Send + 'static> Default for WorkQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, C> WorkQueue<K, C> {
    /// Starts to build a queue with other limits, groups, causes or an observer.
    ///
    /// The types say what the queue holds: `WorkQueue::<String>::builder()` has no causes,
    /// `WorkQueue::<String, Event>::builder()` has causes of type `Event`.
    pub fn builder() -> Builder<K, C> {
        Builder {
            name: "workqueue".to_owned(),
            limiter: None,
            aging: AGING_DEFAULT,
            group_of: None,
            observer: None,
            causes: PhantomData,
        }
    }
}

impl<K, C> Builder<K, C>
where
    K: Eq + Hash + Clone + Send + 'static,
    C: Send + Sync + 'static,
{
    /// The name of the queue in log lines. Default: `workqueue`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How long keys that failed wait. Default: [`MaxOf::default`], client-go's for controllers.
    pub fn limiter(mut self, limiter: impl RateLimiter<K> + 'static) -> Self {
        self.limiter = Some(Box::new(limiter));
        self
    }

    /// How long a key stays at one priority before it moves up by one. Default: 30 s.
    ///
    /// Keys move up only while keys of another priority are ready as well.
    pub fn aging(mut self, aging: Duration) -> Self {
        self.aging = aging;
        self
    }

    /// Lets groups of keys take turns within a priority, so that a flood of one group delays the
    /// others by one key at a time. Default: no groups, one FIFO for each priority.
    ///
    /// If `group_of` panics, the panic is logged, and the key joins a group of all such keys.
    ///
    /// ```
    /// use windlass_workqueue::{Group, WorkQueue};
    ///
    /// let queue = WorkQueue::<(String, String)>::builder()
    ///     .fair_by(|(namespace, _name)| Group::of(namespace))
    ///     .build()?;
    /// # Ok::<(), windlass_workqueue::InvalidConfig>(())
    /// ```
    pub fn fair_by(mut self, group_of: impl Fn(&K) -> Group + Send + Sync + 'static) -> Self {
        self.group_of = Some(Box::new(group_of));
        self
    }

    /// Calls `observer` at every step of every key, for metrics. Default: no observer.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Builds the queue.
    ///
    /// # Errors
    /// Returns an error if [`aging`](Self::aging) is zero.
    pub fn build(self) -> Result<WorkQueue<K, C>, InvalidConfig> {
        if self.aging.is_zero() {
            return Err(InvalidConfig::Aging);
        }
        let limiter = self.limiter.unwrap_or_else(|| Box::new(MaxOf::default()));
        let ledger = Ledger::new(self.aging, self.group_of.is_some(), self.observer.is_some());
        let shared = Shared::new(self.name.into(), ledger, self.group_of, limiter, self.observer);
        let shared = Arc::new(shared);
        shared.notify_observer(|observer| observer.attached(LoadHandle::new(&shared)));
        Ok(WorkQueue { shared })
    }
}

impl<K, C> fmt::Debug for Builder<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .field("aging", &self.aging)
            .field("fair", &self.group_of.is_some())
            .finish_non_exhaustive()
    }
}
