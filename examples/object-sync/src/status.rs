//! What the condition of a sync says, and what follows an error.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass::informer::DiscoveryError;
use windlass::prelude::*;
use windlass::reconciler::{ConditionType, OwnershipError, set_conditions};

use crate::mapping::MappingError;
use crate::sync::ResourceSync;

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

/// The reason in the condition, and how the run ends.
///
/// A sync that waits for a change of an object needs no retry: the kinds of its source and of its
/// target are watched.
pub fn judge(error: Error) -> (&'static str, Result<Action, Error>) {
    let cause = error.source();
    if cause.is::<SourceMissing>() {
        ("SourceMissing", Ok(Action::Done))
    } else if cause.is::<MappingError>() {
        ("InvalidMapping", Err(error.terminal()))
    } else if cause.is::<OwnershipError>() {
        ("TargetRefused", Err(error.terminal()))
    } else if cause.is::<DiscoveryError>() {
        ("UnknownKind", Err(error.retry_after(UNKNOWN_FOR)))
    } else {
        ("Failed", Err(error))
    }
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
