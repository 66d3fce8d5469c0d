//! The old value at a place, for ratcheting: an update is not rejected for unchanged values.
//!
//! Only the items of a keyed list can be correlated with those of another list.

use std::collections::HashMap;

use serde_json::Value;

use super::node::{ListKind, Node};

/// The old value at a place, with its schema.
#[derive(Clone, Copy)]
pub(crate) struct OldValue<'a> {
    node: &'a Node,
    value: &'a Value,
}

impl<'a> OldValue<'a> {
    pub(super) fn new(node: &'a Node, value: &'a Value) -> Self {
        Self { node, value }
    }

    /// Returns the old value of a field.
    pub(crate) fn field(self, name: &str) -> Option<Self> {
        Some(Self { node: self.node.field(name)?, value: self.value.get(name)? })
    }

    /// Returns the old items, if this was a keyed list.
    pub(crate) fn items(self) -> Option<OldItems<'a>> {
        let (ListKind::Map(keys), Value::Array(items)) = (&self.node.list.kind, self.value) else {
            return None;
        };
        Some(OldItems { node: self.node.items.as_deref()?, items: KeyedItems::new(keys, items) })
    }

    /// Whether `new` is the same. A field that the schema does not declare cannot be compared, so
    /// it is never the same. The order of a keyed list does not matter.
    pub(crate) fn is_same_as(self, new: &Value) -> bool {
        match (self.value, new) {
            (Value::Array(old), Value::Array(items)) => {
                if matches!(self.node.list.kind, ListKind::Atomic | ListKind::Set) {
                    return old == items;
                }
                if old.len() != items.len() {
                    return false;
                }
                let held = self.items();
                let before = |item| held.as_ref().and_then(|held| held.find(item));
                items.iter().all(|item| before(item).is_some_and(|before| before.is_same_as(item)))
            }
            (Value::Object(old), Value::Object(fields)) => {
                old.len() == fields.len()
                    && fields.iter().all(|(name, field)| {
                        self.field(name).is_some_and(|before| before.is_same_as(field))
                    })
            }
            (old, new) => old == new,
        }
    }
}

/// The old items of a keyed list.
pub(crate) struct OldItems<'a> {
    /// The schema of the items.
    node: &'a Node,
    items: KeyedItems<'a>,
}

impl<'a> OldItems<'a> {
    /// Returns the old item with the same keys.
    pub(crate) fn find(&self, item: &Value) -> Option<OldValue<'a>> {
        Some(OldValue { node: self.node, value: self.items.find(item)? })
    }
}

/// The items of a list, by the values of their key fields. Lists may be long, so they are indexed
/// once instead of searched for each item.
pub(crate) struct KeyedItems<'a> {
    keys: &'a [String],
    items: HashMap<Vec<&'a Value>, &'a Value>,
}

impl<'a> KeyedItems<'a> {
    pub(crate) fn new(keys: &'a [String], list: &'a [Value]) -> Self {
        let mut items = HashMap::with_capacity(list.len());
        for item in list {
            if let Some(values) = key_values(keys, item) {
                items.entry(values).or_insert(item);
            }
        }
        Self { keys, items }
    }

    /// Returns the first item with the same keys.
    pub(crate) fn find(&self, item: &Value) -> Option<&'a Value> {
        self.items.get(&key_values(self.keys, item)?).copied()
    }
}

/// Returns the values of the key fields, if all are present and scalars.
fn key_values<'a>(keys: &[String], item: &'a Value) -> Option<Vec<&'a Value>> {
    let fields = item.as_object()?;
    let is_key =
        |value: &&Value| !matches!(value, Value::Null | Value::Array(_) | Value::Object(_));
    keys.iter().map(|key| fields.get(key).filter(is_key)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_item_is_found_by_all_its_keys() {
        let keys = ["name".to_owned(), "port".to_owned()];
        let list = [
            json!({"name": "a", "port": 1, "v": 1}),
            json!({"name": "a", "port": 1, "v": 2}),
            json!({"name": "a", "port": 2}),
            json!({"name": "b"}),
            json!({"name": null, "port": 3}),
            json!("a"),
        ];
        let items = KeyedItems::new(&keys, &list);
        assert_eq!(items.find(&json!({"name": "a", "port": 1})), Some(&list[0]));
        assert_eq!(items.find(&json!({"name": "a", "port": 2, "v": 7})), Some(&list[2]));
        for stranger in [
            json!({"name": "b"}),
            json!({"name": "a", "port": "1"}),
            json!({"name": null, "port": 3}),
            json!("a"),
        ] {
            assert_eq!(items.find(&stranger), None, "{stranger}");
        }
    }
}
