//! Create: stores a new object.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Map, Value};

use super::apply::tracking::{self, Tracking};
use super::{Written, apply_defaults, check, service};
use crate::failure::Failure;
use crate::fields::{is_terminating, metadata_mut, text};
use crate::object::{Key, Stored};
use crate::state::State;
use crate::target::Target;

/// Fields of `metadata` that only the server sets.
const SERVER_SET: [&str; 5] =
    ["creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "selfLink", "uid"];

/// The longest prefix from `generateName`, in bytes. The generated name has at most 63.
const GENERATED_MAX: usize = 58;

/// How many generated names are tried if they are taken.
const NAME_ATTEMPTS: usize = 8;

impl State {
    /// Stores a new object.
    pub(crate) fn create(
        &mut self,
        target: &Target,
        mut object: Map<String, Value>,
        dry_run: bool,
        tracking: Tracking<'_>,
    ) -> Result<Written, Failure> {
        let kind = target.kind.clone();
        fit_namespace(target, &mut object)?;
        self.admit_into_namespace(target, &object)?;
        let mut object = self.mutate(target, object, None, dry_run)?;
        fit_namespace(target, &mut object)?;
        self.check_escalation(target, None, &object)?;
        let key = self.complete_metadata(target, &mut object);
        if target.version().status && !kind.rules.keeps_status_on_create {
            clear_status(target, &mut object);
        }
        apply_defaults(target, &mut object, true);
        if kind.is("", "services") {
            service::assign_address(&mut object, self.store.revision() + 1);
        }
        tracking::created(target, &mut object, tracking, &self.clock);
        let name = text(&object, "name").to_owned();
        if kind.is_crd() {
            crate::crd::prepare_create(&mut object);
        }
        check::create(target, &object, &mut self.warnings)?;
        self.validate(target, &object, None, dry_run)?;
        if !matches!(text(&object, "resourceVersion"), "" | "0") {
            return Err(Failure::internal(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        if let Some(old) = self.store.get(kind.storage, &key) {
            return Err(Failure::already_exists(&kind, &name, is_terminating(&old.value())));
        }
        let stored = if dry_run {
            Arc::new(Stored::draft(object, 0, &kind, &target.version().name))
        } else {
            let object = self.convert_to_storage(target, object)?;
            self.put_in_storage_version(&kind, &key, object)
        };
        Ok(Written::object(StatusCode::CREATED, stored))
    }

    /// Sets the uid, creation time, generation, and the name if it is to be generated. Returns the
    /// key.
    fn complete_metadata(&mut self, target: &Target, object: &mut Map<String, Value>) -> Key {
        let uid = self.ids.uid();
        let now = self.clock.now();
        let metadata = metadata_mut(object);
        for field in SERVER_SET {
            metadata.remove(field);
        }
        metadata.insert("uid".into(), uid.into());
        metadata.insert("creationTimestamp".into(), now.into());
        if target.kind.rules.generation.counts() {
            metadata.insert("generation".into(), 1.into());
        }
        let given =
            |field| metadata.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (name, prefix) = (given("name"), given("generateName"));
        if !name.is_empty() || prefix.is_empty() {
            return Key::new(&target.namespace, &name);
        }
        let prefix = &prefix[..prefix.floor_char_boundary(GENERATED_MAX)];
        let mut key = Key::new(&target.namespace, &format!("{prefix}{}", self.ids.suffix()));
        for _ in 1..NAME_ATTEMPTS {
            if self.store.get(target.kind.storage, &key).is_none() {
                break;
            }
            key = Key::new(&target.namespace, &format!("{prefix}{}", self.ids.suffix()));
        }
        metadata.insert("name".into(), key.name().into());
        key
    }

    /// The namespace lifecycle check: the namespace must exist and not be terminating.
    fn admit_into_namespace(
        &self,
        target: &Target,
        object: &Map<String, Value>,
    ) -> Result<(), Failure> {
        if !target.kind.namespaced {
            return Ok(());
        }
        let namespaces = self.registry.namespaces();
        let namespace = self.store.get(namespaces.id, &Key::new("", &target.namespace));
        match namespace {
            None => Err(Failure::not_found(&namespaces, &target.namespace)),
            Some(namespace) if is_terminating(&namespace.value()) => {
                let name = text(object, "name");
                Err(Failure::namespace_terminating(&target.kind, name, &target.namespace))
            }
            Some(_) => Ok(()),
        }
    }
}

/// Sets the namespace of the object from the path, and returns an error if the object names
/// another.
pub(crate) fn fit_namespace(
    target: &Target,
    object: &mut Map<String, Value>,
) -> Result<(), Failure> {
    let given = text(object, "namespace").to_owned();
    if target.kind.namespaced {
        if !given.is_empty() && given != target.namespace {
            return Err(Failure::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        metadata_mut(object).insert("namespace".into(), target.namespace.as_str().into());
    }
    Ok(())
}

/// Clears the status: clients cannot set it on create.
fn clear_status(target: &Target, object: &mut Map<String, Value>) {
    if target.kind.is_builtin() {
        object.insert("status".into(), Value::Object(Map::new()));
    } else {
        object.remove("status");
    }
}
