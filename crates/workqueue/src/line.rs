//! The line of ready keys: three levels, each in the order of arrival or in groups that take turns.
//!
//! ```text
//!   High     a ⇄ b ⇄ c
//!   Normal   d ⇄ e ⇄ f ⇄ g           With groups, each key is in a second list:
//!   Low      h                         team-1   d ⇄ f     The group whose turn it is comes first.
//!                                      team-2   e ⇄ g     After its turn it goes to the end.
//! ```
//!
//! Keys are handed out and parked from the front; a key that moves to another level leaves from the
//! middle. A group without keys is dropped. When it gets a key again, it goes to the end of the
//! turns, or to the front if that key was parked.

use hashlink::LinkedHashMap;

use crate::list::{End, Links, List};
use crate::priority::{Group, Priority};
use crate::slots::SlotId;

#[derive(Debug)]
pub(crate) struct Line {
    /// By priority, the lowest first.
    levels: [Level; Priority::ALL.len()],
    /// The links of the lists `Level::keys`.
    level_links: Links,
    /// The links of the lists of groups.
    group_links: Links,
    len: usize,
}

#[derive(Debug)]
struct Level {
    /// All keys of the level in the order of arrival. Those that were parked are in front; with
    /// groups, at the end.
    keys: List,
    /// The same keys by group, the groups in the order of their turns. `None` without groups.
    turns: Option<LinkedHashMap<Group, List, foldhash::fast::RandomState>>,
}

impl Line {
    pub(crate) fn new(is_fair: bool) -> Self {
        let level = || Level { keys: List::default(), turns: is_fair.then(LinkedHashMap::default) };
        Self {
            levels: [level(), level(), level()],
            level_links: Links::default(),
            group_links: Links::default(),
            len: 0,
        }
    }

    /// Adds a key at one end of a level and of its group. A group that has keys keeps its place in
    /// the turns; another one enters them at `end`.
    pub(crate) fn push(&mut self, end: End, level: Priority, group: Option<Group>, id: SlotId) {
        let Level { keys, turns } = &mut self.levels[level as usize];
        // With groups, this list decides only which key ages next. A key that runs all the time
        // would keep the others from aging if it came to the front whenever it was parked.
        let aging_end = if turns.is_some() { End::Back } else { end };
        keys.push(aging_end, id, &mut self.level_links);
        if let Some(turns) = turns {
            let group = expect_group(group);
            if !turns.contains_key(&group) {
                match end {
                    End::Back => turns.insert(group, List::default()),
                    End::Front => turns.insert_front(group, List::default()),
                };
            }
            turns[&group].push(end, id, &mut self.group_links);
        }
        self.len += 1;
    }

    /// Removes a key. Its group keeps its place in the turns, unless it has no other key.
    pub(crate) fn remove(&mut self, level: Priority, group: Option<Group>, id: SlotId) {
        let Level { keys, turns } = &mut self.levels[level as usize];
        keys.remove(id, &mut self.level_links);
        if let Some(turns) = turns {
            let group = expect_group(group);
            let list = turns.get_mut(&group).expect("a key's group must have its turn");
            list.remove(id, &mut self.group_links);
            if list.is_empty() {
                turns.remove(&group);
            }
        }
        self.len -= 1;
    }

    /// Moves a group to the end of the turns.
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

    /// The first key of a level, whatever its group. Aging looks at it.
    pub(crate) fn first_of_level(&self, level: Priority) -> Option<SlotId> {
        self.levels[level as usize].keys.first()
    }

    /// Whether keys of several levels are in line. Otherwise no key starves.
    pub(crate) fn has_several_levels(&self) -> bool {
        self.levels.iter().filter(|level| !level.keys.is_empty()).count() > 1
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

fn expect_group(group: Option<Group>) -> Group {
    group.expect("a key in a line with groups must have one")
}
