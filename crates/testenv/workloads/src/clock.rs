//! Where the times come from that are stored in conditions and statuses.
//!
//! A wall clock is read once; from there it goes as tokio's clock goes, which a test may have
//! paused. So what was stored and what is waited for never disagree.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::Instant;

/// Wall time that follows tokio's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Timestamp,
    started: Instant,
}

impl Clock {
    /// It is `start` now.
    pub(crate) fn new(start: Timestamp) -> Self {
        Self { start, started: Instant::now() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.start.saturating_add(self.started.elapsed()).unwrap_or(Timestamp::MAX)
    }
}

/// A moment as it is stored: in whole seconds, so that it compares equal to itself when it is read
/// again.
pub(crate) fn stored(moment: Timestamp) -> Time {
    Time(Timestamp::from_second(moment.as_second()).unwrap_or(moment))
}

/// How long it takes from `now` until so many seconds after `moment` have passed; zero if they
/// have.
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
