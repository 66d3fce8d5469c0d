//! Lays the changes of a typed object over the raw object, so that nothing else changes.
//!
//! A type shows an object differently than the server: it lacks unknown fields, adds defaults, and
//! writes empty ones out. So the raw object is never compared with the typed one. The typed object
//! before the change is compared with the typed object after it, and only that difference is
//! applied to the raw object, at any depth and inside list elements.
//!
//! There is no schema here. Which old element of a list a new one comes from is found by equality,
//! by the fields that usually identify elements in Kubernetes, and by position, in this order.

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value};

/// Fields that name an element. Elements with different names are different elements.
const NAMES: [&str; 3] = ["uid", "name", "type"];

/// Fields that distinguish elements that have no name, or the same one.
const KEYS: [&str; 8] =
    ["key", "port", "containerPort", "mountPath", "devicePath", "topologyKey", "ip", "id"];

/// A type shows other elements than the raw list begins with, so they cannot be matched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the list at {path} has {raw} elements, of which the type shows {typed}: what it does not show \
     would be erased"
)]
pub(crate) struct Unmatched {
    path: String,
    raw: usize,
    typed: usize,
}

type Fields = Map<String, Value>;

/// `raw`, with the changes from `before` to `after` applied. Both are views of it by one type.
pub(crate) fn overlay(raw: &Value, before: &Value, after: &Value) -> Result<Value, Unmatched> {
    Ok(changed(raw, before, after)?.unwrap_or_else(|| raw.clone()))
}

/// The same; `None` if nothing has changed. An object may be nested as deeply as its author likes,
/// so each level of objects is compared once, and only what stays beside a change is cloned.
fn changed(raw: &Value, before: &Value, after: &Value) -> Result<Option<Value>, Unmatched> {
    match (raw, before, after) {
        (Value::Object(raw), _, Value::Object(after)) => {
            let fields = fields(raw, before.as_object().unwrap_or(&Map::new()), after)?;
            Ok(fields.map(Value::Object))
        }
        _ if before == after => Ok(None),
        // What the type shows as a whole has nothing to preserve. The general case would compare
        // lists in lists again at each level.
        (Value::Array(raw), Value::Array(before), Value::Array(after)) if raw != before => {
            list(raw, before, after).map(|list| Some(Value::Array(list)))
        }
        _ => Ok(Some(after.clone())),
    }
}

fn fields(raw: &Fields, before: &Fields, after: &Fields) -> Result<Option<Fields>, Unmatched> {
    let mut changes = Fields::new();
    for (key, after) in after {
        let shown = before.get(key);
        let (raw, before) = (raw.get(key).unwrap_or(&Value::Null), shown.unwrap_or(&Value::Null));
        // What the type only writes out, such as a default, is no change.
        match changed(raw, before, after).map_err(|error| error.within(key))? {
            Some(value) => drop(changes.insert(key.clone(), value)),
            None if shown.is_none() => drop(changes.insert(key.clone(), raw.clone())),
            None => {}
        }
    }
    let is_removed = |key: &String| before.contains_key(key) && !after.contains_key(key);
    if changes.is_empty() && !before.keys().any(is_removed) {
        return Ok(None);
    }
    for (key, value) in raw {
        if !changes.contains_key(key) && !is_removed(key) {
            changes.insert(key.clone(), value.clone());
        }
    }
    Ok(Some(changes))
}

fn list(raw: &[Value], before: &[Value], after: &[Value]) -> Result<Vec<Value>, Unmatched> {
    // A type may show only the first elements, as a version with one host shows a list of hosts.
    // Those that it does not show stay at the end.
    let mut unseen: &[Value] = &[];
    if raw.len() > before.len() && before.iter().zip(raw).all(|(one, other)| is_view(one, other)) {
        unseen = &raw[before.len()..];
    } else if !raw.iter().any(|element| element.is_object() || element.is_array()) {
        // Elements without fields have no unknown ones.
        return Ok(after.to_vec());
    } else if raw.len() != before.len() {
        return Err(Unmatched { path: String::new(), raw: raw.len(), typed: before.len() });
    }
    let elements = after.iter().zip(origins(before, after)).enumerate();
    let elements = elements.map(|(place, (after, origin))| match origin {
        Some(origin) => {
            overlay(&raw[origin], &before[origin], after).map_err(|error| error.within(place))
        }
        None => Ok(after.clone()),
    });
    elements.chain(unseen.iter().cloned().map(Ok)).collect()
}

