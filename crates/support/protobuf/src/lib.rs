#![doc = include_str!("../README.md")]
//!
//! # Reading order
//!
//! `table` has the messages, `wire` the encoding of numbers and lengths, `source` the bytes of a
//! message. `tidy` brings fields into order, `de` decodes, `special` has the types that are not
//! objects in JSON. `to_json` and `from_json` convert whole objects. `envelope`, `list` and `watch`
//! are what servers send, `metadata` is the part that all objects have.
//!
//! # Invariants
//!
//! - For any bytes, decoding ends with a value or an error. No length makes it reserve memory: it
//!   copies at most what is there, and messages are nested at most [`DEPTH_MAX`] levels.
//! - What is decoded is what Go decodes: the last value wins, lists grow, messages are merged.
//! - Nothing that a reader asks for is left out in silence.

#![forbid(unsafe_code)]

mod de;
mod envelope;
mod error;
mod from_json;
mod list;
mod list_meta;
mod metadata;
mod sample;
mod source;
mod special;
mod table;
mod tidy;
mod to_json;
mod watch;
mod wire;

pub use de::{Deserializer, from_raw, metadata_from_raw};
pub use envelope::Envelope;
pub use error::{Error, Reason};
pub use from_json::{from_json, raw_from_json};
pub use list::{ListParser, ListPart};
pub use list_meta::{ListMeta, list_metadata};
pub use metadata::cut_managed_fields;
pub use sample::sample;
pub use to_json::to_json;
pub use watch::{EventType, FRAME_MAX, Frame, WatchEvent, split_frame};

use table::{Message, TABLE};

/// The media type of an object or a list.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The release of Kubernetes that the table is from.
pub const RELEASE: &str = "1.37";

/// How deep messages may be nested: what `serde_json` reads by default.
pub const DEPTH_MAX: usize = 127;

/// Whether the table has a kind, as in `apps/v1` and `Deployment`. Custom resources have no
/// protobuf.
pub fn is_known(api_version: &str, kind: &str) -> bool {
    TABLE.kind(api_version, kind).is_some()
}

/// Returns the versions and kinds of the table, in their order.
pub fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE.kinds()
}

fn message(api_version: &str, kind: &str) -> Result<&'static Message, Error> {
    TABLE.kind(api_version, kind).ok_or_else(|| {
        let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
        Reason::UnknownKind { api_version, kind }.into()
    })
}

#[cfg(test)]
mod tests;
