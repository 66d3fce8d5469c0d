//! What a failure says about the server.

use crate::decode::frames::{FrameError, Status};
use crate::transport::source::SourceError;

/// What a failure says about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It no longer has the version, or the page: 410.
    Gone,
    /// It has not reached the version yet.
    ServerBehind,
    /// It is overloaded: 429.
    Throttled,
    /// It does not accept the credentials: 401.
    Unauthorized,
    /// The credentials lack the rights: 403.
    Forbidden,
    /// It has no such resource: 404.
    NotFound,
    /// It cannot read an object from its storage.
    Unreadable,
    /// Nothing arrived in time.
    Silent,
    /// It was not reached, or a proxy answered instead.
    Unreachable,
    /// It was reached, and something else went wrong.
    Other,
}

/// The reason of the ERROR event that replaces the deletion of an object which the server could not
/// read.
const STORAGE_READ_ERROR: &str = "StorageReadError";

/// What does not support streamed lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The server streams no lists.
    Server,
    /// This resource cannot be watched at all.
    Resource,
}

impl Failure {
    pub(super) fn of(error: &SourceError) -> Self {
        match error {
            error if error.is_gone() => Self::Gone,
            error if error.is_version_too_large() => Self::ServerBehind,
            error if error.is_throttled() => Self::Throttled,
            error if error.is_unauthorized() => Self::Unauthorized,
            error if error.is_not_found() => Self::NotFound,
            SourceError::Silent(_) => Self::Silent,
            SourceError::Transport(_) => Self::Unreachable,
            error => error.status().map_or(Self::Other, |status| match status.code {
                _ if status.reason == STORAGE_READ_ERROR => Self::Unreadable,
                403 => Self::Forbidden,
                // From a proxy that does not reach the server, or a server without its storage.
                502..=504 => Self::Unreachable,
                _ => Self::Other,
            }),
        }
    }

    /// Whether the server had an outage, during which it may have been restored from a backup. A
    /// broken body already counts: if the server restarts quickly, the next connection is delayed
    /// but not refused, so there may be no other sign.
    pub(super) fn is_outage(self, error: &SourceError) -> bool {
        match self {
            Self::Silent | Self::Unreachable => true,
            // The server has lost its storage and reads it again.
            Self::Throttled => mentions(error, "initializing"),
            _ => false,
        }
    }
}

/// Whether this error of a streamed list says that the server does not stream lists.
///
/// - 422 from a server that knows the parameters and has the feature turned off (`sendInitialEvents
///   is forbidden for watch unless …`), or that is older (`resourceVersionMatch is forbidden for
///   watch`). Both name `ListOptions` as invalid, so nothing else is checked: a watch has nothing
///   else to validate.
/// - 400 that names one of the parameters: servers that reject unknown parameters.
/// - 500 that names a storage feature, as an ERROR event: the server's etcd is too old.
/// - 405, or a list instead of a watch: the resource has no watch. A list still works.
pub(super) fn refuses_streams(error: &SourceError) -> Option<Refusal> {
    if let SourceError::Frame(FrameError::Kind { kind: Some(kind), .. }) = error {
        return kind.ends_with("List").then_some(Refusal::Resource);
    }
    let status = error.status()?;
    let is_refused = match status.code {
        405 => return Some(Refusal::Resource),
        422 => true,
        400 => names_parameter(status),
        500 => status.message.contains("required storage feature"),
        _ => status.reason == "Invalid",
    };
    is_refused.then_some(Refusal::Server)
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
