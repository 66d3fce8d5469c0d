//! The line of ready keys: three priorities, each a plain FIFO or groups that take turns.
//!
//! ```text
//!   High    [a b c]            Plain: each level is one FIFO.
//!   Normal  [d]
//!   Low     [e f]
//!
//!   Normal  turns: team-1, team-2        Fair: each level is a ring of groups, each a FIFO.
//!             team-1 [d h]               A group that has had its turn goes to the end.
//!             team-2 [g]
//! ```
//!
//! A key that moves to another level leaves a stale place behind. A push to a FIFO whose stale
//! places outnumber the others by more than 64 removes them.

use std::collections::VecDeque;

use hashlink::LinkedHashMap;
use tokio::time::Instant;

use crate::priority::{Group, Priority};
use crate::slots::{NextRunState, Place, SlotId, Slots};

/// By how many the stale places of a FIFO may outnumber the others.
const STALE_TOLERATED: usize = 64;

/// What happens to the turn of a group when its first key is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The key is handed out, and the next group has its turn.
    Ends,
    /// The key is passed over, and its group keeps its turn.
    Stays,
}

#[derive(Debug)]
pub(crate) struct Line {
    /// By priority, the lowest first.
    levels: [Level; Priority::ALL.len()],
}

#[derive(Debug)]
enum Level {
    Plain(Fifo),
    Fair(Fair),
}

#[derive(Debug, Default)]
struct Fifo {
    places: VecDeque<Place>,
    /// How many of the places are not stale.
    live: usize,
}

/// Groups that take turns. A group without a live place is dropped. If it gets a key again, it
/// starts at the end of the ring, or at the front if that key was passed over.
#[derive(Debug, Default)]
struct Fair {
    /// The groups in the order of their turns.
    ring: LinkedHashMap<Group, Fifo, foldhash::fast::RandomState>,
    /// All places in the order of their arrival, to find the oldest.
    ages: Fifo,
}

impl Line {
    pub(crate) fn new(fair: bool) -> Self {
        let level =
            || if fair { Level::Fair(Fair::default()) } else { Level::Plain(Fifo::default()) };
        Self { levels: [level(), level(), level()] }
    }

    /// Puts a key at the end of a level. A fair line needs its group.
    pub(crate) fn push_back<K, C>(
        &mut self,
        level: Priority,
        group: Option<Group>,
        place: Place,
        slots: &Slots<K, C>,
    ) {
        match &mut self.levels[level as usize] {
            Level::Plain(fifo) => fifo.push_back(place, slots),
            Level::Fair(fair) => fair.push_back(expect_group(group), place, slots),
        }
    }

    /// Puts a key first in a level or, with groups, first in its group, whose turn does not change.
    pub(crate) fn push_front(&mut self, level: Priority, group: Option<Group>, place: Place) {
        match &mut self.levels[level as usize] {
            Level::Plain(fifo) => fifo.push_front(place),
            Level::Fair(fair) => fair.push_front(expect_group(group), place),
        }
    }

    /// Notes that a key has left its place at `level`. Its slot must already have another ticket.
    pub(crate) fn note_stale(&mut self, level: Priority, group: Option<Group>) {
        match &mut self.levels[level as usize] {
            Level::Plain(fifo) => fifo.live -= 1,
            Level::Fair(fair) => fair.note_stale(expect_group(group)),
        }
    }

    /// The first key of the highest level that has one, and that level.
    pub(crate) fn first<K, C>(&mut self, slots: &Slots<K, C>) -> Option<(Priority, SlotId)> {
        let level = self.top()?;
        let place = match &mut self.levels[level as usize] {
            Level::Plain(fifo) => fifo.first(slots),
            Level::Fair(fair) => fair.first(slots),
        };
        Some((level, place.expect("a level with a live place must have a first one").id))
    }

    /// Takes out what [`first`](Self::first) has just returned.
    pub(crate) fn pop_first(&mut self, level: Priority, turn: Turn) {
        match &mut self.levels[level as usize] {
            Level::Plain(fifo) => fifo.pop_first(),
            Level::Fair(fair) => fair.pop_first(turn),
        }
    }

