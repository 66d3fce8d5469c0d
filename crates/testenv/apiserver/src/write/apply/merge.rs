//! Server-side apply: merges the applied object, and removes fields that nobody owns any more.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::compare::{element, is_nothing};
use super::field_set::{Element, FieldSet};
use crate::merge_schema::{Form, MergeSchema};

/// Merges the applied value into the present one. Applied values win; everything else stays.
pub(crate) fn merge(place: MergeSchema<'_>, held: &Value, applied: &Value) -> Value {
    let form = place.form(applied);
    let alike = form == place.form(held);
    if form == Form::Leaf || !alike || is_nothing(held) {
        return applied.clone();
    }
    if is_nothing(applied) {
        return held.clone();
    }
    match form {
        Form::Map => merge_maps(place, held, applied),
        _ => merge_lists(place, held, applied),
    }
}

fn merge_maps(place: MergeSchema<'_>, held: &Value, applied: &Value) -> Value {
    let mut merged = held.as_object().cloned().unwrap_or_default();
    for (name, applied) in applied.as_object().into_iter().flatten() {
        let value = match merged.get(name) {
            Some(held) => merge(place.field_or_open(name).place, held, applied),
            None => applied.clone(),
        };
        merged.insert(name.clone(), value);
    }
    Value::Object(merged)
}

/// Merges two lists. Items in both lists have the order of the applied list. Items of only one list
/// keep their position between their neighbours; if both lists have such items in the same gap,
/// those of the present list come first.
fn merge_lists(place: MergeSchema<'_>, held: &Value, applied: &Value) -> Value {
    let (ours, theirs) = (items(place, held), items(place, applied));
    let mut known: BTreeMap<&Element, Option<&Value>> = BTreeMap::new();
    for (element, item) in &ours {
        // A duplicate item is not merged with anything.
        known.entry(element).and_modify(|held| *held = None).or_insert(Some(*item));
    }
    let wanted: BTreeSet<&Element> = theirs.iter().map(|(element, _)| element).collect();
    let mut shared = theirs
        .iter()
        .map(|(element, _)| element)
        .filter(|element| known.contains_key(element))
        .peekable();
    let mut left = ours.iter().peekable();
    let mut merged = Vec::with_capacity(ours.len().max(theirs.len()));
    for (element, item) in &theirs {
        // First the present items up to the next shared one. New items keep their applied position.
        while let Some((next, held)) = left.next_if(|(next, _)| shared.peek() != Some(&next)) {
            if !wanted.contains(next) {
                merged.push((*held).clone());
            }
        }
        shared.next_if_eq(&element);
        left.next_if(|(next, _)| next == element);
        merged.push(match known.get(element).copied().flatten() {
            Some(held) => merge(place.item(), held, item),
            None => (*item).clone(),
        });
    }
    let rest = left.filter(|(element, _)| !wanted.contains(element));
    merged.extend(rest.map(|(_, held)| (*held).clone()));
    Value::Array(merged)
}

/// Returns the items of a list with their path elements. Items that cannot be identified are left
/// out.
fn items<'a>(place: MergeSchema<'_>, list: &'a Value) -> Vec<(Element, &'a Value)> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(|item| Some((element(place, item).ok()?, item))).collect()
}

/// Returns the value without these fields. A list or map becomes null if nothing is left of it.
pub(crate) fn remove(place: MergeSchema<'_>, value: &Value, fields: &FieldSet) -> Value {
    match (place.form(value), value) {
        (Form::Map, Value::Object(map)) => {
            let mut left = Map::new();
            for (name, value) in map {
                let at = Element::field(name);
                if fields.has(&at) {
                    continue;
                }
                let value = match fields.below(&at) {
                    Some(below) => remove(place.field_or_open(name).place, value, below),
                    None => value.clone(),
                };
                left.insert(name.clone(), value);
            }
            if left.is_empty() { Value::Null } else { Value::Object(left) }
        }
        (Form::Set | Form::Keyed, Value::Array(list)) => {
            let left: Vec<Value> =
                list.iter().filter_map(|item| remove_item(place, item, fields)).collect();
            if left.is_empty() { Value::Null } else { Value::Array(left) }
        }
        (Form::Leaf, Value::Array(_) | Value::Object(_)) => Value::Null,
        _ => value.clone(),
    }
}

