//! What a reflector answers: what to do next, and what something that arrived means.

use std::time::Duration;

use tokio::time::Instant;

use crate::transport::source::Request;

/// What to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing before this time; then ask again.
    Wait(Instant),
    /// Send this.
    Request(Request),
}

/// Where a reflector is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A list is under way, or the beginning of a watch that lists.
    Listing,
    /// Changes are awaited.
    Watching,
    /// After a failure, nothing is asked before this time.
    BackingOff {
        /// The time.
        until: Instant,
    },
    /// The next request can be asked for.
    Idle,
}

/// How a change is to be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is part of a list: what is there, or what changed while it was listed.
    Initial,
    /// It changed.
    Live,
    /// It is not newer than what was received before: to be dropped, and counted.
    Stale,
}

/// What the end of a list, or of a page, means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// There are more pages.
    More,
    /// The list is complete: what it did not have is gone. If a watch brought it, that watch goes on.
    Complete {
        /// Whether its version is lower than those before, and is believed: the cluster was restored.
        epoch_changed: bool,
    },
    /// The list is not to be believed: it is lower than what was received before, the first time, or its pages
    /// do not come to an end. Nothing may be swept, and the request is to be given up; there will be another
    /// list.
    Refused,
    /// The server does not stream a list, though it did not say so: its bookmarks begin before the list has
    /// ended. Nothing may be swept, and the request is to be given up; a list in pages is next.
    Unsupported,
}

/// What the end of a request means, for counters and logs. What follows from it is already decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reaction {
    /// It has come to its end, and is resumed at once.
    Resume,
    /// The same again, after a wait: a watch from its position, a list from its start.
    Retry,
    /// Everything is listed again, after a wait.
    Relist(Relist),
    /// The server wants to be left alone, and is. Nothing is lost.
    Throttled,
    /// The server does not know us: the same again after a wait, perhaps with another token.
    Unauthorized,
    /// The server knows us, and does not let us: the same again after a wait, perhaps with other rights.
    Forbidden,
    /// The server has no such resource: everything is listed when it comes back.
    NotFound,
    /// The server cannot stream this list: a list in pages is next.
    Fallback,
}

/// Why everything is listed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Relist {
    /// The server no longer knows the version, or the page: 410.
    Expired,
    /// The server has not reached the version, twice in a row.
    Ahead,
    /// The server cannot read a change that it would have to send: the object was corrupt, and was removed.
    Unreadable,
    /// The watch fails over and over at the same position.
    Stuck,
    /// Nothing came since the server was away: it may be another than it was.
    Doubt,
    /// There is no version to resume from.
    Unversioned,
    /// The time for an audit has come.
    Audit,
    /// Someone asked for it.
    Asked,
}

/// What it means that a deadline has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimedOut {
    /// The deadline has moved, or nothing is under way.
    NotYet,
    /// Nothing came for this long: to be told by [`failed`](super::Reflector::failed), as
    /// [`SourceError::Silent`](crate::SourceError::Silent).
    Silent(Duration),
    /// Time for a list: the request is to be given up, and the next one to be asked for.
    Relist(Relist),
}
