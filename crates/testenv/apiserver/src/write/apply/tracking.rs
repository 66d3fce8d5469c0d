//! Who writes, and what becomes of `metadata.managedFields` when an object is written by other
//! means than apply.
//!
//! The real server keeps managed fields of all objects. Here only those objects have them that were
//! ever applied, or that were created by somebody who named itself: an object that nobody applies
//! costs nothing. What was written before belongs to a manager called `before-first-apply`, as on a
//! real server for objects without any.

use serde_json::{Map, Value};

use super::field_set::FieldSet;
use super::managers::{Fields, Manager, Managers, Operation};
use crate::clock::WallClock;
use crate::fields::metadata_mut;
use crate::kind::{StatusMetadata, Version};
use crate::merge_schema::{BuiltInMergeSchema, MergeSchema};
use crate::target::Target;

/// The field of `metadata` that all of this is about.
pub(crate) const MANAGED_FIELDS: &str = "managedFields";

/// Bytes that the name of a manager may have, if it is taken from the user agent.
const NAME_MAX: usize = 128;

/// Who writes. Its name is worked out only where it is written down.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Writer<'a> {
    /// The parameter `fieldManager`; mostly empty.
    field_manager: &'a str,
    user_agent: Option<&'a str>,
    /// The subresource that is written through, where the target does not say so itself.
    subresource: Option<&'static str>,
}

/// What a write does to the managed fields of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tracking<'a> {
    /// They are in the object already: it was applied.
    Done,
    /// This one has written what changed.
    By(Writer<'a>),
}

impl<'a> Writer<'a> {
    pub(crate) fn new(field_manager: &'a str, user_agent: Option<&'a str>) -> Self {
        Self { field_manager, user_agent, subresource: None }
    }

    /// The same one, who writes through a subresource.
    pub(crate) fn through(self, subresource: &'static str) -> Self {
        Self { subresource: Some(subresource), ..self }
    }

    /// What it calls itself, or else what stands before the first slash of its user agent.
    fn name(self) -> String {
        if !self.field_manager.is_empty() {
            return self.field_manager.to_owned();
        }
        let agent = self.user_agent.unwrap_or_default().split('/').next().unwrap_or_default();
        let mut name: String = agent.chars().filter(|c| !c.is_control()).collect();
        name.truncate(name.floor_char_boundary(NAME_MAX));
        name
    }

    /// When it writes. The real server does not tell that of one who writes through `/scale`.
    fn time(self, clock: &WallClock) -> Option<String> {
        self.subresource.is_none().then(|| clock.now())
    }

    fn manager(self, target: &Target) -> Manager {
        let subresource = self.subresource.unwrap_or(&target.subresource);
        Manager::new(&self.name(), Operation::Update, &version_of(target), subresource)
    }
}

/// Notes who made a new object, if anybody wants to know.
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

/// Notes who changed an object, if it has managers. `given` is what the writer sent of them.
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
    // Who wrote last is no news if nothing else is.
    let rest_is_same = without_managers(old) == *new;
    match held {
        Some(held) if rest_is_same && after.same_but_for_times(&before) => {
            metadata_mut(new).insert(MANAGED_FIELDS.to_owned(), held.clone());
        }
        _ => put(new, &after),
    }
}

/// The managers that a write starts from. A list that is empty, or of one empty entry, forgets them
/// all; one that is not understood does not count, and neither does one that is sent to a
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

/// How the fields of the target's kind merge, and which a request to it cannot write.
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

/// An object to which nothing was given.
pub(crate) fn nothing(target: &Target) -> Value {
    if target.kind.is_builtin() {
        BuiltInMergeSchema::empty_object(&target.kind, &target.version().name)
    } else {
        Value::Object(Map::new())
    }
}

/// `apiVersion` of the request.
pub(crate) fn version_of(target: &Target) -> String {
    target.kind.api_version(&target.version().name)
}

/// Takes the managers out of an object, as they stand there.
pub(crate) fn take(object: &mut Map<String, Value>) -> Option<Value> {
    metadata_mut(object).remove(MANAGED_FIELDS)
}

/// Puts managers into an object, or nothing if there are none.
pub(crate) fn put(object: &mut Map<String, Value>, managers: &Managers) {
    if !managers.is_empty() {
        metadata_mut(object).insert(MANAGED_FIELDS.to_owned(), managers.encode());
    }
}

/// A stored object in the words of the request's version.
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
