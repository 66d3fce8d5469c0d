//! The queue's state machine: the state of every key, and its transitions.
//!
//! A key has at most one run under way and at most one next run, so its state has up to two parts.
//! A ready key is in line or parked. A key with neither run is unknown and has no slot:
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
//!                  line         parked   running
//!   (before)       d                     e
//!   add(e)         d ⇄ e                 e
//!   add(f)         d ⇄ e ⇄ f             e
//!   take → d       e ⇄ f                 e, d
//!   take → f                    e        e, d, f   `e` is first, but still runs: it is parked
//!   add(g)         g            e        e, d, f
//!   done(e)        e ⇄ g                 d, f      `e` goes to the front
//! ```
//!
//! With groups, `e` also leaves and enters the list of its group. A group without keys is dropped.
//! When `e` comes back to it, its group is the next to have a turn.
//!
//! `cancel`, for one key, and `shut_down`, for all keys, end the wait: "waiting" becomes "unknown",
//! and "running + waiting" becomes "running".
//!
//! The ledger is pure and synchronous: no lock, no clock and no task. It calls user code only to
//! compare and clone keys. Time comes in as an argument. Values to drop go to [`Dropped`], and
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
use crate::effects::{Dropped, Event};
use crate::line::Line;
use crate::list::End;
use crate::observer::Load;
use crate::priority::{Group, Priority};
use crate::slots::{NextRunState, Number, RunId, Slot, SlotId, Slots};
use crate::time::Time;

/// Bounds the time under the lock: a call makes at most this many due keys ready, and
/// [`Ledger::take`] raises at most this many. The next call continues. [`Ledger::take`] repeats
/// while it finds no key to hand out and more may be due. Methods that inspect the queue, cancel or
/// shut down make all due keys ready.
const BATCH: usize = 256;

