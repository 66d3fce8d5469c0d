//! What the condition of a sync says, and what follows an error.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass::informer::DiscoveryError;
use windlass::prelude::*;
use windlass::reconciler::{ConditionType, OwnershipError, set_conditions};

use crate::mapping::MappingError;
use crate::sync::{ResourceSync, TARGETS_MAX};

/// Whether the target is as it should be.
pub const READY: ConditionType = ConditionType::new("Ready");

/// How often an unknown kind is asked for. Its definition may be installed at any time, and is not
/// watched.
const UNKNOWN_FOR: Duration = Duration::from_secs(30);

/// There is no source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {kind} {key} does not exist")]
pub struct SourceMissing {
    /// Its kind.
    pub kind: String,
    /// Where it should be.
    pub key: ObjectKey,
}

/// The server refuses the target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server refuses the target as invalid, because of {fields}")]
pub struct TargetInvalid {
    /// Which fields are wrong.
    pub fields: String,
}

/// No more targets can be noted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there may be targets of {TARGETS_MAX} kinds already, and no other kind is begun: refer to one \
     of them until it is synced, which deletes the others"
)]
pub struct TooManyKinds;

/// The reason in the condition, and how the run ends.
///
/// An error that only a change can mend is not retried: the kinds of the source and of the target
/// are watched.
pub fn judge(error: Error) -> (&'static str, Result<Action, Error>) {
    let cause = error.source();
    if cause.is::<SourceMissing>() {
        ("SourceMissing", Ok(Action::done()))
    } else if cause.is::<MappingError>() {
        ("InvalidMapping", Err(error.terminal()))
    } else if cause.is::<TargetInvalid>() {
        ("TargetInvalid", Err(error))
    } else if cause.is::<TooManyKinds>() {
        ("TooManyKinds", Err(error.terminal()))
    } else if cause.is::<OwnershipError>() {
        ("TargetRefused", Err(error.terminal()))
    } else if is_unknown_kind(&error) {
        ("UnknownKind", Err(error.retry_after(UNKNOWN_FOR)))
    } else {
        ("Failed", Err(error))
    }
}

/// Whether the server does not know the kind.
pub fn is_unknown_kind(error: &Error) -> bool {
    let error = error.source().downcast_ref();
    matches!(error, Some(DiscoveryError::NoKind { .. } | DiscoveryError::NotWatchable { .. }))
}

/// The error without values. A server that refuses an object as invalid repeats what is wrong in
/// it, and the source may be a Secret.
pub fn without_values(error: Error) -> Error {
    match error.source().downcast_ref() {
        Some(kube::Error::Api(refusal)) if matches!(refusal.code, 400 | 422) => {
            let causes = refusal.details.iter().flat_map(|details| &details.causes);
            let fields: Vec<&str> = causes.map(|cause| cause.field.as_str()).collect();
            TargetInvalid { fields: fields.join(", ") }.into()
        }
        _ => error,
    }
}

/// Notes in the status that a target of this kind may exist from now on, unless it says so already.
/// Returns the sync as it is then.
///
/// # Errors
/// Returns the error of the server, or [`TooManyKinds`].
pub async fn note_target(
    sync: Arc<ResourceSync>,
    cx: &RunContext,
) -> Result<Arc<ResourceSync>, Error> {
    let mut new = ResourceSync::clone(&sync);
    let (target, targets) = (&sync.spec.target, &mut new.status.get_or_insert_default().targets);
    if targets.iter().any(|noted| noted.is_same_kind(target)) {
        return Ok(sync);
    }
    if targets.len() >= TARGETS_MAX {
        return Err(TooManyKinds.into());
    }
    targets.push(target.clone());
    Ok(Arc::new(cx.live().update_status(&sync, &new).await?))
}

/// Writes the condition, and that there are no targets but that of the spec.
///
/// # Errors
/// Returns the error of the server.
pub async fn write_synced(
    sync: &ResourceSync,
    condition: Condition,
    cx: &RunContext,
) -> Result<(), Error> {
    let mut new = sync.clone();
    let status = new.status.get_or_insert_default();
    status.targets.retain(|noted| noted.is_same_kind(&sync.spec.target));
    set_conditions(&mut status.conditions, sync.metadata.generation, [condition]);
    cx.live().update_status(sync, &new).await?;
    Ok(())
}

/// Writes the condition, unless the status says so already. Returns whether it is new.
///
/// # Errors
/// Returns the error of the server.
pub async fn write(
    sync: &ResourceSync,
    condition: Condition,
    cx: &RunContext,
) -> Result<bool, Error> {
    let mut new = sync.clone();
    let conditions = &mut new.status.get_or_insert_default().conditions;
    let is_new = set_conditions(conditions, sync.metadata.generation, [condition]);
    cx.live().update_status(sync, &new).await?;
    Ok(is_new)
}
