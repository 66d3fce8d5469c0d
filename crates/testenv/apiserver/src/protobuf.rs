//! Protobuf for the built-in kinds: bodies become the JSON objects that the rest of the server
//! reads, and its JSON answers become protobuf for clients that ask for nothing else.
//!
//! What the messages look like is data, `protobuf/messages.txt`, recorded from the published
//! `.proto` files and the Go sources beside them by the example `kinds`. Descriptors and a library
//! for them would not be enough: a descriptor tells neither whether Go holds a pointer nor whether
//! JSON has a field that is empty, and both decide what the object is. With the table, the codec
//! is a reader of varints and a loop over fields.
//!
//! [`table`] reads the file, [`wire`] the bytes, [`decode`] and [`encode`] go along the table,
//! [`special`] knows the types that JSON has in another form (times, quantities, schemas),
//! [`envelope`] reads and writes the wrapper of every object (`runtime.Unknown`), and [`answer`]
//! converts JSON responses to protobuf.
//!
//! Invariants: whatever the bytes are, decoding ends with an error or with an object, nested at
//! most [`DEPTH_MAX`](crate::json::DEPTH_MAX) levels and made of at most
//! [`MESSAGES_MAX`](decode::MESSAGES_MAX) messages. Errors are those of Go's decoder.

pub(crate) mod answer;
mod decode;
mod encode;
mod envelope;
mod special;
mod table;
mod wire;

pub(crate) use self::envelope::{TypeMeta, read};

/// The media type of objects in protobuf.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

#[cfg(test)]
mod tests;
