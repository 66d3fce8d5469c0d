//! Time inside of the queue: nanoseconds since the queue was built, in half the bytes of an
//! [`Instant`].

use std::ops::Add;
use std::time::Duration;

use tokio::time::Instant;

/// A time, on the clock of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(i64);

/// The clock of one queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }

    pub(crate) fn now(self) -> Time {
        let now = Instant::now();
        // A paused clock may be behind the one that the queue was built on.
        match now.checked_duration_since(self.start) {
            Some(after) => Time(nanoseconds(after)),
            None => Time(-nanoseconds(self.start - now)),
        }
    }

    pub(crate) fn instant(self, time: Time) -> Instant {
        let offset = Duration::from_nanos(time.0.unsigned_abs());
        if time.0 < 0 { self.start - offset } else { self.start + offset }
    }
}

impl Time {
    /// How long it is since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanoseconds(duration)))
    }
}

/// 63 bits are enough for 292 years, and no delay is longer than one hundred.
fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
