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
//! The events of a key are a list, in order, and a new one merges with the last of them: an addition
//! or an update with a later update or deletion. So a key has at most one event of an object that
//! exists, and the deletions of its predecessors. Their number is bounded for all keys together,
//! because names that come and go are not: beyond [`DELETIONS_MAX`], a deletion that cannot be
//! mapped at once is dropped.
//!
//! An event whose object does not decode stays, without being tried, until the next event of its
//! key. So what is mapped then begins with the last version that did decode.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};

use foldhash::fast::RandomState;
use tokio::time::Instant;
use windlass_indexer::ObjectKey;
use windlass_informer::{Event, FinalState};

/// How many deletions wait at most. What exists is bounded by the cache, which holds it anyway.
pub(super) const DELETIONS_MAX: usize = 10_000;

/// The events that are not mapped yet.
pub(super) struct Unmapped<T> {
    /// Hashed with a random seed, because tenants choose the names.
    keys: HashMap<ObjectKey, Key<T>, RandomState>,
    /// The keys that are [`State::Ready`].
    ready: VecDeque<ObjectKey>,
    /// The keys that are [`State::Retry`], by the time at which they are due, and then in the order
    /// in which they failed.
    retries: BTreeMap<(Instant, u64), ObjectKey>,
    next_number: u64,
    /// How many of the events are deletions.
    deletions: usize,
}

struct Key<T> {
    events: Vec<Event<T>>,
    /// How often it has failed in a row.
    failures: u32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its events were not tried.
    Ready,
    /// What was known is being mapped. Its events are those that came since.
    Running,
    /// It waits after a failure.
    Retry,
    /// Its object does not decode.
    Undecodable,
}

/// A key whose events are to be mapped, in order.
pub(super) struct Due<T> {
    pub(super) key: ObjectKey,
    pub(super) events: Vec<Event<T>>,
    /// How often it has failed in a row.
    pub(super) failures: u32,
    /// Whether it has waited after a failure.
    pub(super) is_retry: bool,
}

impl<T> Unmapped<T> {
    pub(super) fn new() -> Self {
        Self {
            keys: HashMap::default(),
            ready: VecDeque::new(),
            retries: BTreeMap::new(),
            next_number: 0,
            deletions: 0,
        }
    }

    /// How many keys wait after a failure.
    pub(super) fn waiting(&self) -> usize {
        self.retries.len()
    }

    /// When the next of them is due.
    pub(super) fn next_retry(&self) -> Option<Instant> {
        self.retries.first_key_value().map(|(&(due, _), _)| due)
    }

