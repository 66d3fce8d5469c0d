//! The queue's state machine: what is known of every key, and how it changes.
//!
//! ```text
//!            add                      take                    done
//!   (gone) ───────▶ ready (in line) ───────▶ running ─────────────────▶ (gone)
//!      │              ▲        ▲                │  │ add while running:
//!      │ add_after    │ due    └────────────────┘  ▼ in line as well, and passed over
//!      └────────▶ waiting                      running + ready      until the run is done
//! ```
//!
//! Pure and synchronous: no lock, no clock, no task. Time comes in as an argument. Invariants:
//!
//! - A key has at most one run under way and at most one run ahead, and that run is due at the earliest
//!   time that was asked for.
//! - A key enters the line when it is added, also while it runs; the place it takes then is the place
//!   it keeps. If its turn comes while it still runs, it is passed over, and is first when it is done.
//!   So it does not matter whether an add is seen before or after the end of a run, which the intake
//!   relies on.
//! - A run that becomes ready drops the waiting entry of its key, and with it the causes of timers,
//!   which have not happened.

use std::hash::Hash;
use std::time::Duration;

use crate::causes::Causes;
use crate::clock::Stamp;
use crate::intake::{Arrival, Reason};
use crate::line::{Line, Place, Turn};
use crate::observer::{Load, SharedObserver};
use crate::priority::{Group, Priority};
use crate::running::{Run, RunId, Running};
use crate::slots::{KeyHash, Pending, Slot, SlotId, Slots, Ticket};
use crate::sync::Arc;
use crate::waiting::Waiting;

/// Keys that one call moves up by age, and waiting keys that one call makes ready, so that no call holds
/// the queue's lock for long. The next call goes on.
const MOVED_BATCH: usize = 256;

pub(crate) struct Ledger<K, C> {
    slots: Slots<K>,
    line: Line,
    waiting: Waiting,
    running: Running<C>,
    /// Keys with a ready run: in line or passed over.
    ready: usize,
    /// Waiting keys that are not of `Normal` priority: when they become ready, it is not at the end of a
    /// plain line.
    waiting_special: usize,
    next_ticket: Ticket,
    /// How long a key stays at one level before it moves up.
    aging: Duration,
    /// When the first key came that was not of `Normal` priority: until then nobody asked how old a key is.
    aging_from: Option<Stamp>,
    /// Since when the run ahead of each slot's key is ready, or waiting for its time; empty if times are not kept.
    since: Vec<Stamp>,
    keeps_times: bool,
    /// The group of each slot's key, if groups take turns; else empty.
    groups: Vec<Group>,
    /// The causes of each slot's run ahead; as long as the highest slot that ever had one.
    causes: Vec<Causes<C>>,
    /// The causes of timers of each slot's waiting run, which become causes of the run at its time;
    /// as long as the highest slot that ever had one.
    timers: Vec<Causes<C>>,
    /// Causes to be dropped when the queue is unlocked, because that is the user's code.
    left_over: Vec<Causes<C>>,
    observer: Option<SharedObserver>,
}

/// A key that may be handed out, as long as nothing else is done.
pub(crate) struct Next {
    level: Priority,
    id: SlotId,
}

/// What is to be dropped by whoever has unlocked the queue.
pub(crate) struct LeftOver<K, C> {
    pub(crate) keys: Vec<K>,
    pub(crate) causes: Vec<Causes<C>>,
}

/// A run handed out.
pub(crate) struct Taken<K, C> {
    pub(crate) id: RunId,
    pub(crate) key: K,
    pub(crate) causes: Option<Arc<Causes<C>>>,
    /// How long the run was ready; `None` if times are not kept.
    pub(crate) queued: Option<Duration>,
    pub(crate) priority: Priority,
}

impl<K, C> Ledger<K, C> {
    pub(crate) fn new(
        aging: Duration,
        fair: bool,
        keeps_times: bool,
        observer: Option<SharedObserver>,
    ) -> Self {
        Self {
            slots: Slots::new(),
            line: Line::new(fair),
            waiting: Waiting::default(),
            running: Running::new(),
            ready: 0,
            waiting_special: 0,
            next_ticket: 0,
            aging,
            aging_from: keeps_times.then(Stamp::default),
            since: Vec::new(),
            keeps_times,
            groups: Vec::new(),
            causes: Vec::new(),
            timers: Vec::new(),
            left_over: Vec::new(),
            observer,
        }
    }

