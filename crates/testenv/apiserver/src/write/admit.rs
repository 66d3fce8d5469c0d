//! The steps of a write that call webhooks: mutating webhooks run before the object is validated,
//! validating ones before it is stored, and conversion webhooks convert to and from the storage
//! version.
//!
//! If no webhook matches, nothing is cloned.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::delete::DeleteOptions;
use super::scale::{as_scale, replicas_from};
use super::update::in_version;
use crate::failure::Failure;
use crate::kinds::default_builtin;
use crate::object::{Key, Stored};
use crate::state::State;
use crate::target::Target;
use crate::webhook;
use crate::webhook::attributes::{Attributes, GroupVersion, Operation};
use crate::webhook::dispatch::Write;
use crate::webhook::hook::Hook;
use crate::webhook::matching::RuleInput;
use crate::webhook::replay::Question;

/// Which webhooks to call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Mutating,
    Validating,
}

/// A write in the form that webhooks get: its objects have `kind` and `apiVersion`.
struct VersionedWrite {
    operation: Operation,
    /// The type of both objects.
    kind: GroupVersion,
    object: Value,
    old: Value,
    dry_run: bool,
    options: Value,
}

impl State {
    /// Returns the object after all mutating webhooks. `old` is the stored object in the version of
    /// the path.
    pub(super) fn mutate(
        &mut self,
        target: &Target,
        object: Map<String, Value>,
        old: Option<&Map<String, Value>>,
        dry_run: bool,
    ) -> Result<Map<String, Value>, Failure> {
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        let hooks = self.hooks_for(Phase::Mutating, target, operation);
        if hooks.is_empty() {
            return Ok(object);
        }
        let mut defaulted = object.clone();
        default(target, &mut defaulted);
        let shown = self.shown(target, operation, &defaulted, old, dry_run);
        let write = self.write(target, shown, hooks);
        let Some(Value::Object(changed)) = self.ask(Question::Mutate(write))? else {
            return Ok(object);
        };
        if target.subresource == "scale" {
            let mut object = object;
            replicas_from(target, &Value::Object(changed), &mut object);
            return Ok(object);
        }
        let mut changed = Value::Object(changed);
        target.version().to_stored(&mut changed);
        match changed {
            Value::Object(changed) => Ok(changed),
            _ => unreachable!("an object was put in"),
        }
    }

    /// Returns an error if a validating webhook rejects the object. The object is in the form in
    /// which it would be stored.
    pub(super) fn validate(
        &mut self,
        target: &Target,
        object: &Map<String, Value>,
        old: Option<&Map<String, Value>>,
        dry_run: bool,
    ) -> Result<(), Failure> {
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        let hooks = self.hooks_for(Phase::Validating, target, operation);
        if hooks.is_empty() {
            return Ok(());
        }
        let shown = self.shown(target, operation, object, old, dry_run);
        let write = self.write(target, shown, hooks);
        self.ask(Question::Validate(write)).map(drop)
    }

    /// Returns an error if a webhook rejects the deletion. `is_one_of_many` is true for a request
    /// that deletes a collection.
    pub(crate) fn admit_delete(
        &mut self,
        target: &Target,
        stored: &Stored,
        options: &DeleteOptions,
        is_one_of_many: bool,
    ) -> Result<(), Failure> {
        if self.replay.is_none() {
            return Ok(());
        }
        let dry_run = options.check()?;
        let old = self.value_of(target, stored)?;
        for phase in [Phase::Mutating, Phase::Validating] {
            let hooks = self.hooks_for(phase, target, Operation::Delete);
            if hooks.is_empty() {
                continue;
            }
            let mut shown = self.shown(target, Operation::Delete, &old, Some(&old), dry_run);
            shown.object = Value::Null;
            shown.options = options.to_value();
            let mut write = self.write(target, shown, hooks);
            if is_one_of_many {
                write.attributes.name.clear();
            }
            self.ask(match phase {
                Phase::Mutating => Question::Mutate(write),
                Phase::Validating => Question::Validate(write),
            })?;
        }
        Ok(())
    }

