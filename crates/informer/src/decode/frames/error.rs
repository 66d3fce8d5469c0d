//! What can be wrong with a body. No error shows the content of an object.

use super::status::Status;

/// A body that is not what was requested. Objects that came out of it before are valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The whole body is a Status. Its code says whether to retry.
    #[error("the server answered with {0}")]
    Status(Box<Status>),
    /// The body is not a JSON object. It may come from a proxy instead of an API server. Worth a
    /// retry after a backoff.
    #[error("the body should be {expected}, but is {found}")]
    Body {
        /// What was expected.
        expected: &'static str,
        /// What the body looks like.
        found: String,
    },
    /// The body is a JSON object of another kind. A retry helps only if the server changes.
    #[error("the body should be {expected}, but is {}", kind_or_unknown(.kind.as_deref()))]
    Kind {
        /// What was expected.
        expected: &'static str,
        /// The kind of the object, if it has one that looks like a kind.
        kind: Option<String>,
    },
    /// The body ended too early: the connection was cut. Worth a retry.
    #[error("the body ended too early, at byte {offset}, after {objects} objects")]
    Truncated {
        /// Bytes of the body that arrived.
        offset: u64,
        /// Objects or events before that.
        objects: u64,
    },
    /// An object is larger than allowed. A retry meets it again.
    #[error(
        "more than {frame_max} bytes in one object, at byte {offset} of the body, after {objects} \
         objects; if such objects exist, raise `object_bytes_max`"
    )]
    TooLarge {
        /// The bound.
        frame_max: usize,
        /// Bytes of the body that were read.
        offset: u64,
        /// Objects or events before that.
        objects: u64,
    },
    /// The body is not valid JSON, or not what the API promises. Worth a retry after a backoff.
    #[error("malformed body: expected {expected} at byte {offset}, after {objects} objects")]
    Malformed {
        /// What was expected.
        expected: &'static str,
        /// Bytes of the body that were read.
        offset: u64,
        /// Objects or events before that.
        objects: u64,
    },
}

fn kind_or_unknown(kind: Option<&str>) -> String {
    kind.map_or("an object without a kind".to_owned(), |kind| format!("of kind {kind}"))
}
