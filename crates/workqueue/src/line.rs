//! The line of ready keys: three levels, each in the order of arrival or in groups that take turns.
//!
//! ```text
//!   High     a ⇄ b ⇄ c
//!   Normal   d ⇄ e ⇄ f ⇄ g           With groups, each key is in a second list:
//!   Low      h                         team-1   d ⇄ f     The group whose turn it is comes first.
//!                                      team-2   e ⇄ g     After its turn it goes to the end.
//! ```
//!
//! A key leaves its lists from anywhere: when it is handed out or parked, and when it moves to
//! another level. A group without keys is dropped. If it gets a key again, it starts at the end, or
//! first if that key was parked.

use hashlink::LinkedHashMap;

use crate::list::{End, Links, List};
use crate::priority::{Group, Priority};
use crate::slots::SlotId;

#[derive(Debug)]
pub(crate) struct Line {
    /// By priority, the lowest first.
    levels: [Level; Priority::ALL.len()],
    /// The links of all `Level::keys`.
    arrivals: Links,
    /// The links of all groups.
    in_groups: Links,
    len: usize,
}

#[derive(Debug)]
struct Level {
    /// All keys of the level in the order of arrival.
    keys: List,
    /// The same keys by group, the groups in the order of their turns. `None` without groups.
    turns: Option<LinkedHashMap<Group, List, foldhash::fast::RandomState>>,
}

impl Line {
    pub(crate) fn new(is_fair: bool) -> Self {
        let level = || Level { keys: List::default(), turns: is_fair.then(LinkedHashMap::default) };
        Self {
            levels: [level(), level(), level()],
            arrivals: Links::default(),
            in_groups: Links::default(),
            len: 0,
        }
    }

    /// Puts a key at one end of a level and of its group. A key in front of its group does not
    /// change whose turn it is.
    pub(crate) fn push(&mut self, end: End, level: Priority, group: Option<Group>, id: SlotId) {
        let Level { keys, turns } = &mut self.levels[level as usize];
        keys.push(end, id, &mut self.arrivals);
        if let Some(turns) = turns {
            let group = expect_group(group);
            match (turns.contains_key(&group), end) {
                (true, _) => None,
                (false, End::Back) => turns.insert(group, List::default()),
                (false, End::Front) => turns.insert_front(group, List::default()),
            };
            turns[&group].push(end, id, &mut self.in_groups);
        }
        self.len += 1;
    }

    /// Takes out a key. Its group keeps its turn.
    pub(crate) fn remove(&mut self, level: Priority, group: Option<Group>, id: SlotId) {
        let Level { keys, turns } = &mut self.levels[level as usize];
        keys.remove(id, &mut self.arrivals);
        if let Some(turns) = turns {
            let group = expect_group(group);
            let list = turns.get_mut(&group).expect("a key's group must have its turn");
            list.remove(id, &mut self.in_groups);
            if list.is_empty() {
                turns.remove(&group);
            }
        }
        self.len -= 1;
    }

    /// The next group of a level has its turn.
    pub(crate) fn end_turn(&mut self, level: Priority, group: Option<Group>) {
        if let Some(turns) = &mut self.levels[level as usize].turns {
            turns.to_back(&expect_group(group));
        }
    }

    /// The first key of the highest level that has one.
    pub(crate) fn first(&self) -> Option<SlotId> {
        let Level { keys, turns } = self.levels.iter().rfind(|level| !level.keys.is_empty())?;
        match turns {
            None => keys.first(),
            Some(turns) => turns.front()?.1.first(),
        }
    }

    /// The key that came first to a level, whatever its group.
    pub(crate) fn first_arrival(&self, level: Priority) -> Option<SlotId> {
        self.levels[level as usize].keys.first()
    }

    /// Whether keys of two levels or more are in line. Only then can one starve.
    pub(crate) fn is_mixed(&self) -> bool {
        self.levels.iter().filter(|level| !level.keys.is_empty()).count() > 1
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

fn expect_group(group: Option<Group>) -> Group {
    group.expect("a key in a line with groups must have one")
}
