//! What can go wrong between an informer and its source, and what that means for the next request.
//!
//! Invariant: nothing here holds the content of an object.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::decode::frames::{FrameError, Status};
use crate::transport::client::{self, safe_message};

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
    /// The server was not reached, or the connection broke.
    #[error("{0}")]
    Transport(TransportError),
    /// Nothing came for too long.
    #[error("the server sent nothing for {} seconds", .0.as_secs())]
    Silent(Duration),
}

/// A failure below HTTP, with its causes as one line of text.
#[derive(Clone)]
pub struct TransportError {
    message: Arc<str>,
}

/// What the API server says when a list or watch asks for a version that it has not reached.
const TOO_LARGE: &str = "ResourceVersionTooLarge";

impl SourceError {
    /// From any error of a client: its message, and those of its causes. What kube says of credentials and
    /// proxies is replaced, since it may hold secrets.
    pub fn transport(error: &(dyn std::error::Error + 'static)) -> Self {
        match client::timed_out(error) {
            Some(timeout) => Self::Silent(timeout),
            None => Self::Transport(TransportError { message: safe_message(error).into() }),
        }
    }

    /// The server's own words, if it said any.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status(status) | Self::Frame(FrameError::Status(status)) => Some(status),
            _ => None,
        }
    }

    /// The version that was asked for, or the list that was to be continued, is no longer known: 410.
    pub fn is_gone(&self) -> bool {
        self.status().is_some_and(|status| {
            status.code == 410 || matches!(status.reason.as_str(), "Expired" | "Gone")
        })
    }

    /// The version that was asked for is ahead of the server.
    pub fn is_too_large(&self) -> bool {
        self.status().is_some_and(|status| {
            status.causes.iter().any(|cause| cause.reason == TOO_LARGE)
                || status.message.contains("Too large resource version")
        })
    }

    /// The server asks to be left alone: 429, or any answer with a time to wait.
    pub fn is_throttled(&self) -> bool {
        self.status().is_some_and(|status| status.code == 429 || status.reason == "TooManyRequests")
    }

    /// The server does not know who asks: 401.
    pub fn is_unauthorized(&self) -> bool {
        self.status().is_some_and(|status| status.code == 401)
    }

    /// The server has no such resource: 404. It may come, with its definition.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404)
    }

    /// How long the server wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        self.status().and_then(|status| status.retry_after)
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

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TransportError({:?})", self.message)
    }
}
