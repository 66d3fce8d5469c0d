//! Compares two objects, and returns the differences as sets of fields.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::field_set::{Element, FieldSet, Scalar};
use crate::field_error::go_quote;
use crate::merge_schema::{Form, MergeSchema};

/// The difference between two objects. Each field is in at most one of the sets.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Comparison {
    pub(crate) removed: FieldSet,
    pub(crate) modified: FieldSet,
    pub(crate) added: FieldSet,
}

/// The path to the current value during a walk.
type Path = Vec<Element>;

impl Comparison {
    /// Compares two objects.
    pub(crate) fn new(place: MergeSchema<'_>, old: &Value, new: &Value) -> Self {
        let mut comparison = Self::default();
        comparison.both(place, old, new, &mut Path::new());
        comparison
    }

    /// Returns the added and the modified fields.
    pub(crate) fn written(&self) -> FieldSet {
        self.modified.union(&self.added)
    }

    /// Returns the comparison without these fields.
    pub(crate) fn without(&self, fields: &FieldSet) -> Self {
        Self {
            removed: self.removed.without(fields),
            modified: self.modified.without(fields),
            added: self.added.without(fields),
        }
    }

    fn both(&mut self, place: MergeSchema<'_>, old: &Value, new: &Value, path: &mut Path) {
        let (before, after) = (place.form(old), place.form(new));
        if before != after {
            // The forms differ: all parts of the old value count as removed, all parts of the new
            // value as added, and a leaf as modified.
            children(place, old, path, &mut self.removed);
            children(place, new, path, &mut self.added);
            if before == Form::Leaf || after == Form::Leaf {
                self.modified.insert(path);
            }
            return;
        }
        match before {
            Form::Map if !(is_nothing(old) && is_nothing(new)) => self.maps(place, old, new, path),
            Form::Set | Form::Keyed if !(is_nothing(old) && is_nothing(new)) => {
                self.lists(place, old, new, path);
            }
            _ if old != new => self.modified.insert(path),
            _ => {}
        }
    }

    fn maps(&mut self, place: MergeSchema<'_>, old: &Value, new: &Value, path: &mut Path) {
        for (name, old) in fields(old) {
            let below = place.field_or_open(name).place;
            path.push(Element::field(name));
            match new.get(name) {
                Some(new) => self.both(below, old, new, path),
                None => all(below, old, path, &mut self.removed),
            }
            path.pop();
        }
        for (name, new) in fields(new).filter(|(name, _)| old.get(*name).is_none()) {
            path.push(Element::field(name));
            all(place.field_or_open(name).place, new, path, &mut self.added);
            path.pop();
        }
    }

    /// Compares two lists. Duplicate items are compared as one leaf.
    fn lists(&mut self, place: MergeSchema<'_>, old: &Value, new: &Value, path: &mut Path) {
        let (before, after) = (by_element(place, old), by_element(place, new));
        let none = Vec::new();
        let elements: std::collections::BTreeSet<&Element> =
            before.keys().chain(after.keys()).collect();
        for element in elements {
            let old = before.get(element).unwrap_or(&none);
            let new = after.get(element).unwrap_or(&none);
            path.push(element.clone());
            match (old.as_slice(), new.as_slice()) {
                ([old], [new]) => self.both(place.item(), old, new, path),
                ([old], []) => all(place.item(), old, path, &mut self.removed),
                ([], [new]) => all(place.item(), new, path, &mut self.added),
                ([_, _, ..], [_, _, ..]) if old != new => self.modified.insert(path),
                ([_, _, ..], [_, _, ..]) => {}
                ([_, _, ..], rest) => {
                    if let [new] = rest {
                        all(place.item(), new, path, &mut self.added);
                    }
                    self.removed.insert(path);
                }
                (rest, _) => {
                    if let [old] = rest {
                        all(place.item(), old, path, &mut self.removed);
                    }
                    self.added.insert(path);
                }
            }
            path.pop();
        }
    }
}

/// Returns the fields that a manager owns after it applied this object: the fields of a struct, but
/// not the struct itself.
pub(crate) fn applied(place: MergeSchema<'_>, object: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    add_applied(place, object, &mut Path::new(), &mut set);
    set
}

