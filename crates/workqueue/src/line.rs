//! The line of ready keys: three priorities, each a plain FIFO or groups that take turns.
//!
//! ```text
//!   High    [a b c]            Line, plain: each level is one FIFO.
//!   Normal  [d]
//!   Low     [e f]
//!
//!   Normal  turns: team-1, team-2        Line, fair: each level is a ring of groups, each a FIFO;
//!             team-1 [d h]               a group that has had its turn goes to the end of the ring.
//!             team-2 [g]
//! ```
//!
//! Invariants. An entry is live while its ticket is its slot's; a key that moves draws a new ticket and
//! leaves the old entry behind as stale. Each FIFO has a count of its live entries, and is swept when most
//! are stale. A group with a live entry has exactly one turn in the ring, one without is gone, so a group that
//! comes back queues up at the end.

use std::collections::VecDeque;
use std::collections::hash_map::Entry as MapEntry;

use crate::clock::Stamp;
use crate::priority::{Group, Priority};
use crate::slots::{Pending, SlotId, Slots, Ticket};

/// Stale entries that are not worth a sweep.
const STALE_TOLERATED: usize = 64;

type GroupMap<V> = std::collections::HashMap<Group, V, foldhash::fast::RandomState>;

/// One key's place in the line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) id: SlotId,
    pub(crate) ticket: Ticket,
}

/// What becomes of a group's turn when its first key is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The key was handed out: the next group's turn comes.
    Ends,
    /// The key was passed over, which is no turn.
    Stays,
}

#[derive(Debug)]
pub(crate) struct Line {
    levels: [Level; Priority::ALL.len()],
}

#[derive(Debug)]
struct Level {
    live: usize,
    order: Order,
}

#[derive(Debug)]
enum Order {
    Fifo(VecDeque<Place>),
    Fair(Fair),
}

/// Groups that take turns.
#[derive(Debug, Default)]
struct Fair {
    groups: GroupMap<Members>,
    /// The groups in the order of their turns, each with the number of its turn. What differs from the
    /// number in `groups` is stale.
    turns: VecDeque<(Group, u64)>,
    next_turn: u64,
    /// All entries in the order in which they came, to find the oldest.
    ages: VecDeque<Place>,
    /// Emptied groups' buffers, to be used again.
    spare: Vec<VecDeque<Place>>,
}

/// The keys of one group. There is at least one live among them.
#[derive(Debug)]
struct Members {
    places: VecDeque<Place>,
    live: usize,
    turn: u64,
}

/// Buffers of emptied groups that are kept.
const SPARE_KEPT: usize = 64;

impl Place {
    fn is_live<K>(self, level: Priority, slots: &Slots<K>) -> bool {
        let slot = &slots[self.id];
        slot.pending == Pending::InLine && slot.ticket == self.ticket && slot.priority == level
    }
}

impl Line {
    pub(crate) fn new(fair: bool) -> Self {
        let level = || Level {
            live: 0,
            order: if fair { Order::Fair(Fair::default()) } else { Order::Fifo(VecDeque::new()) },
        };
        Self { levels: [level(), level(), level()] }
    }

    /// Puts a key at the end of its level; `group` counts in a fair line only.
    #[inline]
    pub(crate) fn push_back<K>(
        &mut self,
        level: Priority,
        group: Option<Group>,
        place: Place,
        slots: &Slots<K>,
    ) {
        let level_line = &mut self.levels[level as usize];
        level_line.live += 1;
        level_line.sweep_if_stale(level, slots);
        match (&mut level_line.order, group) {
            (Order::Fair(fair), Some(group)) => {
                fair.push_back(group, place, |place| place.is_live(level, slots));
            }
            (Order::Fifo(fifo), _) => fifo.push_back(place),
            (Order::Fair(_), None) => unreachable!("a fair line must be told the group"),
        }
    }

    /// Puts a key first in its level: its turn had come before.
    pub(crate) fn push_front(&mut self, level: Priority, group: Option<Group>, place: Place) {
        let level_line = &mut self.levels[level as usize];
        level_line.live += 1;
        match (&mut level_line.order, group) {
            (Order::Fair(fair), Some(group)) => fair.push_front(group, place),
            (Order::Fifo(fifo), _) => fifo.push_front(place),
            (Order::Fair(_), None) => unreachable!("a fair line must be told the group"),
        }
    }

    /// Notes that a key's entry at `level` has become stale, because the key has moved.
    pub(crate) fn note_stale(&mut self, level: Priority, group: Option<Group>) {
        let level_line = &mut self.levels[level as usize];
        level_line.live -= 1;
        if let (Order::Fair(fair), Some(group)) = (&mut level_line.order, group) {
            fair.lose_member(group);
        }
    }

    /// The first key of the highest level that has one, and that level.
    #[inline]
    pub(crate) fn first<K>(&mut self, slots: &Slots<K>) -> Option<(Priority, SlotId)> {
        let level = self.top()?;
        let place = self.levels[level as usize].first(level, slots);
        Some((level, place.expect("a level with a live entry must have a first").id))
    }

    /// Takes out what [`first`](Self::first) has just returned.
    #[inline]
    pub(crate) fn pop_first(&mut self, level: Priority, turn: Turn) {
        let level_line = &mut self.levels[level as usize];
        level_line.live -= 1;
        match &mut level_line.order {
            Order::Fifo(fifo) => drop(fifo.pop_front()),
            Order::Fair(fair) => fair.pop_first(turn),
        }
    }

