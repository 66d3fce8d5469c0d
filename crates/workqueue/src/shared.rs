//! The queue behind its handles: the ledger and the intake under their locks, and the way in and out.
//!
//! Lock order: `core` before `intake`; that of `charges` alone. No lock is held across an await, and the bell is
//! rung after unlocking.
//!
//! An add has happened when it is in the intake: everyone who reads the ledger applies the intake first.
//! The one exception is a worker that takes the first key of a plain line, if what is in the intake can
//! neither come before it nor be the same key, and nobody sleeps who would have to be woken for it.
//!
//! No task and no timer of the queue's own: waiting keys are made ready by whoever looks next, and one
//! of the sleeping workers, the timekeeper, sleeps no longer than until the first of them is due.

use std::hash::{BuildHasher, Hash};
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::charges::Charges;
use crate::clock::{Clock, Stamp};
use crate::doorbell::Doorbell;
use crate::intake::{Arrival, Fill, Filter, Intake, Reason};
use crate::ledger::{Ledger, Next, Taken};
use crate::limiter::RateLimiter;
use crate::observer::{Load, Probed, SharedObserver};
use crate::priority::{Group, Priority};
use crate::running::RunId;
use crate::slots::KeyHash;
use crate::sync::{Arc, AtomicBool, BriefGuard, BriefLock, Ordering, interlude};

/// Says which group a key takes turns in.
pub(crate) type GroupOf<K> = Box<dyn Fn(&K) -> Group + Send + Sync>;

pub(crate) struct Shared<K, C> {
    pub(crate) name: Arc<str>,
    pub(crate) clock: Clock,
    pub(crate) group_of: Option<GroupOf<K>>,
    pub(crate) observer: Option<SharedObserver>,
    core: BriefLock<Core<K, C>>,
    intake: BriefLock<Intake<K, C>>,
    filter: Filter,
    pub(crate) charges: Charges<K>,
    doorbell: Doorbell,
    /// Tells the timekeeper that something is due earlier than it thought.
    rearm: Notify,
    /// Tells those who wait for the queue to be idle or drained to look again.
    quiet: Notify,
    hasher: foldhash::fast::RandomState,
    /// Whether a key was ever added that is not of `Normal` priority: then its age counts, and that of others.
    ages_count: AtomicBool,
    /// Whether keys wait for their time.
    has_waiting: AtomicBool,
    keeps_times: bool,
    /// [`Shared::apply_intake`], for what is dropped, and so has no bounds on its types.
    apply_intake: fn(&Self, &mut Core<K, C>),
}

pub(crate) struct Core<K, C> {
    pub(crate) ledger: Ledger<K, C>,
    /// An empty buffer to exchange for the intake's.
    buffer: Vec<Arrival<K, C>>,
    /// Until when the timekeeper sleeps, while there is one.
    timekeeper: Option<Stamp>,
    /// Keys taken, for the doorbell.
    takes: u32,
    pub(crate) shut_down: bool,
}

/// What a worker that wants a key finds.
pub(crate) enum Look<K, C> {
    Taken(Taken<K, C>),
    /// Shut down, and no run is ahead.
    ShutDown,
    /// Nothing to do: the worker counts as a sleeper. If a time is given, it is the timekeeper.
    Sleep(Option<Stamp>),
}

/// Why an add was refused; the key goes back to the caller.
pub(crate) struct Closed<K>(pub(crate) K);

impl<K, C> Shared<K, C> {
    pub(crate) fn new(
        name: Arc<str>,
        ledger: Ledger<K, C>,
        group_of: Option<GroupOf<K>>,
        limiter: Box<dyn RateLimiter<K>>,
    ) -> Self
    where
        K: Eq + Hash + Clone,
    {
        let charges = Charges::new(Arc::clone(&name), limiter);
        let observer = ledger.observer().cloned();
        let keeps_times = ledger.keeps_times();
        let core =
            Core { ledger, buffer: Vec::new(), timekeeper: None, takes: 0, shut_down: false };
        Self {
            name,
            clock: Clock::new(),
            group_of,
            observer,
            core: BriefLock::new(core),
            intake: BriefLock::new(Intake::new()),
            filter: Filter::new(),
            charges,
            doorbell: Doorbell::new(),
            rearm: Notify::new(),
            quiet: Notify::new(),
            hasher: foldhash::fast::RandomState::default(),
            ages_count: AtomicBool::new(false),
            has_waiting: AtomicBool::new(false),
            keeps_times,
            apply_intake: Self::apply_intake,
        }
    }

