//! The writer of a request, and how writes other than apply change `metadata.managedFields`.
//!
//! The real server keeps managed fields for all objects. This server keeps them only for objects
//! that were applied at least once, or created with a `fieldManager`, so other objects cost
//! nothing. As on a real server, earlier writes belong to a manager called `before-first-apply`.

use serde_json::{Map, Value};

use super::field_set::FieldSet;
use super::managers::{Fields, Manager, Managers, Operation};
use crate::clock::WallClock;
use crate::fields::metadata_mut;
use crate::kind::{StatusMetadata, Version};
use crate::merge_schema::{BuiltInMergeSchema, MergeSchema};
use crate::target::Target;

/// The field of `metadata` with the managers.
pub(crate) const MANAGED_FIELDS: &str = "managedFields";

/// The longest manager name that is taken from a user agent, in bytes.
const NAME_MAX: usize = 128;

/// The client that writes. Its name is only computed when it is stored.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Writer<'a> {
    /// The parameter `fieldManager`; usually empty.
    field_manager: &'a str,
    user_agent: Option<&'a str>,
    /// The subresource of the write, if the target does not name it.
    subresource: Option<&'static str>,
}

/// How a write changes the managed fields of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tracking<'a> {
    /// An apply, which has updated the managers already.
    Done,
    /// This writer has made the changes.
    By(Writer<'a>),
}

impl<'a> Writer<'a> {
    pub(crate) fn new(field_manager: &'a str, user_agent: Option<&'a str>) -> Self {
        Self { field_manager, user_agent, subresource: None }
    }

    /// Returns the writer as one that writes through a subresource.
    pub(crate) fn through(self, subresource: &'static str) -> Self {
        Self { subresource: Some(subresource), ..self }
    }

    /// Returns the `fieldManager`, or else the user agent up to its first slash.
    fn name(self) -> String {
        if !self.field_manager.is_empty() {
            return self.field_manager.to_owned();
        }
        let agent = self.user_agent.unwrap_or_default().split('/').next().unwrap_or_default();
        let mut name: String = agent.chars().filter(|c| !c.is_control()).collect();
        name.truncate(name.floor_char_boundary(NAME_MAX));
        name
    }

    /// Returns the time of the write. The real server records none for writes through `/scale`.
    fn time(self, clock: &WallClock) -> Option<String> {
        self.subresource.is_none().then(|| clock.now())
    }

    fn manager(self, target: &Target) -> Manager {
        let subresource = self.subresource.unwrap_or(&target.subresource);
        Manager::new(&self.name(), Operation::Update, &version_of(target), subresource)
    }
}

/// Records the creator of a new object, if it has managers or the request names one.
pub(crate) fn created(
    target: &Target,
    object: &mut Map<String, Value>,
    tracking: Tracking<'_>,
    clock: &WallClock,
) {
    let Tracking::By(writer) = tracking else { return };
    let mut managers = match take(object) {
        None => Managers::default(),
        Some(given) => Managers::decode(&given).unwrap_or_default(),
    };
    if managers.is_empty() && writer.field_manager.is_empty() {
        return;
    }
    let (old, new) = (nothing(target), shown(target, object));
    managers.update(&fields(target), (&old, &new), writer.manager(target), writer.time(clock));
    put(object, &managers);
}

/// Records the writer of a changed object, if it has managers. `given` are the managers in the
/// request.
pub(crate) fn updated(
    target: &Target,
    old: &Map<String, Value>,
    new: &mut Map<String, Value>,
    given: Option<&Value>,
    tracking: Tracking<'_>,
    clock: &WallClock,
) {
    let held = old.get("metadata").and_then(|metadata| metadata.get(MANAGED_FIELDS));
    if held.is_none() && given.is_none() {
        return;
    }
    let before = held.and_then(Managers::decode).unwrap_or_default();
    let after = match tracking {
        Tracking::Done => given.and_then(Managers::decode).unwrap_or_default(),
        Tracking::By(writer) => {
            let mut managers = base(target, given, &before);
            if !managers.is_empty() {
                let old = shown(target, &without_managers(old));
                let new = shown(target, new);
                managers.update(
                    &fields(target),
                    (&old, &new),
                    writer.manager(target),
                    writer.time(clock),
                );
            }
            managers
        }
    };
    // A write that would only change the time of a manager keeps the old managers.
    let rest_is_same = without_managers(old) == *new;
    match held {
        Some(held) if rest_is_same && after.same_but_for_times(&before) => {
            metadata_mut(new).insert(MANAGED_FIELDS.to_owned(), held.clone());
        }
        _ => put(new, &after),
    }
}

