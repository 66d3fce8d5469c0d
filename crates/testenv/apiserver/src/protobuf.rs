//! Protobuf for the built-in kinds: bodies are decoded to the JSON objects that the rest of the
//! server reads, and its JSON answers are encoded for clients that only accept protobuf.
//!
//! The messages are data, `protobuf/messages.txt`, recorded from the published `.proto` files and
//! the Go sources beside them by the example `kinds`. Descriptors and a library for them would not
//! be enough: a descriptor does not say whether Go holds a pointer, or whether JSON has a field
//! that is empty, and both change the object. With the table, the codec is a reader of varints and
//! a loop over fields.
//!
//! [`table`] reads the file, [`wire`] reads and writes the wire format, [`decode`] and [`encode`]
//! convert messages with the table, [`special`] converts the types that have another form in JSON
//! (times, quantities, schemas), [`envelope`] reads and writes the wrapper of every object
//! (`runtime.Unknown`), and [`answer`] converts JSON responses to protobuf.
//!
//! Invariants: for any bytes, decoding returns an error or an object, nested at most
//! [`DEPTH_MAX`](crate::json::DEPTH_MAX) levels and made of at most
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