    /// The lease of a run was dropped.
    #[inline]
    pub(crate) fn done(&self, id: RunId) {
        // Only an observer asks how long the run took.
        let now = if self.observer.is_some() { self.clock.now() } else { Stamp::default() };
        let mut core = self.core.lock();
        if core.ledger.is_passed_over(id) {
            // An add that raises its priority decides where it goes now.
            (self.apply_intake)(self, &mut core);
        }
        let causes = core.ledger.done(id, now);
        self.leave(core);
        // Last of all: it is the user's code, and may panic, or call the queue.
        drop(causes);
    }

    /// The time, if anybody asks for that of an add or a take: it is dear.
    ///
    /// Unknown, it is that of the queue's making. So while no key waits, all adds come in the order in which they are in
    /// the intake; who makes one wait applies the intake first; and who adds or takes after that asks for the time.
    #[inline]
    fn now(&self) -> Stamp {
        let is_asked = self.keeps_times
            || self.has_waiting.load(Ordering::Relaxed)
            || self.ages_count.load(Ordering::Relaxed);
        if is_asked { self.clock.now() } else { Stamp::default() }
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.core.lock().shut_down
    }

    /// Listens for the bell. A worker does so before it [looks or lies down](Self::look_or_lie_down).
    pub(crate) fn listen(&self) -> Notified<'_> {
        self.doorbell.listen()
    }

    /// Sleeps as [`Look::Sleep`] said, listening with `ring`; then the worker looks again. Dropped half-way, it hands
    /// its duties to another sleeper, and the caller drops `ring` afterwards, which passes a ring on.
    pub(crate) async fn sleep(&self, ring: Pin<&mut Notified<'_>>, until: Option<Stamp>) {
        let mut sleeper = Sleeper { shared: self, timekeeper: until.is_some(), woken: false };
        if let Some(until) = until {
            tokio::select! {
                biased;
                () = ring => {}
                () = self.rearm.notified() => {}
                () = tokio::time::sleep_until(self.clock.instant(until)) => {}
            }
        } else {
            ring.await;
        }
        sleeper.woken = true;
    }

    /// Unlocks, tells everyone who has something to do now, and drops what is left over, which is
    /// the user's code, and may panic, or call the queue.
    #[inline]
    fn leave(&self, mut core: BriefGuard<'_, Core<K, C>>) {
        let left_over = core.ledger.take_left_over();
        self.unlock_and_ring(core);
        drop(left_over);
    }

    /// Unlocks, and tells everyone who has something to do now.
    #[inline]
    fn unlock_and_ring(&self, core: BriefGuard<'_, Core<K, C>>) {
        let ring = self.doorbell.has_sleepers()
            && core.wants_worker()
            && self.doorbell.claim_chained_ring();
        let next_due = core.ledger.next_due();
        let rearm = match (core.timekeeper, next_due) {
            (Some(until), Some(due)) => due < until,
            _ => false,
        };
        if next_due.is_some() != self.has_waiting.load(Ordering::Relaxed) {
            self.has_waiting.store(next_due.is_some(), Ordering::Relaxed);
        }
        let quiet = core.ledger.is_idle();
        drop(core);
        if ring {
            self.doorbell.ring();
        }
        if rearm {
            interlude();
            self.rearm.notify_one();
        }
        if quiet {
            self.quiet.notify_waiters();
        }
    }
}

impl<K: Eq + Hash + Clone, C> Shared<K, C> {
    pub(crate) fn hash(&self, key: &K) -> KeyHash {
        KeyHash::new(self.hasher.hash_one(key))
    }

    /// Brings a key that shall run as soon as a worker is free.
    #[inline]
    pub(crate) fn add(&self, key: K, reason: Reason<C>) -> Result<(), Closed<K>> {
        self.note_priority(&reason);
        let (hash, at) = (self.hash(&key), self.now());
        let mut intake = self.intake.lock();
        let arrival = Arrival { key, hash, at, reason };
        let fill = intake.push(arrival, &self.filter).map_err(Closed)?;
        let ring = self.doorbell.claim_ring(at, &self.clock);
        drop(intake);
        if ring {
            self.doorbell.ring();
        }
        let core = match fill {
            Fill::Low => return Ok(()),
            Fill::Batch => self.core.try_lock(),
            Fill::Full => Some(self.core.lock()),
        };
        if let Some(mut core) = core {
            self.apply_intake(&mut core);
            unlock(core);
        }
        Ok(())
    }

