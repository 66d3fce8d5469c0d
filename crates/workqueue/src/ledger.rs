//! The queue's state machine: the state of every key, and its transitions.
//!
//! ```text
//!              add_after                    due                      turn, not running
//!   ─────────▶ waiting ───────────────────────▶ in line ───────────────────────────▶ running
//!   ─────────────────────────────────────────▶ d ⇄ e ⇄ f                               │
//!              add                                ▲ │                                  │ done
//!                                          done,  │ │ turn, but still running          ▼
//!                                          first  │ ▼                                unknown
//!                                                parked
//! ```
//!
//! A key that runs may have a next run as well, so its state has two parts:
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
//! For example, `e` is added while it runs. It takes its place in line at once. If its turn comes
//! before its run is done, it is parked, and goes to the front when the run is done:
//!
//! ```text
//!                  in line      parked   running        with groups: `e` leaves and enters the
//!   add(e)         d ⇄ e ⇄ f             e              list of its group in the same way, and its
//!   take → d       e ⇄ f                 e, d           group keeps its turn
//!   take → f                    e        e, d, f
//!   add(g)         g            e        e, d, f
//!   done(e)        e ⇄ g                 d, f
//! ```
//!
//! `cancel`, for one key, and `shut_down`, for all keys, end the wait: "waiting" becomes "unknown",
//! and "running + waiting" becomes "running".
//!
//! The ledger is pure and synchronous: no lock, no clock and no task. It calls user code only to
//! compare and clone keys. Time comes in as an argument. Values to drop go to [`Leftovers`], and
//! events for the observer are kept until they are taken. Invariants:
//!
//! - A key has at most one run under way and at most one next run. The next run is due at the
//!   earliest requested time.
//! - A key that waits is in `waiting`, a ready one is in `line` or parked. Only a key that runs is
//!   parked.
//! - A run that becomes ready supersedes the waiting entry of its key, and the causes of timers
//!   that have not fired.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use slab::Slab;

use crate::causes::{Causes, RunCauses};
use crate::effects::{Event, Leftovers};
use crate::line::Line;
use crate::list::End;
use crate::observer::Load;
use crate::priority::{Group, Priority};
use crate::slots::{NextRunState, Number, RunId, Slot, SlotId, Slots};
use crate::time::Time;

/// How many keys one add, or one step of [`Ledger::take`], may age, and how many it may make ready
/// because they are due. The next call continues. [`Ledger::take`] takes further steps only while
/// all keys in line are running. Methods that inspect the queue, cancel or shut down make all due
/// keys ready under one lock.
const BATCH: usize = 256;

pub(crate) struct Ledger<K, C> {
    slots: Slots<K, C>,
    line: Line,
    /// The keys that wait for their time, the earliest first, each with its arrival.
    waiting: BTreeSet<(Time, u64, SlotId)>,
    last_arrival: u64,
    runs: Slab<ActiveRun<C>>,
    /// Keys with a ready run, in line or parked, by level.
    ready: [usize; Priority::ALL.len()],
    /// How long a key stays at one level before it moves up.
    aging: Duration,
    /// Whether there is an observer that wants events.
    is_observed: bool,
    events: Vec<Event>,
}

/// A run that is under way.
#[derive(Debug)]
pub(crate) struct ActiveRun<C> {
    slot: SlotId,
    pub(crate) started: Time,
    pub(crate) causes: RunCauses<C>,
}

/// The arguments of one add.
pub(crate) struct AddRequest<K, C> {
    pub(crate) key: K,
    pub(crate) hash: u32,
    pub(crate) group: Option<Group>,
    pub(crate) priority: Priority,
    /// When the key is due. `None` means as soon as a worker is free.
    pub(crate) due: Option<Time>,
    pub(crate) cause: Option<C>,
    /// Whether the cause is a timer: it is dropped if the key runs before `due`.
    pub(crate) is_timer: bool,
}