    /// Whether the turn of a run's key has come again while it runs.
    pub(crate) fn is_passed_over(&mut self, run: RunId) -> bool {
        let slot = self.running.get_mut(run).slot;
        self.slots[slot].pending == Pending::PassedOver
    }

    /// A run is over. Returns its causes, for the caller to drop once the queue is unlocked.
    #[inline]
    pub(crate) fn done(&mut self, run: RunId, now: Stamp) -> Option<Arc<Causes<C>>> {
        let (id, started, causes) = self.running.end(run);
        let slot = &mut self.slots[id];
        slot.set_running(false);
        match slot.pending {
            Pending::None => self.slots.retire(id),
            Pending::PassedOver => self.back_to_front(id),
            Pending::InLine | Pending::Waiting => {}
        }
        self.rest_if_quiet();
        if let Some(observer) = &self.observer {
            observer.tell(|observer| observer.finished(now.since(started)));
        }
        causes
    }

    /// A run that is under way shall be repeated at `due`, or as soon as a worker is free: as urgent as
    /// it was asked to be, and for the same causes if these are to be kept.
    pub(crate) fn repeat(&mut self, run: RunId, now: Stamp, due: Option<Stamp>, with_causes: bool) {
        let run = self.running.get_mut(run);
        let (id, priority) = (run.slot, run.priority);
        let causes = if with_causes { run.causes.take() } else { None };
        // The lease has let go of them, so they are not shared.
        if let Some(mut causes) = causes.and_then(Arc::into_inner) {
            let ahead = self.causes_mut(id);
            causes.append(std::mem::take(ahead));
            *ahead = causes;
        }
        self.pend(id, priority, now, due);
    }

    /// Makes the waiting keys ready whose time has come; true if there may be more of them.
    pub(crate) fn promote_due(&mut self, now: Stamp) -> bool {
        for _ in 0..MOVED_BATCH {
            let Some(id) = self.waiting.pop_due(now, &self.slots) else { return false };
            self.count_waiting_special(id, -1);
            if let Some(timers) = self.take_timers(id) {
                self.causes_mut(id).append(timers);
            }
            self.enter_line(id, self.slots[id].at);
        }
        true
    }

    /// When the next waiting key is due.
    pub(crate) fn next_due(&self) -> Option<Stamp> {
        self.waiting.next_due()
    }

    /// Whether waiting keys that are due may stay where they are for now, because there is a plain line that
    /// they would only join at its end. So a million that are due at once do not all join it at once.
    pub(crate) fn due_can_wait(&self) -> bool {
        self.waiting_special == 0 && self.line.is_plain() && self.has_ready()
    }

    /// Whether a key can be handed out, as far as the line shows.
    pub(crate) fn has_ready(&self) -> bool {
        self.line.top().is_some()
    }

    /// Whether no key is known.
    pub(crate) fn is_idle(&self) -> bool {
        self.ready + self.waiting.len() + self.running.len() == 0
    }

    /// Keys with a ready run.
    pub(crate) fn ready(&self) -> usize {
        self.ready
    }

    /// Keys whose time has not come.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Leases that are out.
    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    /// All of the load that the ledger knows: not the limiter's debt.
    pub(crate) fn load(&self, now: Stamp) -> Load {
        Load {
            ready: self.ready,
            waiting: self.waiting.len(),
            running: self.running.len(),
            elapsed: self.keeps_times.then(|| self.running.elapsed(now)),
            retry_debt: Duration::ZERO,
        }
    }

    /// Every key that runs or has a run ahead.
    pub(crate) fn slots(&self) -> impl Iterator<Item = SlotId> {
        self.slots.iter().filter(|(_, slot)| !slot.is_idle()).map(|(id, _)| id)
    }

    pub(crate) fn slot(&self, id: SlotId) -> &Slot<K> {
        &self.slots[id]
    }

    /// The causes of a slot's run ahead, also those of timers if it waits for them.
    pub(crate) fn causes(&self, id: SlotId) -> Causes<C>
    where
        C: Clone,
    {
        let mut causes = self.causes.get(id as usize).cloned().unwrap_or_default();
        causes.append(self.timers.get(id as usize).cloned().unwrap_or_default());
        causes
    }