/// Whether a typed element may be the view of a raw one.
fn is_view(typed: &Value, raw: &Value) -> bool {
    match (typed, raw) {
        (Value::Object(_), Value::Object(_)) => have_same_names(typed, raw),
        (Value::Array(_), Value::Array(_)) => true,
        _ => typed == raw,
    }
}

/// Which old element each new one comes from, if any. No two come from the same.
fn origins(before: &[Value], after: &[Value]) -> Vec<Option<usize>> {
    let mut origins = Origins { found: vec![None; after.len()], is_free: vec![true; before.len()] };
    origins.find_in_place(|at| after[at] == before[at]);
    origins.find_by(before.iter().map(Some), after.iter().map(Some));
    for key in NAMES.iter().chain(&KEYS) {
        origins.find_by(unique(before, key).into_iter(), unique(after, key).into_iter());
    }
    if before.len() == after.len() {
        origins.find_in_place(|at| have_same_names(&after[at], &before[at]));
    }
    origins.found
}

/// What the rules have found so far. Each rule takes linear time: whoever may write an object
/// chooses how long its lists are.
struct Origins {
    found: Vec<Option<usize>>,
    is_free: Vec<bool>,
}

impl Origins {
    /// Matches elements at the same position.
    fn find_in_place(&mut self, is_it: impl Fn(usize) -> bool) {
        for at in 0..self.found.len().min(self.is_free.len()) {
            if self.found[at].is_none() && self.is_free[at] && is_it(at) {
                self.take(at, at);
            }
        }
    }

    /// Matches elements that have the same key, in their order.
    fn find_by<'v>(
        &mut self,
        before: impl Iterator<Item = Option<&'v Value>>,
        after: impl Iterator<Item = Option<&'v Value>>,
    ) {
        let mut places: HashMap<&Value, VecDeque<usize>> = HashMap::new();
        for (from, key) in before.enumerate() {
            if let Some(key) = key.filter(|_| self.is_free[from]) {
                places.entry(key).or_default().push_back(from);
            }
        }
        for (to, key) in after.enumerate() {
            let Some(key) = key.filter(|_| self.found[to].is_none()) else { continue };
            if let Some(from) = places.get_mut(key).and_then(VecDeque::pop_front) {
                self.take(to, from);
            }
        }
    }

    fn take(&mut self, to: usize, from: usize) {
        self.found[to] = Some(from);
        self.is_free[from] = false;
    }
}

impl Unmatched {
    fn within(mut self, place: impl std::fmt::Display) -> Self {
        self.path = format!("/{place}{}", self.path);
        self
    }
}

/// The value of `key` in each element, if no other element has the same.
fn unique<'v>(list: &'v [Value], key: &str) -> Vec<Option<&'v Value>> {
    let values: Vec<_> = list.iter().map(|element| scalar(element, key)).collect();
    let mut counts: HashMap<&Value, usize> = HashMap::new();
    for value in values.iter().flatten() {
        *counts.entry(value).or_default() += 1;
    }
    values.into_iter().map(|value| value.filter(|value| counts[value] == 1)).collect()
}

/// Whether two elements are equal in all names that both have.
fn have_same_names(one: &Value, other: &Value) -> bool {
    NAMES.iter().all(|key| match (scalar(one, key), scalar(other, key)) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    })
}

fn scalar<'v>(element: &'v Value, key: &str) -> Option<&'v Value> {
    element.get(key).filter(|value| value.is_string() || value.is_number())
}

#[cfg(test)]
mod tests;
