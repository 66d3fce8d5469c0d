//! Update: replaces an object, for PUT and for all patches.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Map, Value};

use super::apply::tracking::{self, Tracking};
use super::create::fit_namespace;
use super::{Written, apply_defaults, check, service};
use crate::failure::Failure;
use crate::field_error::FieldError;
use crate::fields::{is_terminating, metadata_mut, nothing_holds, text};
use crate::kind::StatusMetadata;
use crate::metadata;
use crate::object::Stored;
use crate::query::version_number;
use crate::state::State;
use crate::target::Target;

impl State {
    /// Changes an object. `edit` takes it in the version of the path and returns the changed one.
    pub(crate) fn update(
        &mut self,
        target: &Target,
        dry_run: bool,
        tracking: Tracking<'_>,
        edit: impl FnOnce(Map<String, Value>) -> Result<Map<String, Value>, Failure>,
    ) -> Result<Written, Failure> {
        let old = self.existing(target)?;
        let object = edit(self.in_version(target, &old)?)?;
        self.replace(target, &old, object, dry_run, tracking)
    }

    /// PUT: the body is the new object. For some kinds PUT also creates.
    pub(crate) fn put_object(
        &mut self,
        target: &Target,
        dry_run: bool,
        tracking: Tracking<'_>,
        object: Map<String, Value>,
    ) -> Result<Written, Failure> {
        check_name(target, &object)?;
        let held = self.store.get(target.kind.storage, &target.key());
        let unversioned = matches!(text(&object, "resourceVersion"), "" | "0");
        let creates = target.kind.rules.create_on_update && target.subresource.is_empty();
        if held.is_none() && unversioned && creates {
            return self.create(target, object, dry_run, tracking);
        }
        if let Some(held) = held {
            check_uid(target, &held.value(), &object)?;
        }
        self.update(target, dry_run, tracking, |_| Ok(object))
    }

    /// Replaces the stored object with a changed one.
    pub(super) fn replace(
        &mut self,
        target: &Target,
        stored: &Arc<Stored>,
        new: Map<String, Value>,
        dry_run: bool,
        tracking: Tracking<'_>,
    ) -> Result<Written, Failure> {
        let old = self.value_of(target, stored)?;
        let mut new = self.mutate(target, new, Some(&old), dry_run)?;
        self.check_escalation(target, Some(&old), &new)?;
        let managers = tracking::take(&mut new);
        check_name(target, &new)?;
        fit_namespace(target, &mut new)?;
        check_version(target, stored.revision, &new)?;
        let mut new = by_subresource(target, &old, new);
        keep_server_set(&old, &mut new);
        tracking::take(&mut new);
        apply_defaults(target, &mut new, false);
        if target.kind.is("", "services") {
            service::keep_address(&old, &mut new);
        }
        tracking::updated(target, &old, &mut new, managers.as_ref(), tracking, &self.clock);
        let (before, after) = (Value::Object(old.clone()), Value::Object(new.clone()));
        // Annotations in a status update do not change the generation, even for kinds where
        // annotations count.
        let may_grow = target.subresource != "status";
        if may_grow && target.kind.rules.generation.grows(&before, &after, target.version().status)
        {
            let generation = old["metadata"].get("generation").and_then(Value::as_i64).unwrap_or(0);
            metadata_mut(&mut new).insert("generation".into(), generation.wrapping_add(1).into());
        }
        check::update(target, &old, &new, &mut self.warnings)?;
        self.validate(target, &new, Some(&old), dry_run)?;
        if new == old && stored.is_in_storage_version(&target.kind) {
            return Ok(Written::object(StatusCode::OK, stored.clone()));
        }
        let is_over = is_terminating(&new) && nothing_holds(&target.kind, &new);
        let answer = if dry_run || is_over {
            let version = &target.version().name;
            Arc::new(Stored::draft(new, stored.revision, &target.kind, version))
        } else {
            let new = self.convert_to_storage(target, new)?;
            self.put_in_storage_version(&target.kind, &target.key(), new)
        };
        if is_over && !dry_run {
            self.remove(&target.kind, &target.key());
        }
        Ok(Written::object(StatusCode::OK, answer))
    }
}