    /// Since when a slot's run ahead is ready, or waiting for its time, if times are kept.
    pub(crate) fn since(&self, id: SlotId) -> Option<Stamp> {
        self.since.get(id as usize).copied()
    }

    pub(crate) fn keeps_times(&self) -> bool {
        self.keeps_times
    }

    /// The runs that are under way.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &Run<C>> {
        self.running.iter()
    }

    /// Keys and causes to be dropped, by whoever has unlocked the queue: that is the user's code.
    #[inline]
    pub(crate) fn take_left_over(&mut self) -> LeftOver<K, C> {
        LeftOver {
            keys: self.slots.take_left_over(),
            causes: if self.left_over.is_empty() {
                Vec::new()
            } else {
                std::mem::take(&mut self.left_over)
            },
        }
    }

    pub(crate) fn observer(&self) -> Option<&SharedObserver> {
        self.observer.as_ref()
    }

    /// A slot's key shall run at `due`, or as soon as a worker is free; unless it will earlier.
    #[inline]
    fn pend(&mut self, id: SlotId, priority: Priority, now: Stamp, due: Option<Stamp>) {
        let slot = &mut self.slots[id];
        let before = slot.pending;
        match before {
            Pending::InLine | Pending::PassedOver => {
                slot.asked = slot.asked.max(priority);
                if priority > slot.priority {
                    self.raise(id, priority, now);
                }
                return;
            }
            Pending::Waiting => {
                let is_earlier = due.is_none_or(|due| due < slot.at);
                // One of so many that they are not all in line yet.
                let is_due = slot.at <= now;
                self.count_waiting_special(id, -1);
                let slot = &mut self.slots[id];
                slot.priority = slot.priority.max(priority);
                slot.asked = slot.priority;
                if !is_earlier {
                    self.count_waiting_special(id, 1);
                    return;
                }
                if let Some(timers) = self.take_timers(id) {
                    if is_due {
                        self.causes_mut(id).append(timers);
                    } else {
                        // Their time has not come, and will not: the key runs before it.
                        self.leave_over(timers);
                    }
                }
            }
            Pending::None => {
                (slot.priority, slot.asked) = (priority, priority);
                self.slots.revive(id);
            }
        }
        match due {
            None => self.enter_line(id, now),
            Some(due) => self.wait(id, now, due),
        }
        if before == Pending::Waiting {
            self.waiting.remove(&self.slots);
        }
    }

    /// Puts a key among the waiting.
    fn wait(&mut self, id: SlotId, now: Stamp, due: Stamp) {
        let ticket = self.draw_ticket();
        if self.slots[id].pending == Pending::None {
            self.note_since(id, now);
        }
        let slot = &mut self.slots[id];
        slot.pending = Pending::Waiting;
        slot.at = due;
        slot.ticket = ticket;
        self.waiting.insert(id, &self.slots);
        self.count_waiting_special(id, 1);
    }

    /// Notes that a key begins or ceases to wait.
    fn count_waiting_special(&mut self, id: SlotId, change: isize) {
        if self.slots[id].priority != Priority::Normal {
            self.waiting_special = self.waiting_special.strict_add_signed(change);
        }
    }

    /// Puts a key without a run ahead into the line.
    #[inline]
    fn enter_line(&mut self, id: SlotId, since: Stamp) {
        self.ready += 1;
        let ticket = self.draw_ticket();
        self.note_since(id, since);
        let slot = &mut self.slots[id];
        slot.at = since;
        slot.ticket = ticket;
        slot.pending = Pending::InLine;
        let place = Place { id, ticket };
        let level = slot.priority;
        self.line.push_back(level, self.group(id), place, &self.slots);
        if let Some(observer) = &self.observer {
            observer.tell(|observer| observer.added(self.ready));
        }
    }

    /// A key in line, or passed over, is now more urgent: it goes to the end of the higher level.
    fn raise(&mut self, id: SlotId, priority: Priority, now: Stamp) {
        let slot = &mut self.slots[id];
        let before = std::mem::replace(&mut slot.priority, priority);
        slot.at = now;
        if slot.pending == Pending::PassedOver {
            return;
        }
        let (ticket, group) = (self.draw_ticket(), self.group(id));
        self.slots[id].ticket = ticket;
        self.line.note_stale(before, group);
        self.line.push_back(priority, group, Place { id, ticket }, &self.slots);
    }

    fn back_to_front(&mut self, id: SlotId) {
        let ticket = self.draw_ticket();
        let slot = &mut self.slots[id];
        slot.ticket = ticket;
        slot.pending = Pending::InLine;
        let place = Place { id, ticket };
        let level = slot.priority;
        self.line.push_front(level, self.group(id), place);
    }

    /// A key that has been at one level for too long, and the level above. Only while another level is
    /// occupied: else nobody is ahead of it.
    fn next_to_age(&mut self, now: Stamp) -> Option<(SlotId, Priority)> {
        if !self.line.has_lower() {
            return None;
        }
        let deadline =
            now.before(self.aging).filter(|&deadline| self.aging_from <= Some(deadline))?;
        // From the top, so that a key moves by one level at a time.
        [Priority::Normal, Priority::Low].into_iter().find_map(|lower| {
            let id = self.line.aged(lower, deadline, &self.slots)?;
            Some((id, lower.raised()?))
        })
    }

    #[inline]
    fn rest_if_quiet(&mut self) {
        if self.ready + self.running.len() == 0 {
            self.slots.rest();
        }
    }

    #[inline]
    fn note_since(&mut self, id: SlotId, since: Stamp) {
        if !self.keeps_times {
            return;
        }
        let index = id as usize;
        if self.since.len() <= index {
            self.since.resize(index + 1, Stamp::default());
        }
        self.since[index] = since;
    }

    fn causes_mut(&mut self, id: SlotId) -> &mut Causes<C> {
        entry_of(&mut self.causes, id)
    }

    fn take_timers(&mut self, id: SlotId) -> Option<Causes<C>> {
        let timers = self.timers.get_mut(id as usize)?;
        (!timers.is_empty()).then(|| std::mem::take(timers))
    }

    /// Puts causes aside that no run is told, unless dropping them does nothing.
    fn leave_over(&mut self, causes: Causes<C>) {
        if std::mem::needs_drop::<C>() {
            self.left_over.push(causes);
        }
    }

    fn group(&self, id: SlotId) -> Option<Group> {
        self.groups.get(id as usize).copied()
    }

    fn draw_ticket(&mut self) -> Ticket {
        self.next_ticket = self.next_ticket.wrapping_add(1);
        self.next_ticket
    }
}

