//! Keeps unknown fields of list elements in a merge patch.
//!
//! A merge patch replaces a list as a whole, and a typed list lacks the fields that its type does
//! not know. So the lists of a patch are made from those of the object as the server has it, the
//! raw object: each element of the new list is the raw element that it comes from, with the changes
//! applied. There is no schema here. Which old element a new one comes from is found by equality,
//! by the fields that usually identify elements in Kubernetes, and by position, in this order.

use serde_json::{Map, Value};

/// Fields that name an element. Elements with different names are different elements.
const NAMES: [&str; 3] = ["uid", "name", "type"];

/// Fields that distinguish elements that have no name, or the same one.
const KEYS: [&str; 8] =
    ["key", "port", "containerPort", "mountPath", "devicePath", "topologyKey", "ip", "id"];

/// A list at the server has other elements than the type shows, so they cannot be matched.
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

impl Unmatched {
    fn within(mut self, place: impl std::fmt::Display) -> Self {
        self.path = format!("/{place}{}", self.path);
        self
    }
}

/// Whether a patch of `old` replaces a list whose elements may have unknown fields.
pub(crate) fn replaces_objects(patch: &Value, old: &Value) -> bool {
    match (patch, old) {
        (Value::Object(patch), Value::Object(old)) => patch
            .iter()
            .any(|(key, patch)| old.get(key).is_some_and(|old| replaces_objects(patch, old))),
        (Value::Array(_), Value::Array(old)) => has_structure(old),
        _ => false,
    }
}

/// Adds the unknown fields of `raw`, which is `old` as the server has it, to the lists in a patch
/// of `old`.
pub(crate) fn carry_over(patch: &mut Value, old: &Value, raw: &Value) -> Result<(), Unmatched> {
    match (patch, old) {
        (Value::Object(patch), Value::Object(old)) => {
            for (key, patch) in patch {
                if let Some(old) = old.get(key) {
                    carry_over(patch, old, &raw[key]).map_err(|error| error.within(key))?;
                }
            }
        }
        (Value::Array(new), Value::Array(old)) => {
            if let Value::Array(raw) = raw {
                *new = list(raw, old, new)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// `raw`, with the changes from `old` to `new` applied.
fn changed(raw: &Value, old: &Value, new: &Value) -> Result<Value, Unmatched> {
    match (raw, old, new) {
        _ if old == new => Ok(raw.clone()),
        (Value::Object(raw), _, Value::Object(new)) => {
            fields(raw, old.as_object().unwrap_or(&Map::new()), new).map(Value::Object)
        }
        (Value::Array(raw), Value::Array(old), Value::Array(new)) => {
            list(raw, old, new).map(Value::Array)
        }
        _ => Ok(new.clone()),
    }
}

type Fields = Map<String, Value>;

fn fields(raw: &Fields, old: &Fields, new: &Fields) -> Result<Fields, Unmatched> {
    let mut fields = raw.clone();
    fields.retain(|key, _| new.contains_key(key) || !old.contains_key(key));
    for (key, new) in new {
        let old = old.get(key);
        // A value that the type only adds as a default is not written.
        if old == Some(new) {
            continue;
        }
        let value = changed(raw.get(key).unwrap_or(&Value::Null), old.unwrap_or(&Value::Null), new)
            .map_err(|error| error.within(key))?;
        fields.insert(key.clone(), value);
    }
    Ok(fields)
}

fn list(raw: &[Value], old: &[Value], new: &[Value]) -> Result<Vec<Value>, Unmatched> {
    // Elements without fields have no unknown ones.
    if !has_structure(raw) {
        return Ok(new.to_vec());
    }
    let Some(raw) = counterparts(raw, old) else {
        return Err(Unmatched { path: String::new(), raw: raw.len(), typed: old.len() });
    };
    let elements = new.iter().zip(origins(old, new)).enumerate();
    let elements = elements.map(|(place, (new, origin))| match origin {
        Some(origin) => {
            changed(raw[origin], &old[origin], new).map_err(|error| error.within(place))
        }
        None => Ok(new.clone()),
    });
    elements.collect()
}

fn has_structure(list: &[Value]) -> bool {
    list.iter().any(|element| element.is_object() || element.is_array())
}

/// The raw element of each old one: the one at the same position, unless the type has reordered
/// them. `None` if their numbers differ.
fn counterparts<'r>(raw: &'r [Value], old: &[Value]) -> Option<Vec<&'r Value>> {
    if raw.len() != old.len() {
        return None;
    }
    let is_moved = |place: &usize| !agree(&raw[*place], &old[*place], NAMES.iter().chain(&KEYS));
    let moved: Vec<usize> = (0..old.len()).filter(is_moved).collect();
    let mut free = moved.clone();
    let mut counterparts: Vec<&Value> = raw.iter().collect();
    for place in moved {
        let is_match = |at: &usize| agree(&raw[*at], &old[place], NAMES.iter().chain(&KEYS));
        let Some(at) = free.iter().position(is_match) else {
            // Not reordered: the type shows the names differently than the server.
            return Some(raw.iter().collect());
        };
        counterparts[place] = &raw[free.swap_remove(at)];
    }
    Some(counterparts)
}

/// Which old element each new one comes from, if any. No two come from the same.
fn origins(old: &[Value], new: &[Value]) -> Vec<Option<usize>> {
    let mut origins = Origins { found: vec![None; new.len()], is_free: vec![true; old.len()] };
    origins.find(|to, from| to == from && new[to] == old[from]);
    origins.find(|to, from| new[to] == old[from]);
    for key in NAMES.iter().chain(&KEYS) {
        let (of_new, of_old) = (unique(new, key), unique(old, key));
        origins.find(|to, from| of_new[to].is_some() && of_new[to] == of_old[from]);
    }
    if old.len() == new.len() {
        origins.find(|to, from| to == from && agree(&new[to], &old[from], &NAMES));
    }
    origins.found
}

struct Origins {
    found: Vec<Option<usize>>,
    is_free: Vec<bool>,
}

impl Origins {
    /// Applies one more rule to the elements that have no origin yet.
    fn find(&mut self, is_from: impl Fn(usize, usize) -> bool) {
        for (to, found) in self.found.iter_mut().enumerate().filter(|(_, found)| found.is_none()) {
            let is_match = |from: &usize| self.is_free[*from] && is_from(to, *from);
            *found = (0..self.is_free.len()).find(is_match);
            if let Some(from) = *found {
                self.is_free[from] = false;
            }
        }
    }
}

/// The value of `key` in each element, if no other element has the same.
fn unique<'v>(list: &'v [Value], key: &str) -> Vec<Option<&'v Value>> {
    let values: Vec<_> = list.iter().map(|element| scalar(element, key)).collect();
    let is_unique =
        |value: &&Value| values.iter().filter(|other| **other == Some(*value)).count() == 1;
    values.iter().map(|value| value.filter(is_unique)).collect()
}

/// Whether two elements are equal in all `keys` that both have.
fn agree<'k>(one: &Value, other: &Value, keys: impl IntoIterator<Item = &'k &'k str>) -> bool {
    keys.into_iter().all(|key| match (scalar(one, key), scalar(other, key)) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    })
}

fn scalar<'v>(element: &'v Value, key: &str) -> Option<&'v Value> {
    element.get(key).filter(|value| value.is_string() || value.is_number())
}

#[cfg(test)]
mod tests;
