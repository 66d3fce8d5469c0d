//! What a reflector returns: what to do next, and how to treat what has arrived.

use std::time::Duration;

use tokio::time::Instant;

use crate::transport::source::Request;

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// Wait until this time.
    Wait(Instant),
    /// Send this request.
    Request(Request),
}

/// What kind of change has arrived, and so how the cache has to treat it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    /// It is part of a list: an item, or a change that arrived before the end of the list.
    Initial,
    /// It is a change after the list.
    Live,
    /// It is not newer than what was received before. It is dropped and counted.
    Stale,
}

/// What the end of a list, or of a page, means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    /// There are more pages.
    More,
    /// The list is complete: objects that it did not have are gone. If the list was streamed, its
    /// watch goes on.
    Complete {
        /// Whether its version is lower than earlier ones, for the second time: the cluster was
        /// restored from a backup.
        is_restored: bool,
    },
    /// The list is not used: nothing is deleted because of it, and there will be another one.
    Refused(ListFault),
}

/// Why a list is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListFault {
    /// The list, or an object in it, is older than what was received before. A stale server answers
    /// like this, and so does a cluster that was restored from a backup: the next list decides.
    #[error("it is older than what was received before; it will be requested again")]
    WentBack,
    /// The continue token of a page is the one with which the page was requested.
    #[error("the server repeats a continue token, so the pages would never end")]
    RepeatedToken,
    /// The server ignores `sendInitialEvents`: a bookmark arrived before the end of the list.
    #[error("the server does not stream it; it will be requested in pages")]
    NotStreamed,
}

/// How an informer reacts to a request that failed or ended too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reaction {
    /// The informer sends the same request after a wait: a watch from its position, a list from its
    /// start.
    Retry,
    /// The informer lists everything again, after a wait.
    Relist(Relist),
    /// The server is overloaded. The informer retries after a wait, and nothing is lost.
    Throttled,
    /// The server does not accept the credentials. The informer retries after a wait, perhaps with
    /// new ones.
    Unauthorized,
    /// The credentials lack the rights. The informer retries after a wait, perhaps with other
    /// rights.
    Forbidden,
    /// The server has no such resource. The informer lists everything when the resource comes back.
    NotFound,
    /// The server cannot stream this list. The informer requests it in pages.
    Fallback,
}

/// Why everything is listed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Relist {
    /// The server no longer has the version, or the page: 410.
    Expired,
    /// The server has not reached the version, twice in a row.
    ServerBehind,
    /// The server cannot read a change that it has to send: a corrupt object was removed.
    Unreadable,
    /// The watch fails again and again at the same position.
    Stuck,
    /// Nothing has arrived since an outage. The server may have been restored from a backup.
    SilentAfterOutage,
    /// There is no version to resume from.
    Unversioned,
    /// An audit is due.
    Audit,
}

/// What a passed deadline means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeadlineCheck {
    /// The deadline has moved, or nothing is under way.
    NotYet,
    /// Nothing arrived for this long. The caller calls
    /// [`on_failed`](super::Reflector::on_failed) with
    /// [`SourceError::Silent`](crate::SourceError::Silent).
    Silent(Duration),
    /// It is time for a list: the caller drops the request and calls `next`.
    Relist(Relist),
}
