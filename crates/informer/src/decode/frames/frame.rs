//! What comes out of a body.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use super::status::Status;

/// A part of a list, or an event of a watch.
///
/// Objects come without whitespace and by default without managedFields, in an allocation of their
/// size.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    /// An object of a list.
    Item(Box<[u8]>),
    /// The list is complete.
    ListEnd(ListEnd),
    /// An object changed.
    Change(EventType, Box<[u8]>),
    /// All changes up to a version were sent.
    Bookmark(Bookmark),
    /// The watch failed. The server ends it after this.
    Error(Box<Status>),
    /// An event of an unknown type, from a later version of Kubernetes. It is skipped.
    Unknown,
}

/// How an object changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// It was created, or now matches what is watched, or existed when the watch began.
    Added,
    /// It has another version.
    Modified,
    /// It was deleted, or no longer matches what is watched.
    Deleted,
}

/// The content of a bookmark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bookmark {
    /// All changes up to this version were sent.
    pub(crate) resource_version: String,
    /// Whether all objects that existed when the watch began were sent.
    pub(crate) initial_events_end: bool,
}

/// The metadata of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ListEnd {
    /// The version from which to watch. Some aggregated API servers leave it out.
    #[serde(deserialize_with = "non_empty")]
    pub(crate) resource_version: Option<String>,
    /// The token for the next page, if there is one.
    #[serde(rename = "continue", deserialize_with = "non_empty")]
    pub(crate) continue_token: Option<String>,
}

impl Bookmark {
    /// Reads a bookmark. `None` if it has no version.
    pub(super) fn parse(object: &[u8]) -> Option<Self> {
        let object: Value = serde_json::from_slice(object).ok()?;
        let metadata = &object["metadata"];
        let resource_version = metadata["resourceVersion"].as_str()?.to_owned();
        let initial_events_end = metadata["annotations"]["k8s.io/initial-events-end"] == "true";
        (!resource_version.is_empty()).then_some(Self { resource_version, initial_events_end })
    }
}

/// Go writes an empty string where it has none.
fn non_empty<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(value)?.filter(|text| !text.is_empty()))
}

impl fmt::Debug for Frame {
    /// Shows no content: an object may be a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Item(object) => write!(f, "Item({} bytes)", object.len()),
            Self::ListEnd(end) => f.debug_tuple("ListEnd").field(end).finish(),
            Self::Change(change, object) => write!(f, "Change({change:?}, {} bytes)", object.len()),
            Self::Bookmark(bookmark) => f.debug_tuple("Bookmark").field(bookmark).finish(),
            Self::Error(status) => f.debug_tuple("Error").field(status).finish(),
            Self::Unknown => f.write_str("Unknown"),
        }
    }
}
