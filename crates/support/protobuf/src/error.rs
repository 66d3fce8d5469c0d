//! Why bytes or JSON are refused. No message shows a value: the object may be a Secret.

use std::fmt;

/// An error, with the path to the field that it is about.
///
/// Its text shows no value of the object. What the reader's type said may quote one, so that is
/// only in [`message_of_type`](Self::message_of_type).
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Inner>);

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    /// JSON names of fields, joined by dots.
    path: String,
    reason: Reason,
    of_type: Option<String>,
}

/// What is wrong. The texts about protobuf are those of Go's decoder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The bytes end within a field.
    #[error("unexpected EOF")]
    Short,
    /// A number has too many bytes.
    #[error("proto: integer overflow")]
    Overflow,
    /// A length is negative in Go.
    #[error("proto: negative length found during unmarshaling")]
    NegativeLength,
    /// A group ends that has not begun.
    #[error("proto: {0}: wiretype end group for non-group")]
    EndOfGroup(&'static str),
    /// A group that is skipped ends once too often.
    #[error("proto: unexpected end of group")]
    UnexpectedEndOfGroup,
    /// No field has this number.
    #[error("proto: {message}: illegal tag {number} (wire type {wire})")]
    IllegalTag {
        /// The message.
        message: &'static str,
        /// The number, as Go reads it.
        number: i32,
        /// The whole tag.
        wire: u64,
    },
    /// There is no such encoding.
    #[error("proto: illegal wireType {0}")]
    IllegalWireType(u8),
    /// The field is of another type.
    #[error("proto: wrong wireType = {wire_type} for field {field}")]
    WrongWireType {
        /// The encoding.
        wire_type: u8,
        /// The field's name in Go.
        field: String,
    },
    /// RFC 3339 has no such time.
    #[error("a time is outside of the years 1 to 9999")]
    Time,
    /// An `IntOrString` that is neither.
    #[error("impossible IntOrString.Type")]
    IntOrString,
    /// JSON has no such number.
    #[error("json: unsupported value: {0}")]
    NotFinite(&'static str),
    /// A value of any type, which is JSON in protobuf, has a syntax error.
    #[error("JSON in protobuf has a syntax error at line {line} column {column}")]
    Json {
        /// The line.
        line: usize,
        /// The column.
        column: usize,
    },
    /// Messages are nested too deeply.
    #[error("messages are nested deeper than {} levels", crate::DEPTH_MAX)]
    TooDeep,
    /// There are more messages than the reader allows.
    #[error("there are more than {0} messages")]
    TooManyMessages(usize),
    /// Repeats of fields are scattered over so many levels that merging them would copy the bytes
    /// many times.
    #[error("repeated fields are scattered over too many levels")]
    TooScattered,
    /// A field is longer than the message that it is in.
    #[error("unexpected EOF")]
    TooLong,
    /// The envelope of a list has a second one.
    #[error("the envelope has two lists")]
    TwoLists,
    /// Bytes without the prefix `k8s\0`.
    #[error(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    )]
    NoPrefix,
    /// No bytes at all.
    #[error("empty data")]
    EmptyData,
    /// Only the prefix.
    #[error("empty body")]
    EmptyBody,
    /// The envelope has something else than a protobuf message.
    #[error("the envelope has content of another type or encoding than protobuf")]
    Encoded,
    /// The table has no such kind.
    #[error(
        "Kubernetes {} has no built-in kind {kind:?} in version {api_version:?}",
        crate::RELEASE
    )]
    UnknownKind {
        /// The version, as in `apps/v1`.
        api_version: String,
        /// The kind.
        kind: String,
    },
    /// A reader wants all fields, and one of them is newer than the table.
    #[error("field {number} of {message} is not in the table of Kubernetes {}", crate::RELEASE)]
    UnknownNumber {
        /// The message, as in `PodSpec`.
        message: &'static str,
        /// The number of the field.
        number: u32,
    },
    /// The reader's type, or JSON to be encoded, has a field that the table lacks.
    #[error("field {field:?} of {message} is not in the table of Kubernetes {}", crate::RELEASE)]
    UnknownName {
        /// The message, as in `PodSpec`.
        message: &'static str,
        /// The name of the field in JSON.
        field: String,
    },
    /// The event of a watch has a type that Kubernetes does not have.
    #[error("a watch event has an unknown type")]
    EventType,
    /// A frame of a watch is too long.
    #[error("a frame of {0} bytes is too long")]
    FrameTooLong(usize),
    /// The reader's type lacks a field that it requires.
    #[error("missing field `{0}`")]
    MissingField(&'static str),
    /// The value does not fit the reader's type, or the field's type in protobuf.
    #[error("a value of the wrong type or form")]
    Misfit,
}

impl Error {
    /// What is wrong, without the path.
    pub fn reason(&self) -> &Reason {
        &self.0.reason
    }

    /// The path to the field, as in `spec.containers`; empty for the object itself.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// What the reader's type said about the value. It may quote the value: do not log it.
    pub fn message_of_type(&self) -> Option<&str> {
        self.0.of_type.as_deref()
    }

    /// Adds the field that the path goes through.
    pub(crate) fn within(mut self, field: &str) -> Self {
        if !self.0.path.is_empty() {
            self.0.path.insert(0, '.');
        }
        self.0.path.insert_str(0, field);
        self
    }

    fn of_type(message: String) -> Self {
        let (path, reason) = (String::new(), Reason::Misfit);
        Self(Box::new(Inner { path, reason, of_type: Some(message) }))
    }
}

impl From<Reason> for Error {
    fn from(reason: Reason) -> Self {
        Self(Box::new(Inner { path: String::new(), reason, of_type: None }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path().is_empty() {
            write!(f, "{}: ", self.path())?;
        }
        self.reason().fmt(f)
    }
}

/// Shows what `Display` shows.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self})")
    }
}

impl std::error::Error for Error {}

impl serde::de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::of_type(message.to_string())
    }

    fn missing_field(field: &'static str) -> Self {
        Reason::MissingField(field).into()
    }
}
