//! The wall clock of stored timestamps, which the owner of the server passes in.
//!
//! Nothing else in the crate reads a wall clock, and all waiting uses `tokio::time`. So a server
//! with a [`WallClock::fixed`] clock, or one that follows a paused tokio clock, gives the same
//! bytes every time.

use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The clock of `creationTimestamp` and other stored times.
#[derive(Clone)]
pub struct WallClock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl WallClock {
    /// Returns the machine's clock: the default.
    pub fn system() -> Self {
        Self(Arc::new(Timestamp::now))
    }

    /// Returns a clock that always shows `moment`.
    pub fn fixed(moment: Timestamp) -> Self {
        Self(Arc::new(move || moment))
    }

    /// Returns a clock that starts at `moment` and follows tokio's clock, which a test may have
    /// paused.
    pub fn following_tokio(moment: Timestamp) -> Self {
        let start = Instant::now();
        Self(Arc::new(move || {
            let elapsed = SignedDuration::try_from(start.elapsed()).unwrap_or(SignedDuration::MAX);
            moment.saturating_add(elapsed).unwrap_or(Timestamp::MAX)
        }))
    }

    pub(crate) fn timestamp(&self) -> Timestamp {
        self.0()
    }

    /// Returns the current time as Kubernetes writes it: whole seconds, in UTC.
    pub(crate) fn now(&self) -> String {
        self.after(0)
    }

    /// Returns the current time as the header `Date` has it.
    pub(crate) fn date(&self) -> String {
        self.0().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
    }

    /// Returns the current time in whole seconds since 1970.
    pub(crate) fn seconds(&self) -> i64 {
        self.0().as_second()
    }

    /// Returns the time `seconds` from now, as [`Self::now`] writes it.
    pub(crate) fn after(&self, seconds: i64) -> String {
        let moment = self.0().saturating_add(SignedDuration::from_secs(seconds));
        moment.unwrap_or(Timestamp::MAX).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}

impl Default for WallClock {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WallClock({})", self.now())
    }
}
