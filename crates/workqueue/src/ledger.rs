//! The queue's state machine: the state of every key, and its transitions.
//!
//! ```text
//!   state of a key     add                add_after, retry   due                take     done
//!   ─────────────────  ─────────────────  ─────────────────  ─────────────────  ───────  ───────
//!   unknown            ready              waiting
//!   waiting            ready              waiting            ready
//!   ready              ready              ready                                 running
//!   running            running + ready    running + waiting                              unknown
//!   running + ready    running + ready    running + ready                                ready
//!   running + waiting  running + ready    running + waiting  running + ready             waiting
//! ```
//!
//! A key that is "running + ready" is in line, or was passed over: its turn came while it was still
//! running. `cancel`, for one key, and `shut_down`, for all keys, end the wait: "waiting" becomes
//! "unknown", and "running + waiting" becomes "running".
//!
//! It is pure and synchronous: no lock, no clock and no task. It calls user code only to compare
//! and clone keys. Time comes in as an argument; events for the observer and values to drop are
//! returned as [`Effects`]. Invariants:
//!
//! - A key has at most one run under way and at most one next run. The next run is due at the
//!   earliest requested time.
//! - A key takes its place in line when it is added, even while it runs. If its turn comes while it
//!   still runs, it is passed over. When that run is done, it is first in its priority or, with
//!   groups, first in its group.
//! - A run that becomes ready supersedes the waiting entry of its key, and the causes of timers
//!   that have not fired.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use slab::Slab;
use tokio::time::Instant;

use crate::causes::Causes;
use crate::effects::{Effects, Event};
use crate::line::{Line, Turn};
use crate::observer::Load;
use crate::priority::{Group, Priority};
use crate::slots::{NO_TICKET, NextRunState, Place, Ready, Slot, SlotId, Slots, Ticket};

/// How many keys one add, or one step of [`Ledger::take`], may age, and how many it may make ready
/// because they are due. The next call continues. [`Ledger::take`] takes further steps only while
/// all keys in line are running. Methods that inspect the queue, cancel or shut down make all due
/// keys ready under one lock.
const BATCH: usize = 256;

pub(crate) struct Ledger<K, C> {
    slots: Slots<K, C>,
    line: Line,
    /// The keys that wait for their time, the earliest first.
    waiting: BTreeSet<(Instant, Place)>,
    runs: Slab<ActiveRun<C>>,
    /// Keys with a ready run, in line or passed over, by level: the requested priority, or a higher
    /// one after aging.
    ready: [usize; Priority::ALL.len()],
    last_ticket: Ticket,
    /// How long a key stays at one level before it moves up.
    aging: Duration,
    /// Whether there is an observer that wants events.
    is_observed: bool,
    effects: Effects<K, C>,
}

/// The number of a run. Numbers are reused.
pub(crate) type RunNumber = usize;

/// A run that is under way.
#[derive(Debug)]
pub(crate) struct ActiveRun<C> {
    pub(crate) slot: SlotId,
    pub(crate) started: Instant,
    /// Shared with the lease.
    pub(crate) causes: Option<Arc<Causes<C>>>,
}

/// The arguments of one add.
pub(crate) struct AddRequest<K, C> {
    pub(crate) key: K,
    pub(crate) hash: u64,
    pub(crate) group: Option<Group>,
    pub(crate) priority: Priority,
    /// When the key is due. `None` means as soon as a worker is free.
    pub(crate) due: Option<Instant>,
    pub(crate) cause: Option<C>,
    /// Whether the cause is a timer: it is dropped if the key runs before `due`.
    pub(crate) is_timer: bool,
}

/// A run that was handed out.
pub(crate) struct Taken<K, C> {
    pub(crate) number: RunNumber,
    pub(crate) key: K,
    pub(crate) causes: Option<Arc<Causes<C>>>,
    /// How long the run was ready.
    pub(crate) queued: Duration,
    pub(crate) priority: Priority,
}

impl<K, C> Ledger<K, C> {
    pub(crate) fn new(aging: Duration, is_fair: bool, is_observed: bool) -> Self {
        Self {
            slots: Slots::new(),
            line: Line::new(is_fair),
            waiting: BTreeSet::new(),
            runs: Slab::new(),
            ready: [0; Priority::ALL.len()],
            last_ticket: NO_TICKET,
            aging,
            is_observed,
            effects: Effects::default(),
        }
    }

