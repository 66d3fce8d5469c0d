//! The managers of an object's fields: `metadata.managedFields`, and how a write changes it.
//!
//! A manager that applies states which fields it manages. A manager that writes in another way
//! manages the fields that it changed. A manager loses a field if the field is removed, or if
//! another manager changes its value. If two managers apply the same value, they share the field.
//! Applying another value is a conflict.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::compare::{Comparison, applied};
use super::field_set::FieldSet;
use super::merge::{merge, remove};
use crate::field_error::go_quote;
use crate::merge_schema::MergeSchema;

/// The limit on managers with writes other than apply. Beyond it, the oldest are merged.
const UPDATERS_MAX: usize = 10;

/// The name of the manager that results from merging old managers.
const ANCIENT: &str = "ancient-changes";

/// Fields that nobody manages: the identity of an object, and the fields that only the server sets.
const UNMANAGED: [&[&str]; 12] = [
    &["apiVersion"],
    &["kind"],
    &["metadata"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "clusterName"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
];

/// How a manager writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

/// A manager of fields. Managers are ordered by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Manager {
    pub(crate) name: String,
    pub(crate) operation: Operation,
    /// The API version that it writes in. Empty for a manager that applies, which is the same
    /// manager in all versions.
    version: String,
    subresource: String,
}

/// The fields of a manager.
#[derive(Clone, Debug, PartialEq)]
struct ManagedFields {
    version: String,
    fields: FieldSet,
    time: Option<String>,
}

/// All managers of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Managers(BTreeMap<Manager, ManagedFields>);

/// The schema of a kind's fields, as a request sees it.
pub(crate) struct Fields<'a> {
    /// The schemas of whole objects, by `apiVersion`.
    pub(crate) places: BTreeMap<String, MergeSchema<'a>>,
    /// The `apiVersion` of the request.
    pub(crate) version: String,
    /// The fields that the request cannot write.
    pub(crate) unwritable: FieldSet,
}

/// A manager with fields that the write would change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Conflict {
    pub(crate) manager: Manager,
    pub(crate) fields: FieldSet,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

impl Manager {
    pub(crate) fn new(name: &str, operation: Operation, version: &str, subresource: &str) -> Self {
        let name = if name.is_empty() { "unknown" } else { name };
        let version = if operation == Operation::Apply { "" } else { version };
        Self {
            name: name.to_owned(),
            operation,
            version: version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }

    /// Returns the manager as conflicts name it.
    pub(crate) fn shown(&self) -> String {
        let mut shown = go_quote(&self.name);
        if !self.subresource.is_empty() {
            shown = format!("{shown} with subresource {}", go_quote(&self.subresource));
        }
        if self.operation == Operation::Update {
            shown = format!("{shown} using {}", self.version);
        }
        shown
    }
}

impl<'a> Fields<'a> {
    /// Returns the schema of whole objects in the version of the request.
    pub(crate) fn place(&self) -> MergeSchema<'a> {
        self.places.get(&self.version).copied().unwrap_or(MergeSchema::Open)
    }

    fn compare(&self, version: &str, old: &Value, new: &Value) -> Option<Comparison> {
        let comparison = Comparison::new(*self.places.get(version)?, old, new);
        let is_ours = version == self.version;
        Some(if is_ours { comparison.without(&self.unwritable) } else { comparison })
    }
}