    /// Calls webhooks for the body of a subresource that takes another kind, such as a `Binding`,
    /// and returns the body with their changes.
    pub(crate) fn admit_part(
        &mut self,
        target: &Target,
        (api_version, kind): (&str, &str),
        object: Map<String, Value>,
        dry_run: bool,
    ) -> Result<Map<String, Value>, Failure> {
        let mut object = object;
        for phase in [Phase::Mutating, Phase::Validating] {
            let hooks = self.hooks_for(phase, target, Operation::Create);
            if hooks.is_empty() {
                continue;
            }
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            object.insert("apiVersion".into(), api_version.into());
            object.insert("kind".into(), kind.into());
            let shown = VersionedWrite {
                operation: Operation::Create,
                kind: group_version(group, version, kind),
                object: Value::Object(object.clone()),
                old: Value::Null,
                dry_run,
                options: self.options(Operation::Create),
            };
            let write = self.write(target, shown, hooks);
            if phase == Phase::Validating {
                self.ask(Question::Validate(write))?;
            } else if let Some(Value::Object(changed)) = self.ask(Question::Mutate(write))? {
                object = changed;
            }
        }
        Ok(object)
    }

    /// Calls mutating and validating webhooks for a scale, and returns the scale with their
    /// changes.
    pub(super) fn admit_scale(
        &mut self,
        target: &Target,
        old: &Value,
        mut new: Value,
        dry_run: bool,
    ) -> Result<Value, Failure> {
        for phase in [Phase::Mutating, Phase::Validating] {
            let hooks = self.hooks_for(phase, target, Operation::Update);
            if hooks.is_empty() {
                continue;
            }
            let shown = VersionedWrite {
                operation: Operation::Update,
                kind: group_version("autoscaling", "v1", "Scale"),
                object: new.clone(),
                old: old.clone(),
                dry_run,
                options: self.options(Operation::Update),
            };
            let write = self.write(target, shown, hooks);
            if phase == Phase::Validating {
                self.ask(Question::Validate(write))?;
            } else if let Some(changed) = self.ask(Question::Mutate(write))? {
                new = changed;
            }
        }
        Ok(new)
    }

    /// Runs a part of a write without calling webhooks again: they have admitted the whole write.
    pub(super) fn admitted<T>(&mut self, run: impl FnOnce(&mut Self) -> T) -> T {
        if let Some(replay) = &mut self.replay {
            replay.is_admitted = true;
        }
        let result = run(self);
        if let Some(replay) = &mut self.replay {
            replay.is_admitted = false;
        }
        result
    }

    /// Returns the stored object in the version of the path, without its type meta.
    pub(super) fn value_of(
        &mut self,
        target: &Target,
        stored: &Stored,
    ) -> Result<Map<String, Value>, Failure> {
        let version = target.version().name.as_str();
        let Some(held) = stored.version_before(&target.kind, version) else {
            return Ok(stored.value());
        };
        let held = held.to_owned();
        self.converted(target, stored.value(), &held, version)
    }

    /// Returns the same object with its type meta and with the field names of this version.
    pub(super) fn in_version(
        &mut self,
        target: &Target,
        stored: &Stored,
    ) -> Result<Map<String, Value>, Failure> {
        let value = self.value_of(target, stored)?;
        Ok(in_version(target, value))
    }

    /// Converts an object from the version of the path to the storage version. The real server
    /// prunes and defaults an object by the schema of its storage version at each read from
    /// storage. Here that is done once.
    pub(super) fn convert_to_storage(
        &mut self,
        target: &Target,
        object: Map<String, Value>,
    ) -> Result<Map<String, Value>, Failure> {
        let storage = target.kind.storage();
        if target.kind.is_builtin() || storage.name == target.version().name {
            return Ok(object);
        }
        let object = match target.kind.conversion {
            Some(_) => self.converted(target, object, &target.version().name, &storage.name)?,
            None => object,
        };
        let Some(schema) = storage.schema() else { return Ok(object) };
        let mut value = Value::Object(object);
        schema.prune(&mut value);
        schema.default(&mut value);
        let Value::Object(object) = value else { unreachable!("an object was put in") };
        Ok(object)
    }