    /// Ends a run.
    pub(crate) fn done(&mut self, number: RunNumber) {
        let ActiveRun { slot: id, started, causes } = self.runs.remove(number);
        // Usually the lease still holds the causes, and drops them.
        if let Some(causes) = causes.and_then(Arc::into_inner) {
            self.effects.causes.extend(causes.into_kept());
        }
        let slot = &mut self.slots[id];
        slot.is_running = false;
        match slot.next_run {
            NextRunState::None => self.effects.key = Some(self.slots.remove(id).key),
            NextRunState::PassedOver(ready) => self.enter_front(id, ready),
            NextRunState::InLine(_) | NextRunState::Waiting { .. } => {}
        }
        self.note(Event::Finished { started });
    }

    /// Adds the key of a run again. With `keep_causes`, the next run gets the causes of this run;
    /// the lease must have dropped its `Arc` of them.
    pub(crate) fn repeat(
        &mut self,
        number: RunNumber,
        priority: Priority,
        now: Instant,
        due: Option<Instant>,
        keep_causes: bool,
    ) {
        self.promote_due(now);
        let id = self.runs[number].slot;
        let causes = self.runs[number].causes.take_if(|_| keep_causes);
        if let Some(mut causes) = causes.and_then(Arc::into_inner) {
            let why = self.slots[id].why_mut();
            let left_out = causes.append(std::mem::take(&mut why.causes));
            why.causes = causes;
            self.effects.causes.extend(left_out);
        }
        self.schedule(id, priority, now, due);
    }

    /// Makes waiting keys that are due ready, up to [`BATCH`]. Returns whether more may be due.
    pub(crate) fn promote_due(&mut self, now: Instant) -> bool {
        for _ in 0..BATCH {
            let Some(&(due, Place { id, .. })) = self.waiting.first() else { return false };
            if due > now {
                return false;
            }
            self.waiting.pop_first();
            self.fire_timers(id);
            self.enter_line(id, due);
        }
        true
    }

