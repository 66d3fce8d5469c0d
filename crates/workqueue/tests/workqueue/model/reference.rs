//! The reference model: the queue's contract in the plainest structures, with no thought of speed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use proptest_state_machine::ReferenceStateMachine;
use windlass_workqueue::Priority;

pub(crate) type Key = u16;

/// Few keys, so that they collide all the time.
const KEYS: Key = 6;

/// How many other keys come and go in one step.
pub(crate) const PASSERS_BY: Key = 300;

/// Keys with the same remainder are a group.
pub(crate) const GROUPS: Key = 2;

/// Workers that wait at once.
const GETS_MAX: usize = 4;

/// Delays, clock steps and aging are multiples of this.
pub(crate) const TICK: Duration = Duration::from_millis(10);

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Add(Key),
    /// With a cause of its own.
    AddWith {
        key: Key,
        priority: Priority,
        ticks: u32,
    },
    /// Take a key without waiting.
    TryGet,
    /// Start to wait for a key; the wait goes on through later steps.
    StartGet,
    /// Give up one of the waits.
    CancelGet(usize),
    /// Drop one of the leases, or panic while holding it.
    Done {
        lease: usize,
        panic: bool,
    },
    /// End one of the leases as a failure that is tried again after a delay.
    Retry {
        lease: usize,
        ticks: u32,
    },
    Cancel(Key),
    /// Let many other keys come and go, at once or one after another, so that the queue's table
    /// grows and slots are reused.
    Churn {
        at_once: bool,
    },
    Advance(u32),
    /// Compare everything that can be asked. Not after every step, because asking makes ready what
    /// is due, and it must not matter when that happens.
    Look,
    ShutDown,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) fair: bool,
    pub(crate) aging: u32,
    now: u32,
    levels: [Level; 3],
    /// The place in line of each key that has one.
    places: BTreeMap<Key, Place>,
    /// Keys whose turn came while they ran, with the place they had.
    passed_over: BTreeMap<Key, Place>,
    waiting: BTreeMap<Key, Waits>,
    /// The causes of the next run of a key that have happened.
    causes: BTreeMap<Key, Vec<Cause>>,
    /// The priority that was asked for the next run of a key; age does not count.
    asked: BTreeMap<Key, Priority>,
    running: BTreeMap<Key, Run>,
    pub(crate) leases: Vec<Key>,
    pub(crate) gets: usize,
    pub(crate) shut_down: bool,
    /// The keys handed out by the last step, in order, with their causes.
    pub(crate) handed_out: Vec<(Key, Vec<Cause>)>,
    /// What the shut-down returned.
    pub(crate) given_up: Vec<Key>,
    drawn: i64,
    /// The last cause.
    pub(crate) caused: Cause,
}

/// Causes are numbered.
pub(crate) type Cause = u32;

#[derive(Clone, Debug)]
struct Run {
    causes: Vec<Cause>,
    priority: Priority,
}

/// Groups in the order of their turns; without fairness a single one.
type Level = Vec<(Key, Vec<Place>)>;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    key: Key,
    priority: Priority,
    /// Order of arrival at the level; negative for those put in front.
    order: i64,
    /// When the key came to this level.
    entered: u32,
}

#[derive(Clone, Debug)]
struct Waits {
    due: u32,
    order: i64,
    priority: Priority,
    /// What will have happened when it is due.
    timers: Vec<Cause>,
}

