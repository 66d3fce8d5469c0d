//! The events that are not mapped yet, by key. Pure: it calls no mapper and reads no clock.
//!
//! ```text
//!            add                 take_due              settle: nothing is left
//! (unknown) ────▶ Ready ──────────────────▶ Running ───────────────────────────▶ (unknown)
//!                   ▲                       ▲  │ │
//!                   │         take_due, when│  │ │ settle: something came meanwhile
//!                   │              it is due│  │ └─────────────────────────▶ Ready
//!                   │                     Retry◀┘ settle: something failed
//!                   └─ add ── Undecodable ◀───── settle: all that is left does not decode
//! ```
//!
//! The events of a key are a list, in order, and a new one merges with the last of them:
//!
//! ```text
//! waits               then      becomes
//! added, or updated   updated   updated, from the first to the last version, and merged
//! added, or updated   deleted   deleted
//! deleted             added     both
//! ```
//!
//! So a key has at most one event of an object that exists, and the deletions of its predecessors.
//! Their number is bounded for all keys together, because names that come and go are not: beyond
//! [`PAST_MAX`], a deletion that cannot be mapped at once is dropped. One that was not tried yet
//! has as many places again, which are free as long as somebody takes what is due.
//!
//! If the mapper fails for an update, but maps its new version alone, the update stays for what the
//! old version led to. It merges with nothing, so the next update begins with the version that was
//! mapped. It is given up after [`OLD_FAILURES_MAX`] failures, and counts as a deletion does.
//!
//! A new event makes a key that waits due at once, because it may mend what fails. It does so once
//! in [`EARLY_PERIOD`], so an object that changes all the time is not mapped all the time.
//!
//! Unlike in the backlog of a handler, an object that came and went does not vanish: a run may have
//! seen it.
//!
//! An event whose object does not decode stays, without being tried, until the next event of its
//! key. So what is mapped then begins with the last version that did decode.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::time::Instant;
use windlass_indexer::ObjectKey;
use windlass_informer::{Event, FinalState};

use crate::sources::mapping::BACKOFF_MAX;

/// How many deletions, and updates that wait for their old version, wait at most. What exists is
/// bounded by the cache, which holds it anyway.
pub(super) const PAST_MAX: usize = 10_000;

/// How often the mapper may fail for an update whose new version it maps alone. With the backoff,
/// that takes four to eight minutes: longer than a short outage, and no load that stays.
pub(super) const OLD_FAILURES_MAX: u32 = 20;

/// How much time passes between two events that make a key due earlier. As long as the longest
/// backoff, so that such events at most double how often a key is tried.
const EARLY_PERIOD: Duration = BACKOFF_MAX;

/// The events that are not mapped yet.
pub(super) struct Unmapped<T> {
    /// Hashed with a random seed, because tenants choose the names.
    keys: HashMap<ObjectKey, Key<T>, RandomState>,
    /// The keys that are [`State::Ready`], in the order in which they became so.
    ready: BTreeMap<u64, ObjectKey>,
    /// The keys that are [`State::Retry`].
    retries: Retries,
    /// Those of them whose mapper took too long. By themselves, because all of them together may
    /// take hours, which what fails at once must not wait for.
    slow_retries: Retries,
    next_number: u64,
    /// How many of the events are [of the past](Change::is_past).
    past: usize,
}

/// Keys by the time at which they are due, and then in the order in which they failed.
type Retries = BTreeMap<(Instant, u64), ObjectKey>;

struct Key<T> {
    changes: Vec<Change<T>>,
    /// How often it has failed in a row.
    failures: u32,
    state: State,
    /// Before this, no event makes the key due earlier.
    early_from: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its events were not tried.
    Ready { number: u64 },
    /// What was known is being mapped. Its events are those that came since.
    Running,
    /// It waits after a failure, in `slow_retries` or in `retries`.
    Retry { at: (Instant, u64), is_slow: bool },
    /// Its object does not decode.
    Undecodable,
}