/// The causes of a slot, in a table that is made long enough.
fn entry_of<C>(table: &mut Vec<Causes<C>>, id: SlotId) -> &mut Causes<C> {
    let index = id as usize;
    if table.len() <= index {
        table.resize_with(index + 1, Causes::default);
    }
    &mut table[index]
}

impl<K: Eq + Hash + Clone, C> Ledger<K, C> {
    /// Says which keys will be added next, so that looking them up is fast.
    pub(crate) fn announce(&self, hashes: impl Iterator<Item = KeyHash>) {
        self.slots.touch(hashes);
    }

    /// The key shall run at `due`, or as soon as a worker is free.
    #[inline]
    pub(crate) fn add(&mut self, arrival: Arrival<K, C>, due: Option<Stamp>) {
        let Arrival { key, hash, at: now, reason } = arrival;
        let Reason { priority, group, cause, is_timer } = reason;
        let id = self.slot_for(key, hash, group);
        if priority != Priority::Normal {
            self.aging_from.get_or_insert(now);
        }
        self.pend(id, priority, now, due);
        match cause {
            None => {}
            Some(cause) if due.is_none() || !is_timer => self.causes_mut(id).push(cause),
            Some(cause) if self.slots[id].pending == Pending::Waiting => {
                entry_of(&mut self.timers, id).push(cause);
            }
            // The key is ready, and runs before the timer's time.
            Some(cause) => self.leave_over(Causes::of(cause)),
        }
    }

    /// The first key that is not running.
    pub(crate) fn next(&mut self, now: Stamp) -> Option<Next> {
        for _ in 0..MOVED_BATCH {
            let Some((id, upper)) = self.next_to_age(now) else { break };
            self.raise(id, upper, now);
        }
        self.first_idle()
    }