    /// Adds an event. Returns it if there is no room for it.
    #[must_use = "it must be logged"]
    pub(super) fn add(&mut self, event: Event<T>) -> Option<Event<T>> {
        let key = event.key().clone();
        let known = match self.keys.entry(key.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                self.deletions += usize::from(is_deletion(&event));
                let state = State::Ready;
                unknown.insert(Key { events: vec![event], failures: 0, state });
                self.ready.push_back(key);
                return None;
            }
        };
        let is_undecodable = known.state == State::Undecodable;
        if is_undecodable {
            known.state = State::Ready;
            self.ready.push_back(key);
        }
        append(&mut known.events, event, is_undecodable, &mut self.deletions)
    }

    /// Takes the events of a key that is due: of one that was not tried, or of one that is due
    /// again.
    pub(super) fn take_due(&mut self, now: Instant, may_retry: bool) -> Option<Due<T>> {
        let retry = self.retries.first_entry();
        let retry = retry.filter(|retry| may_retry && retry.key().0 <= now);
        let is_retry = retry.is_some();
        let key = match retry {
            Some(retry) => retry.remove(),
            None => self.ready.pop_front()?,
        };
        let known = self.keys.get_mut(&key).expect("a key that is due must be known");
        known.state = State::Running;
        let (events, failures) = (std::mem::take(&mut known.events), known.failures);
        self.deletions -= deletions_of(&events);
        Some(Due { key, events, failures, is_retry })
    }

    /// Ends what [`take_due`](Self::take_due) has begun, with the events that are still to be
    /// mapped. They are tried again at `retry_at`, or, if that is `None`, when the next event comes:
    /// then none of them decodes. Returns those for which there is no room.
    #[must_use = "they must be logged"]
    pub(super) fn settle(
        &mut self,
        key: &ObjectKey,
        left: Vec<Event<T>>,
        retry_at: Option<Instant>,
    ) -> Vec<Event<T>> {
        let known = self.keys.get_mut(key).expect("a key that is mapped must be known");
        let later = std::mem::take(&mut known.events);
        self.deletions -= deletions_of(&later);
        let (has_later, is_undecodable) = (!later.is_empty(), retry_at.is_none());
        let mut dropped = Vec::new();
        for event in left {
            dropped.extend(append(&mut known.events, event, false, &mut self.deletions));
        }
        for (index, event) in later.into_iter().enumerate() {
            let is_undecodable = is_undecodable && index == 0;
            dropped.extend(append(&mut known.events, event, is_undecodable, &mut self.deletions));
        }
        known.failures = if retry_at.is_some() { known.failures.saturating_add(1) } else { 0 };
        if known.events.is_empty() {
            self.keys.remove(key);
        } else if let Some(due) = retry_at {
            known.state = State::Retry;
            self.retries.insert((due, self.next_number), key.clone());
            self.next_number += 1;
        } else if has_later {
            known.state = State::Ready;
            self.ready.push_back(key.clone());
        } else {
            known.state = State::Undecodable;
        }
        dropped
    }
}

/// Adds an event to those of its key. Returns it if too many deletions wait.
fn append<T>(
    events: &mut Vec<Event<T>>,
    event: Event<T>,
    is_last_undecodable: bool,
    deletions: &mut usize,
) -> Option<Event<T>> {
    let event = match events.pop() {
        None => event,
        Some(last) => {
            let (separate, merged) = merge(last, event, is_last_undecodable);
            events.extend(separate);
            merged
        }
    };
    if is_deletion(&event) {
        if *deletions >= DELETIONS_MAX {
            return Some(event);
        }
        *deletions += 1;
    }
    events.push(event);
    None
}

/// Merges two events of one key. Returns the first by itself if both have to be mapped.
///
/// Unlike in the backlog of a handler, nothing vanishes: an object that came and went may have been
/// seen by a run meanwhile.
fn merge<T>(
    earlier: Event<T>,
    later: Event<T>,
    is_earlier_undecodable: bool,
) -> (Option<Event<T>>, Event<T>) {
    match (earlier, later) {
        (Event::Added { initial, .. }, Event::Updated { new: object, .. }) => {
            (None, Event::Added { object, initial })
        }
        (Event::Updated { old, .. }, Event::Updated { new, .. }) => {
            (None, Event::Updated { old, new })
        }
        // The last version that decodes says more than the one that does not.
        (Event::Updated { old: object, .. }, Event::Deleted { .. }) if is_earlier_undecodable => {
            (None, Event::Deleted { object, state: FinalState::LastKnown })
        }
        (Event::Added { .. } | Event::Updated { .. }, deleted @ Event::Deleted { .. }) => {
            (None, deleted)
        }
        (earlier, later) => (Some(earlier), later),
    }
}

fn is_deletion<T>(event: &Event<T>) -> bool {
    matches!(event, Event::Deleted { .. })
}