/// An event that is not mapped yet.
pub(super) struct Change<T> {
    /// An update is also marked as merged if its old version was not mapped itself.
    pub(super) event: Event<T>,
    /// How often the mapper has failed for an update, but has mapped the new version alone. After
    /// that, only what the old version led to is missing.
    pub(super) old_failures: u32,
}

/// A key whose events are to be mapped, in order.
pub(super) struct Due<T> {
    pub(super) key: ObjectKey,
    pub(super) changes: Vec<Change<T>>,
    /// How often it has failed in a row.
    pub(super) failures: u32,
    pub(super) kind: DueKind,
}

/// What kind of place an attempt takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DueKind {
    /// It was not tried yet.
    First,
    Retry,
    /// The last attempt took too long.
    SlowRetry,
}

/// When a key that has failed is tried again.
#[derive(Clone, Copy)]
pub(super) struct Retry {
    pub(super) at: Instant,
    /// Whether the mapper took too long.
    pub(super) is_slow: bool,
}

/// For which repetitions there is a place.
#[derive(Clone, Copy)]
pub(super) struct RetryPlaces {
    pub(super) has_any: bool,
    /// For those whose mapper took too long. Counts only with `has_any`.
    pub(super) has_slow: bool,
}

impl<T> Unmapped<T> {
    pub(super) fn new() -> Self {
        Self {
            keys: HashMap::default(),
            ready: BTreeMap::new(),
            retries: Retries::new(),
            slow_retries: Retries::new(),
            next_number: 0,
            past: 0,
        }
    }

    /// Whether something of a key is not mapped yet.
    pub(super) fn is_known(&self, key: &ObjectKey) -> bool {
        self.keys.contains_key(key)
    }

    /// How many keys wait after a failure.
    pub(super) fn waiting(&self) -> usize {
        self.retries.len() + self.slow_retries.len()
    }

    /// When the next of them is due for which there is a place.
    pub(super) fn next_retry(&self, places: RetryPlaces) -> Option<Instant> {
        self.next(places).map(|((due, _), _)| due)
    }

    /// The next retry for which there is a place, and whether it is a slow one.
    fn next(&self, places: RetryPlaces) -> Option<((Instant, u64), bool)> {
        let first = |retries: &Retries| retries.first_key_value().map(|(&at, _)| at);
        let quick = first(&self.retries).map(|at| (at, false));
        let slow = first(&self.slow_retries).filter(|_| places.has_slow).map(|at| (at, true));
        quick.into_iter().chain(slow).min().filter(|_| places.has_any)
    }

    fn retries(&mut self, is_slow: bool) -> &mut Retries {
        if is_slow { &mut self.slow_retries } else { &mut self.retries }
    }

