//! What a reconciler wants next.

use std::time::Duration;

/// What is to follow on a run that went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing, until something changes.
    Done,
    /// Another run after a while, even if nothing changes. It counts as a success, and is not rate limited.
    RequeueAfter(Duration),
}
