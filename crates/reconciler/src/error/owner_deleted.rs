//! The error about an owner that is being deleted.

use windlass_informer::client::error_chain;

use super::Error;

/// An object was not made or applied, because its owner is being deleted.
///
/// It is not a failure: return it with `?`. The run ends as
/// [`Outcome::OwnerDeleted`](crate::Outcome::OwnerDeleted), and the key waits for the next event.
/// [`WriteOptions::allow_deleted_owner`](crate::WriteOptions::allow_deleted_owner) makes the object
/// anyway.
///
/// ```
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use windlass_reconciler::{Error, OwnerDeleted, RunContext};
/// # async fn example(cx: &RunContext, owner: &ConfigMap, map: ConfigMap) -> Result<(), Error> {
/// match cx.live().apply_owned(map, owner).await {
///     // Something else is to be done for an owner that goes.
///     Err(error) if OwnerDeleted::of(&error).is_some() => println!("{error}"),
///     made => drop(made?),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{owner} is being deleted, so {child} is not made for it: a foreground deletion would never \
     end; if it is needed for the clean-up, use WriteOptions::allow_deleted_owner"
)]
#[non_exhaustive]
pub struct OwnerDeleted {
    /// The owner, as in `Website shop/blog`.
    pub owner: String,
    /// What was to be made for it.
    pub child: String,
}

impl OwnerDeleted {
    /// The error of this type that an error is about, if it is one.
    pub fn of(error: &Error) -> Option<&Self> {
        error_chain(error.source()).find_map(|cause| cause.downcast_ref())
    }
}
