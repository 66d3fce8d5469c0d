//! Where stored timestamps come from: a wall clock that the owner of the server hands in.
//!
//! Nothing else in the crate reads a wall clock; what waits, waits on `tokio::time`. So a server
//! with a [`WallClock::fixed`] clock, or one that follows a paused tokio clock, gives the same
//! bytes every time.

use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The time that goes into `creationTimestamp` and its like.
#[derive(Clone)]
pub struct WallClock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl WallClock {
    /// The machine's clock: the default.
    pub fn system() -> Self {
        Self(Arc::new(Timestamp::now))
    }

    /// Always the same moment.
    pub fn fixed(moment: Timestamp) -> Self {
        Self(Arc::new(move || moment))
    }

    /// Starts at `moment` and then goes as tokio's clock goes, which a test may have paused.
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

    /// Now, as Kubernetes writes it: whole seconds, in UTC.
    pub(crate) fn now(&self) -> String {
        self.after(0)
    }

    /// Now, as the header `Date` has it.
    pub(crate) fn date(&self) -> String {
        self.0().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
    }

    /// Now, in whole seconds since 1970.
    pub(crate) fn seconds(&self) -> i64 {
        self.0().as_second()
    }

    /// The moment that comes after so many seconds.
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