    /// The key that has been at `level` longest, if it has been there since `deadline` or longer. The
    /// caller moves it.
    pub(crate) fn aged<K>(
        &mut self,
        level: Priority,
        deadline: Stamp,
        slots: &Slots<K>,
    ) -> Option<SlotId> {
        let level_line = &mut self.levels[level as usize];
        let oldest = (level_line.live > 0).then(|| level_line.oldest(level, slots))??;
        (slots[oldest.id].at <= deadline).then_some(oldest.id)
    }

    /// The highest level that has a key.
    pub(crate) fn top(&self) -> Option<Priority> {
        Priority::ALL.into_iter().rev().find(|&level| self.levels[level as usize].live > 0)
    }

    /// Whether the line is one FIFO of `Normal` keys: what is added at that priority comes last, and
    /// nothing moves up by age.
    pub(crate) fn is_plain(&self) -> bool {
        let [low, normal, high] = &self.levels;
        low.live + high.live == 0 && matches!(normal.order, Order::Fifo(_))
    }

    /// Whether a key below the highest occupied level is in line: only then can one starve.
    pub(crate) fn has_lower(&self) -> bool {
        self.levels.iter().filter(|level| level.live > 0).count() > 1
    }
}

impl Level {
    fn first<K>(&mut self, level: Priority, slots: &Slots<K>) -> Option<Place> {
        let is_live = |place: &Place| place.is_live(level, slots);
        match &mut self.order {
            Order::Fifo(fifo) => first_live(fifo, is_live),
            Order::Fair(fair) => fair.first(is_live),
        }
    }

    /// The entry that has been here longest. Stale ones before it are dropped.
    fn oldest<K>(&mut self, level: Priority, slots: &Slots<K>) -> Option<Place> {
        let ages = match &mut self.order {
            Order::Fifo(fifo) => fifo,
            Order::Fair(fair) => &mut fair.ages,
        };
        first_live(ages, |place| place.is_live(level, slots))
    }

    fn sweep_if_stale<K>(&mut self, level: Priority, slots: &Slots<K>) {
        let limit = 2 * self.live + STALE_TOLERATED;
        match &mut self.order {
            Order::Fifo(fifo) if fifo.len() > limit => {
                fifo.retain(|place| place.is_live(level, slots));
            }
            Order::Fair(fair) if fair.ages.len() > limit => {
                fair.ages.retain(|place| place.is_live(level, slots));
            }
            Order::Fifo(_) | Order::Fair(_) => {}
        }
    }
}

impl Fair {
    fn push_back(&mut self, group: Group, place: Place, is_live: impl FnMut(&Place) -> bool) {
        self.ages.push_back(place);
        let turn = self.next_turn;
        let members = self.groups.entry(group).or_insert_with(|| {
            self.next_turn += 1;
            self.turns.push_back((group, turn));
            Members { places: self.spare.pop().unwrap_or_default(), live: 0, turn }
        });
        members.live += 1;
        if members.places.len() > 2 * members.live + STALE_TOLERATED {
            members.places.retain(is_live);
        }
        members.places.push_back(place);
    }

    fn push_front(&mut self, group: Group, place: Place) {
        self.ages.push_front(place);
        let turn = self.next_turn;
        let members = self.groups.entry(group).or_insert_with(|| {
            self.next_turn += 1;
            self.turns.push_front((group, turn));
            Members { places: self.spare.pop().unwrap_or_default(), live: 0, turn }
        });
        members.live += 1;
        members.places.push_front(place);
    }

    /// The first live entry of the group whose turn it is.
    fn first(&mut self, is_live: impl FnMut(&Place) -> bool) -> Option<Place> {
        loop {
            let (group, turn) = *self.turns.front()?;
            match self.groups.get_mut(&group) {
                Some(members) if members.turn == turn => {
                    return first_live(&mut members.places, is_live);
                }
                _ => drop(self.turns.pop_front()),
            }
        }
    }

    /// Takes out what [`first`](Self::first) has just returned.
    fn pop_first(&mut self, turn: Turn) {
        let Some(&(group, _)) = self.turns.front() else { return };
        let members = self.groups.get_mut(&group).expect("the first group must be known");
        members.places.pop_front();
        if turn == Turn::Ends {
            self.turns.rotate_left(1);
        }
        self.lose_member(group);
    }

    /// One of the group's entries is gone or stale. The last one takes the group and its turn with it.
    fn lose_member(&mut self, group: Group) {
        let MapEntry::Occupied(mut members) = self.groups.entry(group) else {
            unreachable!("a group with a live entry must be known");
        };
        members.get_mut().live -= 1;
        if members.get().live > 0 {
            return;
        }
        let mut buffer = members.remove().places;
        buffer.clear();
        if self.spare.len() < SPARE_KEPT {
            self.spare.push(buffer);
        }
        if self.turns.len() > 2 * self.groups.len() + STALE_TOLERATED {
            let groups = &self.groups;
            self.turns.retain(|(group, turn)| {
                groups.get(group).is_some_and(|members| members.turn == *turn)
            });
        }
    }
}

/// The first live entry. Stale ones before it are dropped.
fn first_live(
    places: &mut VecDeque<Place>,
    mut is_live: impl FnMut(&Place) -> bool,
) -> Option<Place> {
    while let Some(&place) = places.front() {
        if is_live(&place) {
            return Some(place);
        }
        places.pop_front();
    }
    None
}