pub(crate) struct Ledger<K, C> {
    slots: Slots<K, C>,
    line: Line,
    /// The keys that wait for their time, the earliest first. Those that are due at the same time
    /// are in the order in which they were added.
    waiting: BTreeSet<(Time, u64, SlotId)>,
    last_sequence: u64,
    runs: Slab<ActiveRun<C>>,
    /// How many keys are ready, in line or parked, at each level.
    ready_by_level: [usize; Priority::ALL.len()],
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
    /// Whether the cause counts only if the key waits until `due`. The cause of a retry has
    /// happened already.
    pub(crate) cause_needs_due: bool,
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
            last_sequence: 0,
            runs: Slab::new(),
            ready_by_level: [0; Priority::ALL.len()],
            aging,
            is_observed,
            events: Vec::new(),
        }
    }

    /// Ends a run.
    pub(crate) fn done(&mut self, run: RunId, dropped: &mut Dropped<K, C>) {
        let ActiveRun { slot: id, started, mut causes } = self.runs.remove(run.index());
        dropped.push_causes(causes.take());
        let slot = &mut self.slots[id];
        slot.run = None;
        match &mut slot.next_run {
            NextRunState::None => dropped.key = Some(self.slots.remove(id)),
            NextRunState::Ready { is_parked, level, .. } if *is_parked => {
                *is_parked = false;
                self.line.push(End::Front, *level, slot.group, id);
            }
            NextRunState::Ready { .. } | NextRunState::Waiting { .. } => {}
        }
        self.record_event(Event::Finished { started });
    }

    /// Adds the key of a run again. With `keeps_causes`, the causes of this run come before those
    /// of the next one. The lease must have dropped its `Arc` of them.
    pub(crate) fn add_again(
        &mut self,
        run: RunId,
        priority: Priority,
        now: Time,
        due: Option<Time>,
        keeps_causes: bool,
        dropped: &mut Dropped<K, C>,
    ) {
        self.promote_due(now, dropped);
        let run = &mut self.runs[run.index()];
        let id = run.slot;
        if keeps_causes {
            let causes = &mut self.slots[id].causes;
            // The causes of this run are older.
            let added = std::mem::replace(causes, run.causes.take());
            dropped.extend(causes.append(added));
        }
        self.schedule(id, priority, now, due, dropped);
    }

    /// Shares the causes of a run with its lease.
    pub(crate) fn share_causes(&mut self, run: RunId) -> Arc<Causes<C>> {
        self.runs[run.index()].causes.share()
    }

    /// Makes waiting keys that are due ready, up to [`BATCH`]. Returns whether more may be due.
    pub(crate) fn promote_due(&mut self, now: Time, dropped: &mut Dropped<K, C>) -> bool {
        for _ in 0..BATCH {
            let Some(&(due, _, id)) = self.waiting.first() else { return false };
            if due > now {
                return false;
            }
            self.waiting.pop_first();
            let NextRunState::Waiting { priority, .. } = self.slots[id].next_run else {
                unreachable!("a key that is due must wait")
            };
            self.fire_timers(id, dropped);
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
        self.ready_by_level.iter().sum()
    }

    /// The load, except for `retry_debt`, which the limiter has.
    pub(crate) fn load(&self, now: Time) -> Load {
        let ages = || self.runs.iter().map(|(_, run)| now.since(run.started));
        Load {
            keys: self.slots.len(),
            ready: self.ready(),
            ready_by_priority: self.ready_by_level,
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

    /// Makes a key ready, or lets it wait until `due`. If it is already ready, or waits for an
    /// earlier time, only its priority can rise, which takes effect at once.
    fn schedule(
        &mut self,
        id: SlotId,
        requested: Priority,
        now: Time,
        due: Option<Time>,
        dropped: &mut Dropped<K, C>,
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
            NextRunState::Waiting { priority, since, due: current, sequence } => {
                *priority = requested.max(*priority);
                if due.is_some_and(|due| due >= *current) {
                    return;
                }
                let (priority, since, current) = (*priority, *since, *current);
                self.waiting.remove(&(current, *sequence, id));
                if current <= now {
                    // The key is due, but its batch was not promoted yet.
                    self.fire_timers(id, dropped);
                } else {
                    self.drop_timers(id, dropped);
                }
                (priority, since)
            }
        };
        match due {
            None => self.enter_line(id, priority, now),
            Some(due) => {
                self.last_sequence += 1;
                let sequence = self.last_sequence;
                self.slots[id].next_run = NextRunState::Waiting { priority, since, due, sequence };
                self.waiting.insert((due, sequence, id));
            }
        }
    }

    /// Makes a key ready and puts it at the end of a level. `since` is when it became ready.
    fn enter_line(&mut self, id: SlotId, priority: Priority, since: Time) {
        let slot = &mut self.slots[id];
        slot.next_run = NextRunState::Ready {
            is_parked: false,
            priority,
            level: priority,
            since,
            level_since: since,
        };
        self.line.push(End::Back, priority, slot.group, id);
        self.ready_by_level[priority as usize] += 1;
        self.record_event(Event::Added { depth: self.ready() });
    }

    /// Raises a ready key to a higher level. If it is in line, it goes to the end of that level; if
    /// it is parked, it goes to the front when its run is done.
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
        self.ready_by_level[from as usize] -= 1;
        self.ready_by_level[to as usize] += 1;
    }

    /// Raises keys that have been at one level for `aging` or longer.
    fn age(&mut self, now: Time) {
        for _ in 0..BATCH {
            let Some((id, above)) = self.next_to_age(now) else { return };
            self.raise(id, above, now);
        }
    }

    /// A key that has been at one level for `aging` or longer, and the level above. `None` if all
    /// keys in line are at one level, because then no key starves.
    ///
    /// Looks only at the first key of a level, which has usually been there longest. Without groups,
    /// a key that was parked returns to the front and may be younger. The keys behind it do not age
    /// until it has left the level.
    fn next_to_age(&self, now: Time) -> Option<(SlotId, Priority)> {
        if !self.line.has_several_levels() {
            return None;
        }
        // Normal first: a raised Low key could leave all keys at Normal, and aging would stop
        // there.
        let levels = [(Priority::Normal, Priority::High), (Priority::Low, Priority::Normal)];
        levels.into_iter().find_map(|(level, above)| {
            let first = self.line.first_of_level(level)?;
            let NextRunState::Ready { level_since, .. } = self.slots[first].next_run else {
                unreachable!("a key in line must be ready")
            };
            (now.since(level_since) >= self.aging).then_some((first, above))
        })
    }

    /// The first key in line that is not running. The keys before it are parked: workers that were
    /// woken for them would find nothing to do.
    fn first_runnable(&mut self) -> Option<SlotId> {
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

    /// Moves the causes of timers to the causes of the next run, because the key is due.
    fn fire_timers(&mut self, id: SlotId, dropped: &mut Dropped<K, C>) {
        let slot = &mut self.slots[id];
        if let Some(timers) = slot.timers.take() {
            dropped.extend(slot.causes.append(*timers));
        }
    }

    /// Drops the causes of timers, because the key runs earlier or not at all.
    fn drop_timers(&mut self, id: SlotId, dropped: &mut Dropped<K, C>) {
        if let Some(timers) = self.slots[id].timers.take() {
            dropped.push_causes(*timers);
        }
    }

    /// Cancels the next run of a key that has just left `waiting`. Returns the key if nothing is
    /// left to do for it.
    fn cancel_next_run(&mut self, id: SlotId, dropped: &mut Dropped<K, C>) -> Option<K> {
        self.drop_timers(id, dropped);
        let slot = &mut self.slots[id];
        slot.next_run = NextRunState::None;
        dropped.push_causes(std::mem::take(&mut slot.causes));
        slot.run.is_none().then(|| self.slots.remove(id))
    }

    fn record_event(&mut self, event: Event) {
        if self.is_observed {
            self.events.push(event);
        }
    }
}

impl<K: Eq + Clone, C> Ledger<K, C> {
    /// Adds a key.
    pub(crate) fn add(
        &mut self,
        request: AddRequest<K, C>,
        now: Time,
        dropped: &mut Dropped<K, C>,
    ) {
        // Keys that are due enter the line before this one.
        self.promote_due(now, dropped);
        let AddRequest { key, hash, group, priority, due, cause, cause_needs_due } = request;
        let (id, merged) = self.slots.find_or_insert(key, hash);
        dropped.key = merged;
        let slot = &mut self.slots[id];
        // A key in line stays in its group, even if the group function now returns another one.
        if !matches!(slot.next_run, NextRunState::Ready { is_parked: false, .. }) {
            slot.group = group;
        }
        self.schedule(id, priority, now, due, dropped);
        let Some(cause) = cause else { return };
        let slot = &mut self.slots[id];
        let left_out = if due.is_none() || !cause_needs_due {
            slot.causes.push(cause)
        } else if matches!(slot.next_run, NextRunState::Waiting { .. }) {
            slot.timers.get_or_insert_default().push(cause)
        } else {
            // The key is ready, and runs before the timer fires.
            Some(cause)
        };
        dropped.extend(left_out);
    }

    /// Hands out the first key that is not running.
    pub(crate) fn take(&mut self, now: Time, dropped: &mut Dropped<K, C>) -> Option<Taken<K>> {
        let id = loop {
            let is_more_due = self.promote_due(now, dropped);
            self.age(now);
            match self.first_runnable() {
                Some(first) => break first,
                None if is_more_due => {}
                None => return None,
            }
        };
        let slot = &mut self.slots[id];
        // Clone first: if that panics, the key is still in line.
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
        // Before the removal, which may drop the group.
        self.line.end_turn(level, slot.group);
        self.line.remove(level, slot.group, id);
        self.ready_by_level[level as usize] -= 1;
        let queued = now.since(since);
        self.record_event(Event::Started { queued, depth: self.ready() });
        Some(Taken { run, key, has_causes, queued, priority })
    }

    /// Cancels the next run of a waiting key. Returns whether the key was waiting.
    pub(crate) fn cancel(&mut self, key: &K, hash: u32, dropped: &mut Dropped<K, C>) -> bool {
        let Some(id) = self.slots.find(key, hash) else { return false };
        let NextRunState::Waiting { due, sequence, .. } = self.slots[id].next_run else {
            return false;
        };
        self.waiting.remove(&(due, sequence, id));
        dropped.key = self.cancel_next_run(id, dropped);
        true
    }

    /// Cancels the next run of all waiting keys. Returns these keys, the earliest first, with
    /// their due times.
    pub(crate) fn take_waiting(&mut self, dropped: &mut Dropped<K, C>) -> Vec<(K, Time)> {
        let pop = || {
            let (due, _, id) = self.waiting.pop_first()?;
            let key = self.cancel_next_run(id, dropped);
            Some((key.unwrap_or_else(|| self.slots[id].key.clone()), due))
        };
        std::iter::from_fn(pop).collect()
    }

    pub(crate) fn find(&self, key: &K, hash: u32) -> Option<&Slot<K, C>> {
        self.slots.find(key, hash).map(|id| &self.slots[id])
    }
}
