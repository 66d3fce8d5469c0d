//! A conflict of server-side apply: other managers have written the same fields.

use windlass_informer::client::error_chain;

use crate::api::live::access::causes_of;
use crate::error::Error;
use crate::error::list;

/// An [unforced](crate::WriteOptions::unforced) apply was refused, because others have written some
/// of its fields with another value.
///
/// ```
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use windlass_reconciler::{ApplyConflict, Error, RunContext, WriteOptions};
/// # async fn example(cx: &RunContext, map: &ConfigMap) -> Result<(), Error> {
/// match cx.live().with(WriteOptions::new().unforced()).apply(map).await {
///     Err(error) if ApplyConflict::of(&error).is_some() => {
///         cx.event(map).warning("FieldsTaken", error.to_string());
///     }
///     applied => drop(applied?),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[error(
    "{object} was not applied, because others have written its fields: {}; leave the fields out, \
     or apply them by force",
    fields_and_managers(.fields)
)]
#[non_exhaustive]
pub struct ApplyConflict {
    /// The object, as in `ConfigMap shop/settings`.
    pub object: String,
    /// Who has which field.
    pub fields: Vec<FieldConflict>,
    source: kube::Error,
}

/// A field that another manager has written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldConflict {
    /// The name of the manager, as in `kubectl-edit`.
    pub manager: String,
    /// The field, as in `.spec.replicas`.
    pub field: String,
}

impl ApplyConflict {
    /// The conflict that an error is about, if it is one.
    pub fn of(error: &Error) -> Option<&Self> {
        error_chain(error.source()).find_map(|cause| cause.downcast_ref())
    }

    /// Turns the answer of the server into this error, if it is one of these. Others stay.
    pub(crate) fn explain(object: impl FnOnce() -> String, error: kube::Error) -> Error {
        let fields = conflicts_of(&error);
        if fields.is_empty() {
            return error.into();
        }
        Self { object: object(), fields, source: error }.into()
    }
}

/// The fields that a status names as conflicts.
fn conflicts_of(error: &kube::Error) -> Vec<FieldConflict> {
    let causes = causes_of(error, 409);
    let conflicts = causes.filter(|cause| cause.reason == "FieldManagerConflict");
    let conflicts = conflicts.map(|cause| FieldConflict {
        // As in `conflict with "kubectl-edit" using v1 at 2026-01-01T00:00:00Z`.
        manager: cause.message.split('"').nth(1).unwrap_or("another manager").to_owned(),
        field: cause.field.clone(),
    });
    conflicts.collect()
}

fn fields_and_managers(fields: &[FieldConflict]) -> String {
    list(fields.iter().map(|it| format!("{} by {:?}", it.field, it.manager)))
}
