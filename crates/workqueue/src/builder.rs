//! Makes a queue that differs from the default.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use crate::ledger::Ledger;
use crate::limiter::{MaxOf, RateLimiter};
use crate::observer::{Observer, Probe, Probed, SharedObserver};
use crate::priority::Group;
use crate::shared::{GroupOf, Shared};
use crate::{InvalidConfig, WorkQueue};

/// A `Low` key waits at most twice this before it competes with `High` ones.
const AGING_DEFAULT: Duration = Duration::from_secs(30);

/// Makes a queue that differs from the default; see [`WorkQueue::builder`].
#[must_use = "a builder does nothing until `build`"]
pub struct Builder<K, C = ()> {
    name: String,
    limiter: Option<Box<dyn RateLimiter<K>>>,
    aging: Duration,
    group_of: Option<GroupOf<K>>,
    observer: Option<Arc<dyn Observer>>,
    keep_times: bool,
    causes: std::marker::PhantomData<C>,
}

impl<K, C> Builder<K, C>
where
    K: Eq + Hash + Clone + Send + 'static,
    C: Send + Sync + 'static,
{
    pub(crate) fn new() -> Self {
        Self {
            name: "workqueue".to_owned(),
            limiter: None,
            aging: AGING_DEFAULT,
            group_of: None,
            observer: None,
            keep_times: false,
            causes: std::marker::PhantomData,
        }
    }

    /// What the queue is called in log lines. Default: `workqueue`.
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
    /// Keys move up only while others are ahead of them, so a queue that uses one priority never pays
    /// for this. What came before any other priority was used counts as come when it first was, unless the queue
    /// [keeps times](Self::keep_times).
    pub fn aging(mut self, aging: Duration) -> Self {
        self.aging = aging;
        self
    }

    /// Lets groups of keys take turns within a priority, so that one group's flood delays the
    /// others by one key at a time. Default: no groups, one FIFO for each priority. Keys for which
    /// `group_of` panics, which is logged, are one group.
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

    /// Notes since when keys are ready and runs are under way, for [`Lease::queued`](crate::Lease::queued),
    /// [`WorkQueue::snapshot`], [`WorkQueue::status`], [`WorkQueue::due`] and [`WorkQueue::load`], and so that
    /// [`aging`](Self::aging) counts from the very beginning. Default: only if there is an observer.
    ///
    /// It takes two readings of the clock for each run, which may be a third or half of all that the queue does for it, and
    /// eight bytes for each key.
    pub fn keep_times(mut self) -> Self {
        self.keep_times = true;
        self
    }

    /// Who hears of every step, for metrics. Default: nobody.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Makes the queue.
    ///
    /// # Errors
    /// If [`aging`](Self::aging) is zero.
    pub fn build(self) -> Result<WorkQueue<K, C>, InvalidConfig> {
        if self.aging.is_zero() {
            return Err(InvalidConfig::Aging);
        }
        let fair = self.group_of.is_some();
        let limiter = self.limiter.unwrap_or_else(|| Box::new(MaxOf::default()));
        let queue: Arc<str> = self.name.into();
        let shared_observer = |observer| SharedObserver { queue: Arc::clone(&queue), observer };
        let observer = self.observer.map(shared_observer);
        let keeps_times = self.keep_times || observer.is_some();
        let ledger = Ledger::new(self.aging, fair, keeps_times, observer.clone());
        let shared = Arc::new(Shared::new(queue, ledger, self.group_of, limiter));
        if let Some(observer) = observer {
            let probed: Arc<dyn Probed> = Arc::<Shared<K, C>>::clone(&shared);
            observer.tell(|observer| observer.attached(Probe::new(&probed)));
        }
        Ok(WorkQueue::from_shared(shared))
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