    /// Adds an event. Returns it if there is no room for it.
    #[must_use = "it must be logged"]
    pub(super) fn add(&mut self, event: Event<T>, now: Instant) -> Option<Event<T>> {
        let key = event.key().clone();
        let change = Change { event, old_failures: 0 };
        let known = match self.keys.entry(key.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let is_full = self.past >= PAST_MAX && self.ready.len() >= PAST_MAX;
                if change.is_past() && is_full {
                    return Some(change.event);
                }
                self.past += usize::from(change.is_past());
                let state = State::Ready { number: self.next_number };
                unknown.insert(Key { changes: vec![change], failures: 0, state, early_from: now });
                self.ready.insert(self.next_number, key);
                self.next_number += 1;
                return None;
            }
        };
        let is_undecodable = known.state == State::Undecodable;
        let dropped = append(&mut known.changes, change, is_undecodable, &mut self.past);
        let (state, is_empty) = (known.state, known.changes.is_empty());
        match state {
            State::Undecodable if is_empty => drop(self.keys.remove(&key)),
            State::Undecodable => {
                known.state = State::Ready { number: self.next_number };
                self.ready.insert(self.next_number, key);
                self.next_number += 1;
            }
            State::Ready { number } if is_empty => {
                self.ready.remove(&number);
                self.keys.remove(&key);
            }
            State::Retry { at, is_slow } if is_empty => {
                self.retries(is_slow).remove(&at);
                self.keys.remove(&key);
            }
            State::Retry { at: (due, number), is_slow } => {
                let earlier = known.earlier(due, now);
                known.state = State::Retry { at: (earlier, number), is_slow };
                let retries = self.retries(is_slow);
                retries.remove(&(due, number));
                retries.insert((earlier, number), key);
            }
            State::Ready { .. } | State::Running => {}
        }
        dropped
    }

    /// Takes the events of a key that is due: of one that was not tried, or of one that is due
    /// again.
    pub(super) fn take_due(&mut self, now: Instant, places: RetryPlaces) -> Option<Due<T>> {
        let (kind, key) = match self.next(places).filter(|((due, _), _)| *due <= now) {
            Some((at, is_slow)) => {
                let kind = if is_slow { DueKind::SlowRetry } else { DueKind::Retry };
                (kind, self.retries(is_slow).remove(&at)?)
            }
            None => (DueKind::First, self.ready.pop_first()?.1),
        };
        let known = self.keys.get_mut(&key).expect("a key that is due must be known");
        known.state = State::Running;
        let (changes, failures) = (std::mem::take(&mut known.changes), known.failures);
        self.past -= past_of(&changes);
        Some(Due { key, changes, failures, kind })
    }

    /// Ends what [`take_due`](Self::take_due) has begun, with the events that are still to be
    /// mapped. They are tried again as `retry` says, earlier if there is a new event, or, if it is
    /// `None`, when the next event comes: then none of them decodes. Returns those for which there
    /// is no room.
    #[must_use = "they must be logged"]
    pub(super) fn settle(
        &mut self,
        key: &ObjectKey,
        left: Vec<Change<T>>,
        retry: Option<Retry>,
        now: Instant,
    ) -> Vec<Event<T>> {
        let known = self.keys.get_mut(key).expect("a key that is mapped must be known");
        let later = std::mem::take(&mut known.changes);
        self.past -= past_of(&later);
        let (has_later, mut is_undecodable) = (!later.is_empty(), retry.is_none());
        let mut dropped = Vec::new();
        for change in left {
            dropped.extend(append(&mut known.changes, change, false, &mut self.past));
        }
        for change in later {
            dropped.extend(append(&mut known.changes, change, is_undecodable, &mut self.past));
            is_undecodable = false;
        }
        known.failures = if retry.is_some() { known.failures.saturating_add(1) } else { 0 };
        if known.changes.is_empty() {
            self.keys.remove(key);
        } else if let Some(Retry { at: due, is_slow }) = retry {
            let due = if has_later { known.earlier(due, now) } else { due };
            let at = (due, self.next_number);
            self.next_number += 1;
            known.state = State::Retry { at, is_slow };
            self.retries(is_slow).insert(at, key.clone());
        } else if has_later {
            known.state = State::Ready { number: self.next_number };
            self.ready.insert(self.next_number, key.clone());
            self.next_number += 1;
        } else {
            known.state = State::Undecodable;
        }
        dropped
    }
}

impl<T> Key<T> {
    /// When the key, which waits until `due`, is tried after a new event.
    fn earlier(&mut self, due: Instant, now: Instant) -> Instant {
        let earlier = now.max(self.early_from);
        if earlier >= due {
            return due;
        }
        self.early_from = earlier + EARLY_PERIOD;
        earlier
    }
}

impl<T> Change<T> {
    pub(super) fn is_deletion(&self) -> bool {
        matches!(self.event, Event::Deleted { .. })
    }

    /// Whether the new version of an update is mapped, and it waits only for the old one.
    pub(super) fn is_for_old(&self) -> bool {
        self.old_failures > 0
    }

    /// Whether the event holds only what is not in the cache any more.
    pub(super) fn is_past(&self) -> bool {
        self.is_deletion() || self.is_for_old()
    }
}

