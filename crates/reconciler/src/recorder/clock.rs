//! Where the times in events come from: a wall clock that the owner of the recorder hands in.
//!
//! Nothing else in the recorder reads a wall clock; windows and backoffs go by `tokio::time`.

use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The time that goes into events.
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

    pub(crate) fn now(&self) -> Timestamp {
        (self.0)()
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
