//! What an error says about the server.

use crate::decode::frames::{FrameError, Status};
use crate::transport::source::SourceError;

use super::outcome::{Reaction, Relist};

/// The reason of the ERROR event that replaces the deletion of an object which the server could not
/// read.
const STORAGE_READ_ERROR: &str = "StorageReadError";

/// How to react to an error of a watch, as far as the error alone decides.
pub(super) fn reaction_to(error: &SourceError) -> Reaction {
    let status = error.status();
    match error {
        error if error.is_gone() => Reaction::Relist(Relist::Expired),
        error if error.is_version_too_large() => Reaction::Relist(Relist::ServerBehind),
        error if error.is_throttled() => Reaction::Throttled,
        error if error.is_unauthorized() => Reaction::Unauthorized,
        error if error.is_not_found() => Reaction::NotFound,
        _ if status.is_some_and(|status| status.reason == STORAGE_READ_ERROR) => {
            Reaction::Relist(Relist::Unreadable)
        }
        _ if status.is_some_and(|status| status.code == 403) => Reaction::Forbidden,
        _ => Reaction::Retry,
    }
}

/// How to react to an error of a list, which always starts over.
pub(super) fn list_reaction_to(error: &SourceError) -> Reaction {
    match reaction_to(error) {
        Reaction::Relist(Relist::ServerBehind | Relist::Unreadable) => Reaction::Retry,
        reaction => reaction,
    }
}

/// Whether the server was not reached, or a proxy answered instead.
pub(super) fn was_unreachable(error: &SourceError) -> bool {
    // From a proxy that does not reach the server, or a server without its storage.
    let is_proxied = error.status().is_some_and(|status| matches!(status.code, 502..=504));
    matches!(error, SourceError::Transport(_))
        || (is_proxied && reaction_to(error) == Reaction::Retry)
}

/// Whether the server fills its watch cache again, as after it has lost etcd: `storage is
/// (re)initializing`.
pub(super) fn is_initializing(error: &SourceError) -> bool {
    reaction_to(error) == Reaction::Throttled
        && error.status().is_some_and(|status| status.message.contains("initializing"))
}

/// Whether this error of a streamed list says that the resource cannot be watched at all: 405, or a
/// list instead of a watch. A list still works.
pub(super) fn says_no_watch(error: &SourceError) -> bool {
    match error {
        SourceError::Frame(FrameError::Kind { kind: Some(kind), .. }) => kind.ends_with("List"),
        error => error.status().is_some_and(|status| status.code == 405),
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
pub(super) fn refuses_streams(error: &SourceError) -> bool {
    error.status().is_some_and(|status| match status.code {
        422 => true,
        400 => names_parameter(status),
        500 => status.message.contains("required storage feature"),
        _ => status.reason == "Invalid",
    })
}

fn names_parameter(status: &Status) -> bool {
    let names = |text: &str| {
        ["sendInitialEvents", "resourceVersionMatch"].iter().any(|name| text.contains(name))
    };
    names(&status.message)
        || status.causes.iter().any(|cause| names(&cause.field) || names(&cause.message))
}
