//! Strategic merge patches, which kubectl and client-go send for built-in kinds.
//!
//! They are merge patches with a schema: lists whose items have keys are merged item by item.
//! Members with names that start with `$` are directives:
//!
//! - `$patch: replace` or `delete`, in a map or in an item of a list;
//! - `$setElementOrder/L`: the order of the items of the list L;
//! - `$deleteFromPrimitiveList/L`: values to remove from a list of scalars;
//! - `$retainKeys`: the members that a map may keep.
//!
//! Maps are merged here, and lists in [`lists`], which uses [`order`] to sort them. [`place`] says
//! how fields merge. [`golang`] formats values as Go does, because errors quote the patch.
//! Everything works as in apimachinery's `StrategicMergePatch`, including its quirks: a new item of
//! a list is added unchanged, with its nulls and directives.
//!
//! Applying a patch consumes it, because errors quote the rest of it.

mod golang;
mod lists;
mod order;
mod place;

use std::collections::HashSet;

use serde_json::{Map, Value};

use self::place::PatchPlace;
use super::super::decode::{Decoder, misfit};
use crate::failure::Failure;
use crate::go_decoder::go_type;
use crate::json;
use crate::kinds::shape::convert;

const DIRECTIVE: &str = "$patch";
const DELETE: &str = "delete";
const REPLACE: &str = "replace";
const MERGE: &str = "merge";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_VALUES: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// A parsed patch.
#[derive(Debug)]
pub(crate) struct StrategicPatch {
    patch: Map<String, Value>,
    /// The fields that the body has twice.
    duplicates: Vec<String>,
}

/// Why a patch cannot be applied.
#[derive(Debug, PartialEq, Eq)]
enum PatchError {
    /// A directive is malformed.
    MalformedDirective(&'static str),
    /// A list contains lists.
    ListOfLists,
    /// The patch does not match the object or its type. The real server returns an internal error.
    Mismatch(String),
    /// The real server panics on this patch and closes the connection. We answer with a 500.
    Panic,
}

impl PatchError {
    const ORDER: Self = Self::MalformedDirective("invalid patch format of setElementOrder list");
    const VALUES: Self = Self::MalformedDirective("invalid patch format of primitive list");
    const KEYS: Self = Self::MalformedDirective("invalid patch format of retainKeys");

    fn no_key(item: &Map<String, Value>, key: &str) -> Self {
        let shown = golang::shown_map(item);
        Self::Mismatch(format!("map: {shown} does not contain declared merge key: {key}"))
    }

    fn wrong_type(expected: &str, found: &Value) -> Self {
        let found = golang::type_name(found);
        Self::Mismatch(format!("expected a {expected}, but received a {found}"))
    }

    fn unknown_directive(directive: &Value, map: &Map<String, Value>) -> Self {
        let (directive, map) = (golang::as_text(directive), golang::shown_map(map));
        Self::Mismatch(format!("unknown patch type: {directive} in map: {map}"))
    }
}

impl From<PatchError> for Failure {
    fn from(refusal: PatchError) -> Self {
        match refusal {
            PatchError::MalformedDirective(why) => Self::bad_request(why),
            PatchError::ListOfLists => Self::rejected_patch(),
            PatchError::Mismatch(why) => Self::internal(why),
            PatchError::Panic => Self::internal(
                "This request caused apiserver to panic. Look in the logs for details.",
            ),
        }
    }
}

impl StrategicPatch {
    /// Reads a patch. The real server accepts null as an empty patch.
    pub(super) fn parse(read: json::ParsedJson) -> Result<Self, Failure> {
        match read.value {
            Value::Object(patch) => Ok(Self { patch, duplicates: read.duplicates }),
            Value::Null => Ok(Self { patch: Map::new(), duplicates: Vec::new() }),
            other => Err(Failure::bad_request(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                go_type(&other)
            ))),
        }
    }

    /// Applies the patch to an object, and checks the result.
    pub(super) fn apply(
        &self,
        decoder: &Decoder<'_>,
        object: Map<String, Value>,
    ) -> Result<Map<String, Value>, Failure> {
        let target = decoder.target;
        let place = PatchPlace::of_kind(&target.kind, &target.version().name);
        let place = place.ok_or_else(Failure::unsupported_patch_type)?;
        let mut patch = self.patch.clone();
        let object = merge(object, &mut patch, place)?;
        decoder.converted(object, &golang::shown_map(&patch), &self.duplicates)
    }

    /// Applies the patch to a scale.
    pub(super) fn apply_to_scale(&self, scale: Value) -> Result<Value, Failure> {
        let place = PatchPlace::of("autoscaling/v1", "Scale");
        let place = place.ok_or_else(Failure::unsupported_patch_type)?;
        let Value::Object(scale) = scale else { return Err(Failure::rejected_patch()) };
        let mut patch = self.patch.clone();
        let mut scale = Value::Object(merge(scale, &mut patch, place)?);
        convert("autoscaling/v1", "Scale", &mut scale)
            .map_err(|why| misfit(&golang::shown_map(&patch), &why))?;
        Ok(scale)
    }
}

