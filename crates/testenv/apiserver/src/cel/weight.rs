//! How large values are with everything inside of them, which is what operations on them are
//! charged by.

use super::value::{Order, Val};

/// Where counting the weight of a value ends: beyond what an expression may cost, as a tenth of the
/// weight is charged.
const WEIGHT_MAX: u64 = 20_000_000;

impl Val {
    /// The [size](Val::size) of a value with everything inside, as a measure of what looking at it
    /// costs: at most [`WEIGHT_MAX`]. Values share their parts, so a small one may weigh more than
    /// can be counted.
    pub(super) fn weight(&self) -> u64 {
        Scales::weigh(self).total()
    }

    /// How much of two values is looked at to compare them. Comparing ends at the first difference,
    /// except in lists whose order does not matter: these are first read from end to end.
    pub(super) fn comparison_weight(&self, other: &Self) -> u64 {
        let (a, b) = (Scales::weigh(self), Scales::weigh(other));
        if a.may_have_unordered() || b.may_have_unordered() {
            a.total() + b.total()
        } else {
            a.total().min(b.total())
        }
    }
}

/// Counts the weight of a value.
struct Scales {
    /// What may still be counted.
    left: u64,
    /// Whether there is a list whose order does not matter in what was counted.
    has_unordered: bool,
}

impl Scales {
    fn weigh(value: &Val) -> Self {
        let mut scales = Self { left: WEIGHT_MAX, has_unordered: false };
        scales.add(value);
        scales
    }

    fn total(&self) -> u64 {
        WEIGHT_MAX - self.left
    }

    /// What was not counted is not known.
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
                self.has_unordered |= list.order != Order::Counts;
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