    /// The first key by age at `level`, if it has been there for `aging` or longer.
    ///
    /// Usually it is the oldest. But a key that was passed over goes to the front when its run
    /// ends, and it may have come to this level later than the keys behind it. These do not age
    /// before that key was handed out or has aged itself.
    pub(crate) fn aged<K, C>(
        &mut self,
        level: Priority,
        aging: std::time::Duration,
        now: Instant,
        slots: &Slots<K, C>,
    ) -> Option<SlotId> {
        let ages = match &mut self.levels[level as usize] {
            Level::Plain(fifo) => fifo,
            Level::Fair(fair) => &mut fair.ages,
        };
        let first = ages.first(slots)?.id;
        let NextRunState::InLine(ready) = slots[first].next_run else {
            unreachable!("a key with a live place must be in line");
        };
        (now.saturating_duration_since(ready.level_since) >= aging).then_some(first)
    }

    /// Whether no key is in line.
    pub(crate) fn is_empty(&self) -> bool {
        self.top().is_none()
    }

    /// Whether keys of two levels or more are in line. Only then can one starve.
    pub(crate) fn is_mixed(&self) -> bool {
        self.levels.iter().filter(|level| level.live() > 0).count() > 1
    }

    /// The highest level that has a key.
    fn top(&self) -> Option<Priority> {
        Priority::ALL.into_iter().rev().find(|&level| self.levels[level as usize].live() > 0)
    }
}

impl Level {
    fn live(&self) -> usize {
        match self {
            Self::Plain(fifo) => fifo.live,
            Self::Fair(fair) => fair.ages.live,
        }
    }
}

fn expect_group(group: Option<Group>) -> Group {
    group.expect("a key in a fair line must have a group")
}

impl Fifo {
    fn push_back<K, C>(&mut self, place: Place, slots: &Slots<K, C>) {
        if self.places.len() > 2 * self.live + STALE_TOLERATED {
            self.places.retain(|&place| slots.is_live(place));
        }
        self.live += 1;
        self.places.push_back(place);
    }

    fn push_front(&mut self, place: Place) {
        self.live += 1;
        self.places.push_front(place);
    }

    /// The first live place. Drops the stale ones before it.
    fn first<K, C>(&mut self, slots: &Slots<K, C>) -> Option<Place> {
        while let Some(&place) = self.places.front() {
            if slots.is_live(place) {
                return Some(place);
            }
            self.places.pop_front();
        }
        None
    }

    fn pop_first(&mut self) {
        self.live -= 1;
        self.places.pop_front();
    }
}

impl Fair {
    fn push_back<K, C>(&mut self, group: Group, place: Place, slots: &Slots<K, C>) {
        self.ages.push_back(place, slots);
        if !self.ring.contains_key(&group) {
            self.ring.insert(group, Fifo::default());
        }
        self.ring[&group].push_back(place, slots);
    }

    fn push_front(&mut self, group: Group, place: Place) {
        self.ages.push_front(place);
        if !self.ring.contains_key(&group) {
            self.ring.insert_front(group, Fifo::default());
        }
        self.ring[&group].push_front(place);
    }

    /// The first live place of the group whose turn it is.
    fn first<K, C>(&mut self, slots: &Slots<K, C>) -> Option<Place> {
        self.ring.front_entry()?.get_mut().first(slots)
    }

    fn pop_first(&mut self, turn: Turn) {
        let Some(mut first) = self.ring.front_entry() else { return };
        // The place stays in `ages`, where it is stale.
        self.ages.live -= 1;
        let fifo = first.get_mut();
        fifo.pop_first();
        if fifo.live == 0 {
            first.remove();
        } else if turn == Turn::Ends {
            first.to_back();
        }
    }

    fn note_stale(&mut self, group: Group) {
        self.ages.live -= 1;
        let fifo = self.ring.get_mut(&group).expect("a key's group must be in the ring");
        fifo.live -= 1;
        if fifo.live == 0 {
            self.ring.remove(&group);
        }
    }
}