    /// When the next waiting key is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.waiting.first().map(|&(due, _)| due)
    }

    /// Whether there may be a key to take. All keys in line may be running.
    pub(crate) fn has_keys_in_line(&self) -> bool {
        !self.line.is_empty()
    }

    /// Whether no key is ready, waiting or running.
    pub(crate) fn is_idle(&self) -> bool {
        self.slots.is_empty()
    }

    /// How many keys have a ready run.
    pub(crate) fn ready(&self) -> usize {
        self.ready.iter().sum()
    }

    /// The load, except for `retry_debt`, which the limiter has.
    pub(crate) fn load(&self, now: Instant) -> Load {
        let ages = || self.runs().map(|run| now.saturating_duration_since(run.started));
        Load {
            keys: self.slots.len(),
            ready: self.ready(),
            ready_by_priority: self.ready,
            waiting: self.waiting.len(),
            running: self.runs.len(),
            unfinished: ages().sum(),
            longest_running: ages().max().unwrap_or_default(),
            retry_debt: Duration::ZERO,
        }
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = (SlotId, &Slot<K, C>)> {
        self.slots.iter()
    }

    pub(crate) fn runs(&self) -> impl Iterator<Item = &ActiveRun<C>> {
        self.runs.iter().map(|(_, run)| run)
    }

    /// Takes the work that is left for after the queue is unlocked.
    pub(crate) fn take_effects(&mut self) -> Effects<K, C> {
        std::mem::take(&mut self.effects)
    }

    /// Schedules a key for `due`, or for now, unless it is already scheduled earlier.
    fn schedule(&mut self, id: SlotId, priority: Priority, now: Instant, due: Option<Instant>) {
        let slot = &mut self.slots[id];
        match slot.next_run {
            NextRunState::None => {
                slot.priority = priority;
                slot.level = priority;
            }
            NextRunState::InLine(_) | NextRunState::PassedOver(_) => {
                slot.priority = slot.priority.max(priority);
                if priority > slot.level {
                    self.raise(id, priority, now);
                }
                return;
            }
            NextRunState::Waiting { due: earlier, .. } => {
                slot.priority = slot.priority.max(priority);
                slot.level = slot.priority;
                if due.is_some_and(|due| due >= earlier) {
                    return;
                }
                self.waiting.remove(&(earlier, slot.place(id)));
                if earlier <= now {
                    // The key is due, but its batch was not promoted yet.
                    self.fire_timers(id);
                } else {
                    self.drop_timers(id);
                }
            }
        }
        match due {
            None => self.enter_line(id, now),
            Some(due) => self.wait(id, now, due),
        }
    }

    /// Makes a key wait until `due`.
    fn wait(&mut self, id: SlotId, now: Instant, due: Instant) {
        let place = self.new_place(id);
        let slot = &mut self.slots[id];
        let since =
            if let NextRunState::Waiting { since, .. } = slot.next_run { since } else { now };
        slot.next_run = NextRunState::Waiting { since, due };
        self.waiting.insert((due, place));
    }

    /// Puts a key that has been ready since `since` at the end of its level.
    fn enter_line(&mut self, id: SlotId, since: Instant) {
        let place = self.new_place(id);
        let slot = &mut self.slots[id];
        slot.next_run = NextRunState::InLine(Ready { since, level_since: since });
        let level = slot.level;
        let group = slot.group;
        self.ready[level as usize] += 1;
        self.line.push_back(level, group, place, &self.slots);
        self.note(Event::Added { depth: self.ready() });
    }

    /// Puts a key that was passed over first in its level or, with groups, in its group.
    fn enter_front(&mut self, id: SlotId, ready: Ready) {
        let place = self.new_place(id);
        let slot = &mut self.slots[id];
        slot.next_run = NextRunState::InLine(ready);
        self.line.push_front(slot.level, slot.group, place);
    }

    /// Moves a ready key to the end of a higher level.
    fn raise(&mut self, id: SlotId, level: Priority, now: Instant) {
        let slot = &mut self.slots[id];
        let before = std::mem::replace(&mut slot.level, level);
        self.ready[before as usize] -= 1;
        self.ready[level as usize] += 1;
        match &mut slot.next_run {
            NextRunState::InLine(ready) => ready.level_since = now,
            NextRunState::PassedOver(ready) => {
                ready.level_since = now;
                return;
            }
            NextRunState::None | NextRunState::Waiting { .. } => {
                unreachable!("the key must be ready")
            }
        }
        let group = slot.group;
        let place = self.new_place(id);
        self.line.note_stale(before, group);
        self.line.push_back(level, group, place, &self.slots);
    }

    /// Raises keys that have been at one level for longer than `aging`.
    fn age(&mut self, now: Instant) {
        for _ in 0..BATCH {
            let Some((id, upper)) = self.next_to_age(now) else { return };
            self.raise(id, upper, now);
        }
    }

    /// A key that has been at one level for longer than `aging`, and the level above. `None` if all
    /// keys in line are at one level, because then no key starves.
    fn next_to_age(&mut self, now: Instant) -> Option<(SlotId, Priority)> {
        if !self.line.is_mixed() {
            return None;
        }
        // From the top, so that a key moves by one level at a time.
        let levels = [(Priority::Normal, Priority::High), (Priority::Low, Priority::Normal)];
        levels.into_iter().find_map(|(level, above)| {
            Some((self.line.aged(level, self.aging, now, &self.slots)?, above))
        })
    }

    /// Passes over keys that run. Returns the level of the first key that does not run, the key,
    /// and since when it is ready.
    fn pass_over_running(&mut self) -> Option<(Priority, SlotId, Ready)> {
        loop {
            let (level, id) = self.line.first(&self.slots)?;
            let slot = &mut self.slots[id];
            let NextRunState::InLine(ready) = slot.next_run else {
                unreachable!("the first key in line must be in line");
            };
            if !slot.is_running {
                return Some((level, id, ready));
            }
            slot.next_run = NextRunState::PassedOver(ready);
            slot.ticket = NO_TICKET;
            self.line.pop_first(level, Turn::Stays);
        }
    }

    /// A waiting key is due: adds the causes of its timers to its causes.
    fn fire_timers(&mut self, id: SlotId) {
        if let Some(why) = &mut self.slots[id].why {
            let timers = std::mem::take(&mut why.timers);
            self.effects.causes.extend(why.causes.append(timers));
        }
    }

    /// A waiting key runs early: drops the causes of its timers, which have not fired.
    fn drop_timers(&mut self, id: SlotId) {
        if let Some(why) = &mut self.slots[id].why {
            self.effects.causes.extend(std::mem::take(&mut why.timers).into_kept());
        }
    }

    /// Cancels the next run of a waiting key.
    fn cancel_next_run(&mut self, id: SlotId) {
        let slot = &mut self.slots[id];
        slot.next_run = NextRunState::None;
        slot.ticket = NO_TICKET;
        if let Some(why) = slot.why.take() {
            self.effects.causes.extend(why.causes.into_kept());
            self.effects.causes.extend(why.timers.into_kept());
        }
    }

    fn new_place(&mut self, id: SlotId) -> Place {
        self.last_ticket += 1;
        self.slots[id].ticket = self.last_ticket;
        Place { ticket: self.last_ticket, id }
    }

    fn note(&mut self, event: Event) {
        if self.is_observed {
            self.effects.events.push(event);
        }
    }
}

