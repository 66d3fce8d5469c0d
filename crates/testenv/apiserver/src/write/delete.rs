//! Delete: removes an object, or marks it while finalizers or a grace period hold it.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Answer, Written};
use crate::failure::{Failure, details};
use crate::field_error::FieldError;
use crate::fields::{finalizers, is_terminating, metadata_mut, set_finalizers, text};
use crate::go_decoder::not_registered;
use crate::kind::{Dependents, Kind};
use crate::kinds::Registered;
use crate::object::{Key, Stored};
use crate::query::{Query, is_dry_run};
use crate::state::State;
use crate::target::Target;

/// The finalizer that keeps an object until its dependents are deleted.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// The finalizer that keeps an object until its dependents no longer refer to it.
pub(crate) const ORPHAN: &str = "orphan";

/// The finalizer that keeps a CRD until its objects are deleted.
pub(crate) const CRD_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Namespaces that cannot be deleted.
const UNDELETABLE_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The options of a delete.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeleteOptions {
    preconditions: Preconditions,
    propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
    grace_period_seconds: Option<i64>,
    pub(crate) dry_run: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

/// What happens to the dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl DeleteOptions {
    /// Parses the options from the body if there is one, or else from the query.
    pub(crate) fn parse(
        body: &[u8],
        content_type: Option<&str>,
        query: &Query,
    ) -> Result<Self, Failure> {
        if body.is_empty() {
            return Ok(Self {
                propagation_policy: query.propagation_policy.clone(),
                orphan_dependents: query.orphan_dependents,
                grace_period_seconds: query.grace_period,
                dry_run: query.dry_run.clone(),
                ..Self::default()
            });
        }
        let value = super::decode::parse_as(body, content_type, ("v1", "DeleteOptions"))?;
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
        if !matches!(text("kind"), "" | "DeleteOptions") {
            return Err(Failure::bad_request(not_registered(text("kind"), text("apiVersion"))));
        }
        // As in kube-apiserver, the query only counts if there is no body.
        Self::from_value(value)
    }

    /// Parses options from JSON.
    pub(crate) fn from_value(mut value: Value) -> Result<Self, Failure> {
        if let Value::Object(fields) = &mut value {
            fields.retain(|_, value| !value.is_null());
        }
        serde_json::from_value(value)
            .map_err(|why| Failure::bad_request(format!("the delete options are malformed: {why}")))
    }

    /// Rejects unknown values, and returns whether this is a dry run.
    pub(crate) fn check(&self) -> Result<bool, Failure> {
        const KNOWN: [&str; 3] = ["Foreground", "Background", "Orphan"];
        if let Some(policy) = &self.propagation_policy
            && !KNOWN.contains(&policy.as_str())
        {
            let error = FieldError::not_supported(
                "propagationPolicy",
                &policy.as_str().into(),
                &["Foreground", "Background", "Orphan", "nil"],
            );
            return Err(Failure::invalid_options("DeleteOptions", error));
        }
        if self.propagation_policy.is_some() && self.orphan_dependents.is_some() {
            let error = FieldError::invalid(
                "propagationPolicy",
                &self.propagation_policy.clone().unwrap_or_default().into(),
                "orphanDependents and deletionPropagation cannot be both set",
            );
            return Err(Failure::invalid_options("DeleteOptions", error));
        }
        is_dry_run(&self.dry_run, "DeleteOptions")
    }

    fn propagation(&self) -> Option<Propagation> {
        match (self.propagation_policy.as_deref(), self.orphan_dependents) {
            (Some("Foreground"), _) => Some(Propagation::Foreground),
            (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
            (Some(_), _) | (None, Some(false)) => Some(Propagation::Background),
            (None, None) => None,
        }
    }

    /// Returns a 409 if the object does not meet the preconditions.
    pub(crate) fn check_preconditions(
        &self,
        target: &Target,
        old: &Map<String, Value>,
    ) -> Result<(), Failure> {
        check_preconditions(target, old, self)
    }

    /// Returns the options without preconditions, for an object that has been checked and changed
    /// since.
    pub(crate) fn without_preconditions(&self) -> Self {
        Self { preconditions: Preconditions::default(), ..self.clone() }
    }

    /// Returns the options as webhooks see them.
    pub(crate) fn to_value(&self) -> Value {
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
        let mut put = |field: &str, value: Option<Value>| {
            if let Some(value) = value {
                options[field] = value;
            }
        };
        put("gracePeriodSeconds", self.grace_period_seconds.map(Value::from));
        put("orphanDependents", self.orphan_dependents.map(Value::from));
        put("propagationPolicy", self.propagation_policy.clone().map(Value::from));
        put("dryRun", (!self.dry_run.is_empty()).then(|| json!(self.dry_run)));
        let mut preconditions = Map::new();
        for (field, value) in [
            ("uid", &self.preconditions.uid),
            ("resourceVersion", &self.preconditions.resource_version),
        ] {
            preconditions.extend(value.clone().map(|value| (field.to_owned(), value.into())));
        }
        put("preconditions", (!preconditions.is_empty()).then(|| preconditions.into()));
        options
    }

    /// Options for a foreground or a background cascade.
    pub(crate) fn cascade(foreground: bool) -> Self {
        let policy = if foreground { "Foreground" } else { "Background" };
        Self { propagation_policy: Some(policy.to_owned()), ..Self::default() }
    }
}

impl State {
    /// Deletes one object, or marks it as terminating. `is_one_of_many` is true for a request that
    /// deletes a collection.
    pub(crate) fn delete(
        &mut self,
        target: &Target,
        options: &DeleteOptions,
        is_one_of_many: bool,
    ) -> Result<Written, Failure> {
        let dry_run = options.check()?;
        let stored = self.existing(target)?;
        let kind = &target.kind;
        if kind.is("", "namespaces") && UNDELETABLE_NAMESPACES.contains(&target.name.as_str()) {
            let why = "this namespace may not be deleted";
            return Err(Failure::forbidden(&kind.group, &kind.plural, &target.name, why));
        }
        let old = stored.value();
        check_preconditions(target, &old, options)?;
        self.admit_delete(target, &stored, options, is_one_of_many)?;
        let mark = self.marked(kind, &old, options);
        let answer = match (mark.outcome, dry_run) {
            (DeleteOutcome::Unchanged, _) => Answer::Object(stored),
            (DeleteOutcome::Terminating, true) => {
                Answer::Object(Arc::new(stored.changed(mark.object, kind)))
            }
            (DeleteOutcome::Terminating, false) => {
                Answer::Object(self.put(kind, &target.key(), mark.object))
            }
            (DeleteOutcome::Removed, true) => removed_answer(target, Some(stored), &old),
            (DeleteOutcome::Removed, false) => {
                let last = self.remove_marked(kind, &target.key(), mark.object);
                removed_answer(target, last, &old)
            }
        };
        Ok(Written { code: StatusCode::OK, answer })
    }

    /// Deletes an object for a controller: no preconditions, no webhooks, no response.
    pub(crate) fn delete_quietly(&mut self, kind: &Registered, key: &Key, options: &DeleteOptions) {
        let Some(old) = self.store.get(kind.storage, key).map(|stored| stored.value()) else {
            return;
        };
        let mark = self.marked(kind, &old, options);
        match mark.outcome {
            DeleteOutcome::Unchanged => {}
            DeleteOutcome::Terminating => drop(self.put(kind, key, mark.object)),
            DeleteOutcome::Removed => drop(self.remove_marked(kind, key, mark.object)),
        }
    }

    /// Removes an object. A pod is marked as terminating first, even with a grace period of zero.
    fn remove_marked(
        &mut self,
        kind: &Registered,
        key: &Key,
        marked: Map<String, Value>,
    ) -> Option<Arc<Stored>> {
        if is_pod(kind) {
            self.put(kind, key, marked);
        }
        self.remove(kind, key)
    }

    /// Computes the object after a delete, and whether it is removed.
    fn marked(
        &self,
        kind: &Registered,
        old: &Map<String, Value>,
        options: &DeleteOptions,
    ) -> MarkedObject {
        let mut object = old.clone();
        let wanted = finalizers_after(kind, old, options);
        set_finalizers(&mut object, &wanted);
        let grace = grace_period(kind, old, options);
        let namespace = kind.is("", "namespaces");
        if is_terminating(old) {
            let shorter = grace < stored_grace_period(old);
            if shorter {
                metadata_mut(&mut object).insert("deletionGracePeriodSeconds".into(), grace.into());
            }
            let over = wanted.is_empty()
                && grace == 0
                && (shorter || stored_grace_period(old) == 0)
                && !namespace;
            let outcome = match (over, object == *old) {
                (true, _) => DeleteOutcome::Removed,
                (false, true) => DeleteOutcome::Unchanged,
                (false, false) => DeleteOutcome::Terminating,
            };
            return MarkedObject { object, outcome };
        }
        self.mark(kind, &mut object, grace);
        let over = wanted.is_empty() && grace == 0 && !namespace;
        MarkedObject {
            object,
            outcome: if over { DeleteOutcome::Removed } else { DeleteOutcome::Terminating },
        }
    }

    fn mark(&self, kind: &Kind, object: &mut Map<String, Value>, grace: i64) {
        let now = self.clock.after(grace);
        let metadata = metadata_mut(object);
        metadata.insert("deletionTimestamp".into(), now.into());
        if kind.is("", "namespaces") {
            object.insert("status".into(), json!({"phase": "Terminating"}));
            return;
        }
        if kind.is_crd() {
            return;
        }
        metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
        if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
            metadata.insert("generation".into(), generation.wrapping_add(1).into());
        }
    }
}

