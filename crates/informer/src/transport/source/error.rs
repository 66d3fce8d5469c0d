//! Errors between an informer and its source, and what they mean for the next request.
//!
//! Invariant: nothing here holds the content of an object.

use std::sync::Arc;
use std::time::Duration;

use crate::decode::frames::{FrameError, Status};
use crate::transport::client::{RequestTimedOut, error_chain, safe_message};

/// Why a list or a watch ended early.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The server refused, as an answer or as the last event of a watch.
    #[error("the server answered with {0}")]
    Status(Box<Status>),
    /// The body is not what was asked for, or was cut.
    #[error(transparent)]
    Frame(FrameError),
    /// The server was not reached, or the connection broke: the error and its causes in one line.
    #[error("{0}")]
    Transport(Arc<str>),
    /// Nothing came for too long.
    #[error("the server sent nothing for {} seconds", .0.as_secs())]
    Silent(Duration),
    /// The server ended a watch right after its begin, or a list before its end.
    #[error("the server ended the answer too early")]
    EndedEarly,
}

impl SourceError {
    /// From any error of a client: its message, and those of its causes, as [`safe_message`] shows
    /// them.
    pub fn transport(error: &(dyn std::error::Error + 'static)) -> Self {
        match error_chain(error).find_map(|cause| cause.downcast_ref::<RequestTimedOut>()) {
            Some(timed_out) => Self::Silent(timed_out.timeout),
            None => Self::Transport(safe_message(error).into()),
        }
    }

    /// The server was reached, but its certificate is not accepted: its authority is unknown, it
    /// has expired, or it is for another name.
    pub fn is_untrusted(&self) -> bool {
        // The message of rustls.
        matches!(self, Self::Transport(message) if message.contains("invalid peer certificate"))
    }

    /// The Status that the server returned, if there is one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status(status) | Self::Frame(FrameError::Status(status)) => Some(status),
            _ => None,
        }
    }

    /// The server no longer has the version, or the list to continue: 410.
    pub fn is_gone(&self) -> bool {
        let is_expired = |status: &Status| matches!(status.reason.as_str(), "Expired" | "Gone");
        self.has_code(410) || self.status().is_some_and(is_expired)
    }

    /// The server has not reached the version yet.
    pub(crate) fn is_version_too_large(&self) -> bool {
        self.status().is_some_and(|status| {
            status.causes.iter().any(|cause| cause.reason == "ResourceVersionTooLarge")
                || status.message.contains("Too large resource version")
        })
    }

    /// The server is overloaded and asks to be left alone: 429.
    pub fn is_throttled(&self) -> bool {
        let has_reason = |status: &Status| status.reason == "TooManyRequests";
        self.has_code(429) || self.status().is_some_and(has_reason)
    }

    /// The server does not accept the credentials: 401.
    pub fn is_unauthorized(&self) -> bool {
        self.has_code(401)
    }

    /// The server has no such resource: 404. It may come, with its definition.
    pub fn is_not_found(&self) -> bool {
        self.has_code(404)
    }

    /// How long the server wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        self.status().and_then(|status| status.retry_after)
    }

    fn has_code(&self, code: u16) -> bool {
        self.status().is_some_and(|status| status.code == code)
    }
}

impl From<FrameError> for SourceError {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Status(status) => Self::Status(status),
            error => Self::Frame(error),
        }
    }
}

impl From<Status> for SourceError {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}
