//! The metadata of a list.

use serde::Deserialize;

use crate::error::Error;

/// The metadata of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ListMeta {
    /// The version that the list shows.
    pub resource_version: String,
    /// Where the list goes on, if it has an end before its last item.
    #[serde(rename = "continue")]
    pub continue_token: String,
    /// How many items follow, if that is known.
    pub remaining_item_count: Option<i64>,
}

/// Decodes the metadata of a list.
///
/// # Errors
/// Returns an error if the bytes are no `ListMeta`.
pub fn list_metadata(raw: &[u8]) -> Result<ListMeta, Error> {
    crate::de::from_meta("ListMeta", raw)
}
