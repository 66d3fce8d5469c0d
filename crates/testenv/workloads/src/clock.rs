//! The source of the times that are stored in conditions and statuses.
//!
//! The wall clock is read once; from then on time advances with tokio's clock, which a test may
//! have paused. So stored times and timers never disagree.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::Instant;

/// Wall time that follows tokio's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Timestamp,
    started: Instant,
}

impl Clock {
    /// Creates a clock at which it is `start` now.
    pub(crate) fn new(start: Timestamp) -> Self {
        Self { start, started: Instant::now() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.start.saturating_add(self.started.elapsed()).unwrap_or(Timestamp::MAX)
    }
}

/// Returns a moment as it is stored: in whole seconds, so that it compares equal after it is read
/// back.
pub(crate) fn stored(moment: Timestamp) -> Time {
    Time(Timestamp::from_second(moment.as_second()).unwrap_or(moment))
}

/// Returns the time from `now` until `seconds` after `moment`; zero if that has passed.
pub(crate) fn until(now: Timestamp, moment: &Time, seconds: i32) -> Duration {
    let seconds = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let end = moment.0.saturating_add(seconds).unwrap_or(Timestamp::MAX);
    Duration::try_from(end.duration_since(now)).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_until_is_zero_once_it_has_passed() {
        let moment = Timestamp::from_second(1000).expect("a time");
        let at = |second| Timestamp::from_second(second).expect("a time");
        assert_eq!(until(at(1002), &Time(moment), 5), Duration::from_secs(3));
        assert_eq!(until(at(1005), &Time(moment), 5), Duration::ZERO);
        assert_eq!(until(at(2000), &Time(moment), 5), Duration::ZERO);
    }
}