/// Applies a patch to a map of a known type.
fn merge(
    mut original: Map<String, Value>,
    patch: &mut Map<String, Value>,
    place: PatchPlace,
) -> Result<Map<String, Value>, PatchError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some(REPLACE) => {
                patch.remove(DIRECTIVE);
                Ok(patch.clone())
            }
            Some(DELETE) => Ok(Map::new()),
            _ => Err(PatchError::unknown_directive(directive, patch)),
        };
    }
    retain_keys(&mut original, patch)?;
    let ordered = names(patch, |name| name.starts_with(SET_ORDER));
    for name in ordered {
        lists::set_order(&mut original, patch, &name, place)?;
    }
    for name in names(patch, |_| true) {
        let (field, is_deletion) = match deleted_list(&name)? {
            Some(list) => (list, true),
            None => (name.as_str(), false),
        };
        let change = patch.get_mut(&name).expect("the names are those of the patch");
        if change.is_null() {
            original.remove(field);
            continue;
        }
        let merged = match original.remove(field) {
            Some(held) => merge_field(held, change, field, is_deletion, place)?,
            None if is_deletion => None,
            None => as_new(change),
        };
        if let Some(merged) = merged {
            original.insert(field.to_owned(), merged);
        }
    }
    Ok(original)
}

/// Merges a field that both sides have. Returns `None` if nothing is left of it.
fn merge_field(
    held: Value,
    change: &mut Value,
    name: &str,
    is_deletion: bool,
    place: PatchPlace,
) -> Result<Option<Value>, PatchError> {
    match (held, change) {
        (Value::Object(held), Value::Object(change)) => {
            let (inside, patching) = place.map(name).map_err(PatchError::Mismatch)?;
            if patching.strategy == REPLACE {
                return Ok(Some(Value::Object(change.clone())));
            }
            merge(held, change, inside).map(Value::Object).map(Some)
        }
        (Value::Array(held), Value::Array(change)) => {
            let (items, patching) = place.list(name).map_err(PatchError::Mismatch)?;
            let merged = if is_deletion {
                lists::delete(held, change, items, patching.key)?
            } else if patching.strategy == MERGE {
                lists::merge(held, change, items, patching.key)?
            } else {
                change.clone()
            };
            Ok(Some(Value::Array(merged)))
        }
        (held, _) if is_deletion => Ok(Some(held)),
        (_, change) => Ok(as_new(change)),
    }
}

/// Returns a value that replaces the old one, or `None` if it is a directive itself.
fn as_new(change: &mut Value) -> Option<Value> {
    drop_nulls(change);
    without_directives(change)
}

/// Applies `$retainKeys`: removes the members that it does not list. The patch must not set those.
fn retain_keys(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), PatchError> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(keys) = keys else { return Err(PatchError::KEYS) };
    if keys.iter().any(|key| key.is_object() || key.is_array()) {
        return Err(PatchError::Panic);
    }
    let keys: HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let kept = |name: &str| keys.contains(name);
    let is_directive = |name: &str| name.starts_with(DELETE_VALUES) || name.starts_with(SET_ORDER);
    let surplus =
        |(name, value): (&String, &Value)| !value.is_null() && !is_directive(name) && !kept(name);
    if patch.iter().any(surplus) {
        return Err(PatchError::KEYS);
    }
    original.retain(|name, _| kept(name));
    Ok(())
}

/// Returns the name of the list, if the member is a `$deleteFromPrimitiveList` directive.
fn deleted_list(name: &str) -> Result<Option<&str>, PatchError> {
    if !name.starts_with(DELETE_VALUES) {
        return Ok(None);
    }
    subject(name, DELETE_VALUES).map(Some).ok_or(PatchError::VALUES)
}

/// Returns the part after the slash of a directive, or `None` if the name only starts like one.
fn subject<'a>(name: &'a str, directive: &str) -> Option<&'a str> {
    name.strip_prefix(directive)?.strip_prefix('/')
}

fn names(patch: &Map<String, Value>, of: impl Fn(&str) -> bool) -> Vec<String> {
    patch.keys().filter(|name| of(name)).cloned().collect()
}

/// Removes members that are null, at any depth.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Removes all maps that are directives. Returns `None` if the value itself is one.
fn without_directives(value: &mut Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => {
            fields.retain(|_, value| match without_directives(value) {
                Some(kept) => {
                    *value = kept;
                    true
                }
                None => false,
            });
            Some(value.clone())
        }
        Value::Array(items) => {
            Some(Value::Array(items.iter_mut().filter_map(without_directives).collect()))
        }
        other => Some(other.clone()),
    }
}

#[cfg(test)]
mod tests;
