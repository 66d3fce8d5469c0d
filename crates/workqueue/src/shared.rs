//! The state that all handles of a queue share: the lock around the ledger, and how workers sleep
//! and wake up.
//!
//! One lock guards the ledger. The limiter and the failure counts have their own (`retries.rs`): a
//! thread may hold these two together, in that order, but never together with the ledger's. No lock
//! is held across an await. [`Shared::lock`] returns a guard that, when it is dropped, first
//! unlocks and then wakes workers and calls the observer. The user's keys and causes are dropped
//! after that.
//!
//! How workers wake up:
//!
//! - A worker registers with `work` before it looks for a key. If it finds none, it counts itself
//!   as a sleeper in the same critical section, so that no add can come between.
//! - A thread that unlocks the queue wakes one sleeper if there is work for it. When that worker
//!   unlocks the queue, it wakes the next one if there is more work.
//! - One sleeper is needed for each key in line, and one more if a key is due before the earliest
//!   alarm. If more are needed than are being woken already, another one is woken.
//! - When the queue is shut down, and when its last ready key is taken after that, all are woken at
//!   once.
//! - A worker that goes to sleep sets an alarm for the next due time, unless another worker has an
//!   alarm that is as early. So the queue needs no task and no timer of its own.
//! - A `get` that is dropped while it sleeps clears its alarm, and [`Notify`] passes a wake-up that
//!   it had already received to another sleeper.
//! - [`Notify`] does not say which worker it woke. So every worker that looks for a key, or whose
//!   `get` is dropped, counts as one that was being woken. If it was not, one worker too many is
//!   woken.

use std::hash::{BuildHasher, Hash};
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::effects::{Dropped, Event};
#[cfg(test)]
use crate::explore::Mistake;
use crate::guard::guarded;
use crate::ledger::Ledger;
use crate::limiter::RateLimiter;
use crate::observer::{HasLoad, Load, Observer};
use crate::priority::Group;
use crate::retries::Retries;
use crate::sync::{Lock, MutexGuard, yield_point};
use crate::time::{Clock, Time};

/// Returns the group in which a key takes turns.
pub(crate) type GroupOf<K> = Box<dyn Fn(&K) -> Group + Send + Sync>;

pub(crate) struct Shared<K, C> {
    pub(crate) name: Arc<str>,
    pub(crate) group_of: Option<GroupOf<K>>,
    observer: Option<Arc<dyn Observer>>,
    hasher: foldhash::fast::RandomState,
    pub(crate) clock: Clock,
    pub(crate) retries: Retries<K>,
    state: Lock<State<K, C>>,
    /// Wakes sleeping workers.
    pub(crate) work: Notify,
    /// Wakes the callers of `wait_idle`.
    idle: Notify,
}

pub(crate) struct State<K, C> {
    pub(crate) ledger: Ledger<K, C>,
    pub(crate) shut_down: bool,
    /// How many workers sleep or are about to sleep.
    sleepers: usize,
    /// How many wake-ups were sent to workers that have not looked for a key yet.
    waking: usize,
    /// The earliest alarm of a sleeping worker. `None` if none is known: when that worker wakes up,
    /// the later alarms of others are not searched.
    alarm: Option<Time>,
    /// Whether a caller of `wait_idle` may be waiting.
    has_idle_waiters: bool,
}

/// The locked queue. Dropping it unlocks, and then wakes workers and calls the observer.
pub(crate) struct Locked<'a, K, C> {
    shared: &'a Shared<K, C>,
    /// `None` only while the guard is being dropped.
    state: Option<MutexGuard<'a, State<K, C>>>,
}

/// A worker that sleeps. Dropped when the worker wakes up, or when its `get` is cancelled.
pub(crate) struct Sleeper<'a, K, C> {
    shared: &'a Shared<K, C>,
    /// When the worker wakes up by itself.
    alarm: Option<Time>,
    /// Whether the worker woke up, and will look for a key.
    is_awake: bool,
}

