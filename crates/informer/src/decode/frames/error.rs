//! What can be wrong with a body, and where.
//!
//! Invariant: nothing here holds the content of an object.

use std::fmt;

use super::{Seen, Status};

/// A body that is not what was asked for. What was taken out before stays valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The whole body is a Status. Its code says whether to try again.
    #[error("the server answered with {0}")]
    Status(Box<Status>),
    /// The body is not a JSON object at all, so something other than an API server may have written it. Worth
    /// a retry, after a backoff.
    #[error("the body should be {expected}, but is {seen}")]
    Body {
        /// What was expected.
        expected: &'static str,
        /// What the body looks like.
        seen: Seen,
    },
    /// The body is a JSON object, but of another kind. A retry helps only if the server changes.
    #[error("the body should be {expected}, but is {}", kind_or_unknown(.kind.as_deref()))]
    Kind {
        /// What was expected.
        expected: &'static str,
        /// The kind that the body gives itself, if it does and it looks like one.
        kind: Option<String>,
    },
    /// The body ended too early: the connection was cut. Worth a retry.
    #[error("the body ended too early, {0}")]
    Truncated(Place),
    /// An object or event is larger than allowed. A retry meets it again.
    #[error(
        "more than {frame_max} bytes in one piece, {place}; if such objects exist, raise the bound"
    )]
    TooLarge {
        /// The bound.
        frame_max: usize,
        /// Where it was reached.
        place: Place,
    },
    /// The body is not valid JSON, or not what the API promises. Worth a retry, after a backoff.
    #[error("malformed body: there should be {expected}, {place}")]
    Malformed {
        /// What should have been there.
        expected: &'static str,
        /// Where.
        place: Place,
    },
}

/// A place in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Bytes from the start of the body.
    pub offset: u64,
    /// What is there.
    pub part: Part,
}

/// A part of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// What is around the items of a list.
    List,
    /// An item of a list, counted from 0.
    Item(u64),
    /// An event of a watch, counted from 0.
    Event(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {} of the body, ", self.offset)?;
        match self.part {
            Part::List => f.write_str("around the items of the list"),
            Part::Item(index) => write!(f, "in item {index} (counted from 0)"),
            Part::Event(index) => write!(f, "in event {index} (counted from 0)"),
        }
    }
}

fn kind_or_unknown(kind: Option<&str>) -> String {
    kind.map_or("an object without a kind".to_owned(), |kind| format!("of kind {kind}"))
}
