//! The weight of a value: its size including all nested values. It determines the cost of
//! operations.

use super::value::{Order, Val};

/// The limit up to which weight is counted. A tenth of the weight is charged, so anything heavier
/// exceeds the cost limit of an expression.
const WEIGHT_MAX: u64 = 20_000_000;

impl Val {
    /// Returns the [size](Val::size) of a value with everything inside, at most [`WEIGHT_MAX`].
    /// Values share their parts, so a small value can have a weight that is too large to count.
    pub(super) fn weight(&self) -> u64 {
        WeightCounter::count_weight(self).total()
    }

    /// Returns how much of two values is read to compare them. Comparing ends at the first
    /// difference, except in unordered lists, which are read completely first.
    pub(super) fn comparison_weight(&self, other: &Self) -> u64 {
        let (a, b) = (WeightCounter::count_weight(self), WeightCounter::count_weight(other));
        if a.may_have_unordered() || b.may_have_unordered() {
            a.total() + b.total()
        } else {
            a.total().min(b.total())
        }
    }
}

/// Computes the weight of a value.
struct WeightCounter {
    /// The weight that may still be counted.
    left: u64,
    /// Whether an unordered list was found.
    has_unordered: bool,
}

impl WeightCounter {
    fn count_weight(value: &Val) -> Self {
        let mut scales = Self { left: WEIGHT_MAX, has_unordered: false };
        scales.add(value);
        scales
    }

    fn total(&self) -> u64 {
        WEIGHT_MAX - self.left
    }

    /// Whether the value may contain an unordered list, which is unknown if counting stopped early.
    fn may_have_unordered(&self) -> bool {
        self.has_unordered || self.left == 0
    }

    fn add(&mut self, value: &Val) {
        if self.left == 0 {
            return;
        }
        let own = match value {
            Val::List(_) | Val::Map(_) | Val::Optional(Some(_)) => 1,
            Val::Object(object) => {
                let names: usize = object.fields.keys().map(String::len).sum();
                (names + object.hidden.len() + 1) as u64
            }
            other => other.size() + 1,
        };
        self.left = self.left.saturating_sub(own);
        match value {
            Val::List(list) => {
                self.has_unordered |= list.order != Order::Ordered;
                list.items.iter().for_each(|item| self.add(item));
            }
            Val::Map(map) => map.iter().for_each(|(key, value)| {
                self.add(&key.value());
                self.add(value);
            }),
            Val::Object(object) => object.fields.values().for_each(|value| self.add(value)),
            Val::Optional(Some(value)) => self.add(value),
            _ => {}
        }
    }
}
