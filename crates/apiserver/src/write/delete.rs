//! Delete: at once, or asked for and held by finalizers or a grace period.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Written;
use super::decode::ParseError;
use crate::failure::{Failure, details};
use crate::field_error::FieldError;
use crate::kinds::{Dependents, Kind, Registered};
use crate::object::{Key, Stored};
use crate::query::{Query, is_dry_run};
use crate::state::{State, Target, finalizers, is_terminating, metadata_mut, set_finalizers, text};

/// Keeps an object until its dependents are gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// Keeps an object until its dependents have forgotten it.
pub(crate) const ORPHAN: &str = "orphan";

/// Keeps a CRD until its objects are gone.
pub(crate) const CRD_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// How a delete was asked for.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeleteOptions {
    preconditions: Preconditions,
    propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
    grace_period_seconds: Option<i64>,
    dry_run: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

/// What becomes of the dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl DeleteOptions {
    /// From the body if there is one, or else from the query.
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
        let value = super::decode::parse(body, content_type).map_err(|error| match error {
            ParseError::Media(failure) => failure,
            ParseError::Syntax(why) => {
                Failure::bad_request(format!("couldn't get version/kind; json parse error: {why}"))
            }
        })?;
        let mut options: Self = serde_json::from_value(value).map_err(|why| {
            Failure::bad_request(format!("the delete options are malformed: {why}"))
        })?;
        options.dry_run.extend(query.dry_run.iter().cloned());
        Ok(options)
    }

    /// Refuses values that nobody knows; tells whether anything is to be stored.
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

    /// Options that ask for a cascade in the background, or in the foreground.
    pub(crate) fn cascade(foreground: bool) -> Self {
        let policy = if foreground { "Foreground" } else { "Background" };
        Self { propagation_policy: Some(policy.to_owned()), ..Self::default() }
    }
}

impl State {
    /// Deletes one object, or marks it as to be deleted.
    pub(crate) fn delete(
        &mut self,
        target: &Target,
        options: &DeleteOptions,
    ) -> Result<Written, Failure> {
        let dry_run = options.check()?;
        let stored = self.existing(target)?;
        let kind = &target.kind;
        if kind.is("", "namespaces") && IMMORTAL.contains(&target.name.as_str()) {
            let why = "this namespace may not be deleted";
            return Err(Failure::forbidden(&kind.group, &kind.plural, &target.name, why));
        }
        let old = stored.value();
        check_preconditions(target, &old, options)?;
        match self.marked(kind, &old, options) {
            Mark::Unchanged => Ok(Written::object(StatusCode::OK, stored)),
            Mark::Gone => {
                if !dry_run {
                    self.remove(kind, &target.key());
                }
                Ok(Written { code: StatusCode::OK, answer: gone(target, &stored, &old) })
            }
            Mark::Held(object) => {
                let held = if dry_run {
                    Arc::new(Stored::draft(object, stored.revision, kind))
                } else {
                    self.put(kind, &target.key(), object)
                };
                Ok(Written::object(StatusCode::OK, held))
            }
        }
    }

    /// The same for an object that a controller found, with no one to answer to.
    pub(crate) fn delete_quietly(&mut self, kind: &Registered, key: &Key, options: &DeleteOptions) {
        let Some(old) = self.store.get(kind.storage, key).map(|stored| stored.value()) else {
            return;
        };
        match self.marked(kind, &old, options) {
            Mark::Unchanged => {}
            Mark::Gone => self.remove(kind, key),
            Mark::Held(object) => drop(self.put(kind, key, object)),
        }
    }

    /// What deleting makes of the object.
    fn marked(&self, kind: &Registered, old: &Map<String, Value>, options: &DeleteOptions) -> Mark {
        let mut object = old.clone();
        let wanted = finalizers_after(kind, old, options);
        set_finalizers(&mut object, &wanted);
        let grace = grace_period(kind, old, options);
        if is_terminating(old) {
            let shorter = grace < held_grace(old);
            if shorter {
                metadata_mut(&mut object).insert("deletionGracePeriodSeconds".into(), grace.into());
            }
            let over = wanted.is_empty() && shorter && grace == 0 && !kind.is("", "namespaces");
            return match (over, object == *old) {
                (true, _) => Mark::Gone,
                (false, true) => Mark::Unchanged,
                (false, false) => Mark::Held(object),
            };
        }
        if wanted.is_empty() && grace == 0 && !kind.is("", "namespaces") {
            return Mark::Gone;
        }
        self.mark(kind, &mut object, grace);
        Mark::Held(object)
    }

    fn mark(&self, kind: &Kind, object: &mut Map<String, Value>, grace: i64) {
        let now = self.clock.after(grace);
        let metadata = metadata_mut(object);
        metadata.insert("deletionTimestamp".into(), now.into());
        if kind.is("", "namespaces") {
            object.insert("status".into(), json!({"phase": "Terminating"}));
            return;
        }
        if crate::controllers::is_crd(kind) {
            return;
        }
        metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
        if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
            metadata.insert("generation".into(), (generation + 1).into());
        }
    }
}

/// What a delete makes of an object.
enum Mark {
    Gone,
    Held(Map<String, Value>),
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

/// The finalizers as the propagation policy leaves them. Without one, those that are there decide.
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
    if crate::controllers::is_crd(kind)
        && !is_terminating(old)
        && !after.iter().any(|f| f == CRD_CLEANUP)
    {
        after.push(CRD_CLEANUP.to_owned());
    }
    after
}

/// Only pods that run somewhere get time to end; everything else goes at once.
fn grace_period(kind: &Kind, old: &Map<String, Value>, options: &DeleteOptions) -> i64 {
    if !(kind.group.is_empty() && kind.plural == "pods") {
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

fn held_grace(object: &Map<String, Value>) -> i64 {
    object["metadata"].get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0)
}

/// The answer for an object that is gone: a `Status` that names it, or the object, depending on the kind.
fn gone(target: &Target, stored: &Arc<Stored>, old: &Map<String, Value>) -> super::Answer {
    let kind = &target.kind;
    if kind.rules.returns_deleted {
        return super::Answer::Object(stored.clone());
    }
    let mut details = details(&target.name, &kind.group, &kind.plural);
    details["uid"] = text(old, "uid").into();
    super::Answer::Value(json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }))
}