impl Managers {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Decodes `metadata.managedFields`. Returns `None` if it is malformed.
    pub(crate) fn decode(entries: &Value) -> Option<Self> {
        let mut managers = BTreeMap::new();
        for entry in entries.as_array()? {
            let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
            let operation = match text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return None,
            };
            let version = text("apiVersion");
            if version.is_empty() || text("fieldsType") != "FieldsV1" {
                return None;
            }
            let mut manager = Manager::new("", operation, version, text("subresource"));
            text("manager").clone_into(&mut manager.name);
            let fields = entry.get("fieldsV1").map(FieldSet::decode).unwrap_or_default();
            let time = Some(text("time")).filter(|time| !time.is_empty()).map(str::to_owned);
            managers.insert(manager, ManagedFields { version: version.to_owned(), fields, time });
        }
        Some(Self(managers))
    }

    /// Encodes `metadata.managedFields`: managers that apply come first, then by time and name.
    pub(crate) fn encode(&self) -> Value {
        let mut entries: Vec<(&Manager, &ManagedFields)> = self.0.iter().collect();
        entries.sort_by_key(|(manager, managed)| {
            (
                manager.operation,
                &managed.time,
                &manager.name,
                &managed.version,
                &manager.subresource,
            )
        });
        entries.into_iter().map(|(manager, managed)| encode(manager, managed)).collect()
    }

    /// Whether both have the same managers with the same fields, ignoring times.
    pub(crate) fn same_but_for_times(&self, other: &Self) -> bool {
        let timeless = |managers: &Self| {
            let mut managers = managers.clone();
            managers.0.values_mut().for_each(|managed| managed.time = None);
            managers
        };
        timeless(self) == timeless(other)
    }

    /// Records a write other than apply: the manager gets the fields that it changed.
    pub(crate) fn update(
        &mut self,
        fields: &Fields<'_>,
        (old, new): (&Value, &Value),
        manager: Manager,
        now: Option<String>,
    ) {
        let comparison = self
            .step(fields, (old, new), None, true)
            .unwrap_or_else(|_| unreachable!("what is forced has no conflicts"));
        let written = comparison.written().difference(&FieldSet::of(&UNMANAGED));
        if written.is_empty() {
            return;
        }
        let version = fields.version.clone();
        let owned = self.0.entry(manager).or_insert_with(|| ManagedFields {
            version,
            fields: FieldSet::default(),
            time: None,
        });
        owned.fields = owned.fields.union(&written);
        owned.time = now;
        self.merge_oldest_updaters();
    }

    /// Applies a configuration. Returns the new object, or `None` if nothing changed.
    ///
    /// # Errors
    /// Returns the conflicts if other managers own fields that would change, unless `force` is set.
    pub(crate) fn apply(
        &mut self,
        fields: &Fields<'_>,
        (live, config): (&Value, &Value),
        manager: &Manager,
        force: bool,
        now: &str,
    ) -> Result<Option<Value>, Vec<Conflict>> {
        let place = fields.place();
        let merged = merge(place, live, config);
        let last = self.0.get(manager).cloned();
        let wanted = ManagedFields {
            version: fields.version.clone(),
            fields: applied(place, config).without(&fields.unwritable),
            time: last.as_ref().and_then(|last| last.time.clone()),
        };
        self.0.insert(manager.clone(), wanted);
        let object = match &last {
            Some(last) => self.prune(fields, merged, last),
            None => merged,
        };
        self.step(fields, (live, &object), Some(manager), force)?;
        let changed = object != *live;
        if let Some(managed) = self.0.get_mut(manager) {
            managed.fields = managed.fields.difference(&FieldSet::of(&UNMANAGED));
            if changed {
                managed.time = Some(now.to_owned());
            }
        }
        self.remove_empty_managers();
        Ok(changed.then_some(object))
    }

    /// Takes the changed and removed fields from all managers except `writer`. Without `force`,
    /// returns the conflicts.
    fn step(
        &mut self,
        fields: &Fields<'_>,
        (old, new): (&Value, &Value),
        writer: Option<&Manager>,
        force: bool,
    ) -> Result<Comparison, Vec<Conflict>> {
        let mut comparisons: BTreeMap<String, Option<Comparison>> = BTreeMap::new();
        let mut compare = |version: &str| {
            let known = comparisons.entry(version.to_owned());
            known.or_insert_with(|| fields.compare(version, old, new)).clone()
        };
        let mut conflicts = Vec::new();
        let mut left = BTreeMap::new();
        for (manager, managed) in &self.0 {
            if Some(manager) == writer {
                left.insert(manager.clone(), managed.clone());
                continue;
            }
            // The fields of a version that no longer exists cannot be interpreted.
            let Some(comparison) = compare(&managed.version) else { continue };
            let lost = managed.fields.intersection(&comparison.written());
            let kept = managed.fields.difference(&lost).difference(&comparison.removed);
            left.insert(manager.clone(), ManagedFields { fields: kept, ..managed.clone() });
            if !lost.is_empty() {
                conflicts.push(Conflict { manager: manager.clone(), fields: lost });
            }
        }
        if !force && !conflicts.is_empty() {
            return Err(conflicts);
        }
        let comparison = compare(&fields.version).unwrap_or_default();
        self.0 = left;
        self.remove_empty_managers();
        Ok(comparison)
    }

    /// Removes the fields that the manager applied last time and no longer applies, unless another
    /// manager owns them.
    fn prune(&self, fields: &Fields<'_>, merged: Value, last: &ManagedFields) -> Value {
        let Some(&place) = fields.places.get(&last.version) else { return merged };
        let last = last.fields.with_named(place);
        let mut left = remove(place, &merged, &last);
        let mut owned: BTreeMap<&str, FieldSet> = BTreeMap::new();
        for one in self.0.values() {
            let of_version = owned.entry(&one.version).or_default();
            *of_version = of_version.union(&one.fields);
        }
        for (version, owned) in owned {
            let Some(&place) = fields.places.get(version) else { continue };
            let all = applied(place, &merged).with_named(place);
            let kept = applied(place, &left).with_named(place).union(&owned.with_named(place));
            left = remove(place, &merged, &all.difference(&kept));
        }
        // Keep what was removed along with them, but was not applied by this manager.
        let all = applied(place, &merged).with_named(place);
        let left = applied(place, &left).with_named(place);
        remove(place, &merged, &all.difference(&left).intersection(&last))
    }

    fn remove_empty_managers(&mut self) {
        self.0.retain(|_, managed| !managed.fields.is_empty());
    }

    /// Merges the oldest managers of a version if there are too many.
    fn merge_oldest_updaters(&mut self) {
        let updaters = self.0.iter().filter(|(manager, _)| manager.operation == Operation::Update);
        let mut updaters: Vec<(Option<String>, Manager)> =
            updaters.map(|(manager, managed)| (managed.time.clone(), manager.clone())).collect();
        updaters.sort();
        let mut count = updaters.len();
        let mut first: BTreeMap<String, Manager> = BTreeMap::new();
        for (time, manager) in updaters {
            if count <= UPDATERS_MAX {
                return;
            }
            let version = manager.version.clone();
            let Some(oldest) = first.get(&version) else {
                first.insert(version, manager);
                continue;
            };
            let bucket = Manager::new(ANCIENT, Operation::Update, &version, "");
            let mut fields = FieldSet::default();
            for member in [oldest, &manager, &bucket] {
                if let Some(managed) = self.0.remove(member) {
                    fields = fields.union(&managed.fields);
                }
            }
            self.0.insert(bucket, ManagedFields { version, fields, time });
            count -= 1;
        }
    }
}

fn encode(manager: &Manager, owned: &ManagedFields) -> Value {
    let mut entry = json!({
        "operation": manager.operation.name(),
        "apiVersion": owned.version,
        "fieldsType": "FieldsV1",
        "fieldsV1": owned.fields.encode(),
    });
    let texts = [
        ("manager", manager.name.as_str()),
        ("subresource", &manager.subresource),
        ("time", owned.time.as_deref().unwrap_or_default()),
    ];
    let entry_fields: &mut Map<String, Value> =
        entry.as_object_mut().expect("an entry was just made");
    for (field, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        entry_fields.insert(field.to_owned(), text.into());
    }
    entry
}

#[cfg(test)]
mod tests;
