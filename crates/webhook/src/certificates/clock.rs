//! The clocks by which certificates are made, renewed and removed.
//!
//! All replicas have to decide by one clock, or one whose own is wrong would replace what the
//! others serve. The API server's is the one that they share, and the one by which certificates are
//! verified.

use std::sync::Arc;

use jiff::Timestamp;

/// This machine's clock, and the API server's.
#[derive(Clone)]
pub(super) struct Clock {
    pub(super) own: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// `None` as long as it is not known.
    pub(super) server: Arc<dyn Fn() -> Option<Timestamp> + Send + Sync>,
}

/// What the clocks show.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// The API server's time. This machine's if that is not known.
    pub(super) now: Timestamp,
    /// The earlier of both; `None` if the API server's is not known. What has expired before it has
    /// expired for everybody.
    pub(super) certain: Option<Timestamp>,
}

impl Clock {
    pub(super) fn now(&self) -> Timestamp {
        self.times().now
    }

    pub(super) fn times(&self) -> Times {
        Times::of((self.own)(), (self.server)())
    }
}

impl Times {
    pub(super) fn of(own: Timestamp, server: Option<Timestamp>) -> Self {
        Self { now: server.unwrap_or(own), certain: server.map(|server| server.min(own)) }
    }
}