fn past_of<T>(changes: &[Change<T>]) -> usize {
    changes.iter().filter(|change| change.is_past()).count()
}

/// Adds an event to those of its key. Returns it if too many wait that are of the past.
fn append<T>(
    changes: &mut Vec<Change<T>>,
    change: Change<T>,
    is_last_undecodable: bool,
    past: &mut usize,
) -> Option<Event<T>> {
    let change = match changes.pop_if(|last| !last.is_for_old()) {
        None => change,
        Some(last) => {
            let (separate, merged) = merge(last, change, is_last_undecodable);
            changes.extend(separate);
            merged
        }
    };
    if change.is_past() {
        if *past >= PAST_MAX {
            return Some(change.event);
        }
        *past += 1;
    }
    changes.push(change);
    None
}

/// Merges two events of one key. Returns the first by itself if both have to be mapped.
fn merge<T>(
    earlier: Change<T>,
    later: Change<T>,
    is_earlier_undecodable: bool,
) -> (Option<Change<T>>, Change<T>) {
    let is_resync = earlier.event.is_resync() || later.event.is_resync();
    let event = match (earlier.event, later.event) {
        // Nothing was ever mapped of it that decodes.
        (Event::Added { initial, .. }, Event::Updated { new: object, .. })
            if is_earlier_undecodable =>
        {
            Event::Added { object, initial }
        }
        (added @ Event::Added { .. }, later) if later.is_resync() => added,
        (Event::Added { object: old, .. }, Event::Updated { new, .. }) => {
            Event::Updated { old, new, merged: true }
        }
        (
            Event::Updated { old, merged: is_merged, .. },
            Event::Updated { new, merged: is_next_merged, .. },
        ) => {
            let merged = is_merged || is_next_merged || !is_resync;
            Event::Updated { old, new, merged }
        }
        // The last version that decodes says more than the one that does not.
        (Event::Updated { old: object, .. }, Event::Deleted { .. }) if is_earlier_undecodable => {
            Event::Deleted { object, state: FinalState::LastKnown }
        }
        (Event::Added { .. } | Event::Updated { .. }, deleted @ Event::Deleted { .. }) => deleted,
        (one, other) => {
            let change = |event| Change { event, old_failures: 0 };
            return (Some(change(one)), change(other));
        }
    };
    (None, Change { event, old_failures: 0 })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};
    use windlass_indexer::{Cached, Store};

    use super::*;

    const ANY: RetryPlaces = RetryPlaces { has_any: true, has_slow: true };
    const NONE: RetryPlaces = RetryPlaces { has_any: false, has_slow: false };

    #[expect(clippy::unnecessary_wraps, reason = "as it is passed on")]
    fn retry(at: Instant) -> Option<Retry> {
        Some(Retry { at, is_slow: false })
    }

    fn object(name: &str, version: u64) -> Cached<Value> {
        let mut store = Store::new();
        let metadata = json!({"name": name, "uid": name, "resourceVersion": version.to_string()});
        let object = json!({"metadata": metadata}).to_string();
        store.put_bytes(object.as_bytes()).expect("an object");
        let lister = store.reader().lister().expect("a lister");
        lister.handle(store.reader().get(name).expect("it is there"))
    }

    fn added(name: &str, version: u64) -> Event<Value> {
        Event::Added { object: object(name, version), initial: false }
    }

    fn updated(name: &str, version: u64) -> Event<Value> {
        let (old, new) = (object(name, version - 1), object(name, version));
        Event::Updated { old, new, merged: false }
    }

    fn deleted(name: &str, version: u64) -> Event<Value> {
        Event::Deleted { object: object(name, version), state: FinalState::Final }
    }

    /// The events; those that merged have a star.
    fn shown(changes: &[Change<Value>]) -> String {
        let is_merged =
            |change: &Change<Value>| matches!(change.event, Event::Updated { merged: true, .. });
        let star = |change| if is_merged(change) { "*" } else { "" };
        let changes = changes.iter().map(|change| format!("{:?}{}", change.event, star(change)));
        changes.collect::<Vec<_>>().join(" ")
    }

    /// Tries what is due, in vain.
    fn fail(unmapped: &mut Unmapped<Value>, now: Instant) -> usize {
        let due = unmapped.take_due(now, ANY).expect("something is due");
        unmapped.settle(&due.key, due.changes, retry(now + Duration::from_secs(1)), now).len()
    }

    fn add(unmapped: &mut Unmapped<Value>, event: Event<Value>, now: Instant) {
        assert!(unmapped.add(event, now).is_none(), "there is room");
    }

    #[tokio::test(start_paused = true)]
    async fn events_of_a_key_merge_while_it_waits_and_nothing_vanishes() {
        let (mut unmapped, now) = (Unmapped::new(), Instant::now());
        add(&mut unmapped, updated("a", 2), now);
        fail(&mut unmapped, now);
        add(&mut unmapped, updated("a", 3), now);
        fail(&mut unmapped, now);
        add(&mut unmapped, deleted("a", 4), now);
        add(&mut unmapped, added("a", 5), now);
        add(&mut unmapped, updated("a", 6), now);
        assert!(unmapped.take_due(now, ANY).is_none(), "it waits");
        let later = now + Duration::from_secs(1);
        assert!(unmapped.take_due(later, NONE).is_none(), "there is no place for it");
        let due = unmapped.take_due(later, ANY).expect("it is due");
        assert_eq!(shown(&due.changes), "Deleted(a 4, Final) Updated(a 5 → 6)*");
        assert_eq!((due.failures, due.kind), (2, DueKind::Retry));
        // What was mapped is what the next one begins with.
        add(&mut unmapped, updated("a", 7), now);
        assert!(unmapped.settle(&due.key, Vec::new(), None, now).is_empty());
        let due = unmapped.take_due(later, ANY).expect("it was not tried");
        assert_eq!(shown(&due.changes), "Updated(a 6 → 7)");
        assert_eq!((due.failures, due.kind), (0, DueKind::First));
        // It came and went while the one before was mapped.
        add(&mut unmapped, deleted("a", 8), now);
        add(&mut unmapped, added("a", 9), now);
        add(&mut unmapped, deleted("a", 10), now);
        assert!(unmapped.settle(&due.key, due.changes, retry(later), now).is_empty());
        let due = unmapped.take_due(later, ANY).expect("it is due");
        assert_eq!(shown(&due.changes), "Deleted(a 8, Final) Deleted(a 10, Final)");
        assert!(unmapped.settle(&due.key, Vec::new(), None, now).is_empty());
        assert!(unmapped.keys.is_empty() && unmapped.retries.is_empty());
        assert_eq!(unmapped.past, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn new_event_makes_a_key_due_earlier_but_not_all_the_time() {
        let (mut unmapped, began) = (Unmapped::new(), Instant::now());
        add(&mut unmapped, added("a", 1), began);
        let mut tried = 0;
        // It changes each second, and the mapper asks for an hour.
        for second in 0..600 {
            let now = began + Duration::from_secs(second);
            add(&mut unmapped, updated("a", second + 2), now);
            while let Some(due) = unmapped.take_due(now, ANY) {
                tried += 1;
                let retry_at = retry(now + Duration::from_hours(1));
                // Also what comes while it is mapped.
                add(&mut unmapped, updated("a", second + 2), now);
                assert!(unmapped.settle(&due.key, due.changes, retry_at, now).is_empty());
            }
        }
        assert_eq!(tried, 1 + 600 / EARLY_PERIOD.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn update_that_waits_for_its_old_version_merges_with_nothing() {
        let (mut unmapped, now) = (Unmapped::new(), Instant::now());
        for version in 2..5 {
            add(&mut unmapped, updated("a", version), now);
            add(&mut unmapped, updated("a", version + 1), now);
            let mut due = unmapped.take_due(now + EARLY_PERIOD, ANY).expect("it is due");
            due.changes.iter_mut().for_each(|change| change.old_failures += 1);
            assert!(unmapped.settle(&due.key, due.changes, retry(now), now).is_empty());
        }
        add(&mut unmapped, deleted("a", 6), now);
        assert_eq!(unmapped.past, 4);
        let due = unmapped.take_due(now, ANY).expect("it is due");
        let changes = "Updated(a 1 → 3)* Updated(a 2 → 4)* Updated(a 3 → 5)* Deleted(a 6, Final)";
        assert_eq!(shown(&due.changes), changes);
        assert_eq!(unmapped.past, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn flood_of_deletions_that_fail_is_bounded_and_what_exists_stays() {
        let (mut unmapped, now) = (Unmapped::new(), Instant::now());
        for number in 0..100 {
            add(&mut unmapped, added(&format!("there-{number}"), 1), now);
            fail(&mut unmapped, now);
        }
        let mut dropped = 0;
        for number in 0..PAST_MAX + 50 {
            // Each has its attempt, however many wait.
            add(&mut unmapped, deleted(&format!("gone-{number}"), 2), now);
            dropped += fail(&mut unmapped, now);
        }
        assert_eq!((dropped, unmapped.past), (50, PAST_MAX));
        // The same name, again and again.
        for version in 0..50 {
            let gone = unmapped.add(deleted("there-0", 10 + 2 * version), now);
            assert!(gone.is_some_and(|event| event.key().name() == "there-0"));
            add(&mut unmapped, added("there-0", 11 + 2 * version), now);
        }
        assert_eq!((unmapped.keys.len(), unmapped.past), (PAST_MAX + 100, PAST_MAX));
        let mut tried = 0;
        while let Some(due) = unmapped.take_due(now + Duration::from_secs(1), ANY) {
            tried += due.changes.len();
            assert!(unmapped.settle(&due.key, Vec::new(), None, now).is_empty());
        }
        assert_eq!((tried, unmapped.past), (PAST_MAX + 100, 0));
        assert!(unmapped.keys.is_empty());
    }

    /// As on a standby, whose handlers add what their mappers panic on.
    #[tokio::test(start_paused = true)]
    async fn flood_of_names_that_come_and_go_is_bounded_while_nobody_takes_them() {
        let (mut unmapped, now) = (Unmapped::new(), Instant::now());
        let mut dropped = 0;
        for number in 0..2 * PAST_MAX {
            let name = format!("gone-{number}");
            if number % 2 == 0 {
                add(&mut unmapped, added(&name, 1), now);
            }
            dropped += usize::from(unmapped.add(deleted(&name, 2), now).is_some());
        }
        assert_eq!((dropped, unmapped.past), (PAST_MAX, PAST_MAX));
        assert_eq!((unmapped.keys.len(), unmapped.ready.len()), (PAST_MAX, PAST_MAX));
        // What exists is bounded by the cache.
        add(&mut unmapped, added("there", 1), now);
        let mut tried = 0;
        while let Some(due) = unmapped.take_due(now, ANY) {
            tried += due.changes.len();
            assert!(unmapped.settle(&due.key, Vec::new(), None, now).is_empty());
        }
        assert_eq!((tried, unmapped.past), (PAST_MAX + 1, 0));
        assert!(unmapped.keys.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn key_that_waits_is_forgotten_if_its_last_event_is_dropped() {
        let (mut unmapped, now) = (Unmapped::new(), Instant::now());
        add(&mut unmapped, added("there", 1), now);
        fail(&mut unmapped, now);
        for number in 0..PAST_MAX {
            add(&mut unmapped, deleted(&format!("gone-{number}"), 2), now);
        }
        assert!(unmapped.add(deleted("there", 2), now).is_some(), "too many");
        assert_eq!((unmapped.waiting(), unmapped.keys.len()), (0, PAST_MAX));
    }
}
