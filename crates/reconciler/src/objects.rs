//! Helpers that read and change objects in memory. They send no requests.

pub(crate) mod any_object;
pub(crate) mod child_labels;
pub(crate) mod conditions;
#[cfg(feature = "schemars")]
pub(crate) mod conditions_schema;
pub(crate) mod merge_patch;
pub(crate) mod ownership;

/// The fields of the metadata that only the server writes. They are not applied.
pub(crate) const SERVER_METADATA: [&str; 8] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];
