//! What a failure says about the server.

use crate::decode::frames::{FrameError, Status};
use crate::transport::source::SourceError;

/// What a failure says about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The version, or the page, is no longer known.
    Gone,
    /// The version is not yet known.
    Ahead,
    /// It wants to be left alone.
    Throttled,
    /// It does not know who asks.
    Unauthorized,
    /// It knows who asks, and says no.
    Forbidden,
    /// It has no such resource.
    NotFound,
    /// It cannot read from its storage what it would have to send.
    Unreadable,
    /// Nothing came.
    Silent,
    /// It was not there: not reached, or another one answered for it.
    Away,
    /// It was there, and something went wrong.
    Other,
}

/// The reason of an ERROR event in place of the deletion of an object that the server could not read.
const STORAGE_READ_ERROR: &str = "StorageReadError";

/// How far a refusal to stream a list reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The server does not know how to.
    Server,
    /// This resource cannot be watched at all.
    Resource,
}

impl Failure {
    pub(super) fn of(error: &SourceError) -> Self {
        match error {
            error if error.is_gone() => Self::Gone,
            error if error.is_too_large() => Self::Ahead,
            error if error.is_throttled() => Self::Throttled,
            error if error.is_unauthorized() => Self::Unauthorized,
            error if error.is_not_found() => Self::NotFound,
            SourceError::Silent(_) => Self::Silent,
            SourceError::Transport(_) => Self::Away,
            error => error.status().map_or(Self::Other, |status| match status.code {
                _ if status.reason == STORAGE_READ_ERROR => Self::Unreadable,
                403 => Self::Forbidden,
                // What a proxy says for a server that it does not reach, and a server for its storage.
                502..=504 => Self::Away,
                _ => Self::Other,
            }),
        }
    }

    /// Whether the server was away, so that another one may be there by now. That a body broke off is enough: a
    /// server that is back soon only lets the next connection wait, and refuses none.
    pub(super) fn is_absence(self, error: &SourceError) -> bool {
        match self {
            Self::Silent | Self::Away => true,
            // With this the server says that it has lost its storage, and reads it anew.
            Self::Throttled => mentions(error, "initializing"),
            _ => false,
        }
    }
}

/// Whether this error, of a streamed list, says that there is no such thing.
///
/// - 422 from a server that knows the parameters and has the feature turned off (`sendInitialEvents is forbidden
///   for watch unless …`), or that is older (`resourceVersionMatch is forbidden for watch`); both name
///   `ListOptions` as what is invalid, so no other mention is asked for. A watch has nothing else to validate.
/// - 400 that names one of the parameters: servers that are strict about those that they do not know.
/// - 500 that names a storage feature, as an ERROR event: the server's etcd is too old. It will not get younger.
/// - 405, or a list instead of a watch: the resource has no watch. A list still works.
pub(super) fn refuses_streams(error: &SourceError) -> Option<Refusal> {
    if let SourceError::Frame(FrameError::Kind { kind: Some(kind), .. }) = error {
        return kind.ends_with("List").then_some(Refusal::Resource);
    }
    let status = error.status()?;
    let refused = match status.code {
        405 => return Some(Refusal::Resource),
        422 => true,
        400 => names_parameter(status),
        500 => status.message.contains("required storage feature"),
        _ => status.reason == "Invalid",
    };
    refused.then_some(Refusal::Server)
}

fn names_parameter(status: &Status) -> bool {
    let names = |text: &str| {
        ["sendInitialEvents", "resourceVersionMatch"].iter().any(|name| text.contains(name))
    };
    names(&status.message)
        || status.causes.iter().any(|cause| names(&cause.field) || names(&cause.message))
}

fn mentions(error: &SourceError, word: &str) -> bool {
    error.status().is_some_and(|status| status.message.contains(word))
}
