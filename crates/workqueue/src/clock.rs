//! Time inside the queue: nanoseconds since the queue was made, on tokio's clock.
//!
//! Eight bytes instead of an `Instant`'s sixteen, for a million slots; and with tokio's clock paused, all
//! of the queue stands still.

use std::time::Duration;

use tokio::time::Instant;

/// Nanoseconds since the queue was made. 64 bits of them last 584 years. The default, zero, also stands for a time that
/// nobody asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(u64);

/// Turns instants into stamps and back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    epoch: Instant,
}

impl Stamp {
    /// The time from `earlier` to here; zero if `earlier` is in truth later, as it may be by the few
    /// nanoseconds between reading a clock and taking a lock.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The stamp `delay` earlier, or `None` if that is before the queue was made.
    pub(crate) fn before(self, delay: Duration) -> Option<Self> {
        self.0.checked_sub(nanos(delay)).map(Self)
    }

    /// The stamp `delay` later. Callers have checked that `delay` is at most
    /// [`MAX_DELAY`](crate::MAX_DELAY), so that it fits.
    pub(crate) fn after(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(nanos(delay)))
    }
}

impl Stamp {
    pub(crate) fn is_known(self) -> bool {
        self != Self::default()
    }

    /// For an atomic, which holds nothing else.
    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    /// Whether this is more than `delay` after the stamp with these bits.
    #[inline]
    pub(crate) fn is_after(self, earlier: u64, delay: Duration) -> bool {
        self > Self(earlier).after(delay)
    }
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { epoch: Instant::now() }
    }

    #[inline]
    pub(crate) fn now(&self) -> Stamp {
        self.stamp(Instant::now())
    }

    #[inline]
    pub(crate) fn stamp(&self, instant: Instant) -> Stamp {
        Stamp::default().after(instant.saturating_duration_since(self.epoch))
    }

    pub(crate) fn instant(&self, stamp: Stamp) -> Instant {
        self.epoch + Duration::from_nanos(stamp.0)
    }
}

/// Saturates at 584 years.
fn nanos(duration: Duration) -> u64 {
    const PER_SECOND: u64 = 1_000_000_000;
    duration.as_secs().saturating_mul(PER_SECOND).saturating_add(duration.subsec_nanos().into())
}