    /// Brings a key that shall run after `delay`.
    pub(crate) fn add_after(
        &self,
        key: K,
        reason: Reason<C>,
        delay: Duration,
    ) -> Result<(), Closed<K>> {
        self.note_priority(&reason);
        let arrival = Arrival { hash: self.hash(&key), key, at: self.clock.now(), reason };
        let mut core = self.core.lock();
        if core.shut_down {
            return Err(Closed(arrival.key));
        }
        if !self.filter.is_empty() {
            self.apply_intake(&mut core);
        }
        core.ledger.promote_due(arrival.at);
        let due = arrival.at.after(delay);
        core.ledger.add(arrival, Some(due));
        self.leave(core);
        Ok(())
    }

    #[inline]
    fn note_priority(&self, reason: &Reason<C>) {
        if reason.priority != Priority::Normal && !self.ages_count.load(Ordering::Relaxed) {
            self.ages_count.store(true, Ordering::Relaxed);
        }
    }

    /// A run shall be repeated, with its causes or without; false if the queue is shut down. The lease
    /// must have let go of the causes, and is dropped afterwards.
    pub(crate) fn repeat(&self, id: RunId, delay: Duration, with_causes: bool) -> bool {
        let now = self.clock.now();
        let mut core = self.core.lock();
        if core.shut_down {
            return false;
        }
        self.apply_intake(&mut core);
        core.ledger.promote_due(now);
        let due = (!delay.is_zero()).then(|| now.after(delay));
        core.ledger.repeat(id, now, due, with_causes);
        self.leave(core);
        true
    }

    /// Waits until `is_so` holds, which must be of the kind that only the end of a run, a cancelled wait
    /// or a shut-down brings about.
    pub(crate) async fn wait_until(&self, is_so: impl Fn(&Core<K, C>) -> bool) {
        loop {
            let quiet = self.quiet.notified();
            if is_so(&self.settled()) {
                return;
            }
            quiet.await;
        }
    }

    /// Takes a key for a worker, or counts the worker among the sleepers.
    pub(crate) fn look_or_lie_down(&self) -> Look<K, C> {
        let now = self.clock.now();
        let mut core = self.core.lock();
        loop {
            if let Some(next) = self.next(&mut core, now) {
                return Look::Taken(self.start(next, core, now));
            }
            if core.is_finished() {
                self.unlock_and_ring(core);
                return Look::ShutDown;
            }
            // Nothing is in line, so `next` has applied the intake. What came since is found here: a
            // producer that comes later sees the sleeper.
            let intake = self.intake.lock();
            if intake.is_empty() {
                self.doorbell.lie_down();
                return Look::Sleep(core.appoint_timekeeper());
            }
        }
    }

    /// Takes a key if one is ready.
    #[inline]
    pub(crate) fn try_take(&self) -> Option<Taken<K, C>> {
        let now = self.now();
        let mut core = self.core.lock();
        let Some(next) = self.next(&mut core, now) else {
            unlock(core);
            return None;
        };
        Some(self.start(next, core, now))
    }

