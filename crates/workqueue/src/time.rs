//! Time inside of the queue: nanoseconds since the queue was built, in half the bytes of an
//! [`Instant`].

use std::ops::Add;
use std::time::Duration;

use tokio::time::Instant;

/// A time, on the clock of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(u64);

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
        Time(nanoseconds(self.start.elapsed()))
    }

    pub(crate) fn instant(self, time: Time) -> Instant {
        self.start + Duration::from_nanos(time.0)
    }
}

impl Time {
    /// How long it is since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanoseconds(duration)))
    }
}

/// 64 bits are enough for 584 years, and no delay is longer than one hundred.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