/// Returns the managers before the write. A client clears them by sending an empty list, or a list
/// of one empty entry. Malformed managers are ignored, and so are those in a write to a
/// subresource.
fn base(target: &Target, given: Option<&Value>, held: &Managers) -> Managers {
    let Some(given) = given.filter(|_| target.subresource.is_empty()) else { return held.clone() };
    let entries = given.as_array().map(Vec::as_slice).unwrap_or_default();
    let forgets = match entries {
        [] => given.is_array(),
        [one] => one.as_object().is_some_and(Map::is_empty),
        _ => false,
    };
    if forgets {
        return Managers::default();
    }
    let given = Managers::decode(given).filter(|managers| !managers.is_empty());
    given.unwrap_or_else(|| held.clone())
}

/// Returns how the fields of the target's kind merge, and which of them a request cannot write.
pub(crate) fn fields(target: &Target) -> Fields<'_> {
    let place =
        |version: &Version| (target.kind.api_version(&version.name), place_of(target, version));
    Fields {
        places: target.kind.versions.iter().map(place).collect(),
        version: version_of(target),
        unwritable: unwritable(target),
    }
}

fn place_of<'a>(target: &'a Target, version: &Version) -> MergeSchema<'a> {
    let of_kind = target.kind.versions.iter().find(|known| known.name == version.name);
    let schema = of_kind.and_then(Version::schema);
    match schema {
        Some(schema) => MergeSchema::of_schema(schema),
        None => BuiltInMergeSchema::of_kind(&target.kind, &version.name)
            .map_or(MergeSchema::Open, MergeSchema::BuiltIn),
    }
}

fn unwritable(target: &Target) -> FieldSet {
    let rules = &target.kind.rules;
    match (target.subresource.as_str(), rules.status_metadata) {
        ("status", StatusMetadata::Kept) => FieldSet::of(&[&["metadata"], &["spec"]]),
        ("status", StatusMetadata::Written) => FieldSet::of(&[&["spec"]]),
        ("status", StatusMetadata::WrittenExcept(field)) => {
            FieldSet::of(&[&["spec"], &["metadata", field]])
        }
        _ if target.version().status => FieldSet::of(&[&["status"]]),
        _ => FieldSet::default(),
    }
}

/// Returns an object without any fields set.
pub(crate) fn nothing(target: &Target) -> Value {
    if target.kind.is_builtin() {
        BuiltInMergeSchema::empty_object(&target.kind, &target.version().name)
    } else {
        Value::Object(Map::new())
    }
}

/// Returns the `apiVersion` of the request.
pub(crate) fn version_of(target: &Target) -> String {
    target.kind.api_version(&target.version().name)
}

/// Removes the managers from an object and returns them.
pub(crate) fn take(object: &mut Map<String, Value>) -> Option<Value> {
    metadata_mut(object).remove(MANAGED_FIELDS)
}

/// Sets the managers of an object, if there are any.
pub(crate) fn put(object: &mut Map<String, Value>, managers: &Managers) {
    if !managers.is_empty() {
        metadata_mut(object).insert(MANAGED_FIELDS.to_owned(), managers.encode());
    }
}

/// Returns a stored object with the field names of the request's version.
fn shown(target: &Target, object: &Map<String, Value>) -> Value {
    let mut value = Value::Object(object.clone());
    target.version().to_shown(&mut value);
    value
}

fn without_managers(object: &Map<String, Value>) -> Map<String, Value> {
    let mut object = object.clone();
    take(&mut object);
    object
}