    fn converted(
        &mut self,
        target: &Target,
        mut object: Map<String, Value>,
        from: &str,
        to: &str,
    ) -> Result<Map<String, Value>, Failure> {
        object.insert("kind".into(), target.kind.kind.as_str().into());
        object.insert("apiVersion".into(), target.kind.api_version(from).into());
        let (of, object) = (target.kind.clone(), Value::Object(object));
        let converted = self.ask(Question::Convert { of, to: to.to_owned(), object })?;
        let Some(Value::Object(mut converted)) = converted else {
            return Err(Failure::internal("a converted object must be an object"));
        };
        converted.remove("kind");
        converted.remove("apiVersion");
        Ok(converted)
    }

    /// Returns the webhooks with rules that match the write.
    fn hooks_for(&self, phase: Phase, target: &Target, operation: Operation) -> Vec<Arc<Hook>> {
        let hooks = match phase {
            Phase::Mutating => &self.hooks.mutating,
            Phase::Validating => &self.hooks.validating,
        };
        let is_asked = self.replay.as_ref().is_some_and(|replay| !replay.is_admitted);
        if hooks.is_empty() || !is_asked || target.kind.group == webhook::GROUP {
            return Vec::new();
        }
        let place = RuleInput {
            of: &target.kind,
            version: &target.version().name,
            subresource: &target.subresource,
            namespace: &target.namespace,
            operation,
        };
        hooks.iter().filter(|hook| hook.version_for(&place).is_some()).cloned().collect()
    }

    fn shown(
        &self,
        target: &Target,
        operation: Operation,
        object: &Map<String, Value>,
        old: Option<&Map<String, Value>>,
        dry_run: bool,
    ) -> VersionedWrite {
        let is_scale = target.subresource == "scale";
        let show = |object: &Map<String, Value>| {
            if is_scale {
                let scale = target.version().scale.as_ref();
                return scale.map(|scale| as_scale(scale, object)).unwrap_or_default();
            }
            Value::Object(in_version(target, object.clone()))
        };
        let kind = if is_scale {
            group_version("autoscaling", "v1", "Scale")
        } else {
            group_version(&target.kind.group, &target.version().name, &target.kind.kind)
        };
        VersionedWrite {
            operation,
            kind,
            object: show(object),
            old: old.map(show).unwrap_or_default(),
            dry_run,
            options: self.options(operation),
        }
    }

    fn options(&self, operation: Operation) -> Value {
        let options = self.replay.as_ref().map(|replay| replay.options.clone());
        let mut options = options.unwrap_or_default();
        options["kind"] = operation.options_kind().into();
        options["apiVersion"] = "meta.k8s.io/v1".into();
        options
    }

    fn write(&self, target: &Target, shown: VersionedWrite, hooks: Vec<Arc<Hook>>) -> Write {
        let replay = self.replay.as_ref().expect("only requests that are replayed must ask");
        let kind = &target.kind;
        let named = |object: &Value| object["metadata"]["name"].as_str().map(str::to_owned);
        let name = if target.name.is_empty() {
            named(&shown.object).unwrap_or_default()
        } else {
            target.name.clone()
        };
        let namespace =
            if kind.is("", "namespaces") { name.clone() } else { target.namespace.clone() };
        let namespaces = self.registry.namespaces();
        let held = self.store.get(namespaces.id, &Key::new("", &namespace));
        let namespace_labels = held.map(|held| held.value()["metadata"]["labels"].clone());
        let attributes = Attributes {
            of: kind.clone(),
            operation: shown.operation,
            kind: shown.kind,
            resource: group_version(&kind.group, &target.version().name, &kind.plural),
            subresource: target.subresource.clone(),
            namespace,
            name,
            object: shown.object,
            old: shown.old,
            options: shown.options,
            dry_run: shown.dry_run,
            user: replay.user.clone(),
        };
        Write { attributes, hooks, namespace_labels: namespace_labels.unwrap_or_default() }
    }
}

fn group_version(group: &str, version: &str, name: &str) -> GroupVersion {
    GroupVersion { group: group.to_owned(), version: version.to_owned(), name: name.to_owned() }
}

/// Fills in the defaults that the real server fills in while it decodes.
fn default(target: &Target, object: &mut Map<String, Value>) {
    let mut value = Value::Object(std::mem::take(object));
    if target.kind.is_builtin() {
        default_builtin(&target.kind, &mut value, false);
    } else if let Some(schema) = target.version().schema() {
        schema.default(&mut value);
    }
    if let Value::Object(filled) = value {
        *object = filled;
    }
}