    /// The first key that is not running, if plain adds that the ledger has not seen yet cannot matter: they would all
    /// line up behind it, and `is_unseen` says of none that it is the same key.
    #[inline]
    pub(crate) fn next_settled(&mut self, is_unseen: impl Fn(KeyHash) -> bool) -> Option<Next> {
        if !self.line.is_plain() || self.waiting_special > 0 {
            return None;
        }
        self.first_idle().filter(|next| !is_unseen(self.slots[next.id].hash()))
    }

    #[inline]
    fn first_idle(&mut self) -> Option<Next> {
        loop {
            let (level, id) = self.line.first(&self.slots)?;
            let slot = &mut self.slots[id];
            if !slot.is_running() {
                return Some(Next { level, id });
            }
            slot.pending = Pending::PassedOver;
            self.line.pop_first(level, Turn::Stays);
        }
    }

    /// Hands out the key that is next.
    #[inline]
    pub(crate) fn start(&mut self, Next { level, id }: Next, now: Stamp) -> Taken<K, C> {
        // Before anything changes: a clone is the caller's code, and may panic.
        let key = self.slots[id].key().clone();
        self.line.pop_first(level, Turn::Ends);
        let slot = &mut self.slots[id];
        slot.pending = Pending::None;
        slot.set_running(true);
        self.ready -= 1;
        let priority = slot.asked;
        let queued = self.since.get(id as usize).map(|&since| now.since(since));
        let causes = self.causes.get_mut(id as usize).filter(|causes| !causes.is_empty());
        let causes = causes.map(|causes| Arc::new(std::mem::take(causes)));
        let run = self.running.start(id, now, priority, causes.clone());
        if let Some(observer) = &self.observer {
            observer.tell(|observer| observer.started(queued.unwrap_or_default(), self.ready));
        }
        Taken { id: run, key, causes, queued, priority }
    }

    /// Takes a waiting key out; `None` if the key does not wait. Returns its causes, for the caller to drop once the queue
    /// is unlocked.
    pub(crate) fn cancel(&mut self, key: &K, hash: KeyHash) -> Option<Causes<C>> {
        let id = self.slots.find(key, hash)?;
        if self.slots[id].pending != Pending::Waiting {
            return None;
        }
        let causes = self.give_up_waiting(id);
        self.waiting.remove(&self.slots);
        self.rest_if_quiet();
        Some(causes)
    }

    /// Takes all waiting keys out, the earliest first, each with its due time; and their causes, for the caller to drop
    /// once the queue is unlocked.
    pub(crate) fn take_waiting(&mut self) -> (Vec<(K, Stamp)>, Vec<Causes<C>>) {
        let ids = self.waiting.take_all(&self.slots);
        let keys = ids.iter().map(|&id| (self.slots[id].key().clone(), self.slots[id].at));
        let keys = keys.collect();
        let causes = ids.into_iter().map(|id| self.give_up_waiting(id)).collect();
        self.rest_if_quiet();
        (keys, causes)
    }

    /// The slot of a key that runs or has a run ahead.
    pub(crate) fn find(&self, key: &K, hash: KeyHash) -> Option<(SlotId, &Slot<K>)> {
        let id = self.slots.find(key, hash)?;
        let slot = &self.slots[id];
        (!slot.is_idle()).then_some((id, slot))
    }

    fn slot_for(&mut self, key: K, hash: KeyHash, group: Option<Group>) -> SlotId {
        let id = self.slots.find_or_insert(key, hash);
        if let Some(group) = group {
            // Slot numbers are dense: a new one is at most one past the end.
            if id as usize == self.groups.len() {
                self.groups.push(group);
            } else if self.slots[id].pending != Pending::InLine {
                // A key in line stays with the group it lined up in, should the caller now name another.
                self.groups[id as usize] = group;
            }
        }
        id
    }

    /// The run ahead is cancelled. Returns its causes.
    fn give_up_waiting(&mut self, id: SlotId) -> Causes<C> {
        self.count_waiting_special(id, -1);
        let slot = &mut self.slots[id];
        slot.pending = Pending::None;
        if slot.is_idle() {
            self.slots.retire(id);
        }
        let mut causes = self.causes.get_mut(id as usize).map(std::mem::take).unwrap_or_default();
        causes.append(self.take_timers(id).unwrap_or_default());
        causes
    }
}