/// A run that was handed out.
pub(crate) struct Taken<K> {
    pub(crate) run: RunId,
    pub(crate) key: K,
    pub(crate) has_causes: bool,
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
            last_arrival: 0,
            runs: Slab::new(),
            ready: [0; Priority::ALL.len()],
            aging,
            is_observed,
            events: Vec::new(),
        }
    }

    /// Ends a run.
    pub(crate) fn done(&mut self, run: RunId, left: &mut Leftovers<K, C>) {
        let ActiveRun { slot: id, started, mut causes } = self.runs.remove(run.index());
        left.push_causes(causes.take());
        let slot = &mut self.slots[id];
        slot.run = None;
        match &mut slot.next_run {
            NextRunState::None => left.key = Some(self.slots.remove(id)),
            NextRunState::Ready { is_parked, level, .. } if *is_parked => {
                *is_parked = false;
                self.line.push(End::Front, *level, slot.group, id);
            }
            NextRunState::Ready { .. } | NextRunState::Waiting { .. } => {}
        }
        self.note(Event::Finished { started });
    }

    /// Adds the key of a run again. With `keep_causes`, the next run gets the causes of this run;
    /// the lease must no longer share them.
    pub(crate) fn repeat(
        &mut self,
        run: RunId,
        priority: Priority,
        now: Time,
        due: Option<Time>,
        keep_causes: bool,
        left: &mut Leftovers<K, C>,
    ) {
        self.promote_due(now, left);
        let run = &mut self.runs[run.index()];
        let id = run.slot;
        if keep_causes {
            let causes = &mut self.slots[id].causes;
            let later = std::mem::replace(causes, run.causes.take());
            left.extend(causes.append(later));
        }
        self.schedule(id, priority, now, due, left);
    }

    /// Shares the causes of a run with its lease.
    pub(crate) fn share_causes(&mut self, run: RunId) -> Arc<Causes<C>> {
        self.runs[run.index()].causes.share()
    }

    /// Makes waiting keys that are due ready, up to [`BATCH`]. Returns whether more may be due.
    pub(crate) fn promote_due(&mut self, now: Time, left: &mut Leftovers<K, C>) -> bool {
        for _ in 0..BATCH {
            let Some(&(due, _, id)) = self.waiting.first() else { return false };
            if due > now {
                return false;
            }
            self.waiting.pop_first();
            let NextRunState::Waiting { priority, .. } = self.slots[id].next_run else {
                unreachable!("a key that is due must wait")
            };
            self.fire_timers(id, left);
            self.enter_line(id, priority, due);
        }
        true
    }

    /// When the next waiting key is due.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.waiting.first().map(|&(due, ..)| due)
    }

    /// How many keys are in line. All of them may be running.
    pub(crate) fn in_line(&self) -> usize {
        self.line.len()
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
    pub(crate) fn load(&self, now: Time) -> Load {
        let ages = || self.runs.iter().map(|(_, run)| now.since(run.started));
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

    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot<K, C>> {
        self.slots.iter()
    }

    /// The run of a key that is under way.
    pub(crate) fn run_of(&self, slot: &Slot<K, C>) -> Option<&ActiveRun<C>> {
        slot.run.map(|run| &self.runs[run.index()])
    }

    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Schedules a key for `due`, or for now, unless it is already scheduled earlier.
    fn schedule(
        &mut self,
        id: SlotId,
        requested: Priority,
        now: Time,
        due: Option<Time>,
        left: &mut Leftovers<K, C>,
    ) {
        let (priority, since) = match &mut self.slots[id].next_run {
            NextRunState::None => (requested, now),
            NextRunState::Ready { priority, level, .. } => {
                *priority = requested.max(*priority);
                if requested > *level {
                    self.raise(id, requested, now);
                }
                return;
            }
            NextRunState::Waiting { priority, since, due: earlier, arrival } => {
                *priority = requested.max(*priority);
                if due.is_some_and(|due| due >= *earlier) {
                    return;
                }
                let (priority, since, earlier) = (*priority, *since, *earlier);
                self.waiting.remove(&(earlier, *arrival, id));
                if earlier <= now {
                    // The key is due, but its batch was not promoted yet.
                    self.fire_timers(id, left);
                } else {
                    self.drop_timers(id, left);
                }
                (priority, since)
            }
        };
        match due {
            None => self.enter_line(id, priority, now),
            Some(due) => {
                self.last_arrival += 1;
                let arrival = self.last_arrival;
                self.slots[id].next_run = NextRunState::Waiting { priority, since, due, arrival };
                self.waiting.insert((due, arrival, id));
            }
        }
    }

    /// Puts a key that has been ready since `since` at the end of the level of its priority.
    fn enter_line(&mut self, id: SlotId, priority: Priority, since: Time) {
        let slot = &mut self.slots[id];
        let level = priority;
        slot.next_run =
            NextRunState::Ready { is_parked: false, priority, level, since, level_since: since };
        self.line.push(End::Back, level, slot.group, id);
        self.ready[level as usize] += 1;
        self.note(Event::Added { depth: self.ready() });
    }

    /// Moves a ready key to the end of a higher level.
    fn raise(&mut self, id: SlotId, to: Priority, now: Time) {
        let slot = &mut self.slots[id];
        let NextRunState::Ready { is_parked, level, level_since, .. } = &mut slot.next_run else {
            unreachable!("the key must be ready")
        };
        let from = std::mem::replace(level, to);
        *level_since = now;
        if !*is_parked {
            self.line.remove(from, slot.group, id);
            self.line.push(End::Back, to, slot.group, id);
        }
        self.ready[from as usize] -= 1;
        self.ready[to as usize] += 1;
    }

    /// Raises keys that have been at one level for longer than `aging`.
    fn age(&mut self, now: Time) {
        for _ in 0..BATCH {
            let Some((id, above)) = self.next_to_age(now) else { return };
            self.raise(id, above, now);
        }
    }

    /// A key that has been at one level for longer than `aging`, and the level above. `None` if all
    /// keys in line are at one level, because then no key starves.
    ///
    /// Only the first key of a level is looked at. Usually it has been there for the longest time.
    /// But a key that was parked goes to the front, and may have come to this level later than the
    /// keys behind it. These do not age before that key was handed out or has aged itself.
    fn next_to_age(&self, now: Time) -> Option<(SlotId, Priority)> {
        if !self.line.is_mixed() {
            return None;
        }
        // From the top, so that a key moves by one level at a time.
        let levels = [(Priority::Normal, Priority::High), (Priority::Low, Priority::Normal)];
        levels.into_iter().find_map(|(level, above)| {
            let first = self.line.first_arrival(level)?;
            let NextRunState::Ready { level_since, .. } = self.slots[first].next_run else {
                unreachable!("a key in line must be ready")
            };
            (now.since(level_since) >= self.aging).then_some((first, above))
        })
    }

    /// The first key in line that does not run. Parks the keys before it.
    fn park_running(&mut self) -> Option<SlotId> {
        loop {
            let id = self.line.first()?;
            let slot = &mut self.slots[id];
            let NextRunState::Ready { is_parked, level, .. } = &mut slot.next_run else {
                unreachable!("a key in line must be ready")
            };
            if slot.run.is_none() {
                return Some(id);
            }
            *is_parked = true;
            self.line.remove(*level, slot.group, id);
        }
    }

    /// A waiting key is due: adds the causes of its timers to its causes.
    fn fire_timers(&mut self, id: SlotId, left: &mut Leftovers<K, C>) {
        let slot = &mut self.slots[id];
        if let Some(timers) = slot.timers.take() {
            left.extend(slot.causes.append(*timers));
        }
    }

    /// A waiting key runs early: drops the causes of its timers, which have not fired.
    fn drop_timers(&mut self, id: SlotId, left: &mut Leftovers<K, C>) {
        if let Some(timers) = self.slots[id].timers.take() {
            left.push_causes(*timers);
        }
    }

    /// Cancels the next run of a key that has just left `waiting`. Returns the key if nothing is
    /// left to do for it.
    fn cancel_next_run(&mut self, id: SlotId, left: &mut Leftovers<K, C>) -> Option<K> {
        self.drop_timers(id, left);
        let slot = &mut self.slots[id];
        slot.next_run = NextRunState::None;
        left.push_causes(std::mem::take(&mut slot.causes));
        slot.run.is_none().then(|| self.slots.remove(id))
    }

    fn note(&mut self, event: Event) {
        if self.is_observed {
            self.events.push(event);
        }
    }
}

impl<K: Eq + Clone, C> Ledger<K, C> {
    /// Adds a key.
    pub(crate) fn add(&mut self, request: AddRequest<K, C>, now: Time, left: &mut Leftovers<K, C>) {
        // Keys that are due enter the line before this one.
        self.promote_due(now, left);
        let AddRequest { key, hash, group, priority, due, cause, is_timer } = request;
        let (id, merged) = self.slots.find_or_insert(key, hash);
        left.key = merged;
        let slot = &mut self.slots[id];
        // A key in line stays in its group, even if the group function now returns another one.
        if !matches!(slot.next_run, NextRunState::Ready { is_parked: false, .. }) {
            slot.group = group;
        }
        self.schedule(id, priority, now, due, left);
        let Some(cause) = cause else { return };
        let slot = &mut self.slots[id];
        let left_out = if due.is_none() || !is_timer {
            slot.causes.push(cause)
        } else if matches!(slot.next_run, NextRunState::Waiting { .. }) {
            slot.timers.get_or_insert_default().push(cause)
        } else {
            // The key is ready, and runs before the timer fires.
            Some(cause)
        };
        left.extend(left_out);
    }

    /// Hands out the first key that does not run.
    pub(crate) fn take(&mut self, now: Time, left: &mut Leftovers<K, C>) -> Option<Taken<K>> {
        let id = loop {
            let is_more_due = self.promote_due(now, left);
            self.age(now);
            match self.park_running() {
                Some(first) => break first,
                None if is_more_due => {}
                None => return None,
            }
        };
        let slot = &mut self.slots[id];
        // First, because the clone may panic, and nothing has changed yet.
        let key = slot.key.clone();
        let NextRunState::Ready { priority, level, since, .. } =
            std::mem::replace(&mut slot.next_run, NextRunState::None)
        else {
            unreachable!("a key in line must be ready")
        };
        let causes = std::mem::take(&mut slot.causes);
        let has_causes = !causes.is_empty();
        let run = ActiveRun { slot: id, started: now, causes: RunCauses::Own(causes) };
        let run = Number::new(self.runs.insert(run));
        slot.run = Some(run);
        self.line.end_turn(level, slot.group);
        self.line.remove(level, slot.group, id);
        self.ready[level as usize] -= 1;
        let queued = now.since(since);
        self.note(Event::Started { queued, depth: self.ready() });
        Some(Taken { run, key, has_causes, queued, priority })
    }

    /// Cancels the next run of a waiting key. Returns whether the key was waiting.
    pub(crate) fn cancel(&mut self, key: &K, hash: u32, left: &mut Leftovers<K, C>) -> bool {
        let Some(id) = self.slots.find(key, hash) else { return false };
        let NextRunState::Waiting { due, arrival, .. } = self.slots[id].next_run else {
            return false;
        };
        self.waiting.remove(&(due, arrival, id));
        left.key = self.cancel_next_run(id, left);
        true
    }

    /// Cancels the next run of all waiting keys. Returns these keys, the earliest first, with
    /// their due times.
    pub(crate) fn take_waiting(&mut self, left: &mut Leftovers<K, C>) -> Vec<(K, Time)> {
        let pop = || {
            let (due, _, id) = self.waiting.pop_first()?;
            let key = self.cancel_next_run(id, left);
            Some((key.unwrap_or_else(|| self.slots[id].key.clone()), due))
        };
        std::iter::from_fn(pop).collect()
    }

    pub(crate) fn find(&self, key: &K, hash: u32) -> Option<&Slot<K, C>> {
        self.slots.find(key, hash).map(|id| &self.slots[id])
    }
}
