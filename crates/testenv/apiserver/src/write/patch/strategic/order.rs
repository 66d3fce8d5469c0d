//! The order of a list after a patch: items in the patch take the order of the patch, items that
//! only the server has keep theirs, and both are interleaved.

use std::collections::HashMap;

use serde_json::Value;

use super::golang::identity;

/// Go's `sort` uses insertion sort up to this length, and so do we. The algorithm only matters if
/// an item has no rank, because Go's comparison is not a strict order then.
const SORTED_BY_INSERTION: usize = 20;

/// The positions of items in a list, by key, or by value if `key` is empty.
pub(super) struct Ranks<'a> {
    key: &'a str,
    places: HashMap<String, usize>,
}

impl<'a> Ranks<'a> {
    pub(super) fn new(list: &[Value], key: &'a str) -> Self {
        let mut ranks = Self { key, places: HashMap::new() };
        for (at, item) in list.iter().enumerate() {
            if let Some(name) = ranks.name(item) {
                ranks.places.entry(name).or_insert(at);
            }
        }
        ranks
    }

    /// Returns the first position of an item with the same key.
    pub(super) fn of(&self, item: &Value) -> Option<usize> {
        self.places.get(&self.name(item)?).copied()
    }

    fn name(&self, item: &Value) -> Option<String> {
        if self.key.is_empty() { identity(item) } else { identity(item.get(self.key)?) }
    }
}

/// Sorts items by their ranks. Items of the same rank keep their order.
pub(super) fn by_rank(items: Vec<Value>, ranks: &Ranks<'_>) -> Vec<Value> {
    let mut ranked: Vec<(Option<usize>, Value)> =
        items.into_iter().map(|item| (ranks.of(&item), item)).collect();
    let all_known = ranked.iter().all(|(rank, _)| rank.is_some());
    if all_known || ranked.len() > SORTED_BY_INSERTION {
        ranked.sort_by_key(|(rank, _)| *rank);
    } else {
        // An item without a rank compares as less, on either side.
        let is_less = |left: Option<usize>, right: Option<usize>| match (left, right) {
            (Some(left), Some(right)) => left < right,
            _ => true,
        };
        for end in 1..ranked.len() {
            let mut at = end;
            while at > 0 && is_less(ranked[at].0, ranked[at - 1].0) {
                ranked.swap(at, at - 1);
                at -= 1;
            }
        }
    }
    ranked.into_iter().map(|(_, item)| item).collect()
}

/// Inserts each item that only the server has before the first item of the patch that it preceded.
/// Both lists keep their order.
pub(super) fn interleave(server: Vec<Value>, patch: Vec<Value>, ranks: &Ranks<'_>) -> Vec<Value> {
    let mut merged = Vec::with_capacity(server.len() + patch.len());
    let (mut server, mut patch) = (server.into_iter().peekable(), patch.into_iter().peekable());
    loop {
        let is_servers = match (server.peek(), patch.peek()) {
            (None, None) => return merged,
            (Some(left), Some(right)) => matches!(
                (ranks.of(left), ranks.of(right)),
                (Some(left), Some(right)) if left < right
            ),
            (left, _) => left.is_some(),
        };
        merged.extend(if is_servers { server.next() } else { patch.next() });
    }
}
