//! Lists in strategic merge patches.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::golang::{self, identity};
use super::order::{Ranks, by_rank, interleave};
use super::place::PatchPlace;
use super::{
    DELETE, DIRECTIVE, MERGE, PatchError, REPLACE, SET_ORDER, subject, without_directives,
};

/// The type of a list's items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Items {
    Maps,
    Scalars,
}

/// Merges a list with items that are identified by the field `key`, or by their values if `key` is
/// empty.
pub(super) fn merge(
    held: Vec<Value>,
    change: &mut [Value],
    place: PatchPlace,
    key: &str,
) -> Result<Vec<Value>, PatchError> {
    merge_with_order(held, change, place, key).map(|(merged, _)| merged)
}

/// Merges a list. Also returns the server's order of the items after the merge.
fn merge_with_order(
    held: Vec<Value>,
    change: &mut [Value],
    place: PatchPlace,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    if held.is_empty() && change.is_empty() {
        return Ok((held, Vec::new()));
    }
    if items(&held, change)? == Items::Maps {
        return merge_maps(held, change, place, key);
    }
    let mut seen = HashSet::new();
    let both = held.iter().chain(&*change);
    let merged: Vec<Value> = both.filter(|value| seen.insert(identity(value))).cloned().collect();
    let merged = MergedItems::of(merged, change, key)?.in_order(change, &held, key)?;
    Ok((merged, held))
}

/// Removes the values of a delete directive from a list of scalars. Lists of maps are merged
/// instead.
pub(super) fn delete(
    held: Vec<Value>,
    change: &mut [Value],
    place: PatchPlace,
    key: &str,
) -> Result<Vec<Value>, PatchError> {
    if held.is_empty() && change.is_empty() {
        return Ok(held);
    }
    if items(&held, change)? == Items::Maps {
        return merge_maps(held, change, place, key).map(|(merged, _)| merged);
    }
    let gone: HashSet<Option<String>> = change.iter().map(identity).collect();
    Ok(held.into_iter().filter(|value| !gone.contains(&identity(value))).collect())
}

/// Applies `$setElementOrder/L`, together with the patch of the list L.
pub(super) fn set_order(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    directive: &str,
    place: PatchPlace,
) -> Result<(), PatchError> {
    let order = patch.remove(directive).unwrap_or_default();
    let Value::Array(order) = order else { return Err(wants_list(&order)) };
    let name = subject(directive, SET_ORDER).ok_or(PatchError::ORDER)?;
    let held = original.get(name).map(as_list).transpose()?.cloned();
    let change = patch.get(name).map(as_list).transpose()?.cloned();
    let (items_place, patching) = place.list(name).map_err(PatchError::Mismatch)?;
    check_order(change.as_deref().unwrap_or_default(), &order, patching.key)?;
    let (merged, server) = match (held.clone(), patch.get_mut(name)) {
        (None, None) => return Ok(()),
        (Some(held), None) => (held.clone(), held),
        (None, Some(change)) => match without_directives(change) {
            Some(Value::Array(change)) => (change, Vec::new()),
            _ => return Ok(()),
        },
        (Some(held), Some(Value::Array(change))) if patching.strategy == MERGE => {
            merge_with_order(held, change, items_place, patching.key)?
        }
        (Some(held), Some(change)) => (as_list(change)?.clone(), held),
    };
    let parts = MergedItems::of(merged, &order, patching.key)?;
    items(held.as_deref().unwrap_or_default(), change.as_deref().unwrap_or_default())?;
    let ordered = parts.in_order(&order, &server, patching.key)?;
    original.insert(name.to_owned(), Value::Array(ordered));
    patch.remove(name);
    Ok(())
}

