//! Lists of slots. A slot enters at either end and leaves from anywhere, in constant time.
//!
//! ```text
//!   List                   Links     slot   │  0  1  2  3  4  5  6  7
//!   first: 7                         before │        7        2
//!   last: 5                          after  │        5              2
//!
//!   7 ⇄ 2 ⇄ 5
//! ```
//!
//! A list stores its first and its last slot. The links between them are in a table with one entry
//! for each slot, which several lists share. So a slot can be in one of these lists only.

use crate::slots::SlotId;

#[derive(Debug, Default)]
pub(crate) struct List {
    first: Option<SlotId>,
    last: Option<SlotId>,
}

/// The links of the lists that share it, by slot.
#[derive(Debug, Default)]
pub(crate) struct Links(Vec<Link>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Front,
    Back,
}

#[derive(Clone, Copy, Debug, Default)]
struct Link {
    before: Option<SlotId>,
    after: Option<SlotId>,
}

impl List {
    pub(crate) fn first(&self) -> Option<SlotId> {
        self.first
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn push(&mut self, end: End, id: SlotId, links: &mut Links) {
        let (before, after) = match end {
            End::Front => (None, self.first),
            End::Back => (self.last, None),
        };
        links.make_room(id);
        self.join(before, Some(id), links);
        self.join(Some(id), after, links);
    }

    /// Removes a slot, which must be in this list.
    pub(crate) fn remove(&mut self, id: SlotId, links: &mut Links) {
        let Link { before, after } = *links.of(id);
        self.join(before, after, links);
    }

    /// Makes two slots neighbours. `None` stands for the end of the list on that side.
    fn join(&mut self, before: Option<SlotId>, after: Option<SlotId>, links: &mut Links) {
        match before {
            Some(id) => links.of(id).after = after,
            None => self.first = after,
        }
        match after {
            Some(id) => links.of(id).before = before,
            None => self.last = before,
        }
    }
}

impl Links {
    fn of(&mut self, id: SlotId) -> &mut Link {
        &mut self.0[id.index()]
    }

    fn make_room(&mut self, id: SlotId) {
        if self.0.len() <= id.index() {
            self.0.resize(id.index() + 1, Link::default());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Empties the list from the front.
    fn drained(mut list: List, links: &mut Links) -> Vec<usize> {
        let pop = || {
            let first = list.first()?;
            list.remove(first, links);
            Some(first.index())
        };
        std::iter::from_fn(pop).collect()
    }

    #[test]
    fn a_slot_leaves_from_the_front_the_middle_and_the_back() {
        for left in [7, 2, 5] {
            let (mut list, mut links) = (List::default(), Links::default());
            for index in [7, 2, 5] {
                list.push(End::Back, SlotId::new(index), &mut links);
            }
            list.remove(SlotId::new(left), &mut links);
            let others: Vec<_> = [7, 2, 5].into_iter().filter(|&index| index != left).collect();
            assert_eq!(drained(list, &mut links), others);
        }
    }

    #[test]
    fn lists_that_share_links_are_in_order_whatever_comes_and_goes() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut links = Links::default();
        let mut lists = [List::default(), List::default()];
        let mut expected = [const { VecDeque::new() }; 2];
        for _ in 0..10_000 {
            let index = random.usize(..20);
            let id = SlotId::new(index);
            if let Some(which) = expected.iter().position(|slots| slots.contains(&index)) {
                lists[which].remove(id, &mut links);
                expected[which].retain(|&other| other != index);
            } else if random.bool() {
                lists[index % 2].push(End::Back, id, &mut links);
                expected[index % 2].push_back(index);
            } else {
                lists[index % 2].push(End::Front, id, &mut links);
                expected[index % 2].push_front(index);
            }
            for (list, slots) in lists.iter().zip(&expected) {
                assert_eq!(list.first().map(SlotId::index), slots.front().copied());
                assert_eq!(list.is_empty(), slots.is_empty());
            }
        }
        for (list, slots) in lists.into_iter().zip(expected) {
            assert_eq!(slots, drained(list, &mut links));
        }
    }
}