    /// Locks the ledger with everything applied that has happened up to now.
    pub(crate) fn settled(&self) -> BriefGuard<'_, Core<K, C>> {
        let mut core = self.core.lock();
        self.apply_intake(&mut core);
        let left_over = core.ledger.take_left_over();
        if !left_over.keys.is_empty() || !left_over.causes.is_empty() {
            drop(core);
            drop(left_over);
            core = self.core.lock();
            self.apply_intake(&mut core);
        }
        let now = self.clock.now();
        while core.ledger.promote_due(now) {}
        core
    }

    /// Closes the way in; returns what was waiting.
    pub(crate) fn shut_down(&self) -> Vec<(K, Stamp)> {
        let mut core = self.settled();
        core.shut_down = true;
        self.intake.lock().close();
        // What came between settling and closing.
        self.apply_intake(&mut core);
        let (waiting, causes) = core.ledger.take_waiting();
        self.leave(core);
        drop(causes);
        waiting
    }

    /// Takes a waiting key out.
    pub(crate) fn cancel(&self, key: &K) -> bool {
        let hash = self.hash(key);
        let mut core = self.settled();
        let causes = core.ledger.cancel(key, hash);
        self.leave(core);
        causes.is_some()
    }

    #[inline]
    fn start(&self, next: Next, mut core: BriefGuard<'_, Core<K, C>>, now: Stamp) -> Taken<K, C> {
        core.takes = core.takes.wrapping_add(1);
        self.doorbell.note_taken(core.takes, now, &self.clock);
        let taken = core.ledger.start(next, now);
        // What is left over stays for whoever comes next: a panic now would lose the run.
        self.unlock_and_ring(core);
        taken
    }

    /// The key that is next, if one is ready.
    #[inline]
    fn next(&self, core: &mut Core<K, C>, now: Stamp) -> Option<Next> {
        let is_due = core.ledger.next_due().is_some_and(|due| due <= now);
        let is_in_order = !is_due || core.ledger.due_can_wait();
        if is_in_order && !self.doorbell.has_sleepers() && self.filter.is_plain() {
            let next = core.ledger.next_settled(|hash| self.filter.may_hold(hash));
            if next.is_some() {
                return next;
            }
        }
        if !self.filter.is_empty() {
            self.apply_intake(core);
        }
        loop {
            let more_due = is_due && core.ledger.promote_due(now);
            let next = core.ledger.next(now);
            if next.is_some() || !more_due {
                return next;
            }
        }
    }

    fn apply_intake(&self, core: &mut Core<K, C>) {
        let Core { ledger, buffer, .. } = core;
        self.intake.lock().swap(buffer, &self.filter);
        ledger.announce(buffer.iter().map(|arrival| arrival.hash));
        for arrival in buffer.drain(..) {
            // What was due before goes before.
            ledger.promote_due(arrival.at);
            ledger.add(arrival, None);
        }
    }
}

/// Unlocks where nobody has to be told, and drops what is left over.
#[inline]
fn unlock<K, C>(mut core: BriefGuard<'_, Core<K, C>>) {
    let left_over = core.ledger.take_left_over();
    drop(core);
    drop(left_over);
}

impl<K, C> Core<K, C> {
    /// Whether a sleeping worker has something to do.
    fn wants_worker(&self) -> bool {
        self.ledger.has_ready()
            || (self.timekeeper.is_none() && self.ledger.next_due().is_some())
            || self.is_finished()
    }

    /// Whether no worker will ever get a key again.
    fn is_finished(&self) -> bool {
        self.shut_down && self.ledger.ready() == 0
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.is_finished() && self.ledger.running() == 0
    }

    /// Makes the caller the timekeeper, if one is needed; returns until when it may sleep.
    fn appoint_timekeeper(&mut self) -> Option<Stamp> {
        if self.timekeeper.is_some() {
            return None;
        }
        self.timekeeper = self.ledger.next_due();
        self.timekeeper
    }
}

/// A worker that sleeps. Dropped when it wakes, or when it is cancelled.
struct Sleeper<'a, K, C> {
    shared: &'a Shared<K, C>,
    timekeeper: bool,
    woken: bool,
}

impl<K, C> Drop for Sleeper<'_, K, C> {
    fn drop(&mut self) {
        if self.woken {
            self.shared.doorbell.wake_up();
        } else {
            self.shared.doorbell.give_up();
        }
        if self.timekeeper {
            let mut core = self.shared.core.lock();
            core.timekeeper = None;
            if !self.woken {
                self.shared.unlock_and_ring(core);
            }
        }
        interlude();
    }
}

impl<K, C> Probed for Shared<K, C>
where
    K: Eq + Hash + Clone + Send + 'static,
    C: Send + Sync + 'static,
{
    fn load(&self) -> Load {
        let load = self.settled().ledger.load(self.clock.now());
        Load { retry_debt: self.charges.debt(), ..load }
    }
}

impl<K, C> Drop for Shared<K, C> {
    fn drop(&mut self) {
        let mut core = self.core.lock();
        (self.apply_intake)(self, &mut core);
        let (ready, waiting) = (core.ledger.ready(), core.ledger.waiting());
        if ready + waiting > 0 {
            tracing::warn!(
                queue = &*self.name,
                ready,
                waiting,
                "work queue dropped with work inside: these keys will not run; shut it down and drain it first"
            );
        }
    }
}