/// The result of a delete.
struct MarkedObject {
    object: Map<String, Value>,
    outcome: DeleteOutcome,
}

/// Whether the object is removed, kept by finalizers or a grace period, or not changed.
enum DeleteOutcome {
    Removed,
    Terminating,
    Unchanged,
}

fn check_preconditions(
    target: &Target,
    old: &Map<String, Value>,
    options: &DeleteOptions,
) -> Result<(), Failure> {
    let kind = &target.kind;
    let refuse = |why: String| Err(Failure::conflict(&kind.group, &kind.kind, &target.name, &why));
    let held = text(old, "uid");
    if let Some(uid) = &options.preconditions.uid
        && uid != held
    {
        return refuse(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({held}). The object \
             might have been deleted and then recreated"
        ));
    }
    let held = text(old, "resourceVersion");
    if let Some(version) = &options.preconditions.resource_version
        && version != held
    {
        return refuse(format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in \
             record ({held}). The object might have been modified"
        ));
    }
    Ok(())
}

/// Returns the finalizers for the propagation policy. Without a policy, the present ones are kept.
fn finalizers_after(kind: &Kind, old: &Map<String, Value>, options: &DeleteOptions) -> Vec<String> {
    let present = finalizers(old);
    let mut after: Vec<String> = present.iter().map(|&name| name.to_owned()).collect();
    let undecided = !present.contains(&FOREGROUND) && !present.contains(&ORPHAN);
    let by_kind = match kind.rules.dependents {
        Dependents::Orphaned if undecided => Some(Propagation::Orphan),
        _ => None,
    };
    let asked = options.propagation().filter(|_| kind.rules.dependents != Dependents::Ignored);
    if let Some(propagation) = asked.or(by_kind) {
        after.retain(|name| name != FOREGROUND && name != ORPHAN);
        match propagation {
            Propagation::Background => {}
            Propagation::Foreground => after.push(FOREGROUND.to_owned()),
            Propagation::Orphan => after.push(ORPHAN.to_owned()),
        }
    }
    if kind.is_crd() && !is_terminating(old) && !after.iter().any(|f| f == CRD_CLEANUP) {
        after.push(CRD_CLEANUP.to_owned());
    }
    after
}

