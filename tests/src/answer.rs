//! The answer of a server, as the next step of a case needs it.
//!
//! A case never checks an answer: the comparison with the recording does. So the accessors here are
//! lenient: a missing value is empty, the case continues, and the comparison shows where it
//! differs.

use http::header::{CONTENT_TYPE, HeaderMap};
use serde_json::{Value, json};

use crate::protobuf::{self, PROTOBUF};

/// One answer, parsed.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The HTTP status.
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// The body, from JSON or protobuf; a string if it is neither, null if it is empty.
    pub(crate) body: Value,
}

impl Answer {
    /// Parses a body; never fails.
    pub(crate) fn new(status: u16, headers: HeaderMap, body: &[u8]) -> Self {
        let body = if body.is_empty() {
            Value::Null
        } else if is_protobuf(&headers) {
            protobuf::read(body).unwrap_or_else(|| json!("it says that it is protobuf and is not"))
        } else {
            serde_json::from_slice(body)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).into_owned()))
        };
        Self { status, headers, body }
    }

    /// Whether the request succeeded.
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The value at a JSON pointer, or null.
    pub(crate) fn at(&self, pointer: &str) -> Value {
        self.body.pointer(pointer).cloned().unwrap_or_default()
    }

    /// `metadata.uid`, or an empty string.
    pub(crate) fn uid(&self) -> String {
        self.text("/metadata/uid")
    }

    /// `metadata.resourceVersion`, or an empty string.
    pub(crate) fn version(&self) -> String {
        self.text("/metadata/resourceVersion")
    }

    /// `metadata.name`, or an empty string.
    pub(crate) fn name(&self) -> String {
        self.text("/metadata/name")
    }

    /// `metadata.continue`, or an empty string.
    pub(crate) fn next_page(&self) -> String {
        self.text("/metadata/continue")
    }

    /// Returns the object with the changes of `edit`, for a PUT.
    pub(crate) fn edited(&self, edit: impl FnOnce(&mut Value)) -> Value {
        let mut object = self.body.clone();
        edit(&mut object);
        object
    }

    fn text(&self, pointer: &str) -> String {
        self.body.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    }
}

/// Whether an answer is protobuf, either an object or a watch.
pub(crate) fn is_protobuf(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(PROTOBUF.as_bytes()))
}