fn remove_item(place: MergeSchema<'_>, item: &Value, fields: &FieldSet) -> Option<Value> {
    let Ok(at) = element(place, item) else { return Some(item.clone()) };
    if fields.has(&at) {
        return None;
    }
    Some(match fields.below(&at) {
        Some(below) => remove(place.item(), item, below),
        None => item.clone(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::Schema;

    /// A schema with a set, a keyed list and an atomic list.
    fn schema() -> Schema {
        let text = json!({"type": "string"});
        let item = json!({
            "type": "object",
            "required": ["name"],
            "properties": {"name": text, "x": {"type": "integer"}, "y": {"type": "integer"}},
        });
        Schema::parse(&json!({"type": "object", "properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
            "keyed": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": item,
            },
            "list": {"type": "array", "items": text},
        }}))
        .expect("the schema must be valid")
    }

    #[expect(clippy::needless_pass_by_value, reason = "tests pass literals")]
    fn merged(field: &str, held: Value, applied: Value) -> Value {
        let schema = schema();
        let place = MergeSchema::of_schema(&schema);
        merge(place, &json!({field: held}), &json!({field: applied}))[field].take()
    }

    #[test]
    fn sets_merge_in_the_order_that_is_applied() {
        let order = |held: &[&str], applied: &[&str]| merged("set", json!(held), json!(applied));
        assert_eq!(order(&["a", "b"], &["b", "a"]), json!(["b", "a"]));
        assert_eq!(order(&["a", "b", "c"], &["c", "d"]), json!(["a", "b", "c", "d"]));
        assert_eq!(order(&["a", "b", "c"], &["d", "b"]), json!(["a", "d", "b", "c"]));
        assert_eq!(order(&["a", "b"], &["c"]), json!(["a", "b", "c"]));
        assert_eq!(
            order(&["1", "a", "2", "b", "3"], &["b", "a"]),
            json!(["1", "2", "b", "3", "a"])
        );
    }

    #[test]
    fn items_with_the_same_key_become_one() {
        let merged = merged(
            "keyed",
            json!([{"name": "a", "x": 1}, {"name": "b", "x": 1}]),
            json!([{"name": "b", "y": 2}, {"name": "c"}]),
        );
        let expected = json!([{"name": "a", "x": 1}, {"name": "b", "x": 1, "y": 2}, {"name": "c"}]);
        assert_eq!(merged, expected);
    }

    #[test]
    fn atomic_lists_are_replaced_and_empty_sets_change_nothing() {
        assert_eq!(merged("list", json!(["a"]), json!(["b"])), json!(["b"]));
        assert_eq!(merged("list", json!(["a"]), json!([])), json!([]));
        assert_eq!(merged("set", json!(["a"]), json!([])), json!(["a"]));
        assert_eq!(merged("set", json!(["a"]), json!(null)), json!(["a"]));
    }

    #[test]
    fn fields_and_items_are_removed_by_their_paths() {
        let schema = schema();
        let object = json!({
            "set": ["a", "b"],
            "keyed": [{"name": "a", "x": 1}, {"name": "b"}],
            "list": ["a"],
        });
        let fields = FieldSet::decode(&json!({
            "f:set": {"v:\"a\"": {}},
            "f:keyed": {"k:{\"name\":\"a\"}": {"f:x": {}}, "k:{\"name\":\"b\"}": {}},
            "f:list": {},
        }));
        let left = remove(MergeSchema::of_schema(&schema), &object, &fields);
        assert_eq!(left, json!({"set": ["b"], "keyed": [{"name": "a"}]}));
    }
}