impl Model {
    pub(crate) fn ready(&self) -> usize {
        self.places.len() + self.passed_over.len()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The ticks until a waiting key is due.
    pub(crate) fn due_in(&self, key: Key) -> Option<u32> {
        self.waiting.get(&key).map(|waits| waits.due - self.now)
    }

    /// The causes that are shown of the next run of a key.
    pub(crate) fn causes_ahead(&self, key: Key) -> Vec<Cause> {
        let mut causes = self.causes.get(&key).cloned().unwrap_or_default();
        causes.extend(self.waiting.get(&key).iter().flat_map(|waits| &waits.timers));
        kept(&causes)
    }

    pub(crate) fn keys() -> impl Iterator<Item = Key> {
        0..KEYS
    }

    fn draw(&mut self) -> i64 {
        self.drawn += 1;
        self.drawn
    }

    fn group(&self, key: Key) -> Key {
        if self.fair { key % GROUPS } else { 0 }
    }

    /// A waiting entry is dropped, and with it what has not happened yet.
    fn add(&mut self, key: Key, priority: Priority) {
        self.ask(key, priority);
        let waited = self.waiting.remove(&key).map_or(Priority::Low, |waits| waits.priority);
        if let Some(passed) = self.passed_over.get_mut(&key) {
            if priority > passed.priority {
                passed.priority = priority;
                passed.entered = self.now;
            }
            return;
        }
        if self.places.get(&key).is_some_and(|place| place.priority >= priority) {
            return;
        }
        self.enter(key, priority.max(waited), self.now);
    }

    fn add_with(&mut self, key: Key, priority: Priority, ticks: u32, cause: Cause) {
        self.add_after(key, priority, ticks);
        if ticks == 0 {
            self.causes.entry(key).or_default().push(cause);
        } else if let Some(waits) = self.waiting.get_mut(&key) {
            waits.timers.push(cause);
        }
    }

    fn ask(&mut self, key: Key, priority: Priority) {
        let asked = self.asked.entry(key).or_insert(priority);
        *asked = priority.max(*asked);
    }

    fn add_after(&mut self, key: Key, priority: Priority, ticks: u32) {
        self.ask(key, priority);
        if ticks == 0 || self.places.contains_key(&key) || self.passed_over.contains_key(&key) {
            if ticks == 0 || self.priority_of(key) < priority {
                self.add(key, priority);
            }
            return;
        }
        let due = self.now + ticks;
        let order = self.draw();
        let new = Waits { due, order, priority, timers: Vec::new() };
        let waits = self.waiting.entry(key).or_insert(new);
        waits.priority = waits.priority.max(priority);
        if due < waits.due {
            waits.due = due;
            waits.order = order;
            waits.timers.clear();
        }
    }

    fn priority_of(&self, key: Key) -> Priority {
        let place = self.places.get(&key).or_else(|| self.passed_over.get(&key));
        place.map_or(Priority::Low, |place| place.priority)
    }

    /// To the end of the level, from wherever the key was in line.
    fn enter(&mut self, key: Key, priority: Priority, entered: u32) {
        let before = self.places.remove(&key);
        if let Some(before) = before {
            let level = &mut self.levels[before.priority as usize];
            for (_, places) in level.iter_mut() {
                places.retain(|place| *place != before);
            }
            level.retain(|(_, places)| !places.is_empty());
        }
        let place = Place { key, priority, order: self.draw(), entered };
        self.places.insert(key, place);
        let group = self.group(key);
        let level = &mut self.levels[priority as usize];
        match level.iter_mut().find(|(other, _)| *other == group) {
            Some((_, places)) => places.push(place),
            None => level.push((group, vec![place])),
        }
    }

    /// To the front of the level.
    fn enter_first(&mut self, passed: Place) {
        // With groups, it ages last.
        let order = if self.fair { self.draw() } else { -self.draw() };
        let place = Place { order, ..passed };
        self.places.insert(place.key, place);
        let group = self.group(place.key);
        let level = &mut self.levels[place.priority as usize];
        match level.iter_mut().find(|(other, _)| *other == group) {
            Some((_, places)) => places.insert(0, place),
            None => level.insert(0, (group, vec![place])),
        }
    }

    fn promote_due(&mut self) {
        let mut due: Vec<_> =
            self.waiting.iter().filter(|(_, waits)| waits.due <= self.now).collect();
        due.sort_by_key(|(_, waits)| (waits.due, waits.order));
        for key in due.into_iter().map(|(&key, _)| key).collect::<Vec<_>>() {
            let waits = self.waiting.remove(&key).expect("it was due");
            self.causes.entry(key).or_default().extend(waits.timers);
            self.enter(key, waits.priority, waits.due);
        }
    }

    fn age(&mut self) {
        let occupied: BTreeSet<_> = self.places.values().map(|place| place.priority).collect();
        if occupied.len() < 2 {
            return;
        }
        for (lower, upper) in
            [(Priority::Normal, Priority::High), (Priority::Low, Priority::Normal)]
        {
            let mut aged: Vec<Place> =
                self.places.values().copied().filter(|place| place.priority == lower).collect();
            aged.sort_by_key(|place| place.order);
            for place in aged {
                if place.entered + self.aging > self.now {
                    break;
                }
                self.enter(place.key, upper, self.now);
            }
        }
    }

    /// The next place. Its group goes to the end, unless the key runs and is passed over.
    fn pop(&mut self) -> Option<Place> {
        let level = self.levels.iter_mut().rev().find(|level| !level.is_empty())?;
        let (group, mut places) = level.remove(0);
        let place = places.remove(0);
        if !places.is_empty() {
            let turn = if self.running.contains_key(&place.key) { 0 } else { level.len() };
            level.insert(turn, (group, places));
        }
        self.places.remove(&place.key)
    }

    fn take(&mut self) -> bool {
        self.promote_due();
        self.age();
        while let Some(place) = self.pop() {
            if self.running.contains_key(&place.key) {
                self.passed_over.insert(place.key, place);
                continue;
            }
            let causes = self.causes.remove(&place.key).unwrap_or_default();
            let priority = self.asked.remove(&place.key).expect("somebody asked for it");
            self.leases.push(place.key);
            self.handed_out.push((place.key, kept(&causes)));
            self.running.insert(place.key, Run { causes, priority });
            return true;
        }
        false
    }

    /// The next run of a key that waited will not come.
    fn give_up(&mut self, key: Key) {
        self.causes.remove(&key);
        self.asked.remove(&key);
    }

    fn done(&mut self, lease: usize) {
        let key = self.leases.remove(lease);
        self.running.remove(&key);
        if let Some(passed) = self.passed_over.remove(&key) {
            self.enter_first(passed);
        }
    }

    /// The run is repeated with its causes, which have happened, before those of the next run.
    fn retry(&mut self, lease: usize, ticks: u32) {
        let key = self.leases[lease];
        if !self.shut_down {
            let Run { mut causes, priority } = self.running[&key].clone();
            let ahead = self.causes.entry(key).or_default();
            causes.append(ahead);
            *ahead = causes;
            self.add_after(key, priority, ticks);
        }
        self.done(lease);
    }

    /// Waiting gets take what there is; shut down and empty, they all end.
    fn serve_gets(&mut self) {
        if self.gets == 0 {
            return;
        }
        while self.gets > 0 && self.take() {
            self.gets -= 1;
        }
        if self.shut_down && self.ready() == 0 {
            self.gets = 0;
        }
    }
}

/// The first four and the last four.
fn kept(causes: &[Cause]) -> Vec<Cause> {
    if causes.len() <= 8 {
        return causes.to_vec();
    }
    [&causes[..4], &causes[causes.len() - 4..]].concat()
}

impl ReferenceStateMachine for Model {
    type State = Self;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Self> {
        (any::<bool>(), 1..20_u32)
            .prop_map(|(fair, aging)| Self { fair, aging, ..Self::default() })
            .boxed()
    }