impl<K: Eq + Hash + Clone, C> Shared<K, C> {
    pub(crate) fn new(
        name: Arc<str>,
        ledger: Ledger<K, C>,
        group_of: Option<GroupOf<K>>,
        limiter: Box<dyn RateLimiter<K>>,
        observer: Option<Arc<dyn Observer>>,
    ) -> Self {
        let state = State {
            ledger,
            shut_down: false,
            sleepers: 0,
            waking: 0,
            alarm: None,
            has_idle_waiters: false,
        };
        Self {
            retries: Retries::new(Arc::clone(&name), limiter),
            name,
            group_of,
            observer,
            hasher: foldhash::fast::RandomState::default(),
            clock: Clock::start(),
            state: Lock::new(state),
            work: Notify::new(),
            idle: Notify::new(),
        }
    }

    /// Half of a hash is enough to tell the keys of a table apart.
    pub(crate) fn hash(&self, key: &K) -> u32 {
        (self.hasher.hash_one(key) >> 32) as u32
    }

    pub(crate) fn load(&self) -> Load {
        let load = self.inspect(|state, _| state.ledger.load(self.clock.now()));
        Load { retry_debt: self.retries.debt(), ..load }
    }
}

impl<K, C> Shared<K, C> {
    pub(crate) fn lock(&self) -> Locked<'_, K, C> {
        Locked { shared: self, state: Some(self.state.lock()) }
    }

    /// Locks the queue, makes every key that is due ready, and calls `read`.
    pub(crate) fn inspect<R>(
        &self,
        read: impl FnOnce(&mut State<K, C>, &mut Dropped<K, C>) -> R,
    ) -> R {
        let now = self.clock.now();
        let mut dropped = Dropped::default();
        let mut locked = self.lock();
        while locked.ledger.promote_due(now, &mut dropped) {}
        read(&mut locked, &mut dropped)
    }

    /// Wakes all sleepers, also those that count as being woken. The queue must not be locked.
    pub(crate) fn wake_all(&self) {
        #[cfg(test)]
        if Mistake::LeavesLastAsleep.is_made() {
            return;
        }
        self.work.notify_waiters();
    }

    /// Waits until no key is ready, waiting or running.
    pub(crate) async fn wait_idle(&self) {
        loop {
            // Created before the check, so that it sees every `notify_waiters` from here on.
            let idle = self.idle.notified();
            if self.lock().register_idle_waiter() {
                return;
            }
            idle.await;
        }
    }

    /// Calls the observer, if there is one. A panic of the observer is logged.
    pub(crate) fn notify_observer(&self, event: impl FnOnce(&dyn Observer)) {
        if let Some(observer) = &self.observer {
            let consequence = "it has missed an event";
            let _ = guarded(&self.name, "observer", consequence, || event(&**observer));
        }
    }
}

impl<K, C> State<K, C> {
    /// Whether no worker will ever get a key again.
    pub(crate) fn is_finished(&self) -> bool {
        self.shut_down && self.ledger.ready() == 0
    }

    /// Whether there is work for a sleeper that is not being woken yet.
    fn has_work_for_sleeper(&self) -> bool {
        if self.sleepers <= self.waking {
            return false;
        }
        let is_before_alarm = |due| self.alarm.is_none_or(|alarm| due < alarm);
        let needs_alarm = self.ledger.next_due().is_some_and(is_before_alarm);
        self.ledger.in_line() + usize::from(needs_alarm) > self.waking
    }

    /// Returns whether the queue is idle. If not, the caller is notified when it is.
    fn register_idle_waiter(&mut self) -> bool {
        let is_idle = self.ledger.is_idle();
        if !is_idle {
            self.has_idle_waiters = true;
        }
        is_idle
    }

    /// Counts all sleepers as being woken, if no worker will ever get a key again. Returns whether
    /// to wake them after unlocking. They are not woken one by one: the first might be a `get` that
    /// nobody polls any more.
    fn start_waking_all(&mut self) -> bool {
        let wakes_all = self.is_finished() && self.sleepers > self.waking;
        if wakes_all {
            self.waking = self.sleepers;
        }
        wakes_all
    }

    /// Counts a sleeper as being woken, if there is work for one. Returns whether to wake it after
    /// unlocking.
    fn start_waking(&mut self) -> bool {
        let has_work = self.has_work_for_sleeper();
        #[cfg(test)]
        let has_work =
            has_work && !(Mistake::LeavesLastAsleep.is_made() && self.sleepers == self.waking + 1);
        self.waking += usize::from(has_work);
        has_work
    }

