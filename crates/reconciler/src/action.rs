//! What a reconciler wants next.

use std::time::Duration;

/// What follows a successful run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing, until something changes.
    Done,
    /// Another run after this time, even if nothing changes. The run counts as a success, and the
    /// next one is not rate limited.
    RequeueAfter(Duration),
}