/// Merges items that are maps by their key.
fn merge_maps(
    held: Vec<Value>,
    change: &mut [Value],
    place: PatchPlace,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    if key.is_empty() {
        let of = place.go_kind();
        return Err(PatchError::Mismatch(format!("cannot merge lists without merge key for {of}")));
    }
    let ListDirectives { replaces, deleted } = ListDirectives::of(change, key)?;
    let plain: Vec<Value> =
        change.iter().filter(|item| item.get(DIRECTIVE).is_none()).cloned().collect();
    if replaces {
        let merged = MergedItems::of(plain.clone(), &[], key)?.in_order(&[], &plain, key)?;
        return Ok((merged, held));
    }
    let is_kept =
        |item: &Value| !item.get(key).is_some_and(|value| deleted.contains(&identity(value)));
    let before = held.len();
    let held: Vec<Value> = held.into_iter().filter(is_kept).collect();
    let mut merged: Vec<Value> = held.clone();
    let mut places = HashMap::new();
    for (at, item) in merged.iter().enumerate() {
        if let Some(value) = item.get(key) {
            places.entry(identity(value)).or_insert(at);
        }
    }
    for item in change.iter_mut() {
        let Value::Object(fields) = item else { continue };
        if fields.contains_key(DIRECTIVE) {
            continue;
        }
        let value = identity(fields.get(key).ok_or_else(|| PatchError::no_key(fields, key))?);
        // Go panics if it compares two merge keys that are maps or lists.
        if value.is_none() {
            return Err(PatchError::Panic);
        }
        if let Some(&at) = places.get(&value) {
            let Value::Object(found) = merged[at].take() else { continue };
            merged[at] = Value::Object(super::merge(found, fields, place)?);
        } else {
            places.insert(value, merged.len());
            merged.push(item.clone());
        }
    }
    // Go deletes and appends in place: new items take the positions of deleted ones.
    let server = merged.iter().take(before).cloned().collect();
    let merged = MergedItems::of(merged, &plain, key)?.in_order(&plain, &held, key)?;
    Ok((merged, server))
}

/// The directives among the items of a patch.
#[derive(Default)]
struct ListDirectives {
    /// Whether the rest of the patch replaces the list.
    replaces: bool,
    /// The keys of the items to delete.
    deleted: HashSet<Option<String>>,
}

impl ListDirectives {
    fn of(change: &[Value], key: &str) -> Result<Self, PatchError> {
        let mut special = Self::default();
        for fields in change.iter().filter_map(Value::as_object) {
            let Some(directive) = fields.get(DIRECTIVE) else { continue };
            match directive.as_str() {
                Some(DELETE) => {
                    let value = fields.get(key).ok_or_else(|| PatchError::no_key(fields, key))?;
                    special.deleted.extend(identity(value).map(Some));
                }
                Some(REPLACE) => special.replaces = true,
                Some(MERGE) => {
                    let why = "merging lists cannot yet be specified in the patch";
                    return Err(PatchError::Mismatch(why.to_owned()));
                }
                _ => return Err(PatchError::unknown_directive(directive, fields)),
            }
        }
        Ok(special)
    }
}

/// The items of a merged list: those that the patch names, and those that only the server has.
struct MergedItems {
    named: Vec<Value>,
    others: Vec<Value>,
}

impl MergedItems {
    fn of(merged: Vec<Value>, wanted: &[Value], key: &str) -> Result<Self, PatchError> {
        let ranks = Ranks::new(wanted, key);
        if key.is_empty() {
            // Go uses the values as map keys, and panics for maps and lists.
            if wanted.iter().chain(&merged).any(|value| identity(value).is_none()) {
                return Err(PatchError::Panic);
            }
        } else {
            check_keys(&merged, key)?;
            check_search(&merged, wanted, &ranks)?;
        }
        let (named, others) = merged.into_iter().partition(|item| ranks.of(item).is_some());
        Ok(Self { named, others })
    }

    /// Returns the list in the order of the patch. Items that only the server has keep their order.
    fn in_order(
        self,
        wanted: &[Value],
        server: &[Value],
        key: &str,
    ) -> Result<Vec<Value>, PatchError> {
        if !key.is_empty() || server.iter().any(Value::is_object) {
            check_keys(wanted, key)?;
            check_keys(server, key)?;
        }
        let server_ranks = Ranks::new(server, key);
        let named = deletions_last(by_rank(self.named, &Ranks::new(wanted, key)));
        let others = deletions_last(by_rank(self.others, &server_ranks));
        Ok(interleave(others, named, &server_ranks))
    }
}