/// Returns the grace period in seconds. Only running pods on a node have one.
fn grace_period(kind: &Kind, old: &Map<String, Value>, options: &DeleteOptions) -> i64 {
    if !is_pod(kind) {
        return 0;
    }
    let spec = old.get("spec");
    let scheduled = spec.and_then(|spec| spec.get("nodeName")).is_some_and(|node| node != "");
    let phase = old.get("status").and_then(|status| status.get("phase")).and_then(Value::as_str);
    if !scheduled || matches!(phase, Some("Succeeded" | "Failed")) {
        return 0;
    }
    let own =
        spec.and_then(|spec| spec.get("terminationGracePeriodSeconds")).and_then(Value::as_i64);
    options.grace_period_seconds.or(own).unwrap_or(30).max(0)
}

fn is_pod(kind: &Kind) -> bool {
    kind.is("", "pods")
}

fn stored_grace_period(object: &Map<String, Value>) -> i64 {
    object["metadata"].get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0)
}

/// The answer for a removed object: a `Status` that names it, or the object, depending on the kind.
fn removed_answer(target: &Target, last: Option<Arc<Stored>>, old: &Map<String, Value>) -> Answer {
    let kind = &target.kind;
    if let Some(last) = last.filter(|_| kind.rules.returns_deleted) {
        return Answer::Object(last);
    }
    let mut details = details(&target.name, &kind.group, &kind.plural);
    details["uid"] = text(old, "uid").into();
    Answer::Value(json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }))
}
