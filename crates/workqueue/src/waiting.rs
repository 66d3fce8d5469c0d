//! The keys that wait for their time.
//!
//! ```text
//!   due in 1 s    a ⇄ c        a list of slots for each time, in the order of arrival
//!   due in 5 s    b
//! ```

use std::collections::BTreeMap;

use crate::list::{Links, List};
use crate::slots::SlotId;
use crate::time::Time;

#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// No list is empty.
    by_due: BTreeMap<Time, List>,
    links: Links,
    len: usize,
}

impl Waiting {
    pub(crate) fn push(&mut self, due: Time, id: SlotId) {
        self.by_due.entry(due).or_default().push_back(id, &mut self.links);
        self.len += 1;
    }

    /// Takes out a key that is due at `due`.
    pub(crate) fn remove(&mut self, due: Time, id: SlotId) {
        let list =
            self.by_due.get_mut(&due).expect("a waiting key must be in the list of its time");
        list.remove(id, &mut self.links);
        if list.is_empty() {
            self.by_due.remove(&due);
        }
        self.len -= 1;
    }

    /// Takes out the key that is due first.
    pub(crate) fn pop_first(&mut self) -> Option<(Time, SlotId)> {
        let mut first = self.by_due.first_entry()?;
        let (due, list) = (*first.key(), first.get_mut());
        let id = list.first().expect("a list of waiting keys must not be empty");
        list.remove(id, &mut self.links);
        if list.is_empty() {
            first.remove();
        }
        self.len -= 1;
        Some((due, id))
    }

    /// When the first key is due.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.by_due.first_key_value().map(|(&due, _)| due)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}