    fn transitions(state: &Self) -> BoxedStrategy<Step> {
        let priority = prop::sample::select(Priority::ALL.to_vec());
        let add_with = (0..KEYS, priority, 0..12_u32);
        let mut steps = vec![
            (6, (0..KEYS).prop_map(Step::Add).boxed()),
            (
                6,
                add_with
                    .prop_map(|(key, priority, ticks)| Step::AddWith { key, priority, ticks })
                    .boxed(),
            ),
            (6, Just(Step::TryGet).boxed()),
            (2, (0..KEYS).prop_map(Step::Cancel).boxed()),
            (2, any::<bool>().prop_map(|at_once| Step::Churn { at_once }).boxed()),
            (4, (0..15_u32).prop_map(Step::Advance).boxed()),
            (4, Just(Step::Look).boxed()),
            (1, Just(Step::ShutDown).boxed()),
        ];
        if state.gets < GETS_MAX {
            steps.push((4, Just(Step::StartGet).boxed()));
        }
        if state.gets > 0 {
            steps.push((2, (0..state.gets).prop_map(Step::CancelGet).boxed()));
        }
        if !state.leases.is_empty() {
            let done = (0..state.leases.len(), prop::bool::weighted(0.2));
            steps.push((8, done.prop_map(|(lease, panic)| Step::Done { lease, panic }).boxed()));
            let retry = (0..state.leases.len(), 0..12_u32);
            steps.push((4, retry.prop_map(|(lease, ticks)| Step::Retry { lease, ticks }).boxed()));
        }
        prop::strategy::Union::new_weighted(steps).boxed()
    }

    /// Holds for what is drawn; a shortened sequence may have lost what a step needs.
    fn preconditions(state: &Self, step: &Step) -> bool {
        match step {
            Step::Done { lease, .. } | Step::Retry { lease, .. } => *lease < state.leases.len(),
            Step::CancelGet(get) => *get < state.gets,
            Step::StartGet => state.gets < GETS_MAX,
            _ => true,
        }
    }

    fn apply(mut state: Self, step: &Step) -> Self {
        state.handed_out.clear();
        if matches!(step, Step::AddWith { .. }) {
            state.caused += 1;
        }
        if matches!(step, Step::Add(_) | Step::AddWith { .. } | Step::Retry { .. }) {
            // What was due before goes before.
            state.promote_due();
        }
        match *step {
            Step::Add(key) if !state.shut_down => state.add(key, Priority::Normal),
            Step::AddWith { key, priority, ticks } if !state.shut_down => {
                state.add_with(key, priority, ticks, state.caused);
            }
            Step::Add(_) | Step::AddWith { .. } => {}
            Step::TryGet => drop(state.take()),
            Step::StartGet => state.gets += 1,
            Step::CancelGet(_) => state.gets -= 1,
            Step::Done { lease, .. } => state.done(lease),
            Step::Retry { lease, ticks } => state.retry(lease, ticks),
            Step::Cancel(key) => {
                state.promote_due();
                if state.waiting.remove(&key).is_some() {
                    state.give_up(key);
                }
            }
            Step::Advance(ticks) => state.now += ticks,
            Step::Churn { .. } if state.shut_down => {}
            Step::Churn { .. } | Step::Look => state.promote_due(),
            Step::ShutDown => {
                state.promote_due();
                let mut waiting: Vec<_> = std::mem::take(&mut state.waiting).into_iter().collect();
                waiting.sort_by_key(|(_, waits)| (waits.due, waits.order));
                for (key, _) in waiting {
                    state.give_up(key);
                    state.given_up.push(key);
                }
                state.shut_down = true;
            }
        }
        state.serve_gets();
        state
    }
}