/// Returns the object as the path's version shows it, with type meta.
pub(super) fn in_version(target: &Target, object: Map<String, Value>) -> Map<String, Value> {
    let mut value = Value::Object(object);
    target.version().to_shown(&mut value);
    let Value::Object(mut object) = value else { unreachable!("an object was put in") };
    object.insert("kind".into(), target.kind.kind.as_str().into());
    let api_version = target.kind.api_version(&target.version().name);
    object.insert("apiVersion".into(), api_version.into());
    object
}

pub(super) fn check_name(target: &Target, object: &Map<String, Value>) -> Result<(), Failure> {
    match text(object, "name") {
        name if name == target.name => Ok(()),
        "" => Err(Failure::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            target.name
        ))),
        name => Err(Failure::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        ))),
    }
}

fn check_uid(
    target: &Target,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
) -> Result<(), Failure> {
    let (held, given) = (text(old, "uid"), text(new, "uid"));
    if given.is_empty() || given == held {
        return Ok(());
    }
    let kind = &target.kind;
    let group = if kind.group.is_empty() { String::new() } else { format!("{}/", kind.group) };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{group}{}/{}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {given}, UID in object meta: {held}",
        kind.plural,
        target.key().path(),
    );
    Err(Failure::conflict(&kind.group, &kind.plural, &target.name, &why))
}

/// Optimistic concurrency: the version in the request must be that of the stored object.
fn check_version(target: &Target, held: u64, new: &Map<String, Value>) -> Result<(), Failure> {
    let kind = &target.kind;
    match text(new, "resourceVersion") {
        "" | "0" if kind.rules.unconditional_update => Ok(()),
        "" | "0" => {
            let error = FieldError::invalid(
                "metadata.resourceVersion",
                &0.into(),
                "must be specified for an update",
            );
            Err(Failure::invalid(&kind.group, &kind.plural, &target.name, &[error]))
        }
        given if given == held.to_string() => Ok(()),
        given => Err(match version_number(given) {
            Ok(_) => Failure::modified(kind, &target.name),
            Err(_) => {
                Failure::internal(format!("strconv.ParseUint: parsing {given:?}: invalid syntax"))
            }
        }),
    }
}

/// Discards what a subresource must not change: a write to the object keeps the old status, and a
/// write to `status` keeps everything but the status.
fn by_subresource(
    target: &Target,
    old: &Map<String, Value>,
    mut new: Map<String, Value>,
) -> Map<String, Value> {
    let keep = |field: &str, from: &Map<String, Value>, into: &mut Map<String, Value>| match from
        .get(field)
    {
        Some(value) => into.insert(field.to_owned(), value.clone()),
        None => into.remove(field),
    };
    match target.subresource.as_str() {
        "status" => {
            let mut changed = old.clone();
            keep("status", &new, &mut changed);
            match target.kind.rules.status_metadata {
                StatusMetadata::Kept => {}
                StatusMetadata::Written => drop(keep("metadata", &new, &mut changed)),
                StatusMetadata::WrittenExcept(field) => {
                    keep("metadata", &new, &mut changed);
                    let held = old["metadata"].get(field).cloned();
                    let metadata = metadata_mut(&mut changed);
                    match held {
                        Some(held) => metadata.insert(field.to_owned(), held),
                        None => metadata.remove(field),
                    };
                }
            }
            changed
        }
        "finalize" => {
            let mut changed = old.clone();
            keep("spec", &new, &mut changed);
            if let Some(spec) = changed.get_mut("spec").and_then(Value::as_object_mut) {
                drop_empty(spec);
            }
            changed
        }
        _ => {
            if target.version().status {
                keep("status", old, &mut new);
            }
            if target.kind.is("", "namespaces") {
                keep("spec", old, &mut new);
            }
            new
        }
    }
}

/// Keeps the fields that only the server sets, whatever the client sent.
fn keep_server_set(old: &Map<String, Value>, new: &mut Map<String, Value>) {
    new.remove("kind");
    new.remove("apiVersion");
    let mut metadata = Value::Object(std::mem::take(metadata_mut(new)));
    let held = &old["metadata"];
    metadata::prepare_update(&mut metadata, held);
    for field in ["resourceVersion", "selfLink"] {
        metadata[field] = held[field].clone();
    }
    if let Value::Object(mut metadata) = metadata {
        drop_empty(&mut metadata);
        *metadata_mut(new) = metadata;
    }
}

/// Removes empty lists and maps, as Go's `omitempty` does.
fn drop_empty(metadata: &mut Map<String, Value>) {
    metadata.retain(|_, value| match value {
        Value::Null => false,
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    });
}
