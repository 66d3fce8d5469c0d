//! The identity of a value: the items of a set, or the keys of a list, are the same if their
//! identities are equal. Identities can be keys of a hash map.
//!
//! Two values have the same identity if they are equal ([`Val::equals`]). So sets and keyed lists
//! are compared and merged in linear time. There is one exception: if the items of a set are
//! unordered lists themselves, the number of repetitions in them counts as well.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use kube_cel::cel;

use super::value::{Key, List, Order, Val};

/// A value, reduced to the parts that equality compares.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Identity<'a> {
    Null,
    Bool(bool),
    /// A whole number of any type.
    Whole(i128),
    /// The bits of a double that is not a whole number, or is too large for one.
    Double(u64),
    Text(&'a str),
    Bytes(&'a [u8]),
    /// Seconds and nanoseconds since 1970.
    Time(i64, u32),
    /// Seconds and nanoseconds.
    Duration(i64, i32),
    Type(&'a str),
    Optional(Option<Box<Identity<'a>>>),
    List(Vec<Identity<'a>>),
    Map(Vec<(Identity<'a>, Identity<'a>)>),
    /// The fields that expressions see, and the others as JSON.
    Object(Vec<(&'a str, Identity<'a>)>, Vec<(&'a str, String)>),
    /// The key fields of an item of a keyed list.
    Keys(Vec<Option<Identity<'a>>>),
}

impl<'a> Identity<'a> {
    /// Returns the identity of a value. `None` if it equals no other value (`NaN`), or if it is a
    /// value of a library other than a time. No object holds such values, but an expression can put
    /// them into a set. The real server compares their addresses there, so they differ there as
    /// well.
    pub(super) fn new(value: &'a Val) -> Option<Self> {
        Some(match value {
            Val::Null => Self::Null,
            Val::Bool(flag) => Self::Bool(*flag),
            Val::Int(number) => Self::Whole(i128::from(*number)),
            Val::Uint(number) => Self::Whole(i128::from(*number)),
            Val::Double(number) => Self::double(*number)?,
            Val::String(text) => Self::Text(text),
            Val::Bytes(bytes) => Self::Bytes(bytes),
            Val::Type(name) => Self::Type(name),
            Val::Optional(None) => Self::Optional(None),
            Val::Optional(Some(inner)) => Self::Optional(Some(Box::new(Self::new(inner)?))),
            Val::List(list) => {
                let mut items = list.items.iter().map(Self::new).collect::<Option<Vec<_>>>()?;
                if list.order != Order::Ordered {
                    items.sort_unstable();
                }
                Self::List(items)
            }
            Val::Map(map) => {
                let entries =
                    map.iter().map(|(key, value)| Some((Self::key(key), Self::new(value)?)));
                Self::Map(entries.collect::<Option<_>>()?)
            }
            Val::Object(object) => {
                let fields = object.fields.iter();
                let fields = fields.map(|(name, value)| Some((name.as_str(), Self::new(value)?)));
                let hidden = object.hidden.iter();
                let hidden = hidden.map(|(name, json)| (name.as_str(), json.to_string()));
                Self::Object(fields.collect::<Option<_>>()?, hidden.collect())
            }
            Val::Foreign(cel::Value::Timestamp(time)) => {
                Self::Time(time.timestamp(), time.timestamp_subsec_nanos())
            }
            Val::Foreign(cel::Value::Duration(duration)) => {
                Self::Duration(duration.num_seconds(), duration.subsec_nanos())
            }
            Val::Foreign(_) => return None,
        })
    }

    fn key(key: &'a Key) -> Self {
        match key {
            Key::Bool(flag) => Self::Bool(*flag),
            Key::Int(number) => Self::Whole(i128::from(*number)),
            Key::Uint(number) => Self::Whole(i128::from(*number)),
            Key::String(text) => Self::Text(text),
        }
    }

    fn double(number: f64) -> Option<Self> {
        if number.is_nan() {
            return None;
        }
        if number.fract() == 0.0 && number.abs() < 1e30 {
            #[allow(clippy::cast_possible_truncation)] // whole and small enough
            return Some(Self::Whole(number as i128));
        }
        Some(Self::Double(number.to_bits()))
    }

    /// Returns the identity of an item in a list of this order.
    pub(super) fn of_item(item: &'a Val, order: &Order) -> Option<Self> {
        match (order, item) {
            (Order::Keyed(keys), Val::Object(object)) => {
                let keys = keys.iter().map(|key| match object.fields.get(key) {
                    Some(value) => Self::new(value).map(Some),
                    None => Some(None),
                });
                keys.collect::<Option<_>>().map(Self::Keys)
            }
            _ => Self::new(item),
        }
    }
}

impl List {
    /// Whether both lists have the same items. Their order only matters for ordered lists.
    pub(super) fn equals(&self, other: &Self) -> bool {
        if self.items.len() != other.items.len() {
            return false;
        }
        if self.order == Order::Ordered {
            return self.items.iter().zip(&other.items).all(|(a, b)| a.equals(b));
        }
        let places = places(self);
        other.items.iter().all(|item| {
            let identity = Identity::of_item(item, &self.order);
            let held = identity.and_then(|identity| places.get(&identity));
            match self.order {
                // The identity of a set item is the whole item.
                Order::Set => held.is_some(),
                _ => held.is_some_and(|place| self.items[*place].equals(item)),
            }
        })
    }

    /// Merges both lists as server-side apply would.
    pub(super) fn with(&self, other: &Self) -> Self {
        let mut items = self.items.clone();
        if self.order == Order::Ordered {
            items.extend_from_slice(&other.items);
        } else {
            let mut places = places(self);
            for item in &other.items {
                let Some(identity) = Identity::of_item(item, &self.order) else {
                    items.push(item.clone());
                    continue;
                };
                match places.entry(identity) {
                    Entry::Occupied(held) => items[*held.get()] = item.clone(),
                    Entry::Vacant(free) => {
                        free.insert(items.len());
                        items.push(item.clone());
                    }
                }
            }
        }
        Self { items, order: self.order.clone() }
    }
}

/// Returns the first index of each item of a list, by its identity.
fn places(list: &List) -> HashMap<Identity<'_>, usize> {
    let mut places = HashMap::with_capacity(list.items.len());
    for (place, item) in list.items.iter().enumerate() {
        if let Some(identity) = Identity::of_item(item, &list.order) {
            places.entry(identity).or_insert(place);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_one_identity() {
        let values = [
            Val::Null,
            Val::Bool(false),
            Val::Int(0),
            Val::Int(1),
            Val::Uint(1),
            Val::Double(1.0),
            Val::Double(-0.0),
            Val::Double(0.5),
            Val::Double(1e300),
            Val::Uint(u64::MAX),
            Val::text("a"),
            Val::text("1"),
            Val::Bytes(b"a".as_slice().into()),
            Val::Type("a".into()),
            Val::Optional(None),
            Val::Optional(Some(Box::new(Val::Int(1)))),
            Val::list(vec![Val::Int(1), Val::Int(2)]),
            Val::list(vec![Val::Int(2), Val::Int(1)]),
            Val::list(vec![Val::Double(2.0), Val::Int(1)]),
        ];
        for a in &values {
            for b in &values {
                assert_eq!(Identity::new(a) == Identity::new(b), a.equals(b), "{a:?} and {b:?}");
            }
        }
        assert_eq!(Identity::new(&Val::Double(f64::NAN)), None);
    }
}