fn add_applied(place: MergeSchema<'_>, value: &Value, path: &mut Path, set: &mut FieldSet) {
    match place.form(value) {
        Form::Leaf => set.insert(path),
        Form::Map => {
            for (name, value) in fields(value) {
                let field = place.field_or_open(name);
                path.push(Element::field(name));
                add_applied(field.place, value, path, set);
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                if empty || !field.named {
                    set.insert(path);
                }
                path.pop();
            }
        }
        Form::Set | Form::Keyed => {
            for (element, items) in by_element(place, value) {
                path.push(element);
                if let [item] = items.as_slice() {
                    add_applied(place.item(), item, path, set);
                }
                set.insert(path);
                path.pop();
            }
        }
    }
}

/// Adds a value and everything in it.
fn all(place: MergeSchema<'_>, value: &Value, path: &mut Path, set: &mut FieldSet) {
    set.insert(path);
    children(place, value, path, set);
}

/// Adds everything in a value.
fn children(place: MergeSchema<'_>, value: &Value, path: &mut Path, set: &mut FieldSet) {
    match place.form(value) {
        Form::Leaf => {}
        Form::Map => {
            for (name, value) in fields(value) {
                path.push(Element::field(name));
                all(place.field_or_open(name).place, value, path, set);
                path.pop();
            }
        }
        Form::Set | Form::Keyed => {
            for (element, items) in by_element(place, value) {
                path.push(element);
                set.insert(path);
                if let [item] = items.as_slice() {
                    children(place.item(), item, path, set);
                }
                path.pop();
            }
        }
    }
}

/// Returns the path element that identifies an item in a list.
///
/// # Errors
/// Returns the error of the real server if the item cannot be identified.
pub(crate) fn element(place: MergeSchema<'_>, item: &Value) -> Result<Element, String> {
    let keys = place.keys();
    if keys.is_empty() {
        return match item {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            Value::Null => {
                Err("associative list without keys has an element that's an explicit null"
                    .to_owned())
            }
            other => Scalar::new(other)
                .map(Element::Item)
                .ok_or_else(|| "not supported: associative list with lists as elements".to_owned()),
        };
    }
    let Value::Object(fields) = item else {
        let what = if item.is_null() { "a null element" } else { "non-map elements" };
        return Err(format!("associative list with keys may not have {what}"));
    };
    let mut found = Vec::new();
    for key in &keys {
        let value = fields.get(key.name).or(key.default.as_ref());
        if let Some(value) = value.and_then(Scalar::new) {
            found.push((key.name.to_owned(), value));
        }
    }
    if found.is_empty() {
        let names: Vec<String> = keys.iter().map(|key| go_quote(key.name)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have \
             default values for any key fields)",
            names.join(" ")
        ));
    }
    found.sort();
    Ok(Element::Key(found))
}

/// Returns the items of a list by their path elements. Items that cannot be identified are left
/// out.
fn by_element<'a>(place: MergeSchema<'_>, list: &'a Value) -> BTreeMap<Element, Vec<&'a Value>> {
    let mut found: BTreeMap<Element, Vec<&Value>> = BTreeMap::new();
    for item in list.as_array().into_iter().flatten() {
        if let Ok(element) = element(place, item) {
            found.entry(element).or_default().push(item);
        }
    }
    found
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// Whether a value is null or an empty list or map.
pub(super) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "tests pass literals")]
    fn compared(old: Value, new: Value) -> Vec<Vec<String>> {
        let found = Comparison::new(MergeSchema::Open, &old, &new);
        [found.removed, found.modified, found.added].iter().map(FieldSet::paths).collect()
    }

    #[test]
    fn differences_are_listed_by_field() {
        let found = compared(
            json!({"a": 1, "b": {"c": 1, "d": [1]}}),
            json!({"a": 2, "b": {"d": [1], "e": {"f": 1}}}),
        );
        assert_eq!(found, [vec![".b.c"], vec![".a"], vec![".b.e", ".b.e.f"]]);
    }

    #[test]
    fn empty_maps_are_leaves() {
        assert_eq!(compared(json!({"a": {}}), json!({"a": null})), [vec![], vec![".a"], vec![]]);
        assert_eq!(
            compared(json!({"a": {}}), json!({"a": {"b": 1}})),
            [vec![], vec![], vec![".a.b"]]
        );
    }

    #[test]
    fn a_map_that_becomes_something_else_loses_its_fields() {
        assert_eq!(
            compared(json!({"a": {"b": 1}}), json!({"a": 1})),
            [vec![".a.b"], vec![".a"], vec![]]
        );
    }

    #[test]
    fn maps_without_a_schema_are_owned_with_their_fields() {
        let set = applied(MergeSchema::Open, &json!({"a": {"b": {"c": 1}}, "d": [1]}));
        assert_eq!(set.paths(), [".a", ".d", ".a.b", ".a.b.c"]);
    }
}