fn deletions_of<T>(events: &[Event<T>]) -> usize {
    events.iter().filter(|event| is_deletion(event)).count()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};
    use windlass_indexer::{Cached, Store};

    use super::*;

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
        Event::Updated { old: object(name, version - 1), new: object(name, version) }
    }

    fn deleted(name: &str, version: u64) -> Event<Value> {
        Event::Deleted { object: object(name, version), state: FinalState::Final }
    }

    fn shown(events: &[Event<Value>]) -> String {
        let events: Vec<_> = events.iter().map(|event| format!("{event:?}")).collect();
        events.join(" ")
    }

    /// Tries what is due, in vain.
    fn fail(unmapped: &mut Unmapped<Value>, now: Instant) -> usize {
        let due = unmapped.take_due(now, true).expect("something is due");
        unmapped.settle(&due.key, due.events, Some(now + Duration::from_secs(1))).len()
    }

    fn add(unmapped: &mut Unmapped<Value>, event: Event<Value>) {
        assert!(unmapped.add(event).is_none(), "there is room");
    }

    #[tokio::test(start_paused = true)]
    async fn events_of_a_key_merge_while_it_waits_and_nothing_vanishes() {
        let (mut unmapped, now) = (Unmapped::new(), Instant::now());
        add(&mut unmapped, updated("a", 2));
        fail(&mut unmapped, now);
        add(&mut unmapped, updated("a", 3));
        add(&mut unmapped, deleted("a", 4));
        add(&mut unmapped, added("a", 5));
        add(&mut unmapped, updated("a", 6));
        assert!(unmapped.take_due(now, true).is_none(), "it waits");
        let later = now + Duration::from_secs(1);
        assert!(unmapped.take_due(later, false).is_none(), "there is no place for it");
        let due = unmapped.take_due(later, true).expect("it is due");
        assert_eq!(shown(&due.events), "Deleted(a 4, Final) Added(a 6)");
        assert_eq!((due.failures, due.is_retry), (1, true));
        // What was mapped is what the next one begins with.
        add(&mut unmapped, updated("a", 7));
        assert!(unmapped.settle(&due.key, Vec::new(), None).is_empty());
        let due = unmapped.take_due(later, true).expect("it was not tried");
        assert_eq!(shown(&due.events), "Updated(a 6 → 7)");
        assert_eq!((due.failures, due.is_retry), (0, false));
        // It came and went while the one before was mapped.
        add(&mut unmapped, deleted("a", 8));
        add(&mut unmapped, added("a", 9));
        add(&mut unmapped, deleted("a", 10));
        assert!(unmapped.settle(&due.key, due.events, Some(later)).is_empty());
        let due = unmapped.take_due(later, true).expect("it is due");
        assert_eq!(shown(&due.events), "Deleted(a 8, Final) Deleted(a 10, Final)");
        assert!(unmapped.settle(&due.key, Vec::new(), None).is_empty());
        assert!(unmapped.keys.is_empty() && unmapped.retries.is_empty());
        assert_eq!(unmapped.deletions, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn flood_of_deletions_that_fail_is_bounded_and_what_exists_stays() {
        let (mut unmapped, now) = (Unmapped::new(), Instant::now());
        for number in 0..100 {
            add(&mut unmapped, added(&format!("there-{number}"), 1));
            fail(&mut unmapped, now);
        }
        let mut dropped = 0;
        for number in 0..DELETIONS_MAX + 50 {
            // Each has its attempt, however many wait.
            add(&mut unmapped, deleted(&format!("gone-{number}"), 2));
            dropped += fail(&mut unmapped, now);
        }
        assert_eq!((dropped, unmapped.deletions), (50, DELETIONS_MAX));
        // The same name, again and again.
        for version in 0..50 {
            let gone = unmapped.add(deleted("there-0", 10 + 2 * version));
            assert!(gone.is_some_and(|event| event.key().name() == "there-0"));
            add(&mut unmapped, added("there-0", 11 + 2 * version));
        }
        assert_eq!((unmapped.keys.len(), unmapped.deletions), (DELETIONS_MAX + 100, DELETIONS_MAX));
        let mut tried = 0;
        while let Some(due) = unmapped.take_due(now + Duration::from_secs(1), true) {
            tried += due.events.len();
            assert!(unmapped.settle(&due.key, Vec::new(), None).is_empty());
        }
        assert_eq!((tried, unmapped.deletions), (DELETIONS_MAX + 100, 0));
        assert!(unmapped.keys.is_empty());
    }
}