    /// Returns whether to notify the callers of `wait_idle` after unlocking.
    fn should_notify_idle(&mut self) -> bool {
        let is_idle = self.has_idle_waiters && self.ledger.is_idle();
        if is_idle {
            self.has_idle_waiters = false;
        }
        is_idle
    }

    /// Counts a worker that looks for a key, or whose `get` is dropped, as one that was being
    /// woken.
    pub(crate) fn count_awake(&mut self) {
        #[cfg(test)]
        if Mistake::CountsWakingForEver.is_made() {
            return;
        }
        self.waking = self.waking.saturating_sub(1);
    }
}

impl<'a, K, C> Locked<'a, K, C> {
    /// Counts the caller as a sleeper. It must have found no key.
    pub(crate) fn register_sleeper(&mut self) -> Sleeper<'a, K, C> {
        let shared = self.shared;
        let due = self.ledger.next_due();
        let earliest = self.alarm;
        let own = due.filter(|&due| earliest.is_none_or(|alarm| due < alarm));
        self.sleepers += 1;
        self.alarm = own.or(earliest);
        Sleeper { shared, alarm: own, is_awake: false }
    }
}

impl<K, C> Deref for Locked<'_, K, C> {
    type Target = State<K, C>;

    fn deref(&self) -> &State<K, C> {
        self.state.as_ref().expect("the queue must be locked until the guard is dropped")
    }
}

impl<K, C> DerefMut for Locked<'_, K, C> {
    fn deref_mut(&mut self) -> &mut State<K, C> {
        self.state.as_mut().expect("the queue must be locked until the guard is dropped")
    }
}

impl<K, C> Drop for Locked<'_, K, C> {
    fn drop(&mut self) {
        let wakes_all = self.start_waking_all();
        let wakes_sleeper = self.start_waking();
        let wakes_idle = self.should_notify_idle();
        let events = self.ledger.take_events();
        self.state = None;
        yield_point();
        if wakes_all {
            self.shared.wake_all();
        }
        if wakes_sleeper {
            self.shared.work.notify_one();
        }
        if wakes_idle {
            self.shared.idle.notify_waiters();
        }
        for event in events {
            let now = || self.shared.clock.now();
            self.shared.notify_observer(|observer| match event {
                Event::Added { depth } => observer.added(depth),
                Event::Started { queued, depth } => observer.started(queued, depth),
                Event::Finished { started } => observer.finished(now().since(started)),
            });
        }
    }
}

impl<K, C> Sleeper<'_, K, C> {
    /// Sleeps until `wake_up` or the alarm. After that the worker must look for a key.
    pub(crate) async fn sleep(mut self, wake_up: Pin<&mut Notified<'_>>) {
        yield_point();
        match self.alarm {
            None => wake_up.await,
            Some(alarm) => tokio::select! {
                biased;
                () = wake_up => {}
                () = tokio::time::sleep_until(self.shared.clock.instant(alarm)) => {}
            },
        }
        self.is_awake = true;
    }
}

impl<K, C> Drop for Sleeper<'_, K, C> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.sleepers -= 1;
        if state.alarm == self.alarm {
            state.alarm = None;
        }
        drop(state);
        if !self.is_awake {
            // This worker takes no key, so unlocking must wake another one if there is work. A
            // worker that woke up takes a key next, and its unlocking wakes others.
            self.shared.lock().count_awake();
        }
    }
}

impl<K: Eq + Hash + Clone + Send, C: Send + Sync> HasLoad for Shared<K, C> {
    fn load(&self) -> Load {
        self.load()
    }
}

impl<K, C> Drop for Shared<K, C> {
    fn drop(&mut self) {
        let load = self.state.lock().ledger.load(self.clock.now());
        if load.ready + load.waiting > 0 {
            tracing::warn!(
                queue = &*self.name,
                ready = load.ready,
                waiting = load.waiting,
                "work queue dropped with work inside: these keys will not run; shut it down and \
                 drain it first"
            );
        }
    }
}