impl<K: Eq + Clone, C> Ledger<K, C> {
    /// Adds a key.
    pub(crate) fn add(&mut self, request: AddRequest<K, C>, now: Instant) {
        // Keys that are due enter the line before this one.
        self.promote_due(now);
        let AddRequest { key, hash, group, priority, due, cause, is_timer } = request;
        let (id, merged) = self.slots.find_or_insert(key, hash);
        self.effects.key = merged;
        let slot = &mut self.slots[id];
        // A key in line stays in its group, even if the group function now returns another one.
        if !matches!(slot.next_run, NextRunState::InLine(_)) {
            slot.group = group;
        }
        self.schedule(id, priority, now, due);
        let Some(cause) = cause else { return };
        let slot = &mut self.slots[id];
        let left_out = if due.is_none() || !is_timer {
            slot.why_mut().causes.push(cause)
        } else if matches!(slot.next_run, NextRunState::Waiting { .. }) {
            slot.why_mut().timers.push(cause)
        } else {
            // The key is ready, and runs before the timer fires.
            Some(cause)
        };
        self.effects.causes.extend(left_out);
    }

    /// Hands out the first key that does not run.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Taken<K, C>> {
        let (level, id, ready) = loop {
            let is_more_due = self.promote_due(now);
            self.age(now);
            match self.pass_over_running() {
                Some(first) => break first,
                None if is_more_due => {}
                None => return None,
            }
        };
        // First, because the clone may panic, and nothing has changed yet.
        let key = self.slots[id].key.clone();
        self.line.pop_first(level, Turn::Ends);
        self.ready[level as usize] -= 1;
        let slot = &mut self.slots[id];
        slot.next_run = NextRunState::None;
        slot.ticket = NO_TICKET;
        slot.is_running = true;
        let priority = slot.priority;
        let queued = now.saturating_duration_since(ready.since);
        let causes = slot.why.take().map(|why| Arc::new(why.causes));
        let run = ActiveRun { slot: id, started: now, causes: causes.clone() };
        let number = self.runs.insert(run);
        self.note(Event::Started { queued, depth: self.ready() });
        Some(Taken { number, key, causes, queued, priority })
    }

    /// Cancels the next run of a waiting key. Returns whether the key was waiting.
    pub(crate) fn cancel(&mut self, key: &K, hash: u64) -> bool {
        let Some((id, slot)) = self.find(key, hash) else { return false };
        let NextRunState::Waiting { due, .. } = slot.next_run else { return false };
        let entry = (due, slot.place(id));
        self.waiting.remove(&entry);
        self.cancel_next_run(id);
        if !self.slots[id].is_running {
            self.effects.key = Some(self.slots.remove(id).key);
        }
        true
    }

    /// Cancels the next run of all waiting keys. Returns these keys, the earliest first, with
    /// their due times.
    pub(crate) fn take_waiting(&mut self) -> Vec<(K, Instant)> {
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let take = |(due, Place { id, .. })| {
            self.cancel_next_run(id);
            let slot = &self.slots[id];
            let key = if slot.is_running { slot.key.clone() } else { self.slots.remove(id).key };
            (key, due)
        };
        waiting.map(take).collect()
    }

    pub(crate) fn find(&self, key: &K, hash: u64) -> Option<(SlotId, &Slot<K, C>)> {
        let id = self.slots.find(key, hash)?;
        Some((id, &self.slots[id]))
    }
}
