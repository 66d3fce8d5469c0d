//! The wall clock by which certificates are valid, made and renewed; tests bring their own.

use std::sync::Arc;

use jiff::Timestamp;

/// The wall clock.
#[derive(Clone)]
pub(super) struct Clock(pub(super) Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    pub(super) fn now(&self) -> Timestamp {
        (self.0)()
    }
}