/// Moves delete directives, which are part of new items, to the end of the list.
fn deletions_last(list: Vec<Value>) -> Vec<Value> {
    let (deletions, mut others): (Vec<Value>, Vec<Value>) = list
        .into_iter()
        .partition(|item| item.get(DIRECTIVE).is_some_and(|directive| directive == DELETE));
    others.extend(deletions);
    others
}

/// Go searches the patch list for every merged item. It fails at the first entry that is not a map,
/// unless it finds the item earlier.
fn check_search(merged: &[Value], wanted: &[Value], ranks: &Ranks<'_>) -> Result<(), PatchError> {
    let Some(odd) = wanted.iter().position(|item| !item.is_object()) else { return Ok(()) };
    if merged.iter().any(|item| ranks.of(item).is_none_or(|rank| rank > odd)) {
        return Err(PatchError::Mismatch(format!("value for key {odd} is not a map")));
    }
    Ok(())
}

fn check_keys(list: &[Value], key: &str) -> Result<(), PatchError> {
    for item in list {
        let fields = as_map(item)?;
        if !fields.contains_key(key) {
            return Err(PatchError::no_key(fields, key));
        }
    }
    Ok(())
}

/// Checks that `order` contains the items of a patch, in the same order. Items to delete are
/// ignored.
fn check_order(change: &[Value], order: &[Value], key: &str) -> Result<(), PatchError> {
    if change.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut items = Vec::new();
    for item in change {
        if key.is_empty() {
            items.push(item);
            continue;
        }
        if as_map(item)?.get(DIRECTIVE).is_none_or(|directive| directive != DELETE) {
            items.push(item);
        }
    }
    let (mut at, mut place) = (0, 0);
    while at < items.len() && place < order.len() {
        if items[at].get(DIRECTIVE).is_some() {
            at += 1;
            continue;
        }
        if is_same(items[at], &order[place], key)? {
            at += 1;
        }
        place += 1;
    }
    if at < items.len() && place >= order.len() {
        let (patch, order) = (golang::shown_list(change), golang::shown_list(order));
        return Err(PatchError::Mismatch(format!(
            "The order in patch list:\n{patch}\n doesn't match {SET_ORDER} list:\n{order}\n"
        )));
    }
    Ok(())
}

fn is_same(left: &Value, right: &Value, key: &str) -> Result<bool, PatchError> {
    let (left, right) = if key.is_empty() {
        (left, right)
    } else {
        let (left, right) = (as_map(left)?, as_map(right)?);
        let value = |map| Map::get(map, key).ok_or_else(|| PatchError::no_key(map, key));
        (value(left)?, value(right)?)
    };
    match (identity(left), identity(right)) {
        (None, None) if golang::type_name(left) == golang::type_name(right) => {
            Err(PatchError::Panic)
        }
        (left, right) => Ok(left.is_some() && left == right),
    }
}

/// Returns the type of the items of both lists. They must all have the same type.
fn items(held: &[Value], change: &[Value]) -> Result<Items, PatchError> {
    let mut types = held.iter().chain(change).map(|item| (item, golang::type_name(item)));
    let Some((first, of)) = types.next() else {
        return Err(PatchError::Mismatch("no elements in any of the given slices".to_owned()));
    };
    match first {
        Value::Array(_) => return Err(PatchError::ListOfLists),
        Value::Null => return Err(PatchError::Panic),
        _ => {}
    }
    if types.any(|(_, other)| other != of) {
        let lists = golang::shown_lists(&[held, change]);
        return Err(PatchError::Mismatch(format!("list element types are not identical: {lists}")));
    }
    Ok(if first.is_object() { Items::Maps } else { Items::Scalars })
}

fn as_list(value: &Value) -> Result<&Vec<Value>, PatchError> {
    value.as_array().ok_or_else(|| wants_list(value))
}

fn wants_list(found: &Value) -> PatchError {
    PatchError::wrong_type("[]interface {}", found)
}

fn as_map(value: &Value) -> Result<&Map<String, Value>, PatchError> {
    value.as_object().ok_or_else(|| PatchError::wrong_type("map[string]interface {}", value))
}
